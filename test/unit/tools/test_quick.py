"""tools/quick knows what a file may break."""

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def quick():
    loader = importlib.machinery.SourceFileLoader("quick", str(ROOT / "tools" / "quick"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("quick", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def test_rooms_above_are_those_that_see_a_room(quick):
    assert quick.rooms_above("stage") == ["stage", "file", "server"]
    assert quick.rooms_above("plan") == ["plan", "index", "drain", "stage", "file", "server"]
    assert set(quick.rooms_above("base")) >= {"base", "io", "log", "stage", "wire", "cache_vol"}
    assert quick.rooms_above("hdf5") == []


@pytest.mark.parametrize(
    "name, said",
    [("README.md", "neither in src/ nor a test"), ("src/nothing.cc", "is no file"), ("/dev/null", "is no")],
)
def test_what_it_cannot_try_is_refused(name, said):
    done = subprocess.run([ROOT / "tools" / "quick", name], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr
