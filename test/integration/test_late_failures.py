"""Programs on a target that loses a write and reports it at a later call, or hides a file while a server is down.

Network file systems do that. The target is a slowfs mount. docs/consistency.md, "A target that reports late", and
docs/recovery.md have the promises.
"""

import signal
import subprocess
import sys

import numpy as np
import pytest
from connector_environment import asides, bytes_staged, native, run, staged
from test_recover import left, recover

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

# A write that the program has flushed when it goes on.
LOSS = "op=write,errno=EIO,late,offset=1MiB..2MiB,count=1"
STEPS, STEP_BYTES = 4, 1 << 20
WRITE = f"""
import h5py, numpy as np, sys
f = h5py.File("target/x.h5", "w")
for step in range({STEPS}):
    f[f"step{{step}}"] = np.random.default_rng(step).integers(0, 256, {STEP_BYTES}, dtype=np.uint8)
    f.flush()
print("flushed", flush=True)
if sys.argv[1] == "waits": sys.stdin.read()
try:
    f.close()
    print("closed", flush=True)
except Exception as error:
    print("failed", error, flush=True)
"""


def lost_steps(path):
    """The steps of the file that differ from those that the program wrote."""
    with h5py.File(path) as f:
        return [
            step
            for step in range(STEPS)
            if (f[f"step{step}"][()] != np.random.default_rng(step).integers(0, 256, STEP_BYTES, dtype=np.uint8)).any()
        ]


@pytest.fixture
def target(tmp_path):
    with SlowFS(tmp_path / "backing", tmp_path / "target", faults=[LOSS]) as fs:
        yield fs


def hits(fs):
    return [rule["hit"] for rule in fs.stats()["faults"]]


def test_a_native_program_loses_the_bytes_and_its_close_says_so(target, tmp_path):
    done = run([sys.executable, "-c", WRITE, "ends"], native(), tmp_path)
    assert hits(target) == [1]
    assert "failed" in done.stdout, done.stdout + done.stderr
    assert lost_steps(tmp_path / "backing/x.h5")


@pytest.mark.parametrize("options", ["", "flush=drain", "on_error=retry", "close=deferred", "durability=node"])
def test_the_close_writes_the_lost_bytes_again(target, tmp_path, options):
    done = run([sys.executable, "-c", WRITE, "ends"], staged(tmp_path, options), tmp_path)
    assert hits(target) == [1]
    assert bytes_staged(tmp_path) > STEPS * STEP_BYTES, asides(tmp_path)
    if "closed" not in done.stdout:
        # A failed sync of a durable file is never repeated. The log has all that it has lost.
        assert options == "durability=node" and "staging log" in done.stdout, done.stdout + done.stderr
        status, report = recover(tmp_path / "staging-area")
        assert status == 0, report
    assert set(left(tmp_path / "staging-area")) <= {"closing"}
    assert lost_steps(tmp_path / "backing/x.h5") == []


def test_recovery_writes_the_lost_bytes_of_a_killed_program(target, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, "waits"],
        env=staged(tmp_path, "flush=drain"),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout.readline() == "flushed\n"
        assert hits(target) == [1]
        program.send_signal(signal.SIGKILL)
    assert lost_steps(tmp_path / "backing/x.h5")
    status, report = recover(tmp_path / "staging-area")
    assert status == 0, report
    assert left(tmp_path / "staging-area") == []
    assert lost_steps(tmp_path / "backing/x.h5") == []


def test_a_file_that_its_server_hides_is_not_taken_for_deleted(tmp_path):
    with SlowFS(tmp_path / "backing", tmp_path / "target") as fs:
        with subprocess.Popen(
            [sys.executable, "-c", WRITE, "waits"],
            env=staged(tmp_path),
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout.readline() == "flushed\n"
            program.send_signal(signal.SIGKILL)
        (tmp_path / "backing/x.h5").rename(tmp_path / "hidden.h5")
        before = left(tmp_path / "staging-area")
        for arguments in ([], [fs / "x.h5"]):
            status, report = recover("--nls", tmp_path / "staging-area", *arguments)
            assert status != 0, report
            assert [file["reason"] for file in report["files"]] == ["missing"], report
        assert left(tmp_path / "staging-area") == before
        (tmp_path / "hidden.h5").rename(tmp_path / "backing/x.h5")
        status, report = recover(tmp_path / "staging-area")
        assert status == 0, report
        assert lost_steps(tmp_path / "backing/x.h5") == []
