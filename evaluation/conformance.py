"""Table 1 of the HDF5 VOL Status Report: which tests of HDF5's interface pass, by version, MPI and mode.

The tests are those of test/conformance. They run HDF5's own test programs, and programs that make every call, natively
and with forebay, and compare output and files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cases import Setting
from cells import Outcome, Section

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 1800
HEADINGS = ["HDF5, MPI, mode", "passed", "failed", "skipped"]
# Mode: the tests, below test/.
MODES: dict[str, list[str]] = {
    "alone": ["conformance/hdf5/test_hdf5_suites.py", "-k", "not cache"],
    "read cache": ["conformance/hdf5/test_hdf5_suites.py", "-k", "cache"],
    "several ranks": ["conformance/parallel/test_parallel_suites.py", "-k", "not cache"],
    "several ranks, read cache": ["conformance/parallel/test_parallel_suites.py", "-k", "cache"],
    "server": ["conformance/parallel/test_parallel_server.py"],
    "cache_ext": ["conformance/cache_vol/test_cache_vol_calls.py", "conformance/cache_vol/test_cache_vol_parallel.py"],
    "async": ["conformance/async/test_async_calls.py", "conformance/async_vol/test_async_vol_calls.py"],
    "h5py": ["conformance/hdf5/test_h5py_suite.py"],
    "PyTables": ["conformance/hdf5/test_pytables_suite.py"],
}
QUICK = {"alone": ["conformance/hdf5/test_hdf5_suites.py", "-k", "api_tests_give"]}


@dataclass(frozen=True)
class Counts:
    """The outcome of a selection of tests."""

    passed: int
    failed: Sequence[str]
    skipped: int


def conformance(setting: Setting, quick: bool) -> Section:
    """Runs the tests with each build folder that has an HDF5 of its own, this build first."""
    section = Section(
        "conformance",
        "Tests of HDF5's interface",
        "After table 1 of the HDF5 VOL Status Report. A line's tests run natively and with forebay, and compare output "
        "and files; they prove by counters that forebay was on.",
    )
    table: list[Sequence[str]] = [HEADINGS]
    for build in [Path(os.environ["FOREBAY_BUILD_DIR"])] if quick else builds():
        for mode, selection in (QUICK if quick else MODES).items():
            setting.progress(f"conformance: {build.name}, {mode}")
            counts = run_tests(build, selection)
            name = f"{facts_of(build)}, {mode}"
            table.append([name, str(counts.passed), str(len(counts.failed)), str(counts.skipped)])
            failures = [f"failed: {', '.join(counts.failed)}"] if counts.failed else []
            section.outcomes.append(Outcome(name, failures=failures, proof=f"{counts.passed} tests passed"))
    section.tables.append(table)
    return section


def builds() -> list[Path]:
    """Returns this build folder, and those beside it that have the plugin and name their HDF5."""
    mine = Path(os.environ["FOREBAY_BUILD_DIR"])
    others = [path.parent for path in mine.parent.glob("*/hdf5.env") if any((path.parent / "plugins").glob("*.so"))]
    sanitized = ("asan", "tsan", "guest", "fuzz")
    return [mine, *(path for path in sorted(others) if path != mine and path.name not in sanitized)]


def facts_of(build: Path) -> str:
    """Returns version and MPI of the HDF5 of a build folder."""
    lines = (build / "hdf5.env").read_text(encoding="utf-8").splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    found = [values.get(f"FOREBAY_HDF5_{name}", "").strip("'\"") for name in ("VERSION", "MPI")]
    return f"{found[0] or 'HDF5'}, {found[1] or 'serial'}"


def run_tests(build: Path, selection: Sequence[str]) -> Counts:
    """Runs tests below test/ with a build. Tests that cannot be collected count as one that failed."""
    with tempfile.TemporaryDirectory(prefix="forebay-conformance-") as folder:
        report = Path(folder) / "report.xml"
        words = [str(ROOT / "test" / word) if word.endswith(".py") else word for word in selection]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", f"{folder}/t"]
        try:
            subprocess.run(
                [str(ROOT / "tools" / "env"), *command, f"--junitxml={report}", *words],
                env=os.environ | {"FOREBAY_BUILD_DIR": str(build)},
                cwd=ROOT,
                capture_output=True,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return Counts(0, [f"the tests did not end in {TIMEOUT_S} s"], 0)
        return counts_in(report)


def counts_in(report: Path) -> Counts:
    """Reads pytest's report."""
    if not report.exists():
        return Counts(0, ["the tests did not start"], 0)
    tests = list(ElementTree.parse(report).iter("testcase"))
    failed = [one.get("name", "") for one in tests if one.find("failure") is not None or one.find("error") is not None]
    skipped = sum(one.find("skipped") is not None for one in tests)
    if not tests:
        failed = ["no test was found"]
    return Counts(max(0, len(tests) - len(failed) - skipped), failed, skipped)
