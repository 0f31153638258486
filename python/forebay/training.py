"""An ordinary training: logistic regression on images that h5py reads in shuffled batches, epoch after epoch.

It knows HDF5 and nothing else: one file, opened for reading, each image read by its number, as most programs
read theirs. ``python training.py --data samples.h5`` runs it; see ``--help``.

It prints one JSON object per line: its settings, then the begin and end of each phase (open, read, compute, close) in
nanoseconds of the monotonic clock. The last line has a checksum of all bytes that it read.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import h5py
import numpy as np
from numpy.typing import NDArray

RATE = 1e-3


def train(images: NDArray[np.uint8], labels: NDArray[np.int64], weights: NDArray[np.float32]) -> None:
    """One step of gradient descent on the logistic loss; changes `weights`."""
    pixels = images.reshape(len(images), -1).astype(np.float32)
    pixels -= 127.5
    pixels /= 127.5
    likely = 1.0 / (1.0 + np.exp(-np.clip(pixels @ weights, -30.0, 30.0)))
    weights -= RATE / len(images) * ((likely - labels).astype(np.float32) @ pixels)


def report(**fields: object) -> None:
    """One line of JSON on standard output."""
    print(json.dumps(fields), flush=True)


@contextmanager
def phase(name: str, epoch: int) -> Iterator[None]:
    """Reports the begin and end of the enclosed work."""
    begin_ns = time.monotonic_ns()
    yield
    report(phase=name, epoch=epoch, begin_ns=begin_ns, end_ns=time.monotonic_ns())


def run(data: str, epochs: int, batch: int, seed: int) -> None:
    """Trains for `epochs` epochs in batches of `batch` images, each epoch in its own order."""
    random = np.random.default_rng(seed)
    checksum = 0
    report(h5py=f"h5py {h5py.version.version} (HDF5 {h5py.version.hdf5_version})")
    with phase("open", 0):
        file = h5py.File(data)
        images, labels = file["images"], file["labels"][()]
        weights = np.zeros(int(np.prod(images.shape[1:])), np.float32)
        buffer = np.empty((batch, *images.shape[1:]), np.uint8)
    for epoch in range(epochs):
        order = random.permutation(len(labels))
        for begin in range(0, len(order), batch):
            chosen = order[begin : begin + batch]
            with phase("read", epoch):
                for place, number in enumerate(chosen):
                    images.read_direct(buffer, np.s_[number], np.s_[place])
            with phase("compute", epoch):
                train(buffer[: len(chosen)], labels[chosen], weights)
                checksum = zlib.crc32(buffer[: len(chosen)].data, checksum)
    with phase("close", epochs):
        file.close()
    report(checksum=checksum)


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description="Logistic regression on the images of an HDF5 file.")
    parser.add_argument("--data", required=True, help="the HDF5 file, with images and labels")
    parser.add_argument("--epochs", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=32, help="images in a batch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which images are read")
    arguments = parser.parse_args()
    run(arguments.data, arguments.epochs, arguments.batch, arguments.seed)


if __name__ == "__main__":
    main()
