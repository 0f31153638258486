#!/usr/bin/env python3
"""Times ranks that only write to a file system which limits each writer: forebay against native, in the same run.

    tools/env bench/caller_limits.py                                        2, 4 and 8 ranks, a limit for each thread
    tools/env bench/caller_limits.py --limit process --ranks 2 --pairs 3

Prints seconds, medians, and their ratio; the target for threads is a total of at most 1.05 x native.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from forebay.slowfs import SlowFS

RATE = "200MiB/s"
BUILD = Path(os.environ["FOREBAY_BUILD_DIR"])


def run(side: str, ranks: int, mib: int, mount: Path, area: Path) -> dict:
    """Runs parallel_checkpoint once and verifies it. Returns its figures."""
    path = mount / f"{side}.h5"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HDF5_VOL_CONNECTOR", "LD_PRELOAD")
    }
    if side == "forebay":
        environment |= {
            "HDF5_VOL_CONNECTOR": "forebay",
            "HDF5_PLUGIN_PATH": os.environ["FOREBAY_PLUGIN_DIR"],
            "FOREBAY_NLS": str(area),
        }
    command = [
        "mpiexec",
        "-n",
        str(ranks),
        str(BUILD / "bench" / "parallel_checkpoint"),
        "--file",
        str(path),
        "--datasets",
        "2",
        "--mib",
        str(mib),
        "--steps",
        "2",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    plain = {name: value for name, value in environment.items() if name != "HDF5_VOL_CONNECTOR"}
    subprocess.run([*command, "--verify"], env=plain, capture_output=True, timeout=300, check=True)
    path.unlink()
    return json.loads(done.stdout)


def main() -> None:
    """Measures pairs in turns, for each number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", choices=["thread", "process"], default="thread")
    parser.add_argument("--ranks", type=int, action="append")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--mib", type=int, default=16, help="of each of 2 datasets, in each of 2 steps, of each rank")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-callers-", dir="/dev/shm"))
    (folder / "area").mkdir()
    try:
        with SlowFS(folder / "backing", folder / "mount", **{f"{options.limit}_bandwidth": RATE}) as fs:
            for ranks in options.ranks or [2, 4, 8]:
                totals = {"native": [], "forebay": []}
                for pair in range(options.pairs):
                    for side in sorted(totals, reverse=pair % 2 == 0):
                        totals[side].append(run(side, ranks, options.mib, fs.mount_point, folder / "area")["total_s"])
                native, staged = statistics.median(totals["native"]), statistics.median(totals["forebay"])
                print(
                    f"{ranks} ranks, {RATE} for each {options.limit}: native {native:.2f} s, "
                    f"forebay {staged:.2f} s, {staged / native:.2f} x native",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
