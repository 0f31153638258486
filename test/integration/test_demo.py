"""The demo from end to end, small: it passes when forebay stages, and fails loudly when it does not."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TIME_LIMIT_S = 300
SMALL = ("--size", "32", "--steps", "3", "--samples", "96", "--epochs", "4")
SAMPLES_BYTES = 96 * 224 * 224 * 3
PYTHON = Path(__file__).resolve().parents[2] / "python"


def run_demo(output, *options, **environment):
    # HDF5_VOL_CONNECTOR names a connector that does not exist: what the demo runs natively must not see it.
    inherited = {"PYTHONPATH": str(PYTHON), "HDF5_VOL_CONNECTOR": "none_such", "TMPDIR": str(output.parent)}
    return subprocess.run(
        [sys.executable, "-m", "forebay.demo", *SMALL, "--output", str(output), *options],
        env={**os.environ, **inherited, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )


def check_picture(path):
    png = path.read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 1000
    assert height > 500


def test_a_small_demo_stages_and_yields_equal_files_figures_and_time_lines(tmp_path):
    output = tmp_path / "out"
    ended = run_demo(output)
    assert ended.returncode == 0, ended.stdout + ended.stderr

    result = json.loads((output / "result.json").read_text())
    assert result["passed"]
    assert result["equal"]
    assert result["datasets"] == 6
    assert result["value_bytes"] == 3 * 2 * 8 * 32**3
    assert result["h5diff"]["equal"] is not False
    counters = result["forebay"]["counters"]
    assert counters["staged"] > 0
    assert counters["pending"] == 0
    assert counters["staged"] == counters["drained"] + counters["superseded"]
    written = sum(write["bytes"] for write in result["forebay"]["target_writes"])
    assert counters["drained"] <= written <= counters["staged"]  # more: superseded while it was being written
    if result["forebay"]["file_system"] is not None:
        assert result["forebay"]["file_system"]["bytes"] == written + counters["through"]
    for run in ("native", "forebay"):
        figures = result[run]
        parts = sum(figures[f"{phase}_s"] for phase in ("open", "compute", "write", "flush", "close"))
        assert 0 < parts <= figures["total_s"] <= figures["process_s"]

    check_picture(output / "timeline.png")
    assert "equal" in ended.stdout
    assert sorted(tmp_path.iterdir()) == [output]  # nothing is left behind

    if result["forebay"]["file_system"] is None:
        assert "reading" not in result
        return
    reading = result["reading"]
    native, cached = reading["native"], reading["forebay"]
    assert reading["data_bytes"] == SAMPLES_BYTES
    assert native["checksum"] == cached["checksum"] is not None
    assert native["file_system"]["bytes"] >= 4 * SAMPLES_BYTES
    assert cached["cache"]["hit_bytes"] > SAMPLES_BYTES
    assert cached["file_system"]["bytes"] < 3 * SAMPLES_BYTES
    for run in (native, cached):
        assert len(run["epochs"]) == 4
        assert 0 < run["first_batch_s"] < run["total_s"]
        assert sum(epoch["read_s"] + epoch["compute_s"] for epoch in run["epochs"]) <= run["total_s"]
    check_picture(output / "reading.png")
    assert "epoch 4" in ended.stdout


def test_the_demo_fails_when_forebay_stages_nothing(tmp_path):
    no_directory = tmp_path / "file"  # a staging area for nobody, the superuser included
    no_directory.touch()
    ended = run_demo(tmp_path / "out", FOREBAY_NLS=str(no_directory))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "FAILED" in ended.stdout


def test_the_demo_fails_when_there_is_no_plugin(tmp_path):
    ended = run_demo(tmp_path / "out", FOREBAY_BUILD_DIR=str(tmp_path))
    assert ended.returncode == 1
    assert "make build" in " ".join(ended.stdout.split())


def test_kept_files_are_named(tmp_path):
    ended = run_demo(tmp_path / "out", "--keep")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (kept,) = tmp_path.glob("forebay-demo-*")
    assert sorted(file.name for file in (kept / "files").iterdir()) in (
        ["forebay.h5", "native.h5", "samples.h5"],
        ["forebay.h5", "native.h5"],  # without a slow file system
    )
    assert kept.name in "".join(ended.stdout.split())
