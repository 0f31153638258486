"""Each tutorial of docs/tutorials from the top: its files are made, its commands run, and staging was on."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import ROOT, hdf5_prefix, native
from test_cli import FOREBAY

TUTORIALS = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.name != "README.md")
BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
NEEDS_MODULES = {"h5py": ["h5py"], "pytorch": ["h5py", "torch"], "xarray": ["xarray", "netCDF4"]}
# Where one of them is not installed beside h5py, another Python may have both.
OTHER_PYTHON = {"pytorch": os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON")}


def python_for(name):
    modules = NEEDS_MODULES.get(name, [])
    if all(importlib.util.find_spec(module) for module in modules):
        return Path(sys.executable)
    other = OTHER_PYTHON.get(name)
    if other is not None:
        return Path(other)
    pytest.skip(f"Python has not all of {', '.join(modules)}")


def folders_for(name):
    """What the commands of a tutorial expect in the PATH."""
    needed = {"c": ["h5cc", "h5dump"], "mpi": ["h5pcc"]}.get(name, [])
    for program in needed:
        if not (hdf5_prefix() / "bin" / program).exists():
            pytest.skip(f"the HDF5 in use has no {program}")
    if name == "mpi" and shutil.which("mpiexec") is None:
        pytest.skip("there is no mpiexec")
    return [FOREBAY.parent, hdf5_prefix() / "bin"]


def test_all_tutorials_are_listed():
    listed = re.findall(r"\]\((\w+\.md)\)", (ROOT / "docs" / "tutorials" / "README.md").read_text())
    assert sorted(listed) == [path.name for path in TUTORIALS]


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_the_commands_of_a_tutorial_do_what_it_says(tutorial, tmp_path):
    python, folders = python_for(tutorial.stem), folders_for(tutorial.stem)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (programs / "python").chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    path = ":".join(map(str, [programs, *folders, os.environ["PATH"]]))
    environment = native(PATH=path, TMPDIR=str(tmp_path))
    if tutorial.stem in ("c", "mpi"):
        environment["LD_LIBRARY_PATH"] = str(hdf5_prefix() / "lib")
    said, ran = "", 0
    for language, title, text in BLOCK.findall(tutorial.read_text()):
        if title:
            (work / title).write_text(text)
        elif language == "sh":
            ran += 1
            done = subprocess.run(
                ["bash", "-ec", text], env=environment, cwd=work, capture_output=True, text=True, timeout=300
            )
            said += done.stdout + done.stderr
            assert done.returncode == 0, (text, done.stdout, done.stderr)
    assert ran >= 1
    if tutorial.stem != "pytorch":
        assert re.search(r"forebay: \d+ files?: (?!0 B)\S+ \w+ staged", said), said
    else:
        assert "read cache" in said, said
