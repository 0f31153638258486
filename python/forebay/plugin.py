"""The plugin that this process has loaded, and the C functions that it exports.

HDF5 loads the plugin at its start, which is at ``import h5py``. A process with a second HDF5 library has a second copy
of the plugin in memory, so the functions ask one copy after the other. This module does not load the plugin.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_MEMORY_COPY = "/memfd:forebay_vol"
_PLUGIN_SYMBOL = "H5PLget_plugin_info"  # every plugin of HDF5 exports it
# The drop-ins for Cache VOL and Async VOL have the names of the replaced libraries. Only forebay's have this symbol.
_DROP_IN_NAMES, _OWN_SYMBOL = ("libh5cache_vol", "libh5async"), "forebay_plugin_info_for"
_DESCRIPTORS = "/proc/self/fd/"
_NUMBERS = ctypes.POINTER(ctypes.c_uint64)


class ForebayError(Exception):
    """forebay cannot do what the program asked."""


class NotEnabled(ForebayError):
    """forebay's plugin is not loaded in this process, or is too old to have the function."""


class Plugin:
    """One loaded copy of the plugin. Calls release the interpreter lock. Thread-safe.

    Methods that return an errno value return 0 on success. include/forebay/forebay.h documents each call.
    """

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self.path = path
        self._library = library

    @property
    def is_copy(self) -> bool:
        """True if another copy has loaded this one, and answers for it."""
        return self.path.startswith(_DESCRIPTORS)

    def _call(self, name: str, types: Sequence[Any], *arguments: Any) -> int:
        """Calls a C function. Returns 0, or an errno value."""
        try:
            function = self._library[name]  # a new object each time, because other modules may change its types
        except AttributeError:
            raise NotEnabled(f"{self.path} has no {name}: it is older than this Python package") from None
        function.restype, function.argtypes = ctypes.c_int, types
        return 0 if function(*arguments) == 0 else ctypes.get_errno()

    def prefetch(self, path: bytes, offsets: ctypes.Array[Any], lengths: ctypes.Array[Any]) -> int:
        """Requests these ranges of an open file, in bytes, or without ranges the whole file. Returns an errno value."""
        types = (ctypes.c_char_p, ctypes.c_uint64, _NUMBERS, _NUMBERS)
        return self._call("forebay_path_prefetch", types, path, len(offsets), offsets, lengths)

    def prefetch_left(self, path: bytes) -> int | None:
        """Returns the requested bytes that are missing, or None if the file is not open or not cached."""
        left, problem = self._prefetch_left(path)
        return None if problem else left

    def why_uncached(self, path: bytes) -> int:
        """Returns 0 for an open file that is read through the cache. ENOENT: not open here; ENOTSUP: not cached."""
        return self._prefetch_left(path)[1]

    def _prefetch_left(self, path: bytes) -> tuple[int, int]:
        left = ctypes.c_uint64(0)
        problem = self._call("forebay_path_prefetch_left", (ctypes.c_char_p, _NUMBERS), path, ctypes.byref(left))
        return left.value, problem

    def prefetch_cancel(self, path: bytes) -> int:
        """Cancels the missing part of the requests. Returns an errno value."""
        return self._call("forebay_path_prefetch_cancel", (ctypes.c_char_p,), path)

    def pause(self) -> int:
        """Leaves the files that are opened from now on to native HDF5. Returns an errno value."""
        return self._call("forebay_pause", ())

    def resume(self) -> int:
        """Ends a pause. Returns an errno value: EINVAL if there is none."""
        return self._call("forebay_resume", ())

    def statistics(self) -> dict[str, Any]:
        """Returns the process's current line of statistics (docs/statistics.md); empty: there is none yet."""
        size, length = 4096, ctypes.c_uint64(0)
        while True:
            into = ctypes.create_string_buffer(size)
            types = (ctypes.c_char_p, ctypes.c_uint64, _NUMBERS)
            problem = self._call("forebay_statistics", types, into, size, ctypes.byref(length))
            if problem:
                raise OSError(problem, f"forebay has no statistics: {os.strerror(problem)}")
            if length.value < size:
                break
            size = length.value + 1
        line = json.loads(into.value or b"{}")
        process: dict[str, Any] = line.get("process", line)
        return process


_found: dict[str, Plugin] = {}


def loaded_plugins() -> list[Plugin]:
    """Returns the copies of the plugin that this process has loaded. The first is the one that HDF5 found first."""
    for path in [*_mapped_paths(), *_memory_copies()]:
        if path not in _found:
            try:
                library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LOCAL, use_errno=True)
            except OSError:  # mapped as a file, and not loaded
                continue
            drop_in = os.path.basename(path).startswith(_DROP_IN_NAMES)
            if hasattr(library, _OWN_SYMBOL if drop_in else _PLUGIN_SYMBOL):  # not one of forebay's other libraries
                _found[path] = Plugin(library, path)
    return list(_found.values())


def require_plugins() -> list[Plugin]:
    """Returns the loaded copies. Raises NotEnabled if there is none."""
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
        numbers = os.listdir(_DESCRIPTORS)
    except OSError:
        return
    for number in sorted(numbers, key=int):
        path = f"{_DESCRIPTORS}{number}"
        try:
            if os.readlink(path).startswith(_MEMORY_COPY):
                yield path
        except OSError:
            continue


def statistics_of_process() -> dict[str, Any]:
    """Returns the result of forebay.stats for a process. Raises NotEnabled without the plugin."""
    return max((plugin.statistics() for plugin in require_plugins()), key=lambda line: line.get("files_opened", 0))


def left_of(path: bytes) -> int | None:
    """Returns the bytes that prefetches of this file still have to fetch, or None if no copy has it open and cached."""
    known = [left for plugin in require_plugins() if (left := plugin.prefetch_left(path)) is not None]
    return sum(known) if known else None
