"""Runs cases of parallel_cases, many in one launch, and says what came of each."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from connector_environment import native, statistics
from parallel_comparison import assert_same_contents
from parallel_environment import Launch, launch, program

RANKS = 3
SECONDS_MAX, ALL_SECONDS_MAX = 240, 540  # of one case, and of many in one launch, on a busy machine
# The last one leaves its file to the end of MPI.
CASES = (
    "plain",
    "duplicated",
    "split",
    "reordered",
    "some-ranks",
    "each-alone",
    "freed-early",
    "anew-while-open",
    "twice-through-one",
    "twice-through-two",
    "many-files",
    "serial-beside-shared",
    "serial-then-shared",
    "atomic",
    "read-in-turn",
    "refused-opens",
    "forgotten",
)
IN_TURN = ("read-in-turn", "written-in-turn", "differing-in-turn")
NATIVE = tuple(dict.fromkeys(("twice-through-reordered", *IN_TURN, *CASES)))
STAGING_NOTHING = {"refused-opens"}


@dataclass(frozen=True)
class Case:
    """One case of a launch."""

    facts: list[str]  # of all ranks, sorted
    statuses: dict[int, int]  # of each rank that has ended the case


@dataclass(frozen=True)
class Cases:
    """A launch of several cases, each of which has a folder of its own name below `folder`."""

    done: Launch
    folder: Path
    ranks: int

    @functools.cached_property
    def by_name(self) -> dict[str, Case]:
        found: dict[str, Case] = {}
        at: dict[int, Case] = {}  # the case that each rank is at
        for line in self.done.stdout.splitlines():
            told = re.match(r"rank (\d+): (?:case (?P<case>\S+)$|ends with (?P<status>\d+)$)?", line)
            if told is None:
                continue
            rank = int(told[1])
            if told["case"]:
                at[rank] = found.setdefault(told["case"], Case([], {}))
            elif told["status"]:
                at.pop(rank).statuses[rank] = int(told["status"])
            else:
                at[rank].facts.append(line)
        for case in found.values():
            case.facts.sort()
        return found

    def of(self, name: str) -> Case:
        """The launch has ended, and every rank has ended this case."""
        assert self.done.hung is None, self.done.told()
        assert name in self.by_name and len(self.by_name[name].statuses) == self.ranks, self.done.told()
        return self.by_name[name]

    def staged_bytes(self, name: str, files: list[dict]) -> int:
        """Of the files of a case, as the statistics of the ranks or of a server tell."""
        return sum(entry["staged"] for entry in self.files(name, files))

    def files(self, name: str, files: list[dict]) -> list[dict]:
        return [entry for entry in files if Path(entry["path"]).parent == self.folder / name]


def run_case(case: str, environment: dict[str, str], folder, per_rank=None, preload=()) -> Launch:
    """One case alone, whose files are in `folder`."""
    return launch([program("parallel_cases"), case], environment, folder, RANKS, SECONDS_MAX, per_rank, preload)


def run_cases(
    cases, environment: dict[str, str], folder: Path, per_rank=None, ranks=RANKS, executable=None, **more
) -> Cases:
    """Several cases, one after the other. A single one would have no folder of its own."""
    assert len(cases) > 1
    command = [executable or program("parallel_cases"), *cases]
    return Cases(launch(command, environment, folder, ranks, ALL_SECONDS_MAX, per_rank, **more), folder, ranks)


def facts(done: Launch) -> list[str]:
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))


def run_natively(cases, folder: Path, ranks: int = RANKS, **more) -> Cases:
    """All calls succeed, and all data are right."""
    plain = run_cases(cases, native(), folder, ranks=ranks, **more)
    assert plain.done.hung is None and plain.done.returncode == 0 and "WRONG" not in plain.done.stdout, (
        plain.done.told()
    )
    assert all(plain.of(case).facts for case in cases), plain.done.told()
    return plain


def assert_same(case: str, through: Cases, plain: Cases) -> None:
    """The ranks have seen the same, have ended alike, and have left the same files."""
    assert through.of(case).facts == plain.of(case).facts, through.done.told()
    assert through.of(case).statuses == plain.of(case).statuses, through.done.told()
    assert_same_contents(plain.folder / case, through.folder / case)


def assert_all_same(cases, through: Cases, plain: Cases, folder: Path | None = None) -> None:
    """With a folder of statistics, something of each case was staged too."""
    for case in cases:
        assert_same(case, through, plain)
        if folder is not None and case not in STAGING_NOTHING:
            assert through.staged_bytes(case, statistics(folder)) > 0, f"{case}: {through.done.told()}"
    assert through.done.returncode == 0, through.done.told()
