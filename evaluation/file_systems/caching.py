"""The read cache on a file system: does `auto` cache there, and is a change by another client seen?"""

from __future__ import annotations

import time
from pathlib import Path

from file_systems.runs import FAILED, RIGHT, WRONG, Places, Row, last_line, run_python

ROWS, ROW_BYTES = 512, 64 << 10
EPOCHS = 4
YOUNG_S = 62  # auto stores no byte of a younger file

MAKE = f"""
import h5py, numpy as np, sys
with h5py.File(sys.argv[1], "w", libver="latest") as f:
    data = np.random.default_rng(1).integers(0, 256, ({ROWS}, {ROW_BYTES}), dtype=np.uint8)
    f.create_dataset("rows", data=data, chunks=(1, {ROW_BYTES}))
"""
READ = f"""
import h5py, numpy as np, os, sys, zlib
descriptor = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
os.close(descriptor)
random = np.random.default_rng(3)
with h5py.File(sys.argv[1], "r") as f:
    for epoch in range(int(sys.argv[2])):
        print([zlib.crc32(row.tobytes()) for row in (f["rows"][int(at)] for at in sorted(range({ROWS}),
              key=lambda _: random.random()))])
"""
# Changes some bytes of a row where they lie, without HDF5: size and names stay. Then sets the old times, if asked to.
CHANGE = f"""
import h5py, os, sys
with h5py.File(sys.argv[1], "r") as f:
    offset = f["rows"].id.get_chunk_info_by_coord((int(sys.argv[2]), 0)).byte_offset
before = os.stat(sys.argv[1])
with open(sys.argv[1], "r+b") as raw:
    raw.seek(offset); raw.write(bytes([int(sys.argv[3])]) * {ROW_BYTES}); raw.flush(); os.fsync(raw.fileno())
if sys.argv[4] == "times": os.utime(sys.argv[1], ns=(before.st_atime_ns, before.st_mtime_ns))
"""
CHANGES = ((1, "plain"), (ROWS // 2, "times"), (ROWS // 2, "plain"), (ROWS - 1, "plain"), (ROWS - 2, "times"))
CHANGES_S_MAX = 150


def make_file(places: Places) -> tuple[Path, float]:
    """Writes the file, natively. Returns it with the time."""
    done = run_python(MAKE, places.target / "rows.h5", environment=places.native())
    if done.returncode != 0:
        raise RuntimeError(last_line(done.stderr))
    return places.target / "rows.h5", time.monotonic()


def cache_of(statistics: list[dict]) -> dict:
    return next((line["process"]["cache"] for line in statistics if "cache" in line.get("process", {})), {})


def cached_unasked(places: Places, file: Path, made: float, expected: bool) -> Row:
    """Random epochs with no option. `expected`: the file system is on forebay's list."""
    time.sleep(max(0.0, YOUNG_S - (time.monotonic() - made)))
    plain = run_python(READ, file, EPOCHS, environment=places.native())
    places.statistics()
    through = run_python(READ, file, EPOCHS, environment=places.staged())
    counted = cache_of(places.statistics())
    hits, stored = counted.get("hit_bytes", 0), counted.get("stored_bytes", 0)
    ran = f"{EPOCHS} random epochs of {ROWS * ROW_BYTES >> 20} MiB"
    told = f"{hits >> 20} MiB from the cache, {stored >> 20} MiB stored; {counted.get('aside') or 'no file aside'}"
    title = "read_cache=auto"
    if plain.returncode != 0 or through.returncode != 0:
        return Row(title, FAILED, ran, told=last_line(plain.stderr + through.stderr))
    if plain.stdout != through.stdout:
        return Row(title, WRONG, ran, wrong_rows(plain.stdout, through.stdout) * ROW_BYTES, told)
    if not expected and stored:
        return Row(title, WRONG, ran, told=f"{told}: the file system is not on forebay's list")
    return Row(title, RIGHT, ran, told=told if expected else f"{told}; not on forebay's list")


def changed_elsewhere(places: Places, file: Path, settled_s: int) -> Row:
    """Another client changes rows in place. A program with a permanent replica must see what native HDF5 sees here."""
    changes = CHANGES[: CHANGES_S_MAX // settled_s]
    environment = places.staged("read_cache=on;read_cache_lifetime=permanent")
    wrong, hits, stale, failed = 0, 0, 0, ""
    run_python(READ, file, 1, environment=environment)
    places.statistics()
    for number, (row, times) in enumerate(changes):
        changed = run_python(
            CHANGE, places.other / file.name, row, number + 1, times, environment=places.native()
        )  # fmt: skip
        time.sleep(settled_s)
        runs = [
            run_python(READ, path, 2, environment=each)  # hits in the second epoch, also if no replica may be kept
            for path, each in (
                (file, environment),
                (file, places.native()),
                (places.other / file.name, places.native()),
            )
        ]
        hits += cache_of(places.statistics()).get("hit_bytes", 0)
        if any(done.returncode for done in (changed, *runs)):
            failed = last_line("".join(done.stderr for done in (changed, *runs)))
            break
        through, here, there = (done.stdout for done in runs)
        stale += here != there
        wrong += wrong_rows(here, through) * ROW_BYTES
        # Fills the replica of the new version, so that the next change meets a whole one.
        run_python(READ, file, 1, environment=environment)
        hits += cache_of(places.statistics()).get("hit_bytes", 0)
    outcome = FAILED if failed else WRONG if wrong else RIGHT if hits else FAILED
    told = f"{hits >> 20} MiB from the cache" + (f"; native was stale {stale} times" if stale else "")
    return Row(
        "changed by another client",
        outcome,
        f"{len(changes)} rows, some with the old times set again",
        wrong,
        failed or told,
    )


def wrong_rows(expected: str, seen: str) -> int:
    """Returns how many rows differ between two printed readings."""
    words = [text.replace("[", "").replace("]", ",").replace("\n", "").split(",") for text in (expected, seen)]
    return sum(one != other for one, other in zip(*words)) + abs(len(words[0]) - len(words[1]))
