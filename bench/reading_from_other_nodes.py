#!/usr/bin/env python3
"""Times epochs of shuffled batches that MPI ranks of several played nodes read from a slow file system.

One run measures all sides: native (mpio), forebay with read_cache=on where MPI has a thread of its own for progress
(MPIR_CVAR_ASYNC_PROGRESS=1), and without one. Each node has a staging area of its own.

    tools/env bench/reading_from_other_nodes.py                     2 nodes with 1 rank each
    tools/env bench/reading_from_other_nodes.py --nodes 3 --tcp     through TCP, as without shared memory
    tools/env bench/reading_from_other_nodes.py --compute 0.05      ranks compute for 50 ms after each batch

Prints for each epoch the seconds of the slowest rank, medians over the repetitions; the bytes that the file system
saw; and how fast bytes came from other nodes. Plain MPI_Get of pieces of the same size, from a window over a mapped
file, is measured in the same run. All read data are compared.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forebay.slowfs import SlowFS
from reading import YOUNG_SECONDS, make_rows, plain_environment

NATIVE = ("native, progress", "native")
FOREBAY = ("forebay, progress", "forebay")
SIDES = NATIVE + FOREBAY

READ = """
import json, sys, time, zlib, h5py, numpy as np
from mpi4py import MPI
path, epochs, batch, compute = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
world = MPI.COMM_WORLD
told = {"epochs": [], "sum": 0}
with h5py.File(path, "r", driver="mpio", comm=world) as f:
    rows, random = f["rows"], np.random.default_rng(world.rank)
    buffer = np.empty((batch, rows.shape[1]), dtype=np.uint8)
    if "first" in sys.argv[5:]:  # one rank reads everything before the others begin
        if world.rank == 0:
            for at in range(0, rows.shape[0], batch):
                rows[at : at + batch]
        time.sleep(1)  # until it is stored
        world.Barrier()
    for epoch in range(epochs):
        world.Barrier()
        start = time.monotonic()
        computed = 0.0
        order = random.permutation(rows.shape[0])
        for at in range(0, len(order), batch):
            for place, row in enumerate(order[at : at + batch]):
                rows.read_direct(buffer, np.s_[row], np.s_[place])
            told["sum"] = zlib.crc32(buffer[:: max(1, batch // 4)].tobytes(), told["sum"])
            until = time.monotonic() + compute
            while time.monotonic() < until:
                pass
        told["epochs"].append(time.monotonic() - start)
all_told = world.gather(told)
if world.rank == 0:
    print(json.dumps(all_told))
"""

# Plain MPI_Get by all ranks at once, of pieces in random order from a window over a mapped file.
GET = """
import json, mmap, sys, tempfile, time, numpy as np
from mpi4py import MPI
world, bytes_all, piece = MPI.COMM_WORLD, int(sys.argv[1]), int(sys.argv[2])
with tempfile.TemporaryFile(dir=sys.argv[3]) as file:
    file.truncate(bytes_all)
    with mmap.mmap(file.fileno(), bytes_all) as memory:
        memory.write(np.random.default_rng(world.rank).bytes(bytes_all))
        window = MPI.Win.Create(memory, 1, comm=world)
        window.Lock_all()
        world.Barrier()
        buffer = np.empty(piece, dtype=np.uint8)
        order = np.random.default_rng(world.rank).permutation(bytes_all // piece)
        start = time.monotonic()
        for at in order:
            window.Get([buffer, MPI.BYTE], (world.rank + 1) % world.size, [int(at) * piece, piece, MPI.BYTE])
            window.Flush((world.rank + 1) % world.size)
        took = world.allreduce(time.monotonic() - start, MPI.MAX)
        window.Unlock_all()
        window.Free()
if world.rank == 0:
    print(json.dumps(len(order) * piece / took))
"""


def environment_of(side: str, options: argparse.Namespace, area: Path) -> dict[str, str]:
    plain = plain_environment() | {"UCX_HANDLE_ERRORS": "none", "UCX_LOG_LEVEL": "fatal"}
    if options.tcp:
        plain |= {"UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}
    if side.endswith("progress"):
        plain["MPIR_CVAR_ASYNC_PROGRESS"] = "1"
    if side.startswith("native"):
        return plain
    return plain | {
        "HDF5_VOL_CONNECTOR": f"forebay read_cache=on;read_cache_size={options.cache}",
        "HDF5_PLUGIN_PATH": os.environ["FOREBAY_PLUGIN_DIR"],
        "FOREBAY_STATS": str(area / "statistics"),
    }


def launch(code: str, words: list, environment: dict[str, str], options: argparse.Namespace, area: Path) -> str:
    command = ["mpiexec"]
    for node in range(options.nodes):
        (area / f"node{node}").mkdir(exist_ok=True)
        if node > 0:
            command.append(":")
        command += ["-n", str(options.ranks), "env", f"FOREBAY_NODE=node{node}", f"FOREBAY_NLS={area / f'node{node}'}"]
        command += [os.environ["FOREBAY_HDF5_PYTHON"], "-c", code, *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def counters(area: Path) -> dict[str, int]:
    total: dict[str, int] = {}
    path = area / "statistics"
    for line in path.read_text().splitlines() if path.exists() else []:
        for name, value in json.loads(line).get("process", {}).get("cache", {}).items():
            if isinstance(value, int):
                total[name] = total.get(name, 0) + value
    return total


def run(side: str, path: Path, area: Path, options: argparse.Namespace) -> dict:
    """Runs one side. The slowest rank of each epoch counts."""
    shutil.rmtree(area, ignore_errors=True)
    area.mkdir()
    words = [path, options.epochs, options.batch, options.compute, "first" if options.first else ""]
    told = json.loads(launch(READ, words, environment_of(side, options, area), options, area))
    return {
        "epochs": [max(times) for times in zip(*(one["epochs"] for one in told), strict=True)],
        "sums": [one["sum"] for one in told],
        "cache": counters(area),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--row-bytes", type=int, default=64 << 10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1, help="of each node")
    parser.add_argument("--compute", type=float, default=0.0, help="seconds after each batch")
    parser.add_argument("--first", action="store_true", help="rank 0 reads everything before the first epoch begins")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--tcp", action="store_true", help="MPI goes through TCP")
    parser.add_argument("--cache", default="8GiB", help="size of the cache of each node")
    parser.add_argument("--bandwidth", default="200MiB/s")
    parser.add_argument("--latency", default="0.5ms")
    options = parser.parse_args()
    data_bytes = options.rows * options.row_bytes
    folder = Path(tempfile.mkdtemp(prefix="forebay-nodes-", dir="/dev/shm"))
    area = folder / "areas"
    area.mkdir()
    took: dict[str, list[dict]] = {side: [] for side in SIDES}
    seen: dict[str, list[int]] = {side: [] for side in SIDES}
    plain: list[float] = []
    try:
        with SlowFS(
            folder / "backing", folder / "mount", bandwidth=options.bandwidth, latency=options.latency
        ) as file_system:
            path = file_system / "data.h5"
            make_rows(folder / "backing" / "data.h5", options.rows, options.row_bytes)
            time.sleep(YOUNG_SECONDS)
            for repetition in range(options.repetitions):
                for side in SIDES if repetition % 2 == 0 else reversed(SIDES):
                    before = file_system.stats()["operations"]["read"]["bytes"]
                    took[side].append(run(side, path, area, options))
                    seen[side].append(file_system.stats()["operations"]["read"]["bytes"] - before)
                words = [min(data_bytes, 64 << 20), options.row_bytes, folder]
                environment = environment_of("native, progress", options, area)
                plain.append(json.loads(launch(GET, words, environment, options, area)))
            if len({str(one["sums"]) for side in SIDES for one in took[side]}) != 1:
                sys.exit("the sides have read different bytes")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report(took, seen, plain, options, data_bytes)


def report(took: dict, seen: dict, plain: list[float], options: argparse.Namespace, data_bytes: int) -> None:
    print(f"{options.nodes} nodes with {options.ranks} ranks each, medians of {options.repetitions}:")
    for epoch in range(options.epochs):
        seconds = {side: statistics.median(one["epochs"][epoch] for one in took[side]) for side in SIDES}
        told = "; ".join(
            f"{native} {seconds[native]:.3f} s, {side} {seconds[side]:.3f} s, "
            f"{seconds[native] / seconds[side]:.2f} x as fast"
            for native, side in zip(NATIVE, FOREBAY, strict=True)
        )
        print(f"  epoch {epoch + 1}: {told}")
    for side in SIDES:
        ratios = sorted(one / data_bytes for one in seen[side])
        print(f"  the file system saw, {side}: {statistics.median(ratios):.3f} x the data ({ratios})")
    for side in FOREBAY:
        rates = [one["cache"]["remote_bytes"] / max(1, one["cache"]["remote_us"]) / 1.048576 for one in took[side]]
        print(f"  {side}: {statistics.median(rates):.0f} MiB/s from other nodes")
        print(f"  {side}: {[one['cache'] for one in took[side]]}")
    print(f"  plain MPI_Get with progress: {statistics.median(plain) / 2**20:.0f} MiB/s for each rank", flush=True)


if __name__ == "__main__":
    main()
