"""A program that opens one file through several of HDF5's drivers at a time finds in it what it finds natively.

HDF5 takes one file under two drivers for two files. Natively that works without file locks, and each driver reads what
the other one has written. Each program runs natively and staged; what it prints is what it found.
"""

import pytest
from connector_environment import asides, bytes_staged, native, reasons, run_python, staged, statistics

pytestmark = pytest.mark.slow

UNLOCKED = {"HDF5_USE_FILE_LOCKING": "FALSE"}

BEGIN = """
import ctypes, hashlib, h5py, numpy as np, os
hdf5 = ctypes.CDLL(h5py.h5f.__file__)
COUNT = 1_000_000
def listed(driver):
    files = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    files.set_fclose_degree(h5py.h5f.CLOSE_WEAK)
    if driver == "core": files.set_fapl_core(1 << 20, True)
    if driver == "stdio": files.set_fapl_stdio()
    return files
def make():
    f = h5py.File("x.h5", "w")
    f.create_dataset("x", data=np.arange(COUNT))
    f.create_dataset("y", data=np.arange(COUNT))
    return f
def digest():
    return hashlib.sha256(open("x.h5", "rb").read()).hexdigest()
def tried(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__
"""

PROGRAMS = {
    "reads_what_was_flushed": """
f = make()
f.flush()
g = h5py.File("x.h5", "r", driver=DRIVER)
print(g["x"][:10], int(g["y"][:].sum()), g.driver)
""",
    "reads_what_was_not_flushed": """
f = make()
d = f["x"]
d.attrs["a"] = np.arange(100)
f.flush()
d[5:500_000] = 9
d.attrs["a"] = np.arange(100) + 1
d.flush()   # HDF5 has written the metadata; no commit
g = h5py.File("x.h5", "r", driver=DRIVER)
print(g["x"][:10], int(g["x"][:].sum()), g["x"].attrs["a"].sum())
""",
    "does_not_find_a_file_that_was_never_flushed": """
f = make()
print(tried(lambda: list(h5py.File("x.h5", "r", driver=DRIVER))))
""",
    "reads_what_is_written_later": """
f = make()
f.flush()
g = h5py.File("x.h5", "r", driver=DRIVER)
print(g["x"][0])
f["x"][600_000:] = 3
f["y"][:] = 4
print(g["x"][600_000:].sum(), g["y"][:].sum())
f.close()
h = h5py.File("x.h5", "r+")
h["x"][100_000:200_000] = 5
print(g["x"][100_000:200_000].sum())
h.close()
""",
    "has_the_file_open_first": """
make().close()
g = h5py.File("x.h5", "r", driver=DRIVER)
print(g["x"][0])
f = h5py.File("x.h5", "r+")
f["x"][600_000:] = 3
print(g["x"][600_000:].sum())
f.close()
""",
    "has_the_file_open_first_through_an_object": """
make().close()
d = h5py.h5d.open(h5py.h5f.open(b"x.h5", h5py.h5f.ACC_RDONLY, listed(DRIVER)), b"x")
f = h5py.File("x.h5", "r+")
f["x"][600_000:] = 3
print(h5py.Dataset(d)[600_000:].sum())
f.close()
""",
    "writes_beside_it": """
f = make()
f.flush()
g = h5py.File("x.h5", "r+", driver=DRIVER)
f["x"][:300_000] = 1
g["x"][200_000:400_000] = 2
g.flush()
f["x"][250_000:260_000] = 3
print(f["x"][:].sum(), f["x"][199_999:200_001])
g.close()
f.close()
print(digest())
""",
    "empties_it": """
f = make()
f.flush()
f["x"][:] = 8
g = h5py.File("x.h5", "w", driver=DRIVER)
g["z"] = np.arange(100)
g.close()
before = digest()
print(tried(f.close))
print(before, digest(), os.path.getsize("x.h5"))
print(tried(lambda: list(h5py.File("x.h5", "r"))))
""",
    "asks_for_it": """
f = make()
files = listed(DRIVER)
print(hdf5.H5Fis_accessible(b"x.h5", ctypes.c_int64(files.id)))
f.flush()
print(hdf5.H5Fis_accessible(b"x.h5", ctypes.c_int64(files.id)))
""",
    "deletes_it": """
f = make()
f.flush()
f["x"][:] = 8
files = listed(DRIVER)
print(hdf5.H5Fdelete(b"x.h5", ctypes.c_int64(files.id)), os.path.exists("x.h5"))
print(f["x"][:].sum())
f.close()
print(os.path.exists("x.h5"))
""",
    "reaches_it_by_a_link": """
f = make()
f.flush()
f["x"][5:500_000] = 9
with h5py.File("parent.h5", "w") as p:
    p["link"] = h5py.ExternalLink("x.h5", "/x")
    links = h5py.h5p.create(h5py.h5p.LINK_ACCESS)
    links.set_elink_fapl(listed(DRIVER))
    d = h5py.Dataset(h5py.h5o.open(p.id, b"link", lapl=links))
    print(d[:10], int(d[:500_000].sum()))
    f["x"][600_000:] = 3
    print(d[600_000:].sum())
    f.close()
    h = h5py.File("x.h5", "r+")
    h["x"][500_000:550_000] = 5
    print(d[500_000:550_000].sum())
    h.close()
""",
}


@pytest.mark.check
@pytest.mark.parametrize("driver", ["stdio", "core"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_another_driver(name, driver, tmp_path):
    code = f"DRIVER = {driver!r}" + BEGIN + PROGRAMS[name]
    plain = run_python(code, native(**UNLOCKED), tmp_path / "native")
    assert "-1" not in plain.split()
    assert run_python(code, staged(tmp_path, **UNLOCKED), tmp_path / "through") == plain
    assert bytes_staged(tmp_path) > 0
    assert "driver" in reasons(tmp_path)
    if name not in ("does_not_find_a_file_that_was_never_flushed", "asks_for_it", "deletes_it", "reaches_it_by_a_link"):
        assert asides(tmp_path)["driver"] > 0


def test_a_file_is_staged_again_once_the_other_driver_has_closed_it(tmp_path):
    code = """
import h5py
for mode in "w", "r+":
    with h5py.File("x.h5", mode) as f:
        f[f"x{mode[0]}"] = range(1000)
    with h5py.File("x.h5", "r", driver="stdio") as g:
        print(list(g))
"""
    plain = run_python(code, native(), tmp_path / "native")
    assert run_python(code, staged(tmp_path), tmp_path / "through") == plain
    assert [(entry["staged"] > 0, entry["reasons"]) for entry in statistics(tmp_path)] == [(True, [])] * 2


@pytest.mark.parametrize("first, second", [("", "stage=off"), ("stage=off", "")])
def test_opens_with_staging_on_and_off_share_one_file(first, second, tmp_path):
    code = f"""
import ctypes, h5py, numpy as np
hdf5 = ctypes.CDLL(h5py.h5f.__file__)
hdf5.H5VLregister_connector_by_name.restype = ctypes.c_int64
def listed(text):
    files = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    if STAGED:
        connector = ctypes.c_int64(hdf5.H5VLregister_connector_by_name(b"forebay", ctypes.c_int64(0)))
        info = ctypes.c_void_p()
        assert hdf5.H5VLconnector_str_to_info(text.encode(), connector, ctypes.byref(info)) >= 0
        assert hdf5.H5Pset_vol(ctypes.c_int64(files.id), connector, info) >= 0
    return files
f = h5py.File(h5py.h5f.create(b"x.h5", fapl=listed({first!r})))
f["x"] = np.arange(1000)
g = h5py.File(h5py.h5f.open(b"x.h5", h5py.h5f.ACC_RDWR, listed({second!r})))
g["y"] = np.arange(10)
print(list(f), g["x"][:].sum())
f["x"][:] = 1
print(g["x"][:].sum())
g.close()
f.close()
print(list(h5py.File("x.h5")))
"""
    plain = run_python("STAGED = False\n" + code, native(), tmp_path / "native")
    assert run_python("STAGED = True\n" + code, staged(tmp_path), tmp_path / "through") == plain
    if second:
        assert bytes_staged(tmp_path) > 0


def test_another_driver_does_not_get_a_file_that_was_closed_with_bytes_left(tmp_path):
    code = """
import h5py, resource
f = h5py.File("x.h5", "w")
f["before"] = 1
f.flush()
f.create_dataset("x", (8 << 20,), "f8")[-1] = 1          # at 64 MiB
resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 20, resource.RLIM_INFINITY))
try:
    f.close()
    print("closed")
except Exception as error:
    print(type(error).__name__)
for mode in "r", "w":
    try:
        print(list(h5py.File("x.h5", mode, driver="stdio")))
    except Exception as error:
        print("left bytes of it in the staging log" in str(error))
"""
    told = run_python(code, staged(tmp_path, "size=32MiB", **UNLOCKED), tmp_path)
    assert told.splitlines()[1:] == ["True", "True"] and "closed" not in told
