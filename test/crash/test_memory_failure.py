"""The connector runs out of memory: its Nth allocation fails, or all from the Nth on.

The program is serial, or has two ranks: the failing one is the rank that drains, or the rank that follows. HDF5 itself
and the program go on. Two results are allowed. Either an HDF5 call fails, the program ends there, and recovery brings
its file to its last flush. Or its file is complete, byte for byte. No run may end by a signal, or hang.
"""

import contextlib
import json
import random
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from connector_environment import native
from crash_environment import (
    BUILD,
    EPOCHS,
    LONG,
    SMALL,
    States,
    Tally,
    area_on_disk,
    program,
    progress,
    staged,
    wait_for_the_end_of_all,
    without_marks,
)
from parallel_environment import PROGRAMS, launch
from seeds import seed_of

pytestmark = pytest.mark.slow
SECONDS_MAX = 240
SIGNALLED = 128  # how shells and launchers tell of a signal: its number and this
POINTS = 14  # of each campaign, others in each run; all there are with FOREBAY_TEST_LONG=1
LIBRARY = BUILD / "test" / "failing_allocations.so"


@dataclass(frozen=True)
class Setting:
    ranks: int
    failing: int  # rank

    def run(self, path, environment, epochs=EPOCHS, tail="close", variables=None):
        """Exit status (None: it hung), standard output and standard error. Only the failing rank gets `variables`."""
        command = [program(), path, "latest", epochs, tail]
        if self.ranks > 1:
            libraries = f"{LIBRARY}:{PROGRAMS / 'yielding_progress.so'}"
            per_rank = (
                [{"LD_PRELOAD": libraries, **variables} if rank == self.failing else {} for rank in range(self.ranks)]
                if variables
                else None
            )
            ended = launch([*command, "mpi"], environment, path.parent, self.ranks, SECONDS_MAX, per_rank)
            return (
                (ended.returncode, ended.stdout, ended.stderr)
                if ended.hung is None
                else (None, ended.stdout, ended.told())
            )
        preload = {"LD_PRELOAD": str(LIBRARY), **variables} if variables else {}
        try:
            ended = subprocess.run(
                [str(word) for word in command],
                env={**environment, **preload},
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
            )
        except subprocess.TimeoutExpired as error:
            return None, "", str(error)
        return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture(
    scope="module", params=[Setting(1, 0), Setting(2, 0), Setting(2, 1)], ids=["serial", "drainer", "follower"]
)
def setting(request):
    return request.param


@pytest.fixture(scope="module")
def states(tmp_path_factory, setting):
    return States(
        tmp_path_factory.mktemp("native") / "states",
        lambda path, epochs, tail: setting.run(path, native(), epochs, tail)[1],
    )


def staged_bytes(stats):
    return sum(json.loads(line).get("file", {}).get("staged", 0) for line in stats.read_text().splitlines())


@dataclass
class Campaign:
    """Runs in each of which another allocation fails."""

    tally: Tally
    states: States
    setting: Setting
    for_ever: bool
    folder: Path  # of files
    areas: Path
    options: dict[str, str]
    told: int = 0
    complete: int = 0
    wrong: list[str] = field(default_factory=list)

    def point(self, nth: int) -> None:
        """With 0 none fails."""
        path, area = self.folder / f"{nth}.h5", self.areas / f"area {nth}"
        failing = {
            "FAILING_NEW_AT": str(nth),
            "FAILING_NEW_FOR_EVER": str(int(self.for_ever)),
            "FAILING_NEW_COUNT_TO": str(self.folder / "count"),
        }
        status, stdout, stderr = self.setting.run(path, staged(area, **SMALL, **self.options), variables=failing)
        where = f"allocation {nth} failed"
        if nth > 0 and where not in stderr:
            shutil.rmtree(area)
            path.unlink(missing_ok=True)
            return  # there are not so many this time
        if status is None:
            self.tally.hung.append(f"{where}: {stderr}")
            return
        if not 0 <= status < SIGNALLED or "terminate called" in stderr:
            self.wrong.append(f"{where}: ended by a signal, {status}: {stderr}")
        elif status != 0 and "HDF5-DIAG: Error detected" not in stderr:
            self.wrong.append(f"{where}: {status} without a word: {stderr}")
        elif status == 0 and progress(stdout) != EPOCHS + 1:
            self.wrong.append(f"{where}: ended in its midst: {stdout}{stderr}")
        self.told += status != 0
        self.complete += nth > 0 and status == 0
        wait_for_the_end_of_all(area, path)
        # What HDF5 leaves of a file that it could not create is nobody's state.
        created = not re.search(r"^H5Fcreate\(.* failed$", stderr, re.MULTILINE)
        self.tally.look(where, self.states, path, area, stdout, compare=created)

    def shown(self) -> bool:
        """The program was told; and its file was complete, unless no allocation succeeds any more."""
        return self.told > 0 and (self.for_ever or self.complete > 0)

    def allocations(self) -> int:
        return int(Path(self.folder, "count").read_text())


@pytest.mark.parametrize("durability", ["process", "node"])
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for_ever"])
def test_the_program_is_told_or_its_file_is_complete(tmp_path, states, setting, for_ever, durability):
    tally = Tally(
        f"rank {setting.failing} of {setting.ranks}, {'for ever' if for_ever else 'once'}, durability={durability}"
    )
    stats = tmp_path / "stats"
    with area_on_disk() if durability == "node" else contextlib.nullcontext(tmp_path) as areas:
        campaign = Campaign(
            tally,
            states,
            setting,
            for_ever,
            tmp_path,
            areas,
            {"FOREBAY_DURABILITY": durability, "FOREBAY_STATS": str(stats)},
        )
        campaign.point(0)
        assert staged_bytes(stats) > EPOCHS * 8 * 6000 * 4, "all epochs' rows were staged"
        assert campaign.told == 0 and not campaign.wrong and not tally.lost, campaign.wrong + tally.lost
        made = campaign.allocations()
        step = 1 if LONG else max(1, made // POINTS)
        spread = range(1 + seed_of(tally.name) % step, made, step)
        for nth in spread:
            campaign.point(nth)
        # Both outcomes are there: other points are tried, if need be all of them, until both were seen.
        others = [nth for nth in range(1, made + 1) if nth not in spread]
        random.Random(seed_of(tally.name)).shuffle(others)
        while others and not campaign.shown():
            campaign.point(others.pop())
    print(
        f"{made} allocations; {campaign.told} times the program was told, "
        f"{campaign.complete} times the file was complete"
    )
    assert not campaign.wrong, "\n".join(campaign.wrong)
    tally.end()
    assert campaign.shown()


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for_ever"])
@pytest.mark.parametrize("failing", range(2))
def test_on_two_nodes_nobody_waits_and_what_is_closed_well_is_complete(tmp_path, failing, for_ever):
    """What recovery does for several nodes is told by test_several_nodes_crash.py."""
    setting, came = Setting(2, failing), Counter()
    native_path = tmp_path / "native.h5"
    assert setting.run(native_path, native())[0] == 0
    stats = tmp_path / "stats"
    whole = staged(tmp_path / "area", FOREBAY_NODES="consistent", FOREBAY_NODE="other", FOREBAY_STATS=str(stats))
    assert setting.run(tmp_path / "whole.h5", whole, variables={"FOREBAY_NODE": "one"})[0] == 0
    assert staged_bytes(stats) > 0
    choose = random.Random(seed_of(f"two nodes {failing} {for_ever}"))
    step = 1 if LONG else 1800 // POINTS
    spread = range(choose.randint(1, step), 3000, step)
    # If too few are told of, others follow.
    points = [*spread, *choose.sample(range(1, 1800), 300)]
    last = None  # of those that there are
    for position, nth in enumerate(points):
        if (last is not None and nth > last) or (position >= len(spread) and came["told"] > 1):
            continue
        path, area = tmp_path / f"{nth}.h5", tmp_path / f"area {nth}"
        variables = {"FAILING_NEW_AT": str(nth), "FAILING_NEW_FOR_EVER": str(int(for_ever)), "FOREBAY_NODE": "one"}
        status, stdout, stderr = setting.run(
            path, staged(area, **SMALL, FOREBAY_NODES="consistent", FOREBAY_NODE="other"), variables=variables
        )
        assert status is not None, f"allocation {nth} failed: {stderr}"
        assert 0 <= status < SIGNALLED and "terminate called" not in stderr, (
            f"allocation {nth} failed: {status}: {stderr}"
        )
        if status == 0:
            assert progress(stdout) == EPOCHS + 1, f"{stdout}{stderr}"
            assert without_marks(path.read_bytes()) == without_marks(native_path.read_bytes())
        came["told" if status else "complete"] += 1
        shutil.rmtree(area)
        path.unlink(missing_ok=True)
        if f"allocation {nth} failed" not in stderr:
            last = nth  # there are not so many
    print(f"rank {failing} of 2 on two nodes, {'for ever' if for_ever else 'once'}: {dict(came)}")
    assert came["told"] > 1
