"""A simulation that computes and writes checkpoints, by one of several libraries; and the check of what it wrote.

    program.py WAY --target DIR [--memory DIR] [--steps 4] [--arrays 8] [--mib 8] [--compute 0.8]
    program.py WAY --target DIR --verify [the same sizes]

Prints one JSON object: the seconds that the program waited in calls of the library, and until all was at the target;
or the number of wrong bytes. Runs with the Python that has the library, and without the rest of this package.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

UNAVAILABLE = 4  # exit status: the library is not here, or cannot do this


class Clock:
    """The seconds that the program waits."""

    def __init__(self) -> None:
        self.waited_s = 0.0

    @contextlib.contextmanager
    def waiting(self):
        began = time.monotonic()
        yield
        self.waited_s += time.monotonic() - began


def array_of(step: int, number: int, size: int) -> np.ndarray:
    return np.random.default_rng(1000 * step + number).integers(0, 1 << 62, size // 8, dtype=np.int64)


class Way:
    """Writes a state of arrays at each step. `finish` returns when all is at the target."""

    def __init__(self, target: Path, memory: Path | None) -> None:
        self.target, self.memory = target, memory

    def write(self, step: int, state: dict[str, np.ndarray]) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        pass

    def read(self, step: int) -> dict[str, np.ndarray]:
        raise NotImplementedError


class OneFile(Way):
    """h5py: one file, a group for each step, a flush after it. Also with forebay, by the environment alone."""

    file = None

    def write(self, step, state):
        import h5py

        self.file = self.file or h5py.File(self.target / "run.h5", "w")
        group = self.file.create_group(f"step{step}")
        for name, array in state.items():
            group[name] = array
        self.file.flush()

    def finish(self):
        self.file.close()

    def read(self, step):
        import h5py

        with h5py.File(self.target / "run.h5", "r") as file:
            return {name: data[()] for name, data in file[f"step{step}"].items()}


class FilesOfSteps(Way):
    """h5py: one file for each step."""

    def path(self, step: int) -> Path:
        return self.target / f"step{step}.h5"

    def write(self, step, state):
        self.write_file(self.path(step), state)

    @staticmethod
    def write_file(path: Path, state: dict[str, np.ndarray]) -> None:
        import h5py

        with h5py.File(path, "w") as file:
            for name, array in state.items():
                file[name] = array

    def read(self, step):
        import h5py

        with h5py.File(self.path(step), "r") as file:
            return {name: data[()] for name, data in file.items()}


class FilesOfStepsDeferred(FilesOfSteps):
    """The same with forebay's deferred close. The end waits for the drain, as a job script does."""

    def write(self, step, state):
        super().write(step, state)
        self.last = step

    def finish(self):
        files = [self.path(step) for step in range(self.last + 1)]
        area = os.environ["FOREBAY_NLS"]
        subprocess.run(
            [os.environ["RIVALS_FOREBAY"], "wait", "--quiet", "--no-sync", "--nls", area, *files], check=True
        )


class CopyBack(FilesOfSteps):
    """h5py writes each file into memory. `cp` brings it to the target, beside the program."""

    def __init__(self, target, memory):
        super().__init__(target, memory)
        self.copies: list[subprocess.Popen] = []

    def write(self, step, state):
        staged = self.memory / f"step{step}.h5"
        self.write_file(staged, state)
        self.copies.append(subprocess.Popen(["cp", staged, self.path(step)]))

    def finish(self):
        for copy in self.copies:
            if copy.wait() != 0:
                sys.exit("cp failed")


class Adios(Way):
    """ADIOS2's BP5: a step of a stream. `asynchronous`: its thread writes."""

    asynchronous = False
    stream = None

    def write(self, step, state):
        import adios2

        if self.stream is None:
            io = adios2.Adios().declare_io("run")
            io.set_engine("BP5")
            if self.asynchronous:
                io.set_parameters({"AsyncWrite": "on", "BufferChunkSize": str(32 << 20)})
            self.stream = adios2.Stream(io, str(self.target / "run.bp"), "w")
        self.stream.begin_step()
        for name, array in state.items():
            self.stream.write(name, array, array.shape, [0], array.shape)
        self.stream.end_step()

    def finish(self):
        self.stream.close()

    def read(self, step):
        import adios2

        with adios2.FileReader(str(self.target / "run.bp")) as file:
            return {name: file.read(name, step_selection=[step, 1]).reshape(-1) for name in file.available_variables()}


class AdiosAsync(Adios):
    asynchronous = True


class TorchSave(Way):
    """torch.save: one file for each step."""

    def write(self, step, state):
        import torch

        torch.save({name: torch.from_numpy(array) for name, array in state.items()}, self.target / f"step{step}.pt")

    def read(self, step):
        import torch

        return {name: tensor.numpy() for name, tensor in torch.load(self.target / f"step{step}.pt").items()}


class TorchAsyncSave(Way):
    """torch.distributed.checkpoint.async_save: it copies the state, and a thread writes it."""

    pending = None

    def __init__(self, target, memory):
        super().__init__(target, memory)
        import torch

        try:
            from torch.distributed.checkpoint import async_save  # noqa: F401
        except ImportError:
            print(f"PyTorch {torch.__version__} has no torch.distributed.checkpoint.async_save", file=sys.stderr)
            sys.exit(UNAVAILABLE)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29511")
        torch.distributed.init_process_group("gloo", rank=0, world_size=1)

    def write(self, step, state):
        import torch
        from torch.distributed.checkpoint import async_save

        if self.pending is not None:
            self.pending.result()
        tensors = {name: torch.from_numpy(array) for name, array in state.items()}
        self.pending = async_save(tensors, checkpoint_id=str(self.target / f"step{step}"))

    def finish(self):
        self.pending.result()

    def read(self, step):
        import torch
        from torch.distributed.checkpoint import FileSystemReader, load

        reader = FileSystemReader(str(self.target / f"step{step}"))
        found = reader.read_metadata().state_dict_metadata
        tensors = {name: torch.empty(meta.size, dtype=torch.int64) for name, meta in found.items()}
        load(tensors, storage_reader=reader)
        return {name: tensor.numpy() for name, tensor in tensors.items()}


class CopyOut(FilesOfSteps):
    """h5py writes into a mount of another file system (`--memory`). The program copies the files out at its end."""

    def write(self, step, state):
        self.write_file(self.memory / f"step{step}.h5", state)
        self.last = step

    def finish(self):
        for step in range(self.last + 1):
            shutil.copyfile(self.memory / f"step{step}.h5", self.path(step))


WAYS = {
    "one-file": OneFile,
    "files": FilesOfSteps,
    "files-deferred": FilesOfStepsDeferred,
    "copy-back": CopyBack,
    "copy-out": CopyOut,
    "adios2": Adios,
    "adios2-async": AdiosAsync,
    "torch-save": TorchSave,
    "torch-async-save": TorchAsyncSave,
}


def compute(seconds: float) -> None:
    """Keeps one core busy."""
    end, grid = time.monotonic() + seconds, np.ones((256, 256))
    while time.monotonic() < end:
        grid[1:-1, 1:-1] = 0.25 * (grid[2:, 1:-1] + grid[:-2, 1:-1] + grid[1:-1, 2:] + grid[1:-1, :-2])


def wrong_bytes(way: Way, steps: int, arrays: int, size: int) -> int:
    """Counts the bytes that are not as they were written; all of an array that cannot be read."""
    wrong = 0
    for step in range(steps):
        try:
            seen = way.read(step)
        except Exception as error:
            print(f"step {step}: {error}", file=sys.stderr)
            seen = {}
        for number in range(arrays):
            expected, found = array_of(step, number, size), seen.get(f"array{number}")
            if found is None or found.shape != expected.shape:
                wrong += size
            else:
                wrong += int((found.view(np.uint8) != expected.view(np.uint8)).sum())
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--memory", type=Path)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--arrays", type=int, default=8)
    parser.add_argument("--mib", type=int, default=8)
    parser.add_argument("--compute", type=float, default=0.8)
    parser.add_argument("--verify", action="store_true")
    given = parser.parse_args()
    size = given.mib << 20
    try:
        way = WAYS[given.way](given.target, given.memory)
        if given.verify:
            print(json.dumps({"wrong_bytes": wrong_bytes(way, given.steps, given.arrays, size)}))
            return
        clock, began = Clock(), time.monotonic()
        for step in range(given.steps):
            state = {f"array{number}": array_of(step, number, size) for number in range(given.arrays)}
            compute(given.compute)
            with clock.waiting():
                way.write(step, state)
        # A last step of computing, so that the last checkpoint has as much to hide behind as the others.
        compute(given.compute)
        with clock.waiting():
            way.finish()
        print(json.dumps({"waited_s": clock.waited_s, "total_s": time.monotonic() - began}))
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(UNAVAILABLE)


if __name__ == "__main__":
    main()
