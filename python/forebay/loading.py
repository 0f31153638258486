"""Data loading: a data set for PyTorch's DataLoader, and batches for Keras, tf.data and any other loop.

This module imports no framework. It imports NumPy and h5py when it opens a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from forebay.following import epoch_order, follow
from forebay.plugin import NotEnabled, loaded_plugins


_inherited: list[Any] = []


class HDF5Rows:
    """Rows of datasets of one file, as a map-style data set of PyTorch: ``HDF5Rows("train.h5", "images", "labels")``.

    Item i is the tuple of the i-th rows, as NumPy arrays or scalars, or the row alone for a single dataset. A
    DataLoader gets a batch of items by one call. `transform` is called with each item. Each process opens the file
    read-only at its first use, also a DataLoader's worker with its own copy. Not thread-safe.
    """

    def __init__(
        self, path: str | os.PathLike[str], *names: str, transform: Callable[[Any], Any] | None = None
    ) -> None:
        """Raises ValueError without names. Does not open the file."""
        if not names:
            raise ValueError("name at least one dataset")
        self.path, self.names, self.transform = os.fspath(path), names, transform
        self._file: Any = None
        self._process = 0

    @property
    def file(self) -> Any:
        """The h5py.File of this process. Raises OSError if the file cannot be opened."""
        import h5py

        if self._process != os.getpid():
            _inherited.append(self._file)  # inherited by a fork: only the parent may close it
            self._file = None
        if self._file is None:
            self._file, self._process = h5py.File(self.path, "r"), os.getpid()
        return self._file

    def __len__(self) -> int:
        """The length of the shortest of the datasets."""
        return min(len(self.file[name]) for name in self.names)

    def __getitem__(self, index: int) -> Any:
        """Raises IndexError past the end, KeyError if the file has no such dataset."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        rows = tuple(self.file[name][index] for name in self.names)
        item = rows if len(rows) > 1 else rows[0]
        return item if self.transform is None else self.transform(item)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return [self[index] for index in indices]

    def close(self) -> None:
        """Closes the file of this process; the next use opens it again."""
        if self._file is not None and self._process == os.getpid():
            self._file.close()
        self._file = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}


def batches(*datasets: Any, size: int, seed: int | None = None, epoch: int = 0, ahead: int = 256) -> Iterator[Any]:
    """Iterates one epoch over datasets of equal length: yields tuples of arrays of `size` rows, one for each dataset.

    For a single dataset it yields the arrays alone. The last batch may be shorter. The order is that of the file, or
    with `seed` the shuffled one of `epoch_order`. With forebay on, it prefetches `ahead` rows of the first that is a
    dataset of a file (others are arrays); natively it prefetches nothing.

    For Keras: ``model.fit(batches(x, y, size=32))``. For tf.data: ``tf.data.Dataset.from_generator(lambda: batches(x,
    y, size=32), output_signature=…)``. Raises ValueError without datasets, for unequal lengths, and for a size below 1.
    """
    lengths = {len(dataset) for dataset in datasets}
    if len(lengths) != 1:
        raise ValueError(f"the datasets must have one length, not {sorted(lengths) or 'none'}")
    if size < 1:
        raise ValueError(f"size is {size}; a batch has at least 1 row")
    (length,) = lengths
    order = list(range(length)) if seed is None else epoch_order(length, seed, epoch)
    groups = [order[begin : begin + size] for begin in range(0, length, size)]
    return _batches(datasets, groups, max(1, ahead // size))


def _batches(datasets: Sequence[Any], groups: list[list[int]], ahead: int) -> Iterator[Any]:
    for group in _followed(datasets, groups, ahead):
        arrays = tuple(_rows(dataset, group) for dataset in datasets)
        yield arrays if len(arrays) > 1 else arrays[0]


def _followed(datasets: Sequence[Any], groups: list[list[int]], ahead: int) -> Iterable[list[int]]:
    """Returns the groups, with prefetching where that is possible."""
    of_files = [dataset for dataset in datasets if hasattr(dataset, "file") and hasattr(dataset, "id")]
    if not groups or not of_files or not loaded_plugins():
        return groups
    try:
        return follow(groups, of_files[0], ahead)
    except (ValueError, NotEnabled):  # a virtual or external dataset; an older plugin
        return groups


def _rows(dataset: Any, group: list[int]) -> Any:
    """Returns the rows in this order. HDF5 needs a selection in rising order."""
    places = sorted(range(len(group)), key=group.__getitem__)
    rows = dataset[[group[place] for place in places]]
    back = [0] * len(group)
    for now, place in enumerate(places):
        back[place] = now
    return rows[back]
