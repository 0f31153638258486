"""The training example: its program knows nothing of forebay, and both sides read the same samples."""

import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
from connector_environment import ROOT, native
from pairwise import some_of

from forebay.slowfs import available

EXAMPLE = ROOT / "examples" / "training"


def test_the_training_program_imports_nothing_of_forebay():
    for name in ("train.py", "make_data.py"):
        source = (EXAMPLE / name).read_text(encoding="utf-8")
        assert "import h5py" in source
        assert "forebay" not in source


@pytest.mark.parametrize("files", [0, 3])
def test_the_data_are_the_samples_that_were_asked_for(tmp_path, files):
    command = [sys.executable, EXAMPLE / "make_data.py", "--model", "volume", "--samples", "7", "--edge", "8"]
    subprocess.run([*command, "--files", str(files), "--out", tmp_path / "out"], env=native(), check=True)
    paths = sorted((tmp_path / "out").glob("*.h5")) if files else [tmp_path / "out"]
    lengths = []
    for path in paths:
        with h5py.File(path) as file:
            records, labels = file["records_0"], file["labels"]
            assert records.shape[1:] == (8, 8, 8, 4) and records.dtype == np.int16
            assert labels.shape == (len(records), 4)
            lengths.append(len(records))
    assert sum(lengths) == 7 and max(lengths) - min(lengths) <= 1


@pytest.mark.slow
def test_a_small_comparison_reads_the_same_and_less_of_the_file_system(tmp_path):
    usable, reason = available()
    if not usable:
        pytest.skip(f"slowfs cannot be used: {reason}")
    if not os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON"):
        pytest.skip("there is no Python with PyTorch here: tools/setup examples")
    small = ["--images", "96", "--volumes", "6", "--edge", "32", "--epochs", "3"]
    ways = some_of("ways to train", ["1 process", "2 workers"])
    ended = subprocess.run(
        [sys.executable, EXAMPLE / "compare.py", *small, "--ways", *ways, "--output", tmp_path / "out"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    cases = json.loads((tmp_path / "out" / "training.json").read_text())["cases"]
    assert len(cases) == 2 * len(ways)
    for case in cases:
        assert [len(case["epochs"][side]) for side in ("native", "forebay")] == [3, 3]
        assert case["seen_bytes"]["native"] >= 3 * case["data_bytes"]
    images = [case for case in cases if case["layout"] == "image-one"]
    assert all(case["seen_bytes"]["forebay"] < case["seen_bytes"]["native"] for case in images), cases
    assert (tmp_path / "out" / "training.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(tmp_path.iterdir()) == [tmp_path / "out"], "nothing is left behind"
