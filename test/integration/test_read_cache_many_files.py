"""Programs that read thousands of small files, one sample each: docs/read-cache.md, "Many small files"."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import _lines, make_samples, native, run, slow_files, staged
from test_cli import FOREBAY

from forebay.slowfs import available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

FILES, VALUES = 300, 2000

MAKE = make_samples(FILES, VALUES)

# Prints a checksum of each epoch.
READ = f"""
import sys, zlib, h5py, numpy as np
random = np.random.default_rng(7)
for epoch in range(int(sys.argv[1])):
    total = 0
    for number in random.permutation({FILES}):
        with h5py.File(f"target/{{number}}.h5") as f:
            total += zlib.crc32(f["sample"][()].tobytes()) * int(f.attrs["label"] + 1)
    print(total, flush=True)
"""


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    with slow_files(folder, MAKE) as fs:
        yield folder, fs


def read(environment, folder, epochs):
    done = run([sys.executable, "-c", READ, str(epochs)], environment, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def reads_of(fs):
    return fs.stats()["operations"]["read"]["count"]


def told(tmp_path):
    return [line["process"]["cache"] for line in _lines(tmp_path) if "cache" in line.get("process", {})][-1]


def left(environment):
    return [path.name for path in Path(environment["FOREBAY_NLS"]).glob("forebay-*/cache/*") if path.is_dir()]


@pytest.mark.check
def test_a_program_that_asks_reads_each_file_with_one_request_once(mounted, tmp_path):
    folder, fs = mounted
    environment = staged(tmp_path, "read_cache=on;read_cache_lifetime=temporal")
    expected = read(native(), folder, 3)
    before = reads_of(fs)
    assert read(environment, folder, 3) == expected
    assert reads_of(fs) - before <= 1.1 * FILES + 12 * 64, "64 files have replicas of their own"
    cache = told(tmp_path)
    assert cache["hit_bytes"] > 2 * FILES * VALUES, cache
    assert left(environment) == []


@pytest.mark.check
def test_a_program_that_does_not_ask_has_copies_once_it_opens_files_again(mounted, tmp_path):
    folder, fs = mounted
    environment = staged(tmp_path)
    expected = read(native(), folder, 5)
    assert read(environment, folder, 5) == expected
    cache = told(tmp_path)
    assert cache["hit_bytes"] > FILES * VALUES, cache
    assert left(environment) == []


def test_a_program_that_does_not_ask_and_reads_each_file_once_stores_nothing(mounted, tmp_path):
    folder, _ = mounted
    environment = staged(tmp_path)
    assert read(environment, folder, 1) == read(native(), folder, 1)
    assert told(tmp_path)["stored_bytes"] == 0
    assert left(environment) == []


def test_copies_that_are_permanent_serve_the_next_program(mounted, tmp_path):
    folder, fs = mounted
    environment = staged(tmp_path, "read_cache=on")
    expected = read(environment, folder, 1)
    before = reads_of(fs)
    assert read(environment, folder, 1) == expected
    assert reads_of(fs) == before
    listed = run([FOREBAY, "cache", "list"], environment, folder)
    assert "(copies of small files)" in listed.stdout, listed


def test_a_program_that_has_written_the_files_itself_reads_them_by_copies(tmp_path):
    environment = staged(tmp_path, "read_cache=on")
    with slow_files(tmp_path, "") as fs:
        program = f"{MAKE}\nimport sys; sys.argv = ['', '3']\n{READ}"
        done = run([sys.executable, "-c", program], environment, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert reads_of(fs) <= 1.1 * FILES + 12 * 64
        assert done.stdout == read(native(), tmp_path, 3)
    assert told(tmp_path)["hit_bytes"] > 2 * FILES * VALUES
    assert len(list(Path(environment["FOREBAY_NLS"]).glob("forebay-*/cache/*/presence"))) == 64, "replicas"


@pytest.mark.parametrize("how", ["rewritten", "replaced"])
def test_a_file_that_changes_between_two_opens_is_read_anew(mounted, tmp_path, how):
    folder, _ = mounted
    program = f"""
import os, sys, h5py, numpy as np
def label(number):
    with h5py.File(f"target/{{number}}.h5") as f:
        return int(f["sample"][0]), int(f.attrs["label"])
for epoch in range(3):
    before = [label(number) for number in range({FILES})]
changed = {FILES} - 5
print("read", flush=True)
sys.stdin.readline()
print(before[changed], label(changed), label(changed), flush=True)
"""
    path = folder / "backing" / f"{FILES - 5}.h5"
    original = path.read_bytes()

    def change():
        if how == "replaced":
            path.unlink()
        with h5py.File(path, "w") as f:
            f["sample"] = [201] * VALUES
            f.attrs["label"] = -3

    def seen(environment):
        reader = subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert reader.stdout.readline() == "read\n"
        change()
        out, _ = reader.communicate("\n", timeout=60)
        path.write_bytes(original)
        return out

    assert seen(staged(tmp_path, "read_cache=on")) == seen(native())


def test_what_a_killed_program_has_left_goes_with_the_next_one(mounted, tmp_path):
    folder, _ = mounted
    environment = staged(tmp_path, "read_cache=on;read_cache_lifetime=temporal")
    reader = subprocess.Popen(
        [sys.executable, "-c", READ, "1000"], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout.readline()
    reader.send_signal(signal.SIGKILL)
    reader.wait()
    reader.stdout.close()
    assert "0-0" in left(environment)
    assert read(environment, folder, 2) == read(native(), folder, 2)
    assert left(environment) == []


def test_files_that_were_prefetched_are_read_from_their_replicas(mounted, tmp_path):
    folder, fs = mounted
    environment = staged(tmp_path, "read_cache=on")
    expected = read(native(), folder, 1)
    done = run([FOREBAY, "cache", "prefetch", folder / "target"], environment, folder)
    assert done.returncode == 0, done.stderr
    before = reads_of(fs)
    assert read(environment, folder, 1) == expected
    assert reads_of(fs) == before
    assert "0-0" not in left(environment)
