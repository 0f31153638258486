#!/usr/bin/env python3
"""Times what the read cache cannot make faster: it is not to make it slower either.

One run measures both sides: native, and forebay with read_cache=on, by an unmodified h5py program.

    tools/env bench/reading_once.py                 all cases
    tools/env bench/reading_once.py opens opens_c   5,000 opens, read-only, of 1,000 small files, by h5py and in C
    tools/env bench/reading_once.py opens_cached    opens of files that are cached, by system calls, too
    tools/env bench/reading_once.py opens_leased    the same with revalidate=never
    tools/env bench/reading_once.py --mode auto     a program that has not asked for a cache
    tools/env bench/reading_once.py --folder DIR    where the local files are; best on a disk

Cases: `opens` and `opens_c`; `opens_cached` and `opens_leased`: forebay opens files of a slow file system, all of them
cached, and natively the same files are opened where the slow file system keeps them, in the page cache; `warm`, a local
file that is in the page cache; `cold`, a local file that is not; `fast`, a file system that is not local, and answers
at once; `slow`, one of 200 MiB/s and 0.5 ms.
Prints the medians of both sides, and their ratio; also of the time on a processor, which other work on the machine
changes less. All read data are compared. System calls are those of a run under strace, less those of one that opens no
file after the first epochs.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forebay.slowfs import SlowFS
from reading import (
    CLOCK_BEHIND,
    YOUNG_SECONDS,
    environment_of,
    in_turns,
    make_rows,
    median_of,
    told_by,
    told_by_program,
)

ROWS, ROW_BYTES, BATCH = 4096, 65536, 16
OPENS, FILES = 5_000, 1_000
TRACED = 300  # opens whose system calls are counted

READ = f"""
import json, sys, time, zlib, h5py, numpy as np
total, buffer = 0, np.empty(({BATCH}, {ROW_BYTES}), dtype=np.uint8)
start, ran = time.monotonic(), time.process_time()
with h5py.File(sys.argv[1]) as f:
    rows = f["rows"]
    for at in range(0, rows.shape[0], {BATCH}):
        rows.read_direct(buffer, np.s_[at : at + {BATCH}])
        total = zlib.crc32(buffer[0, :4096].tobytes(), total)
print(json.dumps(dict(seconds=time.monotonic() - start, processor_seconds=time.process_time() - ran, sum=total)))
"""

OPEN = """
import json, sys, time, h5py
folder, opens, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
names = [f"{folder}/{number}.h5" for number in range(files)]
for name in names * int(sys.argv[4]):
    with h5py.File(name) as f:
        f["rows"].shape
total, start, ran = 0, time.monotonic(), time.process_time()
for number in range(opens):
    with h5py.File(names[number % files]) as f:
        total += f["rows"].shape[0]
print(json.dumps(dict(seconds=time.monotonic() - start, processor_seconds=time.process_time() - ran, sum=total)))
"""


def drop_from_page_cache(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def calls_per_open(folder: Path, environment: dict[str, str]) -> float:
    """Returns the system calls of an open of one of the files, after all of them were opened three times."""

    def calls(opens: int) -> int:
        words = [sys.executable, "-c", OPEN, folder, opens, TRACED, 3]
        summary = folder.parent / "calls"
        traced = ["strace", "-f", "-qq", "-c", "-U", "name,calls", "-o", summary, *words]
        subprocess.run([str(word) for word in traced], env=environment, stdout=subprocess.PIPE, check=True)
        return sum(
            int(line.split()[1])
            for line in summary.read_text().splitlines()
            if len(line.split()) == 2 and line.split()[1].isdigit() and line.split()[0] != "total"
        )

    return (calls(2 * TRACED) - calls(TRACED)) / TRACED


def measure(case: str, pairs: int, folder: Path, mode: str) -> None:
    """Measures one case, in its own folder."""
    area = folder / "area"
    area.mkdir()

    def read(path: Path, side: str) -> dict:
        if case == "cold":
            drop_from_page_cache(path)
        return told_by(READ, [path], environment_of(side, area, mode=mode))

    def open_all(side: str) -> dict:
        words, environment = [folder, OPENS, FILES, 0], environment_of(side, area, mode=mode)
        if case == "opens":
            return told_by(OPEN, words, environment)
        return told_by_program([Path(os.environ["FOREBAY_BUILD_DIR"]) / "bench" / "opens", *words[:3]], environment)

    if case in ("opens_cached", "opens_leased"):
        with SlowFS(folder / "backing", folder / "mount", clock_behind=CLOCK_BEHIND) as mounted:
            make_rows(folder / "backing", 16, 64, FILES)
            where = {"native": folder / "backing", "forebay": mounted.mount_point}
            environments = {side: environment_of(side, area, mode=mode) for side in where}
            if case == "opens_leased":
                environments["forebay"]["FOREBAY_REVALIDATE"] = "never"
            told = in_turns(pairs, lambda side: told_by(OPEN, [where[side], OPENS, FILES, 3], environments[side]))
            if shutil.which("strace"):
                calls = {side: calls_per_open(where[side], environments[side]) for side in where}
                print(
                    f"{case}: native {calls['native']:.1f}, forebay {calls['forebay']:.1f} system calls an open,"
                    f" {calls['forebay'] / calls['native']:.3f} x",
                    flush=True,
                )
    elif case.startswith("opens"):
        make_rows(folder, 16, 64, FILES)
        time.sleep(YOUNG_SECONDS)
        told = in_turns(pairs, open_all)
    elif case in ("fast", "slow"):
        speed = (
            {"bandwidth": None, "latency": "0ms"} if case == "fast" else {"bandwidth": "200MiB/s", "latency": "0.5ms"}
        )
        with SlowFS(folder / "backing", folder / "mount", clock_behind=CLOCK_BEHIND, **speed) as mounted:
            make_rows(folder / "backing" / "data.h5", ROWS, ROW_BYTES)
            told = in_turns(pairs, lambda side: read(mounted / "data.h5", side))
    else:
        make_rows(folder / "data.h5", ROWS, ROW_BYTES)
        time.sleep(YOUNG_SECONDS)
        told = in_turns(pairs, lambda side: read(folder / "data.h5", side))
    for name in ("seconds", "processor_seconds"):
        native, forebay = (median_of(told[side], name) for side in ("native", "forebay"))
        what = name.replace("_seconds", " time").replace("seconds", "time")
        print(
            f"{case}: native {native:.3f} s, forebay {forebay:.3f} s, {forebay / native:.3f} x the {what}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["opens", "opens_c", "warm", "cold", "fast", "slow"])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--mode", default="on", choices=["on", "auto"], help="the option read_cache")
    parser.add_argument("--folder", type=Path, default=Path(os.environ["FOREBAY_BUILD_DIR"]) / "bench")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for case in options.cases:
        folder = Path(tempfile.mkdtemp(prefix="reading-once-", dir=options.folder))
        try:
            measure(case, options.pairs, folder, options.mode)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
