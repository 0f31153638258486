"""The Python package: switching forebay on for a block, waiting, counters of a file, and rows for training loops."""

import sys

import pytest
from connector_environment import bytes_staged, run_python
from test_python_api import enabled

import forebay

h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")


def test_a_block_stages_what_is_opened_in_it_and_nothing_else(tmp_path):
    code = """
import os, subprocess, sys, numpy as np, h5py, forebay
def write(name):
    with h5py.File(name, "w") as file:
        file["x"] = np.arange(100000)
before = dict(os.environ)
write("native.h5")
for number in range(2):
    with forebay.staging(os.environ["AREA"], size="1GiB"):
        write(f"staged{number}.h5")
        child = "import h5py, numpy as np; h5py.File('child.h5', 'a').create_dataset('x%d', data=np.arange(100000))"
        subprocess.run([sys.executable, "-c", child % number], check=True)
    assert dict(os.environ) == before
write("behind.h5")
contents = {open(name, "rb").read() for name in ("native.h5", "staged0.h5", "staged1.h5", "behind.h5")}
assert len(contents) == 1
"""
    run_python(code, enabled(tmp_path), tmp_path)
    text = (tmp_path / "statistics.jsonl").read_text()
    assert "staged0.h5" in text and "staged1.h5" in text and text.count("child.h5") == 2
    assert "native.h5" not in text and "behind.h5" not in text
    assert bytes_staged(tmp_path) >= 4 * 800000


def test_a_block_that_fails_leaves_the_process_native(tmp_path):
    code = """
import os, h5py, forebay
before = dict(os.environ)
try:
    with forebay.staging(os.environ["AREA"]):
        raise KeyError("of the program")
except KeyError:
    pass
assert dict(os.environ) == before
h5py.File("behind.h5", "w").close()
"""
    run_python(code, enabled(tmp_path), tmp_path)
    statistics = tmp_path / "statistics.jsonl"
    assert not statistics.exists() or "behind.h5" not in statistics.read_text()


def test_wait_returns_once_a_file_holds_everything(tmp_path):
    code = """
import os, numpy as np, forebay
forebay.enable(os.environ["AREA"])
import h5py
with h5py.File("a.h5", "w") as file:
    file["x"] = np.arange(100000)
    assert forebay.wait(file)
    counted = forebay.stats(file)
    assert counted["staged"] >= 800000 and counted["pending"] == 0, counted
    file["x"][0] = 7
    try:
        forebay.wait("a.h5")
    except forebay.WaitFailed as refusal:
        assert "pass the h5py.File" in str(refusal)
    else:
        raise AssertionError("it cannot hold the last write")
assert forebay.wait("a.h5", timeout=60)
assert forebay.wait("a.h5", timeout=60, sync=False)
assert forebay.wait()
for wrong in ("none.h5",):
    try:
        forebay.wait(wrong)
    except FileNotFoundError:
        continue
    raise AssertionError("no error")
"""
    run_python(code, enabled(tmp_path), tmp_path)


def test_no_request_for_prefetching_ends_the_staging_of_a_file_or_the_loop(tmp_path):
    code = """
import os, numpy as np, h5py, forebay
native = h5py.File("native.h5", "w")
forebay.enable(os.environ["AREA"])
with h5py.File("a.h5", "w") as file:
    file["x"] = np.arange(100000)
    file.create_dataset("chunked", data=np.arange(100000), chunks=(1000,))
    for name in ("x", "chunked"):
        try:
            forebay.prefetch(file[name])
        except OSError:
            pass
        else:
            raise AssertionError("a file that is written is not cached")
        assert list(forebay.follow(range(100), file[name])) == list(range(100))
        assert len(list(forebay.batches(file[name], size=1000))) == 100
    counted = forebay.stats(file)
    assert counted["pending"] > 0 and not counted.get("aside"), counted
rows = native.create_dataset("rows", data=np.arange(10))
layout = h5py.VirtualLayout((10,), rows.dtype)
layout[:] = h5py.VirtualSource(rows)
virtual = native.create_virtual_dataset("virtual", layout)
for dataset in (rows, virtual):
    assert list(forebay.follow(range(10), dataset)) == list(range(10))
    assert np.concatenate(list(forebay.batches(dataset, size=3))).tolist() == list(range(10))
"""
    run_python(code, enabled(tmp_path), tmp_path)
    assert "address_given" not in (tmp_path / "statistics.jsonl").read_text()


def test_what_a_native_file_is_asked_for_is_told(tmp_path):
    code = """
import h5py, forebay
file = h5py.File("a.h5", "w")
for call in (forebay.stats, forebay.wait):
    try:
        call(file)
    except forebay.NotEnabled:
        continue
    raise AssertionError(call)
"""
    run_python(code, enabled(tmp_path), tmp_path)


def test_a_notebook_shows_counters_as_a_table_with_units():
    shown = forebay.Statistics(
        {"path": "/p/<a>.h5", "staged": 3 << 20, "drain_ns": 1_500_000_000, "commits": 2, "cache": {"hit_bytes": 10}}
    )._repr_html_()
    assert "3.0 MiB" in shown and "1.500 s" in shown and ">2<" in shown
    assert "cache.hit_bytes" in shown and "10 B" in shown
    assert "/p/&lt;a&gt;.h5" in shown and "<a>" not in shown


@pytest.fixture
def rows_file(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["x"] = np.arange(30).reshape(10, 3)
        file["y"] = np.arange(10)
    return tmp_path / "rows.h5"


def test_rows_are_read_and_travel_to_other_processes(rows_file):
    import pickle

    data = forebay.HDF5Rows(rows_file, "x", "y")
    assert len(data) == 10
    x, y = data[3]
    assert x.tolist() == [9, 10, 11] and y == 3
    copy = pickle.loads(pickle.dumps(data))
    assert [item[1] for item in copy.__getitems__([4, 2])] == [4, 2]
    assert copy.file is not data.file
    data.close()
    copy.close()
    alone = forebay.HDF5Rows(rows_file, "y", transform=lambda row: int(row) * 2)
    assert alone[-1] == 18
    with pytest.raises(IndexError):
        alone[10]
    with pytest.raises(ValueError, match="at least one"):
        forebay.HDF5Rows(rows_file)
    assert "torch" not in sys.modules


def test_batches_hold_each_row_once_in_the_order_of_the_epoch(rows_file):
    with h5py.File(rows_file) as file:
        plain = list(forebay.batches(file["x"], file["y"], size=4))
        assert [len(y) for _, y in plain] == [4, 4, 2]
        assert np.concatenate([y for _, y in plain]).tolist() == list(range(10))
        shuffled = list(forebay.batches(file["x"], file["y"], size=4, seed=1, epoch=2))
        order = forebay.epoch_order(10, 1, 2)
        assert np.concatenate([y for _, y in shuffled]).tolist() == order
        for x, y in shuffled:
            assert (x[:, 0] == 3 * y).all()
        (only,) = forebay.batches(file["y"], size=10)
        assert only.tolist() == list(range(10))
        with pytest.raises(ValueError, match="one length"):
            forebay.batches(file["x"], file["x"][:5], size=1)
        with pytest.raises(ValueError, match="size is 0"):
            forebay.batches(file["x"], size=0)
