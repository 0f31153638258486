"""Kernels that read: the data streaming benchmark, and the input of AlexNet and CosmoFlow."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from cases import MIB, SLOW_BANDWIDTH, SLOW_LATENCY, Setting
from cells import Cell, Outcome, Section, run_cell
from plots import Panel
from reading import CLOCK_BEHIND
from runs import FOREBAY, NATIVE, Run, slow_target
from writing_sections import draw

CACHE_ON = {"FOREBAY_READ_CACHE": "on"}
PAPER = "After the Cache VOL paper, "


def later_epochs_s(one: Run) -> float:
    """Returns the median epoch after the first."""
    return statistics.median(one.figures["epochs_s"][1:])


def _run(setting: Setting, section: Section, cells: Sequence[Cell]) -> None:
    limits = {"bandwidth": SLOW_BANDWIDTH, "latency": SLOW_LATENCY, "clock_behind": CLOCK_BEHIND}
    with slow_target(setting.places, **limits) as slow:
        section.outcomes += [run_cell(setting, cell, slow) for cell in cells]


def _by_epoch(outcome: Outcome, mode: str, key: str) -> list[float]:
    """Returns the medians of the epochs of one mode."""
    return [statistics.median(times) for times in zip(*(one.figures[key] for one in outcome.runs[mode]), strict=True)]


def streaming(setting: Setting, quick: bool) -> Section:
    """Sequential and random batches, the bandwidth of each iteration."""
    section = Section(
        "streaming",
        "Data streaming, by iteration",
        PAPER
        + "table III (a) and (c): the file system keeps nothing in memory. (b), native reads from the memory of the "
        "node, is not measured: there is nothing to cache.",
    )
    samples, epochs = (256, 4) if quick else (2048, 4)
    sizes = ("--samples", str(samples), "--epochs", str(epochs), "--compute-ms", "0")
    orders = ("sequential", "random")
    _run(
        setting,
        section,
        [
            Cell(order, "loader.py", (*sizes, "--order", order), 0, True, CACHE_ON, seconds=later_epochs_s)
            for order in orders
        ],
    )
    good = [one for one in section.outcomes if not one.failures]
    table: list[Sequence[str]] = [["MiB/s of iteration", *(str(epoch + 1) for epoch in range(epochs))]]
    panels = []
    for one in good:
        rates = {}
        for mode in (NATIVE, FOREBAY):
            size_mib = one.runs[mode][0].figures["bytes"] / epochs / MIB
            rates[mode] = [size_mib / time_s for time_s in _by_epoch(one, mode, "reads_s")]
            table.append([f"{one.name}, {mode}", *(f"{rate:,.0f}" for rate in rates[mode])])
        panels.append(Panel(one.name, "iteration", "MiB/s", table[0][1:], rates))
    section.tables.append(table)
    if panels:
        draw(setting, section, panels)
    return section


def _training(setting: Setting, section: Section, arguments: tuple[str, ...], what: str) -> Section:
    """Times epochs of training, which wait for their input."""
    _run(setting, section, [Cell(what, "loader.py", arguments, 0, True, CACHE_ON, seconds=later_epochs_s)])
    (one,) = section.outcomes
    if not one.failures:
        times = {mode: _by_epoch(one, mode, "epochs_s") for mode in (NATIVE, FOREBAY)}
        epochs = [str(epoch + 1) for epoch in range(len(times[NATIVE]))]
        draw(setting, section, [Panel("training", "epoch", "seconds", epochs, times)])
        section.tables.append([["seconds of epoch", *epochs]] + [[m, *(f"{t:.3f}" for t in times[m])] for m in times])
    return section


def alexnet(setting: Setting, quick: bool) -> Section:
    """Images of 224 x 224 x 3 bytes in one dataset, shuffled, two processes."""
    section = Section(
        "alexnet",
        "AlexNet's input",
        PAPER
        + "figure 5 (a): two processes read shuffled images of one dataset with h5py, and compute by sleeping. The "
        "time of the table is that of an epoch after the first.",
    )
    sizes = ("--samples", "512" if quick else "4096", "--epochs", "3" if quick else "5", "--compute-ms", "20")
    return _training(setting, section, sizes, "later epochs")


def cosmoflow(setting: Setting, quick: bool) -> Section:
    """Crops of a universe: 64 x 64 x 64 x 4 numbers of two bytes, an eighth of the paper's."""
    section = Section(
        "cosmoflow",
        "CosmoFlow's input",
        PAPER + "figure 5 (b): crops of 64³ x 4 numbers, an eighth of the paper's, in batches of one.",
    )
    sizes = ("--samples", "40" if quick else "256", "--epochs", "3" if quick else "5", "--compute-ms", "5")
    shape = ("--shape", "64,64,64,4", "--type", "u2", "--batch", "1")
    return _training(setting, section, (*sizes, *shape), "later epochs")
