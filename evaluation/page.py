"""The page of the evaluation, as Markdown and as HTML: wrong bytes first, then time."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path

from cells import Outcome, Section, shown_bytes

ROWS_MAX = 40  # of a table of cells; a longer one shows the failed cells, and the picture the rest
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { border: 1px solid #ccc; padding: .2rem .6rem }
th { background: #f3f4f6 } img { max-width: 100% } code { background: #f3f4f6 }
"""


def write(folder: Path, command: str, facts: dict[str, str], sections: Sequence[Section]) -> list[Path]:
    """Writes index.md and index.html into the folder of the pictures. Returns both."""
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(folder, command, facts, sections)
    paths = [folder / "index.md", folder / "index.html"]
    paths[0].write_text(text, encoding="utf-8")
    paths[1].write_text(as_html(text), encoding="utf-8")
    return paths


def as_html(text: str) -> str:
    """Renders the Markdown."""
    from markdown_it import MarkdownIt  # rich needs it, and the virtual environment has it pinned

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    head = f'<meta charset="utf-8"><title>Evaluation of forebay</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>\n"


def markdown(folder: Path, command: str, facts: dict[str, str], sections: Sequence[Section]) -> str:
    """Returns the page."""
    outcomes = [one for section in sections for one in section.outcomes]
    failed = sum(bool(one.failures) for one in outcomes)
    compared = sum(one.compared_bytes for one in outcomes)
    lines = [
        "# Evaluation",
        "",
        f"**{sum(one.wrong_bytes for one in outcomes):,} wrong bytes** with forebay, of {shown_bytes(compared)} "
        f"compared in both modes. {len(outcomes):,} cells, {failed:,} failed.",
        "",
        f"`{command}`: " + "; ".join(f"{name} {value}" for name, value in facts.items()) + ".",
        "",
        *_table(["kernel", "wrong bytes", "cells", "failed", "compared", "forebay ÷ native"], map(_summary, sections)),
    ]
    lines += ["", "The ratio is the median over the cells of the time with forebay by the native time."]
    for section in sections:
        lines += ["", *_section(folder, section)]
    return "\n".join([*lines, ""])


def _summary(section: Section) -> list[str]:
    compared = sum(one.compared_bytes for one in section.outcomes)
    ratios = [one.ratio for one in section.outcomes if one.ratio is not None]
    return [
        section.title,
        f"{section.wrong_bytes:,}",
        f"{len(section.outcomes):,}",
        f"**{len(section.failed):,}**" if section.failed else "0",
        shown_bytes(compared) if compared else "–",
        f"{statistics.median(ratios):.2f}" if ratios else "not measured" if section.not_measured else "–",
    ]


def _section(folder: Path, section: Section) -> list[str]:
    lines = [f"## {section.title}", "", f"{section.after}"]
    if section.not_measured:
        return [*lines, "", f"Not measured: {section.not_measured}."]
    for one in section.failed:
        lines += ["", f"**{one.name} failed:**", "", *(f"    {line}" for line in _failure_lines(one))]
    shown = section.outcomes if len(section.outcomes) <= ROWS_MAX else section.failed
    if shown:
        headings = ["cell", "wrong bytes", "compared", "native", "forebay", "forebay ÷ native", "forebay's counters"]
        lines += ["", *_table(headings, map(_row, shown))]
    for table in section.tables:
        lines += ["", *_table(table[0], table[1:])]
    for picture in section.pictures:
        lines += ["", f"![{section.title}]({picture.relative_to(folder)})"]
    for note in section.notes:
        lines += ["", textwrap.fill(note[0].upper() + note[1:].rstrip(".") + ".", 100, break_long_words=False)]
    return lines


def _failure_lines(one: Outcome) -> list[str]:
    return [line for failure in one.failures for line in failure.splitlines()[:12]]


def _row(one: Outcome) -> list[str]:
    native, forebay = one.medians
    return [
        one.name,
        f"**{one.wrong_bytes:,}**" if one.wrong_bytes else "0",
        shown_bytes(one.compared_bytes) if one.compared_bytes else "–",
        _seconds(native),
        _seconds(forebay),
        "–" if one.ratio is None else f"{one.ratio:.2f}",
        one.proof or "–",
    ]


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f} s"


def _table(headings: Sequence[str], rows) -> list[str]:
    """Returns a table. Numbers are in the columns after the first."""
    rows = [list(row) for row in rows]
    delimiters = ["---", *["---:"] * (len(headings) - 1)]
    return [_line(headings), _line(delimiters), *map(_line, rows)]


def _line(values: Sequence[str]) -> str:
    return "| " + " | ".join(str(value).replace("|", "\\|") for value in values) + " |"
