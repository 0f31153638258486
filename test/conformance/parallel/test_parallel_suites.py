"""HDF5's own parallel test programs come out the same, test by test, natively and staged.

A run takes some numbers of ranks and nodes, others with each FOREBAY_SEED. FOREBAY_TEST_LONG=1 takes all of them, and
adds the runs that take minutes. The programs are those that HDF5 installs with its tests. They keep
their files (HDF5_NOCLEANUP), which are compared as well.
"""

import functools
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from async_api_tests import (
    PARALLEL,
    assert_async_tests_passed,
    assert_counts_agree,
    has_async_tests,
    without_async_tests,
)
from connector_environment import hdf5_prefix, native, staged
from parallel_environment import LONG, MPI, Launch, assert_staged, launch, node_names, prefix_of, process_lines
from seeds import seed_of

from forebay.slowfs import SlowFS, available

pytestmark = pytest.mark.slow

SECONDS_MAX = 600
PROGRAMS = ("h5_api_test_parallel", "t_pshutdown", "testphdf5", "t_shapesame", "t_bigio")
# (ranks, nodes). Of each list a run takes one, another one with each FOREBAY_SEED. A native run takes 0.2 to 2 s of the
# first two programs, and about 10 s of the others, on two processors with work beside it. With 3 ranks testphdf5 tests
# more.
TURNS = {
    "h5_api_test_parallel": ([(2, 1), (3, 1), (4, 1)], [(2, 2), (4, 2)]),
    "t_pshutdown": ([(2, 1), (3, 1), (4, 1)], [(2, 2), (4, 2)]),
    "testphdf5": ([(2, 1), (3, 1), (3, 2)],),
    "t_shapesame": ([(2, 1)],),
}
# testphdf5 with 4 ranks takes 40 s, t_shapesame 10 and 25 s with 3 and 4 ranks, t_bigio 20, 25 and 40 s with 2, 3 and
# 4. t_bigio writes 2 GiB, and its first rank takes 2.4 GB of memory. Those with another MPI need an HDF5 that was built
# with it; see prefix_of.
OTHER_MPI = "openmpi" if MPI == "mpich" else "mpich"
QUICK_OTHER_MPI = {
    ("h5_api_test_parallel", 2, 1),
    ("h5_api_test_parallel", 4, 2),
    ("t_pshutdown", 3, 1),
    ("testphdf5", 3, 1),
}
CACHE_RUNS = [(2, 1), (2, 2), (3, 2)]
RUNS = [(name, ranks, nodes) for name in PROGRAMS for ranks, nodes in ((2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2))]


def in_turn(what: str, runs: list) -> list:
    """One of them, or all in a long run."""
    return runs if LONG else [Random(seed_of(f"suites {what}")).choice(runs)]


QUICK = {
    (name, *run)
    for name, lists in TURNS.items()
    for at, runs in enumerate(lists)
    for run in in_turn(f"{name} {at}", runs)
}
SELECTED = [
    (*run, mpi) for mpi, quick in ((MPI, QUICK), (OTHER_MPI, QUICK_OTHER_MPI)) for run in RUNS if LONG or run in quick
]


@dataclass(frozen=True)
class Result:
    """What a test program said."""

    returncode: int
    tests: list[tuple[str, str]]  # (name, outcome), in order
    summary: list[str]
    complaints: list[str]
    output: str = field(default="", compare=False)


def api_tests(output: str) -> list[tuple[str, str]]:
    """The lines of the API tests: each test, or part of one, with PASSED, -SKIP- or *FAILED*."""
    outcome = r"\s*(?P<outcome>PASSED|-SKIP-|\*FAILED\*)?\s*$"
    found = (re.match(r"(?P<name>\s*Testing .*?)" + outcome, line) for line in output.splitlines())
    return [(match["name"].strip(), match["outcome"] or "begun") for match in found if match]


def library_tests(output: str) -> list[tuple[str, str]]:
    """The tests of the older programs, which announce each one and stop at the first that fails."""
    found = re.finditer(
        r"^(Testing|Skipping)  ?-- (?P<name>.*\(\S+\))"
        r"|^(?P<titled>(Read )?Testing \S.*|Collective chunk I/O Test.*|Single Rank.*)$",
        output,
        re.MULTILINE,
    )
    return [(match["name"] or match["titled"], match[1] or "Testing") for match in found]


def result_of(name: str, done: Launch) -> Result:
    output = without_async_tests(done.stdout) if name == "h5_api_test_parallel" else done.stdout
    tests = api_tests(output) if name in ("h5_api_test_parallel", "t_pshutdown") else library_tests(output)
    # The API tests name the connector.
    summary = [
        re.sub(r" with VOL connector.*", "", line)
        for line in output.splitlines()
        if re.search(
            r"API tests .*VOL connector|tests? .*finished|were successful|subtests skipped|error\(s\)| PASSED$", line
        )
    ]
    complaints = [
        line
        for line in (output + done.stderr).splitlines()
        if re.search(r"ERROR|FAILED|HDF5-DIAG|failed|[Aa]bort", line)
    ]
    return Result(done.returncode, tests, summary, complaints, done.stdout)


def environment_for_tests(**more: str) -> dict[str, str]:
    return {"HDF5_NOCLEANUP": "1", **more}


def assert_async_tests_agree(plain: Result, through: Result) -> None:
    """Natively they are skipped; staged they pass, with collective reads of metadata and with independent ones."""
    if has_async_tests(plain.output):  # an HDF5 of the user's may be built without them
        passed = assert_async_tests_passed(through.output, PARALLEL, rounds=2)
        assert_counts_agree(plain.output, through.output, passed)


@pytest.fixture(scope="session")
def native_run(tmp_path_factory):
    """Runs a test program natively, once for each MPI and number of ranks."""

    @functools.cache
    def run(name: str, ranks: int, mpi: str) -> tuple[Result, Path]:
        folder = tmp_path_factory.mktemp(f"{name}-{ranks}-{mpi}-native")
        done = launch([program(name, mpi)], native(**environment_for_tests()), folder, ranks, SECONDS_MAX, mpi=mpi)
        assert done.hung is None, done.told()
        result = result_of(name, done)
        assert result.returncode == 0 and result.tests, done.told()
        return result, folder

    return run


def program(name: str, mpi: str) -> Path:
    path = prefix_of(mpi) / "bin" / name
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    return path


def assert_same_files(left: Path, right: Path) -> int:
    """The same files are there, but for those of the async tests, and h5diff finds no difference in them.

    How many were compared.
    """
    names = [
        sorted(path.name for path in folder.glob("*.h5") if path.is_file() and "async_test" not in path.name)
        for folder in (left, right)
    ]
    assert names[0] == names[1]
    tool = hdf5_prefix() / "bin" / "h5diff"
    for name in names[0]:
        told = subprocess.run(
            [tool, left / name, right / name],
            env=native(),
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert told.returncode == 0, f"{name}: {told.stdout[-2000:]}{told.stderr[-2000:]}"
    return len(names[0])


@pytest.mark.parametrize(("name", "ranks", "nodes", "mpi"), SELECTED)
def test_programs_of_hdf5_come_out_the_same(name, ranks, nodes, mpi, native_run, tmp_path):
    plain, plain_folder = native_run(name, ranks, mpi)
    environment = staged(tmp_path, **environment_for_tests())
    done = launch(
        [program(name, mpi)], environment, tmp_path / "run", ranks, SECONDS_MAX, node_names(ranks, nodes), mpi=mpi
    )
    assert done.hung is None, done.told()
    through = result_of(name, done)
    assert through.tests == plain.tests, done.told()
    assert through.complaints == plain.complaints, done.told()
    assert through.summary == plain.summary, done.told()
    assert through.returncode == plain.returncode == 0, done.told()
    assert_async_tests_agree(plain, through)
    assert_same_files(plain_folder, tmp_path / "run")
    assert_staged(tmp_path, ranks)


@pytest.mark.parametrize(("ranks", "nodes"), in_turn("read cache", CACHE_RUNS))
def test_programs_of_hdf5_come_out_the_same_with_the_read_cache(ranks, nodes, native_run, tmp_path):
    """On a file system that is not local, whose files seem old: they are stored at once."""
    usable, reason = available()
    if not usable:
        pytest.skip(f"slowfs cannot be used: {reason}")
    name = "h5_api_test_parallel"
    plain, plain_folder = native_run(name, ranks, MPI)
    environment = staged(tmp_path, "read_cache=on", **environment_for_tests())
    with SlowFS(tmp_path / "backing", tmp_path / "remote", clock_behind=3600):
        done = launch(
            [program(name, MPI)], environment, tmp_path / "remote", ranks, SECONDS_MAX, node_names(ranks, nodes)
        )
        assert done.hung is None, done.told()
        through = result_of(name, done)
        assert through == plain, done.told()
        assert_async_tests_agree(plain, through)
        assert_same_files(plain_folder, tmp_path / "remote")
    caches = [line.get("cache") for line in process_lines(tmp_path)]
    assert any(one and one["hit_bytes"] > 0 for one in caches), caches


def test_a_failing_test_is_noticed():
    """What is compared tells a test that failed from one that passed."""
    passed = Launch(
        "",
        0,
        "Testing H5Fcreate   PASSED\n  Testing a part   -SKIP-\n30/34 API tests passed with VOL connector 'native'\n",
        "",
    )
    failed = Launch(
        "",
        1,
        "Testing H5Fcreate   *FAILED*\n  Testing a part   -SKIP-\n"
        "29/34 API tests passed with VOL connector 'forebay'\n",
        "",
    )
    one, other = (result_of("h5_api_test_parallel", done) for done in (passed, failed))
    assert one.tests == [("Testing H5Fcreate", "PASSED"), ("Testing a part", "-SKIP-")]
    assert other.tests == [("Testing H5Fcreate", "*FAILED*"), ("Testing a part", "-SKIP-")]
    assert one.summary != other.summary and one.complaints != other.complaints
