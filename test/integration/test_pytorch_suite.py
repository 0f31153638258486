"""PyTorch's own tests of its DataLoader come out the same with the hook of `forebay run` and without it.

They are those of the distribution's source package: tools/setup torch-tests.
"""

import json
from pathlib import Path

import pytest
from connector_environment import native, run
from test_python_loader_hook import STARTUP, python  # noqa: F401  a fixture

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

RUN = """
import json, os, sys, unittest

class Told(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        ended[test.id()] = "passed"
    def addFailure(self, test, error):
        ended[test.id()] = "failed"
    def addError(self, test, error):
        ended[test.id()] = "failed"
    def addSkip(self, test, reason):
        ended[test.id()] = "skipped"

if __name__ == "__main__":
    tests, told = sys.argv[1:]
    sys.path.insert(0, tests)
    sys.argv[:] = [os.path.join(tests, "test_dataloader.py")]   # PyTorch's tests want to be the program
    ended = {}
    unittest.defaultTestLoader.loadTestsFromName("test_dataloader").run(Told())
    hook = sys.modules.get("forebay.loader_hook")
    with open(told, "w") as file:
        json.dump([ended, dict(hook.counts) if hook else {}], file)
"""


def outcomes(python, environment, folder, tests):  # noqa: F811
    folder.mkdir()
    (folder / "run_all.py").write_text(RUN)
    done = run([python, "run_all.py", tests, "ended.json"], environment, folder, seconds_max=2500)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "ended.json").read_text())


def test_pytorchs_tests_of_its_dataloader_come_out_the_same(python, tmp_path):  # noqa: F811
    tests = Path(python).parents[1] / "tests"
    if not (tests / "test_dataloader.py").exists():
        pytest.skip("PyTorch's own tests are not here: tools/setup torch-tests")
    plain, none = outcomes(python, native(), tmp_path / "native", tests)
    with_it, counts = outcomes(python, native(PYTHONPATH=str(STARTUP)), tmp_path / "followed", tests)
    assert with_it == plain
    assert none == {} and counts["epochs"] > 50, counts
    assert list(plain.values()).count("passed") > 140
