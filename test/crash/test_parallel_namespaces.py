"""Ranks run in a PID namespace each, as in containers: all have the same number, and none sees another one.

They share what they stage, wait for each other, die together, and are recovered, like ranks that see each other.
"""

import fcntl
import json
import shutil
import subprocess

import pytest
from connector_environment import native
from crash_environment import EPOCHS, dead_directories, flushed, program, staged, without_marks
from parallel_environment import MPI, launch
from test_cli import call

RANKS = 2
# The first process of a namespace cannot kill itself, so the rank is the second.
CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"]


def run(path, tail, environment, contained=True, how=()):
    before = {rank: CONTAINER for rank in range(RANKS)} if contained else None
    ended = launch(
        [program(), path, "earliest", EPOCHS, tail, "mpi", *how],
        environment,
        path.parent,
        RANKS,
        60,
        before_rank=before,
    )
    assert ended.hung is None, ended.told()
    return ended


@pytest.fixture(autouse=True)
def containers():
    if (
        shutil.which("unshare") is None
        or subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode != 0
    ):
        pytest.skip("this user may not make a PID namespace")
    if MPI != "mpich":
        pytest.skip("the shared memory of this MPI wants ranks that see each other")


@pytest.fixture
def expected(tmp_path):
    (tmp_path / "native").mkdir()
    made = tmp_path / "native" / "run.h5"
    assert flushed(run(made, 0, native(), contained=False).stdout) == EPOCHS
    return made


def test_share_what_they_stage_until_the_file_is_closed(tmp_path):
    path, expected, area = tmp_path / "run.h5", tmp_path / "native" / "run.h5", tmp_path / "area"
    expected.parent.mkdir()
    assert flushed(run(expected, "close", native(), contained=False).stdout) == EPOCHS
    ended = run(path, "close", staged(area, FOREBAY_STATS=str(tmp_path / "stats")))
    assert ended.returncode == 0 and flushed(ended.stdout) == EPOCHS, ended.told()
    assert path.read_bytes() == expected.read_bytes()
    files = [json.loads(line).get("file", {}) for line in (tmp_path / "stats").read_text().splitlines()]
    assert sum(file.get("staged", 0) for file in files) > 0
    assert dead_directories(area) == []


@pytest.mark.parametrize("recovered", ["from outside", "by the next ranks"])
def test_are_recovered_when_they_have_died(tmp_path, expected, recovered):
    path, area = tmp_path / "run.h5", tmp_path / "area"
    ended = run(path, 1, staged(area))
    assert flushed(ended.stdout) == EPOCHS, ended.told()
    # The launcher may be gone before the last rank is, which it has killed. Out here nobody sees that a process of a
    # namespace is ending: only its lock tells.
    for directory in dead_directories(area):
        with (directory / "alive").open() as alive:
            fcntl.flock(alive, fcntl.LOCK_SH)
    names = [directory.name.split("-") for directory in dead_directories(area)]
    assert len(names) == RANKS and len({name[1] for name in names}) == RANKS, (
        "each has a start of its own, though not a number"
    )
    if recovered == "from outside":
        done = call("recover", "--json", area)
        assert done.returncode == 0, done.stderr + done.stdout
        (file,) = json.loads(done.stdout)["files"]
        assert file["outcome"] == "recovered" and len(file["processes"]) == RANKS
    else:
        again = run(path, 0, staged(area), how=("read",))
        assert again.returncode == 0 and again.stdout.count("found") == RANKS, again.told()
    assert dead_directories(area) == []
    assert without_marks(path.read_bytes()) == without_marks(expected.read_bytes())
