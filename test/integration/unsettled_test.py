"""Files whose process is not known to be dead, and may still write to them: killed in a write, or given up by a close.

The target is a slowfs mount. A write to it that takes seconds is waited for by the system although its process was
killed, and reaches the file then.
"""

import json
import signal
import subprocess
import sys
import time

import pytest
from connector_environment import native
from test_cli import call
from test_liveness import OPEN, left, python, staged

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

# Twos are flushed; no "late". The write that is under way takes as long as its latency.
WRITER = """
f = h5py.File(sys.argv[1], "r+", locking=False)
f["x"][...] = 2
f.flush()
print("flushed", flush=True)
f["late"] = np.arange(1000)
time.sleep(600)
"""
READ = """
try:
    with h5py.File(sys.argv[1], sys.argv[2], locking=False) as f:
        print(sorted(set(f["x"][...].tolist())), "late" in f)
except OSError as error:
    print("refused:", error)
"""


@pytest.fixture
def area(tmp_path):
    made = tmp_path / "area"
    made.mkdir()
    return made


@pytest.fixture
def target(tmp_path):
    with SlowFS(tmp_path / "backing", tmp_path / "target") as mount:
        subprocess.run(
            [sys.executable, "-c", f"{OPEN}with h5py.File(sys.argv[1], 'w') as f: f['x'] = np.full(1 << 20, 1, 'i4')"]
            + [str(tmp_path / "target" / "x.h5")],
            env=native(),
            check=True,
        )
        yield mount
        mount.clear()


def killed_in_a_write(target, area, path, seconds):
    """Its number. The write that is under way goes on for as long."""
    target.set_latency(f"{seconds}s", "write")
    writer = subprocess.Popen(
        [sys.executable, "-c", OPEN + WRITER, str(path)],
        env=staged(area, "size=64MiB;drain_threads=1"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout.readline() == "flushed\n"
    while json.loads((path.parent / ".slowfs").read_text())["in_flight"] == 0:
        time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    target.set_latency("0s", "write")  # of others
    return writer


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_file_is_not_opened_before_the_last_write_of_a_killed_process_has_come(tmp_path, target, area, mode):
    path = tmp_path / "target" / "x.h5"
    writer = killed_in_a_write(target, area, path, 3)
    refused = python(READ, area, path, mode, FOREBAY_PATIENCE="1")
    assert f"process {writer.pid} is ending" in refused.stdout, refused.stdout + refused.stderr
    flushed = python(READ, area, path, mode)
    assert flushed.stdout == "[2] False\n", flushed.stdout + flushed.stderr
    writer.wait()
    assert left(area) == []


def test_recover_right_after_the_kill_waits_for_the_process(tmp_path, target, area):
    path = tmp_path / "target" / "x.h5"
    writer = killed_in_a_write(target, area, path, 3)
    done = call("recover", area)
    assert done.returncode == 0 and "recovered: to its commit" in done.stdout, done.stdout + done.stderr
    assert f"process {writer.pid} is ending" in done.stderr
    writer.wait()
    assert left(area) == []
    with h5py.File(path) as f:
        assert (f["x"][...] == 2).all() and "late" not in f


def test_a_file_that_a_living_process_could_not_close_is_refused_at_once(tmp_path, target, area):
    path = tmp_path / "target" / "x.h5"
    target.fault("op=write,hang")
    program = """
f = h5py.File(sys.argv[1], "r+", locking=False)
f["x"][...] = 2
try:
    f.close()
except Exception as error:
    print("gave up", flush=True)
sys.stdin.readline()
os._exit(0)
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", OPEN + program, str(path)],
        env=staged(area, FOREBAY_PATIENCE="1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "gave up\n"
    for mode in ("r", "r+", "w"):
        refused = python(READ, area, path, mode)  # whose patience is ten minutes
        assert f"process {holder.pid} has closed it" in refused.stdout, refused.stdout + refused.stderr
    done = call("recover", path, "--nls", area)
    assert done.returncode == 1 and str(holder.pid) in done.stdout
    holder.kill()
    holder.wait()
    target.clear()
    flushed = python(READ, area, path, "r")
    assert flushed.stdout == "[2] False\n", flushed.stdout + flushed.stderr
