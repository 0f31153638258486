"""Translates a selection of a dataset into ranges of bytes in the file.

This module uses only HDF5's public calls, through h5py's low level. The ranges are for prefetching, so they may cover
slightly more than the selection. Ranges less than a block of the cache apart are joined. A selection of very many
pieces becomes its hull.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

Range = tuple[int, int]  # offset and length, in bytes of the file
_Run = tuple[int, int]  # begin and end, half-open

GAP_BYTES_MAX = 4096  # a block of the cache
PIECES_MAX = 1 << 16


class ByteRanges:
    """The layout of one dataset, looked up once.

    The dataset (h5py.Dataset) is contiguous or chunked, with or without filters; a compact one has no ranges. The
    values of variable length lie elsewhere in the file and are not found. The look-up of a chunked dataset reads its
    complete chunk index, at the first use and in the caller's thread. Raises ValueError for a virtual dataset and for
    one with external files, because its bytes lie in other files.
    """

    def __init__(self, dataset: Any) -> None:
        from h5py import h5d

        creation = dataset.id.get_create_plist()
        layout = creation.get_layout()
        if layout == getattr(h5d, "VIRTUAL", None) or creation.get_external_count() > 0:
            raise ValueError(f"{dataset.name}: the bytes of a virtual or external dataset lie in other files")
        self._dataset = dataset
        self._shape: tuple[int, ...] | None = dataset.shape
        self._item_bytes: int = dataset.id.get_type().get_size()
        self._chunk_shape: tuple[int, ...] | None = dataset.chunks if layout == h5d.CHUNKED else None
        # If the file has a user block, HDF5 reports an offset even for a dataset without storage.
        stored = layout == h5d.CONTIGUOUS and dataset.id.get_storage_size() > 0
        self._offset: int | None = dataset.id.get_offset() if stored else None
        self._chunks: dict[tuple[int, ...], Range] | None = None
        self._sieve_bytes = 0 if self._offset is None else _sieve_bytes(dataset)

    def of(self, selection: Any = None) -> list[Range]:
        """Returns the ranges of a selection, in the order of the file. None selects everything, as ``...`` does.

        `selection` is an index of the dataset: integers, slices, lists, boolean masks, or a tuple of these. Unwritten
        parts have no bytes. Raises IndexError for a selection outside the dataset.
        """
        if self._shape is None:
            return []
        axes = _axes(selection, self._shape)
        if any(not runs for runs in axes):
            return []
        if self._chunk_shape is not None:
            return merged(self._touched(axes, self._chunk_shape, selection is None))
        if self._offset is None:
            return []
        pieces = _pieces(axes, self._shape)
        item = self._item_bytes
        return merged((self._offset + begin * item, (end - begin) * item) for begin, end in pieces)

    def read_for(self, selection: Any = None) -> list[Range]:
        """Returns the ranges that HDF5 reads for a selection; `of` returns those of the values.

        For a small piece of a contiguous dataset HDF5 reads a full sieve buffer (64 KiB, unless the program sets
        another size) from the piece on. The buffer ends with the dataset at the latest.
        """
        if self._offset is None or self._shape is None:
            return self.of(selection)
        end = self._offset + math.prod(self._shape) * self._item_bytes
        return merged(
            (offset, max(length, min(self._sieve_bytes, end - offset))) for offset, length in self.of(selection)
        )

    def detach(self) -> None:
        """Looks up the layout now, and drops the dataset, which may then be closed."""
        if self._shape is not None and self._chunk_shape is not None and self._chunks is None:
            self._chunks = _chunk_table(self._dataset, self._chunk_shape)
        self._dataset = None

    def _touched(self, axes: list[list[_Run]], chunk: tuple[int, ...], everything: bool) -> Iterable[Range]:
        if self._chunks is None:
            self._chunks = _chunk_table(self._dataset, chunk)
        chunks = self._chunks
        if everything:
            return chunks.values()
        numbers = [
            {number for begin, end in runs for number in range(begin // size, (end - 1) // size + 1)}
            for runs, size in zip(axes, chunk)
        ]
        if math.prod(map(len, numbers)) > len(chunks):
            return [
                place for at, place in chunks.items() if all(number in touched for number, touched in zip(at, numbers))
            ]
        return [chunks[at] for at in itertools.product(*numbers) if at in chunks]


def _sieve_bytes(dataset: Any) -> int:
    from h5py import h5i

    return int(h5i.get_file_id(dataset.id).get_access_plist().get_sieve_buf_size())


def _chunk_table(dataset: Any, chunk: tuple[int, ...]) -> dict[tuple[int, ...], Range]:
    table: dict[tuple[int, ...], Range] = {}

    def take(info: Any) -> None:
        if info.byte_offset is not None and info.size:
            at = tuple(begin // size for begin, size in zip(info.chunk_offset, chunk))
            table[at] = (info.byte_offset, info.size)

    if hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(take)
    else:  # HDF5 before 1.14: each call searches its chunk from the start
        for index in range(dataset.id.get_num_chunks()):
            take(dataset.id.get_chunk_info(index))
    return table


def merged(ranges: Iterable[Range], gap_bytes_max: int = GAP_BYTES_MAX) -> list[Range]:
    """Returns the ranges in the order of the file, joined if at most `gap_bytes_max` lie between two."""
    result: list[Range] = []
    for offset, length in sorted(ranges):
        if result and offset <= sum(result[-1]) + gap_bytes_max:
            begin, before = result[-1]
            result[-1] = (begin, max(before, offset + length - begin))
        elif length > 0:
            result.append((offset, length))
    return result


def _pieces(axes: list[list[_Run]], shape: tuple[int, ...]) -> list[_Run]:
    """Returns element numbers in row-major order, as runs. Works from the last axis to the first."""
    inner: list[_Run] = [(0, 1)]
    size = 1
    for runs, length in zip(reversed(axes), reversed(shape)):
        if inner == [(0, size)]:
            inner = [(begin * size, end * size) for begin, end in runs]
        else:
            rows = sum(end - begin for begin, end in runs)
            if rows * len(inner) > PIECES_MAX:
                inner = [(inner[0][0], inner[-1][1])]
            if rows * len(inner) > PIECES_MAX:
                inner = [(runs[0][0] * size + inner[0][0], (runs[-1][1] - 1) * size + inner[-1][1])]
            else:
                inner = [
                    (row * size + begin, row * size + end)
                    for first, last in runs
                    for row in range(first, last)
                    for begin, end in inner
                ]
        size *= length
    return inner


def _axes(selection: Any, shape: tuple[int, ...]) -> list[list[_Run]]:
    """Returns, for each axis, the runs of selected indices in ascending order."""
    parts = list(selection) if isinstance(selection, tuple) else [... if selection is None else selection]
    parts = [part for part in parts if not isinstance(part, (str, bytes))]  # names of fields
    used = sum(_axes_of(part) for part in parts)
    if used > len(shape):
        raise IndexError(f"a selection of {used} axes in a dataset of {len(shape)}")
    missing = [slice(None)] * (len(shape) - used)
    places = [number for number, part in enumerate(parts) if part is Ellipsis]
    if len(places) > 1:
        raise IndexError("a selection has at most one ellipsis")
    place = places[0] if places else len(parts)
    parts[place : place + 1] = missing
    axes: list[list[_Run]] = []
    for part in parts:
        if _axes_of(part) > 1:
            axes += _mask_axes(part)
        else:
            axes.append(_runs(part, shape[len(axes)]))
    return axes


def _axes_of(part: Any) -> int:
    if part is Ellipsis:
        return 0
    mask = getattr(part, "dtype", None) == bool
    return max(1, part.ndim) if mask else 1


def _mask_axes(mask: Any) -> list[list[_Run]]:
    """Returns the smallest axis-by-axis selection that covers a mask over several axes."""
    return [_joined(sorted(set(numbers.tolist()))) for numbers in mask.nonzero()]


def _runs(part: Any, length: int) -> list[_Run]:
    if isinstance(part, slice):
        begin, end, step = part.indices(length)
        if step == 1:
            return [(begin, end)] if begin < end else []
        return _joined(sorted(range(begin, end, step)))
    if hasattr(part, "__len__") or getattr(part, "ndim", 0) > 0:
        return _joined(sorted({_index(number, length) for number in _numbers(part)}))
    number = _index(part, length)
    return [(number, number + 1)]


def _numbers(part: Any) -> Sequence[Any]:
    items = part.tolist() if hasattr(part, "tolist") else list(part)
    if items and all(isinstance(item, bool) for item in items):
        return [number for number, chosen in enumerate(items) if chosen]
    return items


def _index(number: Any, length: int) -> int:
    index = operator.index(number)
    if not -length <= index < length:
        raise IndexError(f"index {index} is outside of an axis of {length}")
    return index % length


def _joined(numbers: list[int]) -> list[_Run]:
    runs: list[_Run] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return runs
