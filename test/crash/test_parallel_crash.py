"""MPI programs of which all ranks are killed, and what recovery makes of their files."""

import json
import subprocess

import pytest
from connector_environment import hdf5_prefix, native
from crash_environment import EPOCHS, dead_directories, flushed, program, staged, without_marks
from parallel_environment import launch
from test_cli import call

RANKS = 2


def run(path, libver, epochs, tail, environment):
    ended = launch([program(), path, libver, epochs, tail, "mpi"], environment, path.parent, RANKS, 60)
    assert ended.hung is None, ended.told()
    assert flushed(ended.stdout) == epochs, ended.told()


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_the_file_of_two_killed_ranks_holds_everything_up_to_their_last_flush(tmp_path, libver):
    (tmp_path / "native").mkdir()
    expected, path, area = tmp_path / "native" / "run.h5", tmp_path / "run.h5", tmp_path / "area"
    run(expected, libver, EPOCHS, 0, native())
    run(path, libver, EPOCHS, 1, staged(area))
    assert len(dead_directories(area)) == RANKS, "every rank has left a log"
    before = path.read_bytes()

    done = call("recover", "--json", area)
    assert done.returncode == 0, done.stderr + done.stdout
    (file,) = json.loads(done.stdout)["files"]
    assert file["outcome"] == "recovered" and len(file["processes"]) == RANKS
    assert file["dropped_bytes"] > 0, "the ranks went on after their last flush"
    assert dead_directories(area) == []
    assert without_marks(path.read_bytes()) == without_marks(expected.read_bytes())
    assert len(before) >= len(path.read_bytes()), "what lay beyond is cut off"
    compared = subprocess.run(
        [hdf5_prefix() / "bin" / "h5diff", path, expected], env=native(), capture_output=True, timeout=60
    )
    assert compared.returncode == 0, compared.stdout + compared.stderr


def test_the_next_launch_recovers_the_file_before_anyone_opens_it(tmp_path):
    path, area = tmp_path / "run.h5", tmp_path / "area"
    run(path, "earliest", EPOCHS, 1, staged(area))
    assert len(dead_directories(area)) == RANKS
    # The same program creates it anew: what was left is void, on every rank, and does not come back.
    run(path, "earliest", 1, 0, staged(area))
    assert call("recover", area).returncode == 0
    (tmp_path / "native").mkdir()
    expected = tmp_path / "native" / "run.h5"
    run(expected, "earliest", 1, 0, native())
    assert path.read_bytes() == expected.read_bytes()
