"""evaluation/rivals: what cannot run is skipped by name, wrong bytes are counted and make it fail."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EVALUATION = Path(__file__).resolve().parents[3] / "evaluation"
sys.path.insert(0, str(EVALUATION))

from rivals import comparison, contenders  # noqa: E402

SIZES = ["--steps", "2", "--arrays", "2", "--mib", "1"]


def program(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, comparison.PROGRAM, *words, *SIZES]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("way", ["one-file", "files", "copy-back"])
def test_wrong_bytes_are_counted(tmp_path, way):
    target, memory = tmp_path / "target", tmp_path / "memory"
    target.mkdir()
    memory.mkdir()
    done = program(way, "--target", target, "--memory", memory, "--compute", "0")
    assert done.returncode == 0, done.stderr
    assert json.loads(program(way, "--target", target, "--verify").stdout) == {"wrong_bytes": 0}
    damaged = sorted(target.iterdir())[0]
    with damaged.open("r+b") as file:
        file.seek(-1000, 2)
        before = file.read(8)
        file.seek(-1000, 2)
        file.write(bytes(byte ^ 1 for byte in before))
    assert json.loads(program(way, "--target", target, "--verify").stdout) == {"wrong_bytes": 8}
    damaged.unlink()
    assert json.loads(program(way, "--target", target, "--verify").stdout)["wrong_bytes"] >= 2 << 20


def outcome(name: str, **facts) -> comparison.Outcome:
    contender = next(one for one in contenders.CONTENDERS if one.name == name)
    ran = {"waited_s": [1.0], "total_s": [2.0], "own_bytes": [1 << 20], "node_bytes": [0]}
    return comparison.Outcome(contender, **(facts if facts.get("skipped") else ran | facts))


def test_a_rival_that_is_not_installed_is_skipped_by_name(monkeypatch, tmp_path):
    monkeypatch.delenv(contenders.RIVALS_PYTHON, raising=False)
    contender = next(one for one in contenders.CONTENDERS if one.name == "ADIOS2 BP5")
    with pytest.raises(contenders.Unavailable, match="tools/setup rivals"):
        contenders.python_of(contender)


def test_a_table_has_ratios_and_names_the_skipped(capsys):
    outcomes = [
        outcome("native h5py, one file"),
        outcome("forebay, one file", waited_s=[0.25]),
        outcome("ADIOS2 BP5", skipped="not installed: tools/setup rivals"),
    ]
    told = comparison.summary(outcomes, comparison.Shape(), 1)
    assert told["rivals"][1]["waited_of_native"] == 0.25
    assert not comparison.is_bad(told)
    comparison.print_table(told)
    shown = capsys.readouterr().out
    assert "| ADIOS2 BP5 | skipped: not installed: tools/setup rivals |" in shown
    assert told["by_hand"]["note"].startswith("Measured by hand") and told["by_hand"]["note"] in shown


@pytest.mark.parametrize(
    "bad", [outcome("forebay, one file", wrong_bytes=1), outcome("forebay, one file", skipped="status 1: no room")]
)
def test_wrong_bytes_and_a_failure_of_forebay_make_the_run_fail(bad):
    assert comparison.is_bad(comparison.summary([outcome("native h5py, one file"), bad], comparison.Shape(), 1))
