#!/usr/bin/env python3
"""Times programs with event sets: small writes, and reads with computing to hide behind.

One run measures all sides, in turns.

    tools/env bench/async_calls.py                                 five repetitions
    tools/env bench/async_calls.py --repetitions 9 --steps 80

Prints the medians and their ratios: 10,000 H5Dwrite_async of 4 KiB with one H5ESwait against the same with H5Dwrite,
both with forebay; and the time in calls of a program that reads ahead, with forebay against natively, on a file system
that takes 0.5 ms for each operation. The data are compared, and the counters must show that calls were asynchronous.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from forebay.slowfs import SlowFS

PROGRAM = Path(os.environ["FOREBAY_BUILD_DIR"]) / "bench" / "async_calls"


def environment_of(side: str, area: Path, stats: Path) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HDF5_VOL")}
    if side == "native":
        return plain
    return plain | {
        "HDF5_VOL_CONNECTOR": "forebay",
        "HDF5_PLUGIN_PATH": os.environ["FOREBAY_PLUGIN_DIR"],
        "FOREBAY_NLS": str(area),
        "FOREBAY_STATS": str(stats),
    }


def run(side: str, area: Path, *arguments: object) -> tuple[dict, dict]:
    """Returns the program's output, and its counts of asynchronous calls."""
    stats = area / "statistics.jsonl"
    stats.unlink(missing_ok=True)
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        env=environment_of(side, area, stats),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{side} {arguments}: {done.returncode} {done.stderr}")
    counted: dict = {}
    if stats.exists():
        for line in stats.read_text().splitlines():
            counted |= json.loads(line).get("process", {}).get("async", {})
    return json.loads(done.stdout), counted


def small_writes(folder: Path, area: Path, repetitions: int) -> None:
    samples: dict[bool, list[dict]] = {False: [], True: []}
    for repetition in range(repetitions):
        for is_async in (False, True) if repetition % 2 == 0 else (True, False):
            path = folder / "small.h5"
            path.unlink(missing_ok=True)
            samples[is_async].append(
                run("forebay", area, "--file", path, "--write", *(["--async"] if is_async else []))[0]
            )
    for key, what in (("write_s", "writes"), ("total_s", "writes and close")):
        plain, with_set = (statistics.median(one[key] for one in samples[is_async]) for is_async in (False, True))
        print(f"10,000 {what} of 4 KiB: H5Dwrite {plain:.3f} s, H5Dwrite_async {with_set:.3f} s: ", end="")
        print(f"{plain / with_set:.2f} × the speed (bar: at least 0.8)")


def reads(folder: Path, area: Path, repetitions: int, steps: int, compute_s: float) -> None:
    samples: dict[str, list[dict]] = {"native": [], "forebay": []}
    with SlowFS(folder / "backing", folder / "slow", latency="0.5ms") as slow:
        path = slow.mount_point / "slabs.h5"
        run("native", area, "--file", path, "--make", "--steps", steps)
        for repetition in range(repetitions):
            for side in ("native", "forebay") if repetition % 2 == 0 else ("forebay", "native"):
                told, counted = run(
                    side, area, "--file", path, "--read", "--async", "--steps", steps, "--compute-s", compute_s
                )
                samples[side].append(told)
                if side == "forebay" and counted.get("reads") != steps:
                    sys.exit(f"not all {steps} reads were asynchronous: {counted}")
    calls = {side: statistics.median(one["calls_s"] for one in samples[side]) for side in samples}
    rest = {side: statistics.median(one["calls_s"] - one["first_s"] for one in samples[side]) for side in samples}
    total = {side: statistics.median(one["total_s"] for one in samples[side]) for side in samples}
    print(f"{steps} reads of 4 MiB, {compute_s} s of computing each, 0.5 ms per operation: in calls", end=" ")
    print(f"native {calls['native']:.3f} s, forebay {calls['forebay']:.3f} s:", end=" ")
    print(f"{calls['forebay'] / calls['native']:.3f} × (bar: at most 0.2)")
    print(f"  without the first read: {rest['forebay'] / rest['native']:.3f} ×;", end=" ")
    print(f"with the computing: native {total['native']:.3f} s, forebay {total['forebay']:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--compute-s", type=float, default=0.05)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        area = folder / "area"
        area.mkdir()
        small_writes(folder, area, arguments.repetitions)
        reads(folder, area, arguments.repetitions, arguments.steps, arguments.compute_s)


if __name__ == "__main__":
    main()
