"""h5py's own test suite comes out the same, test by test, natively and through the connector.

h5py brings its own libhdf5 (serial, not thread-safe, of another version than the plugin was compiled against).
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from connector_environment import bytes_staged, native, run, staged

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
