"""``make demo``: ordinary programs, run natively and with forebay, on a slow file system.

The first program (`forebay.simulation`) writes and knows only h5py. Both runs do the same work and write the same file;
the second has ``HDF5_VOL_CONNECTOR=forebay`` in its environment. The demo measures both, compares the files, and draws
the two time lines. It fails if a file differs or forebay did not stage. Then another program reads a data set
repeatedly (`forebay.demo_reading`).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from forebay.demo_reading import (
    BATCH,
    IMAGE_BYTES,
    Reading,
    draw_reading,
    make_data,
    print_reading,
    read_again,
    reading_as_json,
    shortcomings_of_reading,
)
from forebay.demo_report import Bars, Figures, Settings, Target, draw_timeline, print_result, write_json
from forebay.file_system_watch import FileSystemWatch
from forebay.measured import COMPUTE, MIB, MeasurementError, Run, read_counters, read_trace
from forebay.program import native_environment, run_simulation, staged_environment
from forebay.slowfs import SlowFS, SlowFSError, available

LATENCY = "0.5ms"
# Computing a checkpoint takes this much longer than writing it to the slow file system, which leaves time to hide the
# drain.
COMPUTE_MARGIN = 1.25
CALIBRATION_SUBSTEPS = 6
CALIBRATION_STEPS = 6
# Space for the writing act: two files, a log of the same size, and a little more. The reading act needs the file and
# its copy in the cache.
SCRATCH_FACTOR, READING_FACTOR = 3.2, 2.1
LOG_WIDTH = 120
TIME_LINE, READING, FIGURES = RESULTS = ("timeline.png", "reading.png", "result.json")
ROOT = Path(__file__).resolve().parents[2]


def build_directory() -> Path:
    """The build folder of the plugin and slowfs."""
    return Path(os.environ.get("FOREBAY_BUILD_DIR") or ROOT / "build/release").resolve()


def plugin_directory() -> Path:
    """The folder of forebay's plugin for HDF5. Raises MeasurementError if it is not built."""
    plugins = build_directory() / "plugins"
    if not list(plugins.glob("libforebay*.so*")):
        raise MeasurementError(f"there is no forebay plugin in {plugins}: build it with 'make build'")
    return plugins


def staging_directory(scratch: Path) -> Path:
    """The staging directory: the value of FOREBAY_NLS, else a folder of the demo."""
    staging_area = Path(os.environ.get("FOREBAY_NLS") or scratch / "staging")
    staging_area.mkdir(parents=True, exist_ok=True)
    return staging_area


@contextmanager
def slow_target(scratch: Path, bandwidth: str) -> Iterator[Target]:
    """The slow file system, or a plain directory if FUSE is unusable."""
    backing = scratch / "files"
    backing.mkdir()
    slow = SlowFS(backing, scratch / "slow", bandwidth=bandwidth, latency=LATENCY)
    usable, reason = available()
    if usable:
        try:
            slow.mount()
        except SlowFSError as error:
            usable, reason = False, str(error)
    if not usable:
        yield Target(backing, backing, None, None, reason)
        return
    try:
        yield Target(slow.mount_point, backing, slow, bandwidth_bytes(bandwidth), "")
    except (MeasurementError, OSError) as error:
        if not os.path.exists(slow.mount_point / ".slowfs"):
            raise MeasurementError(f"the slow file system went away while it was used\n{error}") from error
        raise
    finally:
        slow.unmount()


def bandwidth_bytes(text: str) -> float:
    """Parses ``80MiB/s`` into bytes per second."""
    units = {"KiB/s": 2.0**10, "MiB/s": 2.0**20, "GiB/s": 2.0**30}
    for unit, factor in units.items():
        if text.endswith(unit):
            try:
                value = float(text.removesuffix(unit)) * factor
            except ValueError:
                break
            if value > 0:
                return value
    raise typer.BadParameter(f"{text!r} is not a bandwidth such as 80MiB/s")


def choose_substeps(settings: Settings, target: Target, scratch: Path) -> tuple[int, str]:
    """Chooses the number of time steps: computing takes COMPUTE_MARGIN times as long as writing natively.

    Measures both: the program on a file in the scratch directory, and one checkpoint of plain writes to the slow file
    system. Returns the number, and a sentence that explains it.
    """
    shape = {"size": settings.points, "steps": CALIBRATION_STEPS, "substeps": CALIBRATION_SUBSTEPS}
    file = scratch / "calibration.h5"
    run = run_simulation("calibration", file, shape, native_environment(), time_limit_s=300.0)
    file.unlink()
    # The minimum counts, because a disturbed measurement would give the program too little to compute.
    computed = min(phase.seconds for phase in run.phases if phase.name == COMPUTE)
    substep_s = computed / CALIBRATION_SUBSTEPS

    wanted_s = settings.checkpoint_bytes / bandwidth_bytes(settings.bandwidth)
    if target.slow is not None:
        wanted_s = max(wanted_s, _write_seconds(target.directory / "probe", settings.checkpoint_bytes))
    substeps = max(1, round(COMPUTE_MARGIN * wanted_s / substep_s))
    where = "on this file system" if target.slow is not None else f"at {settings.bandwidth}"
    return substeps, (
        f"Calibrated with {run.about['h5py']}: a checkpoint takes {wanted_s:.2f} s to write {where}, so the program "
        f"computes {substeps} time steps of {substep_s * 1e3:.1f} ms, {substeps * substep_s:.2f} s, before each. "
        "With less to compute, forebay could hide less."
    )


def _write_seconds(path: Path, size: int) -> float:
    """Returns the seconds of two plain writes of `size` bytes, as the program makes them."""
    block = memoryview(bytes(size // 2))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        begin = time.monotonic()
        for _ in range(2):
            rest = block
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        return time.monotonic() - begin
    finally:
        os.close(descriptor)
        path.unlink()


def measure(settings: Settings, target: Target, scratch: Path, console: Console) -> Figures:
    """Runs the program natively and with forebay, on the same file system, one after the other."""
    plugins, staging_area = plugin_directory(), staging_directory(scratch)
    stats, trace = scratch / "stats.jsonl", scratch / "trace.jsonl"
    substeps, sentence = choose_substeps(settings, target, scratch)
    console.print(sentence, highlight=False)

    shape = {"size": settings.points, "steps": settings.checkpoints, "substeps": substeps}
    expected_s = settings.data_bytes / bandwidth_bytes(settings.bandwidth) * (2 * COMPUTE_MARGIN + 1)
    runs: list[Run] = []
    seen: list[FileSystemWatch] = []
    with Bars(console, settings) as bars:
        for name, environment in (
            ("native", native_environment()),
            ("forebay", staged_environment(plugins, staging_area, stats, trace)),
        ):
            watch = FileSystemWatch(target.slow, min(max(expected_s / 100.0, 0.05), 0.2))
            with watch:
                runs.append(
                    run_simulation(
                        name,
                        target.directory / f"{name}.h5",
                        shape,
                        environment,
                        time_limit_s=120.0 + 10.0 * expected_s,
                        on_phase=bars.on_phase,
                    )
                )
            seen.append(watch)
            # Dirty pages of the first run must not slow down the second.
            _settle(target.backing / f"{name}.h5")
    native, staged = runs
    counters = read_counters(stats, staged.file)
    return Figures(settings, target, substeps, native, staged, counters, read_trace(trace), seen)


def _settle(path: Path) -> None:
    """Blocks until the file is on its device. Bypasses the slow file system."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def compare(figures: Figures) -> None:
    """Compares the two files on the backing directory, and stores the result in `figures`."""
    # HDF5 loads its connector at its own start. This process must be native before it loads h5py.
    os.environ.pop("HDF5_VOL_CONNECTOR", None)
    from forebay.equality import compare_files, h5diff, same_bytes

    left, right = (figures.target.backing / run.file.name for run in (figures.native, figures.staged))
    try:
        figures.comparison = compare_files(left, right)
    except OSError as error:
        raise MeasurementError(f"a file cannot be read back: {error}") from error
    figures.same_bytes = same_bytes(left, right)
    figures.h5diff_equal, figures.h5diff_says = h5diff(left, right, native_environment())


def shortcomings(figures: Figures) -> list[str]:
    """Returns the reasons why the demo failed, one sentence each; empty if it succeeded."""
    found = []
    counters = figures.counters
    if counters.get("staged", 0) == 0:
        found.append("forebay staged nothing: the second run was native too")
    if counters.get("pending", 0) != 0:
        found.append(f"{counters['pending']} bytes were still staged after the file was closed")
    if counters.get("error", 0) != 0:
        found.append(f"the drain failed: {os.strerror(counters['error'])}")
    assert figures.comparison is not None
    found += [f"the files differ: {difference}" for difference in figures.comparison.differences]
    if figures.comparison.datasets != 2 * figures.settings.checkpoints:
        found.append(f"{figures.comparison.datasets} datasets instead of {2 * figures.settings.checkpoints}")
    if figures.h5diff_equal is False:
        found.append("h5diff finds differences")
    return found


def announce(settings: Settings, target: Target, console: Console) -> None:
    """Prints three lines: the plan, the file system, and the place of the results."""
    place = (
        f"In a plain directory, since FUSE cannot be used here ({target.why_not_slow}: expect little difference)"
        if target.slow is None
        else f"On a file system of {settings.bandwidth} and {LATENCY} per operation (FUSE)"
    )
    console.print(
        f"A 3-D wave simulation, {settings.points}³ points, writes {settings.checkpoints} checkpoints of "
        f"{settings.checkpoint_bytes / MIB:.1f} MiB with h5py into one HDF5 file.\n"
        f"{place}, first natively, then with HDF5_VOL_CONNECTOR=forebay.\n"
        f"The program is the same. Figures, {TIME_LINE} and {READING}, and all numbers, {FIGURES}, go to "
        f"{settings.output}.",
        highlight=False,
    )


def run_demo(settings: Settings, scratch: Path, console: Console) -> list[str]:
    """Runs the complete demo. Returns its shortcomings."""
    plugin_directory()
    settings.output.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:  # results of an earlier demo must not pass for new ones
        (settings.output / name).unlink(missing_ok=True)
    needed = int(SCRATCH_FACTOR * settings.data_bytes + READING_FACTOR * settings.samples * IMAGE_BYTES)
    free = shutil.disk_usage(scratch).free
    if free < needed:
        raise MeasurementError(
            f"{scratch} has {free / MIB:.0f} MiB free and {needed / MIB:.0f} MiB are needed: name another with TMPDIR"
        )
    with slow_target(scratch, settings.bandwidth) as target:
        announce(settings, target, console)
        to_read = make_data(target, settings.samples, settings.epochs) if target.slow is not None else None
        figures = measure(settings, target, scratch, console)
        # This compares the files behind the mount, as they reached the file system.
        compare(figures)
        found = shortcomings(figures)
        print_result(figures, console)
        reading: Reading | None = None
        if to_read is None:
            console.print("Reading again is not shown: the read cache leaves files on a local file system alone.")
        else:
            stats = scratch / "stats-reading.jsonl"
            reading = read_again(to_read, target, plugin_directory(), staging_directory(scratch), stats, console)
            found += shortcomings_of_reading(reading)
            print_reading(reading, console)
    more = {} if reading is None else {"reading": reading_as_json(reading)}
    write_json(figures, found, settings.output / FIGURES, more)
    draw_timeline(figures, settings.output / TIME_LINE)
    drawn = [settings.output / TIME_LINE]
    if reading is not None:
        draw_reading(reading, settings.output / READING)
        drawn.append(settings.output / READING)
    console.print(f"Time lines: {' and '.join(map(str, drawn))}   Figures: {settings.output / FIGURES}")
    return found


def main(
    steps: Annotated[int, typer.Option(min=1, help="Checkpoints to write.")] = 10,
    size: Annotated[int, typer.Option(min=8, help="Grid points along each axis.")] = 160,
    bandwidth: Annotated[str, typer.Option(help="Bandwidth of the slow file system.")] = "80MiB/s",
    samples: Annotated[int, typer.Option(min=BATCH, help="Images that the training reads in each epoch.")] = 1024,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of the training.")] = 4,
    output: Annotated[Path, typer.Option(help="Directory for the figures and result.json.")] = Path("build/demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the HDF5 files, the trace and the statistics.")] = False,
) -> None:
    """Unmodified HDF5 programs on a slow file system, natively and with forebay: one writes, one reads again."""
    bandwidth_bytes(bandwidth)
    console = Console() if sys.stdout.isatty() else Console(width=LOG_WIDTH)
    # A terminated demo unmounts and cleans up, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    scratch = Path(tempfile.mkdtemp(prefix="forebay-demo-"))
    try:
        found = run_demo(Settings(size, steps, bandwidth, output, samples, epochs), scratch, console)
    except (MeasurementError, OSError) as error:
        found = [str(error)]
    finally:
        if keep:
            console.print(f"Kept: {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    for sentence in found:
        console.print(f"[bold red]FAILED[/]: {sentence}", highlight=False)
    if found:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
