"""Programs with event sets see natively and through the connector the same data; asynchronous is what can be."""

import os
from pathlib import Path

import pytest
from connector_environment import ROOT, _lines, bytes_staged, hdf5_prefix, native, run, run_python, staged

from forebay.slowfs import SlowFS, available

PROGRAM = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release")) / "test" / "async_calls"
CASES = (
    "back-to-back",
    "closing-ends-reads",
    "order-contiguous",
    "order-chunked",
    "freed-space",
    "several-event-sets",
    "failing-at-once",
    "selections",
    "not-possible",
)


def counted(folder: Path) -> dict:
    """What the processes have counted of asynchronous calls; of each key the sum."""
    sums: dict = {"at_once": {}}
    for line in _lines(folder):
        for key, value in line.get("process", {}).get("async", {}).items():
            if key == "at_once":
                for reason, count in value.items():
                    sums["at_once"][reason] = sums["at_once"].get(reason, 0) + count
            else:
                sums[key] = sums.get(key, 0) + value
    return sums


def facts(output: str) -> list[str]:
    return [line for line in output.splitlines() if not line.startswith("async")]


def run_case(case: str, environment: dict[str, str], folder: Path, *arguments):
    done = run([PROGRAM, case, *arguments], environment, folder, 300)
    assert done.returncode == 0 and "WRONG" not in done.stdout and f"done {case}" in done.stdout, (
        done.stdout[-3000:] + done.stderr[-3000:]
    )
    return done


def assert_same_contents(left: Path, right: Path) -> None:
    """Where a chunk lies may differ: a read that is asynchronous has HDF5 write its chunks earlier."""
    names = sorted(path.name for path in left.glob("*.h5"))
    assert names and names == sorted(path.name for path in right.glob("*.h5"))
    for name in names:
        told = run([hdf5_prefix() / "bin" / "h5diff", left / name, right / name], native(), left)
        assert told.returncode == 0, f"{name}: {told.stdout[-2000:]}{told.stderr[-2000:]}"


@pytest.mark.parametrize("case", CASES)
def test_the_data_are_the_same(case, tmp_path):
    plain = run_case(case, native(), tmp_path / "native")
    through = run_case(case, staged(tmp_path), tmp_path / "run")
    assert facts(through.stdout) == facts(plain.stdout)
    assert_same_contents(tmp_path / "native", tmp_path / "run")
    if case != "failing-at-once":
        assert bytes_staged(tmp_path) > 0
    async_calls = counted(tmp_path)
    if case not in ("failing-at-once", "not-possible"):
        assert async_calls["reads"] > 0 and async_calls["read_bytes"] > 0, async_calls
    if case.startswith("order"):
        assert async_calls["reads"] >= 30, async_calls


def test_what_hdf5_has_to_read_is_read_at_once_and_counted(tmp_path):
    run_case("not-possible", staged(tmp_path), tmp_path / "run")
    async_calls = counted(tmp_path)
    assert async_calls["reads"] == 0
    assert async_calls["at_once"] == {"layout": 2, "unallocated": 1, "conversion": 3}


def test_back_to_back_reads_are_all_asynchronous(tmp_path):
    run_case("back-to-back", staged(tmp_path), tmp_path / "run")
    async_calls = counted(tmp_path)
    assert async_calls["reads"] == 100 and async_calls["at_once"] == {}, async_calls


def test_nothing_needs_to_be_staged_for_that(tmp_path):
    run_case("selections", staged(tmp_path, "full=through;size=1MiB"), tmp_path / "run")
    assert counted(tmp_path)["reads"] > 0 and counted(tmp_path)["at_once"] == {}


@pytest.fixture
def remote(tmp_path):
    usable, reason = available()
    if not usable:
        pytest.skip(f"slowfs cannot be used: {reason}")
    with SlowFS(tmp_path / "backing", tmp_path / "remote") as mounted:
        yield mounted


@pytest.mark.parametrize("cache", ["off", "on"])
@pytest.mark.parametrize("case", ["canceled", "erring", "forked"])
def test_a_file_that_does_not_answer_or_fails(case, cache, remote, tmp_path):
    done = run_case(case, staged(tmp_path, f"read_cache={cache}"), remote.mount_point, remote.mount_point / ".slowfs")
    assert counted(tmp_path)["reads"] >= 2
    assert {"canceled": "async at least one is canceled: 1", "erring": "async told", "forked": "done"}[
        case
    ] in done.stdout


def test_a_wait_with_a_time_limit_ends_and_a_close_waits(remote, tmp_path):
    done = run_case("hanging", staged(tmp_path), remote.mount_point, remote.mount_point / ".slowfs")
    assert "async count 7 operations 7\n" in done.stdout and "async left 7\n" in done.stdout
    assert counted(tmp_path)["reads"] == 8


# h5py has no asynchronous calls, but the library that it brings has them.
WITH_H5PY = """
import ctypes, h5py, numpy as np
library = next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5-" in line or "libhdf5.so" in line)
hdf5 = ctypes.CDLL(library)
hdf5.H5EScreate.restype = ctypes.c_int64
events = ctypes.c_int64(hdf5.H5EScreate())
data = np.arange(3000, dtype=np.int32).reshape(30, 100)
with h5py.File("h5py.h5", "w") as f:
    f["contiguous"] = data
    f.create_dataset("chunked", data=data, chunks=(7, 30))

def read(dataset):
    found = np.zeros_like(data)
    identifiers = [ctypes.c_int64(i) for i in (dataset.id.id, h5py.h5t.NATIVE_INT32.id, 0, 0, 0)]
    into = ctypes.c_void_p(found.ctypes.data)
    assert hdf5.H5Dread_async(b"file", b"function", ctypes.c_uint(1), *identifiers, into, events) >= 0
    left, failed = ctypes.c_size_t(9), ctypes.c_bool(True)
    assert hdf5.H5ESwait(events, ctypes.c_uint64(2**64 - 1), ctypes.byref(left), ctypes.byref(failed)) >= 0
    assert left.value == 0 and not failed.value
    assert np.array_equal(found, data), dataset.name

for mode in "r", "r+":
    with h5py.File("h5py.h5", mode) as f:
        read(f["contiguous"])
        read(f["chunked"])
        if mode == "r+":
            data[3] = 5
            f["contiguous"][3] = f["chunked"][3] = 5
            read(f["contiguous"])
            read(f["chunked"])
print("right")
"""


def test_the_library_of_the_stock_h5py_reads_asynchronously_too(tmp_path):
    pytest.importorskip("h5py")
    assert run_python(WITH_H5PY, staged(tmp_path), tmp_path / "run") == "right\n"
    assert counted(tmp_path)["reads"] == 6 and counted(tmp_path)["at_once"] == {}


# A program that extends a dataset while another one has two handles of it open, and refreshes one of them only.
EXTENDED = """
import ctypes, h5py, numpy as np, os, subprocess, sys
library = next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5-" in line or "libhdf5.so" in line)
hdf5 = ctypes.CDLL(library)
hdf5.H5EScreate.restype = ctypes.c_int64
events = ctypes.c_int64(hdf5.H5EScreate())

def read_upper_half(dataset):
    upper = (10, dataset.id.shape[1])
    found = np.full(upper, -1, dtype=np.int32)
    memory, file = h5py.h5s.create_simple(upper), dataset.id.get_space()
    file.select_hyperslab((0, 0), upper)
    identifiers = [ctypes.c_int64(i) for i in (dataset.id.id, h5py.h5t.NATIVE_INT32.id, memory.id, file.id, 0)]
    into = ctypes.c_void_p(found.ctypes.data)
    assert hdf5.H5Dread_async(b"file", b"function", ctypes.c_uint(1), *identifiers, into, events) >= 0
    left, failed = ctypes.c_size_t(9), ctypes.c_bool(True)
    assert hdf5.H5ESwait(events, ctypes.c_uint64(2**64 - 1), ctypes.byref(left), ctypes.byref(failed)) >= 0
    assert left.value == 0 and not failed.value
    return found

whole = np.arange(20 * SIZE, dtype=np.int32).reshape(20, SIZE)
with h5py.File("x.h5", "w", libver="latest") as f:
    f["room"], f["last"] = np.zeros(1 << 16), np.zeros(1)
    f.create_dataset("x", data=whole[:, :20], chunks=(10, 10), maxshape=(None, None))
extend = '''
import h5py, numpy as np, sys
size = int(sys.argv[1])
with h5py.File("x.h5", "r+", locking=False) as f:
    del f["room"]  # for the new chunks: the reader does not see that the file grows
    f["x"].resize((20, size))
    f["x"][...] = np.arange(20 * size, dtype=np.int32).reshape(20, size)
'''
f = h5py.File("x.h5", "r", locking=False)
first, second = f["x"], f["x"]
assert first.id.id != second.id.id
print("before", np.array_equal(read_upper_half(second), whole[:10, :20]))
plain = {k: v for k, v in os.environ.items() if k != "HDF5_VOL_CONNECTOR"}
subprocess.run([sys.executable, "-c", extend, str(SIZE)], env=plain, check=True)
first.id.refresh()
print(*(np.array_equal(read_upper_half(dataset), whole[:10]) for dataset in (second, first)))
"""


@pytest.mark.parametrize("size", [40, 25])  # two more chunks in a row, or one more
def test_a_refresh_through_one_handle_holds_for_reads_through_another(size, tmp_path):
    pytest.importorskip("h5py")
    program = EXTENDED.replace("SIZE", str(size))
    plain = run_python(program, native(), tmp_path / "native")
    assert plain == "before True\nTrue True\n"
    assert run_python(program, staged(tmp_path), tmp_path / "run") == plain
    assert counted(tmp_path)["reads"] == 3 and counted(tmp_path)["at_once"] == {}
