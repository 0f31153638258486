"""``forebay.torch.LocalitySampler``: assigns the samples of a global batch to ranks whose nodes hold them."""

from __future__ import annotations

import math
import os
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

from forebay.following import epoch_order


class LocalitySampler:
    """Replaces PyTorch's DistributedSampler if each node has some of the samples in its local storage.

    The samples of each global batch are those that a DistributedSampler with the same seed and epoch gives to all ranks
    together at that step. Only their assignment to ranks differs: it prefers the node that holds the sample. So each
    epoch, and the gradient of each global batch, has the same samples. All ranks compute the assignment from seed and
    epoch, without communication.

    Each rank gets the same number of samples, so some come from another node. With one rank on each of 4 nodes and 64
    samples per rank and step, about 4 % do. With DistributedSampler 75 % do.

    The permutation is that of ``torch.randperm`` if torch is loaded, as beside a DataLoader, and otherwise that of
    `forebay.epoch_order`. This class does not import torch.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        batch_size: int,
        owner: Callable[[int], int] | Sequence[int] | None = None,
        ranks_per_node: int | None = None,
    ) -> None:
        """The first six arguments are those of DistributedSampler.

        `num_replicas` and `rank` default to those of torch.distributed if that is initialised, and otherwise to the
        variables WORLD_SIZE and RANK, which torchrun sets. `batch_size` is the number of samples that a rank takes in
        one step: that of its DataLoader.

        `owner` is a function or a sequence that gives the node number for each sample. Any other number means that no
        node holds the sample. By default the nodes hold contiguous parts of equal size. Ranks count node by node,
        `ranks_per_node` on each; the default is LOCAL_WORLD_SIZE, which torchrun sets, or 1.

        Raises ValueError if the rank is not below the number of replicas, a size is below 1, `owner` has another length
        than the data set, or the number of ranks is unknown.
        """
        self.num_replicas = _told(num_replicas, "get_world_size", "WORLD_SIZE")
        self.rank = _told(rank, "get_rank", "RANK")
        local = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
        self.ranks_per_node = local if ranks_per_node is None else ranks_per_node
        if self.num_replicas < 1 or batch_size < 1 or self.ranks_per_node < 1:
            raise ValueError("num_replicas, batch_size and ranks_per_node must be at least 1")
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"rank {self.rank} is not below num_replicas ({self.num_replicas})")
        length = len(dataset)
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.batch_size, self.epoch = batch_size, 0
        self.nodes = math.ceil(self.num_replicas / self.ranks_per_node)
        uneven = length % self.num_replicas
        self.num_samples = length // self.num_replicas + (1 if uneven and not drop_last else 0)
        self.total_size = self.num_samples * self.num_replicas
        self._owners = self._owners_of(length, owner)

    def __len__(self) -> int:
        """The number of samples of this rank in an epoch."""
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration. All ranks must choose the same epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        """Yields the samples of this rank, step by step."""
        order = self._order()
        step = self.batch_size * self.num_replicas
        mine: list[int] = []
        for begin in range(0, self.total_size, step):
            mine += self._part_of(order[begin : begin + step])
        return iter(mine)

    def _order(self) -> list[int]:
        """Returns all samples of the epoch, in the order in which the ranks together take them."""
        length = len(self.dataset)
        order = _permutation(length, self.seed, self.epoch) if self.shuffle else list(range(length))
        if self.total_size > length > 0:
            order = (order * math.ceil(self.total_size / length))[: self.total_size]
        return order[: self.total_size]

    def _part_of(self, batch: list[int]) -> list[int]:
        """Returns this rank's part of a global batch. The batch's length is a multiple of the number of ranks."""
        nodes, owners = self.nodes, self._owners
        held: list[list[int]] = [[] for _ in range(nodes + 1)]
        for sample in batch:
            held[owners[sample]].append(sample)
        size = len(batch) // self.num_replicas
        spare, filled_before = held[nodes], 0
        my_node = self.rank // self.ranks_per_node
        for node in range(nodes):
            room = size * self._ranks_of(node)
            spare += held[node][room:]
            if node < my_node:
                filled_before += max(0, room - len(held[node]))
        ranks = self._ranks_of(my_node)
        kept = held[my_node][: size * ranks]
        of_node = kept + spare[filled_before : filled_before + size * ranks - len(kept)]
        return of_node[self.rank % self.ranks_per_node :: ranks]

    def _ranks_of(self, node: int) -> int:
        return min(self.ranks_per_node, self.num_replicas - node * self.ranks_per_node)

    def _owners_of(self, length: int, owner: Callable[[int], int] | Sequence[int] | None) -> array[int]:
        """Returns the node of each sample; `nodes` for samples that no node holds."""
        if owner is None:
            return array("i", (sample * self.nodes // length for sample in range(length)))
        if callable(owner):
            told = [int(owner(sample)) for sample in range(length)]
        else:
            told = [int(node) for node in owner]
        if len(told) != length:
            raise ValueError(f"owner has {len(told)} entries for {length} samples")
        return array("i", (node if 0 <= node < self.nodes else self.nodes for node in told))


def _told(given: int | None, function: str, variable: str) -> int:
    if given is not None:
        return given
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(getattr(distributed, function)())
    if os.environ.get(variable, "").isdecimal():
        return int(os.environ[variable])
    raise ValueError(f"give num_replicas and rank: torch.distributed is not initialised, and {variable} is not set")


def _permutation(length: int, seed: int, epoch: int) -> list[int]:
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "randperm"):
        return epoch_order(length, seed, epoch)
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    order: list[int] = torch.randperm(length, generator=generator).tolist()
    return order
