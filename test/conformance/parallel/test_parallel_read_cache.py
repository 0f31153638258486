"""Ranks that open a file read-only with MPI read it through the cache of their node, in any way, as natively."""

import functools
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from connector_environment import native, run, staged
from parallel_environment import Launch, launch, node_names, process_lines
from test_cli import FOREBAY

from forebay.slowfs import SlowFS, available

_usable, _reason = available()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")]

ROWS, COLUMNS = 256, 8192
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


@contextmanager
def files_on_a_mount(folder: Path, python: str, making: str, latency: str):
    """Files that seem old enough to be stored, on a slow file system; `folder / "native"` leads to them without it."""
    slow = {"bandwidth": "400MiB/s", "latency": {"read": latency}, "clock_behind": 3600}
    with SlowFS(folder / "backing", folder / "target", **slow) as fs:
        done = run([python, "-c", making], native(), folder)
        assert done.returncode == 0, done.stderr
        (folder / "native").mkdir()
        (folder / "native" / "target").symlink_to(folder / "backing")
        yield folder, fs


@pytest.fixture(scope="module")
def mounted(tmp_path_factory, mpi_python):
    with files_on_a_mount(tmp_path_factory.mktemp("parallel-reads"), mpi_python, MAKE, "0.3ms") as made:
        yield made


@pytest.fixture(scope="module")
def native_lines(mpi_python):
    """What the ranks of a program print natively; each is run once."""

    @functools.cache
    def run_natively(program: str, folder: Path, ranks: int) -> list[str]:
        return lines_of_ranks(mpi_python, program, folder / "native", native(), ranks)

    return run_natively


def lines_of_ranks(python: str, program: str, folder: Path, environment: dict, ranks: int, per_rank=None) -> list[str]:
    done = launch([python, "-c", program], environment, folder, ranks, SECONDS_MAX, per_rank)
    assert done.hung is None and done.returncode == 0, done.told()
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))


def counted(tmp_path: Path) -> list[dict]:
    return [line.get("cache") for line in process_lines(tmp_path)]


@pytest.mark.parametrize("ranks, nodes", [(2, 1), (3, 1), (4, 2)])
def test_ranks_read_what_the_file_holds_and_the_file_system_sees_it_once(
    mpi_python, mounted, native_lines, tmp_path, ranks, nodes
):
    folder, fs = mounted
    expected = native_lines(READ, folder, ranks)
    assert len(expected) == 2 * ranks
    environment = staged(tmp_path, "read_cache=on")
    names = node_names(ranks, nodes)
    assert lines_of_ranks(mpi_python, READ, folder, environment, ranks, names) == expected
    # What was read is stored behind the readers, and a busy machine may not have come so far.
    filled = run([FOREBAY, "cache", "prefetch", "target/data.h5"], environment, folder)
    assert filled.returncode == 0, filled.stdout + filled.stderr
    before = fs.stats()["operations"]["read"]["bytes"]
    assert lines_of_ranks(mpi_python, READ, folder, environment, ranks, names) == expected
    assert fs.stats()["operations"]["read"]["bytes"] == before
    told = counted(tmp_path)
    assert len(told) == 2 * ranks and all(one["files"] == 1 and one["hit_bytes"] > 0 for one in told), told
    assert all(one["missed_bytes"] == 0 for one in told[ranks:]), told


def test_a_rank_without_the_option_leaves_the_file_to_mpio_for_all(mpi_python, mounted, native_lines, tmp_path):
    folder, _ = mounted
    per_rank = [{"FOREBAY_READ_CACHE": "on"}, {"FOREBAY_READ_CACHE": "off"}]
    expected = native_lines(READ, folder, 2)
    assert lines_of_ranks(mpi_python, READ, folder, staged(tmp_path), 2, per_rank) == expected
    assert not any(one["files"] for one in counted(tmp_path) if one is not None)


# ---- from other nodes ----------------------------------------------------------------------------

FAR_ROWS, FAR_ROW_BYTES = 160, 50_000
FAR_BYTES = FAR_ROWS * FAR_ROW_BYTES
METADATA_BYTES_MAX = 64 << 10  # that HDF5 reads, as it opens the file
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

# The ranks in WHO prefetch; none reads before all that did are done.
FAR_PREFETCH = (
    FAR_BEGIN
    + """
import ctypes, json
with h5py.File("target/far.h5", "r", driver="mpio", comm=world) as f:
    if "HDF5_VOL_CONNECTOR" in os.environ:
        calls = ctypes.CDLL(os.path.join(os.environ["HDF5_PLUGIN_PATH"], "libforebay_vol.so"))
        left = ctypes.c_uint64(1)
        if str(world.rank) in os.environ["WHO"].split():
            ends = [(ctypes.c_uint64 * 1)(number) for number in (0, 1 << 40)]
            assert calls.forebay_path_prefetch(b"target/far.h5", 1, *ends) == 0
        while left.value > 0:
            assert calls.forebay_path_prefetch_left(b"target/far.h5", ctypes.byref(left)) == 0
            time.sleep(0.01)
        text = ctypes.create_string_buffer(4096)
        assert calls.forebay_statistics(text, ctypes.c_uint64(4096), None) == 0
        fetched = world.allreduce(json.loads(text.value)["process"]["cache"]["fetched_bytes"])
        if world.rank == 0:
            sys.stdout.write(f"fetched {fetched}\\n")
    world.Barrier()
    tell(epoch(f["rows"], world.rank))
"""
)

# Rank 0 has all of the file. Then it waits in MPI, and answers, while rank 1 reads row by row.
FAR_ASKS = (
    FAR_BEGIN
    + """
with h5py.File("target/far.h5", "r", driver="mpio", comm=world) as f:
    if world.rank == 0:
        zlib.crc32(f["rows"][...].tobytes())
    world.Barrier()
    total = epoch(f["rows"], 1) if world.rank == 1 else 0
    world.Barrier()
    tell(total)
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
    with files_on_a_mount(tmp_path_factory.mktemp("far-reads"), mpi_python, FAR_MAKE, "25ms") as made:
        yield made


def own_areas(tmp_path: Path, ranks: int, nodes: int) -> list[dict[str, str]]:
    """Each played node has a staging area of its own."""
    variables = node_names(ranks, nodes)
    for one in variables:
        one["FOREBAY_NLS"] = str(tmp_path / f"area-{one['FOREBAY_NODE']}")
        os.makedirs(one["FOREBAY_NLS"], exist_ok=True)
    return variables


@contextmanager
def bytes_counted(fs: SlowFS, folder: Path, epochs: int, ranks: int):
    """What the file system reads meanwhile is what the ranks say that they have fetched, byte for byte.

    Each rank reads all rows in each epoch, and gets each byte from its node, from another one or from the file.
    """
    before = fs.stats()["operations"]["read"]["bytes"]
    told: list[dict] = []
    yield told
    told += counted(folder)
    assert len(told) == ranks
    seen = fs.stats()["operations"]["read"]["bytes"] - before
    assert seen == sum(one["fetched_bytes"] for one in told) > 0, (seen / FAR_BYTES, told)
    for one in told:
        got = sum(one[name] for name in ("hit_bytes", "remote_bytes", "missed_bytes"))
        assert epochs * FAR_BYTES <= got <= epochs * FAR_BYTES + METADATA_BYTES_MAX, (got, told)


@pytest.mark.parametrize("ranks, nodes", [(2, 2), (3, 3), (4, 2)])
def test_nodes_that_answer_spare_each_other_the_file(mpi_python, far, native_lines, tmp_path, ranks, nodes):
    folder, fs = far
    expected = native_lines(FAR_EPOCHS, folder, ranks)
    assert len(expected) == 3 * ranks
    environment = staged(tmp_path, "read_cache=on", **PROGRESS)
    with bytes_counted(fs, tmp_path, 3, ranks) as told:
        areas = own_areas(tmp_path, ranks, nodes)
        assert lines_of_ranks(mpi_python, FAR_EPOCHS, folder, environment, ranks, areas) == expected
    # How many answers come in time is a matter of the machine: bench/reading_from_other_nodes.py tells.
    assert sum(one["hit_bytes"] + one["remote_bytes"] for one in told) > 0, told


def test_a_node_gets_from_another_one_what_that_has(mpi_python, far, native_lines, tmp_path):
    """The file system is as slow as a read may be that an answer is worth waiting for, so answers come in time."""
    folder, fs = far
    expected = native_lines(FAR_ASKS, folder, 2)
    environment = staged(tmp_path, "read_cache=on", **PROGRESS)
    fs.set_latency("200ms", "read")
    try:
        areas = own_areas(tmp_path, 2, 2)
        assert lines_of_ranks(mpi_python, FAR_ASKS, folder, environment, 2, areas) == expected
    finally:
        fs.set_latency("25ms", "read")
    (asking,) = (one for one in counted(tmp_path) if one["remote_bytes"] > 0)
    assert asking["fetched_bytes"] < FAR_BYTES, asking


@pytest.mark.parametrize("ranks, nodes", [(2, 2), (4, 2)])
@pytest.mark.parametrize("option", ["off", "open"])
def test_what_all_nodes_prefetch_is_read_from_the_file_once(
    mpi_python, far, native_lines, tmp_path, ranks, nodes, option
):
    folder, fs = far
    expected = native_lines(FAR_PREFETCH, folder, ranks)
    who = " ".join(map(str, range(ranks))) if option == "off" else ""
    environment = staged(tmp_path, f"read_cache=on;prefetch={option}", WHO=who, **PROGRESS)
    with bytes_counted(fs, tmp_path, 1, ranks):
        areas = own_areas(tmp_path, ranks, nodes)
        done = launch([mpi_python, "-c", FAR_PREFETCH], environment, folder, ranks, SECONDS_MAX, areas)
    assert done.hung is None and done.returncode == 0, done.told()
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("rank ")) == expected
    # Each piece has one node that prefetches it. All that opening the file has read before may be read once more.
    size = (folder / "backing" / "far.h5").stat().st_size
    assert abs(prefetched(done) - size) <= ranks * METADATA_BYTES_MAX, (prefetched(done), size)


def prefetched(done: Launch) -> int:
    """The bytes that all nodes together had read from the file when the prefetches were done."""
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("fetched "))
    return int(line.split()[1])


def test_a_node_that_does_not_prefetch_delays_nobody(mpi_python, far, native_lines, tmp_path):
    folder, fs = far
    environment = staged(tmp_path, "read_cache=on", WHO="0", **PROGRESS)
    with bytes_counted(fs, tmp_path, 1, 3) as told:
        done = launch([mpi_python, "-c", FAR_PREFETCH], environment, folder, 3, SECONDS_MAX, own_areas(tmp_path, 3, 3))
    assert done.hung is None and done.returncode == 0, done.told()
    expected = native_lines(FAR_PREFETCH, folder, 3)
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("rank ")) == expected
    # One node has fetched its pieces alone; those of the others are read when a rank asks for them.
    assert 0 < prefetched(done) < FAR_BYTES < sum(one["fetched_bytes"] for one in told), (prefetched(done), told)


@pytest.mark.parametrize("ranks, nodes", [(2, 2), (3, 3)])
def test_nodes_that_answer_only_in_calls_of_mpi_read_the_same_bytes(
    mpi_python, far, native_lines, tmp_path, ranks, nodes
):
    folder, fs = far
    expected = native_lines(FAR_EPOCHS, folder, ranks)
    environment = staged(tmp_path, "read_cache=on")
    with bytes_counted(fs, tmp_path, 3, ranks) as told:
        areas = own_areas(tmp_path, ranks, nodes)
        assert lines_of_ranks(mpi_python, FAR_EPOCHS, folder, environment, ranks, areas) == expected
    # Each node reads the file once, and again what a busy machine has not stored in time.
    assert all(one["hit_bytes"] + one["remote_bytes"] > 0 for one in told), told


@pytest.mark.parametrize("progress", [{}, PROGRESS], ids=["alone", "progress"])
def test_a_rank_that_computes_delays_nobody(mpi_python, far, native_lines, tmp_path, progress):
    folder, _ = far
    expected = native_lines(FAR_COMPUTES, folder, 2)
    environment = staged(tmp_path, "read_cache=on", HAS_CLOSED=str(tmp_path / "has-closed"), **progress)
    assert lines_of_ranks(mpi_python, FAR_COMPUTES, folder, environment, 2, own_areas(tmp_path, 2, 2)) == expected


@pytest.mark.parametrize("progress", [{}, PROGRESS], ids=["alone", "progress"])
def test_files_may_be_closed_in_different_orders(mpi_python, far, native_lines, tmp_path, progress):
    folder, _ = far
    expected = native_lines(FAR_ORDERS, folder, 3)
    environment = staged(tmp_path, "read_cache=on", **progress)
    assert lines_of_ranks(mpi_python, FAR_ORDERS, folder, environment, 3, own_areas(tmp_path, 3, 3)) == expected


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
