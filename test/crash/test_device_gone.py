"""The staging device goes away while a program writes, and the program goes on: its file is right, or it was told.

The staging area is an ext4 or XFS on a loop device that is shut down. Every later call fails. With XFS so does every
store to a page that was written back before. If the program stands still meanwhile, these are all faults that it meets.
Nothing is killed; no run may end by a signal, or hang.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest
from connector_environment import native
from crash_environment import (
    LONG,
    SMALL,
    STRACE,
    killing,
    program,
    ranks_on,
    running_on,
    staged,
    wait_for_the_end_of_all,
    without_marks,
)
from loop_file_system import FileSystem, run, skip_without_tools
from parallel_environment import launch
from seeds import seed_of

pytestmark = [pytest.mark.skipif(STRACE is None, reason="there is no strace"), pytest.mark.slow]
EPOCHS = 40
SECONDS_MAX = 240  # for a run, which takes less than one second
POINTS = 150 if LONG else 6
SIGNALLED = 128  # how shells tell of a signal: its number and this
# MPICH's launcher reports one number, which mixes the statuses of all ranks. Some of them gave up; it killed the
# others.
NEVER = 60_000  # no thread makes so many calls; strace counts no further than 65,535
OF_FAULTS = {signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}


def start(path, ranks, environment, before=()):
    """Exit status, standard output and standard error. `before` comes before the command of the first rank."""
    command = [program(), path, "latest", EPOCHS, "close"]
    if ranks > 1:
        ended = launch([*command, "mpi"], environment, path.parent, ranks, SECONDS_MAX, before_rank={0: [*before]})
        assert ended.hung is None, ended.told()
    else:
        ended = subprocess.run(
            [str(word) for word in (*before, *command)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture(params=["ext4", "xfs"])
def staging(request):
    what = f"a staging device that goes away ({request.param})"
    skip_without_tools(what, request.param)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="forebay-gone-") as folder, contextlib.ExitStack() as stack:
        made = FileSystem(Path(folder), "staging", request.param)
        stack.callback(made.take_down)
        if (why := made.set_up()) is not None:
            pytest.skip(f"{what}: {why}")
        try:
            made.shut_down()
        except OSError as error:
            pytest.skip(f"{what}: it cannot be shut down: {error}")
        made.mount_again()
        yield made


class Departure(threading.Thread):
    """The device goes away at the call that `at_call` has told strace to look for, or when the launch is over."""

    def __init__(self, staging, path, how, told_to, nth):
        super().__init__()
        self.staging, self.path, self.how, self.told_to, self.nth = staging, path, how, told_to, nth
        self.over = threading.Event()
        self.stopped = []

    def is_time(self):
        told = self.told_to.read_text() if self.told_to.exists() else ""
        if self.how == "while_it_stands_still":
            return "--- stopped by SIGSTOP ---" in told
        return told.count("(") >= self.nth

    def run(self):
        while not self.is_time() and not self.over.wait(0.002):
            pass
        if self.how == "while_it_stands_still" and not self.over.is_set():
            for rank in ranks_on(self.path):  # one of them stands still already
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank, signal.SIGSTOP)
                    self.stopped.append(rank)
        if self.how != "at_once":
            run("sync", "--file-system", self.staging.path)
        self.staging.shut_down()
        # Each thread that makes so many of the calls stops all of them once more.
        while self.how == "while_it_stands_still" and not self.over.wait(0.01):
            for rank in ranks_on(self.path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank, signal.SIGCONT)


def at_call(system_call, nth, how, told_to):
    """What to put before the first rank, which notes these calls, or stands still after the `nth`."""
    if how == "while_it_stands_still":
        return killing(system_call, nth, "STOP", told_to)
    return [STRACE, "-f", "--seccomp-bpf", "-qq", "-o", str(told_to), "-e", f"trace={system_call}"]


def outcome(path, expected, returncode, stdout, stderr):
    by_signals = {int(number) for number in re.findall(r"EXIT STRING: .*\(signal (\d+)\)", stdout)}
    assert 0 <= returncode < SIGNALLED and not by_signals & OF_FAULTS, (
        f"ended by a signal: {returncode}\n{stdout}{stderr}"
    )
    if returncode != 0:
        assert " failed" in stderr, stderr
        return "told"
    assert stdout.count("closed") == 1, stdout
    assert without_marks(path.read_bytes()) == expected
    return "right"


@pytest.mark.parametrize("how", ["at_once", "after_writing_back", "while_it_stands_still"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_file_is_right_or_the_program_is_told(tmp_path, staging, ranks, how):
    (tmp_path / "native").mkdir()
    path, expected_path, area = tmp_path / "file.h5", tmp_path / "native" / "file.h5", staging.path / "area"
    assert start(expected_path, ranks, native())[0] == 0
    expected = without_marks(expected_path.read_bytes())
    stats = tmp_path / "stats"
    assert outcome(path, expected, *start(path, ranks, staged(area, **SMALL, FOREBAY_STATS=str(stats)))) == "right"
    told = [json.loads(line).get("file", {}) for line in stats.read_text().splitlines()]
    assert sum(file.get("staged", 0) for file in told) > EPOCHS * 8 * 6000 * 4, "all epochs' rows were staged"
    count, stood_still = Counter(), 0
    choose = random.Random(seed_of(f"device gone {ranks} {how}"))
    for point in range(POINTS):
        # The first rank writes what it tells of each flush, and drains. The last point comes when all is over.
        system_call, most = [("write", EPOCHS), ("pwritev", 60)][point % 2]
        nth = choose.randint(1, most) if point < POINTS - 1 else NEVER
        path.unlink()
        shutil.rmtree(area, ignore_errors=True)
        (tmp_path / "strace").unlink(missing_ok=True)
        going = Departure(staging, path, how, tmp_path / "strace", nth)
        environment = staged(area, **SMALL)
        going.start()
        try:
            ended = start(path, ranks, environment, at_call(system_call, nth, how, tmp_path / "strace"))
        finally:
            going.over.set()
            going.join()
        wait_for_the_end_of_all(None, path)  # those that the launcher has killed
        assert running_on(path) == []
        count[outcome(path, expected, *ended)] += 1
        stood_still += len(going.stopped) > 0
        path.touch()
        staging.mount_again()
    print(f"{ranks} ranks, {how}: {dict(count)}, {stood_still} times it stood still")
    assert count["right"] > 0
    assert stood_still >= (POINTS - 1) // 2 or how != "while_it_stands_still"
