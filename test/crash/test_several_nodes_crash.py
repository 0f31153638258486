"""All ranks of an MPI program on several played nodes are killed, with nodes=consistent.

Each node has a staging area of its own.
"""

import array
import contextlib
import functools
import itertools
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from connector_environment import hdf5_prefix, native
from crash_environment import (
    EPOCHS,
    LONG,
    STRACE,
    dead_directories,
    flushed,
    holding,
    killing,
    program,
    ranks_on,
    staged,
    tracer_of,
    without_marks,
)
from parallel_environment import launch, node_names
from seeds import seed_of
from test_cli import call

pytestmark = pytest.mark.slow

RANKS = 2
SECONDS_MAX = 240  # for anything that is waited for


def areas(folder, ranks=RANKS):
    return [folder / f"area {rank}" for rank in range(ranks)]


def run(path, libver, epochs, tail, environment, per_rank=None, before=(), before_rank=None):
    ended = launch(
        [*before, program(), path, libver, epochs, tail, "mpi"],
        environment,
        path.parent,
        RANKS,
        SECONDS_MAX,
        per_rank=per_rank,
        before_rank=before_rank,
    )
    assert ended.hung is None, ended.told()
    return ended


def run_on_two_nodes(path, libver, epochs, tail, folder, before=(), before_rank=None, **more):
    """Each rank on a node of its own."""
    environment = staged(folder / "unused", **{"FOREBAY_NODES": "consistent", **more})
    per_rank = [
        {**names, "FOREBAY_NLS": str(area)} for names, area in zip(node_names(RANKS, RANKS), areas(folder), strict=True)
    ]
    for area in areas(folder):
        area.mkdir(parents=True, exist_ok=True)
    return run(path, libver, epochs, tail, environment, per_rank, before, before_rank)


def recover(area):
    done = call("recover", "--json", area)
    files = json.loads(done.stdout)["files"]
    assert all(file["commit_time_ns"] for file in files if file["commit_sequence"])
    return done.returncode, files


def wait_for_the_end_of_all(area):
    """The launcher ends what it has started, which need not be the rank itself."""
    until = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until:
        if not json.loads(call("recover", "--json", "--dry-run", area).stdout)["living"]:
            return
        time.sleep(0.1)
    pytest.fail("a rank lives on")


@functools.cache
def native_file(libver, epochs):
    """The file's bytes after so many flushes."""
    if epochs == 0:
        return b""
    with tempfile.TemporaryDirectory(prefix="forebay-native-") as folder:
        path = Path(folder, "native", "run.h5")
        path.parent.mkdir()
        assert flushed(run(path, libver, epochs, 0, native()).stdout) == epochs
        return path.read_bytes()


def native_state(libver, epochs):
    return without_marks(native_file(libver, epochs))


def nothing_beside(path):
    return [entry.name for entry in path.parent.iterdir() if "forebay-" in entry.name] == []


class KillerOfDrained(threading.Thread):
    """Kills the ranks once the file holds, from each, rows that were never flushed: new ones, and over older ones."""

    def __init__(self, path, epochs):
        super().__init__()
        self.path, self.rows = path, [array.array("i", row(epochs, rank)).tobytes() for rank in range(RANKS)]
        self.over = threading.Event()  # the launch has ended

    def run(self):
        while not self.over.wait(0.01):
            content = self.path.read_bytes() if self.path.exists() else b""
            if all(content.count(each) >= 2 for each in self.rows):
                for process in [each for rank in ranks_on(self.path) for each in (rank, tracer_of(rank))]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                return


def row(epoch, number):
    """The beginning of a row, as crash_program.c writes it."""
    return [epoch * 1000003 + number * 1009 + i for i in range(100)]


def crash(how, path, libver, epochs, folder):
    """All ranks are killed after so many flushes, when they have written as much again.

    That is at once, with whatever has been drained by then, or when the file holds also what was never flushed.
    """
    if how == "at once":
        ended = run_on_two_nodes(path, libver, epochs, 1, folder)
    else:
        killer = KillerOfDrained(path, epochs)
        killer.start()
        try:
            # The program would kill itself at once; it is held there.
            ended = run_on_two_nodes(path, libver, epochs, 1, folder, before=holding("tgkill"))
        finally:
            killer.over.set()
            killer.join()
    assert flushed(ended.stdout) == epochs, ended.told()
    torn = path.read_bytes()
    assert without_marks(torn) != native_state(libver, epochs) or how == "at once", "there is something to be undone"
    return torn


CRASHES = ["at once", "all drained"]
needs_strace = pytest.mark.skipif(STRACE is None, reason="there is no strace")


@pytest.mark.check
@needs_strace
@pytest.mark.parametrize("how", CRASHES)
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(RANKS))))
def test_two_killed_nodes_come_back_to_their_last_flush_whoever_recovers_first(tmp_path, libver, order, how):
    expected = native_state(libver, EPOCHS)
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "run.h5"
    torn = crash(how, path, libver, EPOCHS, folder)

    first, last = (areas(folder)[rank] for rank in order)
    status, (file,) = recover(first)
    assert status == 1 and file["outcome"] == "waiting" and file["reason"] == "nodes_missing", file
    assert f"{order[1]} have not been recovered yet" in file["message"], file
    assert path.read_bytes() == torn, "not before all nodes have come"
    assert dead_directories(first), "the log stays"
    assert recover(first) == (1, [file]), "however often it is asked"

    status, (file,) = recover(last)
    assert status == 0, file
    if without_marks(torn) != expected:
        assert file["outcome"] == "recovered" and file["bytes"] > 0, file
    assert without_marks(path.read_bytes()) == expected
    assert dead_directories(last) == []

    status, (file,) = recover(first)
    assert status == 0 and file["outcome"] == "complete", file
    assert dead_directories(first) == [] and nothing_beside(path)
    assert without_marks(path.read_bytes()) == expected
    opened = subprocess.run([hdf5_prefix() / "bin" / "h5dump", path], env=native(), capture_output=True, timeout=60)
    assert opened.returncode == 0, opened.stderr


# A call at which a rank is killed, and the most of them before it: to the target, in the log, and anywhere.
KILLS = [("pwritev", 30), ("fallocate", 4), ("mmap", 60), ("futex", 40)]


@needs_strace
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_killed_at_any_time_the_file_is_at_a_flush_that_was_told_of_or_at_the_next(tmp_path, libver):
    chance = random.Random(seed_of(f"several nodes killed, {libver}"))
    for attempt in range(60 if LONG else 4):
        folder = tmp_path / f"run {attempt}"
        folder.mkdir()
        path, told_to = folder / "run.h5", folder / "strace"
        (system_call, most), rank = chance.choice(KILLS), chance.randrange(RANKS)
        nth = chance.randint(1, most)
        where = f"rank {rank} killed at {system_call} {nth}"
        # After its last flush all of it is killed in any case.
        before_rank = {rank: killing(system_call, nth, "KILL", told_to)}
        ended = run_on_two_nodes(path, libver, EPOCHS, 1, folder, before_rank=before_rank)
        told = flushed(ended.stdout)
        there = [area for area in areas(folder) if dead_directories(area)]
        for area in there:
            wait_for_the_end_of_all(area)
        if attempt % 2:
            there.reverse()
        if told == 0:  # perhaps not even open; then whoever has a journal waits for the others
            for area in there:
                recover(area)
            continue
        assert len(there) == RANKS
        reports = [recover(area) for area in there]
        assert [status for status, _ in reports] == [1, 0], f"{told} flushes told of, {where}: {reports}"
        after = without_marks(path.read_bytes())
        possible = [native_state(libver, epochs) for epochs in (told, told + 1)]
        assert after in possible, f"{told} flushes told of, {where}"
        status, (file,) = recover(there[0])
        assert status == 0 and file["outcome"] == "complete", f"{where}: {file}"
        assert nothing_beside(path)


@needs_strace
@pytest.mark.parametrize("epochs, how", [(1, "all drained"), (2, "at once"), (3, "all drained")])
def test_after_any_number_of_flushes_the_file_is_at_the_last_one(tmp_path, epochs, how):
    path = tmp_path / "run" / "run.h5"
    path.parent.mkdir()
    crash(how, path, "latest", epochs, tmp_path)
    first, last = areas(tmp_path)
    assert [recover(area)[0] for area in (first, last, first)] == [1, 0, 0]
    assert without_marks(path.read_bytes()) == native_state("latest", epochs)
    assert nothing_beside(path)


@needs_strace
def test_verify_tells_a_sound_journal_from_a_damaged_one(tmp_path):
    path = tmp_path / "run" / "run.h5"
    path.parent.mkdir()
    crash("all drained", path, "latest", EPOCHS, tmp_path)
    preserved = 0
    for member, area in enumerate(areas(tmp_path)):
        done = call("verify", "--json", area)
        (directory,) = json.loads(done.stdout)["directories"]
        (journal,) = directory["journals"]
        assert done.returncode == 0 and journal["path"] == str(path)
        assert (journal["member"], journal["members"]) == (member, RANKS)
        assert journal["commit"] > 0 and not journal["closed"]
        preserved += journal["bytes"]
    assert preserved > 0, "what the last epoch has overwritten"

    (file,) = Path(directory["path"]).glob("undo-*")
    with file.open("r+b") as damaged:
        damaged.seek(576)  # the path
        damaged.write(b"\xff")
    done = call("verify", areas(tmp_path)[-1])
    assert done.returncode == 1 and "NOT READ" in done.stdout and "journal" in done.stdout, done.stdout


def test_the_next_launch_brings_the_file_home_before_anybody_opens_it(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "run.h5"
    run_on_two_nodes(path, "earliest", EPOCHS, 1, tmp_path)
    # Created anew: what was left is void on both nodes, and does not come back.
    run_on_two_nodes(path, "earliest", 1, 0, tmp_path)
    for area, status in zip(areas(tmp_path), (1, 0), strict=True):
        assert recover(area)[0] == status
    assert path.read_bytes() == native_file("earliest", 1)


def test_without_the_option_no_journal_is_kept(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "run.h5"
    run_on_two_nodes(path, "earliest", 1, 1, tmp_path, FOREBAY_NODES="fast")
    for area in areas(tmp_path):
        assert dead_directories(area) and not list(area.glob("forebay-*/*/undo-*"))
        assert recover(area)[0] == 0


def test_ranks_that_do_not_agree_say_so_and_are_as_fast_as_ever(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "run.h5"
    per_rank = [
        {**names, "FOREBAY_NODES": nodes} for names, nodes in zip(node_names(2, 2), ("fast", "consistent"), strict=True)
    ]
    ended = run(path, "earliest", 1, 0, staged(tmp_path / "area"), per_rank)
    assert flushed(ended.stdout) == 1 and "the option is not set for every rank" in ended.stderr, ended.told()


OPEN = """
import sys, h5py
from mpi4py import MPI
with h5py.File(sys.argv[1], "r+", driver="mpio", comm=MPI.COMM_WORLD) as file:
    print("opened", len(file), flush=True)
"""


@needs_strace
def test_nodes_that_open_the_file_together_bring_it_home_first(tmp_path):
    python = os.environ.get("FOREBAY_HDF5_PYTHON")
    if python is None:
        pytest.skip("there is no h5py with MPI for this HDF5")
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "run.h5"
    torn = crash("all drained", path, "earliest", EPOCHS, tmp_path)
    per_rank = [
        {**names, "FOREBAY_NLS": str(area)}
        for names, area in zip(node_names(RANKS, RANKS), areas(tmp_path), strict=True)
    ]
    environment = staged(tmp_path / "unused", FOREBAY_NODES="consistent")

    # One node alone does not get at it: the other one's part is missing.
    alone = launch([python, "-c", OPEN, path], environment, folder, 1, SECONDS_MAX, per_rank=per_rank[:1])
    assert alone.hung is None and alone.returncode != 0 and "opened" not in alone.stdout, alone.told()
    assert "have not been recovered yet" in alone.stderr, alone.told()
    assert path.read_bytes() == torn

    both = launch([python, "-c", OPEN, path], environment, folder, RANKS, SECONDS_MAX, per_rank=per_rank)
    assert both.hung is None and both.returncode == 0 and both.stdout.count("opened") == RANKS, both.told()
    assert "it is at its last flush now" in both.stderr, both.told()
    assert not any(dead_directories(area) for area in areas(tmp_path)) and nothing_beside(path)
    (tmp_path / "native.h5").write_bytes(native_file("earliest", EPOCHS))
    h5diff = [hdf5_prefix() / "bin" / "h5diff", path, tmp_path / "native.h5"]
    compared = subprocess.run(h5diff, env=native(), capture_output=True, timeout=60)
    assert compared.returncode == 0, compared.stdout
