"""The cases with several ranks: checkpoints, small writes, collective patterns, and the number of ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cases import (
    LOCAL_MIB,
    MIB,
    MORE_OFTEN,
    SLOW_BANDWIDTH,
    SLOW_LATENCY,
    SLOW_MIB,
    Setting,
    counter_note,
    first_step_new_mib_s,
    observed_mib_s,
)
from figures import Figure, Result, at_least, at_most
from memory import Need
from parallel_runs import Program, Runs, add, add_waiting, finish, merge_note, page_cache, run_ranks
from plots import Panel, save
from runs import FOREBAY, NATIVE, Run, SlowTarget, run, slow_target

RANKS = 2
DATASETS, STEPS = 8, 4
SMALL_WRITES = 10_000  # of one rank
RANK_COUNTS = (1, 2, 4, 8, 16)
RANK_COUNT_WRITES = 2_000
# A repetition of the full sizes takes minutes.
QUICK_REPETITIONS, SLOW_REPETITIONS_MAX = 3, 3
# The memory for the first checkpoint is freed this long before it, which is too short for its return to the host.
BURST_EARLIER_S = 0.5
# Memory of all ranks, touched before each run.
SMALL_MEMORY = 320 * MIB


def is_quick(setting: Setting) -> bool:
    """Returns True for reduced sizes."""
    return setting.repetitions <= QUICK_REPETITIONS


def _often(setting: Setting) -> int:
    """Returns the repetitions of short runs."""
    return setting.repetitions if is_quick(setting) else MORE_OFTEN * setting.repetitions


def _checkpoint_runs(
    setting: Setting,
    where: SlowTarget,
    mib: int,
    compute_s: float,
    repetitions: int,
    touch_bytes: int,
    need: Callable[[Path], Need] | None = None,
) -> tuple[Runs, list[Run]]:
    """Runs checkpoints in turns. After each run with forebay, as many processes make plain copies of the same bytes."""
    sizes = ("--datasets", str(DATASETS), "--mib", str(mib), "--steps", str(STEPS))
    computing = ("--compute-seconds", str(compute_s), "--compute-first") if compute_s > 0 else ()
    copy = [
        setting.places.program("plain_copy"),
        "--directory",
        str(setting.places.staging),
        *sizes,
        "--processes",
        str(RANKS),
    ]
    copies: list[Run] = []
    runs = run_ranks(
        setting,
        Program("parallel_checkpoint", RANKS, sizes + computing),
        where,
        repetitions=repetitions,
        touch_bytes=touch_bytes,
        need=need,
        after_forebay=lambda: copies.append(run(setting.places, NATIVE, copy)),
    )
    return runs, copies


def _add_bandwidths(
    result: Result, runs: Runs, copies: list[Run], *, native_target: float | None, copy_target: float | None
) -> None:
    bandwidths = [observed_mib_s(one) for one in runs[FOREBAY]]
    result.add(
        "observed bandwidth",
        map(observed_mib_s, runs[NATIVE]),
        bandwidths,
        "MiB/s",
        at_least(native_target) if native_target else None,
    )
    result.add(
        "observed bandwidth",
        (one.figures["bytes"] / MIB / one.figures["copy_s"] for one in copies),
        bandwidths,
        "MiB/s",
        at_least(copy_target) if copy_target else None,
        base_name=f"plain copy, {RANKS} processes",
    )
    result.add(
        "observed bandwidth",
        map(first_step_new_mib_s, copies),
        bandwidths,
        "MiB/s",
        base_name=f"the same, first step to new files, {RANKS} processes",
    )
    add(result, "first step", runs, "first_step_s", "s")
    add(result, "later steps, each", runs, "later_step_s", "s")
    add(result, "H5Fclose", runs, "close_s", "s")


def _checkpoint_slow(setting: Setting, name: str, title: str, computing: bool) -> Result:
    mib = SLOW_MIB // 4 if is_quick(setting) else SLOW_MIB
    title = f"{title}, {RANKS} ranks x {DATASETS} x {mib} MiB x {STEPS}, file system at {SLOW_BANDWIDTH}"
    result = Result(name, title, min(setting.repetitions, SLOW_REPETITIONS_MAX))
    # The computing time per byte is that of the case with one process.
    compute_s = setting.compute_s * RANKS * mib / SLOW_MIB if computing else 0.0
    step_bytes = RANKS * DATASETS * mib * MIB

    def need(file: Path) -> Need:
        return Need(file, STEPS * step_bytes, step_bytes * 5 // 4, max(0.0, compute_s - BURST_EARLIER_S))

    with slow_target(setting.places, bandwidth=SLOW_BANDWIDTH) as slow:
        runs, copies = _checkpoint_runs(setting, slow, mib, compute_s, result.repetitions, 2 * step_bytes, need)
    if computing:
        add_waiting(result, "time in HDF5 calls and close", runs, at_most(0.1))
        _add_bandwidths(result, runs, copies, native_target=None, copy_target=0.85)
    add(result, "total time", runs, "total_s", "s", None if computing else at_most(1.05))
    add(result, "processor time of the ranks", runs, "cpu_s", "s")
    result.notes += [merge_note("checkpoints", runs), counter_note(runs[FOREBAY])]
    return finish(result, {"checkpoints": runs, "plain copy": {NATIVE: copies, FOREBAY: []}})


def parallel_checkpoint(setting: Setting) -> Result:
    """Checkpoints of two ranks on a slow file system, with computing in between."""
    return _checkpoint_slow(setting, "parallel_checkpoint", "Checkpoints with computing in between", True)


def parallel_checkpoint_busy(setting: Setting) -> Result:
    """Checkpoints of two ranks on a slow file system, without computing."""
    return _checkpoint_slow(setting, "parallel_checkpoint_busy", "Checkpoints without computing", False)


def _checkpoint_local(setting: Setting, name: str, title: str, compute_s: float) -> Result:
    title = f"{title}, {RANKS} ranks x {DATASETS} x {LOCAL_MIB} MiB x {STEPS}, page cache"
    result = Result(name, title, _often(setting))
    step_bytes = RANKS * DATASETS * LOCAL_MIB * MIB
    # Without computing the log may have all steps.
    log_bytes = step_bytes * 5 // 4 if compute_s > 0 else STEPS * step_bytes
    runs, copies = _checkpoint_runs(
        setting,
        page_cache(setting.places),
        LOCAL_MIB,
        compute_s,
        result.repetitions,
        2 * step_bytes,
        lambda file: Need(file, STEPS * step_bytes, log_bytes, 0),
    )
    add_waiting(result, "time in HDF5 calls and close", runs)
    _add_bandwidths(result, runs, copies, native_target=2 if compute_s > 0 else None, copy_target=None)
    add(result, "total time", runs, "total_s", "s", None if compute_s > 0 else at_most(1.05))
    result.notes += [merge_note("checkpoints", runs), counter_note(runs[FOREBAY])]
    return finish(result, {"checkpoints": runs, "plain copy": {NATIVE: copies, FOREBAY: []}})


def parallel_checkpoint_local(setting: Setting) -> Result:
    """Checkpoints of two ranks on the page cache, with computing in between."""
    # Twice the computing time per byte of one process: all cores compute, so the drain gets a part of one.
    return _checkpoint_local(
        setting,
        "parallel_checkpoint_local",
        "Checkpoints with computing in between",
        2 * setting.local_compute_s * RANKS,
    )


def parallel_checkpoint_local_busy(setting: Setting) -> Result:
    """Checkpoints of two ranks on the page cache, without computing."""
    return _checkpoint_local(setting, "parallel_checkpoint_local_busy", "Checkpoints without computing", 0)


def _writes_per_s(runs: list[Run]) -> list[float]:
    return [one.figures["requests"] / one.figures["total_s"] for one in runs]


def parallel_small_writes(setting: Setting) -> Result:
    """Small independent writes of two ranks on the page cache."""
    result = Result(
        "parallel_small_writes",
        f"{RANKS} ranks x {SMALL_WRITES:,} writes of 4 KiB, page cache",
        MORE_OFTEN * setting.repetitions,
    )
    runs = run_ranks(
        setting,
        Program("parallel_small_writes", RANKS, ("--count", str(SMALL_WRITES))),
        page_cache(setting.places),
        repetitions=result.repetitions,
        touch_bytes=SMALL_MEMORY,
    )
    result.add(
        "writes in order, with close", _writes_per_s(runs[NATIVE]), _writes_per_s(runs[FOREBAY]), "/s", at_least(0.8)
    )
    add(result, "of that, writes", runs, "writes_s", "s")
    add(result, "of that, H5Fclose", runs, "close_s", "s")
    result.notes += [merge_note("small writes", runs), counter_note(runs[FOREBAY])]
    return finish(result, {"small writes": runs})


# Programs with native collective calls. Their sizes take some tenths of a second natively.
_MATRIX = ("--rows", "256", "--writes", "64")
COLLECTIVE_PROGRAMS = {
    "contiguous": Program("parallel_patterns", RANKS, ("--pattern", "contiguous", *_MATRIX)),
    "contiguous, fill value": Program("parallel_patterns", RANKS, ("--pattern", "contiguous", "--fill", *_MATRIX)),
    "chunked": Program("parallel_patterns", RANKS, ("--pattern", "chunked", *_MATRIX)),
    "chunked, fill value": Program("parallel_patterns", RANKS, ("--pattern", "chunked", "--fill", *_MATRIX)),
    "256 small datasets": Program("parallel_patterns", RANKS, ("--pattern", "datasets")),
    "100,000 pieces": Program("parallel_patterns", RANKS, ("--pattern", "pieces", "--count", "100000")),
    "100,000 points": Program("parallel_patterns", RANKS, ("--pattern", "pieces", "--points", "--count", "100000")),
    "FLASH checkpoint": Program("flash_io", RANKS, ("--blocks", "320", "--collective")),
    "FLASH plot with corners": Program(
        "flash_io", RANKS, ("--blocks", "320", "--collective", "--kind", "plot_corners")
    ),
    "VPIC": Program("vpic_io", RANKS, ("--particles", "262144", "--collective")),
    "interleaved": Program("interleaved", RANKS, ("--cells-per-write", "64", "--collective")),
}


def collective_latency(setting: Setting) -> Result:
    """Programs that write collectively, on a file system with a latency for every operation, without computing."""
    result = Result(
        "collective_latency",
        f"Collective programs without computing, {RANKS} ranks, file system at {SLOW_LATENCY} per operation",
        setting.repetitions,
    )
    groups: dict[str, Runs] = {}
    with slow_target(setting.places, latency=SLOW_LATENCY) as slow:
        for what, program in COLLECTIVE_PROGRAMS.items():
            groups[what] = run_ranks(setting, program, slow, touch_bytes=SMALL_MEMORY)
    for what, runs in groups.items():
        add(result, f"{what}: total time", runs, "total_s", "s", at_most(1.0))
        add(result, f"{what}: writes at the target", runs, "writes_at_target", "")
        result.notes.append(merge_note(what, runs))
    return finish(result, groups)


def scattered_pieces(setting: Setting) -> Result:
    """One collective write of very many pieces: its processor time."""
    result = Result(
        "scattered_pieces", f"One collective write of many pieces, {RANKS} ranks, page cache", _often(setting)
    )
    groups: dict[str, Runs] = {}
    for count in (100_000, 600_000):
        for what, more in ((f"{count:,} pieces of 16 bytes", ()), (f"{count:,} points", ("--points",))):
            program = Program("parallel_patterns", RANKS, ("--pattern", "pieces", "--count", str(count), *more))
            runs = run_ranks(
                setting, program, page_cache(setting.places), repetitions=result.repetitions, touch_bytes=SMALL_MEMORY
            )
            add(
                result,
                f"{what}: processor time of the ranks",
                runs,
                "cpu_s",
                "s",
                at_most(1.5) if count == 600_000 else None,
            )
            add(result, f"{what}: total time", runs, "total_s", "s")
            result.notes.append(merge_note(what, runs))
            groups[what] = runs
    return finish(result, groups)


def rank_count(setting: Setting) -> Result:
    """The cost of one small write, by the number of ranks that share the file."""
    result = Result(
        "rank_count",
        f"{RANK_COUNT_WRITES:,} writes of 4 KiB per rank, by number of ranks, page cache",
        setting.repetitions,
    )
    cores = len(os.sched_getaffinity(0))
    groups: dict[str, Runs] = {}
    panel = Panel(
        "one write of 4 KiB",
        "ranks",
        "µs of the rank's processor time",
        [str(ranks) for ranks in RANK_COUNTS],
        {NATIVE: [], FOREBAY: []},
    )
    for ranks in RANK_COUNTS:
        runs = run_ranks(
            setting,
            Program("parallel_small_writes", ranks, ("--count", str(RANK_COUNT_WRITES))),
            page_cache(setting.places),
            touch_bytes=SMALL_MEMORY,
        )
        cost = {
            mode: [one.figures["writes_cpu_s"] / RANK_COUNT_WRITES * 1e9 for one in ones] for mode, ones in runs.items()
        }
        elapsed = {
            mode: [one.figures["writes_s"] * min(ranks, cores) / one.figures["requests"] * 1e9 for one in ones]
            for mode, ones in runs.items()
        }
        result.add(f"one write, processor time of the rank, {ranks} ranks", cost[NATIVE], cost[FOREBAY], "ns")
        result.add(
            f"one write on one core, other work on it included, {ranks} ranks", elapsed[NATIVE], elapsed[FOREBAY], "ns"
        )
        add(result, f"H5Fclose, {ranks} ranks", runs, "close_s", "s")
        for mode, figure in ((NATIVE, result.figures[-3].base), (FOREBAY, result.figures[-3].forebay)):
            panel.series[mode].append(figure / 1000)
        groups[f"{ranks} ranks"] = runs
    costs = panel.series[FOREBAY]
    result.figures.append(
        Figure(
            f"one write, {RANK_COUNTS[-1]} ranks",
            costs[0] * 1000,
            costs[-1] * 1000,
            "ns",
            at_most(1.1),
            base_name="1 rank",
            base_samples=[costs[0] * 1000],
            forebay_samples=[costs[-1] * 1000],
        )
    )
    result.notes.append(save(setting.figures / "rank_count.png", "Small writes by the number of ranks", [panel]))
    return finish(result, groups)


CASES: dict[str, Callable[[Setting], Result]] = {
    case.__name__: case
    for case in (
        parallel_checkpoint,
        parallel_checkpoint_busy,
        parallel_checkpoint_local,
        parallel_checkpoint_local_busy,
        parallel_small_writes,
        collective_latency,
        scattered_pieces,
        rank_count,
    )
}
