"""Unusual and ill-behaved parallel programs: the right result, or a clear error on every rank, within bounded time."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from connector_environment import bytes_staged, native, plugin_folder, staged, statistics
from parallel_comparison import assert_same_contents
from parallel_environment import (
    BUILD,
    MPI,
    Launch,
    asides_by_reason,
    assert_staged,
    launch,
    launcher,
    node_names,
    process_lines,
    program,
    PROGRAMS,
)

pytestmark = pytest.mark.slow

RANKS = 3
SECONDS_MAX = 240
CASES = (
    "plain",
    "duplicated",
    "split",
    "reordered",
    "some-ranks",
    "each-alone",
    "freed-early",
    "anew-while-open",
    "twice-through-one",
    "twice-through-two",
    "many-files",
    "serial-beside-shared",
    "serial-then-shared",
    "atomic",
    "read-in-turn",
    "refused-opens",
    "forgotten",
)
STAGING_NOTHING = {"refused-opens"}


def run_case(case: str, environment: dict[str, str], folder, per_rank=None, preload=()) -> Launch:
    return launch([program("parallel_cases"), case], environment, folder, RANKS, SECONDS_MAX, per_rank, preload)


def facts(done: Launch) -> list[str]:
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))


@pytest.fixture(scope="session")
def native_case(tmp_path_factory):
    """What a case does natively; each is run once."""
    known = {}

    def run(case: str):
        if case not in known:
            folder = tmp_path_factory.mktemp(f"native-{case}")
            done = run_case(case, native(), folder)
            assert done.hung is None and done.returncode == 0 and "WRONG" not in done.stdout and facts(done), (
                done.told()
            )
            known[case] = done, folder
        return known[case]

    return run


@pytest.mark.parametrize(("nodes", "crash"), [(1, "fast"), (2, "fast"), (2, "consistent")])
@pytest.mark.parametrize("case", CASES)
def test_unusual_programs_see_the_same(case, nodes, crash, native_case, tmp_path):
    plain, plain_folder = native_case(case)
    environment = {**staged(tmp_path), "FOREBAY_NODES": crash}
    done = run_case(case, environment, tmp_path / "run", node_names(RANKS, nodes))
    assert done.hung is None, done.told()
    assert facts(done) == facts(plain), done.told()
    assert done.returncode == plain.returncode, done.told()
    assert_same_contents(plain_folder, tmp_path / "run")
    if case not in STAGING_NOTHING:
        assert bytes_staged(tmp_path) > 0


@pytest.mark.check
@pytest.mark.parametrize("case", ["read-in-turn", "written-in-turn", "differing-in-turn"])
def test_collective_transfers_come_one_after_the_other(case, native_case, tmp_path):
    plain, plain_folder = native_case(case)
    done = run_case(case, staged(tmp_path), tmp_path / "run")
    assert done.hung is None and done.returncode == 0 and facts(done) == facts(plain), done.told()
    assert_same_contents(plain_folder, tmp_path / "run")
    assert_staged(tmp_path, RANKS)


@pytest.mark.check
@pytest.mark.parametrize("nodes", [1, 2])
def test_atomic_mode_ends_the_staging_for_good(nodes, native_case, tmp_path):
    plain, plain_folder = native_case("atomic")
    done = run_case("atomic", staged(tmp_path), tmp_path / "run", node_names(RANKS, nodes))
    assert done.hung is None and facts(done) == facts(plain), done.told()
    assert_same_contents(plain_folder, tmp_path / "run")
    files = statistics(tmp_path)
    assert len(files) == RANKS and all(set(entry["reasons"]) == {"atomicity"} for entry in files), files
    row = 2 << 20
    # Each rank has written its row four times: once before, which may bypass the log on a target at memory speed, and
    # three times in atomic mode.
    staged_bytes, through = (sum(entry[what] for entry in files) for what in ("staged", "through"))
    assert staged_bytes > 0 and through >= 3 * RANKS * row and staged_bytes + through >= 4 * RANKS * row


def test_a_file_opened_twice_through_ranks_in_another_order(native_case, tmp_path):
    """Natively that works as long as the second handle only moves raw data; forebay may refuse it."""
    plain, _ = native_case("twice-through-reordered")
    done = run_case("twice-through-reordered", staged(tmp_path), tmp_path / "run")
    assert_right_or_refused(done, plain)
    assert bytes_staged(tmp_path) > 0


@pytest.mark.check
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(
    "case", ["plain", "duplicated", "reordered", "freed-early", "twice-through-one", "many-files", "atomic"]
)
def test_ranks_that_meet_after_every_collective_call_see_the_same(case, nodes, native_case, tmp_path):
    plain, plain_folder = native_case(case)
    done = run_case(
        case,
        staged(tmp_path),
        tmp_path / "run",
        node_names(RANKS, nodes),
        preload=(PROGRAMS / "barrier_interposer.so",),
    )
    assert done.hung is None and facts(done) == facts(plain), done.told()
    assert_same_contents(plain_folder, tmp_path / "run")
    assert bytes_staged(tmp_path) > 0


@pytest.mark.check
def test_every_rank_stages_and_leaves_nothing(tmp_path):
    done = run_case("plain", staged(tmp_path), tmp_path / "run")
    assert done.returncode == 0, done.told()
    assert_staged(tmp_path, RANKS)
    assert [entry for entry in statistics(tmp_path) if entry["pending"]] == []


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


def assert_right_or_refused(done: Launch, plain: Launch) -> None:
    """All ranks were right, or every one of them was told that something failed; nobody died or got wrong data."""
    assert done.hung is None, done.told()
    assert "WRONG DATA" not in done.stdout and "BAD TERMINATION" not in done.stdout, done.told()
    if facts(done) == facts(plain):
        assert done.returncode == 0, done.told()
        return
    for rank in range(RANKS):
        assert re.search(rf"^rank {rank}: .*: failed$", done.stdout, re.MULTILINE), (
            f"rank {rank} was not told: {done.told()}"
        )
    assert "forebay" in done.stderr and done.returncode != 0, done.told()


def on_rank(which: int, **variables: str) -> list[dict[str, str]]:
    return [variables if rank == which else {} for rank in range(RANKS)]


# The expected result: every rank stages; or none does, and the ranks count these reasons; or all ranks fail to open.
STAGED, REFUSED = "staged", "refused"
UNLIKE = {
    "one-writes-small-pieces": (on_rank(1, FOREBAY_WRITE_MAX="4KiB", FOREBAY_STRIPE="4KiB"), STAGED),
    "one-has-a-tiny-log": (on_rank(0, FOREBAY_SIZE="1MiB", FOREBAY_SEGMENT="64KiB", FOREBAY_RESERVE="0"), STAGED),
    "one-writes-through-when-full": (
        on_rank(2, FOREBAY_SIZE="1MiB", FOREBAY_SEGMENT="64KiB", FOREBAY_RESERVE="0", FOREBAY_FULL="through"),
        STAGED,
    ),
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


@pytest.mark.parametrize("case", ["plain", "reordered"])
@pytest.mark.parametrize("how", UNLIKE)
def test_ranks_with_different_options(how, case, native_case, tmp_path):
    plain, plain_folder = native_case(case)
    variables, expected = UNLIKE[how]
    done = run_case(case, staged(tmp_path), tmp_path / "run", variables)
    if expected == REFUSED:
        assert_right_or_refused(done, plain)
        assert done.returncode != 0 and "strict" in done.stderr, done.told()
        assert bytes_staged(tmp_path) == 0
        return
    assert done.hung is None and done.returncode == 0 and facts(done) == facts(plain), done.told()
    assert_same_contents(plain_folder, tmp_path / "run")
    if expected == STAGED:
        assert_staged(tmp_path, RANKS)
        return
    assert bytes_staged(tmp_path) == 0
    assert asides_by_reason(tmp_path).keys() == expected
    counts = [sum(line["aside"].values()) for line in process_lines(tmp_path)]
    assert len(counts) == RANKS and len(set(counts)) == 1 and counts[0] > 0, "every rank counts each of its files once"


@pytest.mark.parametrize("case", ["plain", "reordered", "twice-through-two"])
def test_ranks_with_staging_areas_of_their_own(case, native_case, tmp_path):
    plain, plain_folder = native_case(case)
    areas = [tmp_path / f"area-{rank}" for rank in range(RANKS)]
    for area in areas:
        area.mkdir()
    done = run_case(case, staged(tmp_path), tmp_path / "run", [{"FOREBAY_NLS": str(area)} for area in areas])
    assert_right_or_refused(done, plain)
    if done.returncode == 0:
        assert_same_contents(plain_folder, tmp_path / "run")


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
def test_the_death_of_a_rank_ends_the_others_and_the_next_run_is_right(case, native_case, tmp_path):
    environment = staged(tmp_path)
    died = run_case(case, environment, tmp_path / "run")
    assert died.hung is None, died.told()
    assert died.returncode != 0
    # What the dead have left on the staging area is in nobody's way.
    plain, plain_folder = native_case("plain")
    done = run_case("plain", environment, tmp_path / "again")
    assert done.hung is None and done.returncode == 0 and facts(done) == facts(plain), done.told()
    assert_same_contents(plain_folder, tmp_path / "again")
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
def test_without_a_library_for_this_mpi_files_are_left_to_mpio(library, native_case, tmp_path):
    plain, plain_folder = native_case("serial-beside-shared")
    for folder in ("plugins", "lib"):
        (tmp_path / folder).mkdir()
    shutil.copy(plugin_folder() / "libforebay_vol.so", tmp_path / "plugins")
    library(tmp_path / "lib" / f"libforebay_mpi_{MPI}.so")
    done = run_case(
        "serial-beside-shared", staged(tmp_path, HDF5_PLUGIN_PATH=str(tmp_path / "plugins")), tmp_path / "run"
    )
    assert done.hung is None and done.returncode == 0 and facts(done) == facts(plain), done.told()
    assert_same_contents(plain_folder, tmp_path / "run")
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


def assert_refusal_is_clear(done: Launch, path: Path) -> None:
    assert re.search(
        rf"open {re.escape(str(path))}: it is open for writing already, through another communicator, "
        r"by process \d+ of this machine",
        done.stderr,
    ), done.told()


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_second_group_that_writes_is_refused_until_the_first_has_closed(nodes, tmp_path):
    command = [program("parallel_cases"), "two-groups"]
    plain = launch(command, native(), tmp_path / "native", GROUPS, SECONDS_MAX)
    assert plain.returncode == 0 and by_group(plain, "while others have it open") == {1: "opened"}, plain.told()
    done = launch(command, staged(tmp_path), tmp_path / "run", GROUPS, SECONDS_MAX, node_names(GROUPS, nodes))
    assert done.hung is None and done.returncode == 0, done.told()
    assert by_group(done, "while others have it open") == {1: "refused"}
    assert "failed" not in done.stdout and "WRONG DATA" not in done.stdout, done.told()
    assert_refusal_is_clear(done, tmp_path / "run" / "two-groups.h5")
    assert_same_contents(tmp_path / "native", tmp_path / "run")
    assert bytes_staged(tmp_path) > 0
    assert list((tmp_path / "staging-area").rglob("claims/*")) == []


def test_of_two_groups_that_open_at_once_one_is_refused(tmp_path):
    done = launch(
        [program("parallel_cases"), "two-groups-at-once"], staged(tmp_path), tmp_path / "run", GROUPS, SECONDS_MAX
    )
    assert done.hung is None and done.returncode == 0 and "WRONG DATA" not in done.stdout, done.told()
    rounds = len(re.findall(r"^rank 0: round \d+: ", done.stdout, re.MULTILINE))
    assert rounds > 0
    for number in range(rounds):
        assert sorted(by_group(done, f"round {number}").values()) == ["opened", "refused"], done.told()
    assert_refusal_is_clear(done, tmp_path / "run" / "two-groups-at-once.h5")
    assert bytes_staged(tmp_path) > 0


def test_a_second_group_does_not_empty_what_the_first_one_writes(tmp_path):
    done = launch(
        [program("parallel_cases"), "two-groups-truncate"], staged(tmp_path), tmp_path / "run", GROUPS, SECONDS_MAX
    )
    assert done.hung is None and done.returncode == 0 and "WRONG DATA" not in done.stdout, done.told()
    assert by_group(done, "emptying it") == {1: "refused"}
    assert_refusal_is_clear(done, tmp_path / "run" / "two-groups-truncate.h5")


# ---- a staging device without room -----------------------------------------------------------------------


@pytest.fixture
def small_device(tmp_path):
    """A staging area that has room for the logs of some ranks, but not of all."""
    area = tmp_path / "staging-area"
    area.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=11m,mode=0700", "forebay-test", area], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    yield area
    subprocess.run(["umount", area], check=True)


ONE_LOG = {"FOREBAY_SEGMENT": "4MiB", "FOREBAY_SIZE": "8MiB", "FOREBAY_RESERVE": "0"}


@pytest.mark.parametrize("case", ["plain", "reordered", "many-files", "atomic"])
def test_a_device_with_room_for_some_ranks_only(case, small_device, native_case, tmp_path):
    plain, plain_folder = native_case(case)
    done = run_case(case, staged(tmp_path, **ONE_LOG), tmp_path / "run")
    assert done.hung is None and done.returncode == 0, done.told()
    assert facts(done) == facts(plain), done.told()
    assert_same_contents(plain_folder, tmp_path / "run")
    assert bytes_staged(tmp_path) == 0
    assert {tuple(entry["reasons"])[0] for entry in statistics(tmp_path)} == {"staging_area"}
    assert "no rank stages the file" in done.stderr and done.stderr.count("forebay:") <= RANKS * (
        5 if case == "many-files" else 1
    )
    assert [path.name for path in small_device.rglob("*") if path.is_file()] == []


def test_a_device_with_room_for_some_ranks_only_and_strict(small_device, native_case, tmp_path):
    plain, _ = native_case("plain")
    done = run_case("plain", staged(tmp_path, FOREBAY_STRICT="on", **ONE_LOG), tmp_path / "run")
    assert_right_or_refused(done, plain)
    assert done.returncode != 0 and "No space left on device" in done.stderr


# ---- a rank without the connector ----------------------------------------------------------------------


def without_connector(*lacking: int) -> dict[int, list[str]]:
    # Nor the folder of plugins: when an open fails HDF5 looks there, on such ranks alone, for another connector.
    return {rank: ["env", "-u", "HDF5_VOL_CONNECTOR", "-u", "HDF5_PLUGIN_PATH"] for rank in lacking}


# How many files each rank opens, or makes.
OPENED = {"plain": 2, "reordered": 2, "freed-early": 1, "many-files": 5, "refused-opens": 1}


@pytest.mark.parametrize("case", OPENED)
@pytest.mark.parametrize(("ranks", "lacking"), [(2, 0), (2, 1), (3, 0), (3, 1)])
def test_a_rank_that_was_started_without_the_connector(ranks, lacking, case, tmp_path):
    command = [program("parallel_cases"), case]
    plain = launch(command, native(), tmp_path / "native", ranks, SECONDS_MAX)
    done = launch(
        command, staged(tmp_path), tmp_path / "run", ranks, SECONDS_MAX, before_rank=without_connector(lacking)
    )
    assert done.hung is None and done.returncode == plain.returncode, done.told()
    assert facts(done) == facts(plain) != [], done.told()
    assert_same_contents(tmp_path / "native", tmp_path / "run")
    with_it = 1 if lacking == 0 else 0
    told = [line for line in done.stderr.splitlines() if "forebay" in line]
    assert told == [
        f"forebay: rank {lacking} was started without HDF5_VOL_CONNECTOR=forebay, rank {with_it} with it: "
        "files that they open together with MPI are not staged"
    ], done.told()
    processes = process_lines(tmp_path)
    assert len(processes) == ranks - 1 and all(process["files_staged"] == 0 for process in processes)
    assert asides_by_reason(tmp_path) == {"mpi": (ranks - 1) * OPENED[case]}


@pytest.mark.parametrize("case", ["some-ranks", "each-alone", "split"])
def test_files_that_a_rank_without_the_connector_has_no_part_in_are_staged(case, tmp_path):
    command = [program("parallel_cases"), case]
    plain = launch(command, native(), tmp_path / "native", RANKS, SECONDS_MAX)
    lacking = 1 if case == "split" else 0
    done = launch(
        command, staged(tmp_path), tmp_path / "run", RANKS, SECONDS_MAX, before_rank=without_connector(lacking)
    )
    assert done.hung is None and facts(done) == facts(plain), done.told()
    assert_same_contents(tmp_path / "native", tmp_path / "run")
    assert "was started without" not in done.stderr
    assert len(process_lines(tmp_path)) == RANKS - 1
    assert all(process["files_staged"] > 0 for process in process_lines(tmp_path))
    assert bytes_staged(tmp_path) > 0
