"""For all Python tests: the seed of random tests, and a registry of staging areas of each test's own."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "integration"))

from seeds import SEED  # noqa: E402

# For what is run once for several tests. It goes with the process.
_outside_of_tests = tempfile.TemporaryDirectory(prefix="forebay-registry-")
os.environ["FOREBAY_REGISTRY"] = _outside_of_tests.name


def pytest_report_header():
    return f"random tests: FOREBAY_SEED={SEED}"


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"FOREBAY_SEED={SEED} repeats the random tests of this run")


@pytest.fixture(autouse=True)
def registry(tmp_path_factory, monkeypatch):
    """No command sees what another test has staged."""
    folder = tmp_path_factory.mktemp("registry")
    monkeypatch.setenv("FOREBAY_REGISTRY", str(folder))
    return folder
