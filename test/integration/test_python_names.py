"""The names of the Python package: those that docs/python.md documents, and no others."""

import builtins
import re
from pathlib import Path

import forebay
from connector_environment import ROOT, native, plugin_folder, run_python


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
