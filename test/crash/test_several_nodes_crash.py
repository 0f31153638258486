"""All ranks of an MPI program on several played nodes are killed, with nodes=consistent.

Each node has a staging area of its own.
"""

import itertools
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from connector_environment import hdf5_prefix, native
from crash_environment import dead_directories, flushed, program, staged, without_marks
from parallel_environment import launch, node_names
from test_cli import call

RANKS = 2
EPOCHS = 4


def areas(folder, ranks=RANKS):
    return [folder / f"area {rank}" for rank in range(ranks)]


def run(path, libver, epochs, tail, environment, per_rank=None, before=(), seconds=60):
    ended = launch(
        [*before, program(), path, libver, epochs, tail, "mpi"],
        environment,
        path.parent,
        RANKS,
        seconds,
        per_rank=per_rank,
    )
    assert ended.hung is None, ended.told()
    return ended


def run_on_two_nodes(path, libver, epochs, tail, folder, before=(), **more):
    """Each rank on a node of its own."""
    environment = staged(folder / "unused", **{"FOREBAY_NODES": "consistent", **more})
    per_rank = [
        {**names, "FOREBAY_NLS": str(area)} for names, area in zip(node_names(RANKS, RANKS), areas(folder), strict=True)
    ]
    for area in areas(folder):
        area.mkdir(parents=True, exist_ok=True)
    return run(path, libver, epochs, tail, environment, per_rank, before)


def recover(area):
    done = call("recover", "--json", area)
    files = json.loads(done.stdout)["files"]
    assert all(file["commit_time_ns"] for file in files if file["commit_sequence"])
    return done.returncode, files


def wait_for_the_end_of_all(area):
    """The launcher ends what it has started, which need not be the rank itself."""
    for _ in range(100):
        if not json.loads(call("recover", "--json", "--dry-run", area).stdout)["living"]:
            return
        time.sleep(0.1)
    pytest.fail("a rank lives on")


def native_state(folder, libver, epochs):
    """What the file holds after so many flushes."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{epochs}.h5"
    if epochs == 0:
        return b""
    if not path.exists():
        assert flushed(run(path, libver, epochs, 0, native()).stdout) == epochs
    return without_marks(path.read_bytes())


def nothing_beside(path):
    return [entry.name for entry in path.parent.iterdir() if "forebay-" in entry.name] == []


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(RANKS))))
def test_two_killed_nodes_come_back_to_their_last_flush_whoever_recovers_first(tmp_path, libver, order):
    expected = native_state(tmp_path / "native", libver, EPOCHS)
    # It is killed while its last writes drain, or before any of them has.
    for attempt in range(20):
        folder = tmp_path / f"run {attempt}"
        folder.mkdir()
        path = folder / "run.h5"
        ended = run_on_two_nodes(path, libver, EPOCHS, 1, folder)
        assert flushed(ended.stdout) == EPOCHS, ended.told()
        torn = path.read_bytes()
        if without_marks(torn) != expected:
            break
    assert without_marks(torn) != expected, "there is something to be undone"

    first, last = (areas(folder)[rank] for rank in order)
    status, (file,) = recover(first)
    assert status == 1 and file["outcome"] == "waiting" and file["reason"] == "nodes_missing", file
    assert f"{order[1]} have not been recovered yet" in file["message"], file
    assert path.read_bytes() == torn, "not before all nodes have come"
    assert dead_directories(first), "the log stays"
    assert recover(first) == (1, [file]), "however often it is asked"

    status, (file,) = recover(last)
    assert status == 0 and file["outcome"] == "recovered", file
    assert file["bytes"] > 0
    assert without_marks(path.read_bytes()) == expected
    assert dead_directories(last) == [] and nothing_beside(path)

    status, (file,) = recover(first)
    assert status == 0 and file["outcome"] == "complete", file
    assert dead_directories(first) == []
    assert without_marks(path.read_bytes()) == expected
    opened = subprocess.run([hdf5_prefix() / "bin" / "h5dump", path], env=native(), capture_output=True, timeout=60)
    assert opened.returncode == 0, opened.stderr


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_killed_at_any_time_the_file_is_at_a_flush_that_was_told_of_or_at_the_next(tmp_path, libver):
    many = 5000
    states, undone = set(), 0
    for attempt in range(60 if os.environ.get("FOREBAY_TEST_LONG") == "1" else 5):
        folder = tmp_path / f"run {attempt}"
        folder.mkdir()
        path = folder / "run.h5"
        seconds = f"{0.3 + 0.13 * attempt % 0.9:.2f}"
        ended = run_on_two_nodes(path, libver, many, 1, folder, before=("timeout", "-s", "KILL", seconds))
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
        before = path.read_bytes()
        reports = [recover(area) for area in there]
        assert [status for status, _ in reports] == [1, 0], (
            f"{told} flushes told of, killed after {seconds} s: {reports}"
        )
        after = without_marks(path.read_bytes())
        possible = [native_state(tmp_path / "native", libver, epochs) for epochs in (told, told + 1)]
        assert after in possible, f"{told} flushes told of, killed after {seconds} s"
        assert nothing_beside(path)
        states.add(told)
        undone += before != path.read_bytes()
    assert len(states) > 1 and undone > 0, (states, undone)


def test_verify_tells_a_sound_journal_from_a_damaged_one(tmp_path):
    path = tmp_path / "run.h5"
    ended = run_on_two_nodes(path, "latest", EPOCHS, 1, tmp_path)
    assert flushed(ended.stdout) == EPOCHS, ended.told()
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
    assert path.read_bytes() == native_state(tmp_path / "native", "earliest", 1)


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


def test_nodes_that_open_the_file_together_bring_it_home_first(tmp_path):
    python = os.environ.get("FOREBAY_HDF5_PYTHON")
    if python is None:
        pytest.skip("there is no h5py with MPI for this HDF5")
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "run.h5"
    run_on_two_nodes(path, "earliest", EPOCHS, 1, tmp_path)
    torn = path.read_bytes()
    per_rank = [
        {**names, "FOREBAY_NLS": str(area)}
        for names, area in zip(node_names(RANKS, RANKS), areas(tmp_path), strict=True)
    ]
    environment = staged(tmp_path / "unused", FOREBAY_NODES="consistent")

    # One node alone does not get at it: the other one's part is missing.
    alone = launch([python, "-c", OPEN, path], environment, folder, 1, 60, per_rank=per_rank[:1])
    assert alone.hung is None and alone.returncode != 0 and "opened" not in alone.stdout, alone.told()
    assert "have not been recovered yet" in alone.stderr, alone.told()
    assert path.read_bytes() == torn

    both = launch([python, "-c", OPEN, path], environment, folder, RANKS, 60, per_rank=per_rank)
    assert both.hung is None and both.returncode == 0 and both.stdout.count("opened") == RANKS, both.told()
    assert "it is at its last flush now" in both.stderr, both.told()
    assert not any(dead_directories(area) for area in areas(tmp_path)) and nothing_beside(path)
    native_state(tmp_path / "native", "earliest", EPOCHS)
    h5diff = [hdf5_prefix() / "bin" / "h5diff", path, tmp_path / "native" / f"{EPOCHS}.h5"]
    compared = subprocess.run(h5diff, env=native(), capture_output=True, timeout=60)
    assert compared.returncode == 0, compared.stdout
