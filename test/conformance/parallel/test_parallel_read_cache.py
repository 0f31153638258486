"""Ranks that open a file read-only with MPI read it through the cache of their node, in any way, as natively."""

import time
from pathlib import Path

import pytest
from connector_environment import native, run, staged
from parallel_environment import launch, node_names, process_lines

from forebay.slowfs import SlowFS, available

_usable, _reason = available()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")]

ROWS, COLUMNS = 256, 8192
DATA_BYTES = ROWS * COLUMNS * 8 + ROWS * COLUMNS * 4
YOUNG_SECONDS = 3.2  # a file that changed later than so long ago is not stored
SECONDS_MAX = 240

MAKE = f"""
import h5py, numpy as np
with h5py.File("target/data.h5", "w") as f:
    values = np.random.default_rng(3).random(({ROWS}, {COLUMNS}))
    f["plain"] = values
    f.create_dataset("packed", data=(values * 1e9).astype("i4"), chunks=(16, 1024), compression="gzip")
    f.attrs["note"] = "made"
"""

# Two epochs. The ranks read rows in other orders, and unequal numbers of them; in between all read together.
READ = """
import zlib, h5py, numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
with h5py.File("target/data.h5", "r", driver="mpio", comm=world) as f:
    for epoch in range(2):
        random = np.random.default_rng([epoch, world.rank])
        total = 0
        for row in random.permutation(f["plain"].shape[0])[: 200 - 37 * world.rank]:
            total = zlib.crc32(f["plain"][int(row)].tobytes(), total)
            total = zlib.crc32(f["packed"][int(row), 100:900].tobytes(), total)
        share = f["plain"].shape[0] // world.size
        mine = slice(world.rank * share, (world.rank + 1) * share)
        with f["plain"].collective:
            total = zlib.crc32(f["plain"][mine, 5:4001].tobytes(), total)
            # Natively each of these pieces is a request to the file system.
            total = zlib.crc32(f["plain"][mine.start : mine.start + 2, ::64].tobytes(), total)
        with f["packed"].collective:
            total = zlib.crc32(f["packed"][mine].tobytes(), total)
        told = world.gather(f"rank {world.rank} epoch {epoch} {f.attrs['note']} {total}")
        if world.rank == 0:
            print("\\n".join(told), flush=True)
"""


@pytest.fixture(scope="module")
def mounted(tmp_path_factory, mpi_python):
    folder = tmp_path_factory.mktemp("parallel-reads")
    with SlowFS(folder / "backing", folder / "target", bandwidth="400MiB/s", latency={"read": "0.3ms"}) as fs:
        done = run([mpi_python, "-c", MAKE], native(), folder)
        assert done.returncode == 0, done.stderr
        time.sleep(YOUNG_SECONDS)
        yield folder, fs


def read(python: str, folder: Path, environment: dict[str, str], ranks: int, nodes: int = 1) -> list[str]:
    per_rank = node_names(ranks, nodes) if nodes > 1 else None
    done = launch([python, "-c", READ], environment, folder, ranks, SECONDS_MAX, per_rank)
    assert done.hung is None and done.returncode == 0, done.told()
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))


def counted(tmp_path: Path) -> list[dict]:
    return [line.get("cache") for line in process_lines(tmp_path)]


@pytest.mark.parametrize("ranks, nodes", [(2, 1), (3, 1), (4, 2)])
def test_ranks_read_what_the_file_holds_and_the_file_system_sees_it_once(mpi_python, mounted, tmp_path, ranks, nodes):
    folder, fs = mounted
    expected = read(mpi_python, folder, native(), ranks)
    assert len(expected) == 2 * ranks
    before = fs.stats()["operations"]["read"]["bytes"]
    environment = staged(tmp_path, "read_cache=on")
    assert read(mpi_python, folder, environment, ranks, nodes) == expected
    assert read(mpi_python, folder, environment, ranks, nodes) == expected
    seen = fs.stats()["operations"]["read"]["bytes"] - before
    told = counted(tmp_path)
    assert len(told) == 2 * ranks and all(one["hit_bytes"] > 0 for one in told), told
    assert seen <= 2 * DATA_BYTES


def test_a_rank_without_the_option_leaves_the_file_to_mpio_for_all(mpi_python, mounted, tmp_path):
    folder, _ = mounted
    per_rank = [{"FOREBAY_READ_CACHE": "on"}, {"FOREBAY_READ_CACHE": "off"}]
    done = launch([mpi_python, "-c", READ], staged(tmp_path), folder, 2, SECONDS_MAX, per_rank)
    assert done.hung is None and done.returncode == 0, done.told()
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("rank ")) == read(
        mpi_python, folder, native(), 2
    )
    assert not any(one["files"] for one in counted(tmp_path) if one is not None)
