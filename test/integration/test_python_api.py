"""The Python package: switching forebay on before and after h5py, and telling the read cache what comes next.

What the plugin is asked for is recorded by a stand-in with the plugin's C functions (test/support/plugin_stand_in.c).
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from connector_environment import ROOT, bytes_staged, native, plugin_folder, run, run_python

import forebay
from forebay.byte_ranges import merged
from forebay.enabling import plugin_folder as found_plugin_folder
from forebay.slowfs import SlowFS, available

pytestmark = pytest.mark.slow

h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")

STAND_IN = ROOT / "test" / "support" / "plugin_stand_in.c"


def interpreters():
    """The stock h5py, whose wheel carries its HDF5, and the one that was compiled for the tests' HDF5."""
    return {"stock h5py": sys.executable, "h5py with MPI": os.environ.get("FOREBAY_HDF5_PYTHON")}


@pytest.fixture(params=interpreters())
def python(request):
    found = interpreters()[request.param]
    if not found or not Path(found).exists():
        pytest.skip("there is no h5py with MPI here: tools/setup python-mpi")
    return found


def enabled(tmp_path, **more):
    """The environment of a program that calls forebay.enable itself: it has the package, and nothing switched on."""
    (tmp_path / "area").mkdir(exist_ok=True)
    statistics = str(tmp_path / "statistics.jsonl")
    return native(PYTHONPATH=str(ROOT / "python"), FOREBAY_STATS=statistics, AREA=str(tmp_path / "area"), **more)


def passes(python, code, environment, folder):
    done = run([python, "-c", code], environment, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- enable ---

WRITE = """
with h5py.File("a.h5", "w") as f:
    f["x"] = np.arange(100000)
with h5py.File("a.h5") as f:
    assert (f["x"][()] == np.arange(100000)).all()
"""


@pytest.mark.check
@pytest.mark.parametrize("order", ["before", "after"])
def test_files_are_staged_whether_h5py_was_imported_before_or_after(order, python, tmp_path):
    lines = ["import os, numpy as np, forebay", "import h5py", "forebay.enable(os.environ['AREA'])"]
    if order == "after":
        lines[1:] = reversed(lines[1:])
    passes(python, "\n".join(lines) + WRITE + "assert forebay.is_enabled()", enabled(tmp_path), tmp_path)
    assert bytes_staged(tmp_path) >= 800000
    assert list((tmp_path / "area").glob("forebay-*"))


def test_a_file_that_was_open_before_stays_native(python, tmp_path):
    code = """
import os, numpy as np, h5py, forebay
before = h5py.File("before.h5", "w")
assert not forebay.is_enabled()
forebay.enable(os.environ["AREA"])
before["x"] = np.arange(100000)
before.close()
"""
    passes(python, code + WRITE, enabled(tmp_path), tmp_path)
    text = (tmp_path / "statistics.jsonl").read_text()
    assert "before.h5" not in text and "a.h5" in text


def test_an_open_that_fails_before_does_not_decide_the_options(python, tmp_path):
    """HDF5 asks each plugin on its path about a file that it cannot open, and loads forebay for that."""
    code = """
import os, numpy as np, h5py, forebay
try: h5py.File("missing.h5")
except FileNotFoundError: assert forebay.is_enabled()
forebay.enable(os.environ["AREA"])
"""
    variables = {"HDF5_PLUGIN_PATH": str(plugin_folder()), "FOREBAY_NLS": str(tmp_path / "another area")}
    passes(python, code + WRITE, enabled(tmp_path, **variables), tmp_path)
    assert bytes_staged(tmp_path) >= 800000 and list((tmp_path / "area").glob("forebay-*"))
    assert not (tmp_path / "another area").exists()


def test_processes_that_are_started_inherit_it(python, tmp_path):
    code = (
        """
import os, subprocess, sys, h5py, forebay
forebay.enable(os.environ["AREA"])
forebay.enable(os.environ["AREA"])
child = "import h5py, numpy as np" + '''%s'''
subprocess.run([sys.executable, "-c", child], check=True)
"""
        % WRITE
    )
    passes(python, code, enabled(tmp_path), tmp_path)
    assert bytes_staged(tmp_path) >= 800000


def test_options_of_the_call_beat_those_that_are_set(tmp_path):
    code = """
import os, forebay
os.environ |= {"HDF5_VOL_CONNECTOR": "forebay size=2GiB", "FOREBAY_READ_CACHE": "off", "HDF5_PLUGIN_PATH": "/of/others"}
forebay.enable(stage=False, size="1GiB", stats="a;b")
print(os.environ["HDF5_VOL_CONNECTOR"], os.environ["FOREBAY_STAGE"], os.environ["FOREBAY_READ_CACHE"])
print(os.environ["HDF5_PLUGIN_PATH"])
"""
    connector, path = run_python(code, enabled(tmp_path), tmp_path).splitlines()
    assert connector == f"forebay size=2GiB;stage=off;size=1GiB;stats={{{os.path.realpath(tmp_path)}/a;b}} off off"
    assert path == f"{plugin_folder()}:/of/others"


def test_what_cannot_be_enabled_is_told(tmp_path):
    code = """
import os, sys, forebay
def fails(**more):
    try:
        forebay.enable(**more)
    except forebay.CannotEnable as error:
        return str(error)
os.environ["HDF5_VOL_CONNECTOR"] = "cache_ext"
assert "'cache_ext'" in fails()
del os.environ["HDF5_VOL_CONNECTOR"]
build = os.environ.pop("FOREBAY_BUILD_DIR")
os.environ["FOREBAY_BUILD_DIR"], path, os.environ["PATH"] = "/none", os.environ["PATH"], "/none"
assert "make build" in fails()
os.environ["FOREBAY_BUILD_DIR"], os.environ["PATH"] = build, path
import h5py
recent, h5py.version.hdf5_version_tuple = h5py.version.hdf5_version_tuple, (1, 12, 2)
assert "1.14.0" in fails()
h5py.version.hdf5_version_tuple = recent
import h5py._hl.files
del h5py._hl.files.make_fapl
assert "forebay run -- python" in fails()
assert "HDF5_VOL_CONNECTOR" not in os.environ
"""
    run_python(code, enabled(tmp_path, FOREBAY_BUILD_DIR=str(plugin_folder().parent)), tmp_path)


def test_the_plugin_is_found_in_the_build_and_beside_the_command(tmp_path):
    (tmp_path / "lib/hdf5/plugin").mkdir(parents=True)
    (tmp_path / "lib/hdf5/plugin/libforebay_vol.so").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/forebay").touch(mode=0o755)
    nowhere = {"FOREBAY_BUILD_DIR": "/none", "PATH": str(tmp_path / "bin")}
    assert found_plugin_folder(nowhere) == tmp_path / "lib/hdf5/plugin"
    assert found_plugin_folder({"FOREBAY_BUILD_DIR": str(plugin_folder().parent)}) == plugin_folder()


# --- byte ranges ---


def data_file(path, userblock=0):
    random = np.random.default_rng(5)
    with h5py.File(path, "w", userblock_size=userblock, libver=("earliest", "v110")) as f:
        f["contiguous"] = random.integers(0, 1 << 30, (40, 30, 50), dtype=np.int32)
        f.create_dataset("chunked", data=f["contiguous"][()], chunks=(7, 30, 16))
        f.create_dataset("compressed", data=f["contiguous"][()] % 7, chunks=(7, 30, 16), compression="gzip")
        f.create_dataset("sparse", (1000, 1000), "u1", chunks=(100, 100))[250:260, 250:260] = 1
        f["scalar"] = np.float64(7)
        f["empty"] = h5py.Empty("f4")
        f.create_dataset("unwritten", (10, 10), "f8")
        f.create_dataset("external", (4,), "u1", external=[("else", 0, 4)])
        layout = h5py.VirtualLayout((40, 30, 50), np.int32)
        layout[:] = h5py.VirtualSource(f["contiguous"])
        f.create_virtual_dataset("virtual", layout)
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((3,))
        h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_U8LE, space, compact)
    return path


@pytest.fixture(scope="module", params=[0, 4096], ids=["", "behind a user block"])
def data(request, tmp_path_factory):
    with h5py.File(data_file(tmp_path_factory.mktemp("ranges") / "data.h5", request.param)) as f:
        yield f


SELECTIONS = [
    None, ..., 3, -1, np.int64(5), slice(None), slice(5, 9), slice(3, 40, 9), [1, 2, 30], np.array([4, 39]), (),
    (3, 4, 5), (slice(2, 4), slice(None), slice(3, 5)), (..., 7), (5, ..., slice(1, 2)), (slice(4, 4),),
    np.arange(40) % 9 == 0, (slice(None), [2, 4], slice(10, None)), (slice(None, None, 39), 29, [0, 49]),
]  # fmt: skip


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_the_ranges_of_a_contiguous_selection_hold_its_bytes_and_little_else(data, selection):
    """Read from the file at those ranges, and put where they belong, the selected values come out."""
    dataset = data["contiguous"]
    ranges = forebay.ByteRanges(dataset).of(selection)
    raw = Path(data.filename).read_bytes()
    begin = dataset.id.get_offset()
    image = bytearray(dataset.nbytes)
    for offset, length in ranges:
        assert begin <= offset and offset + length <= begin + dataset.nbytes
        image[offset - begin : offset - begin + length] = raw[offset : offset + length]
    found = np.frombuffer(image, dataset.dtype).reshape(dataset.shape)
    key = ... if selection is None else selection
    assert np.array_equal(found[key], dataset[()][key])
    exact = np.zeros(dataset.shape, bool)
    exact[key] = True
    assert sum(length for _, length in ranges) <= exact.sum() * 4 + 4096 * exact.sum()


@pytest.mark.parametrize("name", ["chunked", "compressed"])
@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_the_ranges_of_a_chunked_selection_are_the_chunks_that_hold_it(data, selection, name):
    dataset = data[name]
    exact = np.zeros(dataset.shape, bool)
    exact[... if selection is None else selection] = True
    expected = []
    for index in range(dataset.id.get_num_chunks()):
        info = dataset.id.get_chunk_info(index)
        if exact[tuple(slice(at, at + size) for at, size in zip(info.chunk_offset, dataset.chunks, strict=True))].any():
            expected.append((info.byte_offset, info.size))
    assert forebay.ByteRanges(dataset).of(selection) == merged(expected)


def test_chunks_that_were_never_written_have_no_bytes(data):
    places = forebay.ByteRanges(data["sparse"])
    assert sum(length for _, length in places.of()) == 10000
    assert places.of(slice(0, 100)) == []
    mask = np.zeros((1000, 1000), bool)
    mask[255, 255] = True
    assert places.of(mask) == places.of()
    assert places.of((250, [250, 900])) == places.of() and places.of((250, 900)) == []


def test_of_very_many_pieces_the_inner_ones_become_their_hull(tmp_path):
    with h5py.File(tmp_path / "wide.h5", "w") as f:
        wide = f.create_dataset("wide", (3000, 3000, 4096), "u1")
        wide[0, 0, 0] = 1
        begin = wide.id.get_offset()
        ranges = forebay.ByteRanges(wide).of((slice(0, 3000), slice(1, 3000), 7))
        plane = 3000 * 4096
        assert ranges == [(begin + at * plane + 4096 + 7, plane - 2 * 4096 + 1) for at in range(3000)]


def test_odd_datasets(data):
    for name in ("empty", "unwritten", "compact"):
        assert forebay.ByteRanges(data[name]).of() == []
    ((offset, length),) = forebay.ByteRanges(data["scalar"]).of()
    assert np.frombuffer(Path(data.filename).read_bytes()[offset : offset + length])[0] == 7
    for name in ("virtual", "external"):
        with pytest.raises(ValueError, match="other files"):
            forebay.ByteRanges(data[name])
    for wrong in (40, -41, (0, 0, 0, 0), (..., ...), [0, 40]):
        with pytest.raises(IndexError):
            forebay.ByteRanges(data["contiguous"]).of(wrong)


def test_ranges_near_each_other_are_joined():
    assert merged([(9000, 10), (0, 10), (4106, 10), (5, 2), (20000, 0)]) == [(0, 4116), (9000, 10)]
    assert merged([(100, 10), (0, 50)], gap_bytes_max=49) == [(0, 50), (100, 10)]
    assert merged([(100, 10), (0, 50)], gap_bytes_max=50) == [(0, 110)]
    assert merged([(0, 100), (10, 20)]) == [(0, 100)]


# --- prefetch, follow and stats, against the stand-in ---


@pytest.fixture(scope="module")
def stand_in_library(tmp_path_factory):
    path = tmp_path_factory.mktemp("stand-in") / "libforebay_stand_in.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, STAND_IN], check=True)
    return path


HEAD = """
import ctypes, os, sys, h5py, numpy as np, forebay
def fails(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")
def records():
    path = os.environ["STAND_IN_RECORDS"]
    return [line.split() for line in open(path)] if os.path.exists(path) else []
"""
LOAD = "loaded = ctypes.CDLL(os.environ['STAND_IN'])\n"


@pytest.fixture
def beside(stand_in_library, tmp_path):
    """Runs code that may load the stand-in, beside a file with data."""
    data_file(tmp_path / "data.h5")
    with h5py.File(tmp_path / "rows.h5", "w") as f:
        f["rows"] = np.zeros((100, 5000), np.uint8)
    environment = enabled(tmp_path, STAND_IN=str(stand_in_library), STAND_IN_RECORDS=str(tmp_path / "records"))
    return lambda code, python=sys.executable: passes(python, HEAD + code, environment, tmp_path)


def test_without_the_plugin_everything_says_what_to_do(beside, python):
    beside("""
f = h5py.File("rows.h5")
assert not forebay.is_enabled()
for call in (forebay.stats, forebay.pause, forebay.resume, lambda: forebay.prefetch(f),
             lambda: forebay.prefetch(f["rows"], 3),
             lambda: forebay.follow([1], f["rows"]), lambda: list(forebay.torch.FollowingSampler([1], f["rows"]))):
    assert "forebay.enable()" in str(fails(forebay.NotEnabled, call))
""", python)  # fmt: skip


def test_a_plugin_that_lacks_the_functions_is_named(beside, tmp_path):
    old = tmp_path / "libforebay_old.so"
    source = "void *H5PLget_plugin_info(void) { return 0; }"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", old, "-x", "c", "-"], input=source, text=True, check=True)
    beside(
        f"old = ctypes.CDLL({str(old)!r})\n"
        + """
f = h5py.File("rows.h5")
assert forebay.is_enabled()
assert "libforebay_old.so has no forebay_statistics" in str(fails(forebay.NotEnabled, forebay.stats))
assert "forebay_path_prefetch" in str(fails(forebay.NotEnabled, forebay.prefetch, f))
"""
    )


def test_a_prefetch_asks_for_the_ranges_of_a_selection(beside, python):
    beside(LOAD + """
f = h5py.File("rows.h5")
rows, begin = f["rows"], f["rows"].id.get_offset()
path = os.path.abspath("rows.h5")
assert forebay.prefetch(rows, 7).requested_bytes == 5000
forebay.prefetch(rows, [1, 2, 50])
forebay.prefetch(f); forebay.prefetch("rows.h5")
assert forebay.prefetch(rows, slice(0, 0)).requested_bytes == 0
assert records() == [
    [path, "1", f"{begin + 35000}+5000"],
    [path, "2", f"{begin + 5000}+10000", f"{begin + 250000}+5000"],
    [path, "0"], [path, "0"],
], records()
f.close()
f = h5py.File("data.h5")
chunks = forebay.prefetch(f["compressed"])
assert chunks.requested_bytes >= sum(f["compressed"].id.get_chunk_info(i).size for i in range(24))
""", python)  # fmt: skip


def test_a_prefetch_can_be_waited_for_and_cancelled(beside):
    beside(
        LOAD
        + """
f = h5py.File("rows.h5")
asked = forebay.prefetch(f["rows"])
assert asked.left == 500000 and asked.requested_bytes == 500000
assert not asked.wait(0.01) and asked.left > 0
asked.cancel()
assert asked.left == 0 and asked.wait()
with forebay.prefetch(f["rows"], slice(0, 5)) as asked:
    assert asked.wait(10) and asked.left == 0
with forebay.prefetch(f["rows"]) as asked:
    assert asked.left > 0
assert asked.left == 0, "what had not come is cancelled"
"""
    )


def test_what_cannot_be_prefetched_is_an_error(beside):
    beside(
        LOAD
        + """
import errno
f = h5py.File("data.h5")
assert fails(ValueError, forebay.prefetch, f, 3)
assert fails(ValueError, forebay.prefetch, f["virtual"])
assert fails(TypeError, forebay.prefetch, 3)
assert fails(IndexError, forebay.prefetch, f["contiguous"], 40)
refused = fails(OSError, forebay.prefetch, "refused.h5")
assert refused.errno == errno.ENODEV and refused.filename == os.path.abspath("refused.h5")
assert fails(ValueError, forebay.follow, [1], f["contiguous"], ahead=0)
"""
    )


def test_statistics_are_those_of_the_process(beside):
    beside(LOAD + "told = forebay.stats()\nassert told['files_opened'] == 3 and int(told['padding']) == 7, told")


def test_options_that_come_after_the_first_file_are_refused(beside):
    beside(
        LOAD
        + """
assert "3 files" in str(fails(forebay.CannotEnable, forebay.enable, size="1GiB"))
assert "FOREBAY_SIZE" not in os.environ
forebay.enable()
"""
    )


def test_following_prefetches_in_order_and_stays_within_its_bound(beside):
    beside(
        LOAD
        + """
rows = h5py.File("rows.h5")["rows"]
begin, taken = rows.id.get_offset(), 0
order = forebay.epoch_order(100, 7, 0)
def source():
    global taken
    for index in order:
        taken += 1
        yield index
told = []
for number, index in enumerate(forebay.follow(source(), rows, ahead=10)):
    told.append(index)
    assert number < taken <= number + 10, (number, taken)
    asked = sum(int(line[1]) for line in records())
    assert asked == taken, "all that was taken was asked for"
assert told == order
ranges = [word for line in records() for word in line[2:]]
assert ranges == [f"{begin + 5000 * index}+5000" for index in order]
assert len(records()) <= 21, "several items go in one call"
assert list(forebay.follow([], rows)) == []
assert list(forebay.follow(iter([[3, 4], [9, 1]]), rows, 1)) == [[3, 4], [9, 1]]
assert records()[-2:] == [[os.path.abspath("rows.h5"), "1", f"{begin + 15000}+10000"],
    [os.path.abspath("rows.h5"), "2", f"{begin + 5000}+5000", f"{begin + 45000}+5000"]]
"""
    )


def test_following_goes_on_where_nothing_can_be_prefetched(beside):
    beside(
        LOAD
        + """
import shutil
for name in ("uncached.h5", "busy.h5", "refused.h5"):
    shutil.copy("rows.h5", name)
    rows = h5py.File(name)["rows"]
    assert list(forebay.follow(range(100), rows, ahead=10)) == list(range(100))
    fails(OSError, forebay.prefetch, rows)
assert records() == []
"""
    )


def test_following_goes_on_after_the_program_has_closed_the_file(beside):
    beside(
        LOAD
        + """
import shutil
shutil.copy("rows.h5", "chunked.h5")
with h5py.File("chunked.h5", "a") as f:
    f.create_dataset("chunked", data=f["rows"][:], chunks=(7, 5000))
for name, dataset in ("rows.h5", "rows"), ("chunked.h5", "chunked"):
    f = h5py.File(name)
    following = forebay.follow(range(100), f[dataset], ahead=8)
    taken = [next(following), next(following)]
    f.close()
    assert taken + list(following) == list(range(100))
"""
    )


def test_batches_may_begin_with_an_array(beside):
    beside(
        LOAD
        + """
import numpy
f = h5py.File("rows.h5")
labels = numpy.arange(100)
seen = [label for few, rows in forebay.batches(labels, f["rows"], size=32) for label in few]
assert seen == list(range(100)) and records()
assert len(list(forebay.batches(labels, size=32))) == 4
"""
    )


def test_a_sampler_has_an_epoch_to_set_only_if_the_wrapped_one_has(beside):
    beside(
        LOAD
        + """
import copy, pickle
rows = h5py.File("rows.h5")["rows"]
class Shuffled:
    def set_epoch(self, epoch): self.epoch = epoch
class Batches:
    def __init__(self, sampler): self.sampler = sampler
shuffled, following = Shuffled(), forebay.torch.FollowingSampler
following(Batches(shuffled), rows).set_epoch(5)
assert shuffled.epoch == 5 and hasattr(following(shuffled, rows), "set_epoch")
for plain in ([1], Batches([1])):
    sampler = following(plain, rows)
    assert not hasattr(sampler, "set_epoch") and not hasattr(sampler, "other")
assert copy.copy(following([1], None)).sampler == [1]
"""
    )


def test_a_sampler_for_pytorch_needs_no_torch(beside):
    beside(
        LOAD
        + """
rows = h5py.File("rows.h5")["rows"]
class Shuffled:
    def __init__(self): self.set_epoch(0)
    def set_epoch(self, epoch): self.order = forebay.epoch_order(100, 7, epoch)
    def __len__(self): return 100
    def __iter__(self): return iter(self.order)
sampler = forebay.torch.FollowingSampler(Shuffled(), rows, ahead=30)
first = list(sampler)
sampler.set_epoch(1)
assert len(sampler) == 100 and sorted(first) == list(range(100)) != first
assert list(sampler) == forebay.epoch_order(100, 7, 1) != first
assert "torch" not in sys.modules
"""
    )


def test_a_data_loader_follows_with_workers(beside):
    python = os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON")
    if not python:
        pytest.skip("there is no Python with PyTorch here: tools/setup examples")
    beside(
        LOAD
        + """
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
class Rows(Dataset):
    def __len__(self): return 100
    def __getitem__(self, index):
        with h5py.File("rows.h5") as f:
            return index, int(f["rows"][index].sum())
data, rows = Rows(), h5py.File("rows.h5")["rows"]
following = forebay.torch.FollowingSampler(RandomSampler(data), rows, ahead=30)
loader = DataLoader(data, batch_size=8, sampler=following, num_workers=2)
seen = [index for batch, _ in loader for index in batch.tolist()]
assert sorted(seen) == list(range(100))
asked = [word for line in records() for word in line[2:]]
assert asked == [f"{rows.id.get_offset() + 5000 * index}+5000" for index in seen]
batches = forebay.torch.FollowingSampler(BatchSampler(RandomSampler(data), 8, False), rows, ahead=4)
loader = DataLoader(data, batch_sampler=batches, num_workers=2)
assert len(loader) == 13 and sum(len(batch) for batch, _ in loader) == 100
""",
        python,
    )


def test_the_order_of_an_epoch_is_the_same_in_each_process():
    assert forebay.epoch_order(0, 7, 3) == []
    code = "import forebay; print(*forebay.epoch_order(8, 7, 3))"
    other = subprocess.run(
        [sys.executable, "-c", code], env=native(PYTHONPATH=str(ROOT / "python")), capture_output=True
    )
    assert [int(word) for word in other.stdout.split()] == forebay.epoch_order(8, 7, 3)


# --- against the plugin itself ---


@pytest.mark.parametrize("order", ["before", "after"])
def test_what_was_prefetched_is_read_from_the_node(order, python, tmp_path):
    usable, reason = available()
    if not usable:
        pytest.skip(f"slowfs cannot be used: {reason}")
    lines = ["import os, numpy as np, forebay", "import h5py", "forebay.enable(os.environ['AREA'])"]
    if order == "after":
        lines[1:] = reversed(lines[1:])
    code = (
        "\n".join(lines)
        + """
with h5py.File("target/rows.h5") as f:
    for attempt in range(2):   # what was just read may be left out; once nothing is left, it is so no more
        with forebay.prefetch(f["rows"]) as asked:
            assert asked.wait(600), asked.left
    before = forebay.stats()["cache"]
    total = int(f["rows"][()].sum(dtype=np.int64))
    after = forebay.stats()["cache"]
    assert after["hit_bytes"] - before["hit_bytes"] >= f["rows"].nbytes, (before, after)
    rows = f["rows"]
    assert sum(int(rows[i].sum(dtype=np.int64)) for i in forebay.follow(forebay.epoch_order(64, 1, 0), rows)) == total
print(total)
"""
    )
    with SlowFS(tmp_path / "backing", tmp_path / "target", latency={"read": "0.2ms"}):
        values = np.random.default_rng(3).integers(0, 256, (64, 65536), dtype=np.uint8)
        with h5py.File(tmp_path / "backing" / "rows.h5", "w") as f:
            f["rows"] = values
        time.sleep(3.2)  # a younger file is not stored
        assert int(passes(python, code, enabled(tmp_path), tmp_path)) == int(values.sum(dtype=np.int64))
