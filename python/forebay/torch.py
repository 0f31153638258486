"""Samplers for PyTorch's DataLoader. This module does not import torch: a DataLoader takes any iterable as sampler."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

from forebay.following import follow
from forebay.locality import LocalitySampler

__all__ = ["FollowingSampler", "LocalitySampler"]


class FollowingSampler:
    """Wraps a sampler or a batch sampler: yields its items unchanged, and prefetches the next ones.

    ``DataLoader(data, sampler=FollowingSampler(RandomSampler(data), file["images"]), num_workers=2)``. The sampler runs
    in the main process, so that process must have the file open through forebay. The workers open the file themselves
    and find the bytes in the node's cache. It has ``set_epoch`` if the sampler, or the one in a batch sampler, has it.
    Errors are those of `forebay.follow`.
    """

    def __init__(self, sampler: Any, dataset: Any, ahead: int = 256) -> None:
        self.sampler = sampler
        self._dataset = dataset
        self._ahead = ahead

    def __iter__(self) -> Iterator[Any]:
        return follow(self.sampler, self._dataset, self._ahead)

    def __len__(self) -> int:
        sized: Sized = self.sampler
        return len(sized)

    def __getattr__(self, name: str) -> Any:
        # Training loops ask with hasattr whether a sampler has `set_epoch`.
        sampler = self.__dict__.get("sampler")
        for one in (sampler, getattr(sampler, "sampler", None)) if name == "set_epoch" else ():
            if hasattr(one, name):
                return getattr(one, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
