"""Unmodified programs that read a file again and again: what is read is what the file holds, and comes from the cache.

The file is on a slowfs mount, as files on a local file system are left alone (docs/read-cache.md).
"""

import json
import os
import signal
import subprocess
import sys
import time
import zlib

import pytest
from connector_environment import CLOCK_BEHIND_S, _lines, native, run, run_python, slow_files, staged
from test_cli import FOREBAY

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

ROWS, ROW_BYTES = 512, 64 << 10
DATA_BYTES = ROWS * ROW_BYTES
UNIT = 256 << 10  # the cache's own
YOUNG_SECONDS = 3.2  # a file that changed later than so long ago is not stored

MAKE = f"""
import sys, h5py, numpy as np
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
random = np.random.default_rng(seed)
with h5py.File("target/data.h5", "w", libver="latest") as f:
    f.create_dataset("rows", data=random.integers(0, 256, ({ROWS}, {ROW_BYTES}), dtype=np.uint8))
    f.attrs["seed"] = seed
"""

# Prints a checksum of each epoch's rows, in the order of the rows.
READ = f"""
import sys, zlib, h5py, numpy as np
epochs, share = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
with h5py.File("target/data.h5") as f:
    rows, random = f["rows"], np.random.default_rng(7)
    for epoch in range(epochs):
        sums = [0] * {ROWS}
        for row in random.permutation({ROWS})[: int({ROWS} * share)]:
            sums[row] = zlib.crc32(rows[row].tobytes())
        print(epoch, f.attrs["seed"], zlib.crc32(repr(sums).encode()), flush=True)
"""


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    """A slow file system with a file on it that is old enough to be cached, and what reading it gives natively."""
    folder = tmp_path_factory.mktemp("read-cache")
    with slow_files(folder, MAKE) as fs:
        yield folder, fs


def cached(tmp_path, **more):
    return staged(tmp_path, "read_cache=on", **more)


def caches(tmp_path):
    """What the cache of each process counted."""
    return [line["process"].get("cache") for line in _lines(tmp_path) if "process" in line]


def read(environment, folder, *arguments):
    done = run([sys.executable, "-c", READ, *arguments], environment, folder)
    assert done.returncode == 0, done.stderr
    return done


def prefetch(environment, folder):
    """All of the file is cached: what is read is stored behind the reader, and a busy machine may not come so far."""
    done = run([FOREBAY, "cache", "prefetch", "target/data.h5"], environment, folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.check
def test_later_epochs_and_processes_read_from_the_node(mounted, tmp_path):
    folder, fs = mounted
    expected = read(native(), folder, "3").stdout
    assert read(cached(tmp_path), folder, "3").stdout == expected
    (first,) = caches(tmp_path)
    assert first["hit_bytes"] > 0 and first["fetched_bytes"] > 0, first
    assert first["hit_bytes"] + first["missed_bytes"] >= 3 * DATA_BYTES, first
    prefetch(cached(tmp_path), folder)
    before = fs.stats()["operations"]["read"]["bytes"]
    assert read(cached(tmp_path), folder, "3").stdout == expected
    second = caches(tmp_path)[-1]
    assert second["hit_bytes"] >= 3 * DATA_BYTES and second["fetched_bytes"] == second["missed_bytes"] == 0, second
    assert fs.stats()["operations"]["read"]["bytes"] == before


def test_processes_that_read_at_once_share_what_each_fetches(mounted, tmp_path):
    folder, _ = mounted
    expected = read(native(), folder, "2").stdout
    environment = cached(tmp_path)
    readers = [
        subprocess.Popen([sys.executable, "-c", READ, "2"], env=environment, cwd=folder, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [reader.communicate()[0].decode() for reader in readers] == [expected] * 3
    told = caches(tmp_path)
    assert len(told) == 3 and sum(process["hit_bytes"] for process in told) > 0, told
    assert all(process["hit_bytes"] + process["missed_bytes"] >= 2 * DATA_BYTES for process in told), told


def test_a_reader_that_is_killed_leaves_nothing_wrong(mounted, tmp_path):
    folder, _ = mounted
    expected = read(native(), folder, "1").stdout
    for lines in (0, 1):
        reader = subprocess.Popen(
            [sys.executable, "-c", READ, "50"], env=cached(tmp_path), cwd=folder, stdout=subprocess.PIPE
        )
        for _ in range(lines):
            reader.stdout.readline()
        while not list((tmp_path / "staging-area").rglob("presence")):  # it has begun to cache
            time.sleep(0.01)
        os.kill(reader.pid, signal.SIGKILL)
        reader.wait()
        reader.stdout.close()
    assert read(cached(tmp_path), folder, "1").stdout == expected
    assert caches(tmp_path)[-1]["hit_bytes"] > 0


@pytest.fixture
def own(tmp_path):
    """A slow file system of the test's own, with the file on it, which is old enough to be cached."""
    with SlowFS(
        tmp_path / "backing", tmp_path / "target", latency={"read": "0.2ms"}, clock_behind=CLOCK_BEHIND_S
    ) as fs:
        run_python(MAKE, native(), tmp_path)
        yield fs


def test_a_file_that_has_just_been_written_is_not_stored(own, tmp_path):
    """Its time is that of a server whose clock is far ahead: it stays young for as long as the test takes."""
    ahead = time.time() + 24 * 3600
    os.utime(tmp_path / "target" / "data.h5", (ahead, ahead))
    assert read(cached(tmp_path), tmp_path, "1").stdout == read(native(), tmp_path, "1").stdout
    told = caches(tmp_path)[-1]
    assert told["stored_bytes"] == told["hit_bytes"] == 0 and told["aside"] == {"young": 1}, told


@pytest.mark.parametrize("by", ["native", "forebay"])
def test_a_file_that_was_written_between_two_opens_is_read_anew(own, tmp_path, by):
    read(cached(tmp_path), tmp_path, "2")
    assert caches(tmp_path)[-1]["hit_bytes"] > 0
    writer = native() if by == "native" else cached(tmp_path)
    done = run([sys.executable, "-c", MAKE, "2"], writer, tmp_path)
    assert done.returncode == 0, done.stderr
    assert read(cached(tmp_path), tmp_path, "2").stdout == read(native(), tmp_path, "2").stdout
    assert read(cached(tmp_path), tmp_path, "2").stdout == read(native(), tmp_path, "2").stdout
    assert caches(tmp_path)[-1]["hit_bytes"] > 0, "the new bytes are stored in the place of the old ones"


def test_a_file_on_a_local_file_system_is_left_alone(tmp_path):
    (tmp_path / "target").mkdir()
    run_python(MAKE, native(), tmp_path)
    assert read(cached(tmp_path), tmp_path, "2").stdout == read(native(), tmp_path, "2").stdout
    assert caches(tmp_path)[-1]["aside"] == {"fast": 1}
    assert not list((tmp_path / "staging-area").rglob("replica"))


def test_switched_off_nothing_is_cached(mounted, tmp_path):
    folder, _ = mounted
    off = staged(tmp_path, "read_cache=off")
    assert read(off, folder, "3").stdout == read(native(), folder, "3").stdout
    assert caches(tmp_path) == [None]
    assert not list((tmp_path / "staging-area").rglob("cache"))


def test_a_cache_that_is_too_small_keeps_what_it_has(mounted, tmp_path):
    folder, _ = mounted
    half = str(DATA_BYTES // 2)
    environment = cached(tmp_path, FOREBAY_READ_CACHE_SIZE=half)
    filled = run([FOREBAY, "cache", "prefetch", "--json", "target/data.h5"], environment, folder)
    (file,) = json.loads(filled.stdout)["files"]
    assert filled.returncode == 1 and "no more room" in file["problem"] and file["cached_bytes"] > 0, filled
    assert read(environment, folder, "4").stdout == read(native(), folder, "4").stdout
    told = caches(tmp_path)[-1]
    assert file["cached_bytes"] <= DATA_BYTES // 2 and told["stored_bytes"] <= DATA_BYTES // 2, told
    # The metadata at the beginning may be read once only.
    assert told["hit_bytes"] >= 4 * (file["cached_bytes"] - ROW_BYTES), (file, told)


def test_where_the_staging_area_cannot_be_used_the_file_is_read(mounted, tmp_path):
    folder, _ = mounted
    done = read(cached(tmp_path, FOREBAY_NLS=str(tmp_path / "missing")), folder, "1")
    assert done.stdout == read(native(), folder, "1").stdout
    assert done.stderr.count("forebay: ") == 1 and "read cache" in done.stderr, done.stderr
    assert caches(tmp_path)[-1]["aside"] == {"fault": 1}


def test_the_file_changes_while_it_is_open(own, tmp_path):
    """Another program writes it all the same. What is read is of the one or the other, as natively, and what was
    stored is not served to the next open."""
    code = """
import subprocess, sys, h5py
f = h5py.File("target/data.h5", locking=False)
before = f["rows"][0].tobytes()
subprocess.run([sys.executable, "-c", sys.argv[1], "2"], check=True, env=eval(sys.argv[2]))
f.close()
with h5py.File("target/data.h5", locking=False) as f:
    print(f.attrs["seed"], f["rows"][0].tobytes() != before)
"""
    done = run([sys.executable, "-c", code, MAKE, repr(native())], cached(tmp_path), tmp_path)
    assert done.returncode == 0 and done.stdout.split() == ["2", "True"], done.stdout + done.stderr


def test_a_forked_child_reads_what_its_parent_has_open(mounted, tmp_path):
    folder, _ = mounted
    code = """
import os, zlib, h5py
f = h5py.File("target/data.h5")
rows = f["rows"]
for row in range(0, 200):
    rows[row]
children = []
for child in range(2):
    children.append(os.fork())
    if children[-1] == 0:
        total = 0
        for row in range(len(rows)):
            total = zlib.crc32(rows[row].tobytes(), total)
        with h5py.File("target/data.h5") as again:
            other = 0
            for row in range(len(rows)):
                other = zlib.crc32(again["rows"][row].tobytes(), other)
        os._exit(0 if total == other == int(os.environ["EXPECTED"]) else 1)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
total = 0
for row in range(len(rows)):
    total = zlib.crc32(rows[row].tobytes(), total)
assert total == int(os.environ["EXPECTED"])
"""
    with h5py.File(folder / "backing" / "data.h5") as f:
        expected = 0
        for row in f["rows"]:
            expected = zlib.crc32(row.tobytes(), expected)
    done = run([sys.executable, "-c", code], cached(tmp_path, EXPECTED=str(expected)), folder)
    assert done.returncode == 0 and done.stdout.strip() == "[0, 0]", done.stdout + done.stderr
    assert caches(tmp_path)[-1]["hit_bytes"] > 0


# Waits for a prefetch as a program does: by asking how much is left.
CALLS = """
import ctypes, errno, h5py, json, os, sys, time, zlib
calls = ctypes.CDLL(os.path.join(os.environ["HDF5_PLUGIN_PATH"], "libforebay_vol.so"), use_errno=True)
calls.forebay_path_prefetch.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]

def outcome(result):
    return ctypes.get_errno() if result == -1 else result

def prefetch(path, *ranges):
    numbers = ctypes.c_uint64 * len(ranges)
    offsets, lengths = numbers(*(r[0] for r in ranges)), numbers(*(r[1] for r in ranges))
    return outcome(calls.forebay_path_prefetch(path, len(ranges), offsets, lengths))

def prefetch_left(path):
    left = ctypes.c_uint64()
    return left.value if calls.forebay_path_prefetch_left(path, ctypes.byref(left)) == 0 else -ctypes.get_errno()

def await_prefetch(path):
    while prefetch_left(path) > 0:
        time.sleep(0.01)
    return prefetch_left(path)

# What the program itself was just reading may be left out of a prefetch. Once nothing is left, it is so no more.
def prefetch_wholly(path, *ranges):
    for attempt in range(2):
        assert prefetch(path, *ranges) == 0 and await_prefetch(path) == 0

def cache():
    text, length = ctypes.create_string_buffer(4096), ctypes.c_uint64()
    assert calls.forebay_statistics(text, ctypes.c_uint64(4096), ctypes.byref(length)) == 0 and length.value < 4096
    return json.loads(text.value)["process"]["cache"]

COUNTED = ("fetched_bytes", "stored_bytes", "missed_bytes")
"""


def test_a_file_is_prefetched_when_it_is_opened(mounted, tmp_path):
    folder, fs = mounted
    code = (
        CALLS
        + """
with h5py.File("target/data.h5") as f:
    assert await_prefetch(b"target/data.h5") == 0
    assert cache()["fetched_bytes"] > f["rows"].nbytes // 2
    prefetch_wholly(b"target/data.h5")
    then = cache()
    checksum = zlib.crc32(f["rows"][()].tobytes())
    print(checksum, cache()["fetched_bytes"] - then["fetched_bytes"], *(then[n] for n in COUNTED))
"""
    )
    done = run([sys.executable, "-c", code], cached(tmp_path, FOREBAY_PREFETCH="open"), folder)
    assert done.returncode == 0, done.stderr
    with h5py.File(folder / "backing" / "data.h5") as f:
        expected = zlib.crc32(f["rows"][()].tobytes())
    checksum, more, fetched, stored, missed = map(int, done.stdout.split())
    assert checksum == expected and more == 0, done.stdout
    # Nothing is fetched twice but what the program had read itself meanwhile.
    size = os.path.getsize(folder / "target" / "data.h5")
    assert stored == size and size <= fetched <= size + missed < size + UNIT, done.stdout


def sum_of_rows(environment, folder, name):
    code = f"import zlib, h5py; print(zlib.crc32(h5py.File('target/{name}', 'r')['rows'][()].tobytes()))"
    return int(run_python(code, environment, folder))


WRITE_OWN = f"""
def write(seed):
    with h5py.File("target/own.h5", "w") as f:
        f["rows"] = numpy.random.default_rng(seed).integers(0, 256, (100, {ROW_BYTES}), dtype=numpy.uint8)
        return f["rows"].id.get_offset()
"""


def test_what_a_process_has_written_is_fetched_when_it_opens_it_again(mounted, tmp_path):
    folder, fs = mounted
    code = (
        CALLS
        + "import numpy"
        + WRITE_OWN
        + """
write(3)
with h5py.File("target/own.h5") as f, h5py.File("target/data.h5") as other:
    assert await_prefetch(b"target/own.h5") == 0 and prefetch_left(b"target/data.h5") == 0
    then = cache()
    checksum = zlib.crc32(f["rows"][()].tobytes())
    print(checksum, cache()["fetched_bytes"] - then["fetched_bytes"], *(then[n] for n in COUNTED))
"""
    )
    done = run([sys.executable, "-c", code], cached(tmp_path, FOREBAY_PREFETCH="written"), folder)
    assert done.returncode == 0, done.stderr
    checksum, more, fetched, _, missed = map(int, done.stdout.split())
    # Of the other file, which was opened only, the blocks of its first bytes.
    assert more == 0 and 100 * ROW_BYTES <= fetched <= 100 * ROW_BYTES + missed + UNIT, done.stdout
    assert checksum == sum_of_rows(native(), folder, "own.h5")
    # A later process finds it, and asks the file system for nothing.
    before = fs.stats()["operations"]["read"]["bytes"]
    assert sum_of_rows(cached(tmp_path), folder, "own.h5") == checksum
    assert fs.stats()["operations"]["read"]["bytes"] == before
    assert caches(tmp_path)[-1]["hit_bytes"] >= 100 * ROW_BYTES


@pytest.mark.parametrize("times_are_kept", [False, True])
def test_a_write_of_somebody_else_in_the_same_tick_is_not_lost(tmp_path, times_are_kept):
    """That the file is young is what tells: this file system's clock is right."""
    code = (
        CALLS
        + "import numpy"
        + WRITE_OWN
        + f"""
at = write(4)
was = os.stat("target/own.h5")
descriptor = os.open("target/own.h5", os.O_RDWR)
os.pwrite(descriptor, b"somebody else" * 1000, at + 5000)
os.close(descriptor)
if {times_are_kept}:
    os.utime("target/own.h5", ns=(was.st_atime_ns, was.st_mtime_ns))
def total():
    with h5py.File("target/own.h5") as f:
        return zlib.crc32(f["rows"][()].tobytes())
print(total())
time.sleep({YOUNG_SECONDS})
with h5py.File("target/own.h5") as f:
    assert await_prefetch(b"target/own.h5") == 0
    print(zlib.crc32(f["rows"][()].tobytes()))
"""
    )
    with SlowFS(tmp_path / "backing", tmp_path / "target", latency={"read": "0.3ms"}):
        done = run([sys.executable, "-c", code], cached(tmp_path, FOREBAY_PREFETCH="written"), tmp_path)
        assert done.returncode == 0, done.stderr
        expected = sum_of_rows(native(), tmp_path, "own.h5")
        assert list(map(int, done.stdout.split())) == [expected, expected]
        assert sum_of_rows(cached(tmp_path), tmp_path, "own.h5") == expected
        assert caches(tmp_path)[-1]["hit_bytes"] >= 100 * ROW_BYTES


def test_a_program_prefetches_ranges_and_reads_its_statistics(mounted, tmp_path):
    folder, _ = mounted
    code = (
        CALLS
        + f"""
assert prefetch(b"target/data.h5", (0, 100)) == errno.ENOENT
with h5py.File("target/data.h5") as f:
    begin = f["rows"].id.get_offset()
    assert prefetch(b"no/such/file", (0, 100)) == errno.ENOENT
    assert outcome(calls.forebay_path_prefetch(b"target/data.h5", 1, None, None)) == errno.EINVAL
    prefetch_wholly(b"target/../target/data.h5", (begin + 100 * {ROW_BYTES}, 50 * {ROW_BYTES}), (2**63, 10))
    before = cache()
    f["rows"][100:150]
    after = cache()
    print(after["hit_bytes"] - before["hit_bytes"], after["missed_bytes"] - before["missed_bytes"])
    assert prefetch(b"target/data.h5") == 0 and calls.forebay_path_prefetch_cancel(b"target/data.h5") == 0
assert prefetch_left(b"target/data.h5") == -errno.ENOENT
"""
    )
    done = run([sys.executable, "-c", code], cached(tmp_path), folder)
    assert done.returncode == 0, done.stderr
    hit, missed = map(int, done.stdout.split())
    assert hit == 50 * ROW_BYTES and missed == 0


def test_a_file_that_is_not_cached_cannot_be_prefetched(mounted, tmp_path):
    folder, _ = mounted
    code = CALLS + 'with h5py.File("target/data.h5"): assert prefetch(b"target/data.h5", (0, 100)) == errno.ENOTSUP'
    done = run([sys.executable, "-c", code], staged(tmp_path, "read_cache=off"), folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("when", ["always", "1", "open", "never"])
def test_a_change_by_another_node_is_seen_when_the_option_says(own, tmp_path, when):
    """The file is changed below the mount's page cache, as another node would; its times show it."""
    code = (
        CALLS
        + """
from pathlib import Path
path = Path("target/data.h5")
f = h5py.File(path, locking=False)
begin = f["rows"].id.get_offset()
f["rows"][()]
prefetch_wholly(b"target/data.h5")
with open(path, "r+b", buffering=0) as other:
    other.seek(begin)
    other.write(bytes(range(256)) * 256)
time.sleep(1.2)
print(f["rows"][0].tobytes() == bytes(range(256)) * 256)
again = h5py.File(path, locking=False)
print(again["rows"][0].tobytes() == bytes(range(256)) * 256)
"""
    )
    done = run([sys.executable, "-c", code], cached(tmp_path, FOREBAY_REVALIDATE=when), tmp_path)
    assert done.returncode == 0, done.stderr
    expected = {
        "always": ["True True"],
        "1": ["True True"],
        "open": ["False True", "True True"],
        "never": ["False False"],
    }
    assert " ".join(done.stdout.split()) in expected[when]


CHANGES = {
    "rewritten in place, its old times put back": """
        times = os.stat(path)
        with open(path, "r+b") as other:
            other.write(new)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))""",
    "replaced by another one": """
        Path("target/new.h5").write_bytes(new)
        os.replace("target/new.h5", path)""",
    "removed and made anew": """
        os.unlink(path)
        path.write_bytes(new)""",
    "cut and written anew": """
        os.truncate(path, 0)
        path.write_bytes(new)""",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is_another_one_at_the_next_open_is_read_as_it_is(own, tmp_path, change):
    """The same size, and twice within a process that has cached it."""
    code = f"""
import os, zlib, h5py
from pathlib import Path
path = Path("target/data.h5")
old = path.read_bytes()
new = bytearray(old)
with h5py.File(path) as f:
    begin = f["rows"].id.get_offset()
    f["rows"][()]
for number in range(2):
    for row in range(2):
        new[begin + row * {ROW_BYTES} : begin + (row + 1) * {ROW_BYTES}] = bytes([number + 7]) * {ROW_BYTES}
    if True:{CHANGES[change]}
    with h5py.File(path) as f:
        print(zlib.crc32(f["rows"][()].tobytes()) == zlib.crc32(new[begin : begin + {DATA_BYTES}]))
"""
    done = run([sys.executable, "-c", code], cached(tmp_path), tmp_path)
    assert done.returncode == 0 and done.stdout.split() == ["True", "True"], done.stdout + done.stderr
    assert caches(tmp_path)[-1]["stored_bytes"] >= DATA_BYTES // 8, "the first open cached it"


def test_a_file_that_is_removed_while_it_is_open_is_read_to_its_end(own, tmp_path):
    code = (
        CALLS
        + """
with h5py.File("target/data.h5") as f:
    half = len(f["rows"]) // 2
    first = f["rows"][:half].tobytes()
    prefetch_wholly(b"target/data.h5")
    os.unlink("target/data.h5")
    again, second = f["rows"][:half].tobytes(), f["rows"][half:].tobytes()
print(first == again, zlib.crc32(first + second))
"""
    )
    with h5py.File(tmp_path / "backing" / "data.h5") as f:
        expected = zlib.crc32(f["rows"][()].tobytes())
    done = run([sys.executable, "-c", code], cached(tmp_path), tmp_path)
    assert done.returncode == 0 and done.stdout.split() == ["True", str(expected)], done.stdout + done.stderr
    assert caches(tmp_path)[-1]["hit_bytes"] >= DATA_BYTES
