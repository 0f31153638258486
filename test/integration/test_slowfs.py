"""slowfs is the file system that others are tested on: what it promises (tools/slowfs/README.md) is tested here.

Times are only checked from below, as a busy machine can make anything slower; overlap is checked by counting.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from seeds import seed_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from forebay.slowfs import SlowFS, SlowFSError, available, program  # noqa: E402

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

MiB = 1 << 20


@pytest.fixture
def mounted(tmp_path):
    """Mounts with the options it is given; all are unmounted at the end."""
    mounts = []

    def mount(**options):
        fs = SlowFS(tmp_path / "backing", tmp_path / "mount", **options)
        fs.mount()
        mounts.append(fs)
        return fs

    yield mount
    for fs in mounts:
        fs.unmount()
    assert not os.path.ismount(tmp_path / "mount")


def opened(path, flags=os.O_RDWR | os.O_CREAT):
    return os.open(path, flags, 0o644)


def in_seconds(action):
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def on_threads(count, action):
    """Runs action(i) on as many threads, all at once."""
    barrier = threading.Barrier(count)

    def run(i):
        barrier.wait()
        return action(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


# What goes in comes out.


@pytest.mark.parametrize("page_cache", [False, True])
def test_random_operations_leave_what_they_leave_in_a_byte_array(mounted, page_cache):
    fs = mounted(page_cache=page_cache)
    choice = random.Random(seed_of("slowfs"))
    model = bytearray()
    fd = opened(fs / "file")
    for _ in range(400):
        offset = choice.randrange(3 * MiB)
        kind = choice.random()
        if kind < 0.5:
            data = choice.randbytes(choice.choice([1, 100, 4096, 65536, MiB, 2 * MiB + 77]))
            assert os.pwrite(fd, data, offset) == len(data)
            if len(model) < offset:
                model.extend(bytes(offset - len(model)))
            model[offset : offset + len(data)] = data
        elif kind < 0.6:
            os.ftruncate(fd, offset)
            del model[offset:]
            model.extend(bytes(offset - len(model)))
        elif kind < 0.65:
            os.fsync(fd)
        else:
            size = choice.randrange(2 * MiB)
            assert os.pread(fd, size, offset) == model[offset : offset + size]
    os.close(fd)
    assert (fs / "file").read_bytes() == model
    assert (fs.backing / "file").read_bytes() == model


def test_writes_reach_the_backing_file_before_they_return(mounted):
    fs = mounted()
    fd = opened(fs / "file")
    os.pwrite(fd, b"here", 10)
    assert (fs.backing / "file").read_bytes() == bytes(10) + b"here"
    (fs.backing / "file").write_bytes(b"changed below")
    assert os.pread(fd, 100, 0) == b"changed below"
    os.close(fd)


def test_appends_of_two_descriptors_do_not_overwrite_each_other(mounted):
    fs = mounted()
    one = opened(fs / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    two = opened(fs / "log", os.O_WRONLY | os.O_APPEND)
    for i in range(10):
        os.write(one if i % 2 else two, b"%d" % i)
    os.close(one)
    os.close(two)
    assert (fs / "log").read_bytes() == b"0123456789"


def test_names_behave_as_local_ones_do(mounted):
    fs = mounted()
    os.mkdir(fs / "run")
    (fs / "run/a").write_bytes(b"a")
    with pytest.raises(FileExistsError):
        opened(fs / "run/a", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    opened_twice = [os.open(fs / "run/a", os.O_RDONLY) for _ in range(2)]
    first, second = map(os.fstat, opened_twice)
    assert (first.st_ino, first.st_dev) == (second.st_ino, second.st_dev)
    assert first.st_ino == os.stat(fs.backing / "run/a").st_ino
    os.link(fs / "run/a", fs / "run/b")
    os.symlink("a", fs / "run/c")
    assert os.readlink(fs / "run/c") == "a"
    assert os.stat(fs / "run/b").st_ino == os.stat(fs / "run/c").st_ino == first.st_ino
    assert os.stat(fs / "run/a").st_nlink == 2
    os.rename(fs / "run/b", fs / "run/a2")
    assert sorted(os.listdir(fs / "run")) == ["a", "a2", "c"]
    os.unlink(fs / "run/a")
    os.unlink(fs / "run/a2")
    assert os.pread(opened_twice[0], 1, 0) == b"a"  # unlinked, but open
    with pytest.raises(OSError, match="not empty"):
        os.rmdir(fs / "run")
    os.unlink(fs / "run/c")
    os.rmdir(fs / "run")
    assert os.listdir(fs) == []
    for fd in opened_twice:
        os.close(fd)


def test_attributes_can_be_changed(mounted):
    fs = mounted()
    path = fs / "file"
    path.write_bytes(b"12345678")
    os.chmod(path, 0o640)
    os.utime(path, ns=(1_000_000_001, 2_000_000_002))
    os.truncate(path, 3)
    os.utime(path, ns=(1_000_000_001, 2_000_000_002))
    os.chown(path, os.getuid(), os.getgid())
    status = os.stat(path)
    assert (status.st_mode & 0o777, status.st_size) == (0o640, 3)
    assert (status.st_atime_ns, status.st_mtime_ns) == (1_000_000_001, 2_000_000_002)
    assert os.access(path, os.R_OK | os.W_OK)
    assert os.statvfs(path).f_blocks == os.statvfs(fs.backing).f_blocks


def test_space_can_be_allocated(mounted):
    fs = mounted()
    fd = opened(fs / "file")
    os.posix_fallocate(fd, 0, 3 * MiB)
    assert os.fstat(fd).st_size == 3 * MiB
    assert fs.stats()["operations"]["fallocate"]["count"] == 1
    os.close(fd)


def test_a_large_directory_is_listed_completely(mounted):
    fs = mounted()
    names = {f"{i:04}-{'x' * 40}" for i in range(2000)}
    for name in names:
        (fs.backing / name).touch()
    assert set(os.listdir(fs)) == names


def test_a_clock_that_is_behind_tells_old_times(mounted):
    path = mounted(clock_behind=3600) / "file"
    path.write_bytes(b"bytes")
    assert 3590 < time.time() - path.stat().st_mtime < 3700 and 3590 < time.time() - path.stat().st_ctime < 3700
    os.utime(path, (1_000_000_000, 1_500_000_000))
    assert (path.stat().st_atime, path.stat().st_mtime) == (1_000_000_000, 1_500_000_000)


def test_mmap_needs_the_page_cache(mounted):
    fs = mounted()
    (fs / "file").write_bytes(b"x" * 4096)
    fd = os.open(fs / "file", os.O_RDWR)
    with pytest.raises(OSError) as refused:
        mmap.mmap(fd, 4096)
    assert refused.value.errno == errno.ENODEV
    os.close(fd)
    fs.unmount()

    fs = mounted(page_cache=True)
    fd = os.open(fs / "file", os.O_RDWR)
    with mmap.mmap(fd, 4096) as view:
        view[:4] = b"mmap"
    os.close(fd)
    assert (fs.backing / "file").read_bytes()[:5] == b"mmapx"


# Locks.


def test_flock_conflicts_between_two_opens(mounted):
    fs = mounted()
    one, two = opened(fs / "file"), opened(fs / "file")
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(BlockingIOError):
        fcntl.flock(two, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.flock(one, fcntl.LOCK_UN)
    fcntl.flock(two, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.flock(one, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(one)
    os.close(two)


def test_flock_is_freed_with_its_last_descriptor(mounted):
    fs = mounted()
    one, two = opened(fs / "file"), opened(fs / "file")
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(one)
    fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(two)


def test_locks_can_be_missing(mounted):
    fs = mounted(locks=False)
    fd = opened(fs / "file")
    for lock in (fcntl.flock, fcntl.lockf):
        with pytest.raises(OSError) as refused:
            lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert refused.value.errno == errno.ENOSYS
    os.close(fd)


# Faults.


@pytest.mark.parametrize("name", ["EIO", "ENOSPC", "EDQUOT", "ESTALE"])
@pytest.mark.parametrize("nth", [1, 2, 4])
def test_the_nth_write_fails_with_the_error_named(mounted, name, nth):
    fs = mounted(faults=[f"op=write,errno={name},after={nth - 1},count=1"])
    fd = opened(fs / "file")
    for i in range(1, 6):
        if i != nth:
            assert os.pwrite(fd, b"x" * 100, i * 100) == 100
            continue
        with pytest.raises(OSError) as failure:
            os.pwrite(fd, b"x" * 100, i * 100)
        assert failure.value.errno == getattr(errno, name)
    assert os.pread(fd, 100, nth * 100) == (bytes(100) if nth < 5 else b"")
    os.close(fd)
    assert fs.stats()["faults"][0]["hit"] == 1


@pytest.mark.parametrize(
    ("operation", "action"),
    [
        ("open", lambda fs, fd: os.close(os.open(fs / "file", os.O_RDONLY))),
        ("create", lambda fs, fd: os.close(opened(fs / "new"))),
        ("read", lambda fs, fd: os.pread(fd, 10, 0)),
        ("truncate", lambda fs, fd: os.ftruncate(fd, 5)),
        ("fallocate", lambda fs, fd: os.posix_fallocate(fd, 0, 100)),
        ("fsync", lambda fs, fd: os.fsync(fd)),
        ("getattr", lambda fs, fd: os.fstat(fd)),
        ("setattr", lambda fs, fd: os.fchmod(fd, 0o600)),
        ("unlink", lambda fs, fd: os.unlink(fs / "file")),
        ("rename", lambda fs, fd: os.rename(fs / "file", fs / "other")),
        ("mkdir", lambda fs, fd: os.mkdir(fs / "new")),
        ("readdir", lambda fs, fd: os.listdir(fs)),
        ("flush", lambda fs, fd: os.close(os.dup(fd))),
    ],
)
def test_each_kind_of_operation_can_fail(mounted, operation, action):
    fs = mounted()
    fd = opened(fs / "file")
    os.pwrite(fd, b"0123456789", 0)
    descriptor = os.open(fs / ".slowfs", os.O_WRONLY)  # so that the control file's own lookup is not what fails
    os.write(descriptor, f"fault op={operation},errno=EDQUOT".encode())
    with pytest.raises(OSError) as failure:
        action(fs, fd)
    assert failure.value.errno == errno.EDQUOT
    os.write(descriptor, b"clear\n")
    action(fs, fd)
    os.close(descriptor)
    os.close(fd)


@pytest.mark.parametrize(("short", "moved"), [("half", 500), ("4", 4)])
def test_short_writes_and_reads_are_passed_on(mounted, short, moved):
    fs = mounted()
    fd = opened(fs / "file")
    fs.fault(f"op=write|read,short={short},count=2")
    assert os.pwrite(fd, b"x" * 1000, 0) == moved
    assert os.fstat(fd).st_size == moved
    assert len(os.pread(fd, 1000, 0)) == min(moved, 500)
    fs.clear()
    assert os.pwrite(fd, b"y" * 1000, 0) == 1000
    os.close(fd)


def test_faults_keep_to_their_range_and_path(mounted):
    fs = mounted(faults=["op=write,errno=EIO,offset=4096..8192,path=*.h5"])
    h5, log = opened(fs / "a.h5"), opened(fs / "a.log")
    os.pwrite(log, b"x" * 100, 5000)
    os.pwrite(h5, b"x" * 4096, 0)
    os.pwrite(h5, b"x" * 4096, 8192)
    for offset in (4095, 5000, 8191):
        with pytest.raises(OSError, match="Input/output"):
            os.pwrite(h5, b"xx", offset)
    os.close(h5)
    os.close(log)


def test_what_hangs_waits_until_it_is_released(mounted):
    fs = mounted(faults=["op=write,hang,count=1"])
    fd = opened(fs / "file")
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(os.pwrite, fd, b"x", 0)
        while fs.stats()["hanging"] == 0:
            time.sleep(0.005)
        assert not written.done()
        fs.release()
        assert written.result(60) == 1
    os.close(fd)


def test_a_bounded_hang_ends_by_itself(mounted):
    fs = mounted(faults=["op=write,hang=0.2s,errno=ESTALE"])
    fd = opened(fs / "file")

    def write():
        with pytest.raises(OSError) as failure:
            os.pwrite(fd, b"x", 0)
        assert failure.value.errno == errno.ESTALE

    assert in_seconds(write) >= 0.2
    os.close(fd)


def test_a_process_that_hangs_can_be_killed(mounted):
    fs = mounted(faults=["op=write,hang"])
    process = subprocess.Popen([sys.executable, "-c", f"open({str(fs / 'file')!r}, 'wb', 0).write(b'x')"])
    while fs.stats()["hanging"] == 0:
        time.sleep(0.005)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL


def test_the_mount_can_end_while_something_hangs(mounted):
    fs = mounted(faults=["op=write,hang"])
    fd = opened(fs / "file")
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(os.pwrite, fd, b"x", 0)
        while fs.stats()["hanging"] == 0:
            time.sleep(0.005)
        fs.unmount()
        assert isinstance(written.exception(60), OSError)
    with pytest.raises(OSError):
        os.close(fd)


# Time.


def test_transfers_take_at_least_what_the_bandwidth_allows(mounted):
    fs = mounted(bandwidth="40MiB/s")
    fd = opened(fs / "file")
    data = bytes(MiB)
    assert in_seconds(lambda: [os.pwrite(fd, data, i * MiB) for i in range(8)]) >= 8 / 40 * 0.9
    assert in_seconds(lambda: [os.pread(fd, MiB, i * MiB) for i in range(8)]) >= 8 / 40 * 0.9
    # Shared: as many threads are not faster.
    assert in_seconds(lambda: on_threads(4, lambda i: os.pwrite(fd, data * 2, i * 2 * MiB))) >= 8 / 40 * 0.9
    os.close(fd)


def test_reads_and_writes_can_have_bandwidths_of_their_own(mounted):
    fs = mounted(write_bandwidth="10MiB/s")
    fd = opened(fs / "file")
    assert in_seconds(lambda: os.pwrite(fd, bytes(2 * MiB), 0)) >= 0.2 * 0.9
    fs.set_bandwidth("unlimited", "write")
    fs.set_bandwidth("10MiB/s", "read")
    assert in_seconds(lambda: os.pread(fd, 2 * MiB, 0)) >= 0.2 * 0.9
    os.close(fd)
    assert fs.stats()["read_bandwidth"] == 10 * MiB


def test_each_operation_has_its_latency(mounted):
    fs = mounted(latency={"write": "20ms", "fsync": "50ms"})
    fd = opened(fs / "file")

    def write_and_synchronise():
        for i in range(5):
            os.pwrite(fd, b"x", i)
        os.fsync(fd)

    assert in_seconds(write_and_synchronise) >= 5 * 0.02 + 0.05
    os.close(fd)


@pytest.mark.alone
@pytest.mark.parametrize("operation", ["write", "read"])
def test_latencies_of_one_files_operations_overlap(mounted, operation):
    fs = mounted()
    fd = opened(fs / "file")
    os.ftruncate(fd, 4 * 4096)  # writes that extend a file take turns in the kernel
    fs.set_latency("300ms", operation)
    if operation == "write":
        on_threads(4, lambda i: os.pwrite(fd, b"x" * 4096, i * 4096))
    else:
        on_threads(4, lambda i: os.pread(fd, 4096, i * 4096))
    os.close(fd)
    statistics = fs.stats()["operations"][operation]
    assert statistics["count"] == 4
    assert statistics["in_flight_max"] >= 2


def test_a_transfer_is_one_operation_per_mebibyte_wherever_its_buffer_lies(mounted):
    fs = mounted()
    fd = opened(fs / "file")
    buffer = mmap.mmap(-1, 5 * MiB)
    for shift in (0, 16, 2048, 4080):
        fs.reset()
        assert os.pwrite(fd, memoryview(buffer)[shift : shift + 4 * MiB], 0) == 4 * MiB
        statistics = fs.stats()
        assert statistics["operations"]["write"]["count"] == 4, f"buffer {shift} bytes into a page"
        assert statistics["bytes_written"] == 4 * MiB
    os.close(fd)


# Control.


def test_statistics_count_operations_bytes_and_sizes(mounted):
    fs = mounted()
    fd = opened(fs / "file")
    for size in (1, 100, 4096, 5000):
        os.pwrite(fd, bytes(size), 0)
    os.pread(fd, 10_000, 0)
    os.fsync(fd)
    statistics = fs.stats()
    operations = statistics["operations"]
    assert (operations["create"]["count"], operations["write"]["count"], operations["fsync"]["count"]) == (1, 4, 1)
    assert statistics["bytes_written"] == 1 + 100 + 4096 + 5000
    assert statistics["bytes_read"] == 5000
    assert statistics["write_sizes"] == {"1": 1, "64": 1, "4096": 2}
    assert statistics["in_flight"] == 0
    fs.reset()
    assert fs.stats()["bytes_written"] == 0
    os.close(fd)


def test_the_control_file_is_not_listed_and_cannot_be_removed(mounted):
    fs = mounted()
    assert os.listdir(fs) == []
    assert os.path.exists(fs / ".slowfs")
    for action in (
        lambda: os.unlink(fs / ".slowfs"),
        lambda: os.rename(fs / ".slowfs", fs / "x"),
        lambda: os.mkdir(fs / ".slowfs"),
    ):
        with pytest.raises(OSError):
            action()
    subprocess.run(["sh", "-c", 'echo "bandwidth 5MiB/s" > "$0"', fs / ".slowfs"], check=True)
    assert fs.stats()["bandwidth"] == 5 * MiB
    assert not (fs.backing / ".slowfs").exists()


def test_a_wrong_line_is_refused_with_words(mounted):
    fs = mounted()
    with pytest.raises(SlowFSError, match="unknown key 'erno'"):
        fs.fault("op=write,erno=EIO")
    with pytest.raises(SlowFSError, match="unknown operation 'wirte'"):
        fs.set_latency("1ms", "wirte")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fault", "op=write"], "errno=, short= and hang"),
        (["--bandwidth", "fast"], "'fast' is not a bandwidth"),
        (["--latency", "5"], "'5' is not a duration"),
    ],
)
def test_a_wrong_option_is_refused_with_words(tmp_path, arguments, words):
    result = subprocess.run([program(), *arguments, tmp_path, tmp_path], capture_output=True, text=True)
    assert result.returncode == 1
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_missing_directory_is_named(tmp_path):
    for arguments in ([tmp_path, tmp_path / "missing"], [tmp_path / "missing", tmp_path]):
        result = subprocess.run([program(), *arguments], capture_output=True, text=True)
        assert result.returncode == 1
        assert "missing" in result.stderr and "No such file or directory" in result.stderr


# Coming and going.


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_unmounts(tmp_path, end):
    process = subprocess.Popen([program(), "-f", tmp_path, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    assert os.path.ismount(tmp_path)
    process.send_signal(end)
    assert process.wait(60) == 0
    assert not os.path.ismount(tmp_path)
    process.stdout.close()


def test_the_daemon_returns_once_mounted_and_ends_with_its_mount(tmp_path):
    backing, mount_point = tmp_path / "backing", tmp_path / "mount"
    backing.mkdir()
    mount_point.mkdir()
    result = subprocess.run(
        [program(), "--daemonize", backing, mount_point], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout) == (0, "ready\n")
    try:
        (mount_point / "file").write_bytes(b"x")
        assert (backing / "file").read_bytes() == b"x"
    finally:
        subprocess.run(["fusermount3", "-u", mount_point], check=True)
    assert not os.path.ismount(mount_point)


def test_the_mount_ends_with_the_process_that_made_it(tmp_path):
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from forebay.slowfs import SlowFS\n"
        "SlowFS(sys.argv[2], sys.argv[3]).mount(); os.kill(os.getpid(), 9)"
    )
    python_folder = Path(__file__).resolve().parents[2] / "python"
    subprocess.run([sys.executable, "-c", script, python_folder, tmp_path / "backing", tmp_path / "mount"])
    deadline = time.monotonic() + 60
    while os.path.ismount(tmp_path / "mount") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.ismount(tmp_path / "mount")


# Programs.


def test_h5py_reads_back_what_it_wrote_and_the_backing_file_is_the_same(mounted):
    h5py = pytest.importorskip("h5py")
    numpy = pytest.importorskip("numpy")
    fs = mounted(bandwidth="500MiB/s", latency="0.1ms")
    data = numpy.random.default_rng(1).integers(0, 1 << 30, (512, 1024))
    with h5py.File(fs / "file.h5", "w") as file:
        file.create_dataset("plain", data=data)
        chunked = file.create_dataset("chunked", data.shape, data.dtype, chunks=(64, 64), compression="gzip")
        for row in range(0, 512, 64):
            chunked[row : row + 64] = data[row : row + 64]
        file.flush()
        # HDF5 knows by device and inode number that this is the same file; another process is stopped by the lock.
        with h5py.File(fs / "file.h5", "r+") as again:
            assert again["plain"].shape == data.shape
        other = "import h5py, sys; h5py.File(sys.argv[1], 'r+')"
        result = subprocess.run([sys.executable, "-c", other, fs / "file.h5"], capture_output=True, text=True)
        assert result.returncode != 0 and "lock" in result.stderr
    for path in (fs / "file.h5", fs.backing / "file.h5"):
        with h5py.File(path) as file:
            assert (file["plain"][:] == data).all()
            assert (file["chunked"][:] == data).all()


def test_h5py_reports_a_full_file_system(mounted):
    h5py = pytest.importorskip("h5py")
    fs = mounted(faults=["op=write,errno=ENOSPC,offset=1MiB.."])
    file = h5py.File(fs / "file.h5", "w")
    with pytest.raises(OSError, match="No space left"):
        file.create_dataset("large", data=bytes(4 * MiB), dtype=f"S{4 * MiB}")
        file.flush()
    fs.clear()
    file.close()
