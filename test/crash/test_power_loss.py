"""Power fails on real file systems: staging area and target are two ext4 on loop devices, which are shut down.

EXT4_IOC_SHUTDOWN without a flush of the journal is as near to a loss of power as a running kernel gets. What was not
synced is gone, in whatever order it was written, and every later call fails. strace stops the program before, after one
of its system calls, so that it notices nothing; it is killed then. Both file systems are mounted again, which replays
their journals. Recovery has to bring the file to what a flush or the close had promised.

A loop device keeps its number for as long as it is set up, and so does the st_dev of its file system. Mounted again on
the same device, a file is the same one for recovery. On a device that was set up anew recovery would refuse it as
replaced. The boot id stays too: for recovery the process has died, and the machine has not been restarted. The tests
need root and loop devices.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from connector_environment import native
from crash_environment import (
    EPOCHS,
    LONG,
    SMALL,
    STRACE,
    States,
    dead_directories,
    killing,
    program,
    progress,
    staged,
    without_marks,
)
from loop_file_system import FileSystem, run, skip_without_tools
from seeds import seed_of
from test_cli import FOREBAY, call, clean_environment

pytestmark = [pytest.mark.skipif(STRACE is None, reason="there is no strace"), pytest.mark.slow]
SECONDS_MAX = 240  # for anything that is waited for
POINTS = 100 if LONG else 4  # of each case, others in each run, besides those of TOLD
TRIALS = 20
# The program's only writes tell of its flushes: it stands still when it has told of the first one, and of the third.
TOLD = [("write", 1), ("write", 3)]
# System calls, and how many of them the thread with most of them makes, with durability=node.
CALLS = [("pwritev", 45), ("fdatasync", 18), ("fallocate", 35), ("madvise", 37), ("munmap", 8), ("unlinkat", 4)]
CALLS_OF_RECOVERY = [("pwritev", 12), ("fdatasync", 4), ("openat", 60), ("unlinkat", 6)]
STOPPED = re.compile(r"^(\d+) +--- stopped by SIGSTOP ---", re.M)


@dataclass
class Node:
    """What loses its power."""

    staging: FileSystem
    target: FileSystem

    def fail(self, which):
        for each in which(self):
            each.shut_down()

    def start_again(self, which):
        for each in which(self):
            each.mount_again()


# The target of a node that fails may be on servers that do not.
BOTH, STAGING = (lambda node: [node.target, node.staging]), (lambda node: [node.staging])


@pytest.fixture
def node():
    skip_without_tools("power loss on ext4")
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="forebay-power-") as folder,
        contextlib.ExitStack() as stack,
    ):
        made = Node(FileSystem(Path(folder), "staging"), FileSystem(Path(folder), "target"))
        for each in made.staging, made.target:
            stack.callback(each.take_down)
            if (why := each.set_up()) is not None:
                pytest.skip(f"power loss on ext4: {why}")
        try:
            made.fail(BOTH)
        except OSError as error:
            pytest.skip(f"power loss on ext4: EXT4_IOC_SHUTDOWN: {error}")
        made.start_again(BOTH)
        yield made


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    def run_natively(path, epochs, tail):
        return subprocess.run(
            [program(), path, "latest", str(epochs), tail],
            env=native(),
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        ).stdout

    return States(tmp_path_factory.mktemp("native") / "latest", run_natively)


def start(node, durability, before=(), stdout=subprocess.PIPE):
    area = node.staging.path / "area"
    return subprocess.Popen(
        [*before, program(), node.target.path / "file.h5", "latest", str(EPOCHS), "close"],
        env=staged(area, **SMALL, FOREBAY_DURABILITY=durability),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def stopping(system_call, nth, told_to):
    """What to put before a command: it stands still after the `nth` of these calls that one of its threads makes."""
    told_to.unlink(missing_ok=True)
    return killing(system_call, nth, "STOP", told_to)


def lose_power(node, which, process, told_to):
    """Once all of it stands still it loses what was not synced, and is dead; or once it has ended."""
    while (stopped := STOPPED.search(told_to.read_text() if told_to.exists() else "")) is None:
        if process.poll() is not None:
            break
        time.sleep(0.005)
    node.fail(which)
    if stopped is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(stopped[1]), signal.SIGKILL)
    stdout, _ = process.communicate(timeout=SECONDS_MAX)
    node.start_again(which)
    return stdout or ""


def clear(node):
    shutil.rmtree(node.staging.path / "area", ignore_errors=True)
    (node.target.path / "file.h5").unlink(missing_ok=True)
    for each in node.staging, node.target:  # or the next loss of power brings them back
        assert run("sync", "--file-system", each.path).returncode == 0


def difference(states, path, told):
    """From the states that there may be: how many bytes, and the first one."""
    content = without_marks(path.read_bytes()) if path.exists() else b""
    texts = []
    for at in (told, told + 1):
        for state in states.states[min(at, EPOCHS + 1)]:
            differ = [i for i, (one, other) in enumerate(zip(content, state)) if one != other]
            texts.append(
                f"from {at} ({len(state)} bytes) at {len(differ)} places, the first {differ[:1]}, "
                f"zeros there: {all(content[i] == 0 for i in differ)}"
            )
    return "; ".join(texts)


def fail_while_recovering(node, which, chance, told_to):
    system_call, most = chance.choice(CALLS_OF_RECOVERY)
    process = subprocess.Popen(
        [*stopping(system_call, chance.randint(1, most), told_to)]
        + [FOREBAY, "recover", "--json", node.staging.path / "area"],
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    lose_power(node, which, process, told_to)


@dataclass
class Count:
    points: int = 0
    told: dict[int, int] = field(default_factory=dict)  # by how much the program had told of
    recovered: int = 0  # there was a log that was needed
    wrong: list[str] = field(default_factory=list)


def try_points(node, states, durability, which, again, points, chance, told_to):
    count = Count()
    for system_call, nth in points:
        told = progress(lose_power(node, which, start(node, durability, stopping(system_call, nth, told_to)), told_to))
        area, path = node.staging.path / "area", node.target.path / "file.h5"
        left = len(dead_directories(area))
        if again:
            fail_while_recovering(node, which, chance, told_to)
        done = call("recover", "--json", area) if area.exists() else None
        count.points += 1
        count.told[told] = count.told.get(told, 0) + 1
        count.recovered += left > 0
        what = []
        # Before the first flush the directory's entry of the file may be gone. Then there is nothing to recover to.
        never_there = told == 0 and not path.exists() and '"reason": "missing"' in (done.stdout if done else "")
        if done is not None and done.returncode != 0 and not never_there:
            what.append(f"recovery ended with {done.returncode}: {done.stderr}{done.stdout}")
        if (state := states.which(path, told)) is None:
            what.append(
                f"the file ({path.stat().st_size if path.exists() else 'no'} bytes) is none of the states that there "
                f"may be: {difference(states, path, told)}; {done.stdout if done else 'no log'}"
            )
        if what:
            count.wrong.append(
                f"after {told} steps were told of, at {system_call} {nth}: {'; '.join(what)}; state {state}"
            )
        clear(node)
    print(
        f"\ndurability={durability}, {'both' if which is BOTH else 'staging area'}"
        f"{', and while recovering' if again else ''}: {count.points} losses of power, steps told of: "
        f"{dict(sorted(count.told.items()))}, logs recovered: {count.recovered}, wrong: {len(count.wrong)}"
    )
    return count


@pytest.mark.parametrize("again", [False, True], ids=["once", "again-while-recovering"])
@pytest.mark.parametrize("which", [BOTH, STAGING], ids=["both", "staging-area"])
def test_with_durability_node_everything_promised_is_there_after_a_loss_of_power(node, states, which, again, tmp_path):
    chance = random.Random(seed_of(f"power loss {which is BOTH} {again}"))
    drawn = [(call, chance.randint(1, most)) for call, most in chance.choices(CALLS, k=POINTS)]
    count = try_points(node, states, "node", which, again, [*TOLD, *drawn], chance, tmp_path / "strace")
    assert count.wrong == []
    # It was tried in the midst of things, and staging was on.
    assert count.points == len(TOLD) + POINTS and len(count.told) > 1 and count.recovered >= len(TOLD)


def test_with_durability_process_a_loss_of_power_takes_what_was_not_synced(node, states, tmp_path):
    """This level makes no promise. Such a loss does take something; else the tests above would show nothing."""
    chance = random.Random(seed_of("power loss process"))
    for _ in range(TRIALS):  # the kernel may have written all of it back
        count = try_points(node, states, "process", BOTH, False, TOLD, chance, tmp_path / "strace")
        assert count.points == len(TOLD) and max(count.told) > 0
        if count.wrong:
            return
    pytest.fail("a loss of power that loses nothing that was flushed is none")
