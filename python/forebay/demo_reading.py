"""The second act of ``make demo``: an ordinary program reads a data set repeatedly, natively and with forebay.

The program (`forebay.training`) knows only h5py. Both runs read the same images in the same order; the second has
forebay and its read cache in its environment. The act needs the slow file system, because the cache ignores local
files.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from forebay.demo_report import Target
from forebay.file_system_watch import FileSystemWatch
from forebay.measured import COMPUTE, MIB, NANOSECOND, MeasurementError, Phase, Run, read_cache_counters
from forebay.program import cached_environment, native_environment, run_training
from forebay.timeline import Figure, Lane, draw

NAMES = ("native", "forebay")
DATA_NAME = "samples.h5"
IMAGE_SHAPE = (224, 224, 3)  # uint8
IMAGE_BYTES = math.prod(IMAGE_SHAPE)
BATCH = 32
YOUNG_S = 3.5  # the cache ignores files that changed in this time (docs/read-cache.md)
WATCH_S = 0.05


@dataclass(frozen=True)
class ReadingSettings:
    """Parameters of the second act."""

    samples: int
    epochs: int
    data_bytes: int


@dataclass
class Reading:
    """All measurements of the second act."""

    settings: ReadingSettings
    target: Target
    runs: list[Run] = field(default_factory=list)  # native, forebay
    seen: list[FileSystemWatch] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)

    def seconds(self, run: Run, epoch: int, *names: str) -> float:
        """Returns the seconds of an epoch of a run in the phases of these names."""
        return sum(phase.seconds for phase in run.phases if phase.number == epoch and phase.name in names)

    def first_batch_s(self, run: Run) -> float:
        """Returns the seconds from the open of the file to the first batch."""
        first = next(phase for phase in run.phases if phase.name == "read")
        return (first.end_ns - run.begin_ns) * NANOSECOND


def make_data(target: Target, samples: int, epochs: int) -> ReadingSettings:
    """Makes the data set beside the slow file system. It is old enough for the cache when the second act begins."""
    # HDF5 loads its connector at its own start. This process must be native before it loads h5py.
    os.environ.pop("HDF5_VOL_CONNECTOR", None)
    from forebay.samples import make_samples

    make_samples(target.backing / DATA_NAME, samples, IMAGE_SHAPE)
    return ReadingSettings(samples, epochs, samples * IMAGE_BYTES)


def read_again(
    settings: ReadingSettings, target: Target, plugins: Path, staging_area: Path, stats: Path, console: Console
) -> Reading:
    """Runs the training natively and with forebay, one after the other."""
    data = target.directory / DATA_NAME
    age_s = time.time() - (target.backing / DATA_NAME).stat().st_ctime
    time.sleep(max(0.0, YOUNG_S - age_s))
    reading = Reading(settings, target)
    console.print(
        f"A training reads {settings.samples} images, {settings.data_bytes / MIB:.1f} MiB in one HDF5 file, with h5py "
        f"in shuffled batches of {BATCH}, for {settings.epochs} epochs, from the same file system.\n"
        "Native first, then with forebay and read_cache=on. The program is the same.",
        highlight=False,
    )
    options = {"epochs": settings.epochs, "batch": BATCH, "seed": 1}
    limit_s = 120.0 + 20.0 * settings.epochs * settings.data_bytes / (target.limit_bytes_per_s or MIB)
    with ReadingBars(console, reading) as bars:
        for name, environment in (
            ("native", native_environment()),
            ("forebay", cached_environment(plugins, staging_area, stats)),
        ):
            with FileSystemWatch(target.slow, WATCH_S, "read") as watch:
                run = run_training(name, data, options, environment, time_limit_s=limit_s, on_phase=bars.on_phase)
            reading.runs.append(run)
            reading.seen.append(watch)
    reading.counters = read_cache_counters(stats)
    return reading


class ReadingBars:
    """Two bars, one per run, in batches; plain lines for each epoch without a terminal."""

    def __init__(self, console: Console, reading: Reading) -> None:
        self._console = console
        self._reading = reading
        settings = reading.settings
        self._batches_per_epoch = -(-settings.samples // BATCH)
        self._progress = Progress(
            TextColumn("{task.description:>8}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            console=console,
            disable=not console.is_terminal,
        )
        total = settings.epochs * self._batches_per_epoch
        self._tasks = {name: self._progress.add_task(name, total=total, state="waiting") for name in NAMES}

    def __enter__(self) -> ReadingBars:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def on_phase(self, run: Run, phase: Phase) -> None:
        """Updates the bar after a phase."""
        if phase.name != COMPUTE:
            return
        done = sum(1 for past in run.phases if past.name == COMPUTE)
        read_s = self._reading.seconds(run, phase.number, "read")
        batches = (done - 1) % self._batches_per_epoch + 1
        rate = batches / self._batches_per_epoch * self._reading.settings.data_bytes / max(read_s, 1e-9) / MIB
        state = f"epoch {phase.number + 1}: {read_s:5.2f} s in reads {rate:6,.0f} MiB/s"
        if self._console.is_terminal:
            self._progress.update(self._tasks[run.name], completed=done, state=state)
        elif batches == self._batches_per_epoch:
            self._console.print(f"{run.name:>8} {state}", highlight=False)


def shortcomings_of_reading(reading: Reading) -> list[str]:
    """Returns the reasons why the second act failed, one sentence each; empty if it succeeded."""
    found = []
    native, cached = reading.runs
    if native.about.get("checksum") is None or native.about.get("checksum") != cached.about.get("checksum"):
        found.append("the two trainings have read different bytes")
    if not reading.counters.get("hit_bytes"):
        found.append("forebay read nothing from the node: the second training was native too")
    return found


def print_reading(reading: Reading, console: Console) -> None:
    """Prints the table, and the file system's counts."""
    native, cached = reading.runs
    data = reading.settings.data_bytes
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("reading")
    for column in ("native, s", "MiB/s", "forebay, s", "MiB/s", "native / forebay"):
        table.add_column(column, justify="right")

    def row(title: str, one: float, other: float, amount: int, style: str | None = None) -> None:
        cells = [
            cell
            for seconds in (one, other)
            for cell in (f"{seconds:.2f}", f"{amount / seconds / MIB:,.0f}" if amount else "")
        ]
        table.add_row(title, *cells, f"{one / other:.2f} ×" if other else "", style=style)

    for epoch in range(reading.settings.epochs):
        one, other = (reading.seconds(run, epoch, "read") for run in (native, cached))
        row(f"epoch {epoch + 1}", one, other, data)
    row("all epochs", native.seconds("read"), cached.seconds("read"), data * reading.settings.epochs, "bold")
    row("open to first batch", reading.first_batch_s(native), reading.first_batch_s(cached), 0)
    row("computing", native.seconds(COMPUTE), cached.seconds(COMPUTE), 0)
    row("first call to last", native.total_s, cached.total_s, 0)
    console.print(table)
    for run, seen in zip(reading.runs, reading.seen, strict=True):
        console.print(
            f"The file system itself counted {seen.requests:,} reads, {seen.bytes / MIB:,.1f} MiB, "
            f"{seen.bytes / data:.2f} × the data, of the {run.name} run.",
            highlight=False,
        )
    console.print(
        f"forebay read {reading.counters.get('hit_bytes', 0) / MIB:,.1f} MiB from the node. Both trainings read the "
        f"{'same' if native.about.get('checksum') == cached.about.get('checksum') else '[bold red]NOT the same[/]'} "
        "bytes in the same order.",
        highlight=False,
    )
    for run in reading.runs:
        if run.messages:
            console.print(f"The {run.name} training said on standard error:\n{run.messages}", markup=False)


def reading_as_json(reading: Reading) -> dict[str, Any]:
    """Returns every figure, in seconds and bytes."""
    settings = reading.settings
    result: dict[str, Any] = {
        "samples": settings.samples,
        "epochs": settings.epochs,
        "batch": BATCH,
        "data_bytes": settings.data_bytes,
    }
    for run, seen in zip(reading.runs, reading.seen, strict=True):
        result[run.name] = {
            "file_system": {"reads": seen.requests, "bytes": seen.bytes},
            "epochs": [
                {"read_s": reading.seconds(run, epoch, "read"), "compute_s": reading.seconds(run, epoch, COMPUTE)}
                for epoch in range(settings.epochs)
            ],
            "first_batch_s": reading.first_batch_s(run),
            "total_s": run.total_s,
            "checksum": run.about.get("checksum"),
        }
    result["forebay"]["cache"] = reading.counters
    return result


def draw_reading(reading: Reading, path: Path) -> None:
    """Draws the two time lines, with the measured numbers as the title."""
    native, cached = reading.runs
    settings, limit = reading.settings, reading.target.limit_bytes_per_s
    if limit is None:
        raise MeasurementError("reading is drawn for the slow file system only")

    def lane(run: Run, seen: FileSystemWatch, title: str, note: str = "") -> Lane:
        marks = []
        for epoch in range(settings.epochs):
            begin_ns = next(phase.begin_ns for phase in run.phases if phase.name == "read" and phase.number == epoch)
            # A short epoch has no room for the word.
            marks.append((begin_ns, f"epoch {epoch + 1}" if run is native or epoch == 0 else f"{epoch + 1}"))
        finding = (
            f"{run.seconds(COMPUTE):.1f} s computing + {run.io_s:.1f} s waiting; the file system sees "
            f"{seen.bytes / settings.data_bytes:.2f} × the data"
        )
        return Lane(run, seen.steps, title, finding, note, tuple(marks))

    native_seen, cached_seen = reading.seen
    last = settings.epochs - 1
    later = [reading.seconds(run, last, "read") for run in (native, cached)]
    draw(
        Figure(
            title=f"Waiting for data: {native.io_s:.1f} s natively, {cached.io_s:.1f} s with forebay",
            subtitle=(
                f"Both ran one unmodified h5py program: {settings.samples} images, {settings.data_bytes / MIB:.0f} MiB "
                f"in shuffled batches of {BATCH}, {settings.epochs} epochs, from a file system of {limit / MIB:.0f} MiB/s"
            ),
            lanes=(
                lane(native, native_seen, "native"),
                lane(
                    cached,
                    cached_seen,
                    "with forebay",
                    f"ends {native.total_s - cached.total_s:.1f} s sooner; in epoch {last + 1} it\n"
                    f"waits {later[1]:.2f} s instead of {later[0]:.2f} s",
                ),
            ),
            limit_bytes_per_s=limit,
            transfer="bytes come from the file system",
        ),
        path,
    )
