"""Workers of PyTorch's DataLoader read, store and prefetch through the cache as a program without workers does.

However they are started, whoever has opened the file, and whether each epoch starts new ones. The files are on a slowfs
mount whose clock is an hour behind. That caching was on is shown by the bytes that the file system delivers: natively
each epoch reads all data. docs/read-cache.md, "Workers". The program is workers_program.py.
"""

import itertools
import json
from pathlib import Path

import pytest
from connector_environment import CLOCK_BEHIND_S, ROOT, native, run, run_python, staged
from forebay.slowfs import SlowFS, available
from pairwise import LONG, pairwise, some_of
from test_python_loader_hook import python  # noqa: F401  a fixture
from test_read_cache_unasked import replicas

pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

PROGRAM = Path(__file__).with_name("workers_program.py")
ROWS, ROW_BYTES = 512, 256 << 10
DATA_BYTES = ROWS * ROW_BYTES
EPOCHS = 3 if LONG else 2
# PyTorch joins no thread that feeds a worker's queue. One that ends with the program can unlink the queue's semaphores
# and tell the tracker of multiprocessing nothing, which then warns of them. This happens natively too.
WARNINGS = "ignore:This DataLoader will create,ignore:resource_tracker"
# Each process reads so many rows before it caches a file without being asked: 32 requests, and those behind them that
# are under way as the replica is made.
TRIAL_ROWS = 40

MAKE = f"""
import h5py, numpy as np
with h5py.File("target/rows.h5", "w", libver="latest") as f:
    data = np.random.default_rng(1).integers(0, 256, ({ROWS}, {ROW_BYTES}), dtype=np.uint8)
    f.create_dataset("rows", data=data, chunks=(1, {ROW_BYTES}))
"""

METHODS = ["fork", "forkserver", "spawn"]
# Who has opened the file, read_cache, and whether forebay follows the loader.
WAYS = (["parent", "worker"], ["auto", "on"], ["asked", "followed"])
# Workers, how they start, whether they persist, and a way. Each two values are in one of these.
CELLS = pairwise("workers of a DataLoader", [2, 4], METHODS, ["new", "kept"], *WAYS)
CELLS += [(0, "fork", "new", *way) for way in some_of("no workers", list(itertools.product(*WAYS)), 2)]


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    with SlowFS(
        folder / "backing",
        folder / "target",
        bandwidth="200MiB/s",
        latency={"read": "0.5ms"},
        clock_behind=CLOCK_BEHIND_S,
    ) as fs:
        run_python(MAKE, native(), folder)
        yield fs


@pytest.fixture(scope="module")
def natively(python, mounted):  # noqa: F811
    """What a program without forebay is given, by whether its workers persist: PyTorch draws other numbers then."""
    workers = {"new": 0, "kept": 2}
    return {kept: train(python, native(), mounted, workers[kept], "fork", "worker", kept)["told"] for kept in workers}


def train(python, environment, fs, *cell, before=(), fails=False):  # noqa: F811
    words = [python, *before, PROGRAM, fs / "rows.h5", *map(str, cell[:4]), str(EPOCHS), *map(str, cell[4:])]
    done = run(words, {**environment, "PYTHONWARNINGS": WARNINGS}, ROOT, 500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fails or not done.stderr, done.stderr
    return json.loads(done.stdout)


def bytes_read(fs):
    return fs.stats()["operations"]["read"]["bytes"]


def most_bytes(workers, mode):
    """Of the file system, for all epochs. Without being asked, each process of the first epoch reads on trial."""
    return 1.02 * DATA_BYTES + (TRIAL_ROWS * max(1, workers) * ROW_BYTES if mode == "auto" else 0)


@pytest.mark.parametrize(("workers", "method", "kept", "opened", "mode", "way"), CELLS)
def test_workers_store_and_read_as_their_parent_does(
    workers, method, kept, opened, mode, way, python, mounted, natively, tmp_path  # noqa: F811
):  # fmt: skip
    """`followed`: `python -m forebay run` has the rows fetched that come next. That counts as asking: no trial."""
    environment, before = staged(tmp_path, FOREBAY_READ_CACHE=mode), []
    area = environment["FOREBAY_NLS"]
    if way == "followed":
        environment = native(PYTHONPATH=str(ROOT / "python"))
        before = ["-m", "forebay", "run", "-q", "-o", f"nls={area}", "-o", f"read_cache={mode}", "--", python]
    read_before = bytes_read(mounted)
    told = train(python, environment, mounted, workers, method, opened, kept, before=before)
    read = bytes_read(mounted) - read_before
    assert told["told"] == natively[kept]
    if way == "followed":
        assert told["counts"]["epochs"] == EPOCHS, told["counts"]
        assert not [name for name in told["counts"] if name.startswith("ended") or name == "errors"], told["counts"]
    assert DATA_BYTES <= read <= most_bytes(workers, mode), read / DATA_BYTES
    left = replicas(area)
    assert len(left) == (1 if mode == "on" else 0), left


@pytest.mark.parametrize("method", some_of("a killed worker", METHODS))
def test_a_killed_worker_is_told_as_natively_and_leaves_nothing(
    method, python, mounted, natively, tmp_path  # noqa: F811
):  # fmt: skip
    cell = (2, method, "parent", "kept", 20)
    expected = train(python, native(), mounted, *cell, fails=True)["told"]
    assert expected[0] == natively["kept"][0] and expected[1] == "a worker is gone", expected[1]
    environment = staged(tmp_path)
    assert train(python, environment, mounted, *cell, fails=True)["told"] == expected
    assert replicas(environment["FOREBAY_NLS"]) == []
    assert train(python, environment, mounted, *cell[:4])["told"] == natively["kept"]
    assert replicas(environment["FOREBAY_NLS"]) == []
