"""Trains a small network on samples in HDF5 files, with PyTorch and h5py, and nothing else.

    python train.py --model image --data images.h5                     one file with all samples
    python train.py --model volume --data volumes/ --workers 2         a folder of files, opened anew for each sample
    mpiexec -n 2 python train.py --model image --data images.h5        two ranks share each epoch

Prints one line of JSON for each epoch: its seconds, the samples of all ranks, the seconds in which the (first) rank
waited for data, the mean loss, and the sum of all values that were read.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class OneFile(Dataset):
    """All samples in one file, which each process opens once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = None
        with h5py.File(path) as file:
            self._length = len(file["records_0"])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int):
        if self._file is None:  # in the worker that reads, not in the process that made it
            self._file = h5py.File(self._path)
        return self._file["records_0"][index], self._file["labels"][index]


class ManyFiles(Dataset):
    """A few samples in each of many files; a file is opened for each sample and closed again."""

    def __init__(self, folder: Path) -> None:
        self._places = []
        for path in sorted(folder.glob("*.h5")):
            with h5py.File(path) as file:
                self._places += [(path, index) for index in range(len(file["records_0"]))]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int):
        path, place = self._places[index]
        with h5py.File(path) as file:
            return file["records_0"][place], file["labels"][place]


def image_network() -> nn.Module:
    """AlexNet's layers with few channels, for images of 224 x 224 x 3; 10 classes."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 11, stride=8, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Linear(24 * 36, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def volume_network() -> nn.Module:
    """Two 3-D convolutions for volumes of four channels, as CosmoFlow's; 4 parameters of the universe."""
    return nn.Sequential(
        nn.Conv3d(4, 8, 5, stride=4, padding=2), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(8, 16, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool3d(4), nn.Flatten(), nn.Linear(16 * 64, 32), nn.ReLU(), nn.Linear(32, 4),
    )  # fmt: skip


# The network, its loss, and how many samples are in a batch.
MODELS = {"image": (image_network, nn.CrossEntropyLoss(), 32), "volume": (volume_network, nn.MSELoss(), 4)}


def rank_and_size() -> tuple[int, int]:
    """As torchrun, MPICH or Open MPI tells them; (0, 1) without a launcher."""
    for rank, size in (
        ("RANK", "WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ):
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def added_up(value: int, size: int) -> int:
    total = torch.tensor(value, dtype=torch.int64)
    if size > 1:
        distributed.all_reduce(total)
    return int(total)


def timed(batches: Iterator) -> Iterator:
    """The batches, each with the seconds that it was waited for."""
    while True:
        begin = time.monotonic()
        try:
            samples, labels = next(batches)
        except StopIteration:
            return
        yield samples, labels, time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="a file, or a folder with files")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0, help="processes that read; 0: the one that trains")
    parser.add_argument("--threads", type=int, default=1, help="that compute")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    make, loss_of, batch = MODELS[options.model]
    model = make()
    rank, size = rank_and_size()
    if size > 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")
        distributed.init_process_group("gloo", rank=rank, world_size=size)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    data = ManyFiles(options.data) if options.data.is_dir() else OneFile(options.data)
    order = DistributedSampler(data, size, rank, shuffle=True, seed=options.seed)
    loader = DataLoader(
        data, batch, sampler=order, num_workers=options.workers, persistent_workers=options.workers > 0
    )  # fmt: skip
    for epoch in range(options.epochs):
        order.set_epoch(epoch)
        begin = time.monotonic()
        samples_read = values = 0
        waited_s = losses = 0.0
        for samples, labels, seconds in timed(iter(loader)):
            waited_s += seconds
            values += int(samples.sum(dtype=torch.int64))
            optimizer.zero_grad()
            loss = loss_of(model(samples.movedim(-1, 1).float() / 255), labels)
            loss.backward()
            optimizer.step()
            losses += loss.item() * len(samples)
            samples_read += len(samples)
        loss_mean = losses / samples_read
        samples_read, values = added_up(samples_read, size), added_up(values, size)
        told = {"epoch": epoch + 1, "seconds": time.monotonic() - begin, "samples": samples_read, "waited_s": waited_s}
        if rank == 0:
            print(json.dumps(told | {"loss": loss_mean, "values": values}), flush=True)


if __name__ == "__main__":
    main()
