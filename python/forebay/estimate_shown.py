"""The words and the picture of ``forebay estimate``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from forebay.estimate_model import CannotEstimate, Machine, Reading, Writing, native_writing, staged_writing

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_NATIVE, _FOREBAY = "#D55E00", "#0072B2"  # of Okabe and Ito's palette, as in the other pictures


def shown_bytes(value: float) -> str:
    """Returns 1536.0 as "1.5 KiB"."""
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:,.0f} {unit}" if value >= 100 or unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} {_UNITS[-1]}"


def shown_seconds(value: float | None) -> str:
    """Returns seconds with three digits, in the unit that fits."""
    if value is None:
        return "-"
    if value < 0.0009995:
        return f"{value * 1e6:.0f} us" if value > 0 else "0"
    return f"{value * 1e3:.3g} ms" if value < 0.9995 else f"{value:,.3g} s" if value < 999.5 else f"{value:,.0f} s"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = []
    for row in [header, *rows]:
        first, *others = (
            cell.ljust(width) if not at else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))
        )
        lines.append("  " + "  ".join([first, *others]))
    return "\n".join(lines)


def writing_text(machine: Machine, writing: Writing, answers: Mapping[str, Any]) -> str:
    """Returns the table of a program that writes, and what follows from it."""
    rows: list[tuple[str, ...]] = [
        (
            name,
            *(shown_seconds(way[key]) for key in ("step_s", "close_s", "wait_s", "total_s")),
            f"{shown_bytes(way['observed_bytes_per_s'])}/s",
        )
        for name, way in answers["ways"].items()
    ]
    title = (
        f"{machine.name}: {_counted(writing.nodes, 'node')} of {_counted(writing.ranks, 'rank')}, "
        f"{_counted(writing.steps, 'step')} of {shown_bytes(writing.bytes_per_rank)} per rank and "
        f"{shown_seconds(writing.compute_s)} of computing"
    )
    table = _table(("", "a step", "close", "waits in all", "total", "bytes by waits"), rows)
    lines = [*_findings(writing, answers), *answers["notes"]]
    return f"{title}\n\n{table}\n\n" + "\n".join(f"- {line}" for line in lines)


def _findings(writing: Writing, answers: Mapping[str, Any]) -> list[str]:
    needed = answers["compute_needed_s"]
    # Absent: one node does not tell.
    nodes, crossing = answers.get("drain_keeps_up_to_nodes"), answers.get("faster_from_nodes")
    lines = []
    if needed <= writing.compute_s:
        limit = (
            "" if nodes is None else " at any number of nodes" if math.isinf(nodes) else f" up to {nodes:,.0f} nodes"
        )
        lines.append(f"The drain keeps up{limit}: a step needs {shown_seconds(needed)} of computing.")
    else:
        lines.append(
            f"The drain cannot keep up: a step needs {shown_seconds(needed)} of computing and has "
            f"{shown_seconds(writing.compute_s)}."
        )
    room = answers["size_needed_bytes"]
    enough = "suffices" if room <= writing.size else "makes writes wait"
    lines.append(
        f"A process needs size={shown_bytes(room)} so that no write waits; {shown_bytes(writing.size)} {enough}."
    )
    if crossing is None:
        lines.append("Native writes are faster on one node; --fs-total tells how many make staging faster.")
    elif crossing <= 1:
        lines.append("Staging is faster than native writes from the first node on.")
    elif math.isinf(crossing):
        lines.append("Staging is slower than native writes at any number of nodes.")
    else:
        lines.append(f"Staging is faster than native writes from {crossing:,.0f} nodes on, if the drain keeps up.")
    servers = answers["servers_needed"]
    lines.append(
        f"Staging servers shorten the waits from {_counted(servers, 'server')} on."
        if servers
        else "Staging servers do not shorten the waits."
    )
    late = answers["ways"]["forebay"]["drains_after_close_s"]
    if late > 0:
        lines.append(f"The last byte is in the file {shown_seconds(late)} after the close.")
    return lines


def reading_text(machine: Machine, reading: Reading, answers: Mapping[str, Any]) -> str:
    """Returns the table of a program that reads, and what follows from it."""
    rows = [
        (name, *(shown_seconds(way[key]) for key in ("first_epoch_s", "later_epoch_s", "wait_s", "total_s")))
        for name, way in answers["ways"].items()
    ]
    title = (
        f"{machine.name}: {_counted(reading.nodes, 'node')} of {_counted(reading.ranks, 'rank')}, "
        f"{shown_bytes(reading.data_bytes)} read in each of {_counted(reading.epochs, 'epoch')}"
    )
    table = _table(("", "first epoch", "later epoch", "reads in all", "total"), rows)
    needed = shown_bytes(answers["cache_needed_bytes"])
    found = (
        f"A node needs read_cache_size={needed} for all its data; later epochs find {answers['hits']:.0%} in the cache."
    )
    return f"{title}\n\n{table}\n\n" + "\n".join(f"- {line}" for line in [found, *answers["notes"]])


def draw_scales(machine: Machine, writing: Writing, path: Path, nodes_max: int) -> None:
    """Draws the observed rate against the number of nodes, natively and with forebay. Needs matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise CannotEstimate("--plot needs matplotlib") from None
    nodes = [1 << power for power in range(int(math.log2(nodes_max)) + 1)]
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, colour, waits_of in (("native", _NATIVE, native_writing), ("forebay", _FOREBAY, staged_writing)):
        rates = []
        for count in nodes:
            one = replace(writing, nodes=count)
            rates.append(count * one.node_bytes * one.steps / waits_of(machine, one).wait_s / 1e9)
        axes.plot(nodes, rates, marker="o", markersize=4, color=colour, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(f"nodes of {writing.ranks} ranks")
    axes.set_ylabel("bytes written / time waited, GB/s")
    axes.set_title(f"{machine.name}: {shown_bytes(writing.bytes_per_rank)} per rank and step", loc="left")
    axes.legend(frameon=False)
    try:
        figure.savefig(path)
    except ValueError as error:
        raise CannotEstimate(f"--plot {path}: {error}") from None
    finally:
        plt.close(figure)
