"""tools/run-tests counts what CTest and pytest report, and takes nothing that did not run for a success."""

import importlib.machinery
import importlib.util
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def runner():
    loader = importlib.machinery.SourceFileLoader("run_tests", str(ROOT / "tools" / "run-tests"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    sys.modules["run_tests"] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    yield module
    del sys.modules["run_tests"]


@pytest.fixture
def read(runner, tmp_path):
    def read(*cases: str):
        path = tmp_path / "result.xml"
        path.write_text(f'<?xml version="1.0"?><testsuite name="x">{"".join(cases)}</testsuite>')
        return runner.read_junit(path, "stage: ")

    return read


PASSED = '<testcase name="a" classname="a" status="run"><system-out>fine</system-out></testcase>'


def test_ctest_results_are_counted(read):
    failed = '<testcase name="b" classname="b" status="fail"><failure message=""/></testcase>'
    outcome = read(PASSED, failed)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, ["stage: b"], [])
    assert str(outcome) == "1 passed, 1 failed, 0 skipped"


def test_a_googletest_skip_gives_its_own_reason(read):
    outcome = read(
        '<testcase name="a" classname="a" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
        "<system-out>[ RUN      ] a.skips\n/x/t.cc:4: Skipped\nthere is no fuse here\n[  SKIPPED ] a.skips (0 ms)</system-out></testcase>"
    )
    assert outcome.skipped == [("stage: a", "there is no fuse here")]


def test_a_skip_by_return_code_gives_the_line_that_speaks_of_it(read):
    outcome = read(
        '<testcase name="a" classname="a" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
        "<system-out>starting\nskipped: no fuse</system-out></testcase>"
    )
    assert outcome.skipped == [("stage: a", "skipped: no fuse")]


def test_a_disabled_test_is_skipped(read):
    assert read('<testcase name="a" classname="a" status="disabled"/>').skipped == [("stage: a", "disabled")]


def test_a_test_whose_program_is_missing_failed(read):
    outcome = read('<testcase name="a" classname="a" status="notrun"><skipped message="Unable to find executable"/></testcase>')
    assert outcome.failed == ["stage: a (Unable to find executable)"]
    assert outcome.skipped == []


def test_pytest_results_are_counted(read):
    outcome = read(
        '<testcase classname="test.a" name="one"/>',
        '<testcase classname="test.a" name="two"><failure message="no">no</failure></testcase>',
        '<testcase classname="test.a" name="three"><error message="broke">broke</error></testcase>',
        '<testcase classname="test.a" name="four"><skipped type="pytest.skip" message="no mpiexec">x</skipped></testcase>',
    )
    assert outcome.passed == 1
    assert outcome.failed == ["stage: test.a::two", "stage: test.a::three"]
    assert outcome.skipped == [("stage: test.a::four", "no mpiexec")]


def test_a_torn_result_breaks_the_stage(runner, tmp_path):
    (tmp_path / "result.xml").write_text("<testsuite><testcase")
    with pytest.raises(runner.StageBroke, match="no readable result"):
        runner.read_junit(tmp_path / "result.xml", "")


def ends_soon(pid):
    """Whether a process that need not be a child is dead, or dies within seconds."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 10)[0])
    finally:
        os.close(process)


def test_a_command_without_end_is_ended_with_its_children(runner, tmp_path):
    pid_file = tmp_path / "pid"
    with pytest.raises(runner.StageBroke, match="no end after 1 s"):
        runner.run(["sh", "-c", f"sleep 600 & echo $! > {pid_file}; wait"], tmp_path / "log", 1)
    assert ends_soon(int(pid_file.read_text()))


def test_the_first_error_is_found_in_a_log(runner, tmp_path):
    log = tmp_path / "log"
    log.write_text("$ cmake --build\nall is well\nsrc/a.cc:3: error: no such type\nninja: stopped\n")
    assert runner.first_error(log) == "src/a.cc:3: error: no such type"
    log.write_text("$ cmake\nCMake Error at CMakeLists.txt:3 (find_package):\n  Could not find it.\n")
    assert runner.first_error(log) == "CMake Error at CMakeLists.txt:3 (find_package): Could not find it."


def test_without_a_clang_fuzzing_is_skipped_by_name(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = runner.fuzz_stage("fuzz", 1)
    assert (outcome.passed, outcome.failed) == (0, [])
    ((name, reason),) = outcome.skipped
    assert name == "fuzz: log_reader_fuzz" and "clang++" in reason


def test_an_unknown_stage_is_refused():
    result = subprocess.run([ROOT / "tools" / "run-tests", "nonsense"], capture_output=True, text=True, timeout=60)
    assert result.returncode != 0
    assert "there is no stage 'nonsense'" in result.stderr


def test_stages_are_listed():
    result = subprocess.run([ROOT / "tools" / "run-tests", "--list"], capture_output=True, text=True, timeout=60)
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["style", "release", "asan", "tsan", "fuzz", "python"]
