"""The async tests among HDF5's API tests: natively they are skipped, through the connector they run."""

import re

BANNER = re.compile(r"\*+\n\*\s*\*\n\*\s*API (?:Parallel )?Async Tests\s*\*\n\*\s*\*\n\*+\n")
SERIAL = {
    "single dataset I/O",
    "multi dataset I/O",
    "multi file dataset I/O",
    "multi file dataset I/O with groups",
    "H5Dset_extent() and H5Dget_space()",
    "H5Aexists()",
    "attribute I/O",
    "attribute I/O with type conversion",
    "attribute I/O with compound type conversion",
    "group operations",
    "link operations",
    "H5Ocopy() and H5Orefresh()",
    "H5Freopen()",
}
PARALLEL = SERIAL - {"H5Dset_extent() and H5Dget_space()"} | {"extending dataset"}
SUMMARY = re.compile(r"^.*?(\d+)/(\d+) \([\d.]+%\) API tests (passed|did not pass|were skipped)", re.MULTILINE)


def has_async_tests(output: str) -> bool:
    return BANNER.search(output) is not None


def without_async_tests(output: str) -> str:
    """All but the async tests and the counts, which they change."""
    found = BANNER.search(output)
    if not found:
        return output
    rest = output[: found.start()]
    return "\n".join(line for line in rest.splitlines() if line.strip() != "Cleaning up testing files")


def counts(output: str) -> dict[str, int]:
    """How many tests passed, did not pass and were skipped."""
    return {what: int(number) for number, _, what in SUMMARY.findall(output)}


def assert_async_tests_passed(output: str, names: set[str], rounds: int) -> int:
    """All of them ran, `rounds` times, and none failed. How many parts of tests passed."""
    tests = output[BANNER.search(output).end() :]
    found = re.findall(r"^Testing (.*?)\s*(?:PASSED)?$", tests, re.MULTILINE)
    assert sorted(found) == sorted([*names] * rounds), tests
    assert "FAILED" not in tests and "-SKIP-" not in tests, tests
    return len(re.findall(r"PASSED$", tests, re.MULTILINE))


def assert_counts_agree(plain: str, through: str, async_passed: int) -> None:
    natively, staged = counts(plain), counts(through)
    assert len(natively) == 3 and natively["did not pass"] == staged["did not pass"] == 0
    assert staged["passed"] == natively["passed"] + async_passed
    assert staged["were skipped"] == natively["were skipped"] - 1
