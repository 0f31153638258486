"""Common parts of the benchmarks of reading: a file of rows, the environment of each side, and both sides in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

YOUNG_SECONDS = 4  # the cache ignores files that changed in this time
CLOCK_BEHIND = 3600  # seconds; lets a file of a slow file system look old at once

MAKE = """
import sys, h5py, numpy as np
path, rows, row_bytes, files = sys.argv[1], *map(int, sys.argv[2:])
random = np.random.default_rng(1)
for path in [f"{path}/{number}.h5" for number in range(files)] or [path]:
    with h5py.File(path, "w") as f:
        data = f.create_dataset("rows", (rows, row_bytes), dtype=np.uint8)
        for row in range(0, rows, 64):
            data[row : row + 64] = random.integers(0, 256, (min(64, rows - row), row_bytes), dtype=np.uint8)
"""

# Reads random rows of 4 KiB of `rows` in turns, with little of h5py: FILE COUNT TURNS. Times the last turn.
HITS = """
import json, random, sys, time, h5py, numpy
path, count, turns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with h5py.File(path) as f:
    f["rows"][0, 0]
begin = time.monotonic()
f = h5py.File(path)
open_s = time.monotonic() - begin
rows = f["rows"]
picks = random.Random(1).sample(range(rows.shape[0]), count)
row, space, buffer, spent_s = h5py.h5s.create_simple((4096,)), rows.id.get_space(), numpy.empty(4096, numpy.uint8), 0
for turn in range(turns):
    begin = time.process_time()
    for pick in picks:
        space.select_hyperslab((pick, 0), (1, 4096))
        rows.id.read(row, space, buffer)
    spent_s = time.process_time() - begin
f.close()
print(json.dumps(dict(open_s=open_s, read_s=spent_s / count)))
"""


def plain_environment() -> dict[str, str]:
    """Returns this environment without connectors and preloaded libraries."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("HDF5_VOL", "LD_PRELOAD"))}


def environment_of(side: str, area: Path, cache: str = "8GiB", mode: str = "on") -> dict[str, str]:
    """Returns the environment of the side `native` or `forebay`.

    forebay has a cache of this size in the staging area `area`; `mode` is the option read_cache.
    """
    if side == "native":
        return plain_environment()
    return plain_environment() | {
        "HDF5_VOL_CONNECTOR": f"forebay read_cache={mode};read_cache_size={cache}",
        "HDF5_PLUGIN_PATH": os.environ["FOREBAY_PLUGIN_DIR"],
        "FOREBAY_NLS": str(area),
        "FOREBAY_STATS": str(area / "statistics"),
    }


def make_rows(path: Path, rows: int, row_bytes: int, files: int = 0) -> None:
    """Writes the file natively: a dataset `rows` of random bytes.

    With `files`, writes that many files `0.h5`, `1.h5`, ... into the folder `path`.
    """
    words = [str(path), str(rows), str(row_bytes), str(files)]
    subprocess.run([sys.executable, "-c", MAKE, *words], env=plain_environment(), check=True)


def make_sparse(path: Path, size_bytes: int) -> None:
    """Writes a file whose dataset `rows` has rows of 4 KiB that take no space."""
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((size_bytes // 4096, 4096))
        h5py.h5d.create(file.id, b"rows", h5py.h5t.NATIVE_UINT8, space, creation)


def told_by(code: str, words: list, environment: dict[str, str], wrapper: tuple[str, ...] = ()) -> dict:
    """Runs a Python program, and returns its JSON output."""
    return told_by_program([*wrapper, sys.executable, "-c", code, *words], environment)


def told_by_program(command: list, environment: dict[str, str]) -> dict:
    done = subprocess.run([str(word) for word in command], env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def in_turns(pairs: int, run: Callable[[str], dict]) -> dict[str, list[dict]]:
    """Runs both sides `pairs` times. The order of the two alternates."""
    told: dict[str, list[dict]] = {"native": [], "forebay": []}
    for pair in range(pairs):
        for side in sorted(told, reverse=pair % 2 == 0):
            told[side].append(run(side))
    if len({one["sum"] for side in told for one in told[side]}) != 1:
        sys.exit("the two sides have read different bytes")
    return told


def median_of(runs: list[dict], name: str) -> float:
    return statistics.median(one[name] for one in runs)
