#!/usr/bin/env python3
"""The read bandwidths of "Cache VOL", table III: sequential and random, iterations 1 to 4, beside native.

    tools/env bench/reading_table.py                        fits into memory: 256 MiB, 1 process
    tools/env bench/reading_table.py --memory 128MiB        larger than memory: a memory cgroup of this size
    tools/env bench/reading_table.py --ranks 2              read by two MPI ranks of one node

The file system is slowfs with 200 MiB/s and 0.5 ms for each operation; the staging area is a folder on a disk. A
process reads the file in pieces of a row, batch by batch. All read data are compared. The table is printed as the paper
prints it, in MiB/s.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forebay.slowfs import SlowFS
from reading import YOUNG_SECONDS, environment_of, make_rows, told_by

ITERATIONS = 4
LABELS = {"native": "baseline", "forebay": "forebay"}

READ = """
import json, sys, time, zlib, h5py, numpy as np
path, iterations, batch, random, parallel = sys.argv[1], *(int(word) for word in sys.argv[2:6])
rank, size, keywords, meet = 0, 1, {}, lambda: None
if parallel:
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    rank, size, keywords, meet = world.rank, world.size, dict(driver="mpio", comm=world), world.Barrier
told = {"seconds": [], "sum": 0}
with h5py.File(path, "r", **keywords) as f:
    rows, order = f["rows"], np.random.default_rng(1)
    buffer = np.empty((batch, rows.shape[1]), dtype=np.uint8)
    for iteration in range(iterations):
        meet()
        start = time.monotonic()
        numbers = order.permutation(rows.shape[0]) if random else np.arange(rows.shape[0])
        mine = numbers[rank * len(numbers) // size : (rank + 1) * len(numbers) // size]
        for at in range(0, len(mine), batch):
            for place, row in enumerate(mine[at : at + batch]):
                rows.read_direct(buffer, np.s_[row], np.s_[place])
            told["sum"] ^= zlib.crc32(buffer.tobytes())
        meet()
        told["seconds"].append(time.monotonic() - start)
if rank == 0:
    print(json.dumps(told))
"""

# Enters a memory cgroup, and executes the program.
LIMITED = """
import os, sys
from pathlib import Path
(Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def make_cgroup(limit_bytes: int) -> Path | None:
    """Returns a memory cgroup below this process's own, of either version, or None if that is impossible."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, own = line.split(":", 2)
        if controllers not in ("memory", "") or (controllers == "" and number != "0"):
            continue
        root = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
        path = root / own.lstrip("/") / f"forebay-bench-{os.getpid()}"
        try:
            path.mkdir()
            limit = path / ("memory.limit_in_bytes" if controllers else "memory.max")
            limit.write_text(str(limit_bytes))
        except OSError:
            if path.is_dir():
                path.rmdir()
            continue
        return path
    return None


def size_of(text: str) -> int:
    return int(text.removesuffix("MiB")) << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=size_of, default=size_of("256MiB"))
    parser.add_argument("--row-bytes", type=int, default=64 << 10)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--memory", type=size_of)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(os.environ["FOREBAY_BUILD_DIR"]) / "bench")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="reading-table-", dir=options.folder))
    group = make_cgroup(options.memory) if options.memory else None
    if options.memory and group is None:
        sys.exit("no memory cgroup can be made here")
    wrapper: tuple[str, ...] = (sys.executable, "-c", LIMITED, str(group)) if group else ()
    if options.ranks > 1:
        wrapper += ("mpiexec", "-n", str(options.ranks))
        sys.executable = os.environ["FOREBAY_HDF5_PYTHON"]
    try:
        with SlowFS(folder / "backing", folder / "mount", bandwidth="200MiB/s", latency="0.5ms") as mounted:
            make_rows(folder / "backing" / "data.h5", options.data // options.row_bytes, options.row_bytes)
            time.sleep(YOUNG_SECONDS)
            measure(mounted / "data.h5", folder / "area", wrapper, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if group is not None:
            group.rmdir()


def measure(path: Path, area: Path, wrapper: tuple[str, ...], options: argparse.Namespace) -> None:
    took: dict[tuple[str, str], list[list[float]]] = {}
    for pair in range(options.pairs):
        for order in ("seq", "rnd"):
            sums = set()
            for side in sorted(LABELS, reverse=pair % 2 == 0):
                shutil.rmtree(area, ignore_errors=True)
                area.mkdir()
                subprocess.run(["sync", "-f", str(area)], check=True)
                words = [path, ITERATIONS, options.batch, int(order == "rnd"), int(options.ranks > 1)]
                told = told_by(READ, words, environment_of(side, area), wrapper)
                took.setdefault((order, side), []).append(told["seconds"])
                sums.add(told["sum"])
            if len(sums) != 1:
                sys.exit("the two sides have read different bytes")
    print("| iteration | " + " | ".join(str(number + 1) for number in range(ITERATIONS)) + " |")
    print("| --- |" + " --- |" * ITERATIONS)
    for side, label in LABELS.items():
        for order in ("seq", "rnd"):
            medians = [statistics.median(times) for times in zip(*took[order, side], strict=True)]
            rates = " | ".join(f"{options.data / 2**20 / seconds:,.0f}" for seconds in medians)
            print(f"| {label} ({order}) | {rates} |", flush=True)


if __name__ == "__main__":
    main()
