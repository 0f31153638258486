"""Every fault of the read cache's own files, and a kill at its system calls: what is read is what the file holds.

strace(1) makes the Nth call of a kind fail, or kills the process as it begins. h5dump is the program: unmodified, and
its output is the dataset's bytes. FOREBAY_TEST_LONG=1 tries every call; else a part of them, another one each time.
"""

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from connector_environment import _lines, hdf5_prefix, run, staged
from seeds import SEED
from test_cli import FOREBAY

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
STRACE = shutil.which("strace")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"),
    pytest.mark.skipif(STRACE is None, reason="strace is missing"),
]

LONG = os.environ.get("FOREBAY_TEST_LONG") == "1"
# Of the calls of one kind so many are tried, at most.
TRIED = 10_000 if LONG else 4
CALLS_OF_THE_CACHE = [
    "openat",
    "mkdirat",
    "unlinkat",
    "ftruncate",
    "fallocate",
    "mmap",
    "pread64",
    "pwritev",
    "futex",
    "flock",
    "fcntl",
    "statx",
    "newfstatat",
    "getdents64",
    "close",
]


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """A file on a file system that is not local; it seems old, so that it is cached at once."""
    folder = tmp_path_factory.mktemp("cache-faults")
    with SlowFS(folder / "backing", folder / "remote", latency={"read": "0.2ms"}, clock_behind=3600):
        values = numpy.random.default_rng(SEED).integers(0, 256, (48, 32768), dtype=numpy.uint8)
        with h5py.File(folder / "remote" / "data.h5", "w") as f:
            f["rows"] = values
            f.create_dataset("packed", data=values[:8], chunks=(1, 32768), compression=1)
        yield folder, values


def dump(folder: Path, out: Path, environment, before=()) -> subprocess.CompletedProcess:
    out.unlink(missing_ok=True)
    h5dump = hdf5_prefix() / "bin" / "h5dump"
    return run(
        [*before, h5dump, "-d", "rows", "-b", "FILE", "-o", out, folder / "remote" / "data.h5"], environment, out.parent
    )


def inject(trace: Path, call: str, what: str, *more: str) -> list[str]:
    return [STRACE, "-f", "-qq", "-o", trace, *more, "-e", f"trace=?{call}", "-e", f"inject={call}:{what}"]


def hit_bytes(tmp_path: Path) -> int:
    return [line["process"] for line in _lines(tmp_path) if "process" in line][-1]["cache"]["hit_bytes"]


def calls_made(tmp_path: Path, folder: Path, call: str, *more: str) -> int:
    """How many of these calls a run makes, in the thread that makes most."""
    trace = tmp_path / "trace"
    trace.unlink(missing_ok=True)
    dump(folder, tmp_path / "out", cached(tmp_path), [STRACE, "-f", "-qq", "-o", trace, *more, "-e", f"trace=?{call}"])
    threads = re.findall(rf"^(\d+) +{call}\(", trace.read_text(), re.MULTILINE) if trace.exists() else []
    return max((threads.count(thread) for thread in set(threads)), default=0)


def cached(tmp_path: Path):
    return staged(tmp_path, "read_cache=on")


def some(count: int, name: str) -> list[int]:
    chosen = random.Random(f"{SEED} {name}").sample(range(1, count + 1), min(count, TRIED))
    return sorted({1, *chosen}) if count else []


def forget(tmp_path: Path) -> None:
    for area in (tmp_path / "staging-area").glob("forebay-*"):
        shutil.rmtree(area / "cache", ignore_errors=True)


@pytest.mark.parametrize("call", CALLS_OF_THE_CACHE)
def test_a_reader_that_is_killed_at_a_call_leaves_nothing_wrong(remote, tmp_path, call):
    folder, values = remote
    killed = 0
    (tmp_path / "out").parent.mkdir(exist_ok=True)
    for number in some(calls_made(tmp_path, folder, call), call):
        if number == 1 or random.Random(f"{SEED} {number}").random() < 0.7:
            forget(tmp_path)  # else what others have left is there already
        done = dump(
            folder, tmp_path / "out", cached(tmp_path), inject(tmp_path / "trace", call, f"signal=KILL:when={number}")
        )
        killed += done.returncode != 0
        done = dump(folder, tmp_path / "out", cached(tmp_path))
        assert done.returncode == 0, (number, done.stderr)
        assert (tmp_path / "out").read_bytes() == values.tobytes(), f"{call} number {number}"
    # How often threads wait for each other is another number in each run.
    assert killed > 0 or call == "futex"
    filled = run([FOREBAY, "cache", "prefetch", folder / "remote" / "data.h5"], cached(tmp_path), tmp_path)
    assert filled.returncode == 0, filled.stdout + filled.stderr
    assert dump(folder, tmp_path / "out", cached(tmp_path)).returncode == 0
    assert hit_bytes(tmp_path) >= values.size, "what a dead process has left is used"


FAULTS = {
    "openat": ["EIO", "EACCES", "EMFILE", "ENOSPC"],
    "mkdirat": ["ENOSPC", "EROFS"],
    "ftruncate": ["EIO", "EFBIG"],
    "fallocate": ["ENOSPC", "EIO"],
    "mmap": ["ENOMEM", "ENODEV"],
    "pread64": ["EIO", "ESTALE"],
    "pwritev": ["ENOSPC", "EIO", "EDQUOT"],
    "unlinkat": ["EIO"],
    "flock": ["ENOLCK"],
    "fcntl": ["ENOLCK"],
    "getdents64": ["EIO"],
}


# A replica that is there is neither made nor filled.
NOT_MADE = {(call, "warm") for call in ("ftruncate", "fallocate", "pwritev", "unlinkat")}


@pytest.mark.parametrize("state", ["cold", "warm"])
@pytest.mark.parametrize("call", FAULTS)
def test_a_fault_of_the_staging_area_is_nobody_s(remote, tmp_path, call, state):
    """All calls of a kind on the cache's files fail, from the first or a later one on."""
    folder, values = remote
    dump(folder, tmp_path / "out", cached(tmp_path))
    caches = next((tmp_path / "staging-area").glob("forebay-*")) / "cache"
    replica = next(path for path in caches.iterdir() if path.is_dir())
    paths = [caches, replica, replica / "replica", replica / "presence", caches / "account"]
    met = 0
    for error in FAULTS[call]:
        for first in (1, 2, 5):
            if state == "cold":
                shutil.rmtree(replica, ignore_errors=True)
            watched = [word for path in paths for word in ("-P", str(path))]
            faulty = inject(tmp_path / "trace", call, f"error={error}:when={first}+", *watched)
            done = dump(folder, tmp_path / "out", cached(tmp_path), faulty)
            met += (tmp_path / "trace").read_text().count("(INJECTED)")
            assert done.returncode == 0, (error, first, done.stderr)
            assert (tmp_path / "out").read_bytes() == values.tobytes(), (call, error, first)
    assert met > 0 or (call, state) in NOT_MADE
    done = dump(folder, tmp_path / "out", cached(tmp_path))
    assert done.returncode == 0 and (tmp_path / "out").read_bytes() == values.tobytes()


def restarted(tmp_path):
    """What to put before a command for which the machine has another boot id than for those before."""
    if os.geteuid() != 0:
        pytest.skip("another boot id needs root")
    (tmp_path / "boot_id").write_text("11111111-2222-4333-8444-555555555555\n")
    mount = f'mount --bind "{tmp_path}/boot_id" /proc/sys/kernel/random/boot_id && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, "sh"]


@pytest.mark.parametrize("which", ["replica", "presence", "account"])
@pytest.mark.parametrize("how", ["emptied", "cut", "scribbled", "link", "directory", "gone", "longer"])
def test_a_damaged_or_foreign_cache_serves_nothing_wrong(remote, tmp_path, which, how):
    folder, values = remote
    (tmp_path / "out").parent.mkdir(exist_ok=True)
    filled = run([FOREBAY, "cache", "prefetch", folder / "remote" / "data.h5"], cached(tmp_path), tmp_path)
    assert filled.returncode == 0, filled.stdout + filled.stderr
    caches = next((tmp_path / "staging-area").glob("forebay-*")) / "cache"
    replica = next(path for path in caches.iterdir() if path.is_dir())
    target = caches / which if which == "account" else replica / which
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious" * 4096)
    intact = target.read_bytes()
    before = []
    if how == "emptied":
        target.write_bytes(b"")
    elif how == "cut":
        os.truncate(target, target.stat().st_size // 2)
    elif how == "longer":
        os.truncate(target, target.stat().st_size * 2)
    elif how == "scribbled":
        damage = bytearray(random.Random(SEED).randbytes(len(intact)))
        if which == "replica":
            # Bytes are in doubt, and compared, once the machine was restarted. Those of the metadata stay: h5dump goes
            # on without a connector where it finds no file.
            before = restarted(tmp_path)
            with h5py.File(folder / "backing" / "data.h5") as file:
                begin = file["rows"].id.get_offset()
            damage[:begin], damage[begin + values.size :] = intact[:begin], intact[begin + values.size :]
        target.write_bytes(damage)
    elif how == "link":
        target.unlink()
        target.symlink_to(precious)
    elif how == "directory":
        target.unlink()
        target.mkdir()
    elif how == "gone":
        target.unlink()
    assert how in ("directory", "gone") or target.read_bytes() != intact, "it is damaged"
    for _ in range(2):
        done = dump(folder, tmp_path / "out", cached(tmp_path), before)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "out").read_bytes() == values.tobytes()
    if before:
        counts = [line["process"]["cache"] for line in _lines(tmp_path) if "process" in line]
        assert counts[-2]["missed_bytes"] >= values.size, "what was damaged was read from the file"
    assert precious.read_bytes() == b"precious" * 4096
