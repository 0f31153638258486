#!/usr/bin/env python3
"""Times epochs of an unmodified PyTorch DataLoader whose workers read an HDF5 file on a slow file system.

Three sides in one run: native; forebay; and `memory`, native, with the rows in an array that the workers share, so
without any I/O. Needs a Python with PyTorch: FOREBAY_HDF5_EXAMPLES_PYTHON, or --python.

    tools/env bench/reading_in_workers.py                            512 rows of 256 KiB, 2 and 4 workers, each method
    tools/env bench/reading_in_workers.py --mode auto --epochs 5     a program that has not asked for a cache
    tools/env bench/reading_in_workers.py --kept --methods spawn     workers that persist

Prints the seconds of the epochs from the second on, medians over epochs and repetitions, as a quotient (bar: the time
without I/O >= 0.98 x forebay's); the bytes that the file system delivered (bar: 1.00 to 1.02 x the data); and the
private memory of a worker at the end of the last epoch over native's (bar: 4 MiB). All read data are compared.
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
from reading import CLOCK_BEHIND, environment_of, make_rows, plain_environment

PROGRAM = """
import json, os, sys, time, zlib, h5py, torch
from torch.utils import data

path, epochs, workers, method, kept, step, in_memory = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4], *(
    float(word) for word in sys.argv[5:8]
)

class Rows(data.Dataset):
    def __init__(self):
        self.file = None
        with h5py.File(path) as f:
            self.length = len(f["rows"])
            self.rows = torch.from_numpy(f["rows"][:]).share_memory_() if in_memory else None
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        if self.rows is not None:
            return self.rows[index].numpy().copy()
        if self.file is None:
            self.file = h5py.File(path)
        return self.file["rows"][index]
    def __getstate__(self):
        return {**self.__dict__, "file": None}

def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))

def main():
    torch.set_num_threads(1)
    torch.manual_seed(5)
    more = {"num_workers": workers}
    if workers:
        more |= {"multiprocessing_context": method, "persistent_workers": bool(kept)}
    if method == "forkserver":
        torch.multiprocessing.get_context(method).set_forkserver_preload(["torch", "h5py"])
    rows = Rows()
    loader = data.DataLoader(rows, batch_size=8, sampler=data.RandomSampler(rows), **more)
    told = {"epochs": [], "sum": 0}
    for epoch in range(epochs):
        # Times from the first batch on, because PyTorch decides the start time of a worker.
        started = time.monotonic()
        batches, begin = iter(loader), None
        for number, batch in enumerate(batches):
            begin = begin or (time.monotonic() if workers else started)
            told["sum"] ^= zlib.crc32(batch.numpy()[:, ::4096].tobytes())
            time.sleep(step)   # computing on a device
            if epoch + 1 == epochs and number == len(loader) - 2:
                pids = [worker.pid for worker in batches._workers] if workers else [os.getpid()]
                told["private_kib"] = max(map(private_kib, pids))
        told["epochs"].append(time.monotonic() - begin)
    print(json.dumps(told))

if __name__ == "__main__":
    main()
"""
SIDES = ("native", "forebay", "memory")


def run(side: str, program: Path, path: Path, area: Path, options: argparse.Namespace, workers: int, method: str):
    shutil.rmtree(area, ignore_errors=True)
    area.mkdir()
    environment = environment_of("forebay" if side == "forebay" else "native", area, options.cache, options.mode)
    words = [path, options.epochs, workers, method, int(options.kept), options.step / 1000, int(side == "memory")]
    command = [options.python, "-W", "ignore::UserWarning", program, *map(str, words)]
    if side == "forebay" and not workers:  # `forebay run` brings the hook into DataLoader
        choices = {"nls": area, "read_cache": options.mode, "read_cache_size": options.cache}
        command = [
            Path(os.environ["FOREBAY_BUILD_DIR"]) / "bin" / "forebay",
            "run",
            "--quiet",
            *(f"--option={name}={value}" for name, value in choices.items()),
            "--",
            *command,
        ]
        environment = plain_environment()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--row-bytes", type=int, default=256 << 10)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--methods", nargs="*", default=["fork", "forkserver", "spawn"])
    parser.add_argument("--kept", action="store_true", help="workers persist")
    parser.add_argument("--step", type=float, default=20, help="ms between two batches")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--cache", default="8GiB", help="size of the cache")
    parser.add_argument("--mode", default="on", choices=["on", "auto"], help="the option read_cache")
    parser.add_argument("--bandwidth", default="200MiB/s")
    parser.add_argument("--latency", default="0.5ms")
    parser.add_argument("--python", default=os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON", sys.executable))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-workers-", dir="/dev/shm"))
    program = folder / "train.py"
    program.write_text(PROGRAM)
    try:
        with SlowFS(
            folder / "backing",
            folder / "mount",
            bandwidth=options.bandwidth,
            latency=options.latency,
            clock_behind=CLOCK_BEHIND,
        ) as file_system:
            make_rows(folder / "backing" / "data.h5", options.rows, options.row_bytes)
            paths = {side: file_system / "data.h5" for side in SIDES} | {"memory": folder / "backing" / "data.h5"}
            for method in options.methods:
                for workers in options.workers:
                    took: dict[str, list[dict]] = {side: [] for side in SIDES}
                    seen: dict[str, list[int]] = {side: [] for side in SIDES}
                    for pair in range(options.pairs):
                        for side in SIDES if pair % 2 == 0 else reversed(SIDES):
                            before = file_system.stats()["operations"]["read"]["bytes"]
                            took[side].append(
                                run(side, program, paths[side], folder / "area", options, workers, method)
                            )
                            seen[side].append(file_system.stats()["operations"]["read"]["bytes"] - before)
                    if len({one["sum"] for side in SIDES for one in took[side]}) != 1:
                        sys.exit("the sides have read different bytes")
                    report(f"{workers} workers, {method}" if workers else "no workers", took, seen, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(name: str, took: dict, seen: dict, options: argparse.Namespace) -> None:
    first = {side: statistics.median(one["epochs"][0] for one in took[side]) for side in SIDES}
    later = {side: statistics.median(s for one in took[side] for s in one["epochs"][1:]) for side in SIDES}
    memory = {side: statistics.median(one["private_kib"] for one in took[side]) / 1024 for side in SIDES}
    data_bytes = options.rows * options.row_bytes
    print(
        f"{name}: epoch 1 native {first['native']:.3f} s, forebay {first['forebay']:.3f} s, "
        f"{first['native'] / first['forebay']:.2f} x as fast, without I/O {first['memory']:.3f} s; later epochs "
        f"native {later['native']:.3f} s, forebay {later['forebay']:.3f} s, without I/O "
        f"{later['memory']:.3f} s, {later['memory'] / later['forebay']:.3f} of forebay's; the file system saw "
        f"{statistics.median(seen['native']) / data_bytes:.3f} and "
        f"{statistics.median(seen['forebay']) / data_bytes:.3f} x the data; private memory of a worker "
        f"{memory['native']:.1f} and {memory['forebay']:.1f} MiB, {memory['forebay'] - memory['native']:+.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
