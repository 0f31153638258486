"""The command `forebay` in a shell that is set up for Cache VOL."""

import json
import os
import sys
from pathlib import Path

import pytest
from cache_vol_environment import cache_vol_plugin_folder, configuration, with_cache_vol
from connector_environment import ROOT, bytes_staged, run

FOREBAY = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release")) / "bin" / "forebay"
WRITE = "import h5py; h5py.File('data.h5', 'w').create_dataset('d', data=range(100_000))"


def examined(environment: dict[str, str], folder: Path) -> dict:
    return json.loads(run([FOREBAY, "doctor", "--json"], environment, folder).stdout)


def test_doctor_finds_the_plugin_and_shows_what_the_configuration_comes_to(tmp_path: Path) -> None:
    config = configuration(tmp_path, HDF5_CACHE_FIRST="1", HDF5_CACHE_SECOND="2")
    report = examined(with_cache_vol(tmp_path, f"config={config};under_vol=512"), tmp_path)
    notes = " ".join(report["notes"])
    assert all(word in notes for word in ("HDF5_CACHE_FIRST", "HDF5_CACHE_SECOND", "asynchrony"))
    assert report["cache_vol_plugin"] == str(cache_vol_plugin_folder() / "libh5cache_vol.so")
    assert [problem for problem in report["problems"] if "HDF5_PLUGIN_PATH" in problem or "HDF5_VOL" in problem] == []
    assert report["staging"]["nls"] == str(tmp_path / "local-storage")
    assert report["staging"]["source"] == f"default, by {config}:1"


@pytest.mark.parametrize("what", ["another", "none"])
def test_doctor_tells_of_another_cache_vol(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "cache-vol"
    folder.mkdir()
    if what == "another":
        (folder / "libh5cache_vol.so").touch()
    environment = {**with_cache_vol(tmp_path), "HDF5_PLUGIN_PATH": str(folder)}
    problems = " ".join(examined(environment, tmp_path)["problems"])
    assert ("HDF5 finds the Cache VOL in" if what == "another" else "do not find the plugin") in problems


def test_run_keeps_the_connector_and_finds_its_folder(tmp_path: Path) -> None:
    environment = with_cache_vol(tmp_path, HDF5_CACHE_WR="yes")
    del environment["HDF5_PLUGIN_PATH"]
    done = run([FOREBAY, "run", "--", sys.executable, "-c", WRITE], environment, tmp_path)
    assert done.returncode == 0, done.stderr
    assert bytes_staged(tmp_path) > 0
    assert list((tmp_path / "local-storage").iterdir())
