"""Metadata that neither the staging log nor the target takes: no later flush or close commits the file without them.

The target refuses bytes beyond a limit, and the log is full. HDF5 then goes on after a refused write: its flush and its
close still call the driver. Recovery must bring back the last state that the program flushed, byte for byte.
"""

import signal
import sys

import pytest
from connector_environment import native, run, run_python, staged
from test_recover import recover, without_marks

h5py = pytest.importorskip("h5py")

# Makes a state in the file, and then a second one, of which the log takes only the first part.
PROGRAM = """
import h5py, numpy as np, os, resource, shutil, signal, sys
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
limit = lambda bytes: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, hard))
def call(name, what):
    try:
        what()
        print(name, "ok", flush=True)
    except Exception as error:
        print(name, "failed", flush=True)
        print(name, error, file=sys.stderr, flush=True)
f = h5py.File("x.h5", "w", **OPTIONS)
f["data"] = np.zeros(1000)
f.attrs["step"] = 1
for i in range(200):
    f.create_group(f"old{i}").attrs["step"] = 1
f.create_dataset("big", (16 << 20,), "f8")[-1] = 1   # the file has its length
f.flush()
shutil.copy("x.h5", "first.h5")
limit(40 << 20)
f["data"][:] = 2
f["data"].flush()
def fill():
    for begin in range(8 << 20, 16 << 20, 1 << 17):
        f["big"][begin : begin + (1 << 17)] = 2
call("fill", fill)
def change():
    f.attrs["step"] = 2
    for i in range(200):
        f[f"old{i}"].attrs["step"] = 2
        f.create_group(f"new{i}").attrs["step"] = 2
        f[f"new{i}"].attrs["more"] = np.ones(2500)   # together more than the log has left
call("change", change)
"""
SECOND = """
def is_second(path):
    with h5py.File(path) as f:
        assert f.attrs["step"] == 2 and (f["data"][:] == 2).all()
        assert all(f[f"old{i}"].attrs["step"] == f[f"new{i}"].attrs["step"] == 2 for i in range(200))
"""
SMALL_LOG = "size=16MiB;flush=drain"


def left_by(folder, end, options="", version="latest"):
    """What the program printed and its end status, and the bytes of the file's first state."""
    code = PROGRAM.replace("**OPTIONS", f"libver='{version}'") + end
    done = run([sys.executable, "-c", code], staged(folder, SMALL_LOG + options), folder)
    told = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    return done, told, without_marks(folder / "first.h5")


@pytest.mark.parametrize("version", ["latest", "earliest"])
@pytest.mark.parametrize("end", ["close", "exit"])
def test_a_close_without_the_metadata_leaves_the_last_flush(tmp_path, end, version):
    ends = {"close": 'call("close", f.close); os._exit(0)', "exit": "pass"}
    done, told, first = left_by(tmp_path, ends[end], version=version)
    assert done.returncode == 0, done.stderr
    assert told["fill"] == "failed" and told.get("close", "failed") == "failed", done.stdout
    recover(tmp_path / "staging-area")
    assert without_marks(tmp_path / "x.h5") == first


@pytest.mark.parametrize("version", ["latest", "earliest"])
def test_a_flush_commits_once_the_target_takes_everything_or_leaves_the_last_flush(tmp_path, version):
    end = """
call("flush", f.flush)
limit(hard)
call("again", f.flush)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done, told, first = left_by(tmp_path, end, version=version)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert told["fill"] == told["flush"] == "failed", done.stdout
    recover(tmp_path / "staging-area")
    if told["again"] == "failed":
        assert without_marks(tmp_path / "x.h5") == first
    else:
        run_python("import h5py" + SECOND + 'is_second("x.h5")', native(), tmp_path)
