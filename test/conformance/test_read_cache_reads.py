"""Random files are read in random ways: natively, and through a cache that is cold, warm, and half empty.

The files are those that random programs make (differential.cc): contiguous, compact, chunked and filtered datasets,
variable-length data, attributes, user blocks, external links. FOREBAY_SEED sets the first one.
"""

import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "differential"))
from comparison import PERTURBATIONS  # noqa: E402
from test_differential import EXECUTABLE  # noqa: E402
from connector_environment import CLOCK_BEHIND_S, _lines, native, run, staged, statistics_file  # noqa: E402
from seeds import SEED
from test_cli import FOREBAY

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")]

FILES = 36  # at least so many, of random programs
KNOWN_SEEDS, KNOWN_FILES = range(1, 11), 12  # the same ones always: what is counted, they show; at least so many files

READ = """
import random, sys, zlib
from pathlib import Path
import h5py, numpy as np
seed = int(sys.argv[1])

def digest(value):
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return zlib.crc32(repr([None if x is None else np.asarray(x).tolist() for x in value.ravel()]).encode())
    return zlib.crc32(np.ascontiguousarray(value).tobytes()) if isinstance(value, np.ndarray) else repr(value)

def attempt(name, what):
    try:
        print(name, digest(what()))
    except Exception as error:
        print(name, type(error).__name__, str(error)[:60])

def hyperslab(chosen, extent):
    start = chosen.randrange(extent)
    kind = chosen.randrange(4)
    if kind == 0:
        return slice(start, chosen.randint(start, extent))
    if kind == 1:
        return slice(start, extent, chosen.randint(1, max(1, extent // 3)))
    return start if kind == 2 else slice(None)

def read_dataset(name, data, chosen):
    attempt(f"{name} whole", lambda: data[()])
    if data.shape is None or 0 in data.shape or not data.shape:
        return
    for _ in range(4):
        where = tuple(hyperslab(chosen, extent) for extent in data.shape)
        attempt(f"{name} {where}", lambda: data[where])
    points = sorted({chosen.randrange(data.shape[0]) for _ in range(5)})
    attempt(f"{name} points {points}", lambda: data[points])
    mask = np.array([chosen.random() < 0.3 for _ in range(int(np.prod(data.shape)))]).reshape(data.shape)
    attempt(f"{name} mask", lambda: data[mask])
    if data.dtype.kind in "iuf":
        attempt(f"{name} converted", lambda: data.astype("f4")[()])
    attempt(f"{name} chunks", lambda: [chunk for chunk in data.iter_chunks()][:2] if data.chunks else None)

def read_file(path):
    chosen = random.Random(f"{seed} {path.parent.name}/{path.name}")
    try:
        file = h5py.File(path)
    except OSError as error:
        print(path, "OSError", str(error).split("(")[0])
        return
    with file:
        seen, to_look_at = set(), ["/"]
        while to_look_at:
            name = to_look_at.pop()
            try:
                item = file[name]
            except (KeyError, OSError) as error:
                print(path, name, type(error).__name__)
                continue
            if not isinstance(item, (h5py.Group, h5py.Dataset)):
                continue
            info = h5py.h5o.get_info(item.id)
            if (info.fileno, info.addr) in seen:
                continue
            seen.add((info.fileno, info.addr))
            for attribute in sorted(item.attrs):
                attempt(f"{path} {name}@{attribute}", lambda: item.attrs[attribute])
            if isinstance(item, h5py.Dataset):
                try:
                    read_dataset(f"{path} {name}", item, chosen)
                except TypeError as error:  # of a kind that h5py does not know
                    print(path, name, str(error))
            else:
                to_look_at += [f"{name.rstrip('/')}/{child}" for child in sorted(item)]

# Some of these files kill HDF5. Each is read by a process of its own, which has not used HDF5 before.
import os
for path in sorted(Path("target").rglob("*.h5")):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        read_file(path)
        sys.exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(path, "died")
"""


def files_in(folder):
    return sum(1 for path in folder.rglob("*.h5") if path.stat().st_size > 0)


@pytest.fixture(scope="module")
def files(tmp_path_factory, built):
    """A folder with `target`, a file system that is not local, and what reading all its files gives natively."""
    folder = tmp_path_factory.mktemp("reads")
    with SlowFS(
        folder / "backing",
        folder / "target",
        bandwidth="300MiB/s",
        latency={"read": "0.1ms"},
        clock_behind=CLOCK_BEHIND_S,
    ) as fs:
        run([built, "--seeds", f"{KNOWN_SEEDS[0]}..{KNOWN_SEEDS[-1]}", "--dir", folder / "backing"], native(), folder)
        assert files_in(folder / "backing") >= KNOWN_FILES
        first = at = SEED % 1_000_000_000
        # Where HDF5 itself dies, the rest of these programs is not run.
        while files_in(folder / "backing") < FILES:
            run([built, "--seeds", f"{at}..{at + 9}", "--dir", folder / "backing"], native(), folder)
            at += 10
        print(f"programs of seeds {first} to {at - 1}")
        yield folder, fs


@pytest.fixture(scope="module")
def built():
    if not EXECUTABLE.exists():
        pytest.fail(f"{EXECUTABLE} is missing: run `make build`")
    return EXECUTABLE


def read(folder, environment):
    done = run([sys.executable, "-c", READ, str(SEED)], environment, folder, 240)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def is_known(path):
    """Whether it is a file of one of the known programs."""
    return int(Path(path).parts[1]) in KNOWN_SEEDS


def object_of(line):
    return tuple(line.split(" ")[:2])


@pytest.fixture(scope="module")
def expected(files):
    """What reading gives natively, whatever memory holds: by object, without those of which HDF5 reads what was never
    set, and without files that kill it."""
    folder, _ = files
    sides = [read(folder, native(**variables)) for variables in ({}, *PERTURBATIONS.values())]
    died = {line.split(" ")[0] for lines in sides for line in lines if line.endswith(" died")}
    told = [grouped(lines) for lines in sides]
    return {
        name: lines
        for name, lines in told[0].items()
        if name[0] not in died and all(other.get(name) == lines for other in told)
    }


def grouped(lines):
    by_object = {}
    for line in lines:
        by_object.setdefault(object_of(line), []).append(line)
    return by_object


def counted(tmp_path):
    """What the caches of all processes counted since the last call."""
    lines = [line["process"].get("cache", {}) for line in _lines(tmp_path) if "process" in line]
    statistics_file(tmp_path).unlink()
    return {
        name: sum(line.get(name, 0) for line in lines)
        for name in ("files", "hit_bytes", "missed_bytes", "stored_bytes")
    }


def assert_same(found, expected):
    told = grouped(found)
    different = [(lines, told.get(name)) for name, lines in expected.items() if told.get(name) != lines]
    assert not different, different[:3]


def prefetch_all(folder, environment):
    files = sorted(path for path in (folder / "target").rglob("*.h5") if path.stat().st_size > 0)
    done = run([FOREBAY, "cache", "prefetch", *files], environment, folder, 240)
    assert done.returncode == 0, done.stdout + done.stderr


def half_evicted(area):
    """Takes half of the replicas away, as the cache itself does: whole folders."""
    replicas = sorted(path.parent for path in area.rglob("presence"))
    for folder in random.Random(SEED).sample(replicas, len(replicas) // 2):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    return len(replicas)


def test_reads_through_a_cold_a_warm_and_a_half_empty_cache_equal_native_ones(files, expected, tmp_path):
    folder, _ = files
    assert sum(is_known(name) for name, _ in expected) > KNOWN_FILES, "there is something to read"
    environment = staged(tmp_path, "read_cache=on")
    told = []
    for area in ("cold", "warm", "half empty"):
        if area == "warm":  # what was read is stored behind the readers, of which some ended too soon for that
            prefetch_all(folder, environment)
        if area == "half empty":
            assert half_evicted(tmp_path / "staging-area") >= KNOWN_FILES
        assert_same(read(folder, environment), expected)
        told.append(counted(tmp_path))
    cold, warm, half = told
    assert cold["missed_bytes"] > 0 and cold["files"] >= KNOWN_FILES, cold
    assert warm["hit_bytes"] > 0 and warm["missed_bytes"] == 0, warm
    assert half["hit_bytes"] > 0 and half["missed_bytes"] > 0, half


def test_processes_that_read_all_files_at_once_read_what_is_there(files, expected, tmp_path):
    folder, _ = files
    environment = staged(tmp_path, "read_cache=on", FOREBAY_READ_CACHE_SIZE="1MiB")
    # One file stays in a cache that is too small for all.
    path = next(folder / name for name, _ in expected if is_known(name))
    for what in ("prefetch", "pin"):
        done = run([FOREBAY, "cache", what, path], environment, folder)
        assert done.returncode == 0, done.stdout + done.stderr
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READ, str(SEED)], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for reader in readers:
        assert_same(reader.communicate()[0].splitlines(), expected)
    assert counted(tmp_path)["hit_bytes"] > 0
