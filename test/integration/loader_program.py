"""Trains with PyTorch's DataLoader over an HDF5 file, and prints all that it observes; it knows nothing of forebay.

python loader_program.py FILE WORKERS METHOD KIND... prints a line of JSON for each kind of sampler.
"""

import ctypes
import hashlib
import json
import os
import pickle
import random
import sys

import h5py
import numpy as np
import torch
from torch.utils import data

LENGTH, SIZE = 300, 8


class Rows(data.Dataset):
    """Rows of two datasets; a process opens the file at its first read. The stand-in of the plugin is loaded then."""

    def __init__(self, path, fails_at=-1, together=False):
        self.path, self.fails_at, self.file = path, fails_at, None
        if together:
            self.__class__ = RowsTogether

    def __len__(self):
        return LENGTH

    def opened(self):
        if self.file is None:
            if "STAND_IN" in os.environ:
                self.library = ctypes.CDLL(os.environ["STAND_IN"])
            self.file = h5py.File(self.path, "r")
        return self.file

    def __getitem__(self, index):
        assert type(index) is int
        if index == self.fails_at:
            raise KeyError(f"row {index} is not to be had")
        file = self.opened()
        # Draws of a worker's generators are part of what is compared.
        return file["x"][index], file["y"][index], torch.rand(1).item(), random.random(), np.random.random()

    def __getstate__(self):
        return {**self.__dict__, "file": None, "library": None}


class RowsTogether(Rows):
    def __getitems__(self, indices):
        assert type(indices) is list
        return [self[index] for index in indices]


class Odd(data.RandomSampler):
    """Of the program: what it gives depends on when it is asked."""

    def __iter__(self):
        yield from (random.randrange(LENGTH) for _ in range(50))


def arguments_of(kind, rows):
    own = torch.Generator()
    own.manual_seed(3)
    batched = {"batch_size": SIZE}
    made = {
        "sequential": {**batched, "shuffle": False},
        "random": {**batched, "shuffle": True},
        "last dropped": {**batched, "shuffle": True, "drop_last": True},
        "own generator": {**batched, "shuffle": True, "generator": own},
        "replacement": {**batched, "sampler": data.RandomSampler(rows, True, 111, own)},
        "replacement, global": {**batched, "sampler": data.RandomSampler(rows, True, 96)},
        "many rounds": {**batched, "sampler": data.RandomSampler(rows, num_samples=2 * LENGTH + 9, generator=own)},
        "subset": {**batched, "sampler": data.SubsetRandomSampler(range(5, 280, 2))},
        "weighted": {**batched, "sampler": data.WeightedRandomSampler(torch.arange(1.0, LENGTH + 1), 150)},
        "weighted once": {**batched, "sampler": data.WeightedRandomSampler([0.5, 2, 1.5] * 100, 90, False, own)},
        "distributed": {**batched, "sampler": data.DistributedSampler(rows, 7, 2, seed=4)},
        "distributed, in order": {**batched, "sampler": data.DistributedSampler(rows, 7, 6, shuffle=False)},
        "batch sampler": {"batch_sampler": data.BatchSampler(data.RandomSampler(rows), 5, False)},
        "single": {"batch_size": None, "shuffle": True},
        "of the program": {**batched, "sampler": Odd(rows)},
    }
    return made[kind], own


def digest(*states):
    return hashlib.sha256(b"".join(pickle.dumps(state) for state in states)).hexdigest()[:16]


def epoch(loader, own, steps=None):
    """The rows in the order in which they came, a digest of all that came, and of all generators behind it."""
    order, seen = [], hashlib.sha256()
    for step, (x, y, *draws) in enumerate(loader):
        order += torch.as_tensor(y).reshape(-1).tolist()
        for part in (x, *draws):
            seen.update(torch.as_tensor(part).numpy().tobytes())
        if step + 1 == steps:
            break
    states = digest(torch.get_rng_state().numpy(), own.get_state().numpy(), random.getstate(), np.random.get_state())
    return [order, seen.hexdigest(), states]


def run(kind, path, workers, method):
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    rows = Rows(path, together=kind == "batch sampler")
    arguments, own = arguments_of(kind, rows)
    more = {"num_workers": workers, "persistent_workers": True, "multiprocessing_context": method} if workers else {}
    loader = data.DataLoader(rows, **arguments, **more)
    observed = [len(loader), epoch(loader, own), epoch(loader, own, steps=3)]
    if hasattr(loader.sampler, "set_epoch"):
        loader.sampler.set_epoch(5)
    observed += [epoch(loader, own), digest(pickle.dumps(rows)), sorted(vars(loader))]
    del loader
    try:
        failing = data.DataLoader(Rows(path, fails_at=70), **arguments, **more)
        list(failing)
    except KeyError as error:
        observed.append([type(error).__name__, error.args[0].splitlines()[-1]])
    return observed


def main():
    path, workers, method, *kinds = sys.argv[1:]
    if "CLEARED" in os.environ:
        os.environ.pop("PYTHONPATH", None)  # so workers that are spawned have none
    if method == "forkserver":
        torch.multiprocessing.get_context(method).set_forkserver_preload(["torch", "h5py"])
    for kind in kinds:
        print(json.dumps([kind, run(kind, path, int(workers), method)]))
    hook = sys.modules.get("forebay.loader_hook")
    print(json.dumps(dict(hook.counts) if hook else {}))


if __name__ == "__main__":
    main()
