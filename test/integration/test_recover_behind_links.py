"""The file behind an external link is recovered before it is opened, whatever driver the link access list names."""

import subprocess
import sys

import pytest
from test_recover import area, damage, killed, left, libver, staged  # noqa: F401 (fixtures)

pytestmark = pytest.mark.slow

h5py = pytest.importorskip("h5py")

# The program has a callback of its own in the list, and finds it there afterwards.
LINKED = """
import ctypes, h5py, sys
library = next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5-" in line or "libhdf5.so" in line)
hdf5 = ctypes.CDLL(library)
names = [ctypes.c_char_p] * 4
Callback = ctypes.CFUNCTYPE(ctypes.c_int, *names, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
seen = []
@Callback
def note(parent_file, parent_group, file, path, flags, access, data):
    seen.append((parent_file, path, data))
    return 0
whole = h5py.File("whole.h5", sys.argv[1])
lapl, fapl = h5py.h5p.create(h5py.h5p.LINK_ACCESS), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
getattr(fapl, f"set_fapl_{sys.argv[2]}")()
lapl.set_elink_fapl(fapl)
assert hdf5.H5Pset_elink_cb(ctypes.c_int64(lapl.id), note, ctypes.c_void_p(42)) >= 0
for _ in range(2):
    print(list(h5py.Group(h5py.h5o.open(whole.id, b"link", lapl))))
assert seen == 2 * [(b"whole.h5", b"/", 42)], seen
found, data = ctypes.c_void_p(), ctypes.c_void_p()
assert hdf5.H5Pget_elink_cb(ctypes.c_int64(lapl.id), ctypes.byref(found), ctypes.byref(data)) >= 0
assert (found.value, data.value) == (ctypes.cast(note, ctypes.c_void_p).value, 42)
"""


def opens_the_recovered_file(words, folder, environment):
    """Runs a program that opens the file behind the link twice, and tells of one recovery."""
    opened = subprocess.run(
        [sys.executable, "-c", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert opened.returncode == 0, opened.stderr
    assert opened.stdout == 2 * "['step 0', 'step 1', 'step 2']\n"
    assert opened.stderr.count("forebay:") == 1 and "at its last flush now" in opened.stderr


@pytest.mark.parametrize("libver", ["latest"])
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize(
    "driver, how",
    [("sec2", "beside it"), ("stdio", "beside it"), ("core", "beside it"), ("core", "prefix"), ("core", "absolute")],
)
def test_a_file_behind_an_external_link_is_recovered_first(killed, area, mode, driver, how):  # noqa: F811
    path, _ = killed
    folder = path.parent if how == "beside it" else path.parent / "elsewhere"
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / "whole.h5", "w") as whole:
        whole["link"] = h5py.ExternalLink(str(path) if how == "absolute" else path.name, "/")
    environment = {**staged(area), **({"HDF5_EXT_PREFIX": f"/nowhere:{path.parent}"} if how == "prefix" else {})}
    opens_the_recovered_file([LINKED, mode, driver], folder, environment)
    assert left(area) == []


# The program's callback copies the list in the call, as a connector beneath that queues calls does.
COPYING = """
import ctypes, h5py, sys
library = next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5-" in line or "libhdf5.so" in line)
hdf5 = ctypes.CDLL(library)
hdf5.H5Pcopy.restype = ctypes.c_int64
names = [ctypes.c_char_p] * 4
Callback = ctypes.CFUNCTYPE(ctypes.c_int, *names, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
seen, copies = [], []
@Callback
def note(parent_file, parent_group, file, path, flags, access, data):
    seen.append(data)
    if not copies:
        copies.append(hdf5.H5Pcopy(ctypes.c_int64(lapl.id)))
    return 0
whole = h5py.File("whole.h5")
lapl, fapl = h5py.h5p.create(h5py.h5p.LINK_ACCESS), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
getattr(fapl, f"set_fapl_{sys.argv[1]}")()
lapl.set_elink_fapl(fapl)
lapl.set_elink_prefix(sys.argv[2].encode())
assert hdf5.H5Pset_elink_cb(ctypes.c_int64(lapl.id), note, ctypes.c_void_p(42)) >= 0
h5py.h5o.open(whole.id, b"first", lapl)
del lapl
copy = h5py.h5p.PropLAID(copies[0])
print(list(h5py.Group(h5py.h5o.open(whole.id, b"second", copy))))
assert seen == [42, 42], seen
"""


@pytest.mark.parametrize("libver", ["latest"])
@pytest.mark.parametrize("driver", ["stdio", "core", "sec2"])
def test_a_copy_of_the_list_made_in_a_call_outlives_the_call(killed, area, driver):  # noqa: F811
    path, _ = killed
    folder = path.parent / "elsewhere"
    folder.mkdir()
    h5py.File(path.parent / "other.h5", "w").close()
    with h5py.File(folder / "whole.h5", "w") as whole:
        whole["first"] = h5py.ExternalLink("other.h5", "/")
        whole["second"] = h5py.ExternalLink(path.name, "/")
    opened = subprocess.run(
        [sys.executable, "-c", COPYING, driver, path.parent],
        cwd=folder,
        env=staged(area),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert opened.returncode == 0, opened.stderr
    assert opened.stdout == "['step 0', 'step 1', 'step 2']\n"
    assert opened.stderr.count("forebay:") == 1 and "at its last flush now" in opened.stderr
    assert left(area) == []


BESIDE_IT = """
import h5py, sys
whole = h5py.File("elsewhere/whole.h5", "r+")
lapl, fapl = h5py.h5p.create(h5py.h5p.LINK_ACCESS), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
fapl.set_fapl_core()
lapl.set_elink_fapl(fapl)
print(list(h5py.Group(h5py.h5o.open(whole.id, b"link", lapl))))
"""


@pytest.mark.parametrize("libver", ["latest"])
@pytest.mark.parametrize("log", ["whole", "damaged"])
def test_a_file_of_the_same_name_that_the_link_does_not_reach_is_left_alone(killed, area, log):  # noqa: F811
    path, _ = killed
    if log == "damaged":  # it would refuse an open for writing
        (log_file,) = area.glob("forebay-*/*/log")
        damage(log_file)
    folder, before, names = path.parent / "elsewhere", path.read_bytes(), left(area)
    folder.mkdir()
    with h5py.File(folder / path.name, "w") as file:
        file["this one"] = 1
    with h5py.File(folder / "whole.h5", "w") as whole:
        whole["link"] = h5py.ExternalLink(path.name, "/")
    opened = subprocess.run(
        [sys.executable, "-c", BESIDE_IT],
        cwd=path.parent,  # where HDF5 looks only later
        env=staged(area),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (opened.stdout, opened.stderr) == ("['this one']\n", "")
    assert path.read_bytes() == before and left(area) == names


# The link's file has another driver, and the list names none. HDF5 opens the file behind the link with that driver.
INHERITING = """
import ctypes, h5py, sys
library = next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5-" in line or "libhdf5.so" in line)
hdf5 = ctypes.CDLL(library)
fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
getattr(fapl, f"set_fapl_{sys.argv[1]}")()
whole = h5py.h5f.open(b"whole.h5", h5py.h5f.ACC_RDWR if sys.argv[2] == "r+" else h5py.h5f.ACC_RDONLY, fapl)
lapl = h5py.h5p.create(h5py.h5p.LINK_ACCESS) if sys.argv[3] == "own list" else None
for _ in range(2):
    print(list(h5py.Group(h5py.h5o.open(whole, b"link", lapl))))
default = ctypes.c_int64.in_dll(hdf5, "H5P_LST_LINK_ACCESS_ID_g")
for list_ in [default] + ([ctypes.c_int64(lapl.id)] if lapl else []):
    found, data = ctypes.c_void_p(1), ctypes.c_void_p(1)
    assert hdf5.H5Pget_elink_cb(list_, ctypes.byref(found), ctypes.byref(data)) >= 0
    assert (found.value, data.value) == (None, None)
"""


@pytest.mark.parametrize("libver", ["latest"])
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("driver", ["core", "stdio"])
@pytest.mark.parametrize("access", ["default list", "own list"])
def test_a_file_behind_a_link_of_a_file_with_another_driver_is_recovered_first(
    killed,  # noqa: F811
    area,  # noqa: F811
    mode,
    driver,
    access,
):
    path, _ = killed
    with h5py.File(path.parent / "whole.h5", "w") as whole:
        whole["link"] = h5py.ExternalLink(path.name, "/")
    opens_the_recovered_file([INHERITING, driver, mode, access], path.parent, staged(area))
    assert left(area) == []
