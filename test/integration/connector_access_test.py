"""What a program sees of its files: access lists, errors, links to other files, and content."""

from pathlib import Path

import h5py
import pytest
from connector_environment import native, run_python, staged, statistics

pytestmark = pytest.mark.slow


def same_output(code: str, folder, *files: str, **more: str) -> str:
    """Runs a script natively and through the connector, which stages `files`, and returns what both printed."""
    plain = run_python(code, native(**more), folder / "native")
    through = run_python(code, staged(folder, **more), folder / "through")
    assert through == plain
    assert_staged(folder, *files)
    return through


def assert_staged(folder, *files: str) -> None:
    """These files, and no others, were staged as long as they were open; one that was opened twice is named twice."""
    entries = statistics(folder)
    assert sorted(Path(entry["path"]).name for entry in entries) == sorted(files), entries
    assert all(entry["staged"] > 0 and entry["reasons"] == [] for entry in entries), entries


@pytest.mark.check
def test_written_files_are_the_same_byte_for_byte(tmp_path):
    code = """
import h5py, numpy
generator = numpy.random.default_rng(1)
with h5py.File("x.h5", "w") as f:
    f.create_dataset("a", data=generator.random((100, 1000)), track_times=False)
    f.create_dataset("b", data=generator.random((100, 1000)), chunks=(10, 100), compression="gzip", track_times=False)
    f.create_dataset("c", data=numpy.arange(100000), maxshape=(None,), chunks=(1000,), track_times=False)
    f["c"].resize((50000,))
    f.create_dataset("s", data=["some", "strings", "of", "variable", "length"], track_times=False)
    f.flush()
    f["a"][10:20] = 0
    del f["b"]
    f.create_dataset("d", data=generator.integers(0, 9, 30000), fletcher32=True, track_times=False)
with h5py.File("x.h5", "r+") as f:
    f["a"][50:60, ::3] = 7
    f["a"].attrs["unit"] = "m"
"""
    same_output(code, tmp_path, "x.h5", "x.h5")
    assert (tmp_path / "through" / "x.h5").read_bytes() == (tmp_path / "native" / "x.h5").read_bytes()


def test_a_file_is_counted_with_its_path_and_bytes(tmp_path):
    run_python(
        "import h5py; h5py.File('x.h5', 'w').create_dataset('a', data=range(100000))", staged(tmp_path), tmp_path
    )
    (entry,) = statistics(tmp_path)
    assert entry["path"] == str(tmp_path / "x.h5")
    assert entry["staged"] >= 800000
    assert entry["reasons"] == []


def test_access_list_names_the_users_driver_and_connector(tmp_path):
    code = """
import h5py
from h5py import h5p, h5fd
import ctypes, glob, os
lib = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(h5py.__file__), "..", "h5py.libs", "libhdf5-*.so*"))[0])
lib.H5VLget_connector_id_by_name.restype = ctypes.c_int64
lib.H5Pget_vol_id.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)]
lib.H5Pget_vol_info.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p)]
lib.H5VLconnector_info_to_str.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_char_p)]
f = h5py.File("x.h5", "w")
fapl = f.id.get_access_plist()
assert fapl.get_driver() == h5fd.SEC2 and f.driver == "sec2"
connector = ctypes.c_int64()
assert lib.H5Pget_vol_id(fapl.id, ctypes.byref(connector)) >= 0
order = ctypes.c_int(9)
lib.H5VLcmp_connector_cls.argtypes = [ctypes.POINTER(ctypes.c_int), ctypes.c_int64, ctypes.c_int64]
assert lib.H5VLcmp_connector_cls(ctypes.byref(order), connector, lib.H5VLget_connector_id_by_name(b"forebay")) >= 0
assert order.value == 0
info, text = ctypes.c_void_p(), ctypes.c_char_p()
assert lib.H5Pget_vol_info(fapl.id, ctypes.byref(info)) >= 0
assert lib.H5VLconnector_info_to_str(info, connector, ctypes.byref(text)) >= 0
assert text.value == b"drain_threads=2;under_vol=0;under_info={}", text.value
# The list opens the same file again, and HDF5 sees that it is the same.
again = h5py.h5f.open(b"x.h5", h5py.h5f.ACC_RDWR, fapl=fapl)
assert again.name == f.id.name
g = h5py.Group(h5py.h5g.create(again, b"made-by-the-second"))
assert "made-by-the-second" in f
"""
    run_python(code, staged(tmp_path, "drain_threads=2;under_vol=0;under_info={}"), tmp_path)
    assert_staged(tmp_path, "x.h5")


@pytest.mark.parametrize(
    "attempt",
    [
        "h5py.File('missing.h5', 'r')",
        "h5py.File('missing.h5', 'r+')",
        "h5py.File('there.h5', 'x')",
        "h5py.File('text.h5', 'r')",
        "h5py.File('.', 'r')",
        "h5py.File('no/such/folder.h5', 'w')",
        "h5py.File('empty.h5', 'r')",
    ],
)
def test_a_failed_open_raises_what_it_raises_natively(attempt, tmp_path):
    code = f"""
import h5py
h5py.File("there.h5", "w").close()
open("text.h5", "w").write("no HDF5 file" * 1000)
open("empty.h5", "w").close()
try:
    {attempt}
except Exception as error:
    # Behind the errno, messages hold addresses and times.
    print(type(error).__name__, getattr(error, "errno", None), str(error).split("(")[0])
else:
    print("opened")
"""
    same_output(code, tmp_path, "there.h5")


def test_a_file_that_is_locked_elsewhere_cannot_be_opened(tmp_path):
    code = """
import fcntl, h5py
h5py.File("x.h5", "w").close()
other = open("x.h5")
fcntl.flock(other, fcntl.LOCK_EX)
for mode in "r", "r+":
    try:
        h5py.File("x.h5", mode)
    except Exception as error:
        print(mode, type(error).__name__, error)
with h5py.File("x.h5", "r", locking=False) as f:
    print("without locking:", list(f))
"""
    assert "BlockingIOError" in same_output(code, tmp_path, "x.h5")


def test_an_external_link_reaches_the_staged_bytes_of_an_open_file(tmp_path):
    code = """
import h5py
part, whole = h5py.File("part.h5", "w"), h5py.File("whole.h5", "w")
part["x"] = list(range(1000))
whole["link"] = h5py.ExternalLink("part.h5", "/x")
print(whole["link"][990:])
whole["link"][0] = 42
print(part["x"][0])
# With a file access list of the caller's in the link access list.
lapl = h5py.h5p.create(h5py.h5p.LINK_ACCESS)
fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
fapl.set_fapl_sec2()
lapl.set_elink_fapl(fapl)
named = h5py.Dataset(h5py.h5o.open(whole.id, b"link", lapl))
named[1] = 43
print(part["x"][:3], lapl.get_elink_fapl().get_driver() == h5py.h5fd.SEC2)
"""
    same_output(code, tmp_path, "whole.h5", "part.h5")


def test_an_external_link_to_a_closed_file_is_staged_too(tmp_path):
    code = """
import h5py
with h5py.File("part.h5", "w") as part:
    part["x"] = list(range(100000))
with h5py.File("whole.h5", "w") as whole:
    whole["link"] = h5py.ExternalLink("part.h5", "/x")
    whole["link"][:] = 5
with h5py.File("part.h5") as part:
    print(set(part["x"][:].tolist()))
"""
    assert same_output(code, tmp_path, "part.h5", "part.h5", "whole.h5") == "{5}\n"


def test_a_virtual_dataset_reads_open_and_closed_sources(tmp_path):
    code = """
import h5py
parts = [h5py.File(f"part{i}.h5", "w") for i in range(4)]
for i, part in enumerate(parts):
    part["x"] = [i] * 1000
parts[0].close()
parts[1].flush()
layout = h5py.VirtualLayout((4, 1000), "i8")
for i in range(4):
    layout[i] = h5py.VirtualSource(f"part{i}.h5", "x", (1000,))
with h5py.File("whole.h5", "w") as whole:
    whole.create_virtual_dataset("all", layout)
    print(whole["all"][:].sum(axis=1))
for part in parts[1:]:
    part.close()
with h5py.File("whole.h5") as whole:
    print(whole["all"][:, 999])
"""
    same_output(code, tmp_path, "part0.h5", "part0.h5", "part1.h5", "part2.h5", "part3.h5", "whole.h5")


def test_reading_before_close_sees_what_was_written(tmp_path):
    code = """
import h5py
f = h5py.File("x.h5", "w")
d = f.create_dataset("d", (1000, 1000), "f8", chunks=(100, 100))
for step in range(5):
    d[step * 100:(step + 1) * 100] = step
    print(d[step * 100, 5], d[:].sum())
second = h5py.File("x.h5", "r+")
print(second["d"][:].sum(), second.id.get_filesize() == f.id.get_filesize())
f.close(); print(second["d"][450, 7]); second.close()
"""
    same_output(code, tmp_path, "x.h5")


def test_an_object_stays_open_after_its_file_identifier(tmp_path):
    code = """
import h5py
fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)   # h5py itself asks for strong closing
f = h5py.h5f.create(b"x.h5", fapl=fapl)
g = h5py.h5g.create(f, b"g")
f.close()
d = h5py.Group(g).create_dataset("d", data=range(1000))
print(d[999])
del g, d
with h5py.File("x.h5") as again:
    print(again["g/d"][:].sum())
"""
    same_output(code, tmp_path, "x.h5")


def test_deleting_and_asking_for_a_file_by_name(tmp_path):
    code = """
import h5py, os
h5py.File("x.h5", "w").close()
print(h5py.is_hdf5("x.h5"), h5py.is_hdf5("nothing.h5"))
f = h5py.File("open.h5", "w"); f["x"] = range(10); f.flush()
print(h5py.is_hdf5("open.h5"))
f.close()
"""
    same_output(code, tmp_path, "x.h5", "open.h5")


def test_the_plugin_needs_neither_hdf5_nor_mpi(tmp_path):
    import subprocess

    from connector_environment import plugin_folder

    dynamic = subprocess.run(
        ["readelf", "-d", plugin_folder() / "libforebay_vol.so"], capture_output=True, text=True, check=True
    ).stdout
    needed = [line for line in dynamic.splitlines() if "NEEDED" in line]
    assert needed and not any(name in line for line in needed for name in ("hdf5", "mpi"))
    assert "NODELETE" in dynamic


assert h5py.version.hdf5_version_tuple >= (1, 14, 0)
