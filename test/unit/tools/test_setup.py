"""tools/setup fails in one clear line, and leaves what is there already alone."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def setup(*parts: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "tools" / "setup", *parts], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )


def assert_one_clear_line(result: subprocess.CompletedProcess[str], words: str) -> None:
    assert result.returncode != 0
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert words in result.stderr


def test_an_unknown_part_is_refused(tmp_path):
    assert_one_clear_line(setup("nonsense", FOREBAY_CACHE=str(tmp_path)), "there is no part 'nonsense'")


def test_a_cache_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    cache = tmp_path / "file" / "cache"
    assert_one_clear_line(setup("python", FOREBAY_CACHE=str(cache)), f"cannot create {cache}")


def test_a_lock_that_cannot_be_taken_is_told(tmp_path):
    (tmp_path / ".venv.lock").mkdir()
    assert_one_clear_line(setup("python", FOREBAY_CACHE=str(tmp_path)), f"cannot write to {tmp_path}")


def test_a_python_that_does_not_serve_is_told(tmp_path):
    result = setup("python", FOREBAY_CACHE=str(tmp_path), FOREBAY_PYTHON="/bin/false")
    assert_one_clear_line(result, "no Python of 3.11 or later")


def test_a_python_without_pytorch_is_told(tmp_path):
    result = setup("examples", FOREBAY_CACHE=str(tmp_path), FOREBAY_TORCH_PYTHON="/bin/false")
    assert_one_clear_line(result, "no Python with torch was found")


def test_the_tests_go_on_without_pytorch(tmp_path):
    result = setup("torch", FOREBAY_CACHE=str(tmp_path), FOREBAY_TORCH_PYTHON="/bin/false")
    assert result.returncode == 0
    assert "no Python with torch was found" in result.stderr and "will be skipped" in result.stdout


def test_an_hdf5_source_that_is_none_is_told_with_its_log(tmp_path):
    source = tmp_path / "source.tar.gz"
    source.write_text("nothing")
    result = setup(
        "hdf5",
        FOREBAY_CACHE=str(tmp_path / "cache"),
        FOREBAY_HDF5="cached",
        FOREBAY_HDF5_SOURCE=str(source),
        HDF5_ROOT="",
    )
    assert_one_clear_line(result, f"FOREBAY_HDF5_SOURCE={source} is no archive")
    log = Path(result.stderr.split("(log: ")[1].rstrip().rstrip(")"))
    assert "tar" in log.read_text()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_an_unreachable_mirror_is_told(tmp_path):
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine gives ordinary users no network namespace")
    if shutil.which("apt-get") is None:
        pytest.skip("this is no Debian")
    environment = os.environ | {"FOREBAY_CACHE": str(tmp_path), "FOREBAY_HDF5": "cached", "HDF5_ROOT": ""}
    result = subprocess.run(
        ["unshare", "-rn", ROOT / "tools" / "setup", "hdf5"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert_one_clear_line(result, "the package mirror gave no package list")


def test_what_is_there_already_is_left_alone():
    before = setup()
    if before.returncode != 0:
        pytest.skip("this machine was not set up by tools/setup")
    again = setup()
    assert again.returncode == 0
    assert "building" not in again.stdout
    assert "installing" not in again.stdout


def test_the_demo_imports_what_the_tests_have():
    everything = (ROOT / "python" / "requirements.txt").read_text()
    pins = re.findall(r"^\S+==\S+$", (ROOT / "python" / "requirements-demo.txt").read_text(), re.MULTILINE)
    assert len(pins) > 10
    assert [pin for pin in pins if not re.search(rf"^{re.escape(pin)}(\s|$)", everything, re.MULTILINE)] == []
