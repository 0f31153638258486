"""Published I/O kernels, natively and with forebay: FFBench, FLASH I/O, VPIC-IO, and interleaved cells.

Each draws build/bench/NAME.png after figures of the papers: 9 to 17 of the Compactor paper, 4 of the Cache VOL paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cases import MIB, SLOW_BANDWIDTH, SLOW_LATENCY, Setting, counter_note, observed_mib_s, waiting_s
from figures import Result, at_least, at_most
from parallel_cases import is_quick
from parallel_runs import STRIPE, Program, Runs, add, add_counter, add_waiting, finish, medians, merge_note, run_ranks
from plots import Panel, save
from runs import FOREBAY, NATIVE, slow_target

KERNEL_RANKS, QUICK_KERNEL_RANKS = (2, 4, 8), (2, 4)
MORPHING_COLUMNS = (512, 1024, 2048)
ROWS, COLUMNS = 128, 2048  # of FFBench's matrix: rows of one rank, 64-bit words of a row
INTERLEAVED_RANKS, INTERLEAVED_CELLS = 4, 4096
CELL_BYTES = 4096
PARTICLES, VPIC_STEPS = 262_144, 4
BYTES_OF_A_PARTICLE = 32
TOUCHED = 320 * MIB


def rank_counts(setting: Setting) -> tuple[int, ...]:
    """Returns the numbers of ranks of a kernel."""
    return QUICK_KERNEL_RANKS if is_quick(setting) else KERNEL_RANKS


def time_panel(title: str, along: str, groups: Sequence[str], runs: Sequence[Runs]) -> Panel:
    """Shows the time in HDF5 calls and close, native and with forebay."""
    pairs = [medians(each, waiting_s) for each in runs]
    return Panel(
        title,
        along,
        "seconds in HDF5 calls and close",
        groups,
        {NATIVE: [pair[0] for pair in pairs], FOREBAY: [pair[1] for pair in pairs]},
    )


def writes_panel(title: str, along: str, groups: Sequence[str], runs: Sequence[Runs]) -> Panel:
    """Shows the program's requests, and the writes that reached the file system."""
    pairs = [medians(each, "writes_at_target") for each in runs]
    return Panel(
        title,
        along,
        "number",
        groups,
        {
            "asked for": [each[NATIVE][0].figures["requests"] for each in runs],
            NATIVE: [pair[0] for pair in pairs],
            FOREBAY: [pair[1] for pair in pairs],
        },
        logarithmic=True,
    )


def share_panel(title: str, runs: Runs) -> Panel:
    """Shows the shares of writes and reads in the time, in percent."""
    writes, reads = medians(runs, "writes_s"), medians(runs, "reads_s")
    share = [100 * read / (write + read) for write, read in zip(writes, reads)]
    return Panel(
        title,
        "",
        "% of the time in writes and reads",
        [NATIVE, FOREBAY],
        {"writes": [100 - part for part in share], "reads": share},
        stacked=True,
    )


def ffbench(setting: Setting) -> Result:
    """FFBench: collective buffering by number of ranks, morphing by size, stealing by number of ranks."""
    result = Result("ffbench", f"FFBench, file system at {SLOW_LATENCY} per operation", setting.repetitions)
    buffering, morphing, stealing, from_others = {}, {}, {}, {}
    shape = ("--rows", str(ROWS), "--columns", str(COLUMNS))
    with slow_target(setting.places, latency=SLOW_LATENCY) as slow:
        for ranks in rank_counts(setting):
            for name, found, how in (
                ("collective_buffering", buffering, ()),
                ("stealing", stealing, ()),
                ("stealing", from_others, ("--neighbour",)),
            ):
                program = Program("ffbench", ranks, ("--pattern", name, *shape, *how))
                found[str(ranks)] = run_ranks(setting, program, slow, touch_bytes=TOUCHED)
        for columns in MORPHING_COLUMNS:
            program = Program(
                "ffbench", KERNEL_RANKS[0], ("--pattern", "morphing", "--rows", "32", "--columns", str(columns))
            )
            morphing[str(columns)] = run_ranks(setting, program, slow, touch_bytes=TOUCHED)
    for ranks, runs in buffering.items():
        add_waiting(result, f"collective buffering, {ranks} ranks: calls and close", runs)
        add(result, f"collective buffering, {ranks} ranks: writes at the target", runs, "writes_at_target", "")
    for columns, runs in morphing.items():
        add_waiting(result, f"morphing, {columns} columns: calls and close", runs)
        add(result, f"morphing, {columns} columns: writes at the target", runs, "writes_at_target", "")
    for what, found in (("stealing", stealing), ("stealing from another rank", from_others)):
        for ranks, runs in found.items():
            add(result, f"{what}, {ranks} ranks: reads", runs, "reads_s", "s", at_most(0.3))
            add_counter(
                result,
                f"{what}, {ranks} ranks: bytes stolen",
                runs[NATIVE][0].figures["bytes"],
                "bytes read",
                runs,
                "stolen",
                at_least(1),
            )
    groups = {
        f"{name}, {size}": runs
        for name, found in (
            ("collective buffering", buffering),
            ("morphing", morphing),
            ("stealing", stealing),
            ("stealing from another rank", from_others),
        )
        for size, runs in found.items()
    }
    result.notes += [merge_note(what, runs) for what, runs in groups.items()]
    most = str(rank_counts(setting)[-1])
    panels = [
        time_panel("collective buffering", "ranks", list(buffering), list(buffering.values())),
        writes_panel("collective buffering: writes", "ranks", list(buffering), list(buffering.values())),
        time_panel("morphing", "columns", list(morphing), list(morphing.values())),
        time_panel("stealing: write, then read", "ranks", list(stealing), list(stealing.values())),
        share_panel(f"stealing, {most} ranks", stealing[most]),
    ]
    result.notes.append(save(setting.figures / "ffbench.png", result.title, panels))
    return finish(result, groups)


def flash_io(setting: Setting) -> Result:
    """FLASH I/O: checkpoint, plot file with corners and without, by number of ranks."""
    result = Result("flash_io", f"FLASH I/O, file system at {SLOW_LATENCY} per operation", setting.repetitions)
    kinds = {"checkpoint": "checkpoint", "plot_corners": "plot file with corners", "plot": "plot file without corners"}
    found: dict[str, dict[str, Runs]] = {kind: {} for kind in kinds}
    with slow_target(setting.places, latency=SLOW_LATENCY) as slow:
        for kind in kinds:
            for ranks in rank_counts(setting):
                program = Program("flash_io", ranks, ("--kind", kind))
                found[kind][str(ranks)] = run_ranks(setting, program, slow, touch_bytes=TOUCHED)
    groups = {
        f"{kinds[kind]}, {ranks} ranks": runs for kind, by_ranks in found.items() for ranks, runs in by_ranks.items()
    }
    for what, runs in groups.items():
        add_waiting(result, f"{what}: calls and close", runs)
        add(result, f"{what}: writes at the target", runs, "writes_at_target", "")
    result.notes += [merge_note(what, runs) for what, runs in groups.items()]
    checkpoints = found["checkpoint"]
    panels = [
        time_panel(kinds[kind], "ranks", list(by_ranks), list(by_ranks.values())) for kind, by_ranks in found.items()
    ]
    panels.insert(1, writes_panel("checkpoint: writes", "ranks", list(checkpoints), list(checkpoints.values())))
    result.notes.append(save(setting.figures / "flash_io.png", result.title, panels))
    return finish(result, groups)


def vpic_io(setting: Setting) -> Result:
    """VPIC-IO: the observed write rate by number of ranks, computing long enough to hide the drain."""
    result = Result(
        "vpic_io", f"VPIC-IO, computing after each step, file system at {SLOW_BANDWIDTH}", setting.repetitions
    )
    groups: dict[str, Runs] = {}
    with slow_target(setting.places, bandwidth=SLOW_BANDWIDTH) as slow:
        for ranks in rank_counts(setting):
            # The computing time per byte is that between the checkpoints.
            compute_s = setting.compute_s * ranks * PARTICLES * BYTES_OF_A_PARTICLE / (512 * MIB)
            program = Program(
                "vpic_io",
                ranks,
                ("--particles", str(PARTICLES), "--steps", str(VPIC_STEPS), "--compute-seconds", str(compute_s)),
            )
            groups[str(ranks)] = run_ranks(setting, program, slow, touch_bytes=2 * TOUCHED)
    rates = [medians(runs, observed_mib_s) for runs in groups.values()]
    for ranks, runs in groups.items():
        result.add(
            f"observed write rate, {ranks} ranks",
            map(observed_mib_s, runs[NATIVE]),
            map(observed_mib_s, runs[FOREBAY]),
            "MiB/s",
        )
        add(result, f"writes at the target, {ranks} ranks", runs, "writes_at_target", "")
        result.notes.append(merge_note(f"{ranks} ranks", runs))
    panels = [
        Panel(
            "observed write rate",
            "ranks",
            "MiB/s",
            list(groups),
            {NATIVE: [rate[0] for rate in rates], FOREBAY: [rate[1] for rate in rates]},
        ),
        time_panel("waiting", "ranks", list(groups), list(groups.values())),
        writes_panel("writes", "ranks", list(groups), list(groups.values())),
    ]
    result.notes.append(save(setting.figures / "vpic_io.png", result.title, panels))
    return finish(result, groups)


def interleaved(setting: Setting) -> Result:
    """Cells of 4 KiB that belong to four ranks in turns, written independently and collectively."""
    result = Result(
        "interleaved",
        f"{INTERLEAVED_RANKS} ranks x {INTERLEAVED_CELLS:,} interleaved cells of 4 KiB, "
        f"file system at {SLOW_LATENCY} per operation",
        setting.repetitions,
    )
    cells = ("--cells", str(INTERLEAVED_CELLS))
    ways = {"independent": (cells, 20), "collective": ((*cells, "--cells-per-write", "256", "--collective"), 1.5)}
    total_cells = INTERLEAVED_RANKS * INTERLEAVED_CELLS
    groups: dict[str, Runs] = {}
    with slow_target(setting.places, latency=SLOW_LATENCY) as slow:
        for what, (arguments, _) in ways.items():
            groups[what] = run_ranks(
                setting, Program("interleaved", INTERLEAVED_RANKS, arguments), slow, touch_bytes=TOUCHED
            )
    for what, runs in groups.items():
        rate = {mode: [total_cells / one.figures["total_s"] for one in ones] for mode, ones in runs.items()}
        result.add(f"{what}: cells, with close", rate[NATIVE], rate[FOREBAY], "/s", at_least(ways[what][1]))
        add(result, f"{what}: total time", runs, "total_s", "s")
        add_counter(
            result,
            f"{what}: target writes",
            total_cells * CELL_BYTES / STRIPE,
            "stripes",
            runs,
            "target_writes",
            at_most(1.1),
        )
        add(result, f"{what}: writes at the target", runs, "writes_at_target", "")
        result.notes += [merge_note(what, runs), counter_note(runs[FOREBAY])]
    panels = [
        time_panel("calls and close", "", list(groups), list(groups.values())),
        writes_panel("writes", "", list(groups), list(groups.values())),
    ]
    result.notes.append(save(setting.figures / "interleaved.png", result.title, panels))
    return finish(result, groups)


CASES: dict[str, Callable[[Setting], Result]] = {
    case.__name__: case for case in (ffbench, flash_io, vpic_io, interleaved)
}
