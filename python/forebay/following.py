"""``forebay.follow``: prefetches along the order of an epoch, which is known before the epoch begins."""

from __future__ import annotations

import errno
import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from forebay.byte_ranges import ByteRanges
from forebay.plugin import require_plugins
from forebay.prefetching import hand_over, is_cached

Item = TypeVar("Item")


def epoch_order(length: int, seed: int, epoch: int) -> list[int]:
    """Returns the numbers below `length` in an order that depends only on seed and epoch, in every process and run."""
    order = list(range(length))
    random.Random(f"{seed} {epoch}").shuffle(order)
    return order


def follow(order: Iterable[Item], dataset: Any, ahead: int = 256) -> Iterator[Item]:
    """Yields the items of `order` unchanged, and prefetches the parts of `dataset` that the next `ahead` items select.

    `order` is a list, an iterator or a sampler. Its items are indices of the dataset's first axis, lists of such
    indices (batches), or any other index of the dataset. `follow` takes at most `ahead` items from `order` before it
    yields them.

    The ranges go to the plugin in the order of the items, about ``ahead / 2`` items at a time. The plugin drops ranges
    if it has no room to note them, and the program reads those itself. If the file is not read through the cache (for
    example because it is local, open for writing, or was opened before forebay was on), or is no longer, or if the
    program closes it, `follow` prefetches nothing and yields the items anyway.

    Raises NotEnabled without the plugin, ValueError if `ahead` is below 1, or if the dataset of a cached file is
    virtual or external.
    """
    if ahead < 1:
        raise ValueError(f"ahead is {ahead}; it must be at least 1")
    require_plugins()
    return _follow(iter(order), dataset, ByteRanges(dataset) if is_cached(dataset) else None, ahead)


def _follow(coming: Iterator[Item], dataset: Any, places: ByteRanges | None, ahead: int) -> Iterator[Item]:
    window: deque[Item] = deque()
    exhausted = False
    while True:
        if not exhausted and len(window) <= ahead // 2:
            fresh: list[Item] = []
            while len(window) + len(fresh) < ahead and not exhausted:
                try:
                    fresh.append(next(coming))
                except StopIteration:
                    exhausted = True
            if places is not None and not _ask(dataset, places, fresh):
                places = None
            window.extend(fresh)
        if not window:
            return
        yield window.popleft()


def _ask(dataset: Any, places: ByteRanges, items: Iterable[Any]) -> bool:
    """Requests the items' bytes. Returns False if `follow` should request no more; True also if too many wait already.

    A closed dataset has neither a file nor a layout.
    """
    if not dataset.id.valid:
        return False
    try:
        hand_over(dataset, [one for item in items for one in places.of(item)])
    except OSError as refusal:
        return refusal.errno == errno.EAGAIN
    return True
