"""The Python package: docstrings by the rules of ruff.toml, no syntax that its oldest Python lacks, types by mypy."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def finds_nothing(*words):
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_docstrings_of_this_source_tree_follow_the_rules():
    finds_nothing("ruff", "check", "--no-cache", "--quiet", "python/forebay")


def test_types_of_this_source_tree_hold(tmp_path):
    finds_nothing("mypy", f"--cache-dir={tmp_path}")
