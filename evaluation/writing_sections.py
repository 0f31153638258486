"""Kernels that write: HACC, QMCPACK, AMReX, E3SM, and checkpoints with computing between them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from cases import MIB, SLOW_BANDWIDTH, SLOW_LATENCY, Setting, observed_mib_s, waiting_s
from cells import Cell, Outcome, Section, run_cell
from plots import Panel, save
from runs import FOREBAY, NATIVE, Run, slow_target

RANKS = 2
REPORT = "After the HDF5 VOL Status Report, section "


def with_reads_s(one: Run) -> float:
    """Returns the time of HDF5's calls, of the close, and of reading back."""
    return waiting_s(one) + one.figures["read_s"]


def run_cells(setting: Setting, section: Section, cells: Iterable[Cell], what: str, **limits: str) -> Section:
    """Runs cells on a slow file system, and draws their times. `what` says what they include."""
    with slow_target(setting.places, **limits) as slow:
        section.outcomes += [run_cell(setting, cell, slow) for cell in cells]
    shown = [one for one in section.outcomes if None not in one.medians]
    if shown:
        bars = {mode: [1000 * one.medians[side] for one in shown] for side, mode in enumerate((NATIVE, FOREBAY))}
        panel = Panel("", "", f"ms, {what}", [one.name for one in shown], bars, logarithmic=True)
        draw(setting, section, [panel])
    return section


def draw(setting: Setting, section: Section, panels: Sequence[Panel]) -> None:
    """Adds a picture to the section, or a note that there is none."""
    path = setting.figures / f"{section.name}.png"
    note = save(path, section.title, panels)
    if path.exists():
        section.pictures.append(path)
    else:
        section.notes.append(note)


def hacc(setting: Setting, quick: bool) -> Section:
    """GenericIO: nine variables with checksums; the last rank has no particles."""
    section = Section(
        "hacc",
        "HACC GenericIO",
        REPORT
        + "7 (table 7, figures 20 and 21): nine variables and their CRCs; one rank has no particles, and all but "
        "one select nothing when the CRCs are written. Times include reading back.",
    )
    sizes = ("--particles", "20000" if quick else "500000")
    ways = {"independent": (), "collective": ("--collective",), "collective, compound": ("--collective", "--compound")}
    cells = [
        Cell(f"{what}, {ranks} ranks", "hacc_io", (*sizes, *how), ranks, seconds=with_reads_s)
        for ranks in ((3,) if quick else (2, 4))
        for what, how in ways.items()
    ]
    return run_cells(setting, section, cells, "with reading", latency=SLOW_LATENCY)


def qmcpack(setting: Setting, quick: bool) -> Section:
    """The restart file, written in units of a number, a walker, or everything."""
    section = Section(
        "qmcpack",
        "QMCPACK restart",
        REPORT
        + "5 (tables 4 and 5, figure 19): seeds and walkers, in unit-sized cells as the program does, by walkers, "
        "and at once. Walkers are read before the close, unit by unit, and after it. Times include that.",
    )
    small = ("--electrons", "16" if quick else "64", "--walkers", "2" if quick else "4")
    large = ("--walkers", "32" if quick else "256")
    sizes = {"cell": small, "walker": large, "all": large}
    cells = [
        Cell(f"by {unit}, {what}", "qmcpack_restart", ("--unit", unit, *size, *how), RANKS, seconds=with_reads_s)
        for unit, size in sizes.items()
        for what, how in {"collective": (), "independent": ("--independent",)}.items()
    ]
    return run_cells(setting, section, cells, "with reading", latency=SLOW_LATENCY)


def amrex(setting: Setting, quick: bool) -> Section:
    """Dumps of plot and particle files."""
    section = Section(
        "amrex",
        "AMReX plot and particle files",
        REPORT + "6 (table 6): dumps of a mesh in levels of boxes, and of particles. Times include reading back.",
    )
    sizes = ("--dumps", "2", "--boxes", "4") if quick else ("--dumps", "5", "--boxes", "16", "--particles", "4096")
    cells = [
        Cell(f"{kind}, {what}", "amrex_io", ("--kind", kind, *sizes, *how), RANKS, seconds=with_reads_s)
        for kind in ("plot", "particles")
        for what, how in {"independent": (), "collective": ("--collective",)}.items()
    ]
    return run_cells(setting, section, cells, "with reading", latency=SLOW_LATENCY)


def e3sm(setting: Setting, quick: bool) -> Section:
    """Cases F, G and I."""
    section = Section(
        "e3sm",
        "E3SM-IO, cases F, G and I",
        REPORT
        + "4 (table 3): many variables, whose cells belong to the ranks in short runs. Times include reading back.",
    )
    # Natively an independent write makes an operation of each piece; so those have fewer variables.
    sizes = ("--flat", "16", "--deep", "8", "--records", "2") if quick else ("--flat", "320", "--deep", "64")
    fewer = (
        ("--flat", "4", "--deep", "1", "--levels", "8") if quick else ("--flat", "8", "--deep", "1", "--levels", "24")
    )
    ways = {"collective": sizes, "independent": (*fewer, "--independent")}
    cells = [
        Cell(f"{kind.upper()}, {what}", "e3sm_io", ("--case", kind, *words), RANKS, seconds=with_reads_s)
        for kind in "fgi"
        for what, words in ways.items()
    ]
    run_cells(setting, section, cells, "with reading", latency=SLOW_LATENCY)
    section.notes += [
        f"{one.name}: {one.runs[NATIVE][0].figures['pieces']:,.0f} pieces of one rank"
        for one in section.outcomes
        if one.runs[NATIVE]
    ]
    return section


def compute_sweep(setting: Setting, quick: bool) -> Section:
    """Checkpoints with more and more computing between them."""
    section = Section(
        "compute_sweep",
        "Checkpoints, by the time of computing",
        "After table I of the Cache VOL design (computing, writes and close) and table II of the paper (the observed "
        "bandwidth by the ratio of computing to native writing).",
    )
    steps, mib = 4, 8 if quick else 32
    sizes = ("--datasets", "2", "--mib", str(mib), "--steps", str(steps))
    native_s = RANKS * 2 * mib * steps / 200  # at the bandwidth of the file system
    ratios = (0, 0.5, 1, 2) if quick else (0, 0.28, 0.57, 0.85, 1.14, 1.42, 1.71, 2)
    table: list[Sequence[str]] = [
        [
            "compute ÷ I/O",
            "computing",
            "H5Dwrite, native",
            "forebay",
            "H5Fclose, native",
            "forebay",
            "MiB/s, native",
            "forebay",
        ]
    ]
    rates: dict[str, list[float]] = {NATIVE: [], FOREBAY: []}
    with slow_target(setting.places, bandwidth=SLOW_BANDWIDTH) as slow:
        for ratio in ratios:
            compute_s = ratio * native_s / steps
            arguments = (*sizes, "--compute-seconds", f"{compute_s:.3f}")
            outcome = run_cell(setting, Cell(f"compute ÷ I/O = {ratio}", "parallel_checkpoint", arguments, RANKS), slow)
            section.outcomes.append(outcome)
            if outcome.failures:
                continue
            row = [f"{ratio}", f"{compute_s * steps:.2f} s"]
            for show in (_calls_s, _close_s, observed_mib_s):
                values = [median_of(outcome, mode, show) for mode in (NATIVE, FOREBAY)]
                row += [f"{value:,.0f}" if show is observed_mib_s else f"{value:.3f} s" for value in values]
            table.append(row)
            for mode in (NATIVE, FOREBAY):
                rates[mode].append(median_of(outcome, mode, observed_mib_s))
    section.tables.append(table)
    groups = [row[0] for row in table[1:]]
    if groups:
        draw(setting, section, [Panel("observed write bandwidth", "compute ÷ I/O", "MiB/s", groups, rates)])
    return section


def _calls_s(one: Run) -> float:
    return one.figures["calls_s"]


def _close_s(one: Run) -> float:
    return one.figures["close_s"]


def median_of(outcome: Outcome, mode: str, value) -> float:
    """Returns the median of a figure over the runs of one mode."""
    return statistics.median(value(one) for one in outcome.runs[mode])


def write_rate(setting: Setting, quick: bool) -> Section:
    """Collective writes of 16 MiB of each rank, by the number of ranks, with enough computing to hide the drain."""
    section = Section(
        "write_rate",
        "Collective write rate, by the number of ranks",
        "After the two figures of the Cache VOL design: 16 MiB of each rank, collectively, with enough computing. The "
        "number of ranks stands for the number of nodes, on one file system.",
    )
    steps, mib = 2 if quick else 8, 16
    rates: dict[str, list[float]] = {NATIVE: [], FOREBAY: []}
    counts = (1, 2) if quick else (1, 2, 4, 8)
    with slow_target(setting.places, bandwidth=SLOW_BANDWIDTH) as slow:
        for ranks in counts:
            sizes = ("--datasets", "1", "--mib", str(mib), "--steps", str(steps), "--collective")
            computing = ("--compute-seconds", f"{1.5 * ranks * mib / 200:.2f}")
            cell = Cell(f"{ranks} rank{'s' * (ranks > 1)}", "parallel_checkpoint", (*sizes, *computing), ranks)
            section.outcomes.append(run_cell(setting, cell, slow))
    for one in section.outcomes:
        for mode in (NATIVE, FOREBAY):
            rates[mode].append(median_of(one, mode, observed_mib_s) if one.runs[mode] else 0)
    draw(setting, section, [Panel("observed write rate", "ranks", "MiB/s", [str(count) for count in counts], rates)])
    section.notes.append(f"{steps} steps of {mib} MiB of each rank; {mib * MIB:,} bytes a call")
    return section
