"""Parallel programs on a target whose writes fail for ever: after a few attempts all ranks get the error.

Recovery loses nothing then. The target is a slowfs mount with a file that was made natively. A staged run overwrites it
while all writes to the target fail. docs/consistency.md, "Files opened with MPI" and "Errors", says what is promised.
"""

import errno
import os
import re
import shutil
from pathlib import Path

import pytest
from connector_environment import bytes_staged, native, run, staged, statistics
from parallel_environment import BUILD, Launch, launch, node_names, program
from pairwise import pairwise

from forebay.slowfs import SlowFS, available

_usable, _reason = available()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")]

RANKS = 2
# Of each node: of its own accord, at the flush and at the close the drain tries once each, and five times more between
# them with on_error=retry. Metadata that bypass the log are written one by one, too.
FAILED_WRITES_MAX = 16
SECONDS_MAX = 240  # after so long a program counts as one that waits for ever


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    made = launch([program("parallel_cases"), "prepared"], native(), folder, RANKS, SECONDS_MAX)
    assert made.returncode == 0, made.told()
    return folder / "prepared.h5"


@pytest.fixture
def target(prepared, tmp_path):
    with SlowFS(tmp_path / "backing", tmp_path / "target") as fs:
        shutil.copy(prepared, fs / "prepared.h5")
        yield fs


def run_on(fs: SlowFS, tmp_path, case: str, cause: str, nodes: int, **options: str) -> Launch:
    """`cause` is the name of an errno, or "hang"."""
    fs.fault("op=write,hang" if cause == "hang" else f"op=write,errno={cause}")
    command = [program("parallel_cases"), case]
    done = launch(
        command, staged(tmp_path, **options), tmp_path / "target", RANKS, SECONDS_MAX, node_names(RANKS, nodes)
    )
    assert done.hung is None, done.told()
    # An error is told after a few attempts, and not after many.
    assert 0 < fs.stats()["faults"][0]["hit"] <= FAILED_WRITES_MAX * nodes, (fs.stats()["faults"], done.told())
    assert "WRONG DATA" not in done.stdout, done.told()
    return done


def failed(done: Launch, what: str) -> bool:
    """Whether all ranks were told that a call failed. That some were told and others not is no answer."""
    told = [f"rank {rank}: {what}: failed" in done.stdout for rank in range(RANKS)]
    assert len(set(told)) == 1, done.told()
    return told[0]


def assert_told_why(done: Launch, call: str, cause: str, path) -> None:
    """HDF5's error stacks, one per rank and call, name the file, an offset and the cause."""
    reason = re.escape(os.strerror(getattr(errno, cause)))
    why = rf"{call}\(\): .*write \d+ bytes at offset \d+ of {re.escape(str(path))}: {reason}"
    assert len(re.findall(why, done.stderr)) == RANKS, done.told()
    # The rank that writes for the others is named to them.
    assert re.search(rf"{call}\(\): .*rank 0: ", done.stderr), done.told()


def recover(tmp_path):
    return run([BUILD / "bin" / "forebay", "recover", tmp_path / "staging-area"], native(), tmp_path)


def assert_recovered(fs: SlowFS, tmp_path) -> None:
    """During the fault recovery fails and keeps the logs. After it the file has everything that was flushed."""
    assert recover(tmp_path).returncode == 1
    fs.clear()
    assert_recovered_without_fault(tmp_path)


def assert_recovered_without_fault(tmp_path) -> None:
    done = recover(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    checked = run([program("parallel_cases"), "check", tmp_path / "backing" / "prepared.h5"], native(), tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert all(f"row {row}, version 2: right" in checked.stdout for row in range(RANKS))
    assert [path for path in (tmp_path / "staging-area").rglob("log*")] == []


ON_ERROR = ["fail", "retry"]
CAUSES = ["EIO", "ENOSPC"]


@pytest.mark.parametrize(
    ("cause", "on_error", "case"), pairwise("told at close", CAUSES, ON_ERROR, ["overwritten", "overwritten-and-read"])
)
def test_all_ranks_of_a_node_are_told_at_flush_and_close(cause, on_error, case, target, tmp_path):
    done = run_on(target, tmp_path, case, cause, 1, FOREBAY_ON_ERROR=on_error)
    assert failed(done, "flush") and failed(done, "close")
    assert not failed(done, "H5Dclose(dataset)"), done.told()
    for call in "file_flush", "file_close":
        assert_told_why(done, call, cause, target / "prepared.h5")
    if case == "overwritten-and-read":  # what could not be written can still be read
        assert all(f"rank {rank}: row {rank}, version 2: right" in done.stdout for rank in range(RANKS))
    assert bytes_staged(tmp_path) >= RANKS * (2 << 20), "nothing was staged"
    assert {entry["error"] for entry in statistics(tmp_path)} == {getattr(errno, cause)}
    assert_recovered(target, tmp_path)


@pytest.mark.parametrize(("cause", "on_error", "nodes"), pairwise("may give up", CAUSES, ON_ERROR, [1, 2]))
def test_all_ranks_are_told_at_flush_and_may_give_up(cause, on_error, nodes, target, tmp_path):
    done = run_on(target, tmp_path, "overwritten-or-given-up", cause, nodes, FOREBAY_ON_ERROR=on_error)
    assert failed(done, "flush"), done.told()
    assert_told_why(done, "file_flush", cause, target / "prepared.h5")
    assert_recovered(target, tmp_path)


@pytest.mark.parametrize(
    ("case", "nodes", "on_error"),
    [
        ("overwritten", 2, "fail"),
        ("overwritten", 2, "retry"),
        ("overwritten", 2, "through"),
        ("overwritten", 1, "through"),
    ],
)
def test_nobody_waits_for_ever(case, nodes, on_error, target, tmp_path):
    """Metadata bypass the log here, so one rank alone sees them fail, in the middle of a collective step of HDF5."""
    done = run_on(target, tmp_path, case, "EIO", nodes, FOREBAY_ON_ERROR=on_error)
    assert failed(done, "flush") and failed(done, "close")
    for call in "file_flush", "file_close":
        told = re.findall(rf"{call}\(\): .*prepared.h5: Input/output error", done.stderr)
        assert len(told) == RANKS, done.told()
    assert bytes_staged(tmp_path) >= RANKS * (2 << 20), "nothing was staged"
    assert_recovered(target, tmp_path)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("on_error", ["fail", "through"])
def test_a_new_file_on_a_target_that_fails_is_no_trap(on_error, nodes, target, tmp_path):
    """Creating a file and datasets writes metadata, too; natively the ranks wait for each other here."""
    done = run_on(target, tmp_path, "prepared", "EIO", nodes, FOREBAY_ON_ERROR=on_error)
    assert len(re.findall(r"file_close\(\): .*Input/output error", done.stderr)) == RANKS, done.told()
    assert all(f"rank {rank}: H5Fclose(file): failed" in done.stdout for rank in range(RANKS)), done.told()


def test_a_read_of_what_another_node_cannot_bring_home_fails(target, tmp_path):
    done = run_on(target, tmp_path, "overwritten-and-read", "EIO", 2, FOREBAY_ON_ERROR="fail")
    assert failed(done, "read"), done.told()
    assert "which drains for another node, cannot write the bytes staged there" in done.stderr, done.told()
    assert failed(done, "close"), done.told()


# With several nodes HDF5 writes metadata straight to the target as it closes the file. Such a write waits as long as
# the target does. So those ranks get the error from the flush, and give up.
@pytest.mark.parametrize(("case", "nodes"), [("overwritten-and-read", 1), ("overwritten-or-given-up", 2)])
@pytest.mark.parametrize("on_error", ON_ERROR)
def test_all_ranks_are_told_of_a_target_that_hangs_and_recovery_brings_everything_home(
    on_error, case, nodes, target, tmp_path
):
    done = run_on(target, tmp_path, case, "hang", nodes, FOREBAY_ON_ERROR=on_error, FOREBAY_PATIENCE="2")
    calls = (
        {"flush": "file_flush", "close": "file_close"} if case == "overwritten-and-read" else {"flush": "file_flush"}
    )
    path = target / "prepared.h5"
    for what, call in calls.items():
        assert failed(done, what), done.told()
        why = (
            rf"{call}\(\): .*nothing has reached {re.escape(str(path))} for 2 seconds; "
            r"\d+ bytes of it are in the staging log"
        )
        assert len(re.findall(why, done.stderr)) == RANKS, done.told()
        assert re.search(rf"{call}\(\): .*rank 0: ", done.stderr), done.told()
    if case == "overwritten-and-read":  # what could not be written can still be read
        assert all(f"rank {rank}: row {rank}, version 2: right" in done.stdout for rank in range(RANKS))
        assert bytes_staged(tmp_path) >= RANKS * (2 << 20), "nothing was staged"
        assert {entry["error"] for entry in statistics(tmp_path)} == {errno.ETIMEDOUT}
        assert sum(entry["drained"] for entry in statistics(tmp_path)) == 0
    assert [path for path in (tmp_path / "staging-area").rglob("log*")], "the logs are gone"
    target.clear()
    assert_recovered_without_fault(tmp_path)
