"""Prints results on the terminal, and writes them as JSON, as Markdown tables, and into the table of
docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
import textwrap
import time
from pathlib import Path

from figures import Figure, Result

BEGIN = "<!-- begin: written by bench/run -->"
END = "<!-- end: written by bench/run -->"
# The base of the ratio is native, or what the parentheses beside its value name.
HEADINGS = ["measured", "base: native, or as named", "forebay", "forebay ÷ base", "limit", ""]
DELIMITERS = ["---", "---", "---:", "---:", "---:", "---", "---"]


def machine_facts(target: Path, staging: Path, hdf5_version: str) -> dict[str, str]:
    """Returns facts that the figures depend on, without names of hosts and paths."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cores": f"{len(os.sched_getaffinity(0))} ({model})",
        "memory": f"{memory_bytes / (1 << 30):.0f} GiB",
        "kernel": platform.release(),
        "HDF5": hdf5_version,
        "target file system": file_system(target),
        "staging file system": file_system(staging),
        "load average before": f"{os.getloadavg()[0]:.1f}",
        "date": time.strftime("%Y-%m-%d"),
    }


def file_system(directory: Path) -> str:
    """Returns the type of the file system of `directory`."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mounted, type_name, *_ = line.split()
        inside = mounted == "/" or f"{directory.resolve()}/".startswith(f"{mounted}/")
        if inside and len(mounted) >= len(best):
            best, kind = mounted, type_name
    return kind


class Terminal:
    """Prints tables with rich if it is installed, as plain columns otherwise."""

    def __init__(self) -> None:
        try:
            from rich.console import Console
        except ImportError:
            self._console = None
        else:
            self._console = Console() if os.isatty(1) else Console(width=132)

    def progress(self, text: str) -> None:
        """Prints a line about the current work, on terminals only."""
        if os.isatty(1):
            print(f"\r\033[K  {text}", end="", flush=True)

    def show(self, result: Result, seconds: float) -> None:
        if os.isatty(1):
            print("\r\033[K", end="")
        heading = f"{result.title}  [{result.name}, median of {result.repetitions}, {seconds:.0f} s]"
        if self._console is not None:
            self._show_rich(result, heading)
        else:
            print(f"\n{heading}")
            rows = [HEADINGS, *(figure.cells() for figure in result.figures)]
            widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
            for row in rows:
                print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        for note in result.notes:
            print(f"  {note}")

    def _show_rich(self, result: Result, heading: str) -> None:
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=escape(heading), title_justify="left")
        for index, name in enumerate(HEADINGS):
            table.add_column(name, justify="left" if index in (0, 4, 5) else "right")
        for figure in result.figures:
            style = {None: "", True: "green", False: "red"}[figure.met]
            table.add_row(*map(escape, figure.cells()), style=style)
        self._console.print(table)


def write_json(path: Path, command: str, facts: dict[str, str], results: list[Result]) -> None:
    """Writes everything, samples included."""
    document = {
        "command": command,
        "machine": facts,
        "cases": {
            result.name: {
                "title": result.title,
                "repetitions": result.repetitions,
                "figures": [figure.as_dict() for figure in result.figures],
                "notes": result.notes,
                "samples": result.samples,
            }
            for result in results
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def write_page(path: Path, command: str, facts: dict[str, str], results: list[Result]) -> None:
    """Replaces the table between the markers of the page. The table has all figures with a limit."""
    rows = [
        (result.name, result.repetitions, _target_cells(_page_cells(figure)))
        for result in results
        for figure in result.figures
        if figure.target is not None
    ]
    replace_table(path, command, facts, rows)


def replace_table(path: Path, command: str, facts: dict[str, str], rows: list[tuple[str, int, list[str]]]) -> None:
    """Each row is a case, the number of runs of its medians, and the cells of a figure. Names a case once."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{path.name} has lost its markers: {BEGIN} … {END}")
    shown = "; ".join(f"{name} {value}" for name, value in facts.items())
    lines = [
        BEGIN,
        "",
        _wrapped(f"`{command}`: {shown}."),
        "",
        _row(["case (runs)", *HEADINGS[:3], "forebay ÷ base (limit)"]),
    ]
    lines.append(_row(DELIMITERS[:5]))
    last = None
    for name, repetitions, cells in rows:
        lines.append(_row([f"`{name}` ({repetitions})" if name != last else "", *cells]))
        last = name
    path.write_text(before + "\n".join([*lines, "", END]) + after, encoding="utf-8")


def write_tables(path: Path, command: str, facts: dict[str, str], results: list[Result]) -> None:
    """Writes all figures and notes, a table for each case."""
    lines = [f"Made by `{command}` on:", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    for result in results:
        lines += ["", f"### {result.title}", "", f"`--only {result.name}`, medians of {result.repetitions}.", ""]
        if result.figures:
            lines += [_row(HEADINGS), _row(DELIMITERS[1:])]
            lines += [_row(_page_cells(figure)) for figure in result.figures]
        for note in result.notes:
            lines += ["", _wrapped(note[0].upper() + note[1:] + ".")]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _wrapped(text: str) -> str:
    """Wraps lines at 100 columns, as in documents."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _page_cells(figure: Figure) -> list[str]:
    cells = figure.cells()
    return [*cells[:5], f"**{cells[5]}**" if cells[5] == "missed" else cells[5]]


def _target_cells(cells: list[str]) -> list[str]:
    """Returns the ratio, its limit and the verdict, in one cell."""
    return [*cells[:3], f"{cells[3]} ({cells[4]}, {cells[5]})"]
