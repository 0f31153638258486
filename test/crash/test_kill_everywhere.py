"""A signal ends a serial program at every system call of one name, one after the other, and each time it is recovered.

The program closes its file at the end. It is killed on the way there and after it too: while it gives its log back and
removes its process directory. strace injects the signal: SIGKILL before the call is made, SIGTERM after it. strace
counts the calls of each thread for itself, and kills the first thread that makes N of them. So a campaign has as many
points as the thread with most of these calls makes. Without strace the tests are skipped.
"""

import contextlib
import os
import signal
import subprocess

import pytest
from connector_environment import native
from crash_environment import (
    EPOCHS,
    LONG,
    SMALL,
    STRACE,
    States,
    Tally,
    area_on_disk,
    killing,
    program,
    progress,
    staged,
    was_killed,
)
from seeds import seed_of

pytestmark = [pytest.mark.skipif(STRACE is None, reason="there is no strace"), pytest.mark.slow]
SECONDS_MAX = 240
# Signal, system call, durability, and the number of calls between two kills. The seed of the run chooses the first
# call, so that in time each call has its turn. FOREBAY_TEST_LONG=1 takes all of them.
KILLS = [
    ("pwritev", "process", 2),  # to the target
    ("pwritev", "node", 9),
    ("write", "process", 1),  # what it tells of its flushes
    ("ftruncate", "process", 1),
    ("fallocate", "process", 1),  # the log grows
    ("fsync", "node", 1),
    ("fdatasync", "node", 4),
    ("unlinkat", "process", 1),  # the end of the process directory
    ("unlinkat", "node", 2),
    ("flock", "process", 1),
    ("fcntl", "process", 2),
    ("mkdirat", "process", 1),
    ("munmap", "process", 3),  # giving the log back
    ("madvise", "process", 5),
    ("mmap", "process", 25),
    ("close", "process", 9),
    ("openat", "process", 30),
    ("futex", "process", 15),  # how often depends on who comes first
]
CAMPAIGNS = [("KILL", *campaign) for campaign in KILLS] + [
    ("TERM", "pwritev", "process", 3),
    ("TERM", "write", "process", 1),
    ("TERM", "munmap", "process", 6),
    ("TERM", "fdatasync", "node", 8),
]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    def run_of(libver):
        def run(path, epochs, tail):
            return subprocess.run(
                [program(), path, libver, str(epochs), tail],
                env=native(),
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
            ).stdout

        return run

    return {
        libver: States(tmp_path_factory.mktemp("native") / libver, run_of(libver)) for libver in ("earliest", "latest")
    }


def run_to_its_end(command, environment):
    """The process, and its outputs; the first is None if it was hanging, and was ended with all that it had started."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        return process, *process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return process, None, ""


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("kind,system_call,durability,step", CAMPAIGNS)
def test_whenever_it_is_killed_the_file_holds_its_last_flush(
    tmp_path, states, kind, system_call, durability, step, libver
):
    tally = Tally(f"SIG{kind} at {system_call}, durability={durability}, {libver}")
    with area_on_disk() if durability == "node" else contextlib.nullcontext(tmp_path) as folder:
        nth = first = 1 if LONG else 1 + seed_of(tally.name) % step
        while True:
            path, area, told_to = tmp_path / f"{nth}.h5", folder / f"area {nth}", tmp_path / "strace"
            process, stdout, stderr = run_to_its_end(
                [*killing(system_call, nth, kind, told_to), program(), path, libver, str(EPOCHS), "close"],
                staged(area, **SMALL, FOREBAY_DURABILITY=durability),
            )
            where = f"SIG{kind} at {system_call} {nth}"
            if stdout is None:
                tally.hung.append(where)
                break
            if not was_killed(told_to, kind):
                assert process.returncode == 0 and progress(stdout) == EPOCHS + 1, f"{where}: {stdout}{stderr}"
                if nth > first or first == 1:
                    break
                nth = first = 1  # there are not so many calls
                continue
            tally.look(where, states[libver], path, area, stdout)
            nth += 1 if LONG else step
        tally.end()
