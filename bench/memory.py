"""Memory that a run is to find at hand.

A virtual machine returns free memory to its host, within a second or two where the host asks for it, and getting it
back costs ten times a copy. That would hit whichever run comes first, and whichever needs the most.
"""

from __future__ import annotations

import mmap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 64 * 2**20
_AHEAD = 4 * _CHUNK  # of the growing file: what a file system at 200 MiB/s takes in little more than a second
_LOOK_EVERY_S = 0.05


def touch_free_memory(size_bytes: int) -> None:
    """Takes and gives back this much memory, for a run that starts at once and needs all of it soon."""
    with _taken(size_bytes):
        pass


@dataclass(frozen=True)
class Need:
    """When a run needs memory: as its file grows, and at its first burst of writes."""

    file: Path  # where its pages are held
    file_bytes: int
    burst_bytes: int
    burst_after_s: float  # from when the file appears


@contextmanager
def held_for(need: Need | None) -> Iterator[None]:
    """Takes the memory, and gives it back while the body runs, shortly before it is needed."""
    if need is None:
        yield
        return
    chunks = [_taken(_CHUNK) for _ in range(-(-(need.file_bytes + need.burst_bytes) // _CHUNK))]
    ended = threading.Event()
    giving = threading.Thread(target=_give_back, args=(chunks, need, ended))
    giving.start()
    try:
        yield
    finally:
        ended.set()
        giving.join()


def _taken(size_bytes: int) -> mmap.mmap:
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)


def _give_back(chunks: list[mmap.mmap], need: Need, ended: threading.Event) -> None:
    given, appeared_s = 0, None
    while not ended.wait(_LOOK_EVERY_S):
        try:
            grown = need.file.stat().st_blocks * 512
        except FileNotFoundError:
            continue
        appeared_s = appeared_s or time.monotonic()
        due = grown + _AHEAD
        if time.monotonic() - appeared_s >= need.burst_after_s:
            due += need.burst_bytes
        while chunks and given < due:
            chunks.pop().close()
            given += _CHUNK
    for chunk in chunks:
        chunk.close()
