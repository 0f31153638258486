"""The model of ``forebay estimate``: the time that a program waits for its file, natively and with forebay.

All nodes do the same, so the model follows one node. A rate is a share of the file system's total once all nodes
together reach it. Bytes flow at constant rates between events, so each phase of a step has a closed form. A loop over
the steps carries the bytes that are staged but not drained. Sizes are bytes, times seconds, rates bytes per second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

MIB = 1 << 20
DRAIN_WRITE_MAX = 8 * MIB  # option `write_max`, with the default `size`
DRAIN_THREADS = 4  # option `drain_threads`
DRAIN_THREADS_MAX = 64
# Of one staging server on two shared cores, docs/decisions/server-speed.md: 1.6 to 2.4 GiB/s.
SERVER_RATE = 2048.0 * MIB
# Writes of one step that the loop tells apart. More of them change the result by less than one of them takes.
PIECES_MAX = 64


class CannotEstimate(Exception):
    """The figures are incomplete or contradict each other. The message says which."""


@dataclass(frozen=True)
class Machine:
    """One machine. A rate of 0 is unknown, and an estimate that needs it fails; `inf` sets no limit."""

    name: str
    local_write: float  # node-local storage, one node
    local_read: float
    fs_node: float  # the file system, as one node gets it
    fs_total: float  # as all nodes together get it, into one shared file; see `total_known`
    local_latency_s: float = 0.0  # of one write call
    fs_latency_s: float = 0.0  # of one request
    fs_request: float = math.inf  # largest request of the file system
    network: float = math.inf  # between two nodes, as one node gets it
    memory: float = math.inf  # copies into and from memory, one node
    server: float = SERVER_RATE  # bytes that one staging server takes in
    load: float = 1.0  # the file system takes this many times as long because of other jobs
    contention: float = 0.0  # staging and draining at once take 1 + contention times as long
    compute_slowdown: float = 1.0  # computing takes this many times as long while the drain runs
    call_s: float = 0.0  # of opening and closing the file with forebay, beyond native
    total_known: bool = True  # False: `fs_total` is that of one node, and says nothing about more
    sources: dict[str, str] = field(default_factory=dict)  # of each figure

    def node_rate(self, nodes: int, streams: int, request: float) -> float:
        """Returns the rate of one of `nodes` nodes that keeps `streams` requests of `request` bytes in flight."""
        if self.fs_node <= 0 or self.fs_total <= 0:
            raise CannotEstimate(f"{self.name}: the bandwidth of the file system is unknown: --fs-node, --fs-total")
        size = min(request, self.fs_request)
        one = size / (self.fs_latency_s + size / self.fs_node) if self.fs_latency_s > 0 else self.fs_node
        return min(self.fs_node, streams * one, self.fs_total / nodes) / self.load


@dataclass(frozen=True)
class Writing:
    """A program that writes and computes in turns, and closes its file at the end."""

    nodes: int
    ranks: int  # of one node
    bytes_per_rank: float  # of one step
    steps: int
    compute_s: float  # of one step, after its writes
    writes: int = 1  # calls of one rank and step
    size: float = math.inf  # option `size`: the log of one process
    waits_at_close: bool = True  # False: option `close` is not `wait`
    flush_drains: bool = False  # each step's writes end with a flush that waits for the drain, as those of MPI do

    @property
    def node_bytes(self) -> float:
        """Bytes of one node and step."""
        return self.ranks * self.bytes_per_rank

    @property
    def request(self) -> float:
        """Bytes of one call."""
        return self.bytes_per_rank / self.writes


@dataclass(frozen=True)
class Waits:
    """The waits of one way to write."""

    steps_s: tuple[float, ...]  # in each step's writes
    close_s: float
    compute_s: float  # of the program, slowed down by the drain if there is one
    peak_bytes: float = 0.0  # most bytes of one node that were staged and not drained
    left_s: float = 0.0  # until the last byte is in the file, after the program's close

    @property
    def wait_s(self) -> float:
        """Time in the file's calls."""
        return sum(self.steps_s) + self.close_s

    @property
    def total_s(self) -> float:
        """From the first write to the return of the close."""
        return self.wait_s + self.compute_s


def native_writing(machine: Machine, writing: Writing) -> Waits:
    """Returns the waits without forebay: each rank writes its own bytes and waits."""
    rate = machine.node_rate(writing.nodes, writing.ranks, writing.request)
    step_s = writing.node_bytes / rate
    return Waits((step_s,) * writing.steps, 0.0, writing.steps * writing.compute_s)


def drain_rate(machine: Machine, writing: Writing) -> float:
    """Returns the rate of the drainer of one node while nothing else slows it down."""
    streams = max(DRAIN_THREADS, min(writing.ranks, DRAIN_THREADS_MAX))
    return machine.node_rate(writing.nodes, streams, max(writing.request, DRAIN_WRITE_MAX))


def staging_rate(machine: Machine, writing: Writing) -> float:
    """Returns the rate at which one node stages while nothing drains."""
    if machine.local_write <= 0:
        raise CannotEstimate(f"{machine.name}: the bandwidth of the node-local storage is unknown: --local-write")
    per_byte = 1 / machine.local_write + machine.local_latency_s / (writing.request * writing.ranks)
    return 1 / per_byte


class _Node:
    """One node: what is staged and not drained, as time passes."""

    def __init__(self, stage: float, drain: float, machine: Machine) -> None:
        self.stage, self.drain = stage, drain
        self.both = 1.0 + machine.contention
        self.slow = machine.compute_slowdown
        self.pending = self.peak = 0.0

    def stages(self, size: float, room: float) -> float:
        """Stages one piece of `size` bytes. Returns the seconds, those of waiting for room included."""
        lacking = self.pending + size - room
        waited = max(lacking, 0.0) / self.drain
        self.pending -= max(lacking, 0.0)
        # Both at once, until the piece is staged or the drain has caught up.
        seconds = size / self.stage * self.both
        drained = self.drain / self.both * seconds
        if drained > self.pending:
            together = self.pending * self.both / self.drain
            seconds = together + (size - self.stage / self.both * together) / self.stage
            drained = self.pending
        self.pending += size - drained
        self.peak = max(self.peak, self.pending)
        return waited + seconds

    def drains(self) -> float:
        """Waits for the drain. Returns the seconds."""
        seconds, self.pending = self.pending / self.drain, 0.0
        return seconds

    def computes(self, work: float) -> float:
        """Computes for `work` seconds of undisturbed time. Returns the seconds that it takes."""
        together = min(self.pending / self.drain, work * self.slow)
        self.pending = max(0.0, self.pending - together * self.drain)
        return together + (work - together / self.slow)


def staged_writing(machine: Machine, writing: Writing, *, stage: float = 0.0, drain: float = 0.0) -> Waits:
    """Returns the waits with forebay. `stage` and `drain` replace the rates of the machine's nodes."""
    node = _Node(stage or staging_rate(machine, writing), drain or drain_rate(machine, writing), machine)
    room = writing.size * writing.ranks
    pieces = max(min(writing.writes, PIECES_MAX), math.ceil(4 * writing.node_bytes / room) if room < math.inf else 1)
    piece = writing.node_bytes / pieces
    steps, compute_s = [], 0.0
    for _ in range(writing.steps):
        step_s = sum(node.stages(piece, room) for _ in range(pieces))
        steps.append(step_s + (node.drains() if writing.flush_drains else 0.0))
        compute_s += node.computes(writing.compute_s)
    left = node.pending / node.drain
    close_s = machine.call_s + (left if writing.waits_at_close else 0.0)
    return Waits(tuple(steps), close_s, compute_s, node.peak, 0.0 if writing.waits_at_close else left)


def room_needed(machine: Machine, writing: Writing) -> float:
    """Returns the bytes that option `size` must allow, so that no write waits for room."""
    return staged_writing(machine, replace(writing, size=math.inf)).peak_bytes / writing.ranks


def compute_needed(machine: Machine, writing: Writing) -> float:
    """Returns the least compute time of a step with which the drain keeps up.

    While a node stages S seconds it drains the part `drain * S`, however much the two slow each other down. The rest of
    the step's bytes must drain while the program computes.
    """
    size = writing.node_bytes
    lacking = size / drain_rate(machine, writing) - size / staging_rate(machine, writing)
    return max(0.0, lacking) / machine.compute_slowdown


def nodes_drained(machine: Machine, writing: Writing) -> float:
    """Returns the number of nodes from which on the drain cannot keep up; `inf` if there is none, 0 if it never can."""
    if compute_needed(machine, replace(writing, nodes=1)) > writing.compute_s:
        return 0.0
    cycle = writing.node_bytes / staging_rate(machine, writing) + writing.compute_s * machine.compute_slowdown
    return machine.fs_total / machine.load * cycle / writing.node_bytes


def crossing_nodes(machine: Machine, writing: Writing) -> float:
    """Returns the number of nodes from which on staging is faster than writing natively, with enough compute time."""
    staging = staging_rate(machine, writing)
    alone = machine.node_rate(1, writing.ranks, writing.request)
    return 1.0 if staging >= alone else machine.fs_total / machine.load / staging


@dataclass(frozen=True)
class Served:
    """A program that stages at servers on nodes of their own."""

    servers: int
    waits: Waits


def served_writing(machine: Machine, writing: Writing, servers: int) -> Served:
    """Returns the waits with `servers` staging servers, each on one node, which share the program's nodes evenly.

    The rate of the servers and the network limit staging. The servers drain, so their number limits the drain as the
    number of nodes does without them. A close waits for the drain, as it does without a server.
    """
    share = servers / writing.nodes
    stage = min(machine.network, min(machine.network, machine.server) * share)
    drain = machine.node_rate(servers, DRAIN_THREADS_MAX, DRAIN_WRITE_MAX) * share
    return Served(servers, staged_writing(machine, writing, stage=stage, drain=drain))


def servers_needed(machine: Machine, writing: Writing) -> int:
    """Returns the least number of servers with which the program waits less than now; 0 if none of 1 to `nodes` does.

    "Now" is staging on the nodes, or writing natively if they have no storage or that is faster.
    """
    now = native_writing(machine, writing).wait_s
    if machine.local_write > 0:
        now = min(now, staged_writing(machine, writing).wait_s)
    if served_writing(machine, writing, writing.nodes).waits.wait_s >= now:
        return 0
    low, high = 0, writing.nodes  # the wait falls with each server
    while high - low > 1:
        middle = (low + high) // 2
        if served_writing(machine, writing, middle).waits.wait_s < now:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class Reading:
    """A program that reads a data set once in each epoch, evenly by all ranks, with computing in between."""

    nodes: int
    ranks: int
    data_bytes: float  # of all nodes together
    epochs: int
    compute_s: float = 0.0  # of one epoch
    request: float = MIB  # bytes of one read
    cache: float = math.inf  # option `read_cache_size`, of one node
    page_cache: float = 0.0  # memory of one node that keeps file pages
    shuffled: bool = True  # each epoch gives a rank other samples


@dataclass(frozen=True)
class Epochs:
    """The time in reads, epoch by epoch."""

    epochs_s: tuple[float, ...]
    compute_s: float
    hits: float = 0.0  # part of the later epochs' bytes that the cache has

    @property
    def wait_s(self) -> float:
        """Time in reads."""
        return sum(self.epochs_s)

    @property
    def total_s(self) -> float:
        """Reads and computing."""
        return self.wait_s + self.compute_s


def native_reading(machine: Machine, reading: Reading) -> Epochs:
    """Returns the time in reads without forebay. Only unshuffled data that fit into memory stay there."""
    mine = reading.data_bytes / reading.nodes
    first = mine / machine.node_rate(reading.nodes, reading.ranks, reading.request)
    in_memory = not reading.shuffled and reading.page_cache >= mine
    later = mine / machine.memory if in_memory else first
    epochs = (first, *(later,) * (reading.epochs - 1))
    return Epochs(epochs, reading.epochs * reading.compute_s)


def cached_reading(machine: Machine, reading: Reading) -> Epochs:
    """Returns the time in reads with the read cache, whose copies lie evenly on the nodes.

    The first epoch stores in the background, and is as slow as the slower of file system and node-local storage. If the
    rate of node-local writes is unknown, it is as slow as the file system: `estimate` says so. Later a node reads its
    own part, and gets the others' over the network.
    """
    mine = reading.data_bytes / reading.nodes
    native = machine.node_rate(reading.nodes, reading.ranks, reading.request)
    if machine.local_read <= 0:
        raise CannotEstimate(f"{machine.name}: the bandwidth of the node-local storage is unknown: --local-read")
    first = mine / min(native, machine.local_write or math.inf)
    hits = min(1.0, reading.cache / mine)
    in_memory = reading.page_cache >= mine
    local = 1 / (machine.memory if in_memory else machine.local_read)
    # The network copies out of memory, so bytes on a device are first read into it.
    remote = 1 / machine.network + (0.0 if in_memory else local)
    others = 1 - 1 / reading.nodes if reading.shuffled else 0.0
    later = mine * (hits * ((1 - others) * local + others * remote) + (1 - hits) / native)
    return Epochs((first, *(later,) * (reading.epochs - 1)), reading.epochs * reading.compute_s, hits)
