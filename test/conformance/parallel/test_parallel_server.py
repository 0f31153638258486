"""Files that the ranks of a program write together through a staging server equal those that HDF5 writes natively."""

import functools
import os
import re
import signal
import subprocess
from pathlib import Path
from random import Random

import h5py
import numpy
import pytest
from connector_environment import native, plugin_folder, run
from parallel_call_parts import PARTS, assert_same_part, run_parts
from parallel_case_runs import CASES, RANKS, STAGING_NOTHING, Cases, assert_same, facts, run_case, run_cases
from parallel_comparison import assert_same_contents
from parallel_environment import LONG, PROGRAMS, Launch, asides_by_reason, launch, launcher, node_names, process_lines
from parallel_oracle import assert_right, run_oracle
from seeds import seeds
from server_environment import Client, Server, command, through

pytestmark = pytest.mark.slow

SECONDS_MAX = 240


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path, None) as running:
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


KNOWN_PROGRAMS = range(1, 5)  # these write raw data; of random ones perhaps none does


@pytest.mark.parametrize("nodes", [1, 2])
def test_random_programs_read_what_they_must(nodes, tmp_path, server):
    first = seeds("parallel-server", 1)[0] % 1_000_000_000 + 4 * nodes
    for name, programs in ("known", KNOWN_PROGRAMS), ("random", range(first, first + 4)):
        ran = run_oracle(tmp_path / name, 2, programs, of_server(server, tmp_path), nodes, ("--max-ops", "18"))
        assert_right(ran, programs, f"seeds {programs.start} to {programs.stop - 1}, {nodes} nodes")
        if name == "known":
            assert_forwarded(server, tmp_path, 2)
    server.end()
    assert server.left() == []


@pytest.fixture(scope="module")
def forwarded(tmp_path_factory):
    """What came of a launch through a server of its own, the server, and the folder of the ranks' statistics."""

    @functools.cache
    def run_through(what: str, nodes: int):
        folder = tmp_path_factory.mktemp(f"{what}-{nodes}")
        with Server(folder, None) as server:
            variables = of_server(server, folder)
            if what == "cases":
                came = run_cases(CASES, variables, folder / "here", node_names(RANKS, nodes))
            else:
                came = run_parts(PARTS, variables, folder / "here", RANKS, nodes)
        return came, server, folder

    return run_through


@pytest.mark.parametrize("part", PARTS)
def test_calls_return_and_store_the_same(part, native_parts, forwarded):
    through, server, folder = forwarded("parts", 2)
    assert_same_part(part, through, native_parts(RANKS))
    assert_forwarded(server, folder, RANKS)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_unusual_programs_see_the_same(case, nodes, native_cases, forwarded):
    through, server, _ = forwarded("cases", nodes)
    assert_same(case, through, native_cases())
    if case not in STAGING_NOTHING:
        assert through.staged_bytes(case, server.files()) > 0, through.done.told()


@pytest.mark.parametrize(("what", "nodes"), [("cases", 1), ("cases", 2), ("parts", 2)])
def test_a_server_that_ends_has_brought_everything_home(what, nodes, forwarded):
    through, server, folder = forwarded(what, nodes)
    assert through.done.returncode == 0, through.done.told()
    assert server.left() == []
    assert_forwarded(server, folder, RANKS)


def assert_same_as_native(done: Launch, folder: Path, plain: Cases) -> None:
    """Of the case `plain`."""
    assert done.hung is None and done.returncode == 0 and facts(done) == plain.of("plain").facts, done.told()
    assert_same_contents(plain.folder / "plain", folder)


def test_without_a_server_files_are_written_directly(native_cases, tmp_path):
    variables = native(
        HDF5_VOL_CONNECTOR=f"forebay server=unix:{tmp_path}/nobody;stats={tmp_path}/statistics.jsonl",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
    )
    done = run_case("plain", variables, tmp_path / "here")
    assert_same_as_native(done, tmp_path / "here", native_cases())
    assert asides_by_reason(tmp_path)["server"] > 0
    assert "files are written directly, unstaged" in done.stderr


# ---- ranks that are not alike, and files that are only read --------------------------------------------


def test_ranks_with_different_servers_are_refused(tmp_path, server):
    """What one rank writes no other would see."""
    with Server(tmp_path / "other") as other:
        per_rank = [{"FOREBAY_SERVER": each.address} for each in (server, other, server)]
        variables = native(HDF5_VOL_CONNECTOR="forebay", HDF5_PLUGIN_PATH=str(plugin_folder()))
        done = run_case("plain", variables, tmp_path / "here", per_rank)
        assert done.hung is None and done.returncode != 0, done.told()
        assert "name the same server for all ranks" in done.stderr, done.told()


@pytest.mark.parametrize("strict", ["off", "on"])
def test_when_only_some_ranks_name_a_server_that_is_told(strict, native_cases, tmp_path, server):
    variables = native(
        HDF5_VOL_CONNECTOR=f"forebay nls={tmp_path}/none;stats={tmp_path}/statistics.jsonl;strict={strict}",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
    )
    done = run_case("plain", variables, tmp_path / "here", [{"FOREBAY_SERVER": server.address}, {}, {}])
    assert done.hung is None, done.told()
    if strict == "on":
        assert done.returncode != 0
        return
    assert_same_as_native(done, tmp_path / "here", native_cases())


BEHIND = """
import h5py
from mpi4py import MPI
world = MPI.COMM_WORLD
with h5py.File("x.h5", "w", driver="mpio", comm=world) as file:
    for rank, name in enumerate("abc"):
        rows = file.create_dataset(name, (100_000,), "i4")
        if world.rank == rank: rows[:] = rank
    del rows, file["c"]
with h5py.File("x.h5", "r", driver="mpio", comm=world) as file:
    was = file.atomic
    file.atomic = True
    print(f"atomic: {was} {file.atomic} ", flush=True)
"""


def test_a_file_becomes_as_short_as_natively_and_one_that_nobody_writes_is_mpio_s(tmp_path, server, mpi_python):
    """The last of its bytes are another rank's than the one that cuts it."""
    plain = run_ranks(mpi_python, BEHIND, native(), tmp_path / "native")
    done = run_ranks(mpi_python, BEHIND, of_server(server, tmp_path), tmp_path / "here")
    assert done.hung is None and done.returncode == 0, done.told()
    assert sorted(done.stdout.split()) == sorted(plain.stdout.split()) != [], done.told()
    assert (tmp_path / "here/x.h5").stat().st_size == (tmp_path / "native/x.h5").stat().st_size
    assert asides_by_reason(tmp_path)["forwarded"] == RANKS


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


# ---- killed at any instant ----------------------------------------------------------------------------

STEPS = """
import os
import h5py
from mpi4py import MPI
world = MPI.COMM_WORLD
pids = world.gather(os.getpid())
if world.rank == 0: print(pids, flush=True)
file = h5py.File("x.h5", "w", driver="mpio", comm=world)
rows = file.create_dataset("rows", (world.size, 50_000), "i4")
try:
    for step in range(1, 100_000):
        rows[world.rank] = step
        file.flush()
        if world.rank == 0: print(step, flush=True)
except OSError:  # on one rank, perhaps, while others go on
    world.Abort(1)
"""


def killed_after(python: str, variables: dict[str, str], folder: Path, victim, flushes: int) -> int:
    """The last flush of which the ranks said that it has returned, before `victim(their pids)` was killed."""
    folder.mkdir()
    started = subprocess.Popen(
        [*launcher(), "-n", str(RANKS), "env", f"LD_PRELOAD={PROGRAMS / 'yielding_progress.so'}", python, "-c", STEPS],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    last = 0
    pids = [int(word) for word in re.findall(r"\d+", started.stdout.readline())]
    assert len(pids) == RANKS
    try:
        for line in started.stdout:
            if line.strip().isdigit():
                last = int(line)
            if last == flushes and victim is not None:
                os.kill(victim(pids), signal.SIGKILL)
                victim = None
        started.wait(timeout=SECONDS_MAX)
    finally:
        if started.poll() is None:
            started.kill()
    assert victim is None and started.returncode != 0
    return last


def assert_one_step(path: Path, last: int) -> None:
    """All rows are of one flush: the last one that returned, or the one under way."""
    with h5py.File(path) as file:
        found = numpy.unique(file["rows"][...])
    assert len(found) == 1 and found[0] in (last, last + 1), (found, last)


@pytest.mark.parametrize("who", ["rank", "server"])
def test_what_is_killed_at_any_instant_leaves_one_flush(who, tmp_path, mpi_python):
    random = Random(seeds(f"parallel-server-{who}", 1)[0])
    for number in range(20 if LONG else 4):
        folder = tmp_path / str(number)
        with Server(folder) as server:
            variables = of_server(server, folder)
            variables["HDF5_VOL_CONNECTOR"] += ";patience=1"
            pid = server.process.pid
            victim = (lambda pids: random.choice(pids)) if who == "rank" else lambda _, pid=pid: pid
            last = killed_after(mpi_python, variables, folder / "here", victim, random.randint(1, 30))
            if who == "server":
                server.process.wait(timeout=60)
                server.start()  # it brings the file to its last flush
            server.end()
            assert server.left() == []
            assert_one_step(folder / "here/x.h5", last)
