"""Power fails on real file systems: staging area and target are two ext4 on loop devices, which are shut down.

EXT4_IOC_SHUTDOWN without a flush of the journal is as near to a loss of power as a running kernel gets. What was not
synced is gone, in whatever order it was written, and every later call fails. The program is stopped before, so that it
notices nothing, and is killed then. Both file systems are mounted again, which replays their journals. Recovery has to
bring the file to what a flush or the close had promised.

A loop device keeps its number for as long as it is set up, and so does the st_dev of its file system. Mounted again on
the same device, a file is the same one for recovery. On a device that was set up anew recovery would refuse it as
replaced. The boot id stays too: for recovery the process has died, and the machine has not been restarted. The tests
need root and loop devices.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from connector_environment import native
from crash_environment import EPOCHS, LONG, SMALL, States, dead_directories, program, progress, staged, without_marks
from loop_file_system import FileSystem, run, skip_without_tools
from test_cli import FOREBAY, call, clean_environment

pytestmark = pytest.mark.slow
SECONDS_MAX = 240  # for anything that is waited for
SECONDS_OF_A_CASE = 150 if LONG else 30  # at most
POINTS = 10_000 if LONG else 5  # at least, and until it was shown what each case must show


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


def start(node, durability):
    area = node.staging.path / "area"
    return subprocess.Popen(
        [program(), node.target.path / "file.h5", "latest", str(EPOCHS), "close"],
        env=staged(area, **SMALL, FOREBAY_DURABILITY=durability),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def lose_power(node, which, process):
    """All of it stands still, loses what was not synced, and is dead."""
    process.send_signal(signal.SIGSTOP)
    if process.returncode is None:  # else it had ended
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    node.fail(which)
    process.kill()
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


def duration(node, durability):
    begin = time.monotonic()
    stdout, _ = start(node, durability).communicate(timeout=SECONDS_MAX)
    assert progress(stdout) == EPOCHS + 1, stdout
    clear(node)
    return time.monotonic() - begin


def fail_while_recovering(node, which, longest):
    process = subprocess.Popen(
        [FOREBAY, "recover", "--json", node.staging.path / "area"],
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(random.uniform(0, longest))
    lose_power(node, which, process)


@dataclass
class Count:
    points: int = 0
    told: dict[int, int] = field(default_factory=dict)  # by how much the program had told of
    recovered: int = 0  # there was a log that was needed
    wrong: list[str] = field(default_factory=list)


def try_points(node, states, durability, which, again, shown):
    count = Count()
    longest = duration(node, durability)
    until = time.monotonic() + SECONDS_OF_A_CASE
    while (
        time.monotonic() < until
        and not (count.points >= POINTS and shown(count))
        and not (count.wrong and durability == "node")
    ):
        delay = random.uniform(0.02, 1.1 * longest)
        process = start(node, durability)
        time.sleep(delay)
        told = progress(lose_power(node, which, process))
        area, path = node.staging.path / "area", node.target.path / "file.h5"
        if again:
            fail_while_recovering(node, which, 0.05)
        left = len(dead_directories(area))
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
                f"after {told} steps were told of, {delay:.3f} s of {longest:.3f} s: {'; '.join(what)}; state {state}"
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
def test_with_durability_node_everything_promised_is_there_after_a_loss_of_power(node, states, which, again):
    count = try_points(node, states, "node", which, again, lambda count: len(count.told) > 1 and count.recovered > 0)
    assert count.wrong == []
    # It was tried in the midst of things, and staging was on.
    assert count.points >= 3 and len(count.told) > 1 and count.recovered > 0


def test_with_durability_process_a_loss_of_power_takes_what_was_not_synced(node, states):
    """This level makes no promise. Such a loss does take something; else the tests above would show nothing."""
    count = try_points(node, states, "process", BOTH, False, lambda count: count.wrong and max(count.told) > 0)
    assert count.points >= 3 and max(count.told) > 0
    assert count.wrong, "a loss of power that loses nothing that was flushed is none"
