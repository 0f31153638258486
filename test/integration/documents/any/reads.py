"""Stands for the trainings that documents name: reads the rows of a file, in each of two epochs."""

import h5py

for _ in range(2):
    with h5py.File("train.h5") as file:
        assert sum(int(label) for label in file["labels"]) == 6 * 45 + 6
