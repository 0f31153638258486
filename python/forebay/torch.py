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
    and find the bytes in the node's cache. Errors are those of `forebay.follow`.
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

    def set_epoch(self, epoch: int) -> None:
        """Passes the epoch to the wrapped sampler, as a DistributedSampler needs it."""
        self.sampler.set_epoch(epoch)
