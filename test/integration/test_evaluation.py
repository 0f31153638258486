"""The evaluation counts wrong bytes, and fails kernels that did not stage, compared nothing, or are missing."""

import importlib.machinery
import importlib.util
import json
import math
import sys

import pytest
from connector_environment import ROOT

sys.path[:0] = [str(ROOT / "evaluation"), str(ROOT / "bench")]
import growth
import page
from cases import Setting
from cells import Cell, Outcome, Section, run_cell
from conformance import counts_in
from figures import slope_of
from layouts import LAYOUTS, layout_name
from runs import Places, SlowTarget

# Writes no file. What it says of itself, and what forebay would count, is in the two files beside it.
FAKE = """#!/usr/bin/env python3
import json, os, sys
from pathlib import Path
said = json.loads(Path(__file__).with_name("said.json").read_text())
stats = os.environ.get("FOREBAY_STATS")
told = said["verify" if "--verify" in sys.argv else "forebay" if stats else "native"]
if stats:
    Path(stats).write_text(json.dumps(said["stats"]) + "\\n")
print(json.dumps(told))
sys.exit(3 if told.get("wrong") else 0)
"""
GOOD = {
    "native": {"bytes": 1000, "calls_s": 0.5, "close_s": 0.5},
    "forebay": {"bytes": 1000, "calls_s": 0.25, "close_s": 0.25, "compared": 400, "wrong": 0},
    "verify": {"compared": 1000, "wrong": 0},
    "stats": {"file": {"path": "/data.h5", "staged": 1000, "drained": 1000, "through": 0, "reasons": []}},
}


@pytest.fixture
def setting(tmp_path):
    places = {name: tmp_path / name for name in ("programs", "plugins", "target", "staging")}
    for folder in places.values():
        folder.mkdir()
    program = places["programs"] / "fake"
    program.write_text(FAKE)
    program.chmod(0o755)
    return Setting(Places(api_tests=None, **places), 1, 0, 0, lambda text: None, tmp_path / "page")


def outcome_of(setting: Setting, program: str = "fake", **changes) -> Outcome:
    said = GOOD | changes
    (setting.places.programs / "said.json").write_text(json.dumps(said))
    where = SlowTarget(setting.places.target, setting.places.target)
    outcome = run_cell(setting, Cell("a cell", program), where)
    assert not any(setting.places.target.iterdir())
    return outcome


def test_a_good_kernel_has_times_and_a_proof(setting):
    outcome = outcome_of(setting)
    assert outcome.failures == [] and outcome.wrong_bytes == 0
    assert outcome.compared_bytes == 2 * 1000 + 400
    assert outcome.medians == (1.0, 0.5) and outcome.ratio == 0.5
    assert outcome.proof == "1.0 KiB staged"


def test_wrong_bytes_in_the_file_are_counted_and_fail_the_cell(setting):
    outcome = outcome_of(setting, verify={"compared": 1000, "wrong": 3})
    assert outcome.wrong_bytes == 3 and outcome.wrong_bytes_native == 3
    assert len(outcome.failures) == 2 and "wrong data" in outcome.failures[0]


def test_wrong_bytes_that_the_program_reads_with_forebay_are_counted(setting):
    outcome = outcome_of(setting, forebay=GOOD["forebay"] | {"wrong": 7})
    assert outcome.wrong_bytes == 7 and outcome.wrong_bytes_native == 0
    assert outcome.compared_bytes == 1000 + 400


def test_a_kernel_that_staged_nothing_fails(setting):
    nothing = {"file": GOOD["stats"]["file"] | {"staged": 0, "drained": 0}}
    (failure,) = outcome_of(setting, stats=nothing).failures
    assert "only 0 of 1000 bytes were staged" in failure


def test_a_kernel_that_was_only_partly_staged_fails(setting):
    part = {"file": GOOD["stats"]["file"] | {"staged": 999, "drained": 999}}
    (failure,) = outcome_of(setting, stats=part).failures
    assert "only 999 of 1000 bytes were staged" in failure


def test_a_kernel_that_compares_nothing_fails(setting):
    outcome = outcome_of(setting, forebay={**GOOD["forebay"], "compared": 0}, verify={"compared": 0, "wrong": 0})
    assert outcome.failures == ["fake: no byte was compared"]


def test_a_missing_program_is_named(setting):
    failures = outcome_of(setting, "absent").failures
    assert failures and all("absent is not there" in failure for failure in failures)


def test_a_reader_that_had_nothing_from_the_cache_fails(setting):
    (setting.places.programs / "said.json").write_text(json.dumps(GOOD))
    where = SlowTarget(setting.places.target, setting.places.target)
    (failure,) = run_cell(setting, Cell("a cell", "fake", reads=True), where).failures
    assert "no byte came from the read cache" in failure


def evaluation():
    """Returns evaluation/run as a module."""
    loader = importlib.machinery.SourceFileLoader("evaluation_run", str(ROOT / "evaluation" / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(("wrong", "code"), [(0, 0), (5, 1)])
def test_wrong_bytes_make_the_run_fail_and_stand_first_on_the_page(wrong, code, tmp_path, monkeypatch):
    outcome = Outcome("a cell", compared_bytes=100, wrong_bytes=wrong, failures=["wrong data"] * (wrong > 0))
    module = evaluation()
    monkeypatch.setattr(module, "SECTIONS", {"fake": lambda setting, quick: Section("fake", "A kernel", "", [outcome])})
    monkeypatch.setattr(sys, "argv", ["run", "--output", str(tmp_path / "page")])
    monkeypatch.setenv("FOREBAY_BUILD_DIR", str(tmp_path))
    monkeypatch.setenv("FOREBAY_PLUGIN_DIR", str(tmp_path))
    assert module.main() == code
    text = (tmp_path / "page" / "index.md").read_text()
    assert text.startswith(f"# Evaluation\n\n**{wrong} wrong bytes** with forebay")
    assert f"<strong>{wrong} wrong bytes</strong>" in (tmp_path / "page" / "index.html").read_text()
    assert sorted(path.name for path in (tmp_path / "page").iterdir()) == ["index.html", "index.md"]


def test_a_long_table_shows_the_failed_cells(tmp_path):
    outcomes = [Outcome(f"cell {number}") for number in range(page.ROWS_MAX + 1)]
    outcomes[7].failures.append("it broke")
    text = page.markdown(tmp_path, "run", {}, [Section("many", "Many", "", outcomes)])
    assert "| cell 7 |" in text and "    it broke" in text and "| cell 8 |" not in text


def test_layouts_have_names_of_their_own():
    assert len({layout_name(number) for number in range(LAYOUTS)}) == LAYOUTS


def test_failed_and_missing_tests_of_the_interface_are_counted(tmp_path):
    report = tmp_path / "report.xml"
    assert counts_in(report).failed == ["the tests did not start"]
    report.write_text("<testsuite/>")
    assert counts_in(report).failed == ["no test was found"]
    cases = '<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><skipped/></testcase>'
    report.write_text(f"<testsuite>{cases}</testsuite>")
    counts = counts_in(report)
    assert (counts.passed, counts.failed, counts.skipped) == (1, ["b"], 1)


def test_the_slope_of_a_cost_gives_its_verdict():
    sizes = [10, 100, 1000, 10_000, 100_000]

    def curve(cost) -> growth.Curve:
        return growth.Curve({size: cost(size) for size in sizes})

    assert slope_of(curve(lambda size: 7).costs) == pytest.approx(0) and curve(lambda size: 7).verdict == "flat"
    assert slope_of(curve(lambda size: 3 * size**0.2).costs) == pytest.approx(0.2)
    assert curve(lambda size: math.log(size)).verdict == "logarithmic"
    late = curve(lambda size: 1000 + size / 10)  # flat at first
    assert slope_of(late.costs) > 0.4 and "grows" in late.verdict
    assert curve(lambda size: size**-0.5).verdict == "falls"
    assert growth.Curve({10: 4}).verdict == "flat" and growth.Curve({10: 0, 100: 0}).verdict == "flat"
