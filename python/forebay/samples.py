"""Makes the data set of the demo's training: images and labels, one HDF5 file, contiguous."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

_AT_ONCE = 64


def make_samples(path: Path, samples: int, shape: tuple[int, ...], seed: int = 1) -> None:
    """Writes `samples` random images of uint8, each of this shape, and their labels. The seed decides the values."""
    random = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (samples, *shape), np.uint8)
        for begin in range(0, samples, _AT_ONCE):
            count = min(_AT_ONCE, samples - begin)
            images[begin : begin + count] = random.integers(0, 256, (count, *shape), dtype=np.uint8)
        file["labels"] = random.integers(0, 2, samples, dtype=np.int64)
