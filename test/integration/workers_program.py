"""Trains with PyTorch's DataLoader, with workers that a method starts; it knows nothing of forebay.

python workers_program.py FILE WORKERS METHOD OPENED KEPT EPOCHS [KILLED_AT]

OPENED: `parent`, where the file is open in the parent as the workers start, or `worker`. KEPT: `kept` for persistent
workers, else `new`. Prints a line of JSON with a digest of the data and the order of each epoch. KILLED_AT: a worker is
killed at this batch of the second epoch, and what the training is told is printed instead.
"""

import hashlib
import json
import os
import signal
import sys

import h5py
import torch
from torch.utils import data

SIZE = 8
PATH, WORKERS, METHOD, OPENED, KEPT, EPOCHS = sys.argv[1:7]


class Rows(data.Dataset):
    """A worker that is forked reads the file that its parent has open; any other one opens it at its first read."""

    def __init__(self, path):
        self.path, self.file = path, h5py.File(path)
        self.length = len(self.file["rows"])
        if OPENED == "worker":
            self.file.close()
            self.file = None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path)
        return self.file["rows"][index], index

    def __getstate__(self):
        return {**self.__dict__, "file": None}


def epoch(loader, killed_at):
    order, seen = [], hashlib.sha256()
    for step, (rows, index) in enumerate(loader):
        seen.update(rows.numpy().tobytes())
        order += index.tolist()
        if step == killed_at:
            os.kill(loader._iterator._workers[0].pid, signal.SIGKILL)
    return [seen.hexdigest(), order]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(4)
    workers, rows = int(WORKERS), Rows(PATH)
    more = {}
    if workers:
        more = {"num_workers": workers, "persistent_workers": KEPT == "kept", "multiprocessing_context": METHOD}
        if METHOD == "forkserver":
            torch.multiprocessing.get_context(METHOD).set_forkserver_preload(["torch", "h5py"])
    loader = data.DataLoader(rows, batch_size=SIZE, sampler=data.RandomSampler(rows), **more)
    told = []
    try:
        try:
            for number in range(int(EPOCHS)):
                told.append(epoch(loader, int(sys.argv[7]) if len(sys.argv) > 7 and number == 1 else None))
        finally:  # PyTorch's handler raises wherever the program is
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    except (RuntimeError, OSError, EOFError) as error:
        # What PyTorch says of a worker that is gone depends on what the worker was at.
        gone = isinstance(error, (ConnectionError, FileNotFoundError, EOFError)) or "DataLoader worker" in str(error)
        told.append("a worker is gone" if gone else repr(error))
    hook = sys.modules.get("forebay.loader_hook")
    print(json.dumps({"told": told, "counts": dict(hook.counts) if hook else {}}))


if __name__ == "__main__":
    main()
