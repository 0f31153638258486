"""Predicts the order in which a PyTorch sampler or a LocalitySampler will give its items.

The module does not iterate a sampler of PyTorch. It computes the order a second time, from a copy of the generator's
state. It iterates a LocalitySampler once more, which changes no state. So the training's order, exceptions and random
states stay the same. This module does not import torch.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

from forebay.locality import LocalitySampler

ITEMS_MAX = 1 << 24  # a permutation of them takes 128 MiB
_PIECE = 4096
_DRAWS = 32  # RandomSampler draws that many at once with replacement


class ComingOrder:
    """The items of one epoch, from the first on. `begin` makes one. Take each item once."""

    def __init__(self, pieces: Iterator[list[int]], batch_size: int | None) -> None:
        self.batch_size = batch_size  # None: the sampler gives single items
        self._items = itertools.chain.from_iterable(pieces)

    def take(self, count: int) -> list[int]:
        """Returns the next `count` items, or fewer at the end of the epoch."""
        return list(itertools.islice(self._items, count))


def begin(index_sampler: Any) -> Callable[[], ComingOrder] | None:
    """Notes the state that decides the order. Call it before the sampler gives its first item.

    Returns a function that computes the order; call it once. Returns None if the order is unpredictable: the sampler is
    a class of the program, a subclass, or uses a generator that is not on the CPU. The function, or the first `take`,
    raises ValueError if a shuffled order has more than ITEMS_MAX items.
    """
    torch = sys.modules["torch"]
    samplers = sys.modules["torch.utils.data.sampler"]
    sampler, batch_size = index_sampler, None
    if type(sampler) is samplers.BatchSampler:
        sampler, batch_size = sampler.sampler, int(sampler.batch_size)
    make = _MAKERS.get(_name_of(sampler))
    if make is None:
        return None
    given = getattr(sampler, "generator", None)
    source = torch.default_generator if given is None else given
    if source.device.type != "cpu":
        return None
    state = source.get_state() if hasattr(sampler, "generator") else None

    def order() -> ComingOrder:
        generator = None
        if state is not None:
            generator = torch.Generator()
            generator.set_state(state)
        return ComingOrder(make(torch, sampler, generator), batch_size)

    return order


def _name_of(sampler: Any) -> str:
    """Returns the name of an exact class of PyTorch or of forebay. A subclass may give any order."""
    kind = type(sampler)
    name = str(kind.__name__)
    if kind is LocalitySampler:
        return name
    for module in ("torch.utils.data.sampler", "torch.utils.data.distributed"):
        if getattr(sys.modules.get(module), name, None) is kind:
            return name
    return ""


def _pieces(numbers: Any) -> Iterator[list[int]]:
    for at in range(0, len(numbers), _PIECE):
        piece = numbers[at : at + _PIECE]
        yield piece.tolist() if hasattr(piece, "tolist") else list(piece)


def _checked(count: int) -> int:
    if not 0 <= count <= ITEMS_MAX:
        raise ValueError(f"an order of {count} items is too long to compute ahead (at most {ITEMS_MAX})")
    return count


def _sequential(torch: Any, sampler: Any, generator: Any) -> Iterator[list[int]]:
    return _pieces(range(len(sampler.data_source)))


def _random(torch: Any, sampler: Any, generator: Any) -> Iterator[list[int]]:
    length, samples = _checked(len(sampler.data_source)), sampler.num_samples
    if sampler.generator is None:  # the sampler takes a seed from the global generator
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
        generator = torch.Generator()
        generator.manual_seed(seed)
    if sampler.replacement:
        for at in range(0, samples, _DRAWS):
            size = (min(_DRAWS, samples - at),)
            yield torch.randint(high=length, size=size, dtype=torch.int64, generator=generator).tolist()
    else:
        for at in range(0, samples, length):
            yield from _pieces(torch.randperm(length, generator=generator)[: samples - at])


def _subset(torch: Any, sampler: Any, generator: Any) -> Iterator[list[int]]:
    for piece in _pieces(torch.randperm(_checked(len(sampler.indices)), generator=generator)):
        yield [int(sampler.indices[at]) for at in piece]


def _weighted(torch: Any, sampler: Any, generator: Any) -> Iterator[list[int]]:
    count = _checked(sampler.num_samples)
    return _pieces(torch.multinomial(sampler.weights, count, sampler.replacement, generator=generator))


def _distributed(torch: Any, sampler: Any, generator: Any) -> Iterator[list[int]]:
    length, total = _checked(len(sampler.dataset)), _checked(sampler.total_size)
    if sampler.shuffle:
        generator = torch.Generator()
        generator.manual_seed(sampler.seed + sampler.epoch)
        order = torch.randperm(length, generator=generator)
    else:
        order = torch.arange(length)
    repeated = order.repeat(math.ceil(total / length))[:total] if total > length else order[:total]
    return _pieces(repeated[sampler.rank :: sampler.num_replicas].clone())


def _locality(torch: Any, sampler: Any, generator: Any) -> Iterator[list[int]]:
    _checked(len(sampler.dataset))
    return _pieces(list(iter(sampler)))


_MAKERS: dict[str, Callable[[Any, Any, Any], Iterator[list[int]]]] = {
    "SequentialSampler": _sequential,
    "RandomSampler": _random,
    "SubsetRandomSampler": _subset,
    "WeightedRandomSampler": _weighted,
    "DistributedSampler": _distributed,
    "LocalitySampler": _locality,
}
