#!/usr/bin/env python3
"""One file per step: the time that a program spends in HDF5 calls with close=deferred, against native in the same run.

    tools/env bench/deferred_close.py                                   6 steps of 64 MiB, 3 pairs: under two minutes
    tools/env bench/deferred_close.py --steps 20 --mib 256 --pairs 3    the full size

Target files are on slowfs, 200 MiB/s, with its files in memory; so is the staging area. Each file is read back natively
and compared. Prints seconds, medians and their ratio; the target is at most 0.1 x native.
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
TARGET_RATIO = 0.1

PROGRAM = """
import sys, time
import h5py, numpy as np
folder, steps, mib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = np.random.default_rng(0).integers(0, 256, mib << 20, dtype="u1")
spent = 0.0
for step in range(steps):
    data[:8] = step
    begin = time.monotonic()
    with h5py.File(f"{folder}/step{step}.h5", "w") as f:
        f.create_dataset("x", data=data)
    spent += time.monotonic() - begin
print(spent)
"""

VERIFY = """
import sys
import h5py, numpy as np
folder, steps, mib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = np.random.default_rng(0).integers(0, 256, mib << 20, dtype="u1")
for step in range(steps):
    data[:8] = step
    with h5py.File(f"{folder}/step{step}.h5", "r") as f:
        assert (f["x"][()] == data).all(), step
"""


def run(side: str, options: argparse.Namespace, mount: Path, backing: Path, folder: Path) -> float:
    """Runs once and verifies. Returns the seconds in HDF5 calls."""
    area = folder / f"area-{side}"
    area.mkdir()
    stats = folder / "stats.jsonl"
    plain = {name: value for name, value in os.environ.items() if name != "HDF5_VOL_CONNECTOR"}
    environment = dict(plain)
    if side == "deferred":
        environment |= {
            "HDF5_VOL_CONNECTOR": f"forebay close=deferred;nls={area};stats={stats}",
            "HDF5_PLUGIN_PATH": os.environ["FOREBAY_PLUGIN_DIR"],
        }
    arguments = [str(options.steps), str(options.mib)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(mount), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    if side == "deferred":
        lines = [json.loads(line) for line in stats.read_text().splitlines()]
        assert sum(line["process"]["deferred_closes"] for line in lines if "process" in line) == options.steps, lines
        assert all(line["file"]["pending"] == 0 for line in lines if "file" in line), lines
        stats.unlink()
    subprocess.run([sys.executable, "-c", VERIFY, str(backing), *arguments], env=plain, timeout=600, check=True)
    for file in backing.iterdir():
        file.unlink()
    shutil.rmtree(area)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--mib", type=int, default=64, help="of each file")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-deferred-", dir="/dev/shm"))
    seconds: dict[str, list[float]] = {"native": [], "deferred": []}
    try:
        with SlowFS(folder / "backing", folder / "mount", bandwidth=RATE) as fs:
            for pair in range(options.pairs):
                sides = ["native", "deferred"]
                for side in sides if pair % 2 == 0 else reversed(sides):
                    seconds[side].append(run(side, options, fs.mount_point, fs.backing, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    medians = {side: statistics.median(each) for side, each in seconds.items()}
    ratio = medians["deferred"] / medians["native"]
    print(json.dumps({"steps": options.steps, "mib": options.mib, "seconds": seconds, "medians": medians}, indent=2))
    verdict = "met" if ratio <= TARGET_RATIO else "missed"
    print(f"time in HDF5 calls: {ratio:.3f} x native; target {TARGET_RATIO}: {verdict}")


if __name__ == "__main__":
    main()
