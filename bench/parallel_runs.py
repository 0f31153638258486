"""Runs programs of several ranks natively and with forebay in turns, and adds their common figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from cases import MIB, Setting, in_turns, waiting_s
from figures import Figure, Result, Target
from memory import Need
from runs import FOREBAY, NATIVE, Places, Run, SlowTarget, mpiexec, run_verified

Runs = dict[str, list[Run]]
# The default of the option of that name: the alignment of target writes.
STRIPE = MIB


@dataclass(frozen=True)
class Program:
    """A program, its number of ranks, and its arguments without the file."""

    name: str
    ranks: int
    arguments: tuple[str, ...] = ()


def page_cache(places: Places) -> SlowTarget:
    """Returns the target folder as it is, without a count of its writes."""
    return SlowTarget(places.target, places.target)


def run_ranks(
    setting: Setting,
    program: Program,
    where: SlowTarget,
    *,
    repetitions: int | None = None,
    touch_bytes: int = 0,
    need: Callable[[Path], Need] | None = None,
    after_forebay: Callable[[], None] | None = None,
) -> Runs:
    """Runs and verifies the program natively and with forebay in turns.

    If a slow file system counts its writes, they become the figure `writes_at_target`. `need` returns, for a target
    file, the memory that its run needs.
    """
    mpiexec(program.ranks)  # fails with a reason before the first run
    command = [setting.places.program(program.name), *program.arguments]
    runs: Runs = {NATIVE: [], FOREBAY: []}
    for number, mode in in_turns(setting, repetitions or setting.repetitions):
        name = f"{program.name}-{number}-{mode}.h5"
        before = where.writes() if where.file_system else 0
        one = run_verified(
            setting.places,
            mode,
            command,
            where.mounted / name,
            verify=program.arguments,
            seen_at=where.backing / name,
            ranks=program.ranks,
            touch_bytes=touch_bytes,
            need=need(where.backing / name) if need else None,
            aside_allowed=setting.aside_allowed,
        )
        if where.file_system:
            one.figures["writes_at_target"] = where.writes() - before
        runs[mode].append(one)
        if mode == FOREBAY and after_forebay is not None:
            after_forebay()
    return runs


def figures_of(runs: Runs, key: str) -> tuple[list[float], list[float]]:
    """Returns the samples of one figure, native and forebay."""
    return tuple([one.figures[key] for one in runs[mode]] for mode in (NATIVE, FOREBAY))


def medians(runs: Runs, key: str | Callable[[Run], float]) -> tuple[float, float]:
    """Returns the medians of one figure, native and forebay."""
    value = key if callable(key) else lambda one: one.figures[key]
    return tuple(statistics.median(value(one) for one in runs[mode]) for mode in (NATIVE, FOREBAY))


def counter(runs: Runs, key: str) -> float:
    """Returns the median of one of forebay's counters, summed over the ranks; 0 if there is no such counter."""
    return statistics.median(one.counters.get(key, 0) for one in runs[FOREBAY])


def add(result: Result, what: str, runs: Runs, key: str, unit: str, target: Target | None = None) -> None:
    """Adds one line to the table: a figure that the program printed."""
    result.add(what, *figures_of(runs, key), unit, target)


def add_waiting(result: Result, what: str, runs: Runs, target: Target | None = None) -> None:
    """Adds one line to the table: time in HDF5 calls and close."""
    result.add(what, map(waiting_s, runs[NATIVE]), map(waiting_s, runs[FOREBAY]), "s", target)


def add_counter(
    result: Result, what: str, base: float, base_name: str, runs: Runs, key: str, target: Target | None = None
) -> None:
    """Adds one line to the table: a counter of forebay, and its base."""
    samples = [float(one.counters.get(key, 0)) for one in runs[FOREBAY]]
    result.figures.append(
        Figure(
            what,
            base,
            statistics.median(samples),
            "",
            target,
            base_name=base_name,
            base_samples=[base],
            forebay_samples=samples,
        )
    )


def merge_note(what: str, runs: Runs) -> str:
    """Returns the numbers of requests and of the writes made from them."""
    note = (
        f"{what}: {runs[NATIVE][0].figures['requests']:,} requests of the program; forebay received "
        f"{counter(runs, 'requests'):,.0f} and made {counter(runs, 'target_writes'):,.0f} target writes; "
        f"{counter(runs, 'merged') / MIB:,.1f} MiB merged, {morphed(runs) / MIB:,.1f} MiB morphed, "
        f"{counter(runs, 'stolen') / MIB:,.1f} MiB stolen"
    )
    if "writes_at_target" in runs[NATIVE][0].figures:
        note += ", and the file system saw {:,.0f} writes natively, {:,.0f} with forebay".format(
            *medians(runs, "writes_at_target")
        )
    return note


def morphed(runs: Runs) -> float:
    """Returns the bytes overwritten before their drain."""
    return counter(runs, "morphed") or counter(runs, "superseded")


def say_aside(result: Result, groups: Iterable[Runs]) -> None:
    """Adds a note, and judges no target, if forebay stepped aside and may do so."""
    reasons = {
        reason
        for runs in groups
        for one in runs[FOREBAY]
        for reason in [*one.counters.get("not_staged", {}), *one.counters.get("reasons", [])]
    }
    if reasons:
        for figure in result.figures:
            figure.target = None
        result.notes.append(f"forebay stepped aside ({', '.join(sorted(reasons))}): its figures are native ones")


def raw(runs: Runs) -> dict:
    return {
        mode: [
            {**one.figures, "wall_s": one.wall_s, "process_cpu_s": one.cpu_s, "counters": one.counters} for one in ones
        ]
        for mode, ones in runs.items()
    }


def finish(result: Result, groups: dict[str, Runs]) -> Result:
    """Adds notes and samples of all runs of a case."""
    say_aside(result, groups.values())
    result.samples = {what: raw(runs) for what, runs in groups.items()}
    return result
