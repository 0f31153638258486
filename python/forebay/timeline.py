"""The demo's figure: the activity of the program and the file system, natively and with forebay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as FigureBase
from matplotlib.offsetbox import AnchoredOffsetbox, DrawingArea, HPacker, TextArea
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from forebay.measured import COMPUTE, IO_PHASES, MIB, NANOSECOND, RateStep, Run, TargetWrite

# Okabe and Ito's palette, which colour-blind readers can distinguish, and a grey for the background.
COMPUTE_COLOUR = "#C9D6DF"
WAIT_COLOUR = "#D55E00"
TRANSFER_COLOUR = "#0072B2"
INK = "#222222"
FAINT = "#6B6B6B"


@dataclass(frozen=True)
class Lane:
    """One run, the rate at which its bytes reached the file system, and a phrase about the result."""

    run: Run
    rates: list[RateStep]  # consecutive, without gaps
    title: str
    finding: str
    note: str = ""  # beside the end of the run, if there is room
    marks: tuple[tuple[int, str], ...] = ()  # moments of the run in nanoseconds, with their labels


@dataclass(frozen=True)
class Figure:
    """All words and numbers of the figure."""

    title: str
    subtitle: str
    lanes: tuple[Lane, Lane]
    limit_bytes_per_s: float | None  # of the file system; None: no limit
    transfer: str = "bytes reach the file system"


def native_writes(run: Run, bytes_per_checkpoint: int) -> list[TargetWrite]:
    """Returns a native run's transfers. They happen inside the program's own calls, so they take the call's time."""
    return [
        TargetWrite(phase.begin_ns, phase.end_ns, 0, bytes_per_checkpoint)
        for phase in run.phases
        if phase.name == "write"
    ]


def draw(figure: Figure, path: Path) -> None:
    """Draws the figure as a PNG."""
    style: dict[Any, Any] = {"font.family": "DejaVu Sans", "font.size": 9.5, "text.color": INK, "axes.labelcolor": INK}
    with plt.rc_context(style):
        fig, panels = plt.subplots(
            5, 1, sharex=True, figsize=(11.0, 5.9), height_ratios=(1.0, 1.5, 0.75, 1.0, 1.5), layout=None
        )
        fig.subplots_adjust(left=0.122, right=0.965, top=0.775, bottom=0.085, hspace=0.12)
        fig.text(0.022, 0.955, figure.title, fontsize=15, fontweight="bold", va="center")
        fig.text(0.022, 0.905, figure.subtitle, fontsize=9.5, color=FAINT, va="center")
        panels[2].set_visible(False)
        end_s = max(lane.run.total_s for lane in figure.lanes)
        peak = _peak(figure)
        for lane, program, transfer in zip(figure.lanes, (panels[0], panels[3]), (panels[1], panels[4]), strict=True):
            _draw_program(program, lane)
            if lane.note and lane.run.total_s < 0.75 * end_s:
                _note_beside(program, lane, lane.note)
            _draw_transfer(transfer, lane, figure.limit_bytes_per_s, peak)
        panels[0].set_xlim(-0.004 * end_s, 1.02 * end_s)
        panels[4].xaxis.set_major_locator(MaxNLocator(nbins=10, integer=end_s > 10, min_n_ticks=4))
        panels[4].set_xlabel("time since the program's first call, in seconds")
        _draw_key(fig, figure.transfer + (" (dashed: its limit)" if figure.limit_bytes_per_s is not None else ""))
        path.parent.mkdir(parents=True, exist_ok=True)
        fig.savefig(path, dpi=200)
        plt.close(fig)


def _peak(figure: Figure) -> float:
    highest = [step.bytes_per_s for lane in figure.lanes for step in lane.rates]
    return max([*highest, figure.limit_bytes_per_s or 0.0, 1.0])


def _draw_program(axes: Axes, lane: Lane) -> None:
    origin = lane.run.begin_ns
    # An edge around the waits keeps the shortest visible between two pixels. Reads are too many for that.
    waits = tuple(name for name in IO_PHASES if name != "read")
    for names, colour, edge in (
        ((COMPUTE,), COMPUTE_COLOUR, 0.0),
        (("read",), WAIT_COLOUR, 0.0),
        (waits, WAIT_COLOUR, 0.4),
    ):
        spans = [
            ((phase.begin_ns - origin) * NANOSECOND, phase.seconds) for phase in lane.run.phases if phase.name in names
        ]
        axes.broken_barh(spans, (0.0, 1.0), facecolors=colour, edgecolors=colour, linewidth=edge)
    for moment_ns, words in lane.marks:
        begin_s = (moment_ns - origin) * NANOSECOND
        axes.axvline(begin_s, color=INK, linewidth=0.8)
        axes.annotate(
            words, xy=(begin_s, 0.0), xytext=(2, -1), textcoords="offset points", va="top", fontsize=7.5, color=FAINT
        )
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([])
    axes.set_ylabel("program", rotation=0, ha="right", va="center", labelpad=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(bottom=False, labelbottom=False)
    place: dict[str, Any] = {
        "xy": (0.0, 1.14),
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "va": "baseline",
    }
    title = axes.annotate(lane.title, xytext=(2, 0), fontsize=11.5, fontweight="bold", **place)
    width_points = title.get_window_extent().width * 72.0 / axes.figure.dpi
    axes.annotate(lane.finding, xytext=(width_points + 14, 0), **place)


def _draw_transfer(axes: Axes, lane: Lane, limit: float | None, peak: float) -> None:
    origin = lane.run.begin_ns
    steps = lane.rates
    if steps:
        edges = [(step.begin_ns - origin) * NANOSECOND for step in steps]
        edges.append((steps[-1].end_ns - origin) * NANOSECOND)
        axes.stairs([step.bytes_per_s / MIB for step in steps], edges, fill=True, color=TRANSFER_COLOUR, linewidth=0)
    axes.set_ylim(0.0, 1.12 * peak / MIB)
    axes.patch.set_visible(False)  # keeps the parts below the program visible
    if limit is None:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    else:
        axes.set_yticks([0.0, limit / MIB / 2, limit / MIB])
    axes.set_ylabel("file system\nMiB/s", rotation=0, ha="right", va="center", labelpad=6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(left=False, length=3, colors=FAINT)
    if limit is not None:
        axes.axhline(limit / MIB, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))


def _note_beside(axes: Axes, lane: Lane, note: str) -> None:
    """Draws a note in the free space right of a run that ended."""
    axes.annotate(
        note, xy=(lane.run.total_s, 0.5), xytext=(10, 0), textcoords="offset points", va="center", linespacing=1.45
    )


def _draw_key(fig: FigureBase, transfer: str) -> None:
    """Draws the names of the colours, from top to bottom."""
    entries = [
        (COMPUTE_COLOUR, "the program computes"),
        (WAIT_COLOUR, "the program waits for its file"),
        (TRANSFER_COLOUR, transfer),
    ]
    boxes: list[Artist] = []
    for colour, words in entries:
        swatch = DrawingArea(14, 10, 0, 0)
        swatch.add_artist(Rectangle((0, 0), 14, 9, facecolor=colour, linewidth=0))
        boxes.append(HPacker(children=[swatch, TextArea(words)], align="center", pad=0, sep=5))
    key = HPacker(children=boxes, align="center", pad=0, sep=22)
    place = AnchoredOffsetbox(
        "center left", child=key, pad=0, borderpad=0, frameon=False,
        bbox_to_anchor=(0.022, 0.862), bbox_transform=fig.transFigure,
    )  # fmt: skip
    fig.add_artist(place)
