"""`forebay cache`: what the read cache holds is listed, fetched, kept, removed and checked.

The file is on a slowfs mount, as files on a local file system are left alone (docs/read-cache.md).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import pytest
from connector_environment import CLOCK_BEHIND_S, _lines, native, run, staged
from test_cli import FOREBAY
from test_recover_terminal import at_terminal

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

BLOCK, UNIT = 4096, 256 << 10
ROWS, ROW_BYTES = 64, 64 << 10

READ = """
import sys, zlib, h5py
with h5py.File(sys.argv[1]) as f:
    print(zlib.crc32(f["rows"][()].tobytes()), flush=True)
    while len(sys.argv) > 2 and sys.stdin.readline():
        print(zlib.crc32(f["rows"][()].tobytes()), flush=True)
"""


def random_rows(seed, rows=ROWS):
    return numpy.random.default_rng(seed).integers(0, 256, (rows, ROW_BYTES), dtype=numpy.uint8)


def make(path, seed, rows=ROWS):
    with h5py.File(path, "w", libver="latest") as f:
        f.create_dataset("rows", data=random_rows(seed, rows))


def told_of(seed):
    """The line of `READ` for the file of this seed; nothing of it has been read from anywhere."""
    return f"{zlib.crc32(random_rows(seed).tobytes())}\n"


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A slow file system with files on it that are old enough to be cached."""
    folder = tmp_path_factory.mktemp("cli-cache")
    with SlowFS(folder / "backing", folder / "target", latency={"read": "0.2ms"}, clock_behind=CLOCK_BEHIND_S):
        for seed, name in enumerate(("one.h5", "two.h5")):
            make(folder / "target" / name, seed)
        make(folder / "target" / "small.h5", 2, rows=15)
        yield folder / "target"


def environment(tmp_path, **more):
    return staged(tmp_path, "read_cache=on", FOREBAY_READ_CACHE="on", **more)


def cache(tmp_path, *arguments, status=0, **more):
    """The output of `forebay cache`."""
    done = run([FOREBAY, "cache", *arguments], environment(tmp_path, **more), tmp_path)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def cache_json(tmp_path, *arguments, status=0, **more):
    return json.loads(cache(tmp_path, *arguments, "--json", status=status, **more))


def listed(tmp_path, **more):
    """What is cached, by the file's name."""
    caches = cache_json(tmp_path, "list", **more)["caches"]
    return {os.path.basename(file["path"]): file for one in caches for file in one["files"]}


def replica(tmp_path, file):
    (found,) = (tmp_path / "staging-area").glob(f"forebay-*/cache/{file['name']}/replica")
    return found


def read(tmp_path, path, **more):
    done = run([sys.executable, "-c", READ, path], environment(tmp_path, **more), tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Reader:
    """A program that has the file open, and has read all of it."""

    def __init__(self, tmp_path, path, **more):
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", READ, path, "wait"],
            env=environment(tmp_path, **more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        self.seen = self.process.stdout.readline()
        assert self.seen
        return self

    def read_again(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def __exit__(self, *_):
        self.process.communicate(timeout=300)


def test_what_is_prefetched_is_read_from_the_node(target, tmp_path):
    one, two = target / "one.h5", target / "two.h5"
    told = cache_json(tmp_path, "prefetch", one, two)
    assert [(file["cached_bytes"], file["problem"]) for file in told["files"]] == [
        (os.path.getsize(one), ""),
        (os.path.getsize(two), ""),
    ]
    assert all(file["bytes_per_second"] > 0 for file in told["files"])
    assert [read(tmp_path, path) for path in (one, two, one)] == [told_of(0), told_of(1), told_of(0)]
    counted = [line["process"]["cache"] for line in _lines(tmp_path) if "process" in line]
    assert len(counted) == 3
    assert all(each["missed_bytes"] == 0 and each["hit_bytes"] > 0 for each in counted), counted


def test_a_file_of_which_a_few_blocks_are_cached_is_prefetched_wholly(target, tmp_path):
    # In no order that is read ahead.
    read_a_little = "import sys, h5py; f = h5py.File(sys.argv[1]); [f['rows'][row, :9] for row in (14, 1)]"
    assert (
        run([sys.executable, "-c", read_a_little, target / "small.h5"], environment(tmp_path), tmp_path).returncode == 0
    )
    before = listed(tmp_path)["small.h5"]["stored_bytes"]
    (told,) = cache_json(tmp_path, "prefetch", target / "small.h5")["files"]
    assert 0 < before < told["size"] and told["cached_bytes"] == told["size"], told


def test_a_bar_with_the_speed_is_drawn_on_a_terminal(target, tmp_path):
    area = tmp_path / "staging-area"
    area.mkdir()
    status, shown = at_terminal("cache", "prefetch", "--nls", area, target / "one.h5")
    assert status == 0 and "[##############################] file 1 of 1, " in shown and "/s" in shown, shown
    bar, report = shown.rsplit("\r\x1b[K", 1)
    assert "is cached" in report and "#" not in report


def test_the_list_tells_what_is_cached_of_which_file(target, tmp_path):
    assert "No staging area here has a read cache." in cache(tmp_path, "list")
    before = time.time_ns()
    cache(tmp_path, "prefetch", target / "one.h5")
    read(tmp_path, target / "one.h5")
    (name, file), *rest = listed(tmp_path).items()
    size = os.path.getsize(target / "one.h5")
    assert not rest and name == "one.h5" and file["path"] == str(target / "one.h5")
    assert file["size"] == file["stored_bytes"] == size and file["share"] == 1
    assert file["opens"] == 2 and before <= file["made_ns"] <= file["used_ns"] <= time.time_ns()
    assert file["state"] == "valid" and file["permanent"] and not file["pinned"] and not file["in_use"]
    text = cache(tmp_path, "list", target / "one.h5")
    assert str(target / "one.h5") in text and "(100 %), opened 2 times" in text and "permanent, not in use" in text
    assert f"Nothing of {target}/two.h5 is cached." in cache(tmp_path, "list", target / "two.h5")
    assert "no such file" in cache(tmp_path, "list", target / "none.h5", status=2)


def test_a_path_cannot_move_the_cursor(target, tmp_path):
    cache(tmp_path, "prefetch", target / "one.h5")
    source = replica(tmp_path, listed(tmp_path)["one.h5"]).with_name("source")
    source.write_bytes(b"/scratch/\x1b[2J\xc2\x9b\xff.h5" + b"x" * 100_000)
    text = run([FOREBAY, "cache", "list"], environment(tmp_path), tmp_path).stdout
    assert "\x1b" not in text and "\x9b" not in text and len(text) < 10_000
    assert len(listed(tmp_path)) == 1, "it is JSON all the same"


def test_what_cannot_be_cached_is_refused_with_the_reason(target, tmp_path):
    make(tmp_path / "local.h5", 1)
    assert "local file system" in cache(tmp_path, "prefetch", tmp_path / "local.h5", status=1)
    (target / "empty").touch()
    assert "empty" in cache(tmp_path, "prefetch", target / "empty", status=1)
    (target / "none").mkdir()
    assert "no file in the directory" in cache(tmp_path, "prefetch", target / "none", status=2)
    assert "--from" in cache(tmp_path, "prefetch", status=2)
    assert "--from /no/list" in cache(tmp_path, "prefetch", "--from", "/no/list", status=2)


def test_the_files_of_a_directory_and_of_a_list_are_prefetched(target, tmp_path):
    folder = target / "set"
    (folder / "inner").mkdir(parents=True)
    paths = [folder / "inner" / "b.h5", folder / "z.h5", target / "listed.h5"]
    for number, path in enumerate(paths):
        make(path, 20 + number, rows=1)
    (folder / "link.h5").symlink_to(paths[2])
    names = tmp_path / "names"
    names.write_text(f"\n{paths[2]}\n")
    told = cache_json(tmp_path, "prefetch", folder, "--from", names)["files"]
    assert [one["path"] for one in told] == list(map(str, paths))
    assert all(one["cached_bytes"] == one["size"] > ROW_BYTES for one in told), told
    listed = run([FOREBAY, "cache", "list", "--json"], staged(tmp_path, "read_cache=on"), tmp_path)
    assert all(str(path) in listed.stdout for path in paths), listed.stdout
    assert "no such file" in cache(tmp_path, "prefetch", target / "none.h5", status=2)
    full = cache(tmp_path, "prefetch", target / "one.h5", status=1, FOREBAY_READ_CACHE_SIZE="1MiB")
    assert "NOT CACHED WHOLLY: there is no more room" in full
    missing = cache(tmp_path, "prefetch", target / "one.h5", status=1, FOREBAY_NLS=str(tmp_path / "missing"))
    assert "missing" in missing and "NOT CACHED" in missing


def test_a_young_file_is_not_prefetched(target, tmp_path):
    """Its time is that of a server whose clock is far ahead: it stays young for as long as the test takes."""
    make(target / "young.h5", 7)
    ahead = time.time() + 24 * 3600
    os.utime(target / "young.h5", (ahead, ahead))
    assert "too young" in cache(tmp_path, "prefetch", target / "young.h5", status=1)
    assert listed(tmp_path)["young.h5"]["stored_bytes"] == 0
    os.utime(target / "young.h5", (ahead - 48 * 3600, ahead - 48 * 3600))
    cache(tmp_path, "prefetch", target / "young.h5")
    assert listed(tmp_path)["young.h5"]["share"] == 1


def test_files_are_evicted_by_name_by_age_and_all(target, tmp_path):
    one, two = target / "one.h5", target / "two.h5"
    cache(tmp_path, "prefetch", one, two)
    assert "name files" in cache(tmp_path, "evict", status=2)
    assert "duration" in cache(tmp_path, "evict", "--older-than", "soon", status=2)
    assert cache_json(tmp_path, "evict", "--older-than", "1h")["files"] == []
    told = cache_json(tmp_path, "evict", one)
    assert told["evicted_bytes"] >= os.path.getsize(one) and told["files"][0]["removed"]
    assert list(listed(tmp_path)) == ["two.h5"]
    assert f"Nothing of {one} is cached." in cache(tmp_path, "evict", one)
    cache(tmp_path, "pin", two)
    assert cache_json(tmp_path, "evict", "--older-than", "0s")["files"] == [], "it is pinned"
    cache(tmp_path, "prefetch", one)
    assert cache_json(tmp_path, "evict", "--older-than", "0s")["files"][0]["path"] == str(one)
    assert len(cache_json(tmp_path, "evict", "--all")["files"]) == 1
    assert listed(tmp_path) == {} and not list((tmp_path / "staging-area").rglob("replica"))


@pytest.fixture
def open_to_all():
    """A folder that every user can look into; a test's own is root's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="fb-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks into the read caches of others")
def test_root_lists_checks_and_evicts_the_read_caches_of_all_users(target, open_to_all, monkeypatch):
    monkeypatch.setenv("FOREBAY_REGISTRY", str(open_to_all))
    one, other = target / "one.h5", 65534
    cache(open_to_all, "prefetch", one)
    area = open_to_all / "staging-area"
    shutil.copytree(area / "forebay-0", area / f"forebay-{other}")
    for path in (area / f"forebay-{other}", *(area / f"forebay-{other}").rglob("*")):
        os.chown(path, other, other)

    def users(*arguments):
        listed = cache_json(open_to_all, "list", *arguments)["caches"]
        return sorted(path.parent.name for path in (Path(one["path"]) for one in listed if one["files"]))

    assert users() == ["forebay-0"] and users("--all-users") == ["forebay-0", f"forebay-{other}"]
    checked = cache_json(open_to_all, "verify", "--all-users")["files"]
    assert [file["checked_bytes"] for file in checked] == [os.path.getsize(one)] * 2
    cache(open_to_all, "evict", "--all")
    assert users("--all-users") == [f"forebay-{other}"]
    assert len(cache_json(open_to_all, "evict", "--all", "--all-users")["files"]) == 1
    assert users("--all-users") == [] and not list(area.rglob("replica"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts as another user")
def test_all_users_is_refused_for_others_than_root(target, open_to_all):
    theirs = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", shutil.copy(FOREBAY, open_to_all)]
    for command in (
        *(["cache", "list"], ["cache", "evict", "--all"], ["cache", "verify"]),
        *(["status"], ["recover"], ["verify"], ["drain", "--all"]),
    ):
        refused = run([*theirs, *command, "--all-users"], environment(open_to_all), Path("/"))
        assert refused.returncode == 2 and "--all-users is for root" in refused.stderr, (command, refused)


def test_a_file_in_use_is_evicted_and_its_reader_goes_on(target, tmp_path):
    one = target / "one.h5"
    cache(tmp_path, "prefetch", one)
    with Reader(tmp_path, one) as reader:
        assert reader.seen == told_of(0)
        assert listed(tmp_path)["one.h5"]["in_use"]
        assert "in use; evicted: " in cache(tmp_path, "evict", one)
        assert listed(tmp_path)["one.h5"]["stored_bytes"] == 0
        assert reader.read_again() == told_of(0)
    assert [read(tmp_path, one) for _ in range(2)] == [told_of(0)] * 2
    assert listed(tmp_path)["one.h5"]["stored_bytes"] > 0


def test_eviction_never_touches_a_log(target, tmp_path):
    """A dead process has left one."""
    code = """
import os, sys, h5py
f = h5py.File(sys.argv[1], "w")
f["x"] = list(range(1000))
f.flush()
os.kill(os.getpid(), 9)
"""
    run([sys.executable, "-c", code, target / "log.h5"], environment(tmp_path), tmp_path)
    logs = [path for path in (tmp_path / "staging-area").rglob("*") if path.is_file() and "cache" not in path.parts]
    assert logs
    cache(tmp_path, "prefetch", target / "one.h5")
    cache(tmp_path, "evict", "--all")
    assert all(path.exists() for path in logs)


def test_a_pinned_file_stays_when_the_cache_is_full(target, tmp_path):
    one, two = target / "one.h5", target / "two.h5"
    room = {"FOREBAY_READ_CACHE_SIZE": str(os.path.getsize(one) * 3 // 2)}
    cache(tmp_path, "prefetch", one, **room)
    assert "pinned" in cache(tmp_path, "pin", one)
    assert listed(tmp_path)["one.h5"]["pinned"]
    cache(tmp_path, "prefetch", two, status=1, **room)
    assert listed(tmp_path)["one.h5"]["share"] == 1
    cache(tmp_path, "evict", two)
    cache(tmp_path, "unpin", one)
    cache(tmp_path, "prefetch", two, **room)
    assert list(listed(tmp_path)) == ["two.h5"]
    assert "Nothing of" in cache(tmp_path, "pin", one, status=1)


@pytest.mark.parametrize("replacement, stays", [("lru", "one.h5"), ("fifo", "two.h5"), ("lifo", "one.h5")])
def test_the_option_decides_which_file_goes(target, tmp_path, replacement, stays):
    names = ["one.h5", "two.h5", "three.h5"]
    make(target / "three.h5", 3)
    room = {
        "FOREBAY_READ_CACHE_SIZE": str(os.path.getsize(target / "one.h5") * 5 // 2),
        "FOREBAY_READ_CACHE_REPLACEMENT": replacement,
    }
    for name in ("one.h5", "two.h5", "one.h5", "three.h5"):
        cache(tmp_path, "prefetch", target / name, **room)
    assert set(listed(tmp_path)) == {stays, "three.h5"} < set(names)


def test_damaged_bytes_are_found_and_removed(target, tmp_path):
    one = target / "one.h5"
    cache(tmp_path, "prefetch", one)
    told = cache_json(tmp_path, "verify")["files"][0]
    assert told["checked_bytes"] == os.path.getsize(one) and told["damaged_bytes"] == 0
    with replica(tmp_path, listed(tmp_path)["one.h5"]).open("r+b") as file:
        for block in (3, 700):
            file.seek(block * BLOCK + 5)
            file.write(b"DAMAGED")
    text = cache(tmp_path, "verify", one, status=1)
    assert "DAMAGED, and removed: 8 KiB" in text
    assert cache_json(tmp_path, "verify", one)["files"][0]["damaged_bytes"] == 0
    assert read(tmp_path, one) == told_of(0)


def test_the_cache_is_compared_with_the_files(target, tmp_path):
    make(target / "mine.h5", 4)
    cache(tmp_path, "prefetch", target / "mine.h5")
    told = cache_json(tmp_path, "verify", "--against-source")["files"][0]
    assert told["compared"] and told["different_bytes"] == told["damaged_bytes"] == 0
    # A file system that has lost a write, or a tool that writes beside the file system: no time changes.
    backing = target.parent / "backing" / "mine.h5"
    before = os.stat(backing)
    with backing.open("r+b") as file:
        file.seek(10 * BLOCK)
        file.write(b"other bytes")
    os.utime(backing, ns=(before.st_atime_ns, before.st_mtime_ns))
    told = cache_json(tmp_path, "verify", "--against-source")["files"][0]
    assert not told["compared"] and "has changed since" in told["note"], "its ctime tells"
    (target / "mine.h5").unlink()
    done = run([FOREBAY, "cache", "verify", "--against-source"], environment(tmp_path), tmp_path)
    assert done.returncode == 3 and "No such file" in done.stdout, done.stdout


def test_a_temporal_cache_goes_with_its_last_reader(target, tmp_path):
    temporal = {"FOREBAY_READ_CACHE_LIFETIME": "temporal"}
    one = target / "one.h5"
    with Reader(tmp_path, one, **temporal):
        while listed(tmp_path)["one.h5"]["stored_bytes"] == 0:  # it is stored behind the reader
            time.sleep(0.1)
        file = listed(tmp_path)["one.h5"]
        assert file["in_use"] and not file["permanent"]
        read(tmp_path, one, **temporal)
        assert "one.h5" in listed(tmp_path), "the other one has it open"
    assert listed(tmp_path) == {}
    reader = Reader(tmp_path, one, **temporal)
    with reader:
        os.kill(reader.process.pid, signal.SIGKILL)
    assert not listed(tmp_path)["one.h5"]["in_use"]
    read(tmp_path, target / "two.h5")
    assert list(listed(tmp_path)) == ["two.h5"], "the next process removes what the dead one left"


def test_a_file_that_was_rewritten_is_void_and_cached_anew(target, tmp_path):
    path = target / "rewritten.h5"
    make(path, 5)
    cache(tmp_path, "prefetch", path)
    code = "import sys, h5py\nwith h5py.File(sys.argv[1], 'r+') as f: f['rows'][0] = 1"
    done = run([sys.executable, "-c", code, path], environment(tmp_path), tmp_path)
    assert done.returncode == 0, done.stderr
    assert listed(tmp_path)["rewritten.h5"]["state"] == "void"
    assert "VOID" in cache(tmp_path, "list")
    cache(tmp_path, "prefetch", path)
    assert listed(tmp_path)["rewritten.h5"]["state"] == "valid"


def test_status_and_run_tell_of_the_cache(target, tmp_path):
    one = target / "one.h5"
    command = [FOREBAY, "run", "--json", tmp_path / "run.json", "--", sys.executable, "-c", READ, one]
    without = {name: value for name, value in environment(tmp_path).items() if name != "HDF5_VOL_CONNECTOR"}
    for _ in range(2):
        done = run(command, without, tmp_path)
        assert done.returncode == 0, done.stderr
    counted = json.loads((tmp_path / "run.json").read_text())["read_cache"]
    assert counted["files"] == 1 and counted["hit_bytes"] > 0, counted
    assert "forebay: read cache: " in done.stderr and " from this node, " in done.stderr
    status = run([FOREBAY, "status"], without, tmp_path).stdout
    assert "read cache " in status and " of 8 GiB, 1 file" in status
    (shown,) = json.loads(run([FOREBAY, "status", "--json"], without, tmp_path).stdout)["read_caches"]
    assert shown["files"] == 1 and shown["stored_bytes"] > 0 and shown["capacity_bytes"] == 8 << 30


def test_a_run_without_the_cache_does_not_mention_it(tmp_path):
    done = run([FOREBAY, "run", "--", sys.executable, "-c", "import h5py"], native(), tmp_path)
    assert "read cache" not in done.stderr
