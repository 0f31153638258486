"""The cases: programs, repetitions, and their figures.

Every case runs its program natively and with forebay in turns, the first of each pair alternating, and takes medians. A
case raises BenchError if the data was wrong or staging was off; it never fails on a figure.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from figures import Figure, Result, Target, at_least, at_most
from runs import FOREBAY, NATIVE, BenchError, NotMeasured, Places, Run, require_staging, run, run_verified, slow_target

MIB = 1 << 20
SLOW_BANDWIDTH = "200MiB/s"
SLOW_LATENCY = "0.5ms"
DATASETS, STEPS = 8, 4
# On the page cache the checkpoints are smaller, so that neither target nor log reaches the kernel's write-back limits
# and the disk stays out of the measurement.
SLOW_MIB, LOCAL_MIB = 64, 16
# Short runs are repeated more often.
MORE_OFTEN = 3
# Touched before each run: the memory of buffers, log and (on the page cache) target.
CHECKPOINT_MEMORY, SMALL_MEMORY = 1280 * MIB, 320 * MIB


@dataclass(frozen=True)
class Setting:
    places: Places
    repetitions: int
    compute_s: float
    local_compute_s: float
    progress: Callable[[str], None]
    figures: Path  # folder of the pictures
    aside_allowed: bool = False  # with several ranks, measure even if forebay steps aside


def in_turns(setting: Setting, repetitions: int) -> Iterator[tuple[int, str]]:
    """Yields repetition and mode: native and forebay in turns, the first of a pair alternating."""
    for number in range(repetitions):
        for mode in (NATIVE, FOREBAY) if number % 2 == 0 else (FOREBAY, NATIVE):
            setting.progress(f"{number + 1}/{repetitions} {mode}")
            yield number, mode


def observed_mib_s(one: Run) -> float:
    """Returns bytes divided by the time in which the program waited for HDF5."""
    return one.figures["bytes"] / MIB / (one.figures["calls_s"] + one.figures["close_s"])


def waiting_s(one: Run) -> float:
    """Returns the time in HDF5 calls and close."""
    return one.figures["calls_s"] + one.figures["close_s"]


def first_step_new_mib_s(copy: Run) -> float:
    """Returns the bandwidth of a plain copy whose first step writes new files and whose later ones overwrite them."""
    figures = copy.figures
    return figures["bytes"] / MIB / (figures["new_files_s"] + figures["copy_s"] * (STEPS - 1) / STEPS)


def later_steps_s(one: Run) -> float:
    """Returns the median of the steps after the first."""
    return statistics.median(one.figures["step_s"][1:])


def raw(runs: dict[str, list[Run]]) -> dict:
    return {
        mode: [{**one.figures, "wall_s": one.wall_s, "cpu_s": one.cpu_s, "counters": one.counters} for one in ones]
        for mode, ones in runs.items()
    }


def counter_note(runs: list[Run]) -> str:
    """Returns the times in forebay's own counters, in medians."""

    def median(key: str) -> float:
        return statistics.median(one.counters.get(key, 0) for one in runs)

    return (
        "forebay's counters (medians): staged writes {:.3f} s, of that waiting for room {:.3f} s, waiting in flush "
        "and close {:.3f} s; {:,.0f} target writes took {:.3f} s in all threads"
    ).format(
        median("stage_ns") / 1e9,
        median("stall_ns") / 1e9,
        median("close_ns") / 1e9,
        median("target_writes"),
        median("drain_ns") / 1e9,
    )


def checkpoint_runs(
    setting: Setting, repetitions: int, folders: tuple[Path, Path], mib: int, compute_s: float
) -> dict[str, list]:
    """Runs checkpoints in turns, with plain copies of the same bytes in between.

    `folders` are the place of the file for the program, and the place for the verification.
    """
    places, (mounted, backing) = setting.places, folders
    sizes = ["--datasets", str(DATASETS), "--mib", str(mib), "--steps", str(STEPS)]
    command = [places.program("checkpoint"), *sizes, "--compute-seconds", str(compute_s)]
    if compute_s > 0:
        command.append("--compute-first")  # a simulation computes before its first checkpoint
    copy = [places.program("plain_copy"), "--directory", str(places.staging), *sizes]
    runs: dict[str, list] = {NATIVE: [], FOREBAY: [], "copy": []}
    for number, mode in in_turns(setting, repetitions):
        name = f"checkpoint-{number}-{mode}.h5"
        runs[mode].append(
            run_verified(
                places,
                mode,
                command,
                mounted / name,
                verify=sizes,
                seen_at=backing / name,
                touch_bytes=CHECKPOINT_MEMORY,
            )
        )
        if mode == FOREBAY:
            runs["copy"].append(run(places, NATIVE, copy))
    return runs


def add_total_time(result: Result, runs: dict[str, list], target: Target | None) -> None:
    """From H5Fcreate to the end of H5Fclose, computing included."""
    native, forebay = ([one.figures["total_s"] for one in runs[mode]] for mode in (NATIVE, FOREBAY))
    result.add("total time", native, forebay, "s", target)
    result.add(
        "processor time of the process", (one.cpu_s for one in runs[NATIVE]), (one.cpu_s for one in runs[FOREBAY]), "s"
    )


def add_checkpoint_figures(result: Result, runs: dict[str, list], *, copy_target: float | None) -> None:
    """Observed bandwidth against native and against plain copies."""
    native, forebay = runs[NATIVE], runs[FOREBAY]
    copied = [one.figures["bytes"] / MIB / one.figures["copy_s"] for one in runs["copy"]]
    result.add("observed bandwidth", map(observed_mib_s, native), map(observed_mib_s, forebay), "MiB/s")
    result.add(
        "observed bandwidth",
        copied,
        map(observed_mib_s, forebay),
        "MiB/s",
        at_least(copy_target) if copy_target else None,
        base_name="plain copy",
    )
    result.add(
        "observed bandwidth",
        map(first_step_new_mib_s, runs["copy"]),
        map(observed_mib_s, forebay),
        "MiB/s",
        base_name="the same, first step to new files",
    )
    result.add(
        "first step", (one.figures["step_s"][0] for one in native), (one.figures["step_s"][0] for one in forebay), "s"
    )
    result.add("later steps, each", map(later_steps_s, native), map(later_steps_s, forebay), "s")
    result.add("H5Fclose", (one.figures["close_s"] for one in native), (one.figures["close_s"] for one in forebay), "s")
    result.notes.append(counter_note(forebay))


def checkpoint(setting: Setting) -> Result:
    """Checkpoints on a slow file system, with computing in between."""
    result = Result(
        "checkpoint", f"Checkpoints with computing in between, file system at {SLOW_BANDWIDTH}", setting.repetitions
    )
    with slow_target(setting.places, bandwidth=SLOW_BANDWIDTH) as slow:
        runs = checkpoint_runs(setting, setting.repetitions, (slow.mounted, slow.backing), SLOW_MIB, setting.compute_s)
    native, forebay = runs[NATIVE], runs[FOREBAY]
    result.add("time in HDF5 calls and close", map(waiting_s, native), map(waiting_s, forebay), "s", at_most(0.1))
    add_checkpoint_figures(result, runs, copy_target=0.85)
    add_total_time(result, runs, None)
    result.add(
        "computing, sweeps per second",
        (one.figures["sweeps"] / one.figures["compute_s"] for one in native),
        (one.figures["sweeps"] / one.figures["compute_s"] for one in forebay),
        "/s",
    )
    result.samples = raw(runs)
    return result


def checkpoint_busy(setting: Setting) -> Result:
    """Checkpoints on a slow file system without computing."""
    result = Result(
        "checkpoint_busy", f"The same without computing, file system at {SLOW_BANDWIDTH}", setting.repetitions
    )
    with slow_target(setting.places, bandwidth=SLOW_BANDWIDTH) as slow:
        runs = checkpoint_runs(setting, setting.repetitions, (slow.mounted, slow.backing), SLOW_MIB, 0)
    add_total_time(result, runs, at_most(1.05))
    result.notes.append(counter_note(runs[FOREBAY]))
    result.samples = raw(runs)
    return result


def _checkpoint_local(setting: Setting, name: str, title: str, compute_s: float) -> Result:
    result = Result(name, title, MORE_OFTEN * setting.repetitions)
    target = setting.places.target
    runs = checkpoint_runs(setting, result.repetitions, (target, target), LOCAL_MIB, compute_s)
    if compute_s > 0:
        result.add(
            "time in HDF5 calls and close",
            map(waiting_s, runs[NATIVE]),
            map(waiting_s, runs[FOREBAY]),
            "s",
            at_most(1.05),
        )
    add_total_time(result, runs, at_most(1.05))
    add_checkpoint_figures(result, runs, copy_target=None)
    result.samples = raw(runs)
    return result


def checkpoint_local(setting: Setting) -> Result:
    """Checkpoints on the page cache, with computing in between."""
    return _checkpoint_local(
        setting, "checkpoint_local", "Checkpoints with computing in between, page cache", setting.local_compute_s
    )


def checkpoint_local_busy(setting: Setting) -> Result:
    """Checkpoints on the page cache, without computing."""
    return _checkpoint_local(setting, "checkpoint_local_busy", "Checkpoints without computing, page cache", 0)


def _small_writes_runs(
    setting: Setting, repetitions: int, mounted: Path, backing: Path, *more: str
) -> dict[str, list[Run]]:
    command = [setting.places.program("small_writes"), *more]
    runs: dict[str, list[Run]] = {NATIVE: [], FOREBAY: []}
    for number, mode in in_turns(setting, repetitions):
        name = f"small-{number}-{mode}.h5"
        runs[mode].append(
            run_verified(
                setting.places, mode, command, mounted / name, seen_at=backing / name, touch_bytes=SMALL_MEMORY
            )
        )
    return runs


def _writes_per_s(runs: list[Run]) -> list[float]:
    return [one.figures["count"] / one.figures["total_s"] for one in runs]


def small_writes(setting: Setting) -> Result:
    """Small writes on the page cache."""
    result = Result(
        "small_writes", "20,000 writes of 4 KiB, sieve buffer off, page cache", MORE_OFTEN * setting.repetitions
    )
    target = setting.places.target
    for what, more, wanted in (
        ("writes in order, with close", (), at_least(0.8)),
        ("writes scattered, with close", ("--shuffle",), None),
    ):
        runs = _small_writes_runs(setting, result.repetitions, target, target, *more)
        result.add(what, _writes_per_s(runs[NATIVE]), _writes_per_s(runs[FOREBAY]), "/s", wanted)
        for part, key in (("writes", "writes_s"), ("close", "close_s")):
            result.add(
                f"of that, {part}",
                (one.figures[key] for one in runs[NATIVE]),
                (one.figures[key] for one in runs[FOREBAY]),
                "s",
            )
        result.notes.append(f"{what}: {counter_note(runs[FOREBAY])}")
        result.samples[what] = raw(runs)
    return result


def small_writes_latency(setting: Setting) -> Result:
    """Small writes on a file system with a latency for every operation."""
    repetitions = 1 if setting.repetitions <= 3 else 3
    result = Result("small_writes_latency", f"The same, file system at {SLOW_LATENCY} per operation", repetitions)
    with slow_target(setting.places, latency=SLOW_LATENCY) as slow:
        runs = _small_writes_runs(setting, repetitions, slow.mounted, slow.backing)
    result.add(
        "writes in order, with close", _writes_per_s(runs[NATIVE]), _writes_per_s(runs[FOREBAY]), "/s", at_least(50)
    )
    result.notes.append(counter_note(runs[FOREBAY]))
    result.samples = raw(runs)
    return result


def api_test(setting: Setting) -> Result:
    """HDF5's own API tests: hundreds of small files, most of them closed at once."""
    result = Result("api_test", "HDF5's API tests (h5_api_test)", setting.repetitions)
    places = setting.places
    if places.api_tests is None:
        raise NotMeasured("this HDF5 was installed without its API tests")
    runs: dict[str, list[Run]] = {NATIVE: [], FOREBAY: []}
    passed: dict[str, set[tuple[int, int]]] = {NATIVE: set(), FOREBAY: set()}  # how many passed, and did not
    folder = places.target / "api"
    for _, mode in in_turns(setting, MORE_OFTEN * setting.repetitions):
        folder.mkdir()
        try:
            one = run(places, mode, [str(places.api_tests / "h5_api_test")], cwd=folder)
        finally:
            for file in sorted(folder.rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
            folder.rmdir()
        runs[mode].append(one)
        counts = re.findall(r"(\d+)/(\d+) \([\d.]+%\) API tests passed", one.output)
        passed[mode] |= {(int(good), int(total) - int(good)) for good, total in counts}
    # A connector with more capabilities is tested more.
    if not len(passed[NATIVE]) == len(passed[FOREBAY]) == 1:
        raise BenchError(f"h5_api_test passed {passed[NATIVE]} natively and {passed[FOREBAY]} with forebay")
    (native_good, native_bad), (good, bad) = *passed[NATIVE], *passed[FOREBAY]
    if bad != native_bad or good < native_good:
        raise BenchError(f"h5_api_test: {native_bad} tests did not pass natively, and {bad} with forebay")
    for one in runs[FOREBAY]:
        require_staging(one, 1, "h5_api_test")
    result.repetitions = len(runs[NATIVE])
    result.add(
        "time of the process",
        (one.wall_s for one in runs[NATIVE]),
        (one.wall_s for one in runs[FOREBAY]),
        "s",
        at_most(3),
    )
    result.notes.append(
        f"{native_good} tests passed natively and {good} with forebay; {counter_note(runs[FOREBAY])}, "
        f"{runs[FOREBAY][0].counters['files']} files closed"
    )
    result.samples = raw(runs)
    return result


def memory(setting: Setting) -> Result:
    """Anonymous memory at its peak, with all bytes staged long before the drain."""
    result = Result("memory", f"Peak of anonymous memory, file system at {SLOW_BANDWIDTH}", 1)
    sizes = ["--datasets", str(DATASETS), "--mib", str(SLOW_MIB), "--steps", "2"]
    with slow_target(setting.places, bandwidth=SLOW_BANDWIDTH) as slow:
        for what, program, more in (
            ("checkpoints, two steps", "checkpoint", sizes),
            ("20,000 writes of 4 KiB, scattered", "small_writes", ["--shuffle"]),
        ):
            peaks = {}
            for _, mode in in_turns(setting, 1):
                name = f"memory-{mode}.h5"
                command = [setting.places.program(program), *more]
                verify = sizes if program == "checkpoint" else []
                peaks[mode] = (
                    run_verified(
                        setting.places,
                        mode,
                        command,
                        slow.mounted / name,
                        verify=verify,
                        seen_at=slow.backing / name,
                        sample_memory=True,
                    ).anonymous_peak_bytes
                    / MIB
                )
            result.add(what, [peaks[NATIVE]], [peaks[FOREBAY]], "MiB", at_most(64, "difference", "MiB"))
    result.notes.append(
        "sampled as `Anonymous` of smaps_rollup: VmHWM would count the pages of the mapped log too, "
        "which are page cache of the staging device and not the process's own"
    )
    return result


def idle(setting: Setting) -> Result:
    """A file that is open, flushed and left alone for three seconds."""
    result = Result("idle", "Three seconds of an open, flushed, idle file", 1)
    target = setting.places.target
    command = [setting.places.program("idle")]
    runs = {
        mode: run_verified(setting.places, mode, command, target / f"idle-{mode}.h5", touch_bytes=SMALL_MEMORY)
        for _, mode in in_turns(setting, 1)
    }
    for what, key, wanted in (
        ("clock ticks of the process", "ticks", at_most(0, "forebay")),
        ("voluntary switches of the main thread (its own sleep)", "main_switches", None),
        ("voluntary switches of the other threads", "other_switches", at_most(0, "forebay")),
        ("threads", "threads", None),
    ):
        result.add(what, [runs[NATIVE].figures[key]], [runs[FOREBAY].figures[key]], "", wanted)
    result.add(
        "time until the process was idle",
        [runs[NATIVE].figures["settled_s"]],
        [runs[FOREBAY].figures["settled_s"]],
        "s",
    )
    result.samples = raw({mode: [one] for mode, one in runs.items()})
    return result


_ENGINE_FIGURES = (
    ("native/pwrite", "write/append"),
    ("native/pwrite", "write/over"),
    ("native/pwrite", "write/scattered"),
    ("native/pread", "read/unstaged"),
    ("native/pread", "read/staged"),
    ("native/pread_window", "read/overlay"),
)


def engine(setting: Setting) -> Result:
    """The staging engine alone, with a thousand to a million extents staged."""
    result = Result("engine", "The engine alone: one operation, by number of extents staged", 1)
    command = [
        setting.places.program("engine_bench"),
        "--directory",
        str(setting.places.staging),
        "--benchmark_format=json",
    ]
    setting.progress("engine_bench")
    printed = run(setting.places, NATIVE, command)
    times = {}
    for one in json.loads(printed.output)["benchmarks"]:
        if one.get("error_occurred"):
            raise BenchError(f"engine_bench: {one['name']}: {one['error_message']}")
        name, extents = re.fullmatch(r"([\w/]+?)/(\d+)(?:/.*)?", one["name"]).groups()
        times[name, int(extents)] = one["cpu_time"]
    for native_name, name in _ENGINE_FIGURES:
        for extents in sorted({size for _, size in times}):
            result.figures.append(
                Figure(
                    f"{name}, {extents:,} extents",
                    times[native_name, extents],
                    times[name, extents],
                    "ns",
                    base_name=native_name.replace("native/", ""),
                )
            )
    result.notes.append(
        "processor time of the calling thread; pieces of 64 bytes made in random order, 256 bytes "
        "apart; the overlay is a read of 16 KiB across 64 of them"
    )
    result.samples = {f"{name}/{extents}": value for (name, extents), value in times.items()}
    return result


CASES: dict[str, Callable[[Setting], Result]] = {
    case.__name__: case
    for case in (
        checkpoint,
        checkpoint_busy,
        checkpoint_local,
        checkpoint_local_busy,
        small_writes,
        small_writes_latency,
        api_test,
        memory,
        idle,
        engine,
    )
}
