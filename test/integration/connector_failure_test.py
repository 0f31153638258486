"""Data that cannot be brought home: the program is told, nothing crashes, and other files go on."""

import pytest
from connector_environment import native, run_python, staged, statistics

# The target may not grow beyond a limit that the staging area stays below. Python ignores the signal.
LIMITED = """
import h5py, numpy, os, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 20, resource.RLIM_INFINITY))
"""
SMALL_AREA = "size=32MiB"


def test_close_reports_what_could_not_be_written(tmp_path):
    code = (
        LIMITED
        + """
f = h5py.File("x.h5", "w")
f.create_dataset("x", (8 << 20,), "f8")[-1] = 1          # at 64 MiB
failures = []
for call in f.flush, f.close:
    try:
        call()
    except Exception as error:
        failures.append((type(error).__name__, str(error)))
assert failures, "nobody said that the data is lost"
assert "File too large" in failures[-1][1] or "errno = 27" in failures[-1][1], failures
with h5py.File("other.h5", "w") as g:
    g["x"] = numpy.arange(1000)
with h5py.File("other.h5") as g:
    assert g["x"][999] == 999
print("went on")
"""
    )
    assert run_python(code, staged(tmp_path, SMALL_AREA), tmp_path) == "went on\n"
    errors = {entry["path"].rsplit("/", 1)[1]: entry["error"] for entry in statistics(tmp_path)}
    assert errors["other.h5"] == 0
    assert errors.get("x.h5", 27) == 27


@pytest.mark.parametrize("last", ["FILE", "GROUP", "DATASET", "DATATYPE", "ATTR"])
def test_after_a_failed_close_the_objects_of_other_files_can_be_counted(last, tmp_path):
    """The identifier stays, without an object. HDF5 looks at all identifiers to find the open objects of a file."""
    code = (
        LIMITED
        + f"""
from h5py import h5a, h5f, h5g, h5i, h5s, h5t
f = h5f.create(b"x.h5")
data = h5py.File(f).create_dataset("x", (8 << 20,), "f8")
data[-1] = 1          # at 64 MiB
def commit():
    type = h5t.NATIVE_INT32.copy()
    type.commit(f, b"type")
    return type
last = dict(
    FILE=lambda: f,
    GROUP=lambda: h5g.create(f, b"group"),
    DATASET=lambda: data.id,
    DATATYPE=commit,
    ATTR=lambda: h5a.create(data.id, b"a", h5t.NATIVE_INT32, h5s.create(h5s.SCALAR)),
)["{last}"]()
last_failed = False
for each in [one for one in (f, data.id) if one is not last] + [last]:
    each.locked = True    # h5py does not close it by itself
    try:
        h5i.dec_ref(each)
    except Exception:
        last_failed = each is last
assert last_failed and last.valid
with h5py.File("other.h5", "w") as g:
    g["x"] = numpy.arange(1000)
    for kind in "{last}", "FILE", "GROUP", "DATASET", "DATATYPE", "ATTR":
        print(kind, h5f.get_obj_count(g.id, getattr(h5f, "OBJ_" + kind)))
"""
    )
    counted = run_python(code, staged(tmp_path, SMALL_AREA), tmp_path).splitlines()
    assert sorted(set(counted)) == ["ATTR 0", "DATASET 0", "DATATYPE 0", "FILE 1", "GROUP 0"]


def test_a_failure_at_exit_is_said_on_standard_error(tmp_path):
    import subprocess
    import sys

    code = (
        LIMITED
        + """
fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
f = h5py.File(h5py.h5f.create(b"x.h5", fapl=fapl))
f.create_dataset("x", (8 << 20,), "f8")[-1] = 1
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=staged(tmp_path, SMALL_AREA), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode >= 0, done.stderr  # ended by itself, not by a signal
    assert "x.h5" in done.stderr and "File too large" in done.stderr


def test_natively_the_same_limit_is_an_error_too(tmp_path):
    code = (
        LIMITED
        + """
try:
    with h5py.File("x.h5", "w") as f:
        f.create_dataset("x", data=numpy.ones(8 << 20))
except Exception:
    print("told")
"""
    )
    assert run_python(code, native(), tmp_path) == "told\n"
    assert run_python(code, staged(tmp_path, SMALL_AREA), tmp_path / "through") == "told\n"
