"""A log is never given up only because its file was not found."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from test_cli import call
from test_recover import area, h5py, left, recover, run_until_killed, staged  # noqa: F401

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def removed(path):
    """The file has no name any more, and no other file is given its inode number."""
    with open(path, "rb"):
        os.unlink(path)
        yield


def test_the_log_of_a_file_beside_the_folder_that_a_link_leads_to_is_not_taken_for_that_of_a_deleted_one(
    tmp_path, area
):
    """The program names the file through a symbolic link to a folder, on a file system of memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        run, archive = Path(memory, "run"), Path(memory, "archive")
        run.mkdir()
        archive.mkdir()
        (tmp_path / "link").symlink_to(run)
        run_until_killed(tmp_path / "link" / "out.h5", "latest", "flush 1", staged(area))
        (run / "out.h5").rename(archive / "out.h5")
        status, report = recover(area)
        assert status == 0 and report["files"][0]["outcome"] == "recovered", report
        with h5py.File(archive / "out.h5") as file:
            assert file["step 1/raw"][5] == 10


def test_the_log_of_a_file_that_is_not_found_is_kept(tmp_path, area):
    path = tmp_path / "out.h5"
    run_until_killed(path, "latest", "flush 1", staged(area))
    with removed(path):
        status, report = recover(area)
    (file,) = report["files"]
    assert status == 1 and file["reason"] == "missing" and "forebay discard" in file["advice"], report
    assert left(area)


TWO_FILES = """
import os, signal, sys
import h5py, numpy as np
files = [h5py.File(path, "w") for path in sys.argv[1:]]
for f in files:
    f["x"] = np.arange(60000)
    f.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_with(area, *paths):
    ended = subprocess.run(
        [sys.executable, "-c", TWO_FILES, *paths], env=staged(area), timeout=120, capture_output=True, text=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert left(area)


def proposed(text, command):
    """The words of the command that a message puts between backticks."""
    (words,) = [shlex.split(found) for found in re.findall("`([^`]*)`", text) if found.startswith(command)]
    return words[1:]


def test_the_advice_for_a_deleted_file_is_a_command_that_removes_its_log_alone(tmp_path, area):
    deleted, kept = tmp_path / "it's gone.h5", tmp_path / "kept.h5"
    killed_with(area, deleted, kept)
    with removed(deleted):
        kept.write_bytes(b"another program" * 1000)  # its log stays, too, until the user decides
        os.utime(kept, (1, 1))
        status, report = recover(area)
        assert status == 1 and {file["reason"] for file in report["files"]} == {"missing", "changed"}, report
        advice = {file["reason"]: file["advice"] for file in report["files"]}
        # Other files are not concerned.
        with_others = subprocess.run(
            [sys.executable, "-c", "import h5py, sys; h5py.File(sys.argv[1], 'w')['x'] = 1", tmp_path / "other.h5"],
            env=staged(area),
            timeout=120,
            capture_output=True,
            text=True,
        )
        assert (with_others.returncode, with_others.stderr) == (0, "")
        command = proposed(advice["missing"], "forebay discard")
        assert command == ["discard", str(deleted)]
        assert call(*command, "--yes", "--nls", area).returncode == 0
        status, report = recover(area, "--dry-run")
        assert status == 1 and [file["path"] for file in report["files"]] == [str(kept)], report
        assert call(*proposed(advice["changed"], "forebay recover"), "--nls", area).returncode == 0
        assert left(area) == []
        with h5py.File(kept) as file:
            assert file["x"][59999] == 59999


@pytest.mark.parametrize("spelling", ["link/out.h5", "./out.h5", "run/../out.h5", "gone/../out.h5"])
def test_a_deleted_file_is_known_by_the_name_that_the_program_had_for_it(spelling, tmp_path, area):
    for folder in ("run", "gone"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to("run")
    name = f"{tmp_path}/{spelling}"
    killed_with(area, name)
    with removed(name):
        (tmp_path / "gone").rmdir()
        status, report = recover(area)
        assert status == 1 and report["files"][0]["reason"] == "missing", report
        command = proposed(report["files"][0]["advice"], "forebay discard")
        assert command == ["discard", name]
        assert call("recover", name, "--nls", area).returncode == 1
        shown = call("status", name, "--json", "--nls", area)
        assert shown.returncode == 0 and len(json.loads(shown.stdout)["files"]) == 1, shown.stderr
        assert call("verify", name, "--nls", area).returncode == 0
        assert call(*command, "--yes", "--nls", area).returncode == 0
        assert left(area) == []


def test_the_advice_for_a_file_that_was_deleted_and_made_again_is_a_command_that_works(tmp_path, area):
    path = tmp_path / "run.h5"
    killed_with(area, path)
    old = path.rename(tmp_path / "old.h5")  # its inode number must not be given to the new one
    with h5py.File(path, "w") as file:
        file["new"] = 1
    old.unlink()
    done = subprocess.run(
        [sys.executable, "-c", "import h5py, sys; print(list(h5py.File(sys.argv[1])))", path],
        env=staged(area),
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "['new']\n", done.stderr
    command = proposed(done.stderr, "forebay discard")
    status, report = recover(area)
    assert status == 1 and proposed(report["files"][0]["advice"], "forebay discard") == command, report
    # The name stands for the new file, whose bytes are not in that log.
    by_name = call("discard", path, "--yes", "--nls", area)
    assert by_name.returncode == 1 and "another file" in by_name.stdout, by_name.stdout
    assert proposed(by_name.stdout, "forebay discard") == command and left(area)
    assert call(*command, "--yes").returncode == 0
    assert left(area) == []
