"""Pauses from Python: files that are opened meanwhile stay native."""

from pathlib import Path

import pytest
from connector_environment import run_python, statistics
from test_python_api import WRITE, enabled, passes, python  # noqa: F401  # a fixture

pytestmark = pytest.mark.slow

h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")


@pytest.mark.check
def test_files_that_are_opened_in_a_pause_stay_native(python, tmp_path):  # noqa: F811
    code = """
import os, numpy as np, forebay
forebay.enable(os.environ["AREA"])
with forebay.paused():   # imports h5py
    import h5py
    forebay.pause()
    first = h5py.File("first.h5", "w")
    forebay.resume()
    h5py.File("second.h5", "w").close()
first["x"] = np.arange(100000)
first.close()
try: forebay.resume()
except forebay.ForebayError as error: assert "not paused" in str(error)
else: raise AssertionError
try:
    with forebay.paused(): raise KeyError
except KeyError: pass
"""
    passes(python, code + WRITE, enabled(tmp_path), tmp_path)
    told = {Path(entry["path"]).name: (entry["staged"] > 0, entry["reasons"]) for entry in statistics(tmp_path)}
    assert told == {"first.h5": (False, ["paused"]), "second.h5": (False, ["paused"]), "a.h5": (True, [])}
    with h5py.File(tmp_path / "first.h5") as f:
        assert np.array_equal(f["x"][()], np.arange(100000))


def test_pauses_of_several_threads_are_counted(tmp_path):
    code = """
import os, threading, forebay, h5py
forebay.enable(os.environ["AREA"])
def work():
    for turn in range(100):
        with forebay.paused(): pass
    forebay.pause()
threads = [threading.Thread(target=work) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for number in range(8): forebay.resume()
try: forebay.resume()
except forebay.ForebayError: print("counted")
"""
    assert run_python(code, enabled(tmp_path), tmp_path) == "counted\n"
