"""`forebay run` counts what all processes of a program read, however they end, and says whose figures it lacks."""

import json
import os
import subprocess
import sys

import pytest
from connector_environment import native, run_python
from forebay.slowfs import SlowFS, available
from test_cli import FOREBAY

pytest.importorskip("h5py")

_usable, _reason = available()
needs_slowfs = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

DATA_BYTES = 4 << 20
MAKE = f"""
import h5py, numpy as np
with h5py.File("target/data.h5", "w") as f:
    f["x"] = np.arange({DATA_BYTES // 8})
"""
# The last line of `read` is how the process ends.
CHILDREN = """
import multiprocessing, os, signal, subprocess, sys
def read(end=os._exit, file=None):
    import h5py
    if (file or h5py.File("target/data.h5"))["x"][:].sum() > 0: end(0)
def killed():
    read(lambda _: os.kill(os.getpid(), signal.SIGKILL))
if __name__ == "__main__":
    way = sys.argv[1]
    if way == "fork":
        children = [os.fork() or read() for _ in range(2)]
        for child in children: os.waitpid(child, 0)
    elif way == "fork with the file open":
        import h5py
        file = h5py.File("target/data.h5")
        length = len(file["x"])
        for _ in range(2):
            child = os.fork()
            os.waitpid(child, 0) if child else read(file=file)
    elif way == "execed":
        if len(sys.argv) == 2: read(lambda _: os.execv(sys.executable, [sys.executable, __file__, way, "again"]))
        read()
    else:
        how = "spawn" if way == "killed" else way
        context = multiprocessing.get_context(how)
        children = [context.Process(target=killed if way == "killed" else read) for _ in range(2)]
        for child in children: child.start()
        for child in children: child.join()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("children")
    with SlowFS(folder / "backing", folder / "target"):
        run_python(MAKE, native(), folder)
        (folder / "children.py").write_text(CHILDREN)
        yield folder


def summary_of(folder, area, *command):
    area.mkdir(exist_ok=True)
    done = subprocess.run(
        [FOREBAY, "run", "-o", f"nls={area}", "-o", "read_cache=on", "--report", area / "report", "--json"]
        + [area / "run.json", "--", *command],
        env=native(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((area / "run.json").read_text()), done.stderr, (area / "report" / "report.html").read_text()


@needs_slowfs
@pytest.mark.parametrize(
    "way", ["fork", "fork with the file open", "spawn", "forkserver", "killed", "execed"], ids=lambda way: way
)
def test_what_children_read_is_counted_however_they_end(folder, tmp_path, way):
    told, said, _ = summary_of(folder, tmp_path / "area", sys.executable, "children.py", way)
    cache = told["read_cache"]
    read = cache["hit_bytes"] + cache["missed_bytes"] + cache["remote_bytes"]
    assert 2 * DATA_BYTES <= read < 2 * DATA_BYTES + (1 << 20), said
    assert told["gaps"] == [] and told["processes"] >= 1
    assert sum(one["cache"]["hit_bytes"] + one["cache"]["missed_bytes"] for one in told["read_files"]) == read


LINE = "import os; open(os.environ['FOREBAY_RUN'].split(':')[-1], 'a').write(%r)"


def test_a_process_without_figures_is_named_and_nothing_is_said_to_be_perfect(tmp_path):
    lines = [{"began": {"pid": 4194305, "name": "worker", "tally": ""}}]
    lines += [{"process": {"pid": 4194306, "files_opened": 1, "cache": {"files": 1, "hit_bytes": 4096}}}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    told, said, page = summary_of(tmp_path, tmp_path / "area", sys.executable, "-c", LINE % text)
    assert len(told["gaps"]) == 1 and "process 4194305 (worker)" in told["gaps"][0]
    assert "no figures of process 4194305 (worker)" in said and "100 % hits)" not in said
    assert "process 4194305 (worker)" in page and "suggest no change" not in page


def test_a_program_that_uses_no_hdf5_is_not_praised(tmp_path):
    _, said, page = summary_of(tmp_path, tmp_path / "area", "true")
    assert "no HDF5 file went through forebay" in said and "No HDF5 file went through forebay" in page


def test_the_folder_of_a_run_that_was_killed_goes_with_the_next_run(tmp_path):
    temporary, area = tmp_path / "temporary", tmp_path / "area"
    temporary.mkdir(), area.mkdir()
    environment = {**native(), "TMPDIR": str(temporary)}

    def start(*program):
        command = [FOREBAY, "run", "-q", "-o", f"nls={area}", "--", *program]
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    tell = [sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()"]
    killed, living = start(*tell), start(*tell)
    for one in (killed, living):
        assert one.stdout.readline() == "here\n"
    assert len(list(temporary.iterdir())) == 2
    killed.kill()
    killed.wait()
    assert start("true").wait() == 0
    assert len(list(temporary.iterdir())) == 1, "that of the living run stays"
    living.terminate()
    living.wait()
    assert list(temporary.iterdir()) == []
    assert os.listdir(area) == []
