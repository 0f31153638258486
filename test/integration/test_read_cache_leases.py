"""Small files that a process opens again without asking the file system: docs/read-cache.md, "Attribute leases"."""

import ast
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from connector_environment import _lines, make_samples, native, slow_files, staged

from forebay.slowfs import available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

FILES, VALUES = 100, 2000

MAKE = make_samples(FILES, VALUES)

# Answers each line that it is sent, an expression, with a line.
PROGRAM = f"""
import ctypes, os, sys, zlib, h5py, numpy as np
def label(path, again=False):
    try:
        with h5py.File(path) as f:
            return int(f["sample"][0]), int(f.attrs["label"])
    except OSError as error:
        return type(error).__name__
def epoch():
    total = 0
    for number in range({FILES}):
        with h5py.File(f"target/{{number}}.h5") as f:
            total += zlib.crc32(f["sample"][()].tobytes()) * int(f.attrs["label"] + 1)
    return total
def write(path, value):
    with h5py.File(path, "r+") as f:
        f["sample"][0] = value
def remove(path):
    maps = [line.split()[-1] for line in open("/proc/self/maps")]
    library = next(path for path in maps if "/libhdf5-" in path or "/libhdf5.so" in path)
    call = ctypes.CDLL(library).H5Fdelete
    call.argtypes = [ctypes.c_char_p, ctypes.c_int64]
    return call(path.encode(), 0)
def in_child(function):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, repr(function()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        told = answer.read()
    os.wait()
    return told
open_files = {{}}
def keep(path):
    open_files[path] = h5py.File(path)
    return open_files[path]["sample"].shape
def read(path):
    return int(open_files[path]["sample"][0])
def close(path):
    open_files.pop(path).close()
def prefetch(path):
    import forebay
    try:
        with forebay.prefetch(path) as asked:
            return asked.wait(60), asked.left
    except OSError as error:
        return os.strerror(error.errno)
for line in sys.stdin:
    print(repr(eval(line)), flush=True)
"""


class Program:
    def __init__(self, environment, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, expression):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"it ended at {expression}"
        return ast.literal_eval(answer)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()


@contextmanager
def program(environment, folder):
    running = Program(environment, folder)
    try:
        yield running
        running.end()
    finally:
        running.process.kill()
        running.process.wait()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leases")
    with slow_files(folder, MAKE) as fs:
        yield folder, fs


@pytest.fixture
def mounted(files):
    """The files; those that a test changes are made good again."""
    folder, fs = files
    known = {path.name: path.read_bytes() for path in (folder / "backing").iterdir()}
    yield folder, fs
    for path in (folder / "backing").iterdir():
        if path.name not in known:
            path.unlink()
    for name, content in known.items():
        path = folder / "backing" / name
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def leased(tmp_path, revalidate="never", **more):
    return staged(tmp_path, "read_cache=on;read_cache_lifetime=temporal", FOREBAY_REVALIDATE=str(revalidate), **more)


def requests(fs):
    return {name: one["count"] for name, one in fs.stats()["operations"].items()}


def asked(fs, since):
    """The requests since then, without those that asking for them makes. Takes them from `since` only once."""
    now, own = requests(fs), requests(fs)
    return {
        name: now[name] - since[name] - (own[name] - now[name])
        for name in now
        if now[name] - since[name] != own[name] - now[name]
    }


def told(tmp_path):
    return [line["process"]["cache"] for line in _lines(tmp_path) if "cache" in line.get("process", {})][-1]


def change(path, how, value=201):
    """Gives the file another content, natively: the file system's own side of it."""
    if how == "removed":
        path.unlink()
        return
    other = path.with_suffix(".other")
    with h5py.File(other, "w") as f:
        f["sample"] = [value] * VALUES
        f.attrs["label"] = -3
    if how == "rewritten":
        path.write_bytes(other.read_bytes())
        other.unlink()
    else:
        os.replace(other, path)


CHANGED = {"replaced": (201, -3), "rewritten": (201, -3), "removed": "FileNotFoundError"}


@pytest.mark.check
@pytest.mark.parametrize("revalidate", ["never", 3600])
def test_the_second_and_third_epoch_make_no_request(mounted, tmp_path, revalidate):
    folder, fs = mounted
    with program(native(), folder) as reader:
        expected = reader("epoch()")
    with program(leased(tmp_path, revalidate), folder) as reader:
        assert reader("epoch()") == expected
        for _ in range(2):
            before = requests(fs)
            assert reader("epoch()") == expected
            assert asked(fs, before) == {}
    cache = told(tmp_path)
    assert cache["hit_bytes"] > 2 * FILES * VALUES and cache["files"] == 3 * FILES and cache["aside"] == {}, cache


def test_a_file_that_a_lease_has_opened_is_prefetched_by_its_path(mounted, tmp_path):
    folder, fs = mounted
    with program(native(), folder) as reader:
        expected = reader("label('target/8.h5')")
    with program(leased(tmp_path), folder) as reader:
        assert reader("label('target/8.h5')") == expected
        before = requests(fs)
        assert reader("keep('target/8.h5')") == (VALUES,)
        assert asked(fs, before) == {}
        assert reader("prefetch('target/9.h5')") == "No such file or directory"
        for name in "target/8.h5", "target/../target/8.h5":
            assert reader(f"prefetch('{name}')") == (True, 0)
        assert reader("read('target/8.h5')") == expected[0]
        reader("close('target/8.h5')")
        assert reader("prefetch('target/8.h5')") == "No such file or directory"
    assert told(tmp_path)["fetched_bytes"] > VALUES


@pytest.mark.parametrize("revalidate", ["open", "always"])
def test_without_leases_each_open_asks(mounted, tmp_path, revalidate):
    folder, fs = mounted
    with program(leased(tmp_path, revalidate), folder) as reader:
        reader("epoch()")
        before = requests(fs)
        reader("epoch()")
        seen = asked(fs, before)
        assert seen["open"] == FILES and seen["getattr"] >= FILES and "read" not in seen, seen


@pytest.mark.check
@pytest.mark.parametrize("how", CHANGED)
@pytest.mark.parametrize("revalidate", ["never", 3600, "open"])
def test_a_change_is_seen_when_the_lease_has_ended(mounted, tmp_path, how, revalidate):
    folder, fs = mounted
    with program(leased(tmp_path, revalidate), folder) as reader:
        first = reader('label("target/7.h5")')
        change(folder / "backing" / "7.h5", how)
        before = requests(fs)
        seen = reader('label("target/7.h5")')
        if revalidate == "open":
            assert seen == CHANGED[how]
        else:
            assert seen == first and asked(fs, before) == {}


@pytest.mark.parametrize("how", CHANGED)
def test_a_change_is_seen_once_a_comparison_is_due(mounted, tmp_path, how):
    folder, _ = mounted
    with program(leased(tmp_path, 1), folder) as reader:
        first = reader('label("target/7.h5")')
        change(folder / "backing" / "7.h5", how)
        while (seen := reader('label("target/7.h5")')) != CHANGED[how]:
            # An open that lasts longer than the second may read a file that was rewritten under it.
            assert seen == first or how == "rewritten"


def test_a_file_that_is_open_and_was_replaced_keeps_its_version(mounted, tmp_path):
    folder, fs = mounted
    with program(leased(tmp_path, 1), folder) as reader:
        first = reader('label("target/7.h5")')
        reader('keep("target/7.h5")')
        change(folder / "backing" / "7.h5", "replaced")
        compared = {}
        while not compared:
            before = requests(fs)
            assert reader('read("target/7.h5")') == first[0]
            compared = asked(fs, before)
        assert reader('read("target/7.h5")') == first[0]
        assert reader('close("target/7.h5")') is None
        assert reader('label("target/7.h5")') == (201, -3)


def test_a_file_that_is_open_and_was_rewritten_is_read_itself_once_that_is_seen(mounted, tmp_path):
    folder, _ = mounted
    with program(leased(tmp_path, 1), folder) as reader:
        first = reader('label("target/7.h5")')
        reader('keep("target/7.h5")')
        with h5py.File(folder / "backing" / "7.h5", "r+") as f:
            f["sample"][0] = first[0] ^ 1
        while reader('read("target/7.h5")') == first[0]:
            pass
        assert reader('read("target/7.h5")') == first[0] ^ 1
        assert reader('label("target/7.h5")') == (first[0] ^ 1, 7)


def test_what_the_process_itself_writes_or_deletes_it_sees(mounted, tmp_path):
    folder, fs = mounted
    os.link(folder / "backing" / "7.h5", folder / "backing" / "again.h5")
    with program(leased(tmp_path), folder) as reader:
        first = reader('label("target/7.h5")')
        assert reader('label("target/again.h5")') == first
        for value, name in ((91, "7.h5"), (92, "again.h5")):
            reader(f'write("target/{name}", {value})')
            assert reader('label("target/7.h5")') == (value, 7)
            assert reader('label("target/again.h5")') == (value, 7)
        assert reader('label("target/8.h5")') == reader('label("target/8.h5")')
        assert reader('remove("target/8.h5")') >= 0
        assert reader('label("target/8.h5")') == "FileNotFoundError"


@pytest.mark.parametrize("how", ["opened", "replaced"])
def test_a_file_that_another_process_of_the_node_stages_is_not_read_by_a_lease(mounted, tmp_path, how):
    folder, _ = mounted
    environment = leased(tmp_path)
    write = f"""
import os, sys, h5py
if {how!r} == "replaced":
    os.remove("target/7.h5")
f = h5py.File("target/7.h5", "r+" if {how!r} == "opened" else "w")
if {how!r} == "replaced":
    f["sample"] = [11] * {VALUES}
f["sample"][0] = 12
f.flush()
print("written", flush=True)
sys.stdin.readline()
"""
    with program(environment, folder) as reader:
        first = reader('label("target/7.h5")')
        assert reader('label("target/7.h5")') == first
        words = [sys.executable, "-c", write]
        with subprocess.Popen(
            words, env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout.readline() == "written\n"
            assert reader('label("target/7.h5")') == "BlockingIOError", "as natively: it is locked"
            writer.communicate("\n", timeout=60)
        assert writer.returncode == 0


def test_a_lease_is_of_the_absolute_path(mounted, tmp_path):
    folder, fs = mounted
    other = folder / "backing" / "other"
    other.mkdir(exist_ok=True)
    with h5py.File(other / "7.h5", "w") as f:
        f["sample"] = [33] * VALUES
        f.attrs["label"] = -7
    try:
        with program(leased(tmp_path), folder) as reader:
            first = reader('label("target/7.h5")')
            assert reader(f'label("{folder}/target/7.h5")') == first
            reader('os.chdir("target/other")')
            assert reader('label("7.h5")') == (33, -7)
            reader('os.chdir("..")')
            before = requests(fs)
            assert reader('label("7.h5")') == first
            assert asked(fs, before) == {}
    finally:
        (other / "7.h5").unlink()
        other.rmdir()


def test_a_symbolic_link_has_no_lease(mounted, tmp_path):
    folder, _ = mounted
    link = folder / "backing" / "link.h5"
    link.symlink_to("7.h5")
    with program(leased(tmp_path), folder) as reader:
        assert reader('label("target/link.h5")') == reader('label("target/link.h5")')
        link.unlink()
        link.symlink_to("8.h5")
        assert reader('label("target/link.h5")') == reader('label("target/8.h5")')


def test_a_forked_child_reads_the_same_and_has_leases_of_its_own(mounted, tmp_path):
    folder, fs = mounted
    with program(leased(tmp_path), folder) as reader:
        expected = reader("epoch()")
        assert reader("epoch()") == expected
        reader('keep("target/7.h5")')
        value = reader('read("target/7.h5")')
        before = requests(fs)
        assert reader("in_child(epoch)") == repr(expected)
        assert asked(fs, before)["open"] >= FILES, "it has opened none of them"
        assert reader("in_child(lambda: (epoch(), epoch()))") == repr((expected, expected))
        assert reader('in_child(lambda: read("target/7.h5"))') == repr(value)
        change(folder / "backing" / "7.h5", "replaced")
        assert reader('in_child(lambda: read("target/7.h5"))') == repr(value), "as natively"
        assert reader('read("target/7.h5")') == value


def test_the_program_gets_a_descriptor_if_it_asks_for_one(mounted, tmp_path):
    folder, _ = mounted
    with program(leased(tmp_path), folder) as reader:
        for _ in range(2):
            reader('keep("target/7.h5")')
            assert reader('os.pread(open_files["target/7.h5"].id.get_vfd_handle(), 4, 0)') == b"\x89HDF"
            reader('close("target/7.h5")')
