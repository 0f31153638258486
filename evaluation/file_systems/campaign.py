"""All trials on all file systems, and their table."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from file_systems import caching, outage, trials
from file_systems.cephfs import CephFS
from file_systems.gluster import GlusterFS, ShardedGlusterFS
from file_systems.moosefs import MooseFS
from file_systems.runs import BAD, FAILED, ROOT, Places, Row
from file_systems.served import READY_S_MAX, ServedFileSystem, Unavailable, serve, wait_until

KINDS: tuple[type[ServedFileSystem], ...] = (GlusterFS, ShardedGlusterFS, MooseFS, CephFS)
TRIALS = ("torture", "conformance", "programs", "locks", "outage", "cache")
SHORT_OUTAGE_S, LONG_OUTAGE_S = 5, 20
PATIENCE_S = 8  # of the program under the long outage


@dataclass
class Result:
    """The rows of one file system, or the reason why there are none."""

    name: str
    layout: str
    version: str = ""
    skipped: str = ""
    rows: list[Row] = field(default_factory=list)

    def is_bad(self) -> bool:
        return any(row.outcome in BAD for row in self.rows)


def outages(served: ServedFileSystem, places: Places) -> list[Row]:
    rows, names = [], set(os.listdir(places.target))
    for work in (
        lambda: outage.outage(served, places, "store killed and back", "", SHORT_OUTAGE_S),
        lambda: outage.outage_natively(served, places, SHORT_OUTAGE_S),
        lambda: outage.outage(
            served, places, "store away longer than patience", f"patience={PATIENCE_S}", LONG_OUTAGE_S
        ),
    ):
        rows.append(work())
        try:
            served.attach_again()
            for folder in (places.target, places.other):  # a client meets the store that is back after a while
                wait_until(lambda folder=folder: names <= set(os.listdir(folder)), READY_S_MAX, f"{folder} lacks files")
        except (OSError, Unavailable) as fault:
            return [*rows, Row("after the outage", FAILED, told=f"{type(fault).__name__}: {fault}"[:300])]
    return rows


def conformance(served: ServedFileSystem, places: Places) -> Row:
    """Runs the tests in `sizes_right`: they compare the sizes of files with native ones."""
    with served.sizes_right():
        return trials.conformance(places)


def torture(served: ServedFileSystem, places: Places, minutes: float) -> Row:
    """Tortures in `sizes_right`: forebay takes a wrong size for another program's change, and keeps the log."""
    with served.sizes_right():
        return trials.torture(places, minutes)


def attempt(name: str, work: Callable[[], Row | list[Row]]) -> list[Row]:
    """Runs a trial. A failure of the trial itself is a row, and the other trials go on."""
    began = time.monotonic()
    try:
        done = work()
    except Exception as fault:
        done = Row(name, FAILED, told=f"{type(fault).__name__}: {fault}"[:300])
    rows = done if isinstance(done, list) else [done]
    for row in rows:
        print(f"    {row.trial}: {row.outcome} ({time.monotonic() - began:.0f} s) {row.told}", file=sys.stderr)
    return rows


def try_one(served: ServedFileSystem, local: Path, minutes: float, chosen: list[str]) -> list[Row]:
    """Runs the trials on a mounted file system, the cache last, because its file must grow old."""
    build = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
    (served.mount / "work").mkdir()
    local.mkdir()
    places = Places(build, served.mount / "work", served.clients[1] / "work", local)
    rows: list[Row] = []
    if "cache" in chosen:
        file, made = caching.make_file(places)
    for name, work in (
        ("torture", lambda: torture(served, places, minutes)),
        ("conformance", lambda: conformance(served, places)),
        ("programs", lambda: trials.programs(places)),
        ("locks", lambda: trials.locks(places)),
        ("outage", lambda: outages(served, places)),
        ("cache", lambda: caching.cached_unasked(places, file, made, served.has_sure_versions)),
        ("cache", lambda: caching.changed_elsewhere(places, file, served.settled_s)),
    ):
        if name in chosen:
            rows += attempt(name, work)
    return rows


def try_all(kinds: list[type[ServedFileSystem]], folder: Path, minutes: float, chosen: list[str]) -> list[Result]:
    results = []
    for kind in kinds:
        result = Result(kind.name, kind.layout)
        results.append(result)
        print(f"==> {kind.name}", file=sys.stderr, flush=True)
        try:
            with serve(kind, folder / "served") as served:
                result.version = served.version()
                result.rows = try_one(served, folder / f"node-{kind.name}", minutes, chosen)
        except Unavailable as why:
            result.skipped = str(why)
            print(f"    skipped: {why}", file=sys.stderr)
    return results


def print_table(results: list[Result]) -> None:
    """Prints a table in Markdown."""
    print("| file system | trial | what ran | outcome | wrong bytes | what was reported |")
    print("| --- | --- | --- | --- | --- | --- |")
    for result in results:
        name = f"{result.name} {result.version}".strip()
        if result.skipped:
            print(f"| {name} | – | – | skipped | – | {result.skipped} |")
        for row in result.rows:
            cells = (name, row.trial, row.ran, row.outcome, f"{row.wrong_bytes:,}", row.told)
            print("| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |")


def summary(results: list[Result]) -> dict:
    return {
        "file_systems": [
            {
                "name": result.name,
                "version": result.version,
                "layout": result.layout,
                "skipped": result.skipped,
                "rows": [row.as_dict() for row in result.rows],
            }
            for result in results
        ]
    }
