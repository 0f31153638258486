"""Prefetches the rows that a program's PyTorch DataLoaders read next. The program needs no change.

startup/sitecustomize.py calls `install` after the program imported PyTorch's DataLoader. `install` wraps three methods:

- ``_next_index`` of a loader's iterator, which gives the next batch of indices. The hook computes the order of the
  epoch itself (`forebay.sampler_order`) and compares it with each batch. It takes nothing from the sampler.
- ``_reset`` of a loader's iterator, with which a persistent loader begins an epoch.
- ``fetch`` of the fetcher that reads a batch, in this process or in a worker (`forebay.loader_watch`).

With workers, each batch carries the indices of later ones, and the worker that gets it prefetches those. A worker
without this hook, for example because its environment was cleared, gets the batch alone.

An error in predicting the order ends following for that epoch; an error in a `Watch` ends it for that data set. The
hook counts both in `counts` and raises neither in the program.
"""

from __future__ import annotations

import functools
import importlib
import operator
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from forebay.loader_watch import Watch, counts
from forebay.sampler_order import ComingOrder, begin

VARIABLE = "FOREBAY_FOLLOW"
AHEAD = 256
_AHEAD_MAX = 1 << 15
_MODULE, _TAKE = "torch.utils.data", "_forebay_take"

__all__ = ["AHEAD", "VARIABLE", "ahead_of", "counts", "install"]


def ahead_of(value: str | None) -> int:
    """Returns the number of items to prefetch, from FOREBAY_FOLLOW: 256 by default, 32768 at most; 0 if it is off."""
    text = (value or "").strip().lower()
    if text in ("off", "no", "false", "0"):
        return 0
    return min(int(text), _AHEAD_MAX) if text.isdecimal() else AHEAD


def install() -> None:
    """Wraps the classes of the imported DataLoader. Does nothing if that was done, or following is off."""
    dataloader = sys.modules["torch.utils.data.dataloader"]
    ahead = ahead_of(os.environ.get(VARIABLE))
    data: Any = sys.modules[_MODULE]
    iterator = dataloader._BaseDataLoaderIter
    fetcher = sys.modules["torch.utils.data._utils.fetch"]._MapDatasetFetcher
    if ahead == 0 or hasattr(iterator._next_index, "__wrapped__"):
        return
    next_index, reset, fetch = iterator._next_index, iterator._reset, fetcher.fetch
    multiple = dataloader._MultiProcessingDataLoaderIter
    is_map = dataloader._DatasetKind.Map

    @functools.wraps(next_index)
    def _next_index(self: Any) -> Any:
        epoch = self.__dict__.get("_forebay_epoch")
        if epoch is None:
            epoch = self.__dict__["_forebay_epoch"] = _Epoch(self, ahead, multiple, is_map)
        index = next_index(self)
        return epoch.given(self, index) if epoch.followed else index

    @functools.wraps(reset)
    def _reset(self: Any, *arguments: Any, **named: Any) -> Any:
        self.__dict__.pop("_forebay_epoch", None)
        return reset(self, *arguments, **named)

    @functools.wraps(fetch)
    def _fetch(self: Any, possibly_batched_index: Any) -> Any:
        watch = self.__dict__.get("_forebay_watch") or _arrived.watch_of(self, possibly_batched_index)
        if watch is None or watch.ended:
            return fetch(self, possibly_batched_index)
        return watch.fetch(fetch, self, possibly_batched_index)

    iterator._next_index, iterator._reset, fetcher.fetch = _next_index, _reset, _fetch
    setattr(data, _TAKE, _arrived.take)


# The watches of loaders that read in this process. They outlive the epoch, and so do the learned rules.
_watches: weakref.WeakKeyDictionary[Any, Watch] = weakref.WeakKeyDictionary()


class _Epoch:
    """One pass of a loader, in the process that has the sampler."""

    def __init__(self, iterator: Any, ahead: int, multiple: Any, is_map: Any) -> None:
        """Called before the iterator takes the first index from the sampler."""
        self.followed = False
        self._begin: Callable[[], ComingOrder] | None = None
        self._order: ComingOrder | None = None
        self._known: deque[int] = deque()  # items that were computed and not given yet
        self._watch: Watch | None = None
        try:
            known = _watches.get(iterator._index_sampler)
            if iterator._dataset_kind != is_map or (known is not None and known.ended):
                return
            self._workers = iterator._num_workers if isinstance(iterator, multiple) else 0
            self._queued = self._workers * max(1, getattr(iterator, "_prefetch_factor", None) or 1)
            self._ahead = ahead
            self._begin = begin(iterator._index_sampler)
            self.followed = self._begin is not None
        except Exception:
            counts["errors"] += 1

    def given(self, iterator: Any, index: Any) -> Any:
        """Returns the index for the iterator: `index`, or with workers a parcel of it and the items to prefetch."""
        try:
            coming = self._coming(index)
            if coming is None:
                self._stop("another order")
                return index
            if self._workers:
                return _Parcel(index, coming)
            if self._watch is None:
                self._watch = _watches.setdefault(iterator._index_sampler, Watch())
                iterator._dataset_fetcher.__dict__["_forebay_watch"] = self._watch
            self._watch.expect(coming)
            if self._watch.ended:
                self._stop("")
        except Exception:
            self._stop("error")
        return index

    def _stop(self, why: str) -> None:
        if why:
            counts[f"ended: {why}"] += 1
        self.followed = False
        self._order = None
        self._known.clear()

    def _coming(self, index: Any) -> list[int] | None:
        """Returns the items to prefetch now, or None if `index` differs from the predicted order."""
        is_first = self._order is None
        if is_first:
            assert self._begin is not None
            self._order, self._begin = self._begin(), None
            counts["epochs"] += 1
        assert self._order is not None
        items = list(index) if self._order.batch_size is not None else [index]
        missing = len(items) - len(self._known)
        if missing > 0:
            self._known.extend(self._order.take(missing))
        if len(self._known) < len(items):
            return None
        if [self._known.popleft() for _ in items] != items:
            return None
        return self._more(len(items), is_first)

    def _more(self, size: int, is_first: bool) -> list[int]:
        ahead = min(max(self._ahead, 2 * size), _AHEAD_MAX)
        if not self._workers:
            wanted = ahead - len(self._known)
            return self._order_take(wanted) if wanted >= ahead // 2 else []
        # Several workers read at once, so the request skips the items of their batches first. Each batch carries a
        # share of the rest.
        being_read = size * self._workers
        if is_first:
            self._order_take(being_read)
        wanted = ahead + being_read - len(self._known)
        return self._order_take(min(wanted, size + -(-ahead // self._queued)))

    def _order_take(self, count: int) -> list[int]:
        assert self._order is not None
        taken = self._order.take(max(0, count))
        self._known.extend(taken)
        return taken


class _Parcel:
    """A batch for a worker, with items of later batches.

    It is unpickled as the batch alone, by the worker's hook, which keeps the items, or else by `operator.itemgetter`,
    which drops them. The pickle names only modules that each worker has.
    """

    def __init__(self, index: Any, coming: list[int]) -> None:
        self._content = (index, coming)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Unpacking(), (self._content,)


class _Unpacking:
    """Pickled as ``getattr(torch.utils.data, "_forebay_take", operator.itemgetter(0))``."""

    def __call__(self, content: tuple[Any, list[int]]) -> Any:
        return content[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (_Module(), _TAKE, operator.itemgetter(0))


class _Module:
    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (_MODULE,)


class _Arrived:
    """In a worker: the newest batch, and the watch of the worker's data set."""

    def __init__(self) -> None:
        self._index: Any = self
        self._coming: Iterable[int] = ()
        self._watch: Watch | None = None

    def take(self, content: tuple[Any, list[int]]) -> Any:
        """Called when a batch is unpickled. Returns the batch."""
        self._index, self._coming = content
        return self._index

    def watch_of(self, fetcher: Any, index: Any) -> Watch | None:
        """Returns the watch for a fetcher that reads the newest batch, or None for any other batch."""
        if index is not self._index:
            return None
        if self._watch is None:
            self._watch = Watch()
        coming, self._index, self._coming = self._coming, self, ()
        self._watch.expect(list(coming))
        return self._watch


_arrived = _Arrived()
