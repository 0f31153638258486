"""Cells of the evaluation: one kernel with one set of arguments, natively and with forebay in the same run.

After each run a second one reads the files back natively and compares every byte. A cell fails if a byte is wrong, if
nothing was compared, if a program ends with an error or is missing, or if forebay's counters do not prove that staging
or the read cache was on. A failed cell does not end the run.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cases import MIB, Setting, in_turns, waiting_s
from runs import FOREBAY, NATIVE, BenchError, Run, SlowTarget, WrongData, require_staging, run

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Cell:
    """A program and its arguments, without `--file` and `--verify`.

    A program whose name ends in `.py` is one of this folder. With `reads`, it reads a file that `--make` has written,
    and the proof is a counter of the read cache. `seconds` returns the time of a run that the page shows.
    """

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    ranks: int = 0
    reads: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    seconds: Callable[[Run], float] = waiting_s

    def command(self, setting: Setting) -> list[str]:
        """Returns the program with its arguments."""
        if self.program.endswith(".py"):
            return [sys.executable, str(HERE / self.program), *self.arguments]
        return [setting.places.program(self.program), *self.arguments]


@dataclass
class Outcome:
    """The runs of a cell, and all that is wrong with them."""

    name: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {NATIVE: [], FOREBAY: []})
    runs: dict[str, list[Run]] = field(default_factory=lambda: {NATIVE: [], FOREBAY: []})
    compared_bytes: int = 0
    wrong_bytes: int = 0
    wrong_bytes_native: int = 0
    proof: str = ""
    failures: list[str] = field(default_factory=list)

    def count(self, figures: Mapping) -> None:
        """Adds the bytes that a program has compared."""
        self.compared_bytes += figures.get("compared", 0)

    def count_wrong(self, error: WrongData, mode: str) -> None:
        """Adds wrong bytes. Those of a native run are a fault of the kernel, and fail the cell all the same."""
        self.compared_bytes += error.compared_bytes
        if mode == FOREBAY:
            self.wrong_bytes += error.wrong_bytes
        else:
            self.wrong_bytes_native += error.wrong_bytes
        self.failures.append(str(error))

    @property
    def medians(self) -> tuple[float | None, float | None]:
        """The seconds, native and forebay; None where no run has ended well."""
        return tuple(
            statistics.median(self.seconds[mode]) if self.seconds[mode] else None for mode in (NATIVE, FOREBAY)
        )

    @property
    def ratio(self) -> float | None:
        """The ratio forebay ÷ native."""
        native, forebay = self.medians
        return forebay / native if native and forebay is not None else None


@dataclass
class Section:
    """What one kernel shows: its cells, pictures, and tables of more than seconds."""

    name: str
    title: str
    after: str  # the description, and its figures
    outcomes: list[Outcome] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[list[Sequence[str]]] = field(default_factory=list)  # each with its headings first
    not_measured: str = ""

    @property
    def wrong_bytes(self) -> int:
        """Wrong bytes with forebay."""
        return sum(one.wrong_bytes for one in self.outcomes)

    @property
    def failed(self) -> list[Outcome]:
        """The cells that failed."""
        return [one for one in self.outcomes if one.failures]


def run_cell(setting: Setting, cell: Cell, where: SlowTarget, timeout_s: float = 900) -> Outcome:
    """Runs a cell natively and with forebay in turns. Never raises BenchError: failures are in the outcome."""
    outcome = Outcome(cell.name)
    for number, mode in in_turns(setting, setting.repetitions):
        folder = f"{cell.program.removesuffix('.py')}-{number}-{mode}"
        (where.backing / folder).mkdir()
        try:
            _run_once(setting, cell, mode, (where.mounted / folder, where.backing / folder), outcome, timeout_s)
        except WrongData as error:
            outcome.count_wrong(error, mode)
        except BenchError as error:
            outcome.failures.append(str(error))
        finally:
            shutil.rmtree(where.backing / folder, ignore_errors=True)
    if outcome.compared_bytes == 0 and not outcome.failures:
        outcome.failures.append(f"{cell.program}: no byte was compared")
    return outcome


def _run_once(
    setting: Setting, cell: Cell, mode: str, folders: tuple[Path, Path], outcome: Outcome, timeout_s: float
) -> None:
    """Runs a cell once, and reads its files back natively. `folders`: as the program sees them, and behind."""
    places, command, (mounted, backing) = setting.places, cell.command(setting), folders
    behind = [*command, "--file", str(backing / "data.h5")]
    if cell.reads:
        run(places, NATIVE, [*behind, "--make"], timeout_s=timeout_s)
    one = run(
        places,
        mode,
        [*command, "--file", str(mounted / "data.h5")],
        ranks=cell.ranks,
        timeout_s=timeout_s,
        settings=cell.settings,
    )
    outcome.count(one.figures)
    if mode == FOREBAY:
        outcome.proof = proof_of(cell, one)
    if not cell.reads:
        try:
            outcome.count(run(places, NATIVE, [*behind, "--verify"], ranks=cell.ranks, timeout_s=timeout_s).figures)
        except WrongData as error:
            outcome.count_wrong(error, mode)
            return
    outcome.runs[mode].append(one)
    outcome.seconds[mode].append(cell.seconds(one))


def proof_of(cell: Cell, one: Run) -> str:
    """Returns what forebay's counters say. Raises BenchError unless they prove that staging or the cache was on."""
    if cell.reads:
        hits = one.counters.get("cache_hit_bytes", 0)
        if hits == 0:
            raise BenchError(f"{cell.program}: no byte came from the read cache ({one.counters or 'no counters'})")
        return f"{shown_bytes(hits)} from the cache"
    require_staging(one, one.figures["bytes"], cell.program)
    return f"{shown_bytes(one.counters['staged'])} staged"


def shown_bytes(size_bytes: float) -> str:
    """Returns a size for readers."""
    return f"{size_bytes / MIB:,.1f} MiB" if size_bytes >= MIB else f"{size_bytes / 1024:,.1f} KiB"
