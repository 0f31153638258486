"""`forebay run --report`: the page, its figures and the trace; and `forebay status --prometheus`."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from connector_environment import native
from test_cli import FOREBAY, binary, call, nls  # noqa: F401 (fixtures)
from test_cli_status import MIB, open_file, own_ledger, put, start_ticks

from forebay.slowfs import SlowFS, available

pytest.importorskip("h5py")

_usable, _reason = available()
needs_slowfs = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

CHROMIUM = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)

WRITE = """
import h5py, numpy as np
with h5py.File(NAME, "w") as f:
    f["x"] = np.arange(1 << 20)
"""
KILLED = """
import h5py, numpy as np, os, signal
f = h5py.File(NAME, "w")
f["x"] = np.arange(1 << 20)
f.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder, code, *options, name="x.h5", cwd=None):
    area = folder / "area"
    area.mkdir(exist_ok=True)
    command = [FOREBAY, "run", "-o", f"nls={area}", *options, "--report", folder / "report", "--"]
    return subprocess.run(
        [*command, sys.executable, "-c", f"NAME = {name!r}\n{code}"],
        env=native(),
        cwd=cwd or folder,
        capture_output=True,
        text=True,
        timeout=200,
    )


class Page(HTMLParser):
    """The text of a page, and whether its elements are closed in order."""

    VOID = frozenset(["meta", "path", "rect"])

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.links, self.lanes = [], "", [], 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        self.lanes += tag == "path" and dict(attributes).get("fill", "").startswith("var(--")
        self.links += [value for name, value in attributes if name in ("href", "src")]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


@needs_slowfs
def test_the_page_and_the_figures_tell_what_the_run_did(tmp_path):
    with SlowFS(tmp_path / "backing", tmp_path / "target", bandwidth="100MiB/s"):
        done = run(tmp_path, WRITE, name="target/x.h5")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    totals, line = report["summary"]["totals"], report["timeline"]
    assert totals["staged"] > 0 and totals["staged"] + totals["through"] > 8 * MIB
    assert report["target_bytes_per_s"] > 0 and report["native_s_estimated"] > 0
    assert sum(line["written_bytes"]) == pytest.approx(totals["drained"] + totals["through"], rel=0.01)
    assert len(line["waiting"]) == len(line["written_bytes"]) and all(0 <= share <= 1 for share in line["waiting"])
    assert line["interval_s"] * len(line["waiting"]) == pytest.approx(report["summary"]["elapsed_s"], rel=0.01)
    trace = [json.loads(text) for text in (tmp_path / "report" / "trace.jsonl").read_text().splitlines()]
    # What is overwritten while its drain is under way does not count as drained.
    reached = totals["drained"] + totals["through"]
    written = sum(one["bytes"] for one in trace if one["kind"] == "write")
    assert reached <= written <= reached + totals["superseded"]
    assert all(one["begin_ns"] <= one["end_ns"] and one["pid"] > 0 for one in trace)
    waits = sum(one["end_ns"] - one["begin_ns"] for one in trace if one["kind"] == "wait")
    assert 0 < waits <= totals["stage_ns"] + totals["close_ns"]

    page = Page((tmp_path / "report" / "report.html").read_text())
    assert page.open == [] and page.links == [], "whole, and without anything from elsewhere"
    assert page.lanes == 2 and f"{tmp_path}/target/x.h5" in page.text


@needs_slowfs
def test_reads_of_a_cached_file_are_on_the_page(tmp_path):
    with SlowFS(tmp_path / "backing", tmp_path / "target"):
        subprocess.run(
            [sys.executable, "-c", f"NAME = {str(tmp_path / 'target' / 'x.h5')!r}\n{WRITE}"], env=native(), check=True
        )
        read = "import h5py\nwith h5py.File(NAME) as f:\n    f['x'][:]"
        done = run(tmp_path, read, "-o", "read_cache=on", name="target/x.h5")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert sum(report["timeline"]["read_bytes"]) > 8 * MIB
    assert "Bytes are read from files that are cached" in (tmp_path / "report" / "report.html").read_text()


@needs_slowfs
def test_each_file_that_was_read_has_its_hits_and_misses(tmp_path):
    read = "import h5py\nfor n in (1, 2):\n  for _ in range(n):\n    with h5py.File(f'target/{n}.h5') as f: f['x'][:]\n"
    read += "with h5py.File('local.h5') as f: f['x'][:]"
    with SlowFS(tmp_path / "backing", tmp_path / "target", latency={"read": "0.2ms"}, clock_behind=3600):
        for name in ("target/1.h5", "target/2.h5", "local.h5"):
            subprocess.run([sys.executable, "-c", f"NAME = {name!r}\n{WRITE}"], env=native(), cwd=tmp_path, check=True)
        done = run(tmp_path, read, "-o", "read_cache=on")
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "report" / "report.json").read_text())["summary"]
    by_path = {one["path"]: one["cache"] for one in summary["read_files"]}
    paths = [str(tmp_path / name) for name in ("local.h5", "target/1.h5", "target/2.h5")]
    assert sorted(by_path) == paths
    assert by_path[paths[0]]["aside"] == {"fast": 1} and by_path[paths[0]]["hit_bytes"] == 0
    for times, path in ((1, paths[1]), (2, paths[2])):
        cache = by_path[path]
        assert cache["files"] == times
        assert cache["hit_bytes"] + cache["missed_bytes"] >= times * 8 * MIB
    for key in ("files", "hit_bytes", "missed_bytes", "fetched_bytes", "stored_bytes", "unread_bytes"):
        assert summary["read_cache"][key] == sum(cache[key] for cache in by_path.values()), key
    page = Page((tmp_path / "report" / "report.html").read_text())
    assert page.open == [] and all(page.text.count(path) == 1 for path in paths)


def test_names_of_files_cannot_become_part_of_the_page(tmp_path):
    done = run(tmp_path, WRITE, name="<script>x.h5")
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "report" / "report.html").read_text()
    assert "<script" not in html and "&lt;script&gt;x.h5" in html


# Pieces of most of a stripe with room between them: however a drain cuts them, each part has an end within a stripe.
PIECES_APART = """
import h5py, numpy
with h5py.File(NAME, 'w') as f:
    d = f.create_dataset('x', (300 << 20,), 'u1', fill_time='never')
    for i in range(130):
        d[i * 2300000 : i * 2300000 + 600000] = numpy.uint8(i)
"""


@pytest.mark.parametrize(
    "options, code, option",
    [
        (["-o", "flush=drain"], "import h5py\nh5py.File(NAME, 'w', driver='core').close()", ""),
        (["-o", "read_cache=off"], WRITE + "h5py.File(NAME).close()", "read_cache=auto"),
        ([], PIECES_APART, "stripe"),
    ],
    ids=["driver", "only_read", "pieces_apart"],
)
def test_advice_names_what_was_seen_and_the_option(tmp_path, options, code, option):
    done = run(tmp_path, code, *options)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert option in [one["option"] for one in report["advice"]], report["advice"]
    assert all(one["finding"] and one["action"] for one in report["advice"])
    html = (tmp_path / "report" / "report.html").read_text()
    assert all(one["finding"] in html for one in report["advice"])


@needs_slowfs
def test_what_was_not_drained_is_on_the_page(tmp_path):
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r])" % ("NAME='target/x.h5'\n" + KILLED)
    with SlowFS(tmp_path / "backing", tmp_path / "target", faults=["op=write,hang"]):
        done = run(tmp_path, code)
    assert done.returncode == 74, done.stderr
    html = (tmp_path / "report" / "report.html").read_text()
    assert f"Not drained: {tmp_path}/target/x.h5" in html and "forebay recover" in html


def test_a_folder_that_cannot_be_made_is_told_before_the_program_runs(tmp_path):
    (tmp_path / "report").write_text("a file")
    done = run(tmp_path, "open('ran', 'w')")
    assert done.returncode == 2 and "report" in done.stderr and not (tmp_path / "ran").exists(), done.stderr


def test_what_an_earlier_run_left_in_the_folder_is_not_told_again(tmp_path):
    assert run(tmp_path, WRITE).returncode == 0
    assert run(tmp_path, "pass").returncode == 0
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert sum(report["timeline"]["written_bytes"]) == 0 and report["summary"]["distinct_files"] == 0


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_a_browser_without_a_network_shows_it(tmp_path):
    assert run(tmp_path, WRITE).returncode == 0
    shown = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        + ["--dump-dom", f"file://{tmp_path}/report/report.html"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert shown.returncode == 0 and "Time line" in shown.stdout and "</svg>" in shown.stdout, shown.stderr


# ---- metrics ----


def test_metrics_sum_up_the_node(nls):
    one, other = open_file(), open_file(path="/scratch/other.h5", inode=7)
    put(nls, f"{os.getpid()}-{start_ticks(os.getpid())}-0", own_ledger(one, other))
    done = call("status", "--nls", nls, "--prometheus")
    assert done.returncode == 0, done.stderr
    metrics = parse(done.stdout)
    assert metrics["forebay_pending_bytes", ""] == one["pending"] + other["pending"]
    assert metrics["forebay_files", 'state="at_work"'] == 2 and metrics["forebay_files", 'state="left_behind"'] == 0
    assert metrics["forebay_processes", 'state="alive"'] == 1
    assert metrics["forebay_log_bytes", ""] == 10 * MIB  # segments that are allocated
    assert metrics["forebay_oldest_pending_seconds", ""] >= 2
    assert metrics["forebay_left_behind_bytes", ""] == metrics["forebay_unseen", ""] == 0


def parse(text):
    """Metrics by name and labels; each has been announced with its help and type."""
    announced, metrics = set(), {}
    for line in text.splitlines():
        if found := re.fullmatch(r"# (HELP|TYPE) (\w+) .+", line):
            announced.add((found[1], found[2]))
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        assert ("HELP", name) in announced and ("TYPE", name) in announced, line
        metrics[name, labels or ""] = float(value)
    return metrics
