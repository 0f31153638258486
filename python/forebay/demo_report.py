"""The demo's output: progress while it runs, then the table, the figures as JSON, and the time lines."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from forebay.file_system_watch import FileSystemWatch
from forebay.measured import COMPUTE, IO_PHASES, MIB, NANOSECOND, Phase, Run, TargetWrite, rates, share_during
from forebay.slowfs import SlowFS
from forebay.timeline import Figure, Lane, draw, native_writes

TRANSFER_BINS = 600  # over the whole time axis

if TYPE_CHECKING:
    from forebay.equality import Comparison


@dataclass(frozen=True)
class Settings:
    """Parameters of the demo."""

    points: int
    checkpoints: int
    bandwidth: str
    output: Path
    samples: int  # of the second act
    epochs: int

    @property
    def checkpoint_bytes(self) -> int:
        """The size of a checkpoint: two fields of float64."""
        return 2 * 8 * self.points**3

    @property
    def data_bytes(self) -> int:
        """The bytes that one run writes."""
        return self.checkpoints * self.checkpoint_bytes


@dataclass(frozen=True)
class Target:
    """The file system that the program writes to."""

    directory: Path  # as the program sees it
    backing: Path  # the folder of its files, readable at full speed
    slow: SlowFS | None
    limit_bytes_per_s: float | None  # None: no limit
    why_not_slow: str


@dataclass
class Figures:
    """All measurements, and the comparison of the files."""

    settings: Settings
    target: Target
    substeps: int
    native: Run
    staged: Run
    counters: dict[str, int]
    trace: list[TargetWrite]
    seen: list[FileSystemWatch]  # file system traffic of the native and of the staged run
    comparison: Comparison | None = None
    same_bytes: bool = False
    h5diff_equal: bool | None = None
    h5diff_says: str = ""

    @property
    def hidden(self) -> float:
        """The share of the drained bytes that moved while the program computed."""
        return share_during(self.trace, [phase for phase in self.staged.phases if phase.name == COMPUTE])


class Bars:
    """Two bars, one per run, with the program's own rate; plain lines without a terminal."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self._console = console
        self._settings = settings
        self._tasks: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description:>8}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Bars:
        self._progress.start()
        for name in ("native", "forebay"):
            self._tasks[name] = self._progress.add_task(name, total=self._settings.checkpoints, state="waiting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def on_phase(self, run: Run, phase: Phase) -> None:
        """Updates the bar after a phase."""
        done = sum(1 for past in run.phases if past.name == "flush")
        state = self._state(run, done)
        if not self._console.is_terminal:
            every = max(1, self._settings.checkpoints // 4)
            last = done == self._settings.checkpoints
            if phase.name == "close" or (phase.name == "flush" and done % every == 0 and not last):
                self._console.print(
                    f"{run.name:>8} {done:>4}/{self._settings.checkpoints} checkpoints: {state}", highlight=False
                )
            return
        if phase.name == COMPUTE:
            state += "  writing"
        elif phase.name != "close":
            state += "  computing" if done < self._settings.checkpoints else "  closing"
        self._progress.update(self._tasks[run.name], completed=done, state=state)

    def _state(self, run: Run, done: int) -> str:
        waited = run.io_s
        rate = done * self._settings.checkpoint_bytes / waited / MIB if waited else 0.0
        return f"{run.seconds(COMPUTE):5.1f} s computing {waited:5.1f} s in I/O {rate:5,.0f} MiB/s"


def print_result(figures: Figures, console: Console) -> None:
    """Prints the table, the counters, and the comparison of the files."""
    native, staged = figures.native, figures.staged
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("seconds")
    for column in ("native", "forebay", "native / forebay"):
        table.add_column(column, justify="right")
    rows: list[tuple[str, float, float]] = [
        ("computing", native.seconds(COMPUTE), staged.seconds(COMPUTE)),
        ("in write calls", native.seconds("write"), staged.seconds("write")),
        ("in flush", native.seconds("flush"), staged.seconds("flush")),
        ("in open and close", native.seconds("open", "close"), staged.seconds("open", "close")),
        ("waiting for I/O, together", native.io_s, staged.io_s),
        ("first call to last", native.total_s, staged.total_s),
        ("start of the process to its exit", native.process_s, staged.process_s),
    ]
    for title, one, other in rows:
        style = "bold" if title.startswith("waiting") else None
        table.add_row(title, f"{one:.2f}", f"{other:.2f}", f"{one / other:.2f} ×" if other else "", style=style)
    console.print(table)

    counters = figures.counters
    console.print(
        f"forebay staged {counters.get('staged', 0) / MIB:,.1f} MiB in {counters.get('requests', 0):,} requests and "
        f"drained {counters.get('drained', 0) / MIB:,.1f} MiB in {counters.get('target_writes', 0):,} target writes, "
        f"{100 * figures.hidden:.0f} % of it while the program computed; "
        f"{counters.get('through', 0) / MIB:,.1f} MiB went straight through.",
        highlight=False,
    )
    for run, seen in zip((native, staged), figures.seen, strict=True):
        if seen.watches:
            console.print(
                f"The file system itself counted {seen.requests:,} writes, {seen.bytes / MIB:,.1f} MiB, of the "
                f"{run.name} run.",
                highlight=False,
            )
    comparison = figures.comparison
    assert comparison is not None
    verdict = "[bold green]equal[/]" if comparison.equal else "[bold red]NOT EQUAL[/]"
    console.print(
        f"The two files are {verdict}: {comparison.datasets} datasets, {comparison.value_bytes / MIB:,.1f} MiB of "
        f"values and {comparison.attributes} attributes compared; h5diff: {figures.h5diff_says}; "
        f"byte for byte: {'identical' if figures.same_bytes else 'not identical'}.",
        highlight=False,
    )
    if figures.target.slow is None:
        console.print(
            f"No slow file system was used ({figures.target.why_not_slow}): these figures show little.", highlight=False
        )
    for run in (native, staged):
        if run.messages:
            console.print(f"The {run.name} run said on standard error:\n{run.messages}", highlight=False, markup=False)


def write_json(figures: Figures, shortcomings: list[str], path: Path, more: dict[str, Any]) -> None:
    """Writes every figure, in seconds and bytes, and the content of `more`."""
    comparison = figures.comparison
    assert comparison is not None
    settings, target = figures.settings, figures.target
    result: dict[str, Any] = {
        "passed": not shortcomings,
        "shortcomings": shortcomings,
        "parameters": {
            "points": settings.points,
            "checkpoints": settings.checkpoints,
            "checkpoint_bytes": settings.checkpoint_bytes,
            "data_bytes": settings.data_bytes,
            "substeps": figures.substeps,
            "slow_file_system": target.slow is not None,
            "why_not_slow": target.why_not_slow,
            "bandwidth_bytes_per_s": target.limit_bytes_per_s,
        },
        "software": {**figures.native.about, "python": platform.python_version(), "processors": os.cpu_count()},
        "native": _run_as_json(figures.native, figures.seen[0]),
        "forebay": _run_as_json(figures.staged, figures.seen[1]) | {
            "counters": figures.counters,
            "hidden_share": figures.hidden,
            "target_writes": [
                {
                    "begin_s": _since(figures.staged, write.begin_ns),
                    "end_s": _since(figures.staged, write.end_ns),
                    "bytes": write.bytes,
                }
                for write in figures.trace
            ],
        },
        "ratio": {
            "io": _ratio(figures.native.io_s, figures.staged.io_s),
            "total": _ratio(figures.native.total_s, figures.staged.total_s),
            "compute": _ratio(figures.native.seconds(COMPUTE), figures.staged.seconds(COMPUTE)),
        },
        "equal": comparison.equal,
        "datasets": comparison.datasets,
        "attributes": comparison.attributes,
        "value_bytes": comparison.value_bytes,
        "same_bytes": figures.same_bytes,
        "h5diff": {"equal": figures.h5diff_equal, "says": figures.h5diff_says},
    }  # fmt: skip
    path.write_text(json.dumps(result | more, indent=1) + "\n", encoding="utf-8")


def _run_as_json(run: Run, seen: FileSystemWatch) -> dict[str, Any]:
    return {
        "file_system": None if not seen.watches else {"writes": seen.requests, "bytes": seen.bytes},
        **{f"{name}_s": run.seconds(name) for name in (COMPUTE, *IO_PHASES) if name != "read"},
        "io_s": run.io_s,
        "total_s": run.total_s,
        "process_s": run.process_s,
        "phases": [
            {
                "name": phase.name,
                "checkpoint": phase.number,
                "begin_s": _since(run, phase.begin_ns),
                "end_s": _since(run, phase.end_ns),
            }
            for phase in run.phases
        ],
    }


def _since(run: Run, time_ns: int) -> float:
    return round((time_ns - run.begin_ns) * NANOSECOND, 6)


def _ratio(native: float, staged: float) -> float | None:
    return native / staged if staged else None


def _s(seconds: float) -> str:
    """Formats seconds with about three significant digits."""
    return f"{seconds:.1f} s" if seconds >= 9.95 else f"{seconds:.2f} s"


def draw_timeline(figures: Figures, path: Path) -> None:
    """Draws the two time lines, with the measured numbers as the title."""
    native, staged, settings = figures.native, figures.staged, figures.settings
    limit = figures.target.limit_bytes_per_s
    # Without a slow file system that counts, the figure shows the calls and the trace, in fine bins.
    bin_ns = max(int(max(native.total_s, staged.total_s) / TRANSFER_BINS / NANOSECOND), 1)
    place = f"a file system of {limit / MIB:.0f} MiB/s" if limit else "a local file system (FUSE could not be used)"
    draw(
        Figure(
            title=f"Waiting for I/O: {_s(native.io_s)} natively, {_s(staged.io_s)} with forebay",
            subtitle=(
                f"Both ran one unmodified h5py program: a wave on {settings.points}³ points, {settings.checkpoints} "
                f"checkpoints of {settings.checkpoint_bytes / MIB:.1f} MiB into one HDF5 file, on {place}"
            ),
            lanes=(
                Lane(
                    native,
                    figures.seen[0].steps if limit else rates(native_writes(native, settings.checkpoint_bytes), bin_ns),
                    "native",
                    f"{_s(native.seconds(COMPUTE))} computing + {_s(native.io_s)} waiting = {_s(native.total_s)}",
                ),
                Lane(
                    staged,
                    figures.seen[1].steps if limit else rates(figures.trace, bin_ns),
                    "with forebay",
                    f"{_s(staged.seconds(COMPUTE))} computing + {_s(staged.io_s)} waiting = {_s(staged.total_s)}"
                    f"; {100 * figures.hidden:.0f} % of the bytes moved while it computed",
                    f"ends {_s(native.total_s - staged.total_s)} sooner; its close waits\n"
                    f"{_s(staged.seconds('close'))} until the last bytes are there",
                ),
            ),
            limit_bytes_per_s=limit,
        ),
        path,
    )
