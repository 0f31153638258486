"""Reads the input of ``forebay estimate``: the statistics of a run, and the speeds that ``forebay doctor`` measured."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forebay.estimate_model import CannotEstimate

_NANOSECOND = 1e-9


@dataclass(frozen=True)
class MeasuredRun:
    """One run on one node. A rate of 0 is not in the file."""

    ranks: int
    bytes_per_rank: float  # of the whole run
    commits: int  # flushes and closes of one rank
    staging_rate: float  # of the node
    target_rate: float  # of the node, while it drained
    compute_s: float | None  # of the run: time outside the calls that forebay counts; None: not in the file
    write_bytes: float  # mean size of a write call
    overlaps: bool = False  # `target_rate` adds up writes that overlap: the file system may be faster


def read_run(path: Path) -> MeasuredRun:
    """Reads ``FOREBAY_STATS``, or the JSON of ``forebay run --json`` or ``--report``."""
    text = _text(path)
    try:
        whole: Any = json.loads(text)
    except ValueError:
        whole = None
    summary = whole.get("summary", whole) if isinstance(whole, dict) else None
    if isinstance(summary, dict) and "totals" in summary:
        return _of_summary(summary, float(whole.get("target_bytes_per_s", 0)), path)
    return _of_lines(text, path)


def read_doctor(path: Path) -> dict[str, float]:
    """Reads ``forebay doctor --json --target DIR``: returns `local_write` and, with a target, `fs_node`."""
    try:
        report = json.loads(_text(path))
        found = {"local_write": float(report["staging"]["write_bytes_per_s"])}
        if "write_bytes_per_s" in report.get("target", {}):
            found["fs_node"] = float(report["target"]["write_bytes_per_s"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotEstimate(f"{path}: not a report of forebay doctor --json with a usable staging area") from error
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CannotEstimate(f"read {path}: {error.strerror}") from error


def _of_summary(summary: dict[str, Any], target_rate: float, path: Path) -> MeasuredRun:
    closed = [one for one in summary.get("files", []) if isinstance(one, dict)] or [dict(summary["totals"])]
    ranks = max(1, int(summary.get("processes") or 1))
    run = _measured(closed, ranks, target_rate, path)
    waited_s = sum(one.get("stage_ns", 0) + one.get("close_ns", 0) for one in closed) * _NANOSECOND / ranks
    elapsed_s = summary.get("elapsed_s")
    return run if elapsed_s is None else replace(run, compute_s=max(0.0, float(elapsed_s) - waited_s))


def _of_lines(text: str, path: Path) -> MeasuredRun:
    closed, processes = [], set()
    for line in text.splitlines():
        try:
            entry = json.loads(line) if line.strip() else {}
        except ValueError as error:
            raise CannotEstimate(f"{path}: not a line of statistics: {line[:60]!r}") from error
        if not isinstance(entry, dict):
            raise CannotEstimate(f"{path}: not a line of statistics: {line[:60]!r}")
        if isinstance(entry.get("file"), dict):
            closed.append(entry["file"])
        if isinstance(entry.get("process"), dict) and entry["process"].get("files_opened", 0) > 0:
            processes.add(entry["process"].get("pid"))
    if not closed:
        raise CannotEstimate(f"{path}: no line of a closed file (docs/statistics.md)")
    return _measured(closed, max(1, len(processes)), 0.0, path)


def _measured(closed: list[dict[str, Any]], ranks: int, target_rate: float, path: Path) -> MeasuredRun:
    """Adds up the lines of one node's files."""

    def total(key: str) -> float:
        return float(sum(one.get(key, 0) for one in closed))

    written = total("staged") + total("through")
    if written == 0:
        raise CannotEstimate(f"{path}: forebay staged nothing in this run")
    staging_s = (total("stage_ns") - total("stall_ns")) * _NANOSECOND / ranks
    drain_s = total("drain_ns") * _NANOSECOND
    # The drainer counts the commits of a file that ranks write together; the other ranks' lines have none.
    together = any(one.get("commits", 0) == 0 for one in closed)
    return MeasuredRun(
        ranks=ranks,
        bytes_per_rank=written / ranks,
        commits=max(1, round(total("commits") / (1 if together else ranks))),
        staging_rate=written / staging_s if staging_s > 0 else 0.0,
        target_rate=target_rate or (total("drained") / drain_s if drain_s > 0 else 0.0),
        compute_s=None,
        write_bytes=written / max(total("requests"), 1.0),
        overlaps=not target_rate and drain_s > 0,
    )
