"""Makes the data sets of this example: random samples, in one file or in many.

    python make_data.py --model image --samples 1024 --out images.h5
    python make_data.py --model volume --samples 96 --edge 64 --out volumes/ --files 96

Images are (N, 224, 224, 3) of uint8, volumes (N, EDGE, EDGE, EDGE, 4) of int16; CosmoFlow's have an edge of 128.
Samples are in the dataset `records_0` of each file, labels in `labels`.
"""

import argparse
from pathlib import Path

import h5py
import numpy as np


def write(path: Path, model: str, samples: int, edge: int, random: np.random.Generator) -> None:
    shape, dtype = ((224, 224, 3), np.uint8) if model == "image" else ((edge, edge, edge, 4), np.int16)
    with h5py.File(path, "w") as file:
        records = file.create_dataset("records_0", (samples, *shape), dtype)
        for index in range(samples):
            records[index] = random.integers(0, 256, shape, dtype)
        if model == "image":
            file["labels"] = random.integers(0, 10, samples)
        else:
            file["labels"] = random.random((samples, 4), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("image", "volume"), required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--edge", type=int, default=64, help="of a volume")
    parser.add_argument("--files", type=int, default=0, help="0: one file, OUT; else so many in the folder OUT")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    if options.files == 0:
        write(options.out, options.model, options.samples, options.edge, random)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for number in range(options.files):
        count = options.samples * (number + 1) // options.files - options.samples * number // options.files
        write(options.out / f"{number:05d}.h5", options.model, count, options.edge, random)


if __name__ == "__main__":
    main()
