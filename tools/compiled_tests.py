"""Runs GoogleTest programs, many tests in one process, and counts the result of each test.

A process for each test, as CTest does it, takes longer than the tests. So one process runs all tests of a suite. It
runs only one suite, because a suite that leaves a thread behind on purpose also ends the leak check of its process. A
test that crashes or hangs its process, or triggers a sanitizer report, has failed. After a crash or a hang the program
restarts with the remaining tests. A test with a failed assertion runs once more on its own. If it then passes, it
counts as unstable; test/unstable.txt has the known ones.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from test_results import Outcome, first_words

SECONDS_MAX = 300  # of one test, or of the end of a program after its last test
stopping = threading.Event()  # set before the programs are ended: no other one starts then
REPORT = re.compile(r"(WARNING|ERROR): \w+Sanitizer|:\d+: runtime error: ")
LINE = re.compile(r"\[(?P<word> RUN      |       OK |  FAILED  |  SKIPPED )\] (?P<name>[^\s,]+)")


@dataclass(frozen=True)
class Program:
    """A suite of tests in one program. Each test has CTest's name and GoogleTest's name."""

    path: str
    environment: tuple[tuple[str, str], ...]
    tests: tuple[tuple[str, str], ...]


@dataclass
class Run:
    """The report of one process on its tests."""

    output: list[str] = field(default_factory=list)
    begun: str = ""
    ended: dict[str, str] = field(default_factory=dict)  # test: OK, FAILED, SKIPPED
    said: dict[str, list[str]] = field(default_factory=dict)  # test: its output
    took: dict[str, float] = field(default_factory=dict)  # test: seconds
    how: str = ""  # why the process ended; empty if only its tests decided that


def programs_of(listing: str) -> tuple[list[Program], list[str]]:
    """Returns the suites of GoogleTest's programs, and the names of all other tests.

    The listing comes from `ctest --show-only=json-v1`.
    """
    found: dict[tuple, list[tuple[str, str]]] = {}
    others = []
    for test in json.loads(listing)["tests"]:
        command = test.get("command") or []
        wanted = next((word.split("=", 1)[1] for word in command if word.startswith("--gtest_filter=")), None)
        if wanted is None:
            others.append(test["name"])
            continue
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        environment = tuple(tuple(entry.split("=", 1)) for entry in properties.get("ENVIRONMENT", []))
        found.setdefault((command[0], environment, wanted.split(".")[0]), []).append((test["name"], wanted))
    return [Program(path, environment, tuple(tests)) for (path, environment, _), tests in found.items()], others


def run_once(program: Program, filters: list[str], prefix: list[str], environment: dict[str, str], started: set) -> Run:
    """Runs one process with these tests, and kills it if a test takes too long."""
    run = Run()
    command = [
        *prefix,
        program.path,
        "--gtest_color=no",
        f"--gtest_filter={':'.join(filters)}",
        "--gtest_also_run_disabled_tests",
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**environment, **dict(program.environment)},
        text=True,
        errors="replace",
        cwd=Path(program.path).parent,
    )
    started.add(process.pid)
    hung = threading.Event()

    def too_long() -> None:
        hung.set()
        os.killpg(process.pid, signal.SIGKILL)

    watch = threading.Timer(SECONDS_MAX, too_long)
    watch.start()
    for line in process.stdout:
        run.output.append(line)
        if run.begun:
            run.said.setdefault(run.begun, []).append(line)
        found = LINE.search(line)  # a test may leave a line of its own unfinished
        if not found:
            continue
        watch.cancel()
        watch = threading.Timer(SECONDS_MAX, too_long)
        watch.start()
        word, name = found["word"].strip(), found["name"]
        if word == "RUN":
            run.begun = name
        elif name == run.begun:  # the list of failures at the end repeats the words
            run.ended[name] = word
            run.begun = ""
            if milliseconds := re.search(r"\((\d+) ms\)", line):
                run.took[name] = int(milliseconds[1]) / 1000
    status = process.wait()
    watch.cancel()
    started.discard(process.pid)
    if hung.is_set():
        run.how = f"no end after {SECONDS_MAX} s"
    elif status < 0:
        run.how = f"ended by signal {-status}"
    elif run.begun:
        run.how = f"ended with status {status} in the midst of a test"
    elif status != 0 and "FAILED" not in run.ended.values():
        run.how = f"ended with status {status} after its tests"
    return run


def run_alone(program: Program, test: str, prefix: list[str], environment: dict[str, str], started: set) -> Run:
    return run_once(program, [test], prefix, environment, started)


def run_program(program: Program, prefix: list[str], environment: dict[str, str], log, started: set) -> Outcome:
    """Runs all tests of a program, and writes the result of each to `log`."""
    outcome = Outcome()
    names = {wanted: name for name, wanted in program.tests}
    left = list(names)
    doubtful: dict[str, str] = {}

    def fail(test: str, said: list[str], how: str) -> None:
        outcome.failed.append(f"{names[test]} ({how})")
        outcome.said[outcome.failed[-1]] = failure_of(said)
        log(f"{names[test]} failed: {how}. What it said:\n{''.join(said)}\n")

    while left and not stopping.is_set():
        before = len(left)
        run = run_once(program, left, prefix, environment, started)
        outcome.took += [(seconds, names[test]) for test, seconds in run.took.items() if test in names]
        for test, word in run.ended.items():
            if test in names and test in left:
                left.remove(test)
                said = run.said.get(test, [])
                if any(map(REPORT.search, said)):
                    fail(test, said, "a sanitizer has reported something")
                elif word == "OK":
                    outcome.passed += 1
                elif word == "SKIPPED":
                    outcome.skipped.append((names[test], reason_of(said)))
                else:
                    doubtful[test] = "".join(said)
        if stopping.is_set():
            break
        if run.begun in left:
            left.remove(run.begun)
            fail(run.begun, run.said.get(run.begun, []), run.how)
        elif run.how and not left:  # all tests ended, but the end of the program failed
            outcome.failed.append(f"{list(names.values())[-1]} (the program {run.how})")
            log("".join(run.output[-60:]))
        if len(left) == before:
            outcome.failed += [f"{names[test]} (not run: {run.how or 'the program has no such test'})" for test in left]
            log("".join(run.output[-60:]))
            break
    if stopping.is_set():
        outcome.failed += [names[test] for test in doubtful] + [
            f"{names[test]} (not run: interrupted)" for test in left
        ]
        return outcome
    for test, told in doubtful.items():
        alone = run_alone(program, test, prefix, environment, started)
        if alone.ended.get(test) == "OK" and not alone.how and not any(map(REPORT.search, alone.output)):
            outcome.unstable.append(names[test])
            outcome.said[names[test]] = failure_of(told.splitlines(keepends=True))
            log(f"{names[test]} failed beside others, and passed alone. What it said beside others:\n{told}\n")
        else:
            outcome.failed.append(names[test] + (f" ({alone.how})" if alone.how else ""))
            outcome.said[outcome.failed[-1]] = failure_of(told.splitlines(keepends=True))
            log(
                f"{names[test]} failed. What it said beside others:\n{told}\n"
                f"and alone:\n{''.join(alone.output[-200:])}\n"
            )
    return outcome


def failure_of(said: list[str]) -> str:
    """Returns the output from the first failed assertion or sanitizer report on, or all of it if there is none."""
    first = next((i for i, line in enumerate(said) if line.rstrip().endswith(": Failure") or REPORT.search(line)), 0)
    return "".join(said[first:])


def reason_of(said: list[str]) -> str:
    """GoogleTest puts the reason of a skip on the line after the place."""
    for position, line in enumerate(said):
        if line.rstrip().endswith("Skipped") and position + 1 < len(said):
            return first_words(said[position + 1])
    return "no reason given"


def run_all(
    programs: list[Program], width: int, prefix: list[str], environment: dict[str, str], log_path: Path, started: set
) -> Outcome:
    """Runs the programs, some in parallel, the slowest first."""
    total = Outcome()
    guard = threading.Lock()

    def log(text: str) -> None:
        with guard, log_path.open("a") as sink:
            sink.write(text)

    def one(program: Program) -> Outcome:
        log(f"$ {shlex.join([*prefix, program.path])}\n")
        try:
            return run_program(program, prefix, environment, log, started)
        except OSError as cause:
            return Outcome(failed=[f"{name} (not run: {cause})" for name, _ in program.tests])

    with ThreadPoolExecutor(width) as pool:
        # Properties take the longest, then suites with many tests.
        for outcome in pool.map(
            one, sorted(programs, key=lambda program: ("property_" not in program.path, -len(program.tests)))
        ):
            total.add(outcome)
    return total
