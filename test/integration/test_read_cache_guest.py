"""The read cache is a guest of the program: its descriptors, its forked children, and what it rereads."""

import resource
import subprocess
import sys

import pytest
from connector_environment import ROOT, _lines, native, run, run_python, slow_files, staged

from forebay.slowfs import available

h5py = pytest.importorskip("h5py")
pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

ROWS, ROW_BYTES, FILES = 300, 16 << 10, 120
DATA_BYTES = ROWS * ROW_BYTES

MAKE = f"""
import h5py, numpy as np
with h5py.File("target/data.h5", "w", libver="latest") as f:
    f["rows"] = np.random.default_rng(1).integers(0, 256, ({ROWS}, {ROW_BYTES}), "u1")
for number in range({FILES}):
    with h5py.File(f"target/small{{number}}.h5", "w") as f:
        f["x"] = np.full(5000, number)
"""


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("read-cache-guest")
    with slow_files(folder, MAKE) as fs:
        yield folder, fs


def cached(tmp_path, **more):
    return staged(tmp_path, "read_cache=on", **more)


EPOCHS = f"""
import zlib
import numpy as np
def epochs(rows, seed):
    total = 0
    for epoch in range(3):
        for row in np.random.default_rng(seed + epoch).permutation({ROWS}):
            total += zlib.crc32(rows[int(row)].tobytes()) * int(row + 1)
    return total
"""
FORKED = (
    EPOCHS
    + """
import os, sys, h5py
f = h5py.File("target/data.h5")
rows = f["rows"]
len(rows)
ends = []
for worker in range(2):
    into, out = os.pipe()
    ends.append(into)
    if os.fork() == 0:
        if sys.argv[1] == "again":
            with h5py.File("target/data.h5") as own:
                os.write(out, str(epochs(own["rows"], worker)).encode())
        else:
            os.write(out, str(epochs(rows, worker)).encode())
        if sys.argv[2] == "os._exit":
            os._exit(0)
        sys.exit(0)
    os.close(out)
print(*[os.read(end, 100).decode() for end in ends])
for end in ends:
    os.wait()
"""
)
POOLS = (
    EPOCHS
    + """
import multiprocessing, sys, h5py
def work(worker):
    with h5py.File("target/data.h5") as own:
        return epochs(own["rows"], worker)
if __name__ == "__main__":
    with h5py.File("target/data.h5") as f:
        len(f["rows"])
        with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            print(*pool.map(work, range(2)))
"""
)


@pytest.mark.check
@pytest.mark.parametrize("ending", ["os._exit", "sys.exit"])
@pytest.mark.parametrize("file", ["again", "inherited"])
def test_workers_that_are_forked_beside_an_open_file_read_it_once_together(mounted, tmp_path, file, ending):
    folder, fs = mounted
    program = [sys.executable, "-c", FORKED, file, ending]
    expected = run(program, native(), folder).stdout
    fs.reset()
    done = run(program, cached(tmp_path), folder)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert fs.stats()["bytes_read"] < 2.5 * DATA_BYTES, "6 epochs of two workers"
    children = [line["process"]["cache"] for line in _lines(tmp_path) if "process" in line][:-1]
    if ending == "sys.exit":
        assert len(children) == 2 and all(c["hit_bytes"] > DATA_BYTES and not c["aside"] for c in children), children


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_of_multiprocessing_share_what_they_read(mounted, tmp_path, method):
    folder, fs = mounted
    (tmp_path / "pool.py").write_text(POOLS)
    program = [sys.executable, str(tmp_path / "pool.py"), method]
    expected = run(program, native(), folder).stdout
    fs.reset()
    done = run(program, cached(tmp_path), folder)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert fs.stats()["bytes_read"] < 2.5 * DATA_BYTES


# h5py itself hangs in a child that is forked while another thread reads, so the threads are forebay's own.
def test_children_that_are_forked_while_forebay_fetches_get_what_the_file_holds(mounted, tmp_path):
    folder, _ = mounted
    code = (
        EPOCHS
        + """
import os, h5py
statuses, sums = [], []
for turn in range(6):
    f = h5py.File("target/data.h5")
    rows = f["rows"]
    for row in range(turn * 20):
        rows[row]
    child = os.fork()
    if child == 0:
        with h5py.File("target/data.h5") as own:
            os._exit(0 if epochs(own["rows"], 5) == epochs(rows, 5) else 1)
    sums.append(epochs(rows, 5))
    f.close()
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(set(statuses), *set(sums))
"""
    )
    program = [sys.executable, "-c", code]
    expected = run(program, native(), folder).stdout
    done = run(program, cached(tmp_path, FOREBAY_PREFETCH="open"), folder)
    assert done.stdout == expected and expected.startswith("{0} "), done.stdout + done.stderr


def test_children_that_are_forked_while_a_thread_is_in_a_call_of_forebay_read_on(mounted, tmp_path):
    folder, _ = mounted
    code = """
import os, threading, zlib, h5py
from forebay.plugin import loaded_plugins
f = h5py.File("target/data.h5")
rows = f["rows"]
sums, asked, ended = [zlib.crc32(rows[row].tobytes()) for row in range(200)], 0, threading.Event()
def ask():
    global asked
    while not ended.is_set():
        for plugin in loaded_plugins():
            asked += len(plugin.statistics()) > 0
threads = [threading.Thread(target=ask) for _ in range(2)]
for thread in threads:
    thread.start()
statuses = set()
for row in range(200):
    child = os.fork()
    if child == 0:
        os._exit(0 if zlib.crc32(rows[row].tobytes()) == sums[row] else 1)
    statuses.add(os.waitpid(child, 0)[1])
ended.set()
for thread in threads:
    thread.join()
print(statuses, asked > 0)
"""
    done = run([sys.executable, "-c", code], cached(tmp_path, PYTHONPATH=str(ROOT / "python")), folder)
    assert done.stdout == "{0} True\n", done.stdout + done.stderr


# Opens files until it fails for want of a descriptor, and says how many it had.
UNTIL_NONE_IS_LEFT = f"""
import errno, h5py, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
first, total, files, others = int(sys.argv[2]), 0, [], []
try:
    for number in range({FILES}):
        files.append(h5py.File(f"target/small{{number}}.h5", "r"))
        total += int(files[-1]["x"][7])
        if number + 1 == first:
            while True:
                others.append(os.open("/", os.O_RDONLY))
except OSError as error:
    print(error.errno == errno.EMFILE or "errno = 24" in str(error), len(files), len(others), total)
for other in others:
    os.close(other)
print(sum(int(f["x"][9]) for f in files), sum(int(f["x"][()].sum()) for f in files))
"""


@pytest.mark.parametrize("limit, first", [(100, 10_000), (64, 10)])
def test_a_program_has_as_many_files_open_as_natively(mounted, tmp_path, limit, first):
    folder, _ = mounted
    program = [sys.executable, "-c", UNTIL_NONE_IS_LEFT, str(limit), str(first)]
    expected = run(program, native(), folder)
    for turn in range(2):  # the second time it is cached
        done = run(program, cached(tmp_path), folder)
        assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr
        assert done.stderr == expected.stderr, "nothing is said of it"


def test_files_that_are_cached_take_no_descriptors_of_their_own(mounted, tmp_path):
    folder, _ = mounted
    code = f"""
import h5py, os
files = [h5py.File(f"target/small{{number}}.h5", "r") for number in range({FILES})]
assert sum(int(f["x"][7]) for f in files) == sum(range({FILES}))
print(len(os.listdir("/proc/self/fd")) - {FILES})
"""
    used = [int(run_python(code, environment, folder)) for environment in (native(), cached(tmp_path))]
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 128 * 128)
    assert used[1] - used[0] <= limit // 128 + 1, used


WRITE = """
import sys, h5py
with h5py.File("target/changing.h5", sys.argv[1], libver="latest", locking=False) as f:
    if sys.argv[1] == "w":
        f.create_group("g")
        f["c"] = f["g/c"] = [0] * 300_000
    else:
        f["c"][...] = f["g/c"][...] = int(sys.argv[2])
"""


# h5py has a call for datasets only.
LIBRARY = """
import ctypes
(path,) = {line.split()[-1] for line in open("/proc/self/maps") if "/libhdf5-" in line or "/libhdf5.so" in line}
library = ctypes.CDLL(path)
def refresh(how, object):
    call = getattr(library, how)
    call.argtypes = [ctypes.c_int64]
    assert call(object.id.id) >= 0
"""


@pytest.mark.parametrize("revalidate", ["open", "never"])
@pytest.mark.parametrize("refresh", ["c.refresh()", "refresh('H5Orefresh', c)", "refresh('H5Grefresh', f['g'])"])
def test_what_is_read_after_a_refresh_is_of_one_state(mounted, tmp_path, refresh, revalidate):
    folder, _ = mounted
    subprocess.run([sys.executable, "-c", WRITE, "w"], env=native(), cwd=folder, check=True)
    code = f"""
import subprocess, sys, h5py
{LIBRARY}
f = h5py.File("target/changing.h5", "r", libver="latest", locking=False)
c = f["c"]
for begin in range(0, 150_000, 1500):
    c[begin : begin + 1500]
for state in ("1", "2"):
    subprocess.run([sys.executable, "-c", {WRITE!r}, "r+", state], env={native()!r}, check=True)
    {refresh}
    print(set(c[...].tolist()))
"""
    environment = cached(tmp_path, FOREBAY_REVALIDATE=revalidate)
    assert run_python(code, environment, folder).split("\n")[:2] == ["{1}", "{2}"]
    (cache,) = [line["process"]["cache"] for line in _lines(tmp_path) if "process" in line]
    assert cache["stored_bytes"] > 0 and cache["aside"] == {"changed": 1}, cache


def test_a_file_that_is_read_through_the_cache_is_not_listed_as_left_alone(mounted, tmp_path):
    folder, _ = mounted
    run_python("import h5py; h5py.File('target/data.h5')['rows'][0]", cached(tmp_path), folder)
    (process,) = [line["process"] for line in _lines(tmp_path) if "process" in line]
    assert process["aside"] == {} and process["cache"]["files"] == 1, process
