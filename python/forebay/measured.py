"""Measurements of one run of a program: its phases, and the writes that reached the target file.

Times are nanoseconds of CLOCK_MONOTONIC, which the program (``time.monotonic_ns``) and forebay's trace share; names
that end in ``_s`` are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

NANOSECOND = 1e-9
MIB = float(1 << 20)

COMPUTE = "compute"
# The phases in which the program waits for its file.
IO_PHASES = ("open", "read", "write", "flush", "close")


class MeasurementError(Exception):
    """A measurement is missing or unreadable, or contradicts the intended one."""


@dataclass(frozen=True)
class Phase:
    """One interval of the program's time."""

    name: str
    number: int  # of the checkpoint, or of the epoch
    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """The duration."""
        return (self.end_ns - self.begin_ns) * NANOSECOND


@dataclass(frozen=True)
class TargetWrite:
    """One write of the drain on the target file."""

    begin_ns: int
    end_ns: int
    offset: int
    bytes: int


@dataclass
class Run:
    """One run of the program: its own report, and observations from outside."""

    name: str
    file: Path
    about: dict[str, object] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    process_s: float = 0.0  # from the start of the process to its exit
    messages: str = ""  # its standard error

    def seconds(self, *names: str) -> float:
        """Time spent in the phases of these names."""
        return sum(phase.seconds for phase in self.phases if phase.name in names)

    @property
    def io_s(self) -> float:
        """Time in which the program waited for its file."""
        return self.seconds(*IO_PHASES)

    @property
    def begin_ns(self) -> int:
        """Begin of the first phase."""
        return min(phase.begin_ns for phase in self.phases)

    @property
    def end_ns(self) -> int:
        """End of the last phase."""
        return max(phase.end_ns for phase in self.phases)

    @property
    def total_s(self) -> float:
        """From the first phase to the last; the interpreter's start is left out."""
        return (self.end_ns - self.begin_ns) * NANOSECOND


def read_trace(path: Path) -> list[TargetWrite]:
    """Reads the target writes of FOREBAY_TRACE, ordered by begin."""
    writes = []
    for line in _lines(path):
        try:
            entry = json.loads(line)
            if entry["kind"] == "write":
                writes.append(TargetWrite(*(int(entry[key]) for key in ("begin_ns", "end_ns", "offset", "bytes"))))
        except (ValueError, KeyError, TypeError) as error:
            raise MeasurementError(f"{path}: not a line of a trace: {line!r}") from error
    return sorted(writes, key=lambda write: write.begin_ns)


def read_counters(path: Path, file: Path) -> dict[str, int]:
    """Reads the counters of `file` in FOREBAY_STATS, summed over its closes."""
    counters: dict[str, int] = {}
    for line in _lines(path):
        try:
            closed = json.loads(line).get("file")
        except ValueError as error:
            raise MeasurementError(f"{path}: not a line of statistics: {line!r}") from error
        if closed is None or Path(closed["path"]).name != file.name:
            continue
        for key, value in closed.items():
            if isinstance(value, int):
                counters[key] = counters.get(key, 0) + value
    if not counters:
        raise MeasurementError(
            f"forebay has no statistics of {file.name}: it was not loaded, or the file has another name"
        )
    return counters


def read_cache_counters(path: Path) -> dict[str, int]:
    """Reads the read cache's counters in FOREBAY_STATS, summed over the processes."""
    counters: dict[str, int] = {}
    for line in _lines(path):
        try:
            process = json.loads(line).get("process") or {}
        except ValueError as error:
            raise MeasurementError(f"{path}: not a line of statistics: {line!r}") from error
        for key, value in (process.get("cache") or {}).items():
            if isinstance(value, int):
                counters[key] = counters.get(key, 0) + value
    return counters


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    except FileNotFoundError:
        raise MeasurementError(f"{path.name} was not written: forebay was not loaded, or wrote nothing") from None


@dataclass(frozen=True)
class RateStep:
    """An interval with a constant transfer rate to the target."""

    begin_ns: int
    end_ns: int
    bytes_per_s: float


def rates(writes: Iterable[TargetWrite], bin_ns: int) -> list[RateStep]:
    """Returns the transfer in bins of `bin_ns` from the first write on. A write counts evenly over its duration."""
    ordered = sorted(writes, key=lambda write: write.begin_ns)
    if not ordered:
        return []
    origin = ordered[0].begin_ns
    bins: dict[int, float] = {}
    for write in ordered:
        begin, end = write.begin_ns - origin, max(write.end_ns, write.begin_ns + 1) - origin
        for number in range(begin // bin_ns, (end - 1) // bin_ns + 1):
            shared = min(end, (number + 1) * bin_ns) - max(begin, number * bin_ns)
            bins[number] = bins.get(number, 0.0) + write.bytes * shared / (end - begin)
    return [
        RateStep(
            origin + number * bin_ns, origin + (number + 1) * bin_ns, bins.get(number, 0.0) / (bin_ns * NANOSECOND)
        )
        for number in range(max(bins) + 1)
    ]


def share_during(writes: Iterable[TargetWrite], phases: Iterable[Phase]) -> float:
    """Returns the share, 0 to 1, of the writes' bytes that moved during these (disjoint) phases."""
    spans = [(phase.begin_ns, phase.end_ns) for phase in phases]
    total = inside = 0.0
    for write in writes:
        duration = max(write.end_ns - write.begin_ns, 1)
        shared = sum(max(0, min(write.end_ns, end) - max(write.begin_ns, begin)) for begin, end in spans)
        total += write.bytes
        inside += write.bytes * min(shared / duration, 1.0)
    return inside / total if total else 0.0
