"""Programs whose order of reads is known ahead, with a cache that is smaller than the data.

The file is on a slowfs mount, as files on a local file system are left alone (docs/read-cache.md).
"""

import sys

import pytest
from connector_environment import _lines, native, run, slow_files, staged
from test_read_cache import DATA_BYTES, MAKE, ROWS, UNIT

from forebay.slowfs import available

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

# Prints a checksum of the rows in the order in which they were read.
READ = f"""
import random, sys, zlib, h5py
kind, epochs, draws = sys.argv[1], int(sys.argv[2]), random.Random(5)
sum_of_all = 0
with h5py.File("target/data.h5") as f:
    rows = f["rows"]
    for epoch in range(epochs):
        order = draws.sample(range({ROWS}), {ROWS})
        if kind == "sampler":
            order = [min(draws.choices(range({ROWS}), k=3)) for _ in order]
        coming = order
        if "forebay" in sys.argv[3:]:
            import forebay
            coming = forebay.follow(order, rows, ahead=64 if kind == "shuffled" else {ROWS})
        for row in coming:
            sum_of_all = zlib.crc32(rows[row].tobytes(), sum_of_all)
print(sum_of_all)
"""


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    """A slow file system with a file on it that is old enough to be cached."""
    folder = tmp_path_factory.mktemp("in-order")
    with slow_files(folder, MAKE) as fs:
        yield folder, fs


def read(mounted, tmp_path, kind, epochs, cache_bytes):
    """Reads natively and with a cache of this size. Returns what the cache counted, and the bytes that were read."""
    folder, fs = mounted
    words = [sys.executable, "-c", READ, kind, str(epochs)]
    expected = run(words, native(), folder)
    before = fs.stats()["operations"]["read"]["bytes"]
    done = run([*words, "forebay"], staged(tmp_path, f"read_cache=on;read_cache_size={cache_bytes >> 10}KiB"), folder)
    assert expected.returncode == done.returncode == 0, done.stderr
    assert done.stdout == expected.stdout
    (cache,) = [line["process"]["cache"] for line in _lines(tmp_path) if "process" in line]
    return cache, fs.stats()["operations"]["read"]["bytes"] - before


def test_a_shuffled_training_keeps_half_of_its_data_and_gets_the_rest_ahead(mounted, tmp_path):
    cache, seen = read(mounted, tmp_path, "shuffled", 4, DATA_BYTES // 2)
    assert cache["ahead_bytes"] > 0 and cache["replaced_bytes"] == 0, cache
    assert cache["aside"] == {"full": 1}, cache
    assert cache["hit_bytes"] > DATA_BYTES, cache
    assert seen < 3.2 * DATA_BYTES, "one epoch, and a half of three; natively it is four"


def test_a_sampler_with_replacement_keeps_what_it_reads_again(mounted, tmp_path):
    cache, _ = read(mounted, tmp_path, "sampler", 4, DATA_BYTES // 4)
    assert cache["replaced_bytes"] > UNIT, cache
    assert cache["stored_bytes"] > DATA_BYTES // 4, cache
