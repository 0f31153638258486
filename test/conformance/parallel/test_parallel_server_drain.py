"""Files that the ranks of a program stage, and a staging server writes (server_mode=drain), equal native ones."""

import signal
import threading
from pathlib import Path

import pytest
from connector_environment import native, staged, statistics
from parallel_comparison import assert_same_contents
from parallel_environment import node_names
from parallel_oracle import assert_right, run_oracle
from seeds import seeds
from server_environment import LastWrite, Server, natively
from test_parallel_calls import PARTS
from test_parallel_cases import CASES, RANKS, facts, run_case
from test_parallel_server import run_part, run_ranks

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path) as running:
        yield running


def draining(*servers: Server, folder: Path) -> dict[str, str]:
    named = ",".join(server.address for server in servers)
    return staged(folder, f"server={named};server_mode=drain;segment=256KiB")


def assert_served(folder: Path) -> None:
    """What was staged has come to the files by the server."""
    found = statistics(folder)
    assert sum(file["staged"] for file in found) > 0, found
    assert sum(file["served"] for file in found) >= sum(file["drained"] for file in found) > 0, found


def test_random_programs_read_what_they_must(tmp_path, server):
    for nodes in (1, 2):
        folder = tmp_path / f"on-{nodes}"
        first = seeds("parallel-server-drain", 1)[0] % 1_000_000_000
        programs = range(first, first + 4)
        ran = run_oracle(folder / "run", 2, programs, draining(server, folder=folder), nodes, ("--max-ops", "18"))
        assert_right(ran, programs, f"seeds {programs.start} to {programs.stop - 1}, {nodes} nodes")
        assert_served(folder)


def test_random_programs_whose_files_two_servers_write_read_what_they_must(tmp_path):
    first = seeds("parallel-server-stripes", 1)[0] % 1_000_000_000
    programs = range(first, first + 4)
    with Server(tmp_path / "one") as one, Server(tmp_path / "other") as other:
        ran = run_oracle(tmp_path / "run", 2, programs, draining(one, other, folder=tmp_path), 2, ("--max-ops", "18"))
        assert_right(ran, programs, f"seeds {programs.start} to {programs.stop - 1}")
        assert_served(tmp_path)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("part", PARTS)
def test_calls_return_and_store_the_same(part, nodes, tmp_path, server):
    plain = run_part(part, native(), tmp_path / "native")
    done = run_part(part, draining(server, folder=tmp_path), tmp_path / "here", nodes)
    assert done.stdout.splitlines() == plain.stdout.splitlines(), done.told()
    if part != "rejected":  # which leaves files that are none
        assert_same_contents(tmp_path / "native", tmp_path / "here")
    assert_served(tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_unusual_programs_see_the_same(case, tmp_path, server):
    plain = run_case(case, native(), tmp_path / "native")
    done = run_case(case, draining(server, folder=tmp_path), tmp_path / "here", node_names(RANKS, 2))
    assert done.hung is None and done.returncode == plain.returncode, done.told()
    assert facts(done) == facts(plain) != [], done.told()
    assert_same_contents(tmp_path / "native", tmp_path / "here")


@pytest.mark.parametrize("again", [False, True])
def test_a_server_that_dies_among_their_writes_is_done_without(again, tmp_path, server):
    """At whatever instant: the ranks write the rest themselves, or by way of the next server."""
    first = seeds("parallel-server-drain-end", 1)[0] % 1_000_000_000
    programs = range(first, first + 4)

    def end():
        server.end(signal.SIGKILL)
        if again:
            server.start()

    ending = threading.Timer(2, end)
    ending.start()
    try:
        ran = run_oracle(tmp_path / "run", 2, programs, draining(server, folder=tmp_path), 2, ("--max-ops", "18"))
    finally:
        ending.join()
    assert_right(ran, programs, f"seeds {programs.start} to {programs.stop - 1}, the server ends")


def test_without_a_server_ranks_write_what_they_have_staged(tmp_path):
    with Server(tmp_path) as gone:
        gone.end(signal.SIGTERM)
        plain = run_case("plain", native(), tmp_path / "native")
        done = run_case("plain", draining(gone, folder=tmp_path), tmp_path / "here", node_names(RANKS, 2))
    assert done.hung is None and done.returncode == 0 and facts(done) == facts(plain), done.told()
    assert_same_contents(tmp_path / "native", tmp_path / "here")
    assert sum(file["staged"] for file in statistics(tmp_path)) > 0
    assert sum(file["served"] for file in statistics(tmp_path)) == 0


EMPTIES = """
import h5py
from mpi4py import MPI
try:
    h5py.File("x.h5", "w", driver="mpio", comm=MPI.COMM_WORLD)
except OSError as error:
    print(error)
"""


def test_a_file_that_a_server_still_writes_is_not_emptied(tmp_path, mpi_python):
    """For a client that has died."""
    here = tmp_path / "here"
    natively(here, "f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
    before = (here / "x.h5").read_bytes()
    writing = LastWrite(here / "x.h5")
    done = run_ranks(mpi_python, EMPTIES, staged(tmp_path), here)
    assert done.hung is None and done.stdout.count("a staging server still writes it") == RANKS, done.told()
    assert (here / "x.h5").read_bytes() == before
    writing.end()
