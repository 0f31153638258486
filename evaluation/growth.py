"""Growth, measured: the cost of forebay's calls by the number of things that it keeps.

Each axis measures several costs at each of its sizes: the time of a call, its system calls, or memory. The slope of
the cost over the size, both logarithmic, in the upper half of the sizes is the exponent of a power of the size, and
gives the verdict. Times are those of this machine; counts are not.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from cases import MIB, Setting, in_turns
from cells import Outcome, Section
from figures import LEAST_COST, slope_of
from plots import save_growth
from reading import CLOCK_BEHIND, HITS, make_sparse
from runs import FOREBAY, NATIVE, BenchError, NotMeasured, Run, mpiexec, require_staging, run, slow_target, system_calls

FLAT, LOGARITHMIC = 0.1, 0.25  # slopes below these
UNIT = 256 << 10  # of the read cache
CACHE_ON = {"FOREBAY_READ_CACHE": "on"}


@dataclass
class Curve:
    """A cost by size. `native` is the same cost of native HDF5, or of the operating system's call."""

    costs: dict[int, float] = field(default_factory=dict)
    native: dict[int, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The slope in a word."""
        slope = slope_of(self.costs)
        if slope < FLAT:
            return "flat" if slope > -FLAT else "falls"
        return "logarithmic" if slope < LOGARITHMIC else "**grows**"


class Axis:
    """The curves over one kind of size."""

    def __init__(self, setting: Setting, name: str, sizes: Sequence[int]) -> None:
        staging, target = (Path(mkdtemp(dir=at)) for at in (setting.places.staging, setting.places.target))
        self.places = dataclasses.replace(setting.places, staging=staging, target=target)
        self.setting = dataclasses.replace(setting, places=self.places)
        self.name, self.sizes, self.curves, self.outcome = name, sizes, {}, Outcome(name)

    def add(self, what: str, unit: str, size: int, cost: float, native: float | None = None) -> None:
        """Adds a point to a curve."""
        curve = self.curves.setdefault(f"{what}, {unit}", Curve())
        curve.costs[size] = cost
        if native is not None:
            curve.native[size] = native

    def fresh_folder(self) -> str:
        """Returns a new folder for target files."""
        return mkdtemp(dir=self.places.target)

    def table(self) -> list[Sequence[str]]:
        """Returns the table of the axis, a row for each curve."""
        rows: list[Sequence[str]] = [
            [self.name, *(f"{size:,}" for size in self.sizes), "÷ native", "native slope", "slope", "verdict"]
        ]
        for what, curve in self.curves.items():
            costs = [curve.costs.get(size) for size in self.sizes]
            last = max(curve.costs)
            native = ["–", "–"]
            if curve.native.get(last):
                native = [f"{curve.costs[last] / curve.native[last]:.2f}", f"{slope_of(curve.native):.2f}"]
            shown = ["–" if cost is None else f"{cost:,.{0 if cost >= 100 else 2}f}" for cost in costs]
            rows.append([what, *shown, *native, f"{slope_of(curve.costs):.2f}", self.verdict(what, curve)])
        return rows

    def verdict(self, what: str, curve: Curve) -> str:
        """Returns the curve's verdict, with the cause of a growth."""
        cause = CAUSES.get((self.name, what), "")
        return f"{curve.verdict}: {cause}" if cause and "grows" in curve.verdict else curve.verdict

    def remove_folders(self) -> None:
        """Removes all that the runs have left."""
        for folder in (self.places.staging, self.places.target):
            shutil.rmtree(folder, ignore_errors=True)


# ---- axes ------------------------------------------------------------------------------------------------------------

# Benchmarks of bench/engine_bench.cc, and native counterparts. The cost of `all` is that of each extent.
ENGINE_CURVES = {
    "staged write, new": ("write/scattered", "native/pwrite"),
    "staged write, over": ("write/over", "native/pwrite"),
    "staged write, at the end": ("write/append", "native/pwrite"),
    "read of a staged piece": ("read/staged", "native/pread"),
    "read beside staged pieces": ("read/unstaged", "native/pread"),
    "read across 64 pieces": ("read/overlay", "native/pread_window"),
    "commit of all, each": ("commit/all", None),
    "while all wait to drain: write": ("waiting/write", "native/pwrite"),
    "while all wait to drain: read": ("waiting/read", "native/pread"),
    "while all wait to drain: write and commit": ("waiting/commit", None),
    "close of all, each": ("close/all", None),
}


def extents(axis: Axis) -> None:
    """Calls of the engine by the number of extents in the index."""
    for size in axis.sizes:
        axis.setting.progress(f"{size:,} extents")
        command = [axis.places.program("engine_bench"), "--directory", str(axis.places.staging)]
        wanted = ["--extents", str(size), "--benchmark_format=json"]
        printed = json.loads(run(axis.places, NATIVE, [*command, *wanted], timeout_s=900).output)
        found = {re.match(r"\w+/\w+", one["name"])[0]: one for one in printed["benchmarks"]}
        for what, (name, native) in ENGINE_CURVES.items():
            cost = found[name]["real_time" if name == "close/all" else "cpu_time"]
            base = found[native]["cpu_time"] if native else None
            axis.add(what, "ns", size, cost / (size if name.endswith("/all") else 1), base)
        axis.add("memory of an extent", "bytes", size, found["write/over"]["heap_bytes"] / size)


def writes(axis: Axis) -> None:
    """Scattered writes of 64 bytes of one program, by their number."""
    for size in axis.sizes:
        found: dict[str, Run] = {}
        for _, mode in in_turns(axis.setting, 1):
            command = [axis.places.program("small_writes"), "--count", str(size), "--words", "8"]
            file = ["--file", f"{axis.fresh_folder()}/data.h5"]
            found[mode] = run(axis.places, mode, [*command, "--shuffle", *file])
            axis.outcome.count(run(axis.places, NATIVE, [*command, "--verify", *file]).figures)
        require_staging(found[FOREBAY], found[FOREBAY].figures["bytes"], "small_writes")
        for what, key in (("H5Dwrite", "writes_s"), ("H5Fclose, each write", "close_s")):
            axis.add(what, "ns", size, *(1e9 * found[mode].figures[key] / size for mode in (FOREBAY, NATIVE)))


TRACED_FILES_MAX = 300  # strace takes its time


def files(axis: Axis, *more: str) -> None:
    """Small files by their number, one after the other or open together."""
    names = {"make_s": "create" if more else "create and close", "flush_s": "H5Fflush", "close_s": "H5Fclose"}
    for size in axis.sizes:
        found: dict[str, Run] = {}
        for _, mode in in_turns(axis.setting, 1):
            command = [axis.places.program("small_files"), "--folder", axis.fresh_folder(), "--files", str(size)]
            found[mode] = run(axis.places, mode, [*command, *more], sample_memory=True)
            axis.outcome.count(found[mode].figures)
        require_staging(found[FOREBAY], found[FOREBAY].figures["compared"], "small_files")
        for key, what in (names | {"open_s": "open and close"}).items():
            if key in found[FOREBAY].figures:
                axis.add(what, "µs", size, *(1e6 * found[mode].figures[key] / size for mode in (FOREBAY, NATIVE)))
        cpu_costs = (1e6 * found[mode].figures["cpu_s"] / size for mode in (FOREBAY, NATIVE))
        axis.add("a file, processor time", "µs", size, *cpu_costs)
        if more and size <= TRACED_FILES_MAX:
            calls = system_calls(axis.places, [*command[:2], axis.fresh_folder(), *command[3:], *more])
            axis.add("a file", "system calls", size, calls / size)
        peaks = (found[mode].anonymous_peak_bytes / MIB for mode in (FOREBAY, NATIVE))
        axis.add("memory of the process", "MiB", size, *peaks)


def files_together(axis: Axis) -> None:
    """Small files by the number of those that are open at a time."""
    files(axis, "--together")


RANKS_WRITES = 4096  # of all ranks, 4 KiB each
RANKS_TARGET = "512KiB/s"  # the drain takes 32 s, much longer than 64 ranks take to meet on two cores


def ranks(axis: Axis) -> None:
    """Small writes of a shared file by the number of ranks, and the time of ranks that wait for the drain."""
    cores = len(os.sched_getaffinity(0))

    def one_run(mode: str, size: int, folder: Path) -> dict:
        command = [axis.places.program("parallel_small_writes"), "--count", str(max(1, RANKS_WRITES // size))]
        one = run(axis.places, mode, [*command, "--file", str(folder / f"{mode}-{size}.h5")], ranks=size)
        if mode == FOREBAY:
            require_staging(one, one.figures["bytes"], "parallel_small_writes")
        return one.figures

    mpiexec(1)  # or fails with a reason
    with slow_target(axis.places, bandwidth=RANKS_TARGET) as slow:
        for size in axis.sizes:
            found = {mode: one_run(mode, size, axis.places.target) for _, mode in in_turns(axis.setting, 1)}
            for what, key, scale, unit in (
                ("H5Dwrite, processor time of the rank", "writes_cpu_s", 1e9 * size / RANKS_WRITES, "ns"),
                ("H5Fcreate", "open_s", 1e3, "ms"),
                ("H5Fclose", "close_s", 1e3, "ms"),
            ):
                axis.add(what, unit, size, *(scale * found[mode][key] for mode in (FOREBAY, NATIVE)))
            if size > 1:  # beyond a close that need not wait
                slowly, fast = one_run(FOREBAY, size, slow.mounted), found[FOREBAY]
                cpu_s, wait_s = (slowly[key] - fast[key] for key in ("waiting_cpu_s", "close_s"))
                share = 100 * cpu_s / max(LEAST_COST, wait_s * min(size - 1, cores))
                axis.add("ranks that wait for the drain", "% of processors, at least 1", size, max(1, share))


def cached(axis: Axis, command: Sequence[str]) -> Run:
    """Runs a program that reads through the cache."""
    one = run(axis.places, FOREBAY, command, settings=CACHE_ON)
    if one.counters.get("cache_hit_bytes", 0) == 0:
        raise BenchError(f"no byte came from the read cache ({one.counters})")
    return one


LOOKS_PER_OPEN = 32  # as kLooksPerOpen of src/cache/device.h


def replicas(axis: Axis) -> None:
    """Opens of cached files by the number of replicas. They open more files in turns than a process keeps replicas."""
    files, opens, made = "100", 200, 0
    program = axis.places.program("opens")
    with slow_target(axis.places, clock_behind=CLOCK_BEHIND) as slow:
        for size in axis.sizes:
            for number in range(made, size):
                make_sparse(slow.backing / f"{number}.h5", 2 * UNIT)
            made = size
            run(axis.places, FOREBAY, [program, str(slow.mounted), str(size), str(size)], settings=CACHE_ON)
            native = run(axis.places, NATIVE, [program, str(slow.backing), str(opens), files])
            one = cached(axis, [program, str(slow.mounted), str(opens), files])
            costs = (1e6 * each.figures["processor_seconds"] / opens for each in (one, native))
            axis.add("open and close, processor time", "µs", size, *costs)
            # Some opens of the cache look at all replicas, at most one of two in a row if there are many.
            first, all_calls = (
                min(
                    system_calls(axis.places, [program, str(slow.mounted), str(count), files], CACHE_ON)
                    for _ in range(2)
                )
                for count in (0, opens)
            )
            turns = max(1, size // LOOKS_PER_OPEN)
            once = f"{program} {slow.mounted} 0 {files} > /dev/null"
            loop = f"i=0; while [ $i -lt {turns} ]; do {once}; i=$((i+1)); done"
            in_turns_calls = system_calls(axis.places, ["sh", "-c", loop], CACHE_ON)
            axis.add("first open of a process, on average", "system calls", size, in_turns_calls / turns)
            axis.add("first open of a process, the cheaper of two", "system calls", size, first)
            axis.add("later open and close", "system calls", size, (all_calls - first) / opens)


def units(axis: Axis) -> None:
    """Hits of the read cache by the units of the replica."""
    count = 200
    with slow_target(axis.places, clock_behind=CLOCK_BEHIND) as slow:
        for size in axis.sizes:
            name, words = f"{size}.h5", [sys.executable, "-c", HITS]
            make_sparse(slow.backing / name, size * UNIT)
            read = [*words, str(slow.mounted / name), str(count)]
            run(axis.places, FOREBAY, [*read, "2"], settings=CACHE_ON)
            both = (
                cached(axis, [*read, "4"]),
                run(axis.places, NATIVE, [*words, str(slow.backing / name), str(count), "4"]),
            )
            axis.add("hit, processor time", "µs", size, *(1e6 * one.figures["read_s"] for one in both))
            axis.add("later open", "µs", size, *(1e6 * one.figures["open_s"] for one in both))
            none, once, often = (system_calls(axis.places, [*read, turns], CACHE_ON) for turns in ("0", "1", "4"))
            axis.add("hit", "system calls", size, (often - once) / 3 / count)
            axis.add("first open of a process", "system calls", size, none)


# Each child makes a file, flushes it, and is killed. Its log stays. The parent ends well, and writes its statistics.
DIE = """
import os, signal, sys, h5py
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    if os.fork() == 0:
        os.mkdir(f"{sys.argv[1]}/{number}")
        f = h5py.File(f"{sys.argv[1]}/{number}/0.h5", "w")
        f["rows"] = list(range(1000))
        f.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
h5py.File(f"{sys.argv[1]}/{sys.argv[3]}.h5", "w").close()
"""


def leftovers(axis: Axis) -> None:
    """Opens by the number of dead processes that have left logs in the staging area."""
    folder, made, count = axis.fresh_folder(), 0, 20
    program = axis.places.program("small_files")
    for size in axis.sizes:
        run(axis.places, FOREBAY, [sys.executable, "-c", DIE, folder, str(made), str(size)])
        made = size
        left = len(list(axis.places.staging.glob(f"forebay-{os.getuid()}/*-*-*")))
        if left < size - len(axis.sizes):  # each size recovers a file
            raise BenchError(f"only {left} of {size} processes left a log")
        one = run(axis.places, FOREBAY, [program, "--folder", axis.fresh_folder(), "--files", "200"]).figures
        axis.add("create and close", "µs", size, 1e6 * one["make_s"] / 200)
        axis.add("open and close", "µs", size, 1e6 * one["open_s"] / 200)
        first, all_calls = (
            system_calls(axis.places, [program, "--folder", axis.fresh_folder(), "--files", str(n)]) for n in (0, count)
        )
        axis.add("first file of a process", "system calls", size, first)
        axis.add("later file, made and opened", "system calls", size, (all_calls - first) / count)
        opens = [axis.places.program("opens"), f"{folder}/{size - 1}", "0", "1"]
        axis.add("first open, with recovery", "system calls", size, system_calls(axis.places, opens))


# ---- the section -----------------------------------------------------------------------------------------------------

_RANDOM = "random places in more memory; in order it is flat"
_EACH = "one look at each"
CAUSES = {("extents in the index", f"{what}, ns"): _RANDOM for what in ENGINE_CURVES} | {
    ("files open together", "a file, system calls"): "an open asks the ledger of each open file, up to 256",
    ("files open together", "memory of the process, MiB"): "HDF5's caches of each file",
    ("ranks", "H5Fcreate, ms"): "collective steps, which spin on shared processors",
    ("ranks", "H5Fclose, ms"): "collective steps, which spin on shared processors",
    ("leftovers of dead processes", "first file of a process, system calls"): f"{_EACH} directory",
    ("leftovers of dead processes", "first open, with recovery, system calls"): f"{_EACH} log",
}

# Each axis: its measurement, and its sizes in a quick and in a whole run.
AXES: dict[str, tuple[Callable[[Axis], None], Sequence[int], Sequence[int]]] = {
    "extents in the index": (extents, (10**3, 10**4, 10**5, 10**6), (10**3, 10**4, 10**5, 10**6, 10**7)),
    "scattered writes": (writes, (10**3, 10**4, 10**5), (10**3, 10**4, 10**5, 10**6)),
    "files, one at a time": (files, (10, 100, 1000, 10**4), (10, 100, 1000, 10**4, 10**5)),
    "files open together": (files_together, (10, 30, 100, 300), (10, 30, 100, 300, 1000, 3000)),
    "ranks": (ranks, (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32, 64)),
    "replicas": (replicas, (100, 300, 1000), (100, 300, 1000, 3000, 10**4)),
    "units of a replica": (units, (10, 100, 1000, 10**4), (10, 100, 1000, 10**4, 10**5)),
    "leftovers of dead processes": (leftovers, (10, 30, 100), (10, 30, 100, 300, 1000)),
}


def growth(setting: Setting, quick: bool, sizes: Mapping[str, Sequence[int]] | None = None) -> Section:
    """Measures all axes, or those of `sizes` at these sizes."""
    section = Section(
        "growth",
        "Growth, measured",
        "The cost of a staged write, a hit of the read cache, an open, a flush and a close by the number of things "
        f"that forebay keeps. A slope below {FLAT} is flat, below {LOGARITHMIC} logarithmic. `÷ native` is the ratio "
        "at the largest size.",
    )
    measured = []
    for name, (measure, quick_sizes, whole_sizes) in AXES.items():
        if sizes is not None and name not in sizes:
            continue
        axis = Axis(setting, name, sizes[name] if sizes else quick_sizes if quick else whole_sizes)
        try:
            measure(axis)
        except NotMeasured as reason:
            section.notes.append(f"{name}: not measured: {reason}")
        except BenchError as error:
            axis.outcome.failures.append(str(error))
        axis.remove_folders()
        if axis.outcome.failures or axis.outcome.compared_bytes:
            section.outcomes.append(axis.outcome)
        if axis.curves:
            measured.append(axis)
            section.tables.append(axis.table())
    picture = setting.figures / "growth.png"
    curves = {axis.name: {what: curve.costs for what, curve in axis.curves.items()} for axis in measured}
    if curves and save_growth(picture, curves):
        section.pictures.append(picture)
    return section
