"""Figures of kernels: bars of native beside forebay, one picture per kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import LEAST_COST

COLOURS = {"native": "#8a8f98", "forebay": "#1f77b4", "asked for": "#d9c27a", "writes": "#c0504d", "reads": "#4f9d69"}
_PANEL_INCHES, _GROUP_INCHES = (4.2, 3.2), 0.6
_LABEL_CHARACTERS = 14  # longer labels are slanted


@dataclass
class Panel:
    """One set of axes: groups along x, and in each group one bar of each series."""

    title: str
    along: str  # label of the groups
    unit: str
    groups: Sequence[str]
    series: dict[str, Sequence[float]] = field(default_factory=dict)
    stacked: bool = False
    logarithmic: bool = False


def pyplot() -> Any:
    """Returns matplotlib's interface for drawing into files, or None without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def save(path: Path, heading: str, panels: Sequence[Panel]) -> str:
    """Draws the panels into one PNG. Returns a note about it."""
    plt = pyplot()
    if plt is None:
        return "no figure was drawn: matplotlib is missing"
    width = max(_PANEL_INCHES[0], *(_GROUP_INCHES * len(panel.groups) for panel in panels))
    columns = 2 if len(panels) in (2, 4) else min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, layout="constrained", figsize=(width * columns, _PANEL_INCHES[1] * rows + 0.4)
    )
    figure.suptitle(heading, fontsize=11)
    for panel, place in zip(panels, axes.flat):
        _draw(panel, place)
    for place in list(axes.flat)[len(panels) :]:
        place.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return f"figure: {'/'.join(path.parts[-3:])}"


def _draw(panel: Panel, axes) -> None:
    positions = range(len(panel.groups))
    width = 0.55 if panel.stacked else 0.8 / len(panel.series)
    bottom = [0.0] * len(panel.groups)
    for number, (name, values) in enumerate(panel.series.items()):
        shift = 0 if panel.stacked else (number - (len(panel.series) - 1) / 2) * width
        axes.bar(
            [at + shift for at in positions],
            values,
            width,
            bottom=bottom if panel.stacked else None,
            label=name,
            color=COLOURS.get(name),
        )
        if panel.stacked:
            bottom = [low + value for low, value in zip(bottom, values)]
    axes.set_title(panel.title, fontsize=9.5)
    slanted = {"rotation": 35, "ha": "right"} if max(map(len, panel.groups)) > _LABEL_CHARACTERS else {}
    axes.set_xticks(list(positions), panel.groups, fontsize=8, **slanted)
    axes.set_xlabel(panel.along, fontsize=8.5)
    axes.set_ylabel(panel.unit, fontsize=8.5)
    axes.tick_params(axis="y", labelsize=8)
    if panel.logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(bottom=1)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=8, frameon=False)


def save_growth(path: Path, axes: Mapping[str, Mapping[str, Mapping[int, float]]]) -> bool:
    """Draws costs by size into one PNG: a panel for each axis, its curves relative to the cost of the smallest size.

    Returns False without matplotlib.
    """
    plt = pyplot()
    if plt is None:
        return False
    rows = -(-len(axes) // 2)
    figure, panels = plt.subplots(rows, 2, squeeze=False, layout="constrained", figsize=(13, 4 * rows))
    for (name, curves), panel in zip(axes.items(), panels.flat):
        for what, costs in curves.items():
            sizes = sorted(costs)
            first = max(costs[sizes[0]], LEAST_COST)
            panel.loglog(sizes, [max(costs[size], LEAST_COST) / first for size in sizes], marker=".", label=what)
        low, high = panel.get_ylim()
        panel.set(xlabel=name, ylabel="cost ÷ that of the smallest size", ylim=(min(low, 0.3), max(high, 3)))
        panel.legend(fontsize=6.5, frameon=False)
    for panel in list(panels.flat)[len(axes) :]:
        panel.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True
