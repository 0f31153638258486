#!/usr/bin/env python3
"""Times epochs of shuffled batches that an unmodified h5py program reads from a slow file system.

One run measures both sides: native, and forebay with read_cache=on. With --warm a third one: native, from a file in
memory, as from a page cache that holds all of the file.

    tools/env bench/reading_again.py                              4,096 rows of 64 KiB, batches of 64, 1 and 2 processes
    tools/env bench/reading_again.py --processes 1 --share 0.05   one epoch of a random twentieth
    tools/env bench/reading_again.py --cache 128MiB               a cache of half the data
    tools/env bench/reading_again.py --processes 1 --warm         beside a warm page cache
    tools/env bench/reading_again.py --mode auto --epochs 5       a program that has not asked for a cache

Prints for each epoch the seconds of both sides, medians over the repetitions, and their ratio; the time to the first
batch; the private memory of a process at its end; and the bytes that the file system saw. All read data are compared.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from forebay.slowfs import SlowFS
from reading import CLOCK_BEHIND, environment_of, make_rows

READ = """
import json, sys, time, zlib, h5py, numpy as np
path, epochs, batch, share, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
began = time.monotonic()
told = {"epochs": [], "first_batch": None, "sum": 0}
with h5py.File(path) as f:
    rows, random = f["rows"], np.random.default_rng(seed)
    buffer = np.empty((batch, rows.shape[1]), dtype=np.uint8)
    for epoch in range(epochs):
        start = time.monotonic()
        order = random.permutation(rows.shape[0])[: int(rows.shape[0] * share)]
        for at in range(0, len(order), batch):
            for place, row in enumerate(order[at : at + batch]):
                rows.read_direct(buffer, np.s_[row], np.s_[place])
            told["sum"] ^= zlib.crc32(buffer[:: max(1, batch // 4)].tobytes())
            if told["first_batch"] is None:
                told["first_batch"] = time.monotonic() - began
        told["epochs"].append(time.monotonic() - start)
with open("/proc/self/smaps_rollup") as lines:
    told["private_kib"] = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
print(json.dumps(told))
"""


def run(side: str, path: Path, area: Path, options: argparse.Namespace, processes: int) -> dict:
    """Runs all processes at once. The slowest one of each epoch counts."""
    shutil.rmtree(area, ignore_errors=True)
    area.mkdir()
    words = [path, options.epochs, options.batch, options.share]
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READ, *map(str, words), str(seed)],
            env=environment_of("forebay" if side == "forebay" else "native", area, options.cache, options.mode),
            stdout=subprocess.PIPE,
        )
        for seed in range(processes)
    ]
    told = [json.loads(reader.communicate()[0]) for reader in readers]
    return {
        "epochs": [max(times) for times in zip(*(one["epochs"] for one in told), strict=True)],
        "first_batch": max(one["first_batch"] for one in told),
        "sums": [one["sum"] for one in told],
        "private_mib": max(one["private_kib"] for one in told) / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--row-bytes", type=int, default=64 << 10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the rows that an epoch reads")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--cache", default="8GiB", help="size of the cache")
    parser.add_argument("--mode", default="on", choices=["on", "auto"], help="the option read_cache")
    parser.add_argument("--warm", action="store_true", help="natively from memory, too")
    parser.add_argument("--bandwidth", default="200MiB/s")
    parser.add_argument("--latency", default="0.5ms")
    options = parser.parse_args()
    data_bytes = options.rows * options.row_bytes
    folder = Path(tempfile.mkdtemp(prefix="forebay-again-", dir="/dev/shm"))
    try:
        with SlowFS(
            folder / "backing",
            folder / "mount",
            bandwidth=options.bandwidth,
            latency=options.latency,
            clock_behind=CLOCK_BEHIND,
        ) as file_system:
            paths = {side: file_system / "data.h5" for side in ("native", "forebay")}
            if options.warm:
                paths["warm"] = folder / "backing" / "data.h5"
            make_rows(folder / "backing" / "data.h5", options.rows, options.row_bytes)
            for processes in options.processes:
                took: dict[str, list[dict]] = {side: [] for side in paths}
                seen: dict[str, list[int]] = {side: [] for side in paths}
                for pair in range(options.pairs):
                    for side in sorted(took, reverse=pair % 2 == 0):
                        before = file_system.stats()["operations"]["read"]["bytes"]
                        took[side].append(run(side, paths[side], folder / "area", options, processes))
                        seen[side].append(file_system.stats()["operations"]["read"]["bytes"] - before)
                if len({str(one["sums"]) for side in took for one in took[side]}) != 1:
                    sys.exit("the two sides have read different bytes")
                report(processes, took, seen, options, data_bytes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(processes: int, took: dict, seen: dict, options: argparse.Namespace, data_bytes: int) -> None:
    print(f"{processes} process{'es' if processes > 1 else ''}, medians of {options.pairs}:")
    for epoch in range(options.epochs):
        native, forebay = (
            statistics.median(one["epochs"][epoch] for one in took[side]) for side in ("native", "forebay")
        )
        print(f"  epoch {epoch + 1}: native {native:.3f} s, forebay {forebay:.3f} s, {native / forebay:.2f} x as fast")
        if "warm" in took:
            warm = statistics.median(one["epochs"][epoch] for one in took["warm"])
            print(f"    native from memory {warm:.3f} s, forebay {warm / forebay:.2f} x as fast")
    native, forebay = (statistics.median(one["first_batch"] for one in took[side]) for side in ("native", "forebay"))
    print(f"  first batch: native {native:.3f} s, forebay {forebay:.3f} s, {forebay / native:.2f} x the time")
    native, forebay = (statistics.median(one["private_mib"] for one in took[side]) for side in ("native", "forebay"))
    print(f"  private memory of a process: native {native:.0f} MiB, forebay {forebay:.0f} MiB")
    asked = data_bytes * options.share * (options.epochs if options.share < 1 else 1)
    for side in ("native", "forebay"):
        print(
            f"  the file system saw, {side}: {statistics.median(seen[side]) / data_bytes:.3f} x the data, "
            f"{statistics.median(seen[side]) / asked:.3f} x what one epoch asks for",
            flush=True,
        )


if __name__ == "__main__":
    main()
