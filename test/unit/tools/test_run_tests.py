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
        "<system-out>[ RUN      ] a.skips\n/x/t.cc:4: Skipped\nthere is no fuse here\n"
        "[  SKIPPED ] a.skips (0 ms)</system-out></testcase>"
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
    outcome = read(
        '<testcase name="a" classname="a" status="notrun"><skipped message="Unable to find executable"/></testcase>'
    )
    assert outcome.failed == ["stage: a (Unable to find executable)"]
    assert outcome.skipped == []


def test_pytest_results_are_counted(read):
    outcome = read(
        '<testcase classname="test.a" name="one"/>',
        '<testcase classname="test.a" name="two"><failure message="no">no</failure></testcase>',
        '<testcase classname="test.a" name="three"><error message="broke">broke</error></testcase>',
        '<testcase classname="test.a" name="four">'
        '<skipped type="pytest.skip" message="no mpiexec">x</skipped></testcase>',
    )
    assert outcome.passed == 1
    assert outcome.failed == ["stage: test.a::two", "stage: test.a::three"]
    assert outcome.skipped == [("stage: test.a::four", "no mpiexec")]


def test_durations_are_kept_the_longest_first(runner, read, tmp_path):
    outcome = read(
        '<testcase name="a" classname="x" time="0.04"/>', '<testcase name="b c" classname="x" time="12.34"/>'
    )
    outcome.add(read('<testcase name="d" classname="x" time="71.5"/>'))
    kept = tmp_path / "durations.txt"
    assert runner.read_durations(kept) == {}
    runner.write_durations(kept, outcome.took)
    assert kept.read_text().splitlines() == ["71.5 stage: x::d", "12.3 stage: x::b c"]
    assert runner.read_durations(kept) == {"stage: x::d": 71.5, "stage: x::b c": 12.3}


@pytest.mark.parametrize("complete", [False, True])
def test_a_skip_that_is_not_listed_fails_a_complete_run(runner, tmp_path, monkeypatch, capsys, complete):
    known = tmp_path / "skips.txt"
    known.write_text("# names | reasons\ntsan: * | this sanitizer does not *\n")
    monkeypatch.setattr(runner, "SKIPS", known)
    monkeypatch.setattr(runner, "DURATIONS", tmp_path / "durations.txt")
    report = runner.Report(complete)
    report.total = runner.Outcome(
        passed=3, skipped=[("tsan: a.b", "this sanitizer does not fork"), ("python: c", "there is no FUSE")]
    )
    assert report.end([], "") == (1 if complete else 0)
    shown = capsys.readouterr().out
    assert ("python: c (skipped, which test/skips.txt does not allow)" in shown) == complete
    assert ("1 of these run on a machine that has what they need" in shown) == (not complete)
    assert shown.splitlines()[-1] == f"3 passed, {1 if complete else 0} failed, 2 skipped"


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


PYTEST_LOG = """\
test/a/test_x.py::test_one PASSED                     [ 10%]
test/a/test_x.py::test_two[a b-1] FAILED              [ 20%]
test/a/test_x.py::test_three SKIPPED (no mpiexec)     [ 30%]
test/a/test_x.py::test_four """
CTEST_LOG = """\
      Start  1: unit.a.one
 1/3 Test  #1: unit.a.one .......................   Passed    0.02 sec
      Start  2: unit.a.two
 2/3 Test  #2: unit.a.two .......................***Exception: SegFault  0.02 sec
      Start  3: unit.a.three
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (PYTEST_LOG, (1, ["s: test/a/test_x.py::test_two[a b-1]"], 1, ["test/a/test_x.py::test_four"])),
        (CTEST_LOG, (1, ["s: unit.a.two"], 0, ["unit.a.three"])),
    ],
)
def test_what_had_ended_before_a_run_broke_off_is_counted(runner, log, expected):
    outcome, begun = runner.read_broken_log(log, "s: ")
    assert (outcome.passed, outcome.failed, len(outcome.skipped), begun) == expected


def test_a_pytest_that_is_killed_leaves_its_results(runner, tmp_path):
    log = tmp_path / "log"
    command = [
        "sh",
        "-c",
        "echo 'test/x.py::a PASSED [ 9%]'; echo 'test/x.py::b PASSED [ 9%]'; printf 'test/x.py::c '; kill -9 $$",
    ]
    outcome = runner.counted("python", command, log, tmp_path / "none.xml", 60, {})
    assert outcome.passed == 2
    (failed,) = outcome.failed
    assert failed.startswith("python: ended with status -9") and failed.endswith("(while test/x.py::c ran)")


# ---- programs of GoogleTest ------------------------------------------------------------------------------------

# Prints what GoogleTest prints for the tests of --gtest_filter, as the names of the tests want it.
FAKE = """#!{python}
import os, sys, time
wanted = next(word for word in sys.argv if word.startswith("--gtest_filter=")).split("=", 1)[1].split(":")
status = 0
for name in wanted:
    print(f"[ RUN      ] {{name}}", flush=True)
    if "report" in name:
        print("WARNING: " + name.split("report")[1] + ": data race (pid=7)")
    if "crash" in name or "dies_in_crowd" in name and len(wanted) > 1:
        os.kill(os.getpid(), 11)
    if "exit" in name:
        os._exit(3)
    if "skip" in name:
        print("x.cc:3: Skipped\\nno network here")
    fails = "bad" in name or "crowd" in name and len(wanted) > 1
    if fails:
        print("before\\nx.cc:7: Failure\\nExpected: a crowd of " + name)
    word = "  FAILED  " if fails else "  SKIPPED " if "skip" in name else "       OK "
    status |= "FAILED" in word
    print(f"unfinished[{{word}}] {{name}} (0 ms)", flush=True)
sys.exit(status)
"""


@pytest.fixture
def run_fake(runner, tmp_path):
    program = tmp_path / "fake_test"
    program.write_text(FAKE.format(python=sys.executable))
    program.chmod(0o755)
    compiled = sys.modules["compiled_tests"]

    def run_fake(*names: str):
        tests = tuple((f"unit.{name}", name) for name in names)
        return compiled.run_all(
            [compiled.Program(str(program), (), tests)], 1, [], dict(os.environ), tmp_path / "log", set()
        )

    return run_fake


def test_every_test_of_a_program_is_counted(run_fake):
    outcome = run_fake("A.one", "A.skip", "A.two", "A.bad", "A.three")
    assert (outcome.passed, outcome.failed, outcome.skipped) == (
        3,
        ["unit.A.bad"],
        [("unit.A.skip", "no network here")],
    )


@pytest.mark.parametrize(
    ("name", "how"), [("A.crash", "ended by signal 11"), ("A.exit", "ended with status 3 in the midst of a test")]
)
def test_a_test_that_ends_its_program_does_not_take_the_others_along(run_fake, name, how):
    outcome = run_fake("A.one", name, "A.two", "A.three")
    assert (outcome.passed, outcome.failed) == (3, [f"unit.{name} ({how})"])


def test_a_test_that_fails_and_then_passes_alone_is_unstable(run_fake, tmp_path):
    outcome = run_fake("A.one", "A.crowd", "A.two")
    assert (outcome.passed, outcome.failed, outcome.unstable) == (2, [], ["unit.A.crowd"])
    assert str(outcome) == "2 passed, 0 failed, 0 skipped, 1 unstable"
    assert (
        outcome.words_of("unit.A.crowd")
        == "\n      x.cc:7: Failure\n      Expected: a crowd of A.crowd\n      unfinished[  FAILED  ] A.crowd (0 ms)"
    )
    assert outcome.words_of("unit.A.one") == ""
    assert "A.crowd failed beside others, and passed alone" in (tmp_path / "log").read_text()
    known = tmp_path / "unstable.txt"
    known.write_text("# none\n")
    assert outcome.unknown_unstable(known) == ["unit.A.crowd"]
    known.write_text("# one\nunit.A.crowd | 2026-11-27 | it is a fake\n")
    assert outcome.unknown_unstable(known) == []


@pytest.mark.parametrize("word", ["ThreadSanitizer", "AddressSanitizer", "LeakSanitizer"])
def test_what_a_sanitizer_reports_is_a_failure_though_the_test_passes(run_fake, word):
    outcome = run_fake("A.one", f"A.report{word}", "A.two")
    assert (outcome.passed, outcome.unstable) == (2, [])
    assert outcome.failed == [f"unit.A.report{word} (a sanitizer has reported something)"]


def test_a_crash_is_a_failure_though_the_test_passes_alone(run_fake):
    outcome = run_fake("A.one", "A.dies_in_crowd", "A.two")
    assert (outcome.passed, outcome.unstable) == (2, [])
    assert outcome.failed == ["unit.A.dies_in_crowd (ended by signal 11)"]


def test_programs_are_told_from_other_tests(runner):
    compiled = sys.modules["compiled_tests"]
    listing = """{"tests": [
        {"name": "unit.A.b", "command": ["/x/a_test", "--gtest_filter=A.b"], "properties": []},
        {"name": "unit.A.c", "command": ["/x/a_test", "--gtest_filter=A.c"], "properties": []},
        {"name": "unit.B.c", "command": ["/x/a_test", "--gtest_filter=B.c"], "properties": []},
        {"name": "other", "command": ["/x/script"]}]}"""
    programs, others = compiled.programs_of(listing)
    assert [(program.path, program.tests) for program in programs] == [
        ("/x/a_test", (("unit.A.b", "A.b"), ("unit.A.c", "A.c"))),
        ("/x/a_test", (("unit.B.c", "B.c"),)),
    ]
    assert others == ["other"]


# ---- what runs beside what -------------------------------------------------------------------------------------


def schedule(runner, *pieces, width=3):
    """Runs pieces that note when they begin and end: `a+`, `a-`."""
    import threading

    notes, guard = [], threading.Lock()
    meeting = {}

    def work(name, meets):
        with guard:
            notes.append(name + "+")
        if meets:
            meeting.setdefault(meets, threading.Barrier(2)).wait(timeout=30)
        with guard:
            notes.append(name + "-")

    meeting.update({meets: threading.Barrier(2) for *_, meets in pieces if meets})
    made = [runner.Piece(name, lambda name=name, meets=meets: work(name, meets), **how) for name, how, meets in pieces]
    assert runner.Schedule(made, width).run(60)
    return notes


def test_pieces_run_side_by_side(runner):
    notes = schedule(runner, ("a", {}, "here"), ("b", {}, "here"))  # each waits for the other
    assert set(notes[:2]) == {"a+", "b+"}


def test_a_piece_waits_for_those_that_it_comes_after(runner):
    notes = schedule(runner, ("b", {"after": ("a",)}, ""), ("a", {}, ""))
    assert notes == ["a+", "a-", "b+", "b-"]


def test_pieces_that_are_kept_apart_never_run_at_the_same_time(runner):
    notes = schedule(runner, *[(name, {"apart": "mpi"}, "") for name in "abcd"])
    assert notes == [f"{name}{end}" for name in "abcd" for end in "+-"]


def test_a_piece_that_is_alone_comes_last_and_alone(runner):
    notes = schedule(
        runner, ("x", {"alone": True}, ""), ("y", {"alone": True}, ""), ("a", {}, "here"), ("b", {"after": ()}, "here")
    )
    assert notes[4:] == ["x+", "x-", "y+", "y-"]


def test_when_time_is_up_what_is_left_is_known(runner):
    import threading

    never = threading.Event()
    plan = runner.Schedule(
        [runner.Piece("hangs", never.wait), runner.Piece("later", lambda: None, after=("hangs",))], 2
    )
    assert not plan.run(0.1)
    assert [piece.name for piece in plan.pieces] == ["later"]
    never.set()


# ---- seeds -----------------------------------------------------------------------------------------------------


def test_a_seed_of_the_run_is_printed_and_repeats_it(tmp_path):
    test = tmp_path / "test_x.py"
    test.write_text("from seeds import seeds\n\ndef test_x():\n    print(seeds('x', 2, (7,)))\n    assert False\n")
    told = []
    for _ in range(2):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "conftest",
            "-c",
            "/dev/null",
            str(test),
        ]
        path = f"{ROOT}/test:{ROOT}/test/integration"
        done = subprocess.run(
            command,
            env=os.environ | {"FOREBAY_SEED": "5", "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
        )
        assert "FOREBAY_SEED=5 repeats" in done.stdout, done.stdout + done.stderr
        told.append(next(line for line in done.stdout.splitlines() if line.startswith("[7, ")))
    assert told[0] == told[1]


def test_the_seed_of_a_run_belongs_to_the_committed_tree(runner, tmp_path):
    def git(*command: str) -> None:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *who, *command], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    seeds = []
    for text in ("one", "two"):
        (tmp_path / "file").write_text(text)
        git("add", "file")
        git("commit", "-m", text)
        (tmp_path / "file").write_text("not committed")
        seeds += [runner.seed_of_tree(tmp_path), runner.seed_of_tree(tmp_path)]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]
    assert all(0 <= seed < 1 << 31 for seed in seeds)


def test_the_first_error_is_found_in_a_log(runner, tmp_path):
    log = tmp_path / "log"
    log.write_text("$ cmake --build\nall is well\nsrc/a.cc:3: error: no such type\nninja: stopped\n")
    assert runner.first_error(log) == "src/a.cc:3: error: no such type"
    log.write_text("$ cmake\nCMake Error at CMakeLists.txt:3 (find_package):\n  Could not find it.\n")
    assert runner.first_error(log) == "CMake Error at CMakeLists.txt:3 (find_package): Could not find it."


def test_without_a_clang_fuzzing_is_skipped_by_name(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert runner.sanitizing_compiler(tmp_path / "log") == []
    outcome = runner.fuzz_stage("fuzz")
    assert (outcome.passed, outcome.failed) == (0, [])
    assert [name for name, _ in outcome.skipped] == [f"fuzz: {one}" for one, _, _ in runner.FUZZERS]
    assert all("clang++" in reason for _, reason in outcome.skipped)


def test_an_unknown_stage_is_refused():
    result = subprocess.run([ROOT / "tools" / "run-tests", "nonsense"], capture_output=True, text=True, timeout=60)
    assert result.returncode != 0
    assert "there is no stage 'nonsense'" in result.stderr


def test_stages_are_listed():
    result = subprocess.run([ROOT / "tools" / "run-tests", "--list"], capture_output=True, text=True, timeout=60)
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "style",
        "release",
        "asan",
        "guest",
        "tsan",
        "fuzz",
        "python",
    ]
