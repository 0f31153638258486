"""``forebay.stats``: counters of this process or of one open file."""

from __future__ import annotations

import ctypes
import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

from forebay.file_operations import Text, call_for_file
from forebay.plugin import statistics_of_process

_FILE_STATISTICS = "forebay.file.statistics"
_SIZE_FIRST = 4096  # bytes; enough for most files
# Keys in bytes whose names have no unit.
_BYTES = {"staged", "drained", "superseded", "through", "pending", "held", "guarantee_given_up", "merged", "stolen"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Statistics(dict[str, Any]):
    """A dictionary with the keys of docs/statistics.md, which a notebook shows as a table.

    Values are bytes unless the name has another unit (``_ns``: nanoseconds). The table shows units, the dictionary does
    not.
    """

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(name)}</td><td>{html.escape(shown)}</td></tr>"
            for name, shown in _rows(self, "")
        )
        return f"<table><thead><tr><th>forebay</th><th></th></tr></thead><tbody>{rows}</tbody></table>"


def stats(file: Any = None) -> Statistics:
    """Returns the current counters of this process, or of one open h5py.File.

    A process has the keys of docs/statistics.md, "One process". With several HDF5 libraries the result is that of the
    library with the most opened files. A file has the keys of "One closed file". The result is a copy. Raises
    NotEnabled without the plugin, OSError if the file was opened without forebay.
    """
    if file is None:
        return Statistics(statistics_of_process())
    size = _SIZE_FIRST
    while True:
        into, length = ctypes.create_string_buffer(size), ctypes.c_uint64(0)
        text = Text(ctypes.cast(into, ctypes.c_char_p), size, ctypes.pointer(length))
        call_for_file(_FILE_STATISTICS, file, text)
        if length.value < size:
            return Statistics(json.loads(into.value))
        size = length.value + 1


def _rows(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield prefix + name, _shown(name, value)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if not isinstance(value, int) or isinstance(value, bool):
        return str(value)
    if name.endswith("_ns"):
        return f"{value / 1e9:.3f} s" if not name.startswith(("opened", "oldest")) else str(value)
    if name in _BYTES or name.endswith("_bytes"):
        return _bytes(value)
    return f"{value:,}"


def _bytes(value: float) -> str:
    for unit in _UNITS[:-1]:
        if abs(value) < 1024:
            break
        value /= 1024
    else:
        unit = _UNITS[-1]
    return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
