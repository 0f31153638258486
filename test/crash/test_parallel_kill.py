"""Two MPI ranks on one node, of which one is killed at every system call of one name, or some of them at any time.

The launcher ends the other rank then. strace injects the signal into one rank only, as in test_kill_everywhere.py.
Without strace those tests are skipped. Afterwards nothing runs any more, and recovery brings the file to its last
flush.
"""

import contextlib
import itertools
import os
import signal
import threading
import time

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
    dead_directories,
    killing,
    program,
    progress,
    staged,
    still_running,
    wait_for_the_end_of_all,
    was_killed,
)
from parallel_environment import launch

pytestmark = pytest.mark.slow
RANKS = 2
SECONDS_MAX = 240
# System call; durability; the calls at which rank 0 and rank 1 are killed. FOREBAY_TEST_LONG=1 takes all calls.
CAMPAIGNS = [
    ("pwritev", "process", [(1, 12, 30), (1, 4)]),  # to the target: rank 0 drains
    ("pwritev", "node", [(12,), (4,)]),
    ("fdatasync", "node", [(5,), (5,)]),
    ("fallocate", "process", [(1, 4), (4,)]),  # the board of the file, then the log grows
    ("unlinkat", "process", [(1, 3), (1, 3)]),  # the end of the process directory
    ("munmap", "process", [(20,), (20,)]),  # giving the log back
]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    def run_of(libver):
        def run(path, epochs, tail):
            return launch(
                [program(), path, libver, epochs, tail, "mpi"], native(), path.parent, RANKS, SECONDS_MAX
            ).stdout

        return run

    return {
        libver: States(tmp_path_factory.mktemp("native") / libver, run_of(libver)) for libver in ("earliest", "latest")
    }


def run(path, area, libver, before_rank=None, **options):
    return launch(
        [program(), path, libver, EPOCHS, "close", "mpi"],
        staged(area, **SMALL, **options),
        path.parent,
        RANKS,
        SECONDS_MAX,
        before_rank=before_rank,
    )


def judge(tally, where, states, path, area, ended):
    """After a launch of which somebody was killed; false: it hung."""
    wait_for_the_end_of_all(area, path)
    if ended.hung is not None or still_running(area):
        tally.hung.append(f"{where}: {ended.told()}; still running: {still_running(area)}")
        return False
    tally.look(where, states, path, area, ended.stdout)
    return True


@pytest.mark.skipif(STRACE is None, reason="there is no strace")
@pytest.mark.parametrize("kind,libver", [("KILL", "earliest"), ("TERM", "latest")])
@pytest.mark.parametrize("rank", range(RANKS))
@pytest.mark.parametrize("system_call,durability,default", CAMPAIGNS)
def test_whenever_one_rank_is_killed_the_file_holds_its_last_flush(
    tmp_path, states, system_call, durability, default, rank, kind, libver
):
    tally = Tally(f"rank {rank} of {RANKS}, SIG{kind}, {system_call}, durability={durability}, {libver}")
    with area_on_disk() if durability == "node" else contextlib.nullcontext(tmp_path) as folder:
        for nth in itertools.count(1) if LONG else default[rank]:
            path, area, told_to = tmp_path / f"{nth}.h5", folder / f"area {nth}", tmp_path / "strace"
            ended = run(
                path, area, libver, {rank: killing(system_call, nth, kind, told_to)}, FOREBAY_DURABILITY=durability
            )
            where = f"SIG{kind} at {system_call} {nth} of rank {rank}"
            if ended.hung is None and not was_killed(told_to, kind):
                assert ended.returncode == 0 and progress(ended.stdout) == EPOCHS + 1, f"{where}: {ended.told()}"
                break
            if not judge(tally, where, states[libver], path, area, ended):
                break
        tally.end()


@pytest.mark.skipif(STRACE is None, reason="there is no strace")
@pytest.mark.parametrize("kind", ["KILL", "TERM"])
def test_a_board_that_was_never_finished_keeps_no_other_file_from_its_recovery(tmp_path, states, kind):
    area, told_to, path = tmp_path / "area", tmp_path / "strace", tmp_path / "other.h5"
    run(tmp_path / "first.h5", area, "earliest", {0: killing("fallocate", 1, kind, told_to)})
    assert was_killed(told_to, kind)
    wait_for_the_end_of_all(area, tmp_path / "first.h5")
    # Before anybody recovers, another program dies in its midst.
    ended = run(path, area, "earliest", {0: killing("pwritev", 12, "KILL", told_to)})
    assert was_killed(told_to, "KILL")
    tally = Tally(f"SIG{kind} before a board was whole, then SIGKILL")
    judge(tally, "another file", states["earliest"], path, area, ended)
    tally.end()


class Killer(threading.Thread):
    """Waits until all ranks have their process directories, and `delay` seconds more; then signals those in `whom`."""

    def __init__(self, area, whom, kind, delay):
        super().__init__()
        self.area, self.whom, self.kind, self.delay = area, whom, kind, delay
        self.over = threading.Event()  # the launch has ended, also if nobody was ever seen

    def run(self):
        while len(found := sorted(int(path.name.split("-")[0]) for path in dead_directories(self.area))) < RANKS:
            if self.over.wait(0.001):
                return
        time.sleep(self.delay)
        for pid in [found[at] for at in self.whom]:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.kill(pid, self.kind)


@pytest.mark.parametrize("kind,whom", [(signal.SIGTERM, (0, 1)), (signal.SIGKILL, (0,)), (signal.SIGKILL, (1,))])
def test_killed_at_any_time_the_file_holds_its_last_flush(tmp_path, states, kind, whom):
    tally = Tally(f"{kind.name} of {len(whom)} of {RANKS} ranks ({'both' if len(whom) > 1 else whom[0]}), at any time")
    too_late = 0
    for at in range(40 if LONG else 4):
        libver = ("earliest", "latest")[at % 2]
        path, area = tmp_path / f"{at}.h5", tmp_path / f"area {at}"
        killer = Killer(area, whom, kind, at * (0.0015 if LONG else 0.01))
        area.mkdir()
        killer.start()
        ended = run(path, area, libver)
        killer.over.set()
        killer.join()
        if ended.returncode == 0 and progress(ended.stdout) == EPOCHS + 1 and not dead_directories(area):
            too_late += 1
        elif not judge(tally, f"{kind.name} after {killer.delay} s", states[libver], path, area, ended):
            break
    print(f"{too_late} launches were over before the signal")
    tally.end()
