"""``forebay.prefetch``: requests bytes from the read cache before the program reads them.

The caller's thread finds the ranges. The plugin fetches them with its own threads, under its budget.
"""

from __future__ import annotations

import array
import ctypes
import errno
import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from forebay.byte_ranges import ByteRanges, Range
from forebay.notebook_bar import NotebookBar
from forebay.plugin import Plugin, left_of, require_plugins

_POLL_S_MIN, _POLL_S_MAX = 0.001, 0.05


class Prefetch:
    """A request, and its progress.

    The plugin counts by file: `left`, `wait` and `cancel` concern all requests for the file. At its end the context
    manager cancels the missing part.
    """

    def __init__(self, path: bytes, requested_bytes: int | None) -> None:
        self.path = os.fsdecode(path)
        self.requested_bytes = requested_bytes  # None: the whole file
        self._path = path

    @property
    def left(self) -> int | None:
        """Bytes that the plugin has not handled yet, or None if the file is no longer open or cached.

        Also 0 once the cache has no room for more.
        """
        return left_of(self._path)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the plugin has handled all bytes, at most `timeout` seconds (None: no limit).

        Returns False if the time is up, or the file is no longer open or cached. A notebook shows a bar meanwhile.
        """
        bar = None
        end = None if timeout is None else time.monotonic() + timeout
        pause = _POLL_S_MIN
        while left := self.left:
            bar = bar or NotebookBar(f"Prefetching {os.path.basename(self.path)}", max(left, self.requested_bytes or 0))
            bar.move_to(left)
            if end is not None:
                pause = min(pause, end - time.monotonic())
                if pause <= 0:
                    return False
            time.sleep(pause)
            pause = min(2 * pause, _POLL_S_MAX)
        if bar is not None:
            bar.move_to(left or 0)
        return left == 0

    def cancel(self) -> None:
        """Cancels the missing part. The fetched bytes stay in the cache."""
        for plugin in require_plugins():
            plugin.prefetch_cancel(self._path)

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()


def prefetch(what: Any, selection: Any = None) -> Prefetch:
    """Requests a dataset, a part of it, or a whole file from the read cache, and returns at once.

    The argument `what` is an h5py.Dataset, an h5py.File, or the path of a file that this process has open through
    forebay. The argument `selection` is an index of the dataset. The dataset may be contiguous, chunked or compressed:
    the cache stores its bytes as they are in the file.

    Raises NotEnabled without the plugin, OSError if the plugin refuses (ENOENT: the file is not open in this process;
    ENOTSUP: it is not read through the cache; EAGAIN: too many ranges wait already), ValueError for a virtual or
    external dataset, TypeError for any other object.
    """
    if hasattr(what, "id") and hasattr(what, "shape"):
        path = _path_of(what.file)
        _check(why_uncached(require_plugins(), path), path)
        return hand_over(what, ByteRanges(what).of(selection))
    if selection is not None:
        raise ValueError("a selection needs a dataset")
    if not isinstance(what, (str, bytes, os.PathLike)) and not hasattr(what, "filename"):
        raise TypeError(f"expected a dataset, a file or a path, not {type(what).__name__}")
    path = _path_of(what)
    _ask(path, [])
    return Prefetch(path, None)


def hand_over(dataset: Any, ranges: Sequence[Range]) -> Prefetch:
    """Requests these ranges of the dataset's file, in this order."""
    path = _path_of(dataset.file)
    if ranges:  # an empty list would request the whole file
        _ask(path, ranges)
    return Prefetch(path, sum(length for _, length in ranges))


def is_cached(dataset: Any) -> bool:
    """Returns True if the dataset's file is open in this process and read through the cache.

    Ask this before `ByteRanges`: for a staged file the question for addresses would end its staging.
    """
    return why_uncached(require_plugins(), _path_of(dataset.file)) == 0


def _path_of(what: Any) -> bytes:
    name = what.filename if hasattr(what, "filename") else what
    return os.path.abspath(os.fsencode(name))


def ask(plugins: Sequence[Plugin], path: bytes, ranges: Sequence[Range]) -> int:
    """Requests ranges of an open file, or all of it, from these copies of the plugin. Returns 0, or an errno value."""
    offsets, lengths = (_words([one[part] for one in ranges]) for part in (0, 1))
    refusal = errno.ENOENT
    for plugin in plugins:
        refusal = plugin.prefetch(path, offsets, lengths)
        if refusal == 0:
            break
    return refusal


def why_uncached(plugins: Sequence[Plugin], path: bytes) -> int:
    """Returns 0 if one of these copies of the plugin reads the open file through the cache, or an errno value."""
    refusal = errno.ENOENT
    for plugin in plugins:
        refusal = plugin.why_uncached(path)
        if refusal == 0:
            break
    return refusal


def _ask(path: bytes, ranges: Sequence[Range]) -> None:
    _check(ask(require_plugins(), path, ranges), path)


def _check(refusal: int, path: bytes) -> None:
    if refusal != 0:
        raise OSError(refusal, f"forebay cannot prefetch: {os.strerror(refusal)}", os.fsdecode(path))


def _words(numbers: list[int]) -> ctypes.Array[Any]:
    if not numbers:
        return (ctypes.c_uint64 * 0)()
    return (ctypes.c_uint64 * len(numbers)).from_buffer(array.array("Q", numbers))
