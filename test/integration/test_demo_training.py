"""The program of the demo's second act trains, and is an ordinary HDF5 program that reads."""

import json
import subprocess
import sys
import zlib

import h5py
import numpy as np

from forebay import training
from forebay.program import TRAINING, native_environment
from forebay.samples import make_samples


def test_the_training_lowers_the_loss():
    random = np.random.default_rng(2)
    labels = np.arange(64) % 2
    images = (random.integers(0, 100, (64, 8, 8, 3)) + 100 * labels[:, None, None, None]).astype(np.uint8)
    weights = np.zeros(8 * 8 * 3, np.float32)
    for _ in range(2000):
        training.train(images, labels, weights)
    scores = (images.reshape(64, -1) / 127.5 - 1) @ weights
    assert scores[labels == 1].min() > scores[labels == 0].max()


def test_the_program_imports_h5py_and_nothing_of_forebay():
    source = TRAINING.read_text(encoding="utf-8")
    assert "import h5py" in source
    assert "forebay" not in source


def test_the_program_reads_each_image_once_in_an_epoch_and_reports_every_phase(tmp_path):
    file = tmp_path / "samples.h5"
    make_samples(file, 10, (16, 16, 3))
    words = ["--data", file, "--epochs", "2", "--batch", "4", "--seed", "3"]
    command = [sys.executable, str(TRAINING), *map(str, words)]
    ended = subprocess.run(command, env=native_environment(), capture_output=True, text=True, check=True, timeout=120)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]

    random, checksum = np.random.default_rng(3), 0
    with h5py.File(file) as f:
        images = f["images"][()]
        assert f["labels"].shape == (10,)
    for _ in range(2):
        order = random.permutation(10)
        for begin in range(0, 10, 4):
            checksum = zlib.crc32(images[order[begin : begin + 4]].tobytes(), checksum)
    assert lines[-1] == {"checksum": checksum}

    phases = [line for line in lines if "phase" in line]
    assert [phase["phase"] for phase in phases] == ["open", *["read", "compute"] * 6, "close"]
    assert [phase["epoch"] for phase in phases] == [0, *[0] * 6, *[1] * 6, 2]
    for earlier, later in zip(phases, phases[1:], strict=False):
        assert earlier["begin_ns"] <= earlier["end_ns"] <= later["begin_ns"]
