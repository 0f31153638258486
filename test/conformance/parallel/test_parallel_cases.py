"""Unusual and ill-behaved parallel programs: the right result, or a clear error on every rank, within bounded time.

Most launches run several cases, one after the other; see parallel_case_runs.py.
"""

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from connector_environment import bytes_staged, native, plugin_folder, staged, statistics
from mounts import unmount
from parallel_case_runs import (
    CASES,
    IN_TURN,
    RANKS,
    SECONDS_MAX,
    STAGING_NOTHING,
    Cases,
    assert_all_same,
    assert_same,
    facts,
    run_case,
    run_cases,
)
from parallel_comparison import assert_same_contents
from parallel_environment import (
    BUILD,
    MPI,
    PROGRAMS,
    Launch,
    asides_by_reason,
    assert_staged,
    launch,
    launcher,
    node_names,
    process_lines,
    program,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def staged_cases(tmp_path_factory):
    """All cases on these nodes, in one launch, and the folder of its statistics."""

    @functools.cache
    def run(nodes: int, crash: str) -> tuple[Cases, Path]:
        folder = tmp_path_factory.mktemp(f"staged-cases-{nodes}-{crash}")
        environment = {**staged(folder), "FOREBAY_NODES": crash}
        return run_cases(CASES, environment, folder / "run", node_names(RANKS, nodes)), folder

    return run


@pytest.mark.parametrize(("nodes", "crash"), [(1, "fast"), (2, "fast"), (2, "consistent")])
@pytest.mark.parametrize("case", CASES)
def test_unusual_programs_see_the_same(case, nodes, crash, native_cases, staged_cases):
    through, folder = staged_cases(nodes, crash)
    assert_same(case, through, native_cases())
    if case not in STAGING_NOTHING:
        assert through.staged_bytes(case, statistics(folder)) > 0, through.done.told()


@pytest.mark.check
def test_every_rank_stages_and_leaves_nothing(staged_cases):
    through, folder = staged_cases(1, "fast")
    assert through.done.returncode == 0, through.done.told()
    assert_staged(folder, RANKS)
    assert [entry for entry in statistics(folder) if entry["pending"]] == []


@pytest.mark.check
def test_collective_transfers_come_one_after_the_other(native_cases, tmp_path):
    through = run_cases(IN_TURN, staged(tmp_path), tmp_path / "run")
    assert_all_same(IN_TURN, through, native_cases(), tmp_path)
    for case in IN_TURN:
        files = through.files(case, statistics(tmp_path))
        assert len(files) == RANKS and all(entry["staged"] > 0 for entry in files), files
    assert_staged(tmp_path, RANKS)


@pytest.mark.check
@pytest.mark.parametrize("nodes", [1, 2])
def test_atomic_mode_ends_the_staging_for_good(nodes, native_cases, staged_cases):
    through, folder = staged_cases(nodes, "fast")
    assert_same("atomic", through, native_cases())
    files = through.files("atomic", statistics(folder))
    assert len(files) == RANKS and all(set(entry["reasons"]) == {"atomicity"} for entry in files), files
    row = 2 << 20
    # Each rank has written its row four times: once before, which may bypass the log on a target at memory speed, and
    # three times in atomic mode.
    staged_bytes, through_bytes = (sum(entry[what] for entry in files) for what in ("staged", "through"))
    assert staged_bytes > 0 and through_bytes >= 3 * RANKS * row and staged_bytes + through_bytes >= 4 * RANKS * row


SECOND_OPEN = "H5Fopen(path, H5F_ACC_RDWR, second_access)"


def test_a_file_opened_twice_through_ranks_in_another_order_is_refused_the_second_time(native_cases, tmp_path):
    """Natively that works as long as the second handle only moves raw data. With forebay the first one goes on."""
    case = "twice-through-reordered"
    plain = native_cases().of(case)
    done = run_case(case, staged(tmp_path), tmp_path / "run")
    assert done.hung is None and done.returncode != 0 and "WRONG DATA" not in done.stdout, done.told()
    assert [line for line in facts(done) if line.endswith(": failed")] == [
        f"rank {rank}: {SECOND_OPEN}: failed" for rank in range(RANKS)
    ], done.told()
    for rank in range(RANKS):
        assert f"rank {rank}: {SECOND_OPEN}: ok" in plain.facts
        # What the second handle would have written is not there, and the first one's writes are.
        row = (rank + 1) % RANKS
        assert {
            f"rank {rank}: row {row}, version 4: right",
            f"rank {rank}: row {RANKS + row}, version 1: right",
        } <= set(facts(done)), done.told()
    assert_refusal_is_clear(done, tmp_path / "run" / f"{case}.h5", of_this_process=True)
    assert_staged(tmp_path, RANKS)


MEETING = ("plain", "duplicated", "reordered", "freed-early", "twice-through-one", "many-files", "atomic")


@pytest.mark.check
@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_that_meet_after_every_collective_call_see_the_same(nodes, native_cases, tmp_path):
    through = run_cases(
        MEETING,
        staged(tmp_path),
        tmp_path / "run",
        node_names(RANKS, nodes),
        preload=(PROGRAMS / "barrier_interposer.so",),
    )
    assert_all_same(MEETING, through, native_cases(), tmp_path)


def test_forebay_run_reports_success_for_several_ranks(tmp_path):
    area = tmp_path / "staging-area"
    area.mkdir()
    command = [
        BUILD / "bin" / "forebay",
        "run",
        "-o",
        f"nls={area}",
        "--",
        *launcher(),
        "-n",
        str(RANKS),
        program("parallel_cases"),
        "plain",
    ]
    done = subprocess.run(
        [str(word) for word in command],
        env=native(HDF5_PLUGIN_PATH=""),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


# ---- ranks that are not alike ------------------------------------------------------------------------

BOTH = ("plain", "reordered")


def assert_refused(done: Launch) -> None:
    """Every rank was told that something failed. No rank died or got wrong data."""
    assert done.hung is None and done.returncode != 0, done.told()
    assert "WRONG DATA" not in done.stdout and "BAD TERMINATION" not in done.stdout, done.told()
    for rank in range(RANKS):
        assert re.search(rf"^rank {rank}: .*: failed$", done.stdout, re.MULTILINE), (
            f"rank {rank} was not told: {done.told()}"
        )
    assert "forebay" in done.stderr, done.told()


def on_rank(which: int, **variables: str) -> list[dict[str, str]]:
    return [variables if rank == which else {} for rank in range(RANKS)]


# How many files each rank opens, or makes.
OPENED = {"plain": 2, "reordered": 2, "freed-early": 1, "many-files": 5, "refused-opens": 1}
# The expected result: every rank stages; or none does, and the ranks count these reasons; or all ranks fail to open.
STAGED, REFUSED = "staged", "refused"
UNLIKE = {
    "one-writes-small-pieces": (on_rank(1, FOREBAY_SIZE="4MiB", FOREBAY_STRIPE="4KiB"), STAGED),
    "one-has-a-tiny-log": (on_rank(0, FOREBAY_SIZE="1MiB"), STAGED),
    "one-writes-through-when-full": (on_rank(2, FOREBAY_SIZE="1MiB", FOREBAY_FULL="through"), STAGED),
    "one-flush-drains": (on_rank(1, FOREBAY_FLUSH="drain"), STAGED),
    "one-does-not-stage": (on_rank(1, FOREBAY_STAGE="off"), {"mpi", "disabled"}),
    "first-does-not-stage": (on_rank(0, FOREBAY_STAGE="off"), {"mpi", "disabled"}),
    "one-misspells-an-option": (on_rank(2, FOREBAY_SICE="1GiB"), {"mpi", "bad_option"}),
    "one-has-a-bad-value": (on_rank(0, FOREBAY_SIZE="much"), {"mpi", "bad_option"}),
    "one-leaves-mpi-alone": (on_rank(1, FOREBAY_MPI="off"), {"mpi"}),
    "one-has-no-staging-path": (on_rank(1, FOREBAY_NLS="/nowhere/at/all"), {"mpi", "staging_area"}),
    "first-has-no-staging-path": (on_rank(0, FOREBAY_NLS="/nowhere/at/all"), {"mpi", "staging_area"}),
    "all-name-a-staging-server": ([{"FOREBAY_SERVER": "unix:/nowhere"}] * RANKS, {"server"}),
    "one-names-a-staging-server": (on_rank(1, FOREBAY_SERVER="unix:/nowhere"), {"mpi", "server"}),
    "one-misspells-an-option-and-is-strict": (on_rank(1, FOREBAY_SICE="1GiB", FOREBAY_STRICT="on"), REFUSED),
    "last-has-no-staging-path-and-is-strict": (
        on_rank(RANKS - 1, FOREBAY_NLS="/nowhere/at/all", FOREBAY_STRICT="on"),
        REFUSED,
    ),
    "first-has-no-staging-path-and-is-strict": (
        on_rank(0, FOREBAY_NLS="/nowhere/at/all", FOREBAY_STRICT="on"),
        REFUSED,
    ),
}


@pytest.mark.parametrize("how", UNLIKE)
def test_ranks_with_different_options(how, native_cases, tmp_path):
    variables, expected = UNLIKE[how]
    through = run_cases(BOTH, staged(tmp_path), tmp_path / "run", variables)
    if expected == REFUSED:
        assert_refused(through.done)
        for case in BOTH:
            assert set(through.of(case).statuses.values()) == {1}, through.done.told()
            assert {line.split(":")[0] for line in through.of(case).facts if line.endswith(": failed")} == {
                f"rank {rank}" for rank in range(RANKS)
            }, through.done.told()
        assert "strict" in through.done.stderr, through.done.told()
        assert bytes_staged(tmp_path) == 0
        return
    assert_all_same(BOTH, through, native_cases(), tmp_path if expected == STAGED else None)
    if expected == STAGED:
        assert_staged(tmp_path, RANKS)
        for case in BOTH:
            files = through.files(case, statistics(tmp_path))
            assert len(files) == RANKS and all(entry["staged"] > 0 for entry in files), files
        return
    assert bytes_staged(tmp_path) == 0
    assert asides_by_reason(tmp_path).keys() == expected
    counts = [sum(line["aside"].values()) for line in process_lines(tmp_path)]
    assert len(counts) == RANKS and len(set(counts)) == 1 and counts[0] == sum(OPENED[case] for case in BOTH), counts


def test_ranks_with_staging_areas_of_their_own(native_cases, tmp_path):
    cases = (*BOTH, "twice-through-two")
    areas = [tmp_path / f"area-{rank}" for rank in range(RANKS)]
    for area in areas:
        area.mkdir()
    through = run_cases(cases, staged(tmp_path), tmp_path / "run", [{"FOREBAY_NLS": str(area)} for area in areas])
    assert_all_same(cases, through, native_cases(), tmp_path)
    assert_staged(tmp_path, RANKS)
    for area in areas:  # each was used, and nothing is left in it
        assert list(area.glob("forebay-*")) != []
        assert [path for path in area.rglob("*") if path.is_file() and path.stat().st_size > 0] == []


# ---- programs without MPI, and ranks that die ----------------------------------------------------------


def test_programs_without_mpi_under_mpiexec(tmp_path):
    plain = launch([program("parallel_cases"), "serial"], native(), tmp_path / "plain", RANKS, SECONDS_MAX)
    done = launch([program("parallel_cases"), "serial"], staged(tmp_path), tmp_path / "run", RANKS, SECONDS_MAX)
    assert done.hung is None and done.returncode == plain.returncode == 0, done.told()
    assert facts(done) == facts(plain) != []
    assert_same_contents(tmp_path / "plain", tmp_path / "run")
    assert len([line for line in process_lines(tmp_path) if line["files_staged"] > 0]) == RANKS
    assert bytes_staged(tmp_path) > 0


@pytest.mark.parametrize("case", ["killed", "killed-before-close", "aborted"])
def test_the_death_of_a_rank_ends_the_others_and_the_next_run_is_right(case, native_cases, tmp_path):
    environment = staged(tmp_path)
    died = run_case(case, environment, tmp_path / "run")
    assert died.hung is None, died.told()
    assert died.returncode != 0
    left = list((tmp_path / "staging-area").glob("forebay-*/[0-9]*"))
    assert left, "the dead ranks have staged nothing"
    # What the dead have left on the staging area is in nobody's way.
    done = run_case("plain", environment, tmp_path / "again")
    assert done.hung is None and done.returncode == 0 and facts(done) == native_cases().of("plain").facts, done.told()
    assert_same_contents(native_cases().folder / "plain", tmp_path / "again")
    assert bytes_staged(tmp_path) > 0


# ---- an MPI that forebay has no library for ------------------------------------------------------------


def missing(library: Path) -> None:
    """Nothing is there."""


def unreadable(library: Path) -> None:
    library.write_bytes(b"no library at all")


def foreign(library: Path) -> None:
    """A library that loads, and is none of forebay's."""
    shutil.copy(PROGRAMS / "yielding_progress.so", library)


@pytest.mark.parametrize("library", [missing, unreadable, foreign])
def test_without_a_library_for_this_mpi_files_are_left_to_mpio(library, native_cases, tmp_path):
    case = "serial-beside-shared"
    for folder in ("plugins", "lib"):
        (tmp_path / folder).mkdir()
    shutil.copy(plugin_folder() / "libforebay_vol.so", tmp_path / "plugins")
    library(tmp_path / "lib" / f"libforebay_mpi_{MPI}.so")
    done = run_case(case, staged(tmp_path, HDF5_PLUGIN_PATH=str(tmp_path / "plugins")), tmp_path / "run")
    assert done.hung is None and done.returncode == 0 and facts(done) == native_cases().of(case).facts, done.told()
    assert_same_contents(native_cases().folder / case, tmp_path / "run")
    warnings = [line for line in done.stderr.splitlines() if "files opened with MPI are not staged: " in line]
    assert len(warnings) == RANKS and all("libforebay_mpi_" in line for line in warnings), done.told()
    # Counted, on every rank; the serial files beside them are staged all the same.
    assert asides_by_reason(tmp_path).keys() == {"mpi"}
    assert all(line["aside"]["mpi"] > 0 and line["files_staged"] > 0 for line in process_lines(tmp_path))
    assert bytes_staged(tmp_path) > 0


# ---- two groups of ranks and one file ---------------------------------------------------------------------

GROUPS = 4  # ranks, half of them in either group


def by_group(done: Launch, what: str) -> dict[int, str]:
    """The outcome of something on the even ranks (0) and the odd ranks (1). All ranks of a group have to agree."""
    told: dict[int, set[str]] = {}
    for rank, outcome in re.findall(rf"^rank (\d+): {what}: (\w+)$", done.stdout, re.MULTILINE):
        told.setdefault(int(rank) % 2, set()).add(outcome)
    assert told and all(len(outcomes) == 1 for outcomes in told.values()), done.told()
    return {group: outcomes.pop() for group, outcomes in told.items()}


def assert_refusal_is_clear(done: Launch, path: Path, of_this_process: bool = False) -> None:
    who = r"\s" if of_this_process else r", by process \d+ of this machine"
    assert re.search(
        rf"open {re.escape(str(path))}: it is open for writing already, through another communicator{who}", done.stderr
    ), done.told()


@pytest.fixture(scope="module")
def native_groups(tmp_path_factory) -> Path:
    """The folder of what two groups leave natively: there the second one may open the file."""
    folder = tmp_path_factory.mktemp("native-groups")
    plain = launch([program("parallel_cases"), "two-groups"], native(), folder, GROUPS, SECONDS_MAX)
    assert plain.returncode == 0 and by_group(plain, "while others have it open") == {1: "opened"}, plain.told()
    return folder


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_second_group_that_writes_is_refused_until_the_first_has_closed(nodes, native_groups, tmp_path):
    command = [program("parallel_cases"), "two-groups"]
    done = launch(command, staged(tmp_path), tmp_path / "run", GROUPS, SECONDS_MAX, node_names(GROUPS, nodes))
    assert done.hung is None and done.returncode == 0, done.told()
    assert by_group(done, "while others have it open") == {1: "refused"}
    assert "failed" not in done.stdout and "WRONG DATA" not in done.stdout, done.told()
    assert_refusal_is_clear(done, tmp_path / "run" / "two-groups.h5")
    assert_same_contents(native_groups, tmp_path / "run")
    assert bytes_staged(tmp_path) > 0
    assert list((tmp_path / "staging-area").rglob("claims/*")) == []


@pytest.fixture(scope="module")
def more_groups(tmp_path_factory) -> tuple[Cases, Path]:
    """Two groups that open a file at once, and two of which the second would empty it."""
    folder = tmp_path_factory.mktemp("groups")
    cases = ("two-groups-at-once", "two-groups-truncate")
    return run_cases(cases, staged(folder), folder / "run", ranks=GROUPS), folder


def assert_one_group_is_refused(case: str, through: Cases, folder: Path) -> None:
    assert set(through.of(case).statuses.values()) == {0} and "WRONG DATA" not in through.done.stdout, (
        through.done.told()
    )
    assert_refusal_is_clear(through.done, through.folder / case / f"{case}.h5")
    assert through.staged_bytes(case, statistics(folder)) > 0, through.done.told()


def test_of_two_groups_that_open_at_once_one_is_refused(more_groups):
    through, folder = more_groups
    assert_one_group_is_refused("two-groups-at-once", through, folder)
    rounds = len(re.findall(r"^rank 0: round \d+: ", through.done.stdout, re.MULTILINE))
    assert rounds > 0
    for number in range(rounds):
        assert sorted(by_group(through.done, f"round {number}").values()) == ["opened", "refused"], through.done.told()


def test_a_second_group_does_not_empty_what_the_first_one_writes(more_groups):
    through, folder = more_groups
    assert_one_group_is_refused("two-groups-truncate", through, folder)
    assert by_group(through.done, "emptying it") == {1: "refused"}


# ---- a staging device without room -----------------------------------------------------------------------


@pytest.fixture
def small_device(tmp_path):
    """A staging area that has room for the logs of some ranks, but not of all."""
    area = tmp_path / "staging-area"
    area.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=67m,mode=0700", "forebay-test", area], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    (area / FILLER).write_bytes(bytes((64 << 20) + (256 << 10)))  # leaves 2.75 segments
    yield area
    unmount(area)


FILLER = "what-somebody-else-has-there"
ONE_LOG = {"FOREBAY_SIZE": "64MiB"}


def test_a_device_with_room_for_some_ranks_only(small_device, native_cases, tmp_path):
    cases = ("plain", "reordered", "many-files", "atomic")
    through = run_cases(cases, staged(tmp_path, **ONE_LOG), tmp_path / "run")
    assert_all_same(cases, through, native_cases())
    assert bytes_staged(tmp_path) == 0
    for case in cases:
        files = through.files(case, statistics(tmp_path))
        assert files and {entry["reasons"][0] for entry in files} == {"staging_area"}, files
        assert re.search(rf"/{case}/.*no rank stages the file", through.done.stderr), through.done.told()
    # One line for each rank and file that it opens for writing.
    assert through.done.stderr.count("forebay:") <= RANKS * (1 + 1 + 5 + 1)
    assert [path.name for path in small_device.rglob("*") if path.is_file()] == [FILLER]


def test_a_device_with_room_for_some_ranks_only_and_strict(small_device, tmp_path):
    done = run_case("plain", staged(tmp_path, FOREBAY_STRICT="on", **ONE_LOG), tmp_path / "run")
    assert_refused(done)
    assert "No space left on device" in done.stderr and bytes_staged(tmp_path) == 0


# ---- a rank without the connector ----------------------------------------------------------------------


def without_connector(*lacking: int) -> dict[int, list[str]]:
    # Nor the folder of plugins: when an open fails HDF5 looks there, on such ranks alone, for another connector.
    return {rank: ["env", "-u", "HDF5_VOL_CONNECTOR", "-u", "HDF5_PLUGIN_PATH"] for rank in lacking}


@pytest.mark.parametrize(("ranks", "lacking"), [(2, 0), (2, 1), (3, 0), (3, 1)])
def test_a_rank_that_was_started_without_the_connector(ranks, lacking, native_cases, tmp_path):
    cases = tuple(OPENED)
    through = run_cases(cases, staged(tmp_path), tmp_path / "run", ranks=ranks, before_rank=without_connector(lacking))
    assert_all_same(cases, through, native_cases() if ranks == RANKS else native_cases(cases, ranks))
    with_it = 1 if lacking == 0 else 0
    told = [line for line in through.done.stderr.splitlines() if "forebay" in line]
    assert told == [
        f"forebay: rank {lacking} was started without HDF5_VOL_CONNECTOR=forebay, rank {with_it} with it: "
        "files that they open together with MPI are not staged"
    ], through.done.told()
    processes = process_lines(tmp_path)
    assert len(processes) == ranks - 1 and all(process["files_staged"] == 0 for process in processes)
    assert asides_by_reason(tmp_path) == {"mpi": (ranks - 1) * sum(OPENED.values())}


@pytest.mark.parametrize(("cases", "lacking"), [(("some-ranks", "each-alone"), 0), (("split", "each-alone"), 1)])
def test_files_that_a_rank_without_the_connector_has_no_part_in_are_staged(cases, lacking, native_cases, tmp_path):
    through = run_cases(cases, staged(tmp_path), tmp_path / "run", before_rank=without_connector(lacking))
    assert_all_same(cases, through, native_cases(), tmp_path)
    assert "was started without" not in through.done.stderr
    assert len(process_lines(tmp_path)) == RANKS - 1
    assert all(process["files_staged"] > 0 for process in process_lines(tmp_path))
