"""Keeps free memory ready for a run.

A virtual machine returns free memory to its host, some within a second or two, and getting it back costs ten times a
copy. That would slow down the first run, and the run that needs the most.
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
_AHEAD = 4 * _CHUNK  # ahead of the growing file: a file system at 200 MiB/s takes it in little more than a second
_LOOK_EVERY_S = 0.05


def touch_free_memory(size_bytes: int) -> None:
    """Allocates and frees this much memory, for a run that starts at once and soon needs all of it."""
    with _taken(size_bytes):
        pass


@dataclass(frozen=True)
class Need:
    """The times at which a run needs memory: as its file grows, and at its first burst of writes."""

    file: Path  # the file that holds its pages
    file_bytes: int
    burst_bytes: int
    burst_after_s: float  # after the file appears


@contextmanager
def held_for(need: Need | None) -> Iterator[None]:
    """Allocates the memory, and frees it while the body runs, shortly before the run needs it."""
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
