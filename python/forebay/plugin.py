"""The plugin as this process has it loaded, and the C functions that it exports.

HDF5 loads the plugin when it starts, which is at ``import h5py``. A process with a second HDF5 library has a second
copy of it, in memory, so each question goes to the copies one after the other. Nothing here loads the plugin.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MEMORY_COPY = "/memfd:forebay_vol"
_PLUGIN_SYMBOL = "H5PLget_plugin_info"  # every plugin of HDF5 exports it
# The drop-ins for Cache VOL and Async VOL have the names of what they replace; this symbol is forebay's.
_DROP_IN_NAMES, _OWN_SYMBOL = ("libh5cache_vol", "libh5async"), "forebay_plugin_info_for"
_NOT_OPEN = -1


class ForebayError(Exception):
    """Something that forebay was asked for is not to be had."""


class NotEnabled(ForebayError):
    """forebay's plugin is not loaded in this process, or it is too old to have the function."""


class Plugin:
    """One loaded copy of the plugin. Calls release the interpreter lock; any thread may make them."""

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self.path = path
        self._library = library

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        try:
            function = self._library[name]  # a new object each time: no other module changes its types
        except AttributeError:
            raise NotEnabled(f"{self.path} has no {name}: it is older than this Python package") from None
        function.restype, function.argtypes = result, arguments
        return function

    def prefetch(self, path: bytes, offsets: ctypes.Array[Any], lengths: ctypes.Array[Any]) -> int:
        """Asks for these ranges of an open file, in bytes; none: the whole file. Returns 0, or an errno value."""
        words = ctypes.POINTER(ctypes.c_uint64)
        call = self._function("forebay_prefetch", ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64, words, words)
        return int(call(path, len(offsets), offsets, lengths))

    def prefetch_left(self, path: bytes) -> int:
        """Bytes of the file that are still to come; -1: it is not open, or not cached."""
        return int(self._function("forebay_prefetch_left", ctypes.c_int64, ctypes.c_char_p)(path))

    def prefetch_cancel(self, path: bytes) -> int:
        """Gives up what is still to come. Returns 0, or an errno value."""
        return int(self._function("forebay_prefetch_cancel", ctypes.c_int, ctypes.c_char_p)(path))

    def statistics(self) -> dict[str, Any]:
        """The line of statistics of the process as of now (docs/statistics.md); empty: there is none yet."""
        call = self._function("forebay_statistics", ctypes.c_int64, ctypes.c_char_p, ctypes.c_uint64)
        size = 4096
        while True:
            into = ctypes.create_string_buffer(size)
            needed = int(call(into, size))
            if needed < 0:
                raise MemoryError("forebay has no memory for its statistics")
            if needed < size:
                break
            size = needed + 1
        line = json.loads(into.value or b"{}")
        process: dict[str, Any] = line.get("process", line)
        return process


_found: dict[str, Plugin] = {}


def loaded_plugins() -> list[Plugin]:
    """The copies of the plugin that this process has loaded, the one that HDF5 found first."""
    for path in [*_mapped_paths(), *_memory_copies()]:
        if path not in _found:
            try:
                library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LOCAL)
            except OSError:  # mapped by somebody as a file, and not loaded
                continue
            drop_in = os.path.basename(path).startswith(_DROP_IN_NAMES)
            if hasattr(library, _OWN_SYMBOL if drop_in else _PLUGIN_SYMBOL):  # not one of forebay's other libraries
                _found[path] = Plugin(library, path)
    return list(_found.values())


def require_plugins() -> list[Plugin]:
    """The same; NotEnabled when there is none."""
    plugins = loaded_plugins()
    if not plugins:
        raise NotEnabled(
            "forebay is not switched on in this process: call forebay.enable() before the first import of h5py, "
            "or start the program with 'forebay run -- python …'"
        )
    return plugins


def _mapped_paths() -> Iterator[str]:
    seen = set()
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        parts = line.split(maxsplit=5)
        if len(parts) == 6 and parts[5] not in seen:
            seen.add(parts[5])
            name = os.path.basename(parts[5])
            if parts[5].startswith("/") and name.startswith(("libforebay", *_DROP_IN_NAMES)) and ".so" in name:
                yield parts[5]


def _memory_copies() -> Iterator[str]:
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return
    for number in sorted(numbers, key=int):
        path = f"/proc/self/fd/{number}"
        try:
            if os.readlink(path).startswith(_MEMORY_COPY):
                yield path
        except OSError:
            continue


def statistics_of_process() -> dict[str, Any]:
    """What forebay.stats returns for a process. Raises NotEnabled without the plugin."""
    return max((plugin.statistics() for plugin in require_plugins()), key=lambda line: line.get("files_opened", 0))


def left_of(path: bytes) -> int | None:
    """Bytes that prefetches of this file still have to bring; None: no copy of the plugin has it open and cached."""
    known = [left for plugin in require_plugins() if (left := plugin.prefetch_left(path)) != _NOT_OPEN]
    return sum(known) if known else None
