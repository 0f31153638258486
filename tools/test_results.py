"""Results of tests, from the JUnit files of CTest and pytest, or from their logs if they broke off."""

import re
from fnmatch import fnmatchcase
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

FAILURE_LINES = 12  # lines of one test in a summary


@dataclass
class Outcome:
    """The results of one stage, or of all together."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)  # failed, then passed in a second run
    said: dict[str, str] = field(default_factory=dict)  # output of failed tests, by name
    took: list[tuple[float, str]] = field(default_factory=list)  # seconds and names

    def add(self, other: "Outcome") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.unstable += other.unstable
        self.said.update(other.said)
        self.took += other.took

    def __str__(self) -> str:
        unstable = f", {len(self.unstable)} unstable" if self.unstable else ""
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped{unstable}"

    def words_of(self, name: str) -> str:
        """Returns the output of a failed test as indented lines; empty if it is unknown."""
        lines = self.said.get(name, "").splitlines()
        return "".join(f"\n      {line[:200]}" for line in lines[:FAILURE_LINES])

    def unknown_unstable(self, known: Path) -> list[str]:
        """Returns unstable tests that are missing from `known`, whose lines have a name, a date and a reason each."""
        lines = [line for line in known.read_text().splitlines() if line.strip() and not line.startswith("#")]
        names = {line.split("|")[0].strip() for line in lines}
        return [name for name in self.unstable if name.split("  #")[0] not in names]

    def unknown_skips(self, known: Path) -> list[str]:
        """Returns skipped tests missing from `known`, whose lines have a pattern of names and one of reasons each."""
        lines = [line for line in known.read_text().splitlines() if line.strip() and not line.startswith("#")]
        pairs = [tuple(part.strip() for part in line.split("|", 1)) for line in lines]
        return [
            name
            for name, reason in self.skipped
            if not any(fnmatchcase(name, names) and fnmatchcase(reason, reasons) for names, reasons in pairs)
        ]


class StageBroke(Exception):
    """A stage broke off. The message is the one line with the reason."""


def write_durations(path: Path, took: list[tuple[float, str]]) -> None:
    """Writes durations of a tenth of a second or longer, the longest first: `seconds name` in each line."""
    lines = [f"{seconds:.1f} {name}\n" for seconds, name in sorted(took, reverse=True) if seconds >= 0.1]
    path.write_text("".join(lines))


def read_durations(path: Path) -> dict[str, float]:
    """Reads seconds by name; empty if no run has ended yet."""
    if not path.exists():
        return {}
    entries = (line.split(" ", 1) for line in path.read_text().splitlines())
    return {name: float(seconds) for seconds, name in entries}


def first_words(text: str | None) -> str:
    return " ".join((text or "").split())[:200]


def why_skipped(case: ElementTree.Element, skipped: ElementTree.Element) -> str:
    """Returns the reason that the test printed, or else the runner's."""
    message = first_words(skipped.get("message") or skipped.text)
    if not message.startswith("SKIP_"):
        return message or "no reason given"
    lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines() if line.strip()]
    for position, line in enumerate(lines):
        if line.endswith(": Skipped") or line == "Skipped":  # GoogleTest puts the reason on the next line
            return first_words(lines[position + 1]) if position + 1 < len(lines) else message
    return first_words(next((line for line in lines if "skip" in line.lower()), message))


def read_junit(path: Path, prefix: str) -> Outcome:
    """Counts the test cases of a JUnit file, as CTest and pytest write it."""
    outcome = Outcome()
    try:
        cases = ElementTree.parse(path).iter("testcase")
    except ElementTree.ParseError as cause:
        raise StageBroke(f"{path.name} is no readable result: {cause}") from None
    for case in cases:
        name = prefix + "::".join(filter(None, (case.get("classname"), case.get("name"))))
        if case.get("classname") == case.get("name"):  # CTest writes the name twice
            name = prefix + (case.get("name") or "")
        outcome.took.append((float(case.get("time") or 0), name))
        skipped = case.find("skipped")
        failure = next((found for found in map(case.find, ("failure", "error")) if found is not None), None)
        if failure is not None or case.get("status") == "fail":
            outcome.failed.append(name)
            outcome.said[name] = (failure.get("message") or "") if failure is not None else ""
        elif skipped is not None or case.get("status") == "disabled":
            reason = why_skipped(case, skipped) if skipped is not None else "disabled"
            # CTest also marks a test as skipped if its program is missing. That is a failure.
            not_run = case.get("status") == "notrun" and not (skipped.get("message") or "").startswith("SKIP_")
            if not_run:
                outcome.failed.append(f"{name} ({reason})")
            else:
                outcome.skipped.append((name, reason))
        else:
            outcome.passed += 1
    return outcome


# `test/x_test.py::name PASSED [ 5%]`; the test's own output may come between the name and the word.
PYTEST_LINE = re.compile(r"^(?P<name>\S+\.py::\S.*?)(?: (?P<word>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*)?$")
# ` 12/345 Test  #12: unit.room.name .....   Passed    0.02 sec`
CTEST_LINE = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (?P<name>\S+) \.*\s*(?P<word>Passed|\*\*\*\S.*?)\s+\d+\.\d+ sec")
CTEST_BEGUN = re.compile(r"^\s*Start\s+\d+: (?P<name>\S+)")


def read_broken_log(text: str, prefix: str) -> tuple[Outcome, list[str]]:
    """Counts the ended tests in the log of a run that broke off, and lists the tests that had begun and not ended."""
    outcome = Outcome()
    begun: dict[str, None] = {}
    for line in text.splitlines():
        if start := CTEST_BEGUN.match(line):
            begun[start["name"]] = None
        elif found := CTEST_LINE.match(line) or PYTEST_LINE.match(line):
            name, word = found["name"].strip(), found["word"]
            if word is None:
                begun[name] = None
                continue
            begun.pop(name, None)
            if word in ("Passed", "PASSED", "XFAIL"):
                outcome.passed += 1
            elif word in ("SKIPPED", "***Skipped"):
                outcome.skipped.append((prefix + name, "see the log"))
            else:
                outcome.failed.append(prefix + name)
    return outcome, list(begun)


def first_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    said = [line for line in lines if line and not line.startswith("$ ")]
    for position, line in enumerate(said):
        if line.startswith("CMake Error"):  # the next lines have the place and the message
            return first_words(" ".join(said[position : position + 3]))
        if re.search(r"\berror: |undefined reference", line):
            return first_words(line)
    named = [line for line in said if re.search(r"error|FAILED|not found", line, re.I)]
    return first_words(named[0] if named else said[-1] if said else "it wrote nothing")


def tail(log: Path, lines_max: int) -> str:
    return "\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-lines_max:])
