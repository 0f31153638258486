"""h5py's own test suite comes out the same, test by test, natively and through the connector.

h5py brings its own libhdf5 (serial, not thread-safe, of another version than the plugin was compiled against).
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from connector_environment import _lines, bytes_staged, native, run, staged

from forebay.slowfs import SlowFS, available

pytest.importorskip("h5py")


def outcomes(environment: dict[str, str], folder: Path) -> dict[str, str]:
    report = folder / "report.xml"
    done = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", "--pyargs", "h5py"],
        environment,
        folder,
        500,
    )
    assert report.exists(), done.stdout + done.stderr
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kind = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        found[f"{case.get('classname')}::{case.get('name')}"] = kind
    return found


@pytest.mark.slow
def test_h5py_tests_come_out_the_same(tmp_path):
    plain = outcomes(native(), tmp_path / "native")
    through = outcomes(staged(tmp_path), tmp_path / "through")
    different = {name: (plain.get(name), kind) for name, kind in through.items() if plain.get(name) != kind}
    assert different == {}
    assert plain.keys() == through.keys()
    assert sum(kind == "passed" for kind in through.values()) > 800
    assert bytes_staged(tmp_path) > 0


@pytest.mark.long
@pytest.mark.slow
def test_h5py_tests_come_out_the_same_with_the_read_cache(tmp_path):
    """On a file system that is not local, whose files seem old: they are stored at once."""
    usable, reason = available()
    if not usable:
        pytest.skip(f"slowfs cannot be used: {reason}")
    with SlowFS(tmp_path / "backing", tmp_path / "remote", clock_behind=3600) as remote:
        found = []
        for environment in (native(), staged(tmp_path, "read_cache=on")):
            folder = Path(remote / f"run-{len(found)}")
            folder.mkdir()
            found.append(outcomes(environment | {"TMPDIR": str(folder)}, folder))
    plain, through = found
    assert {name: (plain.get(name), kind) for name, kind in through.items() if plain.get(name) != kind} == {}
    assert sum(kind == "passed" for kind in through.values()) > 800
    assert sum(line["process"].get("cache", {}).get("hit_bytes", 0) for line in _lines(tmp_path) if "process" in line)
