"""The names of the Python package: those that docs/python.md documents, and no others."""

import builtins
import fnmatch
import re
import shutil
import tomllib
from pathlib import Path

import forebay
import pytest
from connector_environment import ROOT, native, plugin_folder, run, run_python


def test_the_path_of_the_plugin_is_the_folder_that_holds_it(tmp_path):
    assert isinstance(forebay.PLUGIN_PATH, str) and Path(forebay.PLUGIN_PATH) == plugin_folder().absolute()
    code = "import forebay; print(forebay.PLUGIN_PATH)"
    without = native(PYTHONPATH=str(ROOT / "python"), FOREBAY_BUILD_DIR="/none")
    assert run_python(code, without, tmp_path).strip() == str(ROOT / "python" / "forebay" / "lib" / "hdf5" / "plugin")


def documented_names():
    """The first column of the tables: a call, perhaps in a `with`, or several names. Those of `torch` are left out."""
    page = (ROOT / "docs" / "python.md").read_text()
    cells = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    words = [re.match(r"(?:with )?([\w.]*)", code)[1] for cell in cells for code in re.findall(r"`([^`]+)`", cell)]
    return {word for word in words if "." not in word}


def test_a_star_import_gives_the_documented_names_and_hides_no_builtin():
    names = {}
    exec("from forebay import *", names)
    del names["__builtins__"]
    assert names.keys() == set(forebay.__all__) == documented_names()
    assert not names.keys() & vars(builtins).keys()
    assert not names.keys() & {"torch", "h5py", "numpy", "np", "os", "keras"}
    assert forebay.__all__ == sorted(forebay.__all__)


OLDEST = "python3.9"  # of pyproject.toml
IMPORT_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module("forebay." + name)
    except ModuleNotFoundError as missing:
        assert missing.name in ("h5py", "numpy"), missing
from forebay import *
from forebay.option_values import texts_of
print(texts_of({"size": "1GiB", "deadline": "2025-06-30T17:00:30Z", "stage": True}))
from forebay.row_rules import RowRules, read_of
rules = RowRules()
for item in range(9):
    rules.note(item, [read_of((b"file", b"dataset"), 100, item)])
assert rules.rows_of(20) == [((b"file", b"dataset"), 20)]
"""


def test_the_package_is_imported_by_the_oldest_python_that_it_is_for(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == f">={OLDEST[len('python') :]}"
    left_out = project["tool"]["scikit-build"]["wheel"]["exclude"]
    files = (ROOT / "python" / "forebay").glob("*.py")
    names = [file.stem for file in files if not any(fnmatch.fnmatch(f"forebay/{file.name}", one) for one in left_out)]
    if shutil.which(OLDEST) is None or run([OLDEST, "-c", ""], native(), tmp_path).returncode != 0:
        pytest.skip(f"there is no {OLDEST}")
    ours = native(PYTHONPATH=str(ROOT / "python"), PYTHONDONTWRITEBYTECODE="1")
    done = run([OLDEST, "-c", IMPORT_ALL, *(name for name in names if name != "__main__")], ours, tmp_path)
    assert done.returncode == 0 and "'size': '1GiB'" in done.stdout, done.stderr
