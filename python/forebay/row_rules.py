"""Rules from an item of a data set to the dataset rows that it reads.

The first items teach the rules, and each later item checks them. A rule says that item i reads one dataset from row
``stride * i + first`` on. If the data set spans several files, each file's dataset has its own `first`, and all share
one stride. The lengths of the datasets tell which file holds an item. This module knows neither HDF5 nor PyTorch.
"""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

FITS_MIN = 8  # items that must fit before the first prediction
DATASETS_MAX = 4096
_SILENT_MAX = 64  # items without any read, after which the rules give up

Key = tuple[bytes, bytes]  # the file's name and the dataset's


class Read(NamedTuple):
    """One read of a dataset, by rows of its first axis."""

    key: Key
    length: int  # rows of the dataset
    rows: Sequence[int]  # the rows that were read
    is_slice: bool  # True for one slice, False for single rows
    rest: tuple[Any, ...]  # the other parts of the index


class Misfit(Exception):
    """A read that fits no rule."""


class _Rule:
    def __init__(self, item: int, read: Read) -> None:
        self.item, self.row = item, read.rows[0]  # one observation
        self.length, self.span, self.rest = read.length, _span(read), read.rest
        self.first: int | None = None  # the row of item 0, once the stride is known


class RowRules:
    """The rules of one data set. `note` and `note_batch` raise Misfit for a read that breaks a rule.

    Do not use the object after that.
    """

    def __init__(self) -> None:
        self.stride = 0  # 0: not known yet
        self._rules: dict[Key, _Rule] = {}
        # For each dataset's name the items of each file, in rising order: (first item, end, key).
        self._items: dict[bytes, list[tuple[int, int, Key]]] = {}
        self._fits = self._silent = 0

    @property
    def known(self) -> bool:
        """True if enough items fit."""
        return self.stride != 0 and self._fits >= FITS_MIN

    def note(self, item: int, reads: Sequence[Read]) -> None:
        """Checks the reads of an item, and learns from them."""
        if not reads:
            self._silent += 1
            if self.known or self._silent > _SILENT_MAX:
                raise Misfit
            return
        for read in reads:
            self._note(item, read)
        if self.known and {key for key, _ in self.rows_of(item)} != {read.key for read in reads}:
            raise Misfit
        self._fits += 1

    def note_batch(self, items: Sequence[int], reads: Sequence[Read]) -> None:
        """Works like `note`, for items that were read together. Each dataset must give one row for each item."""
        rows_of: dict[Key, list[int]] = {}
        for read in reads:
            rows_of.setdefault(read.key, []).extend(read.rows)
        last = {read.key: read for read in reads}
        pairs: dict[int, list[Read]] = {item: [] for item in items}
        for key, rows in rows_of.items():
            ordered = sorted(pairs)
            if len(rows) == len(items):
                # A program may read rows in the order of the items, or in the rising order that HDF5 needs for a
                # selection.
                is_rising = rows == sorted(rows) and len(rows) > 1
                matched = list(zip(sorted(items) if is_rising else items, rows))
            elif len(rows) == len(ordered):
                matched = list(zip(ordered, sorted(rows)))
            else:
                raise Misfit
            for item, row in matched:
                pairs[item].append(last[key]._replace(rows=(row,), is_slice=False))
        for item, found in pairs.items():
            self.note(item, found)

    def rows_of(self, item: int) -> list[tuple[Key, int]]:
        """Returns the key and the first row of each dataset that the item will read."""
        found = []
        for places in self._items.values():
            at = bisect.bisect_right(places, (item, math.inf)) - 1
            if at >= 0 and item < places[at][1]:
                key = places[at][2]
                first = self._rules[key].first
                assert first is not None
                found.append((key, self.stride * item + first))
        return found

    def selection(self, key: Key, row: int) -> tuple[Any, ...]:
        """Returns the index expression for the read that begins at `row`."""
        rule = self._rules[key]
        part = row if rule.span is None else slice(row, min(row + rule.span, rule.length))
        return (part, *rule.rest)

    def _note(self, item: int, read: Read) -> None:
        if not read.rows:
            raise Misfit
        rule = self._rules.get(read.key)
        row = read.rows[0]
        if rule is None:
            if len(self._rules) >= DATASETS_MAX:
                raise Misfit
            rule = self._rules[read.key] = _Rule(item, read)
            if self.stride:
                self._place(read.key, rule)
            return
        if read.length != rule.length or read.rest != rule.rest or not _spans_alike(read, rule):
            raise Misfit
        if self.stride == 0 and item != rule.item:
            stride, left = divmod(row - rule.row, item - rule.item)
            if left or stride < 1:
                raise Misfit
            self.stride = stride
            for key, one in self._rules.items():
                self._place(key, one)
        if row - rule.row != self.stride * (item - rule.item):
            raise Misfit

    def _place(self, key: Key, rule: _Rule) -> None:
        """Notes the items that the dataset holds. Two files with a dataset of one name must hold different items."""
        rule.first = rule.row - self.stride * rule.item
        begin = max(0, -(rule.first // self.stride))
        end = -((rule.first - rule.length) // self.stride)
        places = self._items.setdefault(key[1], [])
        at = bisect.bisect_right(places, (begin, math.inf))
        if (at > 0 and places[at - 1][1] > begin) or (at < len(places) and places[at][0] < end):
            raise Misfit
        places.insert(at, (begin, end, key))


def _span(read: Read) -> int | None:
    if read.is_slice:
        return len(read.rows)
    if len(read.rows) != 1:
        raise Misfit
    return None


def _spans_alike(read: Read, rule: _Rule) -> bool:
    if not read.is_slice:
        return rule.span is None and len(read.rows) == 1
    if rule.span is None:
        return False
    end = read.rows[0] + len(read.rows)
    return len(read.rows) == rule.span or (len(read.rows) < rule.span and end == rule.length)


def read_of(key: Key, length: int, arguments: Any) -> Read | None:
    """Returns the read that ``dataset[arguments]`` makes, or None if it covers all rows and so identifies no item.

    Raises Misfit for a selection by anything but numbers, slices and lists of numbers.
    """
    parts = arguments if isinstance(arguments, tuple) else (arguments,)
    if not parts or parts[0] is Ellipsis:
        return None
    part, rest = parts[0], parts[1:]
    if any(not isinstance(one, (int, slice, str, type(Ellipsis))) for one in rest):
        raise Misfit
    if isinstance(part, slice):
        rows = range(*part.indices(length))
        if len(rows) == length:
            return None
        if rows.step != 1:
            raise Misfit
        return Read(key, length, rows, True, rest)
    if isinstance(part, list) or getattr(part, "ndim", 0) == 1:
        if getattr(part, "dtype", None) == bool or (
            part and isinstance(part[0], bool) if isinstance(part, list) else False
        ):
            raise Misfit
        return Read(key, length, [_row(one, length) for one in part], False, rest)
    if isinstance(part, (str, bytes)):
        return None  # a field of all rows
    return Read(key, length, (_row(part, length),), False, rest)


def _row(number: Any, length: int) -> int:
    try:
        row = operator.index(number)
    except TypeError:
        raise Misfit from None
    return row + length if row < 0 else row
