"""A log is never given up only because its file was not found."""

import tempfile
from pathlib import Path

import pytest
from test_recover import area, h5py, left, recover, run_until_killed, staged  # noqa: F401

pytestmark = pytest.mark.slow


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
    path.unlink()
    status, report = recover(area)
    (file,) = report["files"]
    assert status == 1 and file["reason"] == "missing" and "forebay discard" in file["advice"], report
    assert left(area)
