"""Faults that fresh seeds find: which are this commit's, what is kept of older ones, and how long they may stay."""

import importlib.util
import sys
from datetime import date
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DAYS_MAX, ENTRIES_MAX = 3, 4


@pytest.fixture
def tool(monkeypatch, tmp_path):
    loader = SourceFileLoader("fresh_seeds", str(ROOT / "tools" / "fresh-seeds"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fresh_seeds", loader))
    loader.exec_module(module)
    here, base = tmp_path / "here", tmp_path / "base"
    here.mkdir(), base.mkdir()
    monkeypatch.setattr(module, "ROOT", here)
    monkeypatch.setattr(module, "ENTRIES", here / "seeds")
    monkeypatch.setattr(module, "RESULTS", here / "results")
    monkeypatch.setattr(module, "build_base", lambda commit: base)
    monkeypatch.setattr(module, "failed_python", lambda seed: [])
    # A test fails in a tree that has a file of its name, every time or every second time.
    script = (
        '[ -e "$1" ] || exit 0\n'
        'n=$(cat "$1.runs" 2>/dev/null || echo 0)\n'
        'echo $((n + 1)) > "$1.runs"\n'
        'echo "it failed in run $n"\n'
        '[ $((n % $(cat "$1"))) -ne 0 ]\n'
    )
    monkeypatch.setattr(module, "command_of", lambda name, root: ["sh", "-c", script, "sh", str(root / name)])
    monkeypatch.setattr(sys, "argv", ["fresh-seeds", "--seed", "7"])
    return module


@pytest.mark.parametrize("every", [1, 4])
def test_a_fault_of_this_commit_alone_fails(tool, monkeypatch, capsys, every):
    monkeypatch.setattr(tool, "failed_compiled", lambda seed: ["fault"])
    (tool.ROOT / "fault").write_text(str(every))
    assert tool.main() == 1
    told = capsys.readouterr().out
    assert f"fault: {20 // every} of 20 fail here, 0 of 20 on HEAD~1" in told
    assert "it failed in run 0" in told
    assert told.splitlines()[-1].endswith("1 faults of this commit, fault; 0 older")
    assert not tool.ENTRIES.exists()


def test_an_older_fault_is_kept_and_named_in_the_last_line(tool, monkeypatch, capsys):
    monkeypatch.setattr(tool, "failed_compiled", lambda seed: ["fault"])
    (tool.ROOT / "fault").write_text("2")
    (tool.build_base("") / "fault").write_text("1")
    assert tool.main() == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("0 faults of this commit; 1 older, fault")
    kept = (tool.ENTRIES / "fault.txt").read_text()
    assert kept.startswith(
        f"test: fault\nseed: 7\nfound: {date.today().isoformat()}\nfailed: 10 of 20, and 20 of 20 on"
    )
    assert "it failed in run 0" in kept


def test_what_fails_once_and_never_again_is_kept_too(tool, monkeypatch):
    monkeypatch.setattr(tool, "failed_compiled", lambda seed: ["fault"])
    assert tool.main() == 0
    assert "failed: 0 of 20, and 0 of 20 on" in (tool.ENTRIES / "fault.txt").read_text()


def test_no_fault_leaves_nothing(tool, monkeypatch):
    monkeypatch.setattr(tool, "failed_compiled", lambda seed: [])
    assert tool.main() == 0
    assert not tool.ENTRIES.exists()


def test_faults_that_seeds_have_found_are_few_and_young():
    entries = sorted((ROOT / "test" / "seeds").glob("*.txt"))
    assert len(entries) <= ENTRIES_MAX, f"too many faults wait: {[entry.name for entry in entries]}"
    for entry in entries:
        found = next(line for line in entry.read_text().splitlines() if line.startswith("found: "))
        age = (date.today() - date.fromisoformat(found.removeprefix("found: "))).days
        assert age <= DAYS_MAX, f"{entry.name} has waited for {age} days: mend it, then make its seed a fixed case"
