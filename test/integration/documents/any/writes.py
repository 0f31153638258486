"""Stands for the programs that documents name: a simulation that writes a file, each rank its own."""

import os

import h5py
import numpy as np

with h5py.File(f"output{os.environ.get('PMI_RANK', '')}.h5", "w") as file:
    field = file.create_dataset("field", (4, 100_000), "f4")
    for step in range(len(field)):
        field[step] = np.arange(100_000) * step
        file.flush()
