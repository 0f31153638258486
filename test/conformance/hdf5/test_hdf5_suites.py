"""HDF5's own test programs print the same, line by line, natively and through the connector.

The parallel ones have tests of their own, see ../parallel. FOREBAY_TEST_LONG=1 adds what takes minutes.
"""

import os
import re
import tarfile
from pathlib import Path

import pytest
from async_api_tests import SERIAL, assert_async_tests_passed, assert_counts_agree, has_async_tests, without_async_tests
from connector_environment import CACHE, _lines, bytes_staged, hdf5_prefix, native, run, staged

from forebay.slowfs import SlowFS, available

pytestmark = pytest.mark.slow


def program(name: str) -> Path:
    path = hdf5_prefix() / "bin" / name
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    return path


@pytest.fixture(scope="session")
def test_sources(tmp_path_factory) -> Path:
    """HDF5's folder of test sources: some tests read files that lie there."""
    archives = sorted((CACHE / "source" / "hdf5-1.14.5").glob("*.orig.tar.gz"))
    if not archives:
        pytest.skip("the source archive of HDF5 1.14.5 is not in the cache")
    target = tmp_path_factory.mktemp("hdf5-source")
    with tarfile.open(archives[0]) as archive:
        members = [
            member for member in archive if re.fullmatch(r"[^/]+/test/(testfiles/)?[^/]+\.(h5|hdf5)", member.name)
        ]
        archive.extractall(target, members)
    return next(target.glob("*/test"))


def comparable(output: str) -> list[str]:
    """The lines of a run, without those that name the connector, the machine or the time."""
    lines = []
    for line in output.splitlines():
        if re.search(
            r"VOL connector '|No VOL connector|hostname=|Test program|Test seed|Linked with|elapsed|seconds", line
        ):
            continue
        lines.append(re.sub(r"0x[0-9a-f]{6,}", "0x…", line.rstrip()))
    return lines


def both(command: list, folder: Path, **more: str):
    plain = run(command, native(**more), folder / "native", 300)
    through = run(command, staged(folder, **more), folder / "through", 300)
    return plain, through


def assert_same_api_tests(plain, through) -> None:
    """Natively the async tests are skipped; staged they pass."""
    assert comparable(without_async_tests(through.stdout)) == comparable(without_async_tests(plain.stdout))
    if has_async_tests(plain.stdout):  # an HDF5 of the user's may be built without them
        passed = assert_async_tests_passed(through.stdout, SERIAL, 1)
        assert_counts_agree(plain.stdout, through.stdout, passed)
    assert through.returncode == plain.returncode == 0


def test_api_tests_give_the_same_lines_and_the_async_ones_pass(tmp_path):
    plain, through = both([program("h5_api_test")], tmp_path)
    assert_same_api_tests(plain, through)
    assert bytes_staged(tmp_path) > 0


def test_library_tests_give_the_same_lines(tmp_path, test_sources):
    # More verbose output would show some thirty subtests that the program itself skips for every connector but
    # the native one, whatever the connector can do.
    plain, through = both([program("h5_api_test_testhdf5")], tmp_path, srcdir=str(test_sources))
    assert comparable(through.stdout) == comparable(plain.stdout)
    assert "All tests were successful" in through.stdout
    assert through.returncode == plain.returncode == 0
    assert bytes_staged(tmp_path) > 0


@pytest.fixture
def remote(tmp_path):
    """A file system that is not local. Its files seem old, so that the read cache stores them at once."""
    usable, reason = available()
    if not usable:
        pytest.skip(f"slowfs cannot be used: {reason}")
    with SlowFS(tmp_path / "backing", tmp_path / "remote", clock_behind=3600):
        yield tmp_path / "remote"


def read_from_the_cache(folder: Path) -> int:
    return sum(line["process"].get("cache", {}).get("hit_bytes", 0) for line in _lines(folder) if "process" in line)


LONG = os.environ.get("FOREBAY_TEST_LONG") == "1"


@pytest.mark.parametrize("name", ["h5_api_test", *(["h5_api_test_testhdf5"] if LONG else [])])
def test_tests_give_the_same_lines_with_the_read_cache(remote, tmp_path, test_sources, name):
    command, more = [program(name)], {"srcdir": str(test_sources)}
    (remote / "native").mkdir()
    (remote / "through").mkdir()
    plain = run(command, native(**more), remote / "native", 300)
    through = run(command, staged(tmp_path, "read_cache=on", **more), remote / "through", 300)
    if name == "h5_api_test":
        assert_same_api_tests(plain, through)
    assert comparable(without_async_tests(through.stdout)) == comparable(without_async_tests(plain.stdout))
    assert through.returncode == plain.returncode == 0
    assert bytes_staged(tmp_path) > 0 and read_from_the_cache(tmp_path) > 0
