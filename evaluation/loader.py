"""The input of AlexNet and CosmoFlow (Cache VOL paper, sections IV and V, figure 5): epochs of shuffled samples.

    loader.py --file F --make [the same sizes]
    loader.py --file F [--samples 512] [--shape 224,224,3] [--type u1] [--batch 32] [--epochs 4] [--processes 2]
              [--order random|sequential] [--compute-ms 10]

All processes together read each sample once an epoch, in batches, from one dataset. Each computes after a batch, by
sleeping, as one that waits for an accelerator. Every byte is compared, outside the measured time. Prints the seconds
of each epoch (the slowest process) without the comparing, and of these the seconds of the reads.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

WRONG_DATA = 3


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--make", action="store_true", help="write the file instead of reading it")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--shape", default="224,224,3", help="of a sample")
    parser.add_argument("--type", default="u1", choices=["u1", "u2"], help="of its numbers")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--order", default="random", choices=["random", "sequential"])
    parser.add_argument("--compute-ms", type=float, default=10)
    parser.add_argument("--process", type=int, help="which of them this is; without: starts them all")
    options = parser.parse_args()
    options.shape = tuple(int(size) for size in options.shape.split(","))
    return options


def content(options: argparse.Namespace) -> np.ndarray:
    """Returns the numbers that all samples are made of."""
    random = np.random.default_rng(1)
    return random.integers(0, np.iinfo(options.type).max, options.shape, dtype=options.type, endpoint=True)


def sample(first: np.ndarray, number: int) -> np.ndarray:
    """Returns a sample: the numbers plus its own, which its first eight bytes tell in full."""
    made = first + np.array(number).astype(first.dtype)
    made.reshape(-1).view(np.uint8)[:8] = np.array([number], dtype="<u8").view(np.uint8)
    return made


def make(options: argparse.Namespace) -> None:
    import h5py

    first = content(options)
    with h5py.File(options.file, "w") as file:
        samples = file.create_dataset("samples", (options.samples, *options.shape), dtype=options.type)
        for i in range(options.samples):
            samples[i] = sample(first, i)


def order_of(options: argparse.Namespace, epoch: int) -> np.ndarray:
    """Returns the samples of this process in an epoch."""
    order = np.arange(options.samples)
    if options.order == "random":
        order = np.random.default_rng(epoch).permutation(options.samples)
    return np.array_split(order, options.processes)[options.process]


def read(options: argparse.Namespace) -> dict:
    """Reads all epochs of one process."""
    import h5py

    first, told = content(options), {"epochs_s": [], "reads_s": [], "compared": 0, "wrong": 0}
    with h5py.File(options.file) as file:
        samples, batch = file["samples"], np.empty((options.batch, *options.shape), dtype=options.type)
        for epoch in range(options.epochs):
            order, reads_s, epoch_s = order_of(options, epoch), 0.0, 0.0
            for at in range(0, len(order), options.batch):
                rows = order[at : at + options.batch]
                begin = time.monotonic()
                for place, row in enumerate(rows):
                    samples.read_direct(batch, np.s_[row], np.s_[place])
                reads_s += time.monotonic() - begin
                time.sleep(options.compute_ms / 1000)
                epoch_s += time.monotonic() - begin
                for place, row in enumerate(rows):
                    found = batch[place].view(np.uint8)
                    expected = sample(first, row).view(np.uint8)
                    told["wrong"] += int(np.count_nonzero(found != expected))
                    told["compared"] += found.nbytes
            told["epochs_s"].append(epoch_s)
            told["reads_s"].append(reads_s)
    return told


def read_in_processes(options: argparse.Namespace) -> dict:
    """Starts all processes. Returns the slowest time of each epoch, and the sums of the compared bytes."""
    readers = [
        subprocess.Popen([sys.executable, *sys.argv, "--process", str(process)], stdout=subprocess.PIPE)
        for process in range(options.processes)
    ]
    printed = [reader.communicate()[0] for reader in readers]
    if any(reader.returncode not in (0, WRONG_DATA) for reader in readers):
        sys.exit("a process has ended with an error")
    told = [json.loads(text) for text in printed]
    sample_bytes = math.prod(options.shape) * np.dtype(options.type).itemsize
    return {
        "bytes": options.epochs * options.samples * sample_bytes,
        **{
            key: [max(times) for times in zip(*(one[key] for one in told), strict=True)]
            for key in ("epochs_s", "reads_s")
        },
        **{key: sum(one[key] for one in told) for key in ("compared", "wrong")},
    }


def main() -> int:
    options = arguments()
    if options.make:
        make(options)
        return 0
    told = read_in_processes(options) if options.process is None else read(options)
    print(json.dumps(told))
    return WRONG_DATA if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
