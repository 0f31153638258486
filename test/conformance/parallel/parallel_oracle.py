"""Runs parallel_oracle, and compares what its files hold with what it expects of them: natively, with h5py."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy
from connector_environment import native
from parallel_environment import Launch, launch, node_names, program

LAUNCH_SECONDS_MAX = 240
SEED_SECONDS_MAX = 40


@dataclass(frozen=True)
class Ran:
    """What came of one launch."""

    done: Launch
    folder: Path  # one folder per seed

    def told(self, again: str) -> str:
        """For the message of a failed assertion."""
        return f"again: {again}\n{self.done.told()}"


def run_oracle(
    folder: Path,
    ranks: int,
    seeds: range,
    environment: dict[str, str],
    nodes: int = 1,
    arguments: tuple[str, ...] = (),
    seconds_max: float = LAUNCH_SECONDS_MAX,
) -> Ran:
    """Runs the programs of these seeds, one after the other; the ranks are spread over played nodes.

    A launch may take `seconds_max`, and SEED_SECONDS_MAX for each seed.
    """
    more = ("--between-nodes",) if nodes > 1 else ()
    command = [
        program("parallel_oracle"),
        "--seeds",
        f"{seeds.start}..{seeds.stop - 1}",
        "--dir",
        folder,
        *more,
        *arguments,
    ]
    per_rank = node_names(ranks, nodes) if nodes > 1 else None
    return Ran(
        launch(command, environment, folder, ranks, seconds_max + SEED_SECONDS_MAX * len(seeds), per_rank), folder
    )


def differences(folder: Path) -> list[str]:
    """What the files of one seed hold otherwise than they must."""
    found = []
    arrays = numpy.fromfile(folder / "expected.arrays", dtype=numpy.uint8)
    at, objects, current = 0, {}, None
    files: dict[str, h5py.File] = {}
    try:
        for line in (folder / "expected.index").read_text().splitlines():
            kind, *words = line.split()
            if kind == "attribute":
                wanted = numpy.array(words[1:], dtype=numpy.int64)
                if (
                    current is None
                    or words[0] not in current.attrs
                    or not numpy.array_equal(current.attrs[words[0]], wanted)
                ):
                    found.append(f"attribute {words[0]} of {current}")
                continue
            file = files.setdefault(words[0], h5py.File(folder / words[0], "r", locking=False))
            objects.setdefault(words[0], set()).add(words[1])
            current = file.get(words[1])
            if kind == "group":
                found += [] if isinstance(current, h5py.Group) else [f"no group {words[0]}{words[1]}"]
                continue
            shape = tuple(map(int, words[3:]))
            count = int(numpy.prod(shape, dtype=numpy.int64))
            values, at = arrays[at : at + 8 * count].view(numpy.int64), at + 8 * count
            known, at = arrays[at : at + count].view(bool), at + count
            found += compare(f"{words[0]}{words[1]}", current, shape, values, known)
        for name, file in files.items():
            there: set[str] = set()
            file.visit(lambda path, there=there: there.add("/" + path))
            if there != objects[name]:
                found.append(f"{name} has {sorted(there ^ objects[name])} too much or too little")
    finally:
        for file in files.values():
            file.close()
    return found


def compare(name: str, dataset, shape: tuple[int, ...], values: numpy.ndarray, known: numpy.ndarray) -> list[str]:
    """The elements that are known are what they must be."""
    if not isinstance(dataset, h5py.Dataset) or dataset.shape != shape:
        return [f"{name} is {dataset}, not a dataset of {shape}"]
    with numpy.errstate(invalid="ignore"):  # an element that is unknown may be no number
        got = dataset[...].astype(numpy.int64).reshape(-1)
    wrong = numpy.flatnonzero((got != values) & known)
    if wrong.size == 0:
        return []
    first = wrong[0]
    return [f"{name}: {wrong.size} of {got.size} wrong, the first at {first}: {got[first]} instead of {values[first]}"]


def assert_right(ran: Ran, seeds: range, again: str) -> None:
    """Every read of every rank gave what it must, and so does every byte of the files afterwards."""
    assert ran.done.hung is None and ran.done.returncode == 0, ran.told(again)
    for seed in seeds:
        assert differences(ran.folder / str(seed)) == [], f"seed {seed}; {ran.told(again)}"
        shutil.rmtree(ran.folder / str(seed))


def native_environment() -> dict[str, str]:
    """Without forebay."""
    return native()


def is_wrong_natively(folder: Path, ranks: int, seed: int, arguments: tuple[str, ...], runs: int = 3) -> bool:
    """HDF5 itself goes wrong with the program of this seed, in one of so many runs: hangs, crashes or misreads."""
    for run in range(runs):
        seeds = range(seed, seed + 1)
        ran = run_oracle(folder / f"native-{seed}-{run}", ranks, seeds, native_environment(), 1, arguments, 30)
        if ran.done.hung is not None or ran.done.returncode != 0 or differences(ran.folder / str(seed)):
            return True
    return False
