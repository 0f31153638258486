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
import time
from collections import Counter
from pathlib import Path

import pytest
from connector_environment import native
from crash_environment import LONG, PROGRAM, SMALL, program, running_on, staged, without_marks
from loop_file_system import FileSystem, run, skip_without_tools
from parallel_environment import launch
from seeds import seed_of

pytestmark = pytest.mark.slow
EPOCHS = 40
SECONDS_MAX = 240  # for a run, which takes less than one second
POINTS = 150 if LONG else 6
SIGNALLED = 128  # how shells tell of a signal: its number and this
# MPICH's launcher reports one number, which mixes the statuses of all ranks. Some of them gave up; it killed the
# others.
OF_FAULTS = {signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}


def start(path, ranks, environment):
    """Exit status, standard output and standard error."""
    command = [program(), path, "latest", EPOCHS, "close"]
    if ranks > 1:
        ended = launch([*command, "mpi"], environment, path.parent, ranks, SECONDS_MAX)
        assert ended.hung is None, ended.told()
    else:
        ended = subprocess.run(
            [str(word) for word in command], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
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


def go_away(staging, path, delay, how, stopped):
    time.sleep(delay)
    ranks = (
        [process for process in running_on(path) if named(process) == PROGRAM.name[:15]]
        if how == "while_it_stands_still"
        else []
    )
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, signal.SIGSTOP)
            stopped.append(rank)
    if how != "at_once":
        run("sync", "--file-system", staging.path)
    staging.shut_down()
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, signal.SIGCONT)


def named(process):
    with contextlib.suppress(OSError):  # it has just ended
        return Path(f"/proc/{process}/comm").read_text().strip()


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
    begin = time.monotonic()
    assert outcome(path, expected, *start(path, ranks, staged(area, **SMALL, FOREBAY_STATS=str(stats)))) == "right"
    longest = time.monotonic() - begin
    told = [json.loads(line).get("file", {}) for line in stats.read_text().splitlines()]
    assert sum(file.get("staged", 0) for file in told) > EPOCHS * 8 * 6000 * 4, "all epochs' rows were staged"
    count, stopped = Counter(), []
    choose = random.Random(seed_of(f"device gone {ranks} {how}"))
    for point in range(POINTS):
        delay = (point + choose.random()) / (POINTS - 1) * longest  # the last one comes when all is over
        path.unlink()
        shutil.rmtree(area, ignore_errors=True)
        going = threading.Thread(target=go_away, args=(staging, path, delay, how, stopped))
        environment = staged(area, **SMALL)
        going.start()
        try:
            ended = start(path, ranks, environment)
        finally:
            going.join()
        count[outcome(path, expected, *ended)] += 1
        path.touch()
        staging.mount_again()
    print(f"{ranks} ranks, {how}: {dict(count)}")
    assert count["right"] > 0
    assert len(stopped) >= POINTS // 4 or how != "while_it_stands_still", "hardly any was running"
