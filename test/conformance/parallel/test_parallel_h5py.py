"""h5py with MPI: its own test suite, test by test, and a parallel program, natively and staged.

This h5py is compiled against the parallel HDF5 and its MPI (tools/setup python-mpi). It is not the one that runs these
tests.
"""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from connector_environment import asides, bytes_staged, native, run, staged, statistics
from parallel_comparison import assert_same_contents
from parallel_environment import assert_staged, launch, node_names, process_lines

pytestmark = pytest.mark.slow

RANKS = 2
SECONDS_MAX = 600
PROGRAM = Path(__file__).with_name("parallel_h5py.py")
# h5py's tests of its own MPI side. Each must have run, and the files that they write must have been staged.
WITH_MPI = ("test_mpio", "test_mpio_append", "test_mpi_atomic", "test_close_multiple_mpio_driver")


def outcomes(report: Path, told: str) -> dict[str, str]:
    """What came of each test of h5py, by its name."""
    assert report.exists(), told
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kind = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        found[f"{case.get('classname')}::{case.get('name')}"] = kind
    return found


def suite(python: str, report: str, *more: str) -> list[str]:
    return [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *more, "--pyargs", "h5py"]


def in_process(python: str, environment: dict[str, str], folder: Path) -> dict[str, str]:
    done = run(suite(python, "report.xml"), environment, folder, SECONDS_MAX)
    return outcomes(folder / "report.xml", done.stdout + done.stderr)


def in_ranks(python: str, environment: dict[str, str], folder: Path, nodes: int = 1) -> list[dict[str, str]]:
    # The shell puts the rank's number, which the launcher gives each, into the name of its report.
    command = [
        "sh",
        "-c",
        'exec "$@" --junit-xml=report.$PMI_RANK.xml',
        "sh",
        *suite(python, "report.xml", "--with-mpi"),
    ]
    done = launch(command, environment, folder, RANKS, SECONDS_MAX, node_names(RANKS, nodes))
    assert done.hung is None, done.told()
    return [outcomes(folder / f"report.{rank}.xml", done.told()) for rank in range(RANKS)]


def assert_same_outcomes(plain: dict[str, str], through: dict[str, str]) -> None:
    assert {name: (plain.get(name), kind) for name, kind in through.items() if plain.get(name) != kind} == {}
    assert plain.keys() == through.keys()
    assert sum(kind == "passed" for kind in through.values()) > 800


@pytest.mark.long
def test_h5py_tests_come_out_the_same_without_a_launcher(mpi_python, tmp_path):
    plain = in_process(mpi_python, native(), tmp_path / "native")
    through = in_process(mpi_python, staged(tmp_path), tmp_path / "through")
    assert_same_outcomes(plain, through)
    assert bytes_staged(tmp_path) > 0


@pytest.fixture(scope="session")
def native_ranks(mpi_python, tmp_path_factory):
    return in_ranks(mpi_python, native(), tmp_path_factory.mktemp("h5py-ranks-native"))


@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_h5py_tests_come_out_the_same_on_several_ranks(nodes, mpi_python, native_ranks, tmp_path):
    through = in_ranks(mpi_python, staged(tmp_path), tmp_path / "through", nodes)
    for plain, mine in zip(native_ranks, through, strict=True):
        assert_same_outcomes(plain, mine)
        for name in WITH_MPI:
            assert [kind for test, kind in mine.items() if test.endswith(f"TestMPI::{name}")] == ["passed"]
    # No file of these tests is left to mpio; the ranks also start programs of their own, which count too.
    assert asides(tmp_path).keys() <= {"driver", "swmr", "atomicity", "handle_taken", "not_regular"}, asides(tmp_path)
    assert len([process for process in process_lines(tmp_path) if process["files_staged"] > 1000]) == RANKS
    assert [entry for entry in statistics(tmp_path) if entry["error"]] == []
    assert bytes_staged(tmp_path) > 0


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_parallel_program_sees_and_leaves_the_same(nodes, mpi_python, tmp_path):
    command = [mpi_python, PROGRAM]
    plain = launch([*command, "write"], native(), tmp_path / "native", RANKS, SECONDS_MAX)
    through = launch(
        [*command, "write"], staged(tmp_path), tmp_path / "through", RANKS, SECONDS_MAX, node_names(RANKS, nodes)
    )
    assert plain.hung is None and plain.returncode == 0, plain.told()
    assert through.hung is None and through.returncode == 0, through.told()
    facts = [sorted(done.stdout.splitlines()) for done in (plain, through)]
    assert facts[0] == facts[1] and len(facts[0]) > 2 * RANKS
    checked = run([*command, "check"], native(), tmp_path / "through", SECONDS_MAX)
    assert checked.returncode == 0, checked.stderr
    assert_same_contents(tmp_path / "native", tmp_path / "through")
    assert_staged(tmp_path, RANKS)
    assert asides(tmp_path) == {"mpi": RANKS}  # opened for reading only


@pytest.mark.parametrize("nodes", [1, 2])
def test_closes_of_several_ranks_may_be_deferred_on_one_node_and_wait_on_several(nodes, mpi_python, tmp_path):
    command = [mpi_python, PROGRAM]
    through = launch(
        [*command, "write"],
        staged(tmp_path, "close=deferred"),
        tmp_path / "through",
        RANKS,
        SECONDS_MAX,
        node_names(RANKS, nodes),
    )
    assert through.hung is None and through.returncode == 0, through.told()
    checked = run([*command, "check"], native(), tmp_path / "through", SECONDS_MAX)
    assert checked.returncode == 0, checked.stderr
    assert_staged(tmp_path, RANKS)
    for process in process_lines(tmp_path):
        deferred, waited = process["deferred_closes"], process["waited_closes"]
        assert deferred + sum(waited.values()) > 0, process
        # Each rank has one file of its own, too: a close of that may be deferred.
        assert "shared" not in waited if nodes == 1 else deferred <= 1 and waited["shared"] > 0, process


PAUSE = """
import ctypes, os, sys, h5py, numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
name = os.path.join(os.environ.get("HDF5_PLUGIN_PATH", ""), "libforebay_vol.so")
plugin = ctypes.CDLL(name) if "HDF5_VOL_CONNECTOR" in os.environ else None
def write(path):
    f = h5py.File(path, "w", driver="mpio", comm=world)
    f.create_dataset("x", (world.size, 1000), "i8")[world.rank] = np.arange(1000) + world.rank
    return f
before = write("before.h5")
if world.rank == 1 and plugin:
    assert plugin.forebay_pause() == 0
write("paused.h5").close()
before["x"][world.rank, 0] = 7
before.close()
if world.rank == 1 and plugin:
    assert plugin.forebay_resume() == 0
write("after.h5").close()
"""


@pytest.mark.check
def test_no_rank_stages_what_is_opened_while_one_of_them_has_paused(mpi_python, tmp_path):
    for environment, folder in ((native(), tmp_path / "native"), (staged(tmp_path), tmp_path / "through")):
        done = launch([mpi_python, "-c", PAUSE], environment, folder, RANKS, SECONDS_MAX)
        assert done.returncode == 0 and done.hung is None, done.told()
    assert_same_contents(tmp_path / "native", tmp_path / "through")
    assert {Path(entry["path"]).name for entry in statistics(tmp_path) if entry["staged"]} == {"before.h5", "after.h5"}
    assert asides(tmp_path) == {"paused": 1, "mpi": 1}


OTHER_DRIVERS = """
import os
import h5py, numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
seen = []
# Each rank writes a file alone, and reads it with mpio, which takes no lock.
own = h5py.File(f"own{world.rank}.h5", "w")
d = own.create_dataset("x", data=np.arange(100_000))
own.flush()
d[:50_000] = world.rank + 3
again = h5py.File(f"own{world.rank}.h5", "r", driver="mpio", comm=MPI.COMM_SELF)
seen.append(int(again["x"][:50_000].sum()))
d[50_000:] = world.rank + 4
seen.append(int(again["x"][50_000:].sum()))
own.close()
own = h5py.File(f"own{world.rank}.h5", "r+")
own["x"][20_000:30_000] = 8
seen.append(int(again["x"][20_000:30_000].sum()))
own.close()
again.close()
# The ranks write a file together, and each reads it alone.
shared = h5py.File("shared.h5", "w", driver="mpio", comm=world)
d = shared.create_dataset("x", (world.size, 100_000), "i8")
d[world.rank] = world.rank + 5
shared.flush()
d[world.rank, :50_000] = world.rank + 6
world.Barrier()
alone = h5py.File("shared.h5", "r", driver="stdio")
seen.append(int(alone["x"][world.rank, :50_000].sum()))
d[world.rank, 50_000:] = world.rank + 7
seen.append(int(alone["x"][world.rank, 50_000:].sum()))
alone.close()
if "HDF5_VOL_CONNECTOR" in os.environ:
    try:
        h5py.File("shared.h5", "w", driver="stdio")
    except Exception as error:
        assert "it is open for writing already" in str(error), error
    else:
        raise AssertionError("other ranks' logs would drain over the new content")
world.Barrier()
shared.close()
everything = world.gather(seen)
if world.rank == 0:
    print(everything)
"""


@pytest.mark.check
def test_other_drivers_find_what_a_rank_has_written(mpi_python, tmp_path):
    told = []
    for environment, folder in ((native(), tmp_path / "native"), (staged(tmp_path), tmp_path / "through")):
        done = launch([mpi_python, "-c", OTHER_DRIVERS], environment, folder, RANKS, SECONDS_MAX)
        assert done.returncode == 0 and done.hung is None, done.told()
        told.append(done.stdout)
    assert told[0] == told[1] != ""
    assert_same_contents(tmp_path / "native", tmp_path / "through")
    assert sum(entry["staged"] for entry in statistics(tmp_path)) > 0
    assert {reason for entry in statistics(tmp_path) for reason in entry["reasons"]} == {"driver", "address_given"}
