"""Files that the ranks of a program write together through a staging server equal those that HDF5 writes natively."""

import signal
from pathlib import Path

import h5py
import numpy
import pytest
from connector_environment import asides, native, plugin_folder, run
from parallel_comparison import assert_same_contents
from parallel_environment import Launch, asides_by_reason, launch, node_names, process_lines, program
from parallel_oracle import assert_right, run_oracle
from seeds import seeds
from server_environment import Client, Server, command, through
from test_parallel_calls import PARTS, SAME_MEMORY
from test_parallel_cases import CASES, RANKS, facts, run_case

pytestmark = pytest.mark.slow

SECONDS_MAX = 240


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path, None, "-o", "segment=256KiB") as running:
        yield running


def of_server(server: Server, folder: Path, **more: str) -> dict[str, str]:
    """The environment of ranks that write through it, and have no staging area."""
    return native(
        HDF5_VOL_CONNECTOR=f"forebay server={server.address};nls={folder}/there-is-none;"
        f"stats={folder}/statistics.jsonl",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
        **more,
    )


def assert_forwarded(server: Server, folder: Path, ranks: int) -> None:
    """The server has staged and drained the files, and no rank anything."""
    assert server.files(), "no file came to the server"
    assert sum(file["staged"] for file in server.files()) > 0, server.files()
    processes = process_lines(folder)
    assert len(processes) >= ranks and all(process["aside"].get("forwarded") for process in processes), processes
    assert not (folder / "there-is-none").exists()


def test_random_programs_read_what_they_must(tmp_path, server):
    for nodes in (1, 2):
        folder = tmp_path / f"on-{nodes}"
        first = seeds("parallel-server", 1)[0] % 1_000_000_000
        programs = range(first, first + 4)
        ran = run_oracle(folder / "run", 2, programs, of_server(server, folder), nodes, ("--max-ops", "18"))
        assert_right(ran, programs, f"seeds {programs.start} to {programs.stop - 1}, {nodes} nodes")
        assert_forwarded(server, folder, 2)
    server.end()
    assert server.left() == []


def run_part(part: str, variables: dict[str, str], folder: Path, nodes: int = 1) -> Launch:
    done = launch(
        [program("parallel_calls"), part],
        {**variables, **SAME_MEMORY},
        folder,
        RANKS,
        SECONDS_MAX,
        node_names(RANKS, nodes),
    )
    assert done.hung is None and done.returncode == 0 and done.stdout, done.told()
    return done


@pytest.mark.parametrize("part", PARTS)
def test_calls_return_and_store_the_same(part, tmp_path, server):
    plain = run_part(part, native(), tmp_path / "native")
    done = run_part(part, of_server(server, tmp_path), tmp_path / "here", 2)
    assert done.stdout.splitlines() == plain.stdout.splitlines(), done.told()
    names = sorted(path.name for path in (tmp_path / "native").glob("*.h5"))
    assert names == sorted(path.name for path in (tmp_path / "here").glob("*.h5")) != []
    if part == "strategies":
        for name in names:
            assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "native" / name).read_bytes(), name
    assert_forwarded(server, tmp_path, RANKS)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_unusual_programs_see_the_same(case, nodes, tmp_path, server):
    plain = run_case(case, native(), tmp_path / "native")
    done = run_case(case, of_server(server, tmp_path), tmp_path / "here", node_names(RANKS, nodes))
    assert done.hung is None and done.returncode == plain.returncode, done.told()
    assert facts(done) == facts(plain) != [], done.told()
    assert_same_contents(tmp_path / "native", tmp_path / "here")
    if case != "refused-opens":
        assert sum(file["staged"] for file in server.files()) > 0


def test_without_a_server_files_are_written_directly(tmp_path):
    plain = run_case("plain", native(), tmp_path / "native")
    variables = native(
        HDF5_VOL_CONNECTOR=f"forebay server=unix:{tmp_path}/nobody;stats={tmp_path}/statistics.jsonl",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
    )
    done = run_case("plain", variables, tmp_path / "here")
    assert done.hung is None and done.returncode == 0 and facts(done) == facts(plain), done.told()
    assert_same_contents(tmp_path / "native", tmp_path / "here")
    assert asides_by_reason(tmp_path)["server"] > 0
    assert "files are written directly, unstaged" in done.stderr


# ---- deaths, and readers ------------------------------------------------------------------------------

BEGINS = """
import os, signal, sys, time
import h5py, numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
file = h5py.File("x.h5", "w", driver="mpio", comm=world)
rows = file.create_dataset("rows", (world.size, 100_000), "i4")
rows[world.rank] = world.rank + 1
file.flush()
"""
RANK_DIES = """
rows[world.rank] = -1
world.Barrier()
if world.rank == int(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)
world.Barrier()
"""
SERVER_DIES = """
world.Barrier()
if world.rank == 0: os.kill(int(sys.argv[1]), signal.SIGKILL)
world.Barrier()
try:
    while True: rows[world.rank] = -1
except OSError as error:
    print(f"rank {world.rank}: {error}", flush=True)
world.Barrier()
os._exit(0)
"""


def run_ranks(python: str, program_text: str, variables: dict[str, str], folder: Path, *arguments: object) -> Launch:
    return launch([python, "-c", program_text, *arguments], variables, folder, RANKS, SECONDS_MAX)


def flushed() -> numpy.ndarray:
    return numpy.repeat(numpy.arange(1, RANKS + 1), 100_000).reshape(RANKS, -1)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_death_of_a_rank_leaves_the_last_flush(rank, tmp_path, server, mpi_python):
    variables = of_server(server, tmp_path)
    done = run_ranks(mpi_python, BEGINS + RANK_DIES, variables, tmp_path / "here", rank)
    assert done.hung is None and done.returncode != 0, done.told()
    server.end()  # it has brought the file to its last flush
    with h5py.File(tmp_path / "here/x.h5") as file:
        assert numpy.array_equal(file["rows"][...], flushed())
    assert server.left() == [] and server.files()


def test_the_death_of_the_server_is_told_and_leaves_the_last_flush(tmp_path, server, mpi_python):
    variables = of_server(server, tmp_path)
    variables["HDF5_VOL_CONNECTOR"] += ";patience=1"
    done = run_ranks(mpi_python, BEGINS + SERVER_DIES, variables, tmp_path / "here", server.process.pid)
    assert done.hung is None and done.returncode == 0, done.told()
    server.process.wait(timeout=60)
    for each in range(RANKS):
        assert f"rank {each}: " in done.stdout, done.told()
    recovered = run([command(), "recover", "--nls", str(server.area)], native(), tmp_path)
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    with h5py.File(tmp_path / "here/x.h5") as file:
        assert numpy.array_equal(file["rows"][...], flushed())


READS = """
import sys
import h5py
from mpi4py import MPI
with h5py.File("x.h5", "r", driver="mpio", comm=MPI.COMM_WORLD) as file:
    with file["x"].collective:
        sys.stdout.write(f"rank {MPI.COMM_WORLD.rank}: {file['x'][...].sum()}\\n")
"""


def test_ranks_that_read_beside_a_writer_see_its_last_flush(tmp_path, server, mpi_python):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as writer:
        writer.must("f = h5py.File('x.h5', 'w')", "f['x'] = np.ones(100_000, 'i8')", "f.flush()", "f['x'][:] = 2")
        done = run_ranks(mpi_python, READS, of_server(server, tmp_path), here)
        assert done.hung is None and done.returncode == 0, done.told()
        assert sorted(done.stdout.splitlines()) == [f"rank {rank}: 100000" for rank in range(RANKS)], done.told()
        writer.must("f.close()")
        assert writer.end() == ""
    assert asides_by_reason(tmp_path)["forwarded"] == RANKS
    done = run_ranks(mpi_python, READS, of_server(server, tmp_path), here)
    assert sorted(done.stdout.splitlines()) == [f"rank {rank}: 200000" for rank in range(RANKS)], done.told()
