"""A file that another driver than forebay's makes or empties is new: no bytes of a dead process come back into it."""

import subprocess
import sys

import pytest
from test_recover import area, killed, left, libver, recover, staged, without_marks  # noqa: F401 (fixtures)

pytestmark = pytest.mark.slow

h5py = pytest.importorskip("h5py")

ANEW = """
import h5py, sys
with h5py.File(sys.argv[1], "w", driver=sys.argv[2], **eval(sys.argv[3])) as f:
    f["new"] = range(1000)
"""
AGAIN = """
import h5py, sys
with h5py.File(sys.argv[1], "r+") as f:
    print(list(f), f["new"][:].sum())
"""


def run(code, area, *arguments):  # noqa: F811
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], env=staged(area), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@pytest.mark.parametrize("libver", ["latest"])
@pytest.mark.parametrize("driver", ["core", "stdio"])
@pytest.mark.parametrize("size", ["as it was", "empty"])
def test_a_file_that_another_driver_empties_loses_the_log_of_the_dead_process(killed, area, driver, size):  # noqa: F811
    path, _ = killed
    if size == "empty":
        path.write_bytes(b"")
    run(ANEW, area, path, driver, {})
    assert left(area) == []
    assert run(AGAIN, area, path) == "['new'] 499500\n"


@pytest.mark.parametrize("libver", ["latest"])
def test_a_file_that_is_made_in_memory_only_leaves_the_one_of_its_name_alone(killed, area):  # noqa: F811
    path, expected = killed
    before, names = path.read_bytes(), left(area)
    run(ANEW, area, path, "core", {"backing_store": False})
    assert path.read_bytes() == before and left(area) == names
    status, report = recover(area)
    assert status == 0 and [file["outcome"] for file in report["files"]] == ["recovered"]
    assert without_marks(path) == without_marks(expected)
