"""The options that `forebay.enable` takes. Made by tools/python-options from the command's own table."""

from __future__ import annotations

import os
from typing import Literal, TypedDict, Union

AnyPath = Union[str, os.PathLike[str]]
Size = Union[int, str]


class Options(TypedDict, total=False):
    """All but nls. docs/options.md says what each does. A size is a number of bytes, or text such as "64GiB"."""

    stage: bool
    size: Size
    full: Literal["wait", "through"]
    strict: bool
    drain_threads: int
    stripe: Size
    flush: Literal["commit", "drain"]
    close: Literal["wait", "deferred", "auto", "linger"]
    deadline: str
    durability: Literal["process", "node"]
    on_error: Literal["fail", "retry", "through"]
    patience: int
    mpi: bool | Literal["on", "node", "off"]
    read_cache: bool | Literal["off", "auto", "on"]
    read_cache_size: Size
    read_cache_lifetime: Literal["permanent", "temporal"]
    read_cache_replacement: Literal["lru", "lfu", "fifo", "lifo"]
    read_cache_servers: str
    revalidate: int | Literal["open", "always", "never"]
    prefetch: Literal[False, "off", "open", "written"]
    node: str
    nodes: Literal["fast", "consistent"]
    server: str
    server_key: AnyPath
    stats: AnyPath
    trace: AnyPath
    registry: AnyPath


# The values of each, in the words of the table.
ALLOWED = {
    "stage": "on or off",
    "nls": "a path",
    "size": "1 MiB to 1 PiB",
    "full": "wait or through",
    "strict": "on or off",
    "drain_threads": "1 to 256",
    "stripe": "0 B to 1 GiB",
    "flush": "commit or drain",
    "close": "wait or deferred or auto or linger",
    "deadline": "a duration such as 110m, a time such as 2025-06-30T17:00, or off",
    "durability": "process or node",
    "on_error": "fail or retry or through",
    "patience": "0 to 31536000",
    "mpi": "on or node or off",
    "read_cache": "off or auto or on",
    "read_cache_size": "1 MiB to 1 PiB",
    "read_cache_lifetime": "permanent or temporal",
    "read_cache_replacement": "lru or lfu or fifo or lifo",
    "read_cache_servers": "any text",
    "revalidate": "open or always or never or 1 to 31536000",
    "prefetch": "off or open or written",
    "node": "any text",
    "nodes": "fast or consistent",
    "server": "any text",
    "server_key": "a path",
    "stats": "a path",
    "trace": "a path",
    "registry": "a path",
}
