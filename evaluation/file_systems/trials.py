"""The trials that need no failing server: torture, conformance, programs, locks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from file_systems.runs import (
    FAILED,
    RIGHT,
    ROOT,
    WRONG,
    Places,
    Row,
    end_marked,
    last_line,
    run,
    run_python,
    staged_bytes,
)

REFUSED = "recovery ended with status 1"
WRONG_DATA = 3  # exit code of the programs in bench/
PROGRAM_S_MAX = 180
CONFORMANCE = (
    "test/conformance/test_differential.py",
    "test/conformance/program_calls",
    "test/conformance/async",
    "test/integration/connector_access_test.py",
)
# Random programs with each of five settings. Tests of staging servers, of the tests themselves, and of files on a local
# file system say nothing about a distributed one.
CONFORMANCE_TESTS = (
    "not through_a_server and not fault_is_noticed and not nothing_but_their_seed and not a_file_that_is_not_cached"
)
CONFORMANCE_CASES, CONFORMANCE_S_MAX = "25", 420


def torture(places: Places, minutes: float) -> Row:
    """`forebay torture`: kills, and calls that fail."""
    done = run(
        [places.forebay, "torture", "--minutes", minutes, "--nls", places.area(), "--target", places.target, "--json"],
        places.native(),
        60 * minutes * 3 + 180,
    )
    try:
        table = json.loads(done.stdout)
    except ValueError:
        return Row("forebay torture", FAILED, told=last_line(done.stderr))
    return judge_torture(table, done.returncode)


def judge_torture(table: dict, status: int) -> Row:
    """Makes a row of the table that `forebay torture --json` prints."""
    campaigns = [one for one in table["campaigns"] if not one["skipped"]]
    counted = {key: sum(one[key] for one in campaigns) for key in ("points", "kills", "recovered", "told")}
    bad = {key: sum(one[key] for one in campaigns) for key in ("lost", "wrong", "hung", "unreported")}
    ran = f"{counted['points']} cases, {counted['kills']} kills"
    if any(bad.values()):
        failures = [failure for one in campaigns for failure in one["failures"]]
        # A recovery that refuses says why and keeps the log: no byte is wrong, and none has come either.
        refused = sum(REFUSED in str(failure) for failure in failures)
        outcome = WRONG if bad["lost"] > refused or bad["wrong"] or bad["unreported"] else FAILED
        said = ", ".join(f"{count} {key}" for key, count in bad.items() if count)
        return Row("forebay torture", outcome, ran, told=f"{said}: {str(failures[:1])[:300]}")
    if status != 0 or not table["all_well"] or counted["points"] == 0:
        return Row("forebay torture", FAILED, ran, told=f"ended with status {status}")
    return Row("forebay torture", RIGHT, ran, told=f"all {counted['told']} failed calls that matter were reported")


def conformance(places: Places) -> Row:
    """Tests of the repository, with their files on the mount and their staging areas on this node."""
    junit, areas = places.local / "conformance.xml", places.local / "areas"
    areas.mkdir()
    (places.target / "random").mkdir()
    environment = places.native() | {
        "FOREBAY_TEST_AREAS": str(areas),
        "FOREBAY_DIFFERENTIAL_DIR": str(places.target / "random"),
        "FOREBAY_DIFFERENTIAL_CASES": CONFORMANCE_CASES,
        "FOREBAY_TEST_QUICK": "1",
    }
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}"),
        *(f"--basetemp={places.target / 't'}", "--timeout", "300", "-k", CONFORMANCE_TESTS, *CONFORMANCE),
    ]
    done = run(command, environment, CONFORMANCE_S_MAX, ROOT)
    end_marked()
    if not junit.exists():
        return Row("conformance tests", FAILED, told=last_line(done.stderr or done.stdout))
    return judge_tests(ElementTree.parse(junit).getroot())


def judge_tests(results: ElementTree.Element) -> Row:
    """Makes a row of a JUnit document."""
    passed, failed, skipped = 0, [], 0
    for case in results.iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed.append(case.get("name", ""))
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    outcome = FAILED if failed or not passed else RIGHT
    return Row(
        "conformance tests",
        outcome,
        f"{passed} passed, {len(failed)} failed, {skipped} skipped",
        told="; ".join(failed[:8]),
    )


@dataclass(frozen=True)
class Program:
    """A program of bench/, which can verify its own file; by several ranks if `ranks` is not 0."""

    name: str
    sizes: tuple[str, ...]
    ranks: int = 0
    more: tuple[str, ...] = ()  # not for the verification


PROGRAMS = (
    Program("checkpoint", ("--datasets", "4", "--mib", "8", "--steps", "3")),
    Program("small_writes", ("--count", "2000"), more=("--shuffle",)),
    Program("parallel_checkpoint", ("--datasets", "4", "--mib", "4", "--steps", "2"), 2),
    Program("vpic_io", ("--particles", "65536", "--steps", "3"), 2),
    Program("interleaved", ("--cells", "512"), 2),
    Program("flash_io", (), 2),
    Program("ffbench", ("--pattern", "morphing", "--rows", "32", "--columns", "512"), 2),
)


def programs(places: Places) -> Row:
    """Programs with forebay. Each file is verified natively through the other client, as on another machine."""
    wrong, failed, ran, staged = [], [], [], 0
    for program in PROGRAMS:
        if program.ranks and os.environ.get("FOREBAY_HDF5_PARALLEL") != "ON":
            continue
        ran.append(program.name)
        ranks = ["mpiexec", "-n", program.ranks] if program.ranks else []
        command = [*ranks, places.program(program.name), *program.sizes]
        name = f"{program.name}.h5"
        done = run([*command, *program.more, "--file", places.target / name], places.staged(), PROGRAM_S_MAX)
        bytes_staged = staged_bytes(places.statistics())
        staged += bytes_staged
        if done.returncode != 0 or bytes_staged == 0:
            failed.append(f"{program.name}: {last_line(done.stderr) if done.returncode else 'nothing was staged'}")
            continue
        seen = run([*command, "--file", places.other / name, "--verify"], places.native(), PROGRAM_S_MAX)
        if seen.returncode != 0:
            is_wrong = seen.returncode == WRONG_DATA or "wrong data" in seen.stderr
            (wrong if is_wrong else failed).append(f"{program.name}: {last_line(seen.stderr)}")
        (places.target / name).unlink()
    outcome = WRONG if wrong else FAILED if failed or not ran else RIGHT
    return Row(
        "programs, read back elsewhere",
        outcome,
        f"{', '.join(ran)}: {staged / 2**20:.0f} MiB staged",
        told="; ".join(wrong + failed),
    )


HOLD = """
import h5py, sys
f = h5py.File(sys.argv[1], "w"); f["x"] = list(range(1000)); f.flush()
print("open", flush=True); sys.stdin.readline(); f.close()
"""
OPEN = """
import h5py, sys
for mode in ("r", "r+"):
    try:
        with h5py.File(sys.argv[1], mode) as f: print(mode, "opened")
    except OSError as error: print(mode, "refused", error.errno)
"""


def locks(places: Places) -> Row:
    """A file that one program writes is refused to others, on this client and on the other one, as natively."""
    answers = {}
    for holder, opener in (("native", "native"), ("forebay", "native"), ("native", "forebay"), ("forebay", "forebay")):
        answers[holder, opener] = answer_of_locks(places, holder, opener)
    expected = answers["native", "native"]
    different = [f"{holder} then {opener}: {told}" for (holder, opener), told in answers.items() if told != expected]
    return Row(
        "file locks",
        WRONG if different else RIGHT,
        "a second open, by this client and by another",
        told="; ".join([f"natively: {expected}", *different]),
    )


def answer_of_locks(places: Places, holder: str, opener: str) -> str:
    """Returns the answers to a second open, beside an open file."""
    environments = {"native": places.native(), "forebay": places.staged()}
    file = f"locked-{holder}-{opener}.h5"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, places.target / file],
        env=environments[holder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as held:
        try:
            if held.stdout.readline() != "open\n":
                return "the first open failed"
            told = []
            for where, folder in (("here", places.target), ("elsewhere", places.other)):
                done = run_python(OPEN, folder / file, environment=environments[opener])
                said = ", ".join(done.stdout.splitlines()) if done.returncode == 0 else last_line(done.stderr)
                told.append(f"{where} {said}")
            return ", ".join(told)
        finally:
            try:
                held.communicate("\n", timeout=60)
            except subprocess.TimeoutExpired:
                held.kill()
