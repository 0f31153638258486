"""Ranks that open a file read-only with MPI read it through the cache of their node, in any way, as natively."""

import os
import time
from pathlib import Path

import pytest
from connector_environment import native, run, staged
from parallel_environment import launch, node_names, process_lines
from test_cli import FOREBAY

from forebay.slowfs import SlowFS, available

_usable, _reason = available()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")]

ROWS, COLUMNS = 256, 8192
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
    environment = staged(tmp_path, "read_cache=on")
    assert read(mpi_python, folder, environment, ranks, nodes) == expected
    # What was read is stored behind the readers, and a busy machine may not have come so far.
    filled = run([FOREBAY, "cache", "prefetch", "target/data.h5"], environment, folder)
    assert filled.returncode == 0, filled.stdout + filled.stderr
    before = fs.stats()["operations"]["read"]["bytes"]
    assert read(mpi_python, folder, environment, ranks, nodes) == expected
    assert fs.stats()["operations"]["read"]["bytes"] == before
    told = counted(tmp_path)
    assert len(told) == 2 * ranks and all(one["files"] == 1 and one["hit_bytes"] > 0 for one in told), told
    assert all(one["missed_bytes"] == 0 for one in told[ranks:]), told


def test_a_rank_without_the_option_leaves_the_file_to_mpio_for_all(mpi_python, mounted, tmp_path):
    folder, _ = mounted
    per_rank = [{"FOREBAY_READ_CACHE": "on"}, {"FOREBAY_READ_CACHE": "off"}]
    done = launch([mpi_python, "-c", READ], staged(tmp_path), folder, 2, SECONDS_MAX, per_rank)
    assert done.hung is None and done.returncode == 0, done.told()
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("rank ")) == read(
        mpi_python, folder, native(), 2
    )
    assert not any(one["files"] for one in counted(tmp_path) if one is not None)


# ---- from other nodes ----------------------------------------------------------------------------

FAR_ROWS, FAR_ROW_BYTES = 160, 50_000
FAR_BYTES = FAR_ROWS * FAR_ROW_BYTES
PROGRESS = {"MPIR_CVAR_ASYNC_PROGRESS": "1"}  # a thread of MPI's own answers while the program computes

FAR_MAKE = f"""
import h5py, numpy as np
for name in ("far.h5", "other.h5"):
    with h5py.File("target/" + name, "w") as f:
        f["rows"] = np.random.default_rng(len(name)).integers(0, 256, ({FAR_ROWS}, {FAR_ROW_BYTES}), dtype=np.uint8)
"""

FAR_BEGIN = f"""
import os, signal, sys, time, zlib, h5py, numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
def epoch(rows, seed):
    total = 0
    for row in np.random.default_rng(seed).permutation({FAR_ROWS}):
        total = zlib.crc32(rows[int(row)].tobytes(), total)
    return total
def tell(*words):
    sys.stdout.write("rank " + " ".join(map(str, (world.rank, *words))) + "\\n")
    sys.stdout.flush()
"""

FAR_EPOCHS = (
    FAR_BEGIN
    + """
with h5py.File("target/far.h5", "r", driver="mpio", comm=world) as f:
    for number in range(3):
        tell(number, epoch(f["rows"], [number, world.rank]))
"""
)

# Rank 1 computes before it reads anything, and calls nothing of MPI, until rank 0 is done and has closed. Natively the
# close waits, so there it does not compute.
FAR_COMPUTES = (
    FAR_BEGIN
    + """
f = h5py.File("target/far.h5", "r", driver="mpio", comm=world)
rows = f["rows"]
if world.rank == 1 and "HDF5_VOL_CONNECTOR" in os.environ:
    while not os.path.exists(os.environ["HAS_CLOSED"]):
        time.sleep(0.01)
tell(epoch(rows, world.rank))
del rows
f.close()
if world.rank == 0 and "HDF5_VOL_CONNECTOR" in os.environ:
    open(os.environ["HAS_CLOSED"], "w").close()
"""
)

# Natively each close waits for all ranks, so there the orders have to be the same.
FAR_ORDERS = (
    FAR_BEGIN
    + """
for turn in range(12):
    files = [h5py.File(f"target/{name}.h5", "r", driver="mpio", comm=world) for name in ("far", "other")]
    tell(turn, *(zlib.crc32(f["rows"][3 + turn * world.size + world.rank].tobytes()) for f in files))
    own_order = "HDF5_VOL_CONNECTOR" in os.environ and (world.rank + turn) % 2 == 1
    for f in reversed(files) if own_order else files:
        f.close()
"""
)

# `WHO` prefetch; nobody reads before all that did are done.
FAR_PREFETCH = (
    FAR_BEGIN
    + """
import ctypes, json
with h5py.File("target/far.h5", "r", driver="mpio", comm=world) as f:
    if "HDF5_VOL_CONNECTOR" in os.environ:
        calls = ctypes.CDLL(os.path.join(os.environ["HDF5_PLUGIN_PATH"], "libforebay_vol.so"))
        calls.forebay_prefetch_left.restype = ctypes.c_int64
        if world.rank in WHO:
            ends = [(ctypes.c_uint64 * 1)(number) for number in (0, 1 << 40)]
            assert calls.forebay_prefetch(b"target/far.h5", 1, *ends) == 0
        while calls.forebay_prefetch_left(b"target/far.h5") > 0:
            time.sleep(0.01)
        text = ctypes.create_string_buffer(4096)
        calls.forebay_statistics.restype = ctypes.c_int64
        calls.forebay_statistics.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        assert 0 < calls.forebay_statistics(text, 4096) < 4096
        fetched = world.allreduce(json.loads(text.value)["process"]["cache"]["fetched_bytes"])
        if world.rank == 0:
            sys.stdout.write(f"fetched {fetched}\\n")
    world.Barrier()
    tell(epoch(f["rows"], world.rank))
"""
)

FAR_KILLED = (
    FAR_BEGIN
    + """
with h5py.File("target/far.h5", "r", driver="mpio", comm=world) as f:
    if world.rank == 1:
        f["rows"][0]
        os.kill(os.getpid(), signal.SIGKILL)
    for number in range(3):
        epoch(f["rows"], number)
"""
)


@pytest.fixture(scope="module")
def far(tmp_path_factory, mpi_python):
    """A file system that takes so long that answers of other nodes come in time on a busy machine, too."""
    folder = tmp_path_factory.mktemp("far-reads")
    with SlowFS(folder / "backing", folder / "target", bandwidth="400MiB/s", latency={"read": "25ms"}) as fs:
        done = run([mpi_python, "-c", FAR_MAKE], native(), folder)
        assert done.returncode == 0, done.stderr
        time.sleep(YOUNG_SECONDS)
        yield folder, fs


def own_areas(tmp_path: Path, ranks: int, nodes: int) -> list[dict[str, str]]:
    """Each played node has a staging area of its own."""
    variables = node_names(ranks, nodes)
    for one in variables:
        one["FOREBAY_NLS"] = str(tmp_path / f"area-{one['FOREBAY_NODE']}")
        os.makedirs(one["FOREBAY_NLS"], exist_ok=True)
    return variables


def far_lines(python: str, program: str, folder: Path, environment: dict, ranks: int, per_rank: list | None) -> list:
    done = launch([python, "-c", program], environment, folder, ranks, SECONDS_MAX, per_rank)
    assert done.hung is None and done.returncode == 0, done.told()
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))


@pytest.mark.parametrize("ranks, nodes", [(2, 2), (3, 3), (4, 2)])
def test_nodes_that_answer_spare_each_other_the_file(mpi_python, far, tmp_path, ranks, nodes):
    folder, fs = far
    before_native = fs.stats()["operations"]["read"]["bytes"]
    expected = far_lines(mpi_python, FAR_EPOCHS, folder, native(), ranks, None)
    assert len(expected) == 3 * ranks
    before = fs.stats()["operations"]["read"]["bytes"]
    environment = staged(tmp_path, "read_cache=on", **PROGRESS)
    areas = own_areas(tmp_path, ranks, nodes)
    assert far_lines(mpi_python, FAR_EPOCHS, folder, environment, ranks, areas) == expected
    seen = fs.stats()["operations"]["read"]["bytes"] - before
    told = counted(tmp_path)
    # How many answers come in time is a matter of the machine: bench/reading_from_other_nodes.py tells.
    assert sum(one["remote_bytes"] for one in told) > 0, told
    assert seen < before - before_native, (seen / FAR_BYTES, told)


@pytest.mark.parametrize("ranks, nodes", [(2, 2), (4, 2)])
@pytest.mark.parametrize("option", ["off", "open"])
def test_what_all_nodes_prefetch_is_read_from_the_file_once(mpi_python, far, tmp_path, ranks, nodes, option):
    folder, fs = far
    program = FAR_PREFETCH.replace("WHO", str(list(range(ranks)) if option == "off" else []))
    expected = far_lines(mpi_python, program, folder, native(), ranks, None)
    before = fs.stats()["operations"]["read"]["bytes"]
    environment = staged(tmp_path, f"read_cache=on;prefetch={option}", **PROGRESS)
    areas = own_areas(tmp_path, ranks, nodes)
    done = launch([mpi_python, "-c", program], environment, folder, ranks, SECONDS_MAX, areas)
    assert done.hung is None and done.returncode == 0, done.told()
    lines = done.stdout.splitlines()
    assert sorted(line for line in lines if line.startswith("rank ")) == expected
    fetched = next(int(line.split()[1]) for line in lines if line.startswith("fetched "))
    seen = fs.stats()["operations"]["read"]["bytes"] - before
    told = counted(tmp_path)
    assert FAR_BYTES / 2 <= fetched <= 1.02 * FAR_BYTES, (fetched / FAR_BYTES, told)
    # What another node does not give in time is read from the file, and how much that is, is a matter of the machine.
    assert fetched <= seen <= nodes * FAR_BYTES, (seen / FAR_BYTES, told)
    missed, remote = (sum(one[name] for one in told) for name in ("missed_bytes", "remote_bytes"))
    print(f"{ranks} ranks: prefetched {fetched / FAR_BYTES:.3f}, read {seen / FAR_BYTES:.3f} x; {missed} {remote}")


def test_a_node_that_does_not_prefetch_delays_nobody(mpi_python, far, tmp_path):
    folder, fs = far
    program = FAR_PREFETCH.replace("WHO", "[0]")
    expected = far_lines(mpi_python, program, folder, native(), 3, None)
    before = fs.stats()["operations"]["read"]["bytes"]
    environment = staged(tmp_path, "read_cache=on", **PROGRESS)
    assert far_lines(mpi_python, program, folder, environment, 3, own_areas(tmp_path, 3, 3)) == expected
    assert fs.stats()["operations"]["read"]["bytes"] - before <= 3.1 * FAR_BYTES


@pytest.mark.parametrize("ranks, nodes", [(2, 2), (3, 3)])
def test_nodes_that_answer_only_in_calls_of_mpi_read_the_same_bytes(mpi_python, far, tmp_path, ranks, nodes):
    folder, fs = far
    before_native = fs.stats()["operations"]["read"]["bytes"]
    expected = far_lines(mpi_python, FAR_EPOCHS, folder, native(), ranks, None)
    before = fs.stats()["operations"]["read"]["bytes"]
    environment = staged(tmp_path, "read_cache=on")
    areas = own_areas(tmp_path, ranks, nodes)
    assert far_lines(mpi_python, FAR_EPOCHS, folder, environment, ranks, areas) == expected
    # Each node reads the file once, and again what a busy machine has not stored in time.
    assert fs.stats()["operations"]["read"]["bytes"] - before < before - before_native


@pytest.mark.parametrize("progress", [{}, PROGRESS], ids=["alone", "progress"])
def test_a_rank_that_computes_delays_nobody(mpi_python, far, tmp_path, progress):
    folder, _ = far
    expected = far_lines(mpi_python, FAR_COMPUTES, folder, native(), 2, None)
    environment = staged(tmp_path, "read_cache=on", HAS_CLOSED=str(tmp_path / "has-closed"), **progress)
    assert far_lines(mpi_python, FAR_COMPUTES, folder, environment, 2, own_areas(tmp_path, 2, 2)) == expected


@pytest.mark.parametrize("progress", [{}, PROGRESS], ids=["alone", "progress"])
def test_files_may_be_closed_in_different_orders(mpi_python, far, tmp_path, progress):
    folder, _ = far
    expected = far_lines(mpi_python, FAR_ORDERS, folder, native(), 3, None)
    environment = staged(tmp_path, "read_cache=on", **progress)
    assert far_lines(mpi_python, FAR_ORDERS, folder, environment, 3, own_areas(tmp_path, 3, 3)) == expected


def test_a_rank_that_dies_ends_the_job_as_natively(mpi_python, far, tmp_path):
    folder, _ = far
    done = launch(
        [mpi_python, "-c", FAR_KILLED],
        staged(tmp_path, "read_cache=on", **PROGRESS),
        folder,
        2,
        SECONDS_MAX,
        own_areas(tmp_path, 2, 2),
    )
    assert done.hung is None and done.returncode != 0, done.told()
