#!/usr/bin/env python3
"""Times collective and independent reads of a file that is being written, on a slow target.

One run measures both sides: native and forebay.

    tools/env bench/reads_while_writing.py [--ranks 2] [--pairs 5]

Prints the seconds of the read phase, medians, and their ratio.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from forebay.slowfs import SlowFS

BUILD = Path(os.environ["FOREBAY_BUILD_DIR"])


def run(side: str, mode: str, ranks: int, mount: Path, area: Path) -> float:
    """Returns the seconds of the read phase of one run of parallel_reads, which compares the data."""
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
        str(BUILD / "bench" / "parallel_reads"),
        "--file",
        str(path),
        *([mode] if mode == "--collective" else []),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    path.unlink()
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-reads-", dir="/dev/shm"))
    (folder / "area").mkdir()
    try:
        with SlowFS(folder / "backing", folder / "mount", latency="0.5ms") as fs:
            for mode in ("--collective", "--independent"):
                took = {"native": [], "forebay": []}
                for pair in range(options.pairs):
                    for side in sorted(took, reverse=pair % 2 == 0):
                        took[side].append(run(side, mode, options.ranks, fs.mount_point, folder / "area"))
                native, staged = statistics.median(took["native"]), statistics.median(took["forebay"])
                print(
                    f"{mode[2:]} reads by {options.ranks} ranks: native {native:.2f} s, "
                    f"forebay {staged:.2f} s, {staged / native:.2f} x native",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
