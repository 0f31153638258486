"""evaluation/file_systems: what cannot run is skipped by name, the teardown always runs, wrong bytes make it fail."""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

EVALUATION = Path(__file__).resolve().parents[3] / "evaluation"
sys.path.insert(0, str(EVALUATION))

from file_systems import campaign, outage, runs, served, trials  # noqa: E402


class StandInNetwork:
    """Makes no namespace, and notes its end."""

    ended = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        type(self).ended += 1

    def run(self, *words, **more):
        return subprocess.CompletedProcess(words, 0, "", "")


class StandIn(served.ServedFileSystem):
    """A file system that is a folder."""

    name, layout = "stand-in", "a folder"
    reason = ""
    detached = 0

    @classmethod
    def missing(cls):
        return cls.reason

    def version(self):
        return "1"

    def start(self):
        pass

    def attach(self):
        for place in self.clients:
            place.mkdir()

    def detach(self):
        StandIn.detached += 1


@pytest.fixture(name="network")
def stand_in_network(monkeypatch):
    monkeypatch.setattr(served, "Network", StandInNetwork)
    StandInNetwork.ended = StandIn.detached = 0


class Missing(StandIn):
    reason = "glusterd not installed"


class FailsToStart(StandIn):
    def start(self):
        raise served.Unavailable("the bricks do not run")


@pytest.mark.parametrize("kind, reason", [(Missing, "not installed"), (FailsToStart, "the bricks do not run")])
def test_a_file_system_that_cannot_run_is_skipped_by_name_and_is_not_bad(network, tmp_path, kind, reason):
    (result,) = campaign.try_all([kind], tmp_path, 0.1, [])
    assert result.name == "stand-in" and reason in result.skipped and not result.is_bad()
    assert not (tmp_path / "served").exists()


def test_the_teardown_runs_after_a_start_that_failed(network, tmp_path):
    campaign.try_all([FailsToStart], tmp_path, 0.1, [])
    assert (StandInNetwork.ended, StandIn.detached) == (1, 1)


def test_the_teardown_runs_after_an_interrupt(network, tmp_path):
    with pytest.raises(KeyboardInterrupt), served.serve(StandIn, tmp_path / "served"):
        raise KeyboardInterrupt
    assert (StandInNetwork.ended, StandIn.detached) == (1, 1)
    assert not (tmp_path / "served").exists()


def test_a_trial_that_breaks_is_a_bad_row_and_the_others_go_on():
    def breaks():
        raise OSError("no space")

    (row,) = campaign.attempt("torture", breaks)
    assert row.outcome == runs.FAILED and "no space" in row.told


@pytest.mark.parametrize("outcome, bad", [("right", False), ("told", False), ("wrong", True), ("failed", True)])
def test_wrong_bytes_and_failures_make_the_run_fail(outcome, bad):
    result = campaign.Result("one", "", rows=[runs.Row("a", "right"), runs.Row("b", outcome)])
    assert result.is_bad() == bad


def campaign_of_torture(**counts):
    zero = dict.fromkeys(("points", "kills", "recovered", "told", "lost", "wrong", "hung", "unreported"), 0)
    return {"skipped": "", "failures": []} | zero | counts


def test_torture_that_lost_a_byte_is_wrong_and_one_without_a_case_has_failed():
    lost = {"campaigns": [campaign_of_torture(points=3), campaign_of_torture(points=2, lost=1)], "all_well": False}
    assert trials.judge_torture(lost, 1).outcome == runs.WRONG
    lost["campaigns"][1]["failures"] = ["seed 1: recovery ended with status 1: it was written to"]
    assert trials.judge_torture(lost, 1).outcome == runs.FAILED
    assert trials.judge_torture({"campaigns": [campaign_of_torture()], "all_well": True}, 0).outcome == runs.FAILED
    well = {"campaigns": [campaign_of_torture(points=3, kills=2)], "all_well": True}
    assert trials.judge_torture(well, 0).outcome == runs.RIGHT


@pytest.mark.parametrize(
    "cases, outcome",
    [
        ("<testcase name='a'/>", "right"),
        ("<testcase name='a'/><testcase name='b'><failure/></testcase>", "failed"),
        ("<testcase name='a'><skipped/></testcase>", "failed"),
    ],
)
def test_a_failed_test_is_named_and_skips_alone_are_no_success(cases, outcome):
    row = trials.judge_tests(ElementTree.fromstring(f"<testsuite>{cases}</testsuite>"))
    assert row.outcome == outcome
    assert ("b" in row.told) == ("failure" in cases)


@pytest.fixture(name="places")
def folders(tmp_path):
    return runs.Places(tmp_path, tmp_path, tmp_path, tmp_path)


def outage_that_ends(monkeypatch, places, ended, wrong):
    monkeypatch.setattr(outage, "write_under_outage", lambda *_: ended)
    monkeypatch.setattr(outage, "wrong_bytes", lambda *_: (wrong, ""))
    monkeypatch.setattr(outage, "status_of", lambda *_: 0)
    monkeypatch.setattr(outage, "recover", lambda *_: (True, "forebay recover"))
    return outage.outage(None, places, "store killed", "", 1)


@pytest.mark.parametrize(
    "ended, wrong, outcome",
    [
        (outage.Ended(0, ["flushed 0", "closed"]), 0, "right"),
        (outage.Ended(0, ["flushed 0", "closed"]), 7, "wrong"),
        (outage.Ended(3, ["flushed 0", "failed flushed 1"]), 0, "told"),
        (outage.Ended(3, ["flushed 0", "failed flushed 1"]), 7, "wrong"),
        (outage.Ended(-11, ["flushed 0"]), 0, "failed"),
    ],
)
def test_an_outage_is_right_told_or_wrong(monkeypatch, places, ended, wrong, outcome):
    row = outage_that_ends(monkeypatch, places, ended, wrong)
    assert (row.outcome, row.wrong_bytes) == (outcome, wrong)


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path):
    child = tmp_path / "child"
    code = f"sleep 60 & echo $! > {child}; wait"
    done = runs.run(["sh", "-c", code], dict(os.environ), 1)
    assert done.returncode == -1 and "has not ended" in done.stderr
    end = time.monotonic() + 20
    while is_running(int(child.read_text())):
        assert time.monotonic() < end
        time.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
