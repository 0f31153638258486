"""``forebay.prefetch``: asks the read cache for bytes before the program does.

The ranges are found in the caller's thread; the plugin fetches them with threads of its own, under its budget.
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
    """What was asked for, and how much of it is still to come.

    The plugin counts by file: `left`, `wait` and `cancel` are about all that was asked for of the file. As a context
    manager it cancels at the end what has not come by then.
    """

    def __init__(self, path: bytes, requested_bytes: int | None) -> None:
        self.path = os.fsdecode(path)
        self.requested_bytes = requested_bytes  # None: the whole file
        self._path = path

    @property
    def left(self) -> int | None:
        """Bytes not yet seen to; None: the file is no longer open or no longer cached, so nothing more will come.

        0 also once the cache has no room for more.
        """
        return left_of(self._path)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until everything has been seen to, at most `timeout` seconds (None: for ever).

        Returns whether it has been: False when the time is up, or when the file is no longer open or cached. In a
        notebook a bar shows meanwhile how much has come.
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
        """Gives up what is still to come; what has come stays in the cache."""
        for plugin in require_plugins():
            plugin.prefetch_cancel(self._path)

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()


def prefetch(what: Any, selection: Any = None) -> Prefetch:
    """Asks the read cache for a dataset, a part of it, or a whole file, and returns at once.

    `what` is an h5py.Dataset, an h5py.File, or the path of a file that this process has open through forebay;
    `selection` is what the dataset would be indexed with. The dataset may be contiguous, chunked or compressed: its
    bytes are cached as the file has them.

    Raises NotEnabled without the plugin, OSError when the plugin refuses (ENOENT: the file is not open in this process;
    ENOTSUP: it is not read through the cache; EAGAIN: too many ranges wait already), ValueError for a virtual or
    external dataset, TypeError for anything else.
    """
    if hasattr(what, "id") and hasattr(what, "shape"):
        require_plugins()  # before a large chunk index is read in vain
        return hand_over(what, ByteRanges(what).of(selection))
    if selection is not None:
        raise ValueError("only of a dataset can a part be selected")
    if not isinstance(what, (str, bytes, os.PathLike)) and not hasattr(what, "filename"):
        raise TypeError(f"expected a dataset, a file or a path, not {type(what).__name__}")
    path = _path_of(what)
    _ask(path, [])
    return Prefetch(path, None)


def hand_over(dataset: Any, ranges: Sequence[Range]) -> Prefetch:
    """Asks for these ranges of the dataset's file, in this order."""
    path = _path_of(dataset.file)
    if ranges:  # none would stand for the whole file
        _ask(path, ranges)
    return Prefetch(path, sum(length for _, length in ranges))


def _path_of(what: Any) -> bytes:
    name = what.filename if hasattr(what, "filename") else what
    return os.path.abspath(os.fsencode(name))


def ask(plugins: Sequence[Plugin], path: bytes, ranges: Sequence[Range]) -> int:
    """Asks these copies of the plugin for ranges of an open file, or for all of it. Returns 0, or an errno value."""
    offsets, lengths = (_words([one[part] for one in ranges]) for part in (0, 1))
    refusal = errno.ENOENT
    for plugin in plugins:
        refusal = plugin.prefetch(path, offsets, lengths)
        if refusal == 0:
            break
    return refusal


def _ask(path: bytes, ranges: Sequence[Range]) -> None:
    refusal = ask(require_plugins(), path, ranges)
    if refusal != 0:
        raise OSError(refusal, f"forebay does not prefetch: {os.strerror(refusal)}", os.fsdecode(path))


def _words(numbers: list[int]) -> ctypes.Array[Any]:
    if not numbers:
        return (ctypes.c_uint64 * 0)()
    return (ctypes.c_uint64 * len(numbers)).from_buffer(array.array("Q", numbers))
