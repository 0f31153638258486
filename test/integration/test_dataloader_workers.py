"""Workers of PyTorch's DataLoader read, store and prefetch through the cache as a program without workers does.

However they are started, whoever has opened the file, and whether each epoch starts new ones. The files are on a slowfs
mount whose clock is an hour behind. That caching was on is shown by the bytes that the file system delivers: natively
each of the three epochs reads all data. docs/read-cache.md, "Workers". The program is workers_program.py.
"""

import itertools
import json
from pathlib import Path

import pytest
from connector_environment import CLOCK_BEHIND_S, ROOT, native, run, run_python, staged
from forebay.slowfs import SlowFS, available
from test_python_loader_hook import python  # noqa: F401  a fixture
from test_read_cache_unasked import replicas

pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

PROGRAM = Path(__file__).with_name("workers_program.py")
ROWS, ROW_BYTES = 512, 256 << 10
DATA_BYTES = ROWS * ROW_BYTES
EPOCHS = 3
# Each process reads so many rows before it caches a file without being asked: 32 requests, and those behind them that
# are under way as the replica is made.
TRIAL_ROWS = 40

MAKE = f"""
import h5py, numpy as np
with h5py.File("target/rows.h5", "w", libver="latest") as f:
    data = np.random.default_rng(1).integers(0, 256, ({ROWS}, {ROW_BYTES}), dtype=np.uint8)
    f.create_dataset("rows", data=data, chunks=(1, {ROW_BYTES}))
"""

# Workers, method, who has opened the file, whether workers persist, read_cache. Each pair of values is in one of these.
FEW = [
    (0, "fork", "parent", "new", "auto"),
    (0, "fork", "worker", "new", "on"),
    (2, "fork", "parent", "new", "auto"),
    (4, "fork", "parent", "kept", "on"),
    (4, "fork", "worker", "new", "auto"),
    (2, "fork", "worker", "kept", "on"),
    (2, "forkserver", "parent", "kept", "on"),
    (4, "forkserver", "worker", "new", "auto"),
    (4, "spawn", "parent", "kept", "auto"),
    (2, "spawn", "worker", "new", "on"),
    (2, "spawn", "parent", "new", "auto"),
]
WHOLE = list(itertools.product((2, 4), ("fork", "forkserver", "spawn"), *(("parent", "worker"), ("new", "kept"))))
REST = [(*cell, mode) for cell in WHOLE for mode in ("auto", "on") if (*cell, mode) not in FEW]
CELLS = [pytest.param(*cell, id="-".join(map(str, cell))) for cell in FEW]
CELLS += [pytest.param(*cell, id="-".join(map(str, cell)), marks=pytest.mark.long) for cell in REST]


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
    done = run(words, {**environment, "PYTHONWARNINGS": "ignore:This DataLoader will create"}, ROOT, 500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fails or not done.stderr, done.stderr
    return json.loads(done.stdout)


def bytes_read(fs):
    return fs.stats()["operations"]["read"]["bytes"]


def most_bytes(workers, mode):
    """Of the file system, for three epochs. Without being asked, each process of the first epoch reads on trial."""
    return 1.02 * DATA_BYTES + (TRIAL_ROWS * max(1, workers) * ROW_BYTES if mode == "auto" else 0)


@pytest.mark.parametrize(("workers", "method", "opened", "kept", "mode"), CELLS)
def test_workers_store_and_read_as_their_parent_does(
    workers, method, opened, kept, mode, python, mounted, natively, tmp_path  # noqa: F811
):  # fmt: skip
    environment = staged(tmp_path, FOREBAY_READ_CACHE=mode)
    before = bytes_read(mounted)
    assert train(python, environment, mounted, workers, method, opened, kept)["told"] == natively[kept]
    read = bytes_read(mounted) - before
    assert DATA_BYTES <= read <= most_bytes(workers, mode), read / DATA_BYTES
    left = replicas(environment["FOREBAY_NLS"])
    assert len(left) == (1 if mode == "on" else 0), left


@pytest.mark.parametrize(("workers", "method", "opened", "kept", "mode"), CELLS)
def test_following_reads_the_same_in_workers(
    workers, method, opened, kept, mode, python, mounted, natively, tmp_path  # noqa: F811
):  # fmt: skip
    """`python -m forebay run` has the rows fetched that come next. Following counts as asking, so there is no trial."""
    area = tmp_path / "area"
    area.mkdir()
    environment = native(PYTHONPATH=str(ROOT / "python"))
    before = bytes_read(mounted)
    options = ["run", "-q", "-o", f"nls={area}", "-o", f"read_cache={mode}", "--", python]
    told = train(python, environment, mounted, workers, method, opened, kept, before=["-m", "forebay", *options])
    assert told["told"] == natively[kept]
    assert told["counts"]["epochs"] == EPOCHS, told["counts"]
    assert not [name for name in told["counts"] if name.startswith("ended") or name == "errors"], told["counts"]
    read = bytes_read(mounted) - before
    assert DATA_BYTES <= read <= most_bytes(workers, mode), read / DATA_BYTES
    left = replicas(area)
    assert len(left) == (1 if mode == "on" else 0), left


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
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
