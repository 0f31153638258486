"""The connector's text and the options in it: what is said when they are unusable, and that files are safe then."""

import os
import sys

import pytest
from connector_environment import asides, bytes_staged, native, run, run_python, staged, statistics

WRITE = """
import h5py
with h5py.File("x.h5", "w") as f:
    f["x"] = range(100000)
with h5py.File("x.h5") as f:
    print(f["x"][99999])
"""


def attempt(code: str, environment, folder):
    return run([sys.executable, "-c", code], environment, folder)


def test_the_variables_of_the_build_and_the_tests_are_no_options(tmp_path):
    """tools/env sets some; none may be taken for a misspelt option, which would switch staging off."""
    named = {name: value for name, value in os.environ.items() if name.startswith("FOREBAY_")}
    assert "FOREBAY_HDF5_PREFIX" in named
    done = attempt(WRITE, {**named, **staged(tmp_path, "strict=on")}, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "99999\n", "")
    assert bytes_staged(tmp_path) > 0


@pytest.mark.parametrize(
    "info",
    [
        "",
        "size=64MiB",
        "size=64MiB;under_vol=0;under_info={}",
        "under_vol=native",
        "under_vol=0;under_info={};durability=node",
    ],
)
def test_usable_options_are_silent(info, tmp_path):
    done = attempt(WRITE, staged(tmp_path, info), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "99999\n", "")
    assert bytes_staged(tmp_path) > 0


@pytest.mark.parametrize(
    "info, variables, named",
    [
        ("size=12x", {}, ["size", "12x", "connector string"]),
        ("", {"FOREBAY_SIZE": "-1"}, ["size", "FOREBAY_SIZE"]),
        ("colour=red", {}, ["colour"]),
        ("", {"FOREBAY_COLOUR": "red"}, ["FOREBAY_COLOUR"]),
        ("under_vol=99999", {}, ["under_vol", "99999"]),
        ("under_vol=nobody", {}, ["under_vol", "nobody"]),
        ("under_vol=forebay", {}, ["under_vol", "forebay"]),
    ],
)
class TestUnusableOptions:
    def test_files_are_written_natively_after_one_warning(self, info, variables, named, tmp_path):
        done = attempt(WRITE, staged(tmp_path, info, **variables), tmp_path)
        assert (done.returncode, done.stdout) == (0, "99999\n"), done.stderr
        (warning,) = done.stderr.splitlines()
        assert warning.startswith("forebay: ")
        assert all(word in warning for word in named)
        assert bytes_staged(tmp_path) == 0
        assert asides(tmp_path) == {"bad_option": 2}

    def test_strict_refuses_every_open_and_says_why(self, info, variables, named, tmp_path):
        code = """
import h5py
for mode in "w", "r":
    try:
        h5py.File("x.h5", mode)
    except OSError as error:
        print(error)
"""
        done = attempt(code, staged(tmp_path, info, FOREBAY_STRICT="on", **variables), tmp_path)
        assert done.returncode == 0, done.stderr
        said = done.stdout.splitlines()
        assert len(said) == 2
        assert all(word in line for word in named for line in said)
        assert not (tmp_path / "x.h5").exists()


def test_staging_off_is_native_and_counted(tmp_path):
    done = attempt(WRITE, staged(tmp_path, "stage=off"), tmp_path)
    assert (done.stdout, done.stderr) == ("99999\n", "")
    assert bytes_staged(tmp_path) == 0
    assert asides(tmp_path) == {"disabled": 2}
    assert not list((tmp_path / "staging-area").iterdir())


def test_a_staging_area_that_is_not_there_is_native_after_one_warning(tmp_path):
    done = attempt(WRITE, staged(tmp_path, FOREBAY_NLS="/no/such/folder"), tmp_path)
    assert (done.returncode, done.stdout) == (0, "99999\n")
    assert len(done.stderr.splitlines()) == 1 and "/no/such/folder" in done.stderr
    assert bytes_staged(tmp_path) == 0


def test_a_staging_area_that_is_not_there_is_an_error_when_strict(tmp_path):
    done = attempt(WRITE, staged(tmp_path, "strict=on", FOREBAY_NLS="/no/such/folder"), tmp_path)
    assert done.returncode != 0
    assert "/no/such/folder" in done.stderr and "OSError" in done.stderr


def test_an_unusable_option_does_not_keep_the_library_from_starting(tmp_path):
    code = "import h5py; print(h5py.h5s.create_simple((3,)).get_simple_extent_npoints())"
    done = attempt(code, staged(tmp_path, "size=nonsense", FOREBAY_STRICT="on"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_a_process_without_files_leaves_nothing_behind(tmp_path):
    attempt("import h5py; h5py.h5s.create_simple((3,))", staged(tmp_path), tmp_path)
    assert not list((tmp_path / "staging-area").iterdir())
    assert statistics(tmp_path) == []


def test_without_the_connector_nothing_is_staged(tmp_path):
    run_python(WRITE, native(FOREBAY_NLS=str(tmp_path)), tmp_path)
    assert bytes_staged(tmp_path) == 0 and asides(tmp_path) == {}
