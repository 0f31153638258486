"""`forebay torture`: what it counts, what it says, and what it leaves."""

import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from forebay.slowfs import SlowFS, available
from test_cli import FOREBAY, call, clean_environment

pytestmark = pytest.mark.slow

CAMPAIGNS = [
    "killed while writing",
    "killed at the Nth write call",
    "killed while recovering",
    "killed again while recovering",
]
FAULTS = ["target fails, closed", "target fails, killed", "staging fails, closed", "staging fails, killed"]
SERVERS = ["connection cut", "client killed", "server killed", "stopped for a while", "all of these"]
COUNTS = ("lost", "hung", "wrong", "unreported", "failures")


@pytest.fixture
def places(tmp_path):
    """A staging directory and one for files, as options."""
    folders = [tmp_path / "staging area", tmp_path / "files"]
    for folder in folders:
        folder.mkdir()
    return ["--nls", folders[0], "--target", folders[1]]


def left(places):
    return [entry for folder in places[1::2] for entry in folder.iterdir()]


def shows_all(report):
    """Staging was on: processes had committed, logs were needed, and a failure was told of."""
    campaigns = report["campaigns"]
    told = next(campaign["told"] for campaign in campaigns if campaign["name"] == FAULTS[0])
    return told > 0 and all(sum(campaign[of] for campaign in campaigns) > 0 for of in ("commits", "replayed_bytes"))


def test_every_campaign_kills_recovers_and_loses_nothing(places):
    for minutes in ("0.08", "0.3", "1", "4"):  # on a busy machine few points are tried in a short time
        done = call("torture", "--minutes", minutes, "--json", *places)
        report = json.loads(done.stdout)
        assert done.returncode == 0 and report["all_well"], done.stdout + done.stderr
        if shows_all(report):
            break
    assert shows_all(report), report
    assert [campaign["name"] for campaign in report["campaigns"]] == CAMPAIGNS + FAULTS
    tried = [campaign for campaign in report["campaigns"] if not campaign["skipped"]]
    for campaign in tried:
        assert campaign["points"] >= 1, campaign
        assert campaign["recovered"] == campaign["points"], campaign
        assert [campaign[count] for count in COUNTS] == [0, 0, 0, 0, []], campaign
        assert campaign["worst_recovery_s"] > 0, campaign
    by_name = {campaign["name"]: campaign for campaign in report["campaigns"]}
    assert by_name["killed while writing"]["kills"] == by_name["killed while writing"]["points"]
    assert by_name["killed while recovering"]["kills"] >= 2 * by_name["killed while recovering"]["points"]
    again = by_name["killed again while recovering"]
    assert again["kills"] >= 3 * again["points"]
    for name in FAULTS:
        assert by_name[name]["kills"] == (by_name[name]["points"] if "killed" in name else 0), by_name[name]
    assert left(places) == []


def test_without_strace_its_campaign_is_skipped_by_name(places, tmp_path):
    done = call("torture", "--minutes", "0.02", "--json", *places, PATH=tmp_path)
    by_name = {campaign["name"]: campaign for campaign in json.loads(done.stdout)["campaigns"]}
    assert done.returncode == 0, done.stdout + done.stderr
    assert by_name.pop(CAMPAIGNS[1])["skipped"] == "there is no strace"
    assert all(campaign["points"] > 0 and not campaign["skipped"] for campaign in by_name.values())


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_with_strace_processes_die_at_their_calls(places):
    campaigns = json.loads(call("torture", "--minutes", "0.05", "--json", *places).stdout)["campaigns"]
    if campaigns[1]["skipped"].startswith("strace cannot trace here"):
        pytest.skip(campaigns[1]["skipped"])
    assert campaigns[1]["points"] == campaigns[1]["kills"] > 0, campaigns[1]


def test_the_log_of_a_given_size_is_recovered_and_timed(places):
    done = call("torture", "--minutes", "0.01", "--log", "24MiB", "--json", *places)
    speed = json.loads(done.stdout)["speed"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert speed["right"] and 0 < speed["bytes"] <= 24 << 20
    assert speed["recovery_s"] > 0 and speed["sequential_s"] > 0
    assert left(places) == []


def test_the_table_ends_with_a_verdict(places):
    done = call("torture", "--minutes", "0.01", *places)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        done.stdout.splitlines()[-1]
        == "Verdict: no byte was lost or wrong, no process hung, and each failure was reported."
    )
    assert all(name in done.stdout for name in CAMPAIGNS + FAULTS)


@pytest.fixture
def on_disk():
    """The same places, where a loss of power leaves something: durability=node is refused in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="forebay-test-") as folder:
        paths = [Path(folder) / "staging area", Path(folder) / "files"]
        for path in paths:
            path.mkdir()
        yield ["--nls", paths[0], "--target", paths[1]]


def test_the_process_runs_with_the_options_that_are_given(on_disk):
    done = call("torture", "--minutes", "0.02", "--json", "-o", "durability=node", "-o", "on_error=retry", *on_disk)
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["all_well"], done.stdout + done.stderr
    assert report["options"] == ["durability=node", "on_error=retry"]
    assert sum(campaign["commits"] for campaign in report["campaigns"]) > 0
    assert left(on_disk) == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
@pytest.mark.parametrize("durability, syncs", [("process", False), ("node", True)])
def test_with_durability_node_the_process_syncs(on_disk, tmp_path, durability, syncs):
    calls = tmp_path / "calls"
    traced = subprocess.run(
        [
            shutil.which("strace"),
            "-f",
            "-qq",
            "-e",
            "trace=fdatasync,fsync,execve",
            "-o",
            calls,
            FOREBAY,
            "torture",
            "--minutes",
            "0.01",
            "--json",
            "-o",
            f"durability={durability}",
            *on_disk,
        ],
        env=clean_environment(PATH=tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )  # strace cannot be traced: the second campaign does not find it
    if "ptrace" in traced.stderr:
        pytest.skip(traced.stderr)
    assert traced.returncode == 0, traced.stdout + traced.stderr
    lines = calls.read_text().splitlines()
    victims = {line.split()[0] for line in lines if '"victim"' in line}
    synced = {line.split()[0] for line in lines if "sync(" in line and "= 0" in line}
    assert victims
    assert bool(victims & synced) == syncs


@pytest.mark.parametrize(
    "spoil, counts", [("byte", "wrong lost"), ("loss", "lost wrong"), ("silence", "unreported"), ("hang", "hung")]
)
def test_what_goes_wrong_is_counted_kept_and_in_the_exit_status(places, spoil, counts):
    """A target that lies about what it took, and a process that says nothing of a failure, or hangs."""
    done = call(
        "torture", "--minutes", "0.5", "--spoil", spoil, "--patience", "3", "--json", "-o", "on_error=fail", *places
    )
    report = json.loads(done.stdout)
    assert done.returncode == 1 and not report["all_well"], done.stdout
    spoilt = next(campaign for campaign in report["campaigns"] if campaign["failures"])
    assert spoilt["name"] in FAULTS and spoilt["points"] == spoilt["recovered"] + 1
    assert sum(spoilt[count] for count in counts.split()) == 1, spoilt
    assert [
        sum(campaign[count] for count in COUNTS[:4]) for campaign in report["campaigns"] if campaign is not spoilt
    ] == [0] * 7
    # The evidence is that of this point: nothing was tried after it.
    assert all(campaign["skipped"] for campaign in report["campaigns"][report["campaigns"].index(spoilt) + 1 :])
    assert len(left(places)) == 2 and str(left(places)[0]) in report["kept"]


def test_in_memory_no_sync_fails_and_the_report_says_so(tmp_path):
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="forebay-test-") as folder:
        done = call("torture", "--minutes", "0.04", "--nls", folder, "--target", tmp_path, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["all_well"], done.stdout + done.stderr
    assert ["durability=node" in campaign["left_out"] for campaign in report["campaigns"]] == [False] * 4 + [True] * 4


@pytest.mark.parametrize(
    "setting, complaint",
    [
        ("durability=moon", "durability"),
        ("nosuch=1", "nosuch"),
        ("durability", "name=value"),
        ("nls=/tmp", "--nls"),
        ("size=4MiB", "itself"),
    ],
)
def test_an_option_that_cannot_be_set_is_refused(places, setting, complaint):
    done = call("torture", "-o", setting, *places)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("forebay torture: ") and complaint in done.stderr
    assert left(places) == []


@pytest.mark.parametrize("option", ["--nls", "--target"])
def test_a_directory_that_is_not_there_is_refused_with_the_option(places, tmp_path, option):
    for missing in ("/proc", tmp_path / "missing"):
        places[places.index(option) + 1] = missing
        done = call("torture", *places)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith(f"forebay torture: {option}: ") and str(missing) in done.stderr
    assert [entry for folder in places[1::2] if folder.exists() for entry in folder.iterdir()] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the super-user may write everywhere")
def test_a_directory_that_cannot_be_written_is_refused_with_the_option(places):
    places[3].chmod(0o500)
    done = call("torture", *places)
    assert done.returncode == 2 and done.stderr.startswith("forebay torture: --target: ")
    assert left(places) == []


def test_on_a_terminal_there_is_a_bar_and_an_interruption_leaves_nothing(places):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [FOREBAY, "torture", "--minutes", "5", *places],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    drawn = os.read(ours, 4096)  # it is at work then, and minds signals
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert b"[" in drawn and CAMPAIGNS[0].encode() in drawn
    assert process.returncode == 128 + signal.SIGINT, out
    assert out.endswith("Verdict: none, it was interrupted.\n")
    assert left(places) == []


@pytest.fixture
def slow_places(tmp_path):
    """The same, and a target that is slow."""
    usable, reason = available()
    if not usable:
        pytest.skip(reason)
    (tmp_path / "nls").mkdir()
    with SlowFS(tmp_path / "backing", tmp_path / "target", bandwidth="40MiB/s", latency={"write": "5ms"}):
        yield ["--nls", tmp_path / "nls", "--target", tmp_path / "target"]


def test_servers_and_clients_are_cut_off_stopped_and_killed_and_nothing_is_lost(slow_places):
    done = call("torture", "--server", "--seed", "6", "--minutes", "0.01", "--json", *slow_places)
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["all_well"], done.stdout + done.stderr
    assert report["seed"] == 6 and [campaign["name"] for campaign in report["campaigns"]] == SERVERS
    figures = [campaign["servers"] for campaign in report["campaigns"]]
    assert all(each["sessions"] > 0 for each in figures)
    for count in ("cuts", "clients_killed", "servers_killed", "stops", "closed", "readers", "committed_bytes"):
        assert sum(each[count] for each in figures) > 0, (count, figures)
    assert left(slow_places) == []


def test_what_a_client_loses_on_its_way_to_a_server_is_noticed(slow_places):
    done = call("torture", "--server", "--minutes", "0.05", "--spoil", "loss", "--json", *slow_places)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and not report["all_well"], done.stdout + done.stderr
    assert sum(campaign["lost"] + campaign["wrong"] for campaign in report["campaigns"]) == 1, done.stdout
    assert len(left(slow_places)) == 2 and report["kept"]
