"""Files that forebay must not touch keep their driver, give native results, and are counted with the reason."""

import shutil
import subprocess

import pytest
from connector_environment import asides, native, reasons, run_python, staged, statistics

pytestmark = pytest.mark.slow


@pytest.mark.check
@pytest.mark.parametrize(
    "driver, options", [("core", {}), ("core", {"backing_store": False}), ("stdio", {}), ("family", {}), ("split", {})]
)
def test_other_drivers_are_kept(driver, options, tmp_path):
    name = "x%d.h5" if driver == "family" else "x.h5"
    code = f"""
import h5py
with h5py.File({name!r}, "w", driver={driver!r}, **{options!r}) as f:
    f["x"] = range(1000)
    print(f.driver, f["x"][999])
if {options.get("backing_store", True)}:
    with h5py.File({name!r}, "r", driver={driver!r}) as f:
        print(f.driver, f["x"][:].sum())
"""
    plain = run_python(code, native(), tmp_path / "native")
    assert run_python(code, staged(tmp_path), tmp_path / "through") == plain
    assert asides(tmp_path).keys() == {"driver"}
    assert all(entry["staged"] == 0 for entry in statistics(tmp_path))


def test_a_driver_chosen_by_the_environment_is_kept(tmp_path):
    code = """
import h5py
with h5py.File("x.h5", "w") as f:
    f["x"] = range(1000)
    print(f.driver)
"""
    plain = run_python(code, native(HDF5_DRIVER="stdio"), tmp_path / "native")
    assert run_python(code, staged(tmp_path, HDF5_DRIVER="stdio"), tmp_path / "through") == plain
    assert asides(tmp_path).keys() == {"driver"}


SWMR = """
import h5py, subprocess, sys
read = '''
import h5py
with h5py.File("x.h5", "r", swmr=True) as f:
    print("reader", f["x"].shape, f["x"][:].sum(), flush=True)
'''
def reader():
    print(subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True).stdout, end="")
f = h5py.File("x.h5", "w", libver="latest")
d = f.create_dataset("x", (0,), maxshape=(None,), chunks=(100,), dtype="i8")
d.resize((100,)); d[:] = 1
f.swmr_mode = True
reader()
for step in range(3):
    d.resize((200 + 100 * step,)); d[-100:] = step + 2
    d.flush()
    reader()
f.close()
"""


def test_swmr_started_on_a_staged_file_reaches_readers_at_once(tmp_path):
    plain = run_python(SWMR, native(), tmp_path / "native")
    assert plain.count("reader") == 4
    assert run_python(SWMR, staged(tmp_path), tmp_path / "through") == plain
    assert reasons(tmp_path) == {"swmr"}  # the writer's file
    assert asides(tmp_path) == {"swmr": 4}  # the readers' opens


def test_swmr_flags_at_open_are_native(tmp_path):
    code = """
import h5py
with h5py.File("x.h5", "w", libver="latest") as f:
    f["x"] = range(1000)
writer = h5py.h5f.open(b"x.h5", h5py.h5f.ACC_RDWR | h5py.h5f.ACC_SWMR_WRITE)
d = h5py.Dataset(h5py.h5d.open(writer, b"x"))
d[0] = 7
d.flush()
print(d[:3])
# The same file again without the flags: HDF5 must see that it is the same.
try:
    again = h5py.h5f.open(b"x.h5", h5py.h5f.ACC_RDWR)
    print("opened again")
except Exception as error:
    print(type(error).__name__, error)
writer.close()
"""
    plain = run_python(code, native(), tmp_path / "native")
    assert run_python(code, staged(tmp_path), tmp_path / "through") == plain
    assert "swmr" in asides(tmp_path)


def test_the_raw_descriptor_shows_the_whole_file(tmp_path):
    code = """
import h5py, os
f = h5py.File("x.h5", "w")
d = f.create_dataset("x", data=[258] * 1000, dtype="i8")
f.flush()
descriptor = f.id.get_vfd_handle()
print(os.pread(descriptor, 8, d.id.get_offset()), os.fstat(descriptor).st_size >= 8000)
d[0] = 1
f.flush()
print(os.pread(descriptor, 8, d.id.get_offset()))
f.close()
"""
    plain = run_python(code, native(), tmp_path / "native")
    assert run_python(code, staged(tmp_path), tmp_path / "through") == plain
    assert reasons(tmp_path) == {"handle_taken", "address_given"}


def test_pytables_may_ask_for_the_descriptor_and_sync_it(tmp_path):
    pytest.importorskip("tables")
    code = """
import os, tables
for number in range(20):
    with tables.open_file(f"x{number}.h5", "w") as f:
        f.create_array("/", "x", list(range(100)))
        f.flush()
        os.fsync(f.fileno())  # as pandas does; PyTables reads the number as a uintptr_t
        print(os.fstat(f.fileno()).st_ino == os.stat(f"x{number}.h5").st_ino)
"""
    plain = run_python(code, native(), tmp_path / "native")
    assert run_python(code, staged(tmp_path), tmp_path / "through") == plain and "False" not in plain
    assert reasons(tmp_path) == {"handle_taken"}


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_filters_of_a_wheel_of_netcdf4_are_found_where_forebay_has_set_the_plugin_path(tmp_path):
    package = tmp_path / "netCDF4"
    (package / "plugins").mkdir(parents=True)
    (package / "plugins" / "lib__nczhdf5filters.so").write_bytes(b"")
    subprocess.run(["cc", "-shared", "-o", package / "_netCDF4.so", "-x", "c", "/dev/null"], check=True, timeout=60)
    code = f"""
import ctypes, h5py
def folders(): return [h5py.h5pl.get(index) for index in range(h5py.h5pl.size())]
if LOADED: ctypes.CDLL("{package}/_netCDF4.so")
h5py.File("x.h5", "w").close()
print(folders().count(b"{package}/plugins"), len(folders()))
h5py.File("y.h5", "w").close()
print(folders().count(b"{package}/plugins"), len(folders()))
"""
    with_it = run_python(f"LOADED = True\n{code}", staged(tmp_path), tmp_path / "with").split()
    without = run_python(f"LOADED = False\n{code}", staged(tmp_path), tmp_path / "without").split()
    assert with_it[0] == with_it[2] == "1" and without[0] == without[2] == "0"
    assert int(with_it[1]) == int(with_it[3]) == int(without[1]) + 1


def test_another_connector_beneath_is_passed_through(tmp_path):
    # HDF5's own pass-through connector (value 1) between forebay and the native one.
    code = """
import h5py
with h5py.File("x.h5", "w") as f:
    f["g/x"] = range(1000)
    f["g"].attrs["a"] = "b"
with h5py.File("x.h5", "r+") as f:
    f["link"] = h5py.SoftLink("/g/x")
    print(f["link"][999], list(f), f["g"].attrs["a"], f["g/x"].file.filename)
    f.visit(print)
"""
    plain = run_python(code, native(), tmp_path / "native")
    text = "under_vol=1;under_info={under_vol=0;under_info={}}"
    environment = staged(tmp_path, text)
    import subprocess
    import sys

    (tmp_path / "through").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path / "through", capture_output=True, text=True
    )
    if "under_vol=1" in done.stderr and "no such connector" in done.stderr:
        pytest.skip("this HDF5 was built without its pass-through connector")
    assert done.stdout == plain, done.stderr
    assert asides(tmp_path).keys() == {"under_connector"}


OTHER_LIST = """
import ctypes, glob, os, h5py
from h5py import h5f, h5o, h5p
lib = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(h5py.__file__), "..", "h5py.libs", "libhdf5-*.so*"))[0])
number, pointer, text = ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p
lib.H5VLget_connector_id_by_name.restype = number
lib.H5VLconnector_str_to_info.argtypes = [text, number, ctypes.POINTER(pointer)]
lib.H5Pset_vol.argtypes = [number, number, pointer]
lib.H5Lcopy.argtypes = lib.H5Lmove.argtypes = [number, text, number, text, number, number]
lib.H5Lcreate_hard.argtypes = lib.H5Lcopy.argtypes
def other(name, info):
    fapl, connector, made = h5p.create(h5p.FILE_ACCESS), lib.H5VLget_connector_id_by_name(b"forebay"), pointer()
    assert lib.H5VLconnector_str_to_info(info, connector, ctypes.byref(made)) >= 0
    assert lib.H5Pset_vol(fapl.id, connector, made) >= 0
    return h5f.create(name, fapl=fapl)
here = h5py.File("here.h5", "w")
here["x"] = range(1000)
"""


def test_objects_of_files_with_other_connectors_beneath_are_refused(tmp_path):
    code = (
        OTHER_LIST
        + """
try:
    there = other(b"there.h5", b"strict=on;under_vol=1;under_info={under_vol=0;under_info={}}")
except OSError as error:
    print("none", error)
    os._exit(0)
h5py.h5g.create(there, b"group")
h5py.h5g.create(there, b"x")
def refused(call):
    try:
        return call() is not None and call() < 0
    except (RuntimeError, OSError, ValueError):
        return True
for one, another in (here.id, there), (there, here.id):
    assert refused(lambda: h5o.copy(one, b"x", another, b"copy"))
    assert refused(lambda: h5f.mount(one, b"/", another))
    for call in lib.H5Lcreate_hard, lib.H5Lcopy, lib.H5Lmove:
        assert refused(lambda: call(one.id, b"x", another.id, b"wrong", 0, 0))
print(sorted(here), sorted(h5py.File(there)))
"""
    )
    told = run_python(code, staged(tmp_path), tmp_path)
    if told.startswith("none"):
        pytest.skip("this HDF5 was built without its pass-through connector")
    assert told == "['x'] ['group', 'x']\n"


def test_objects_are_copied_between_files_with_other_options(tmp_path):
    code = (
        OTHER_LIST
        + """
there = other(b"there.h5", b"stage=off")
h5o.copy(here.id, b"x", there, b"copy")
print(h5py.File(there)["copy"][999])
"""
    )
    assert run_python(code, staged(tmp_path), tmp_path) == "999\n"
