"""Each allocation of one HDF5 call fails once. No file stays open, and no read goes on that no event set has."""

import re

import pytest
from connector_environment import _lines, bytes_staged, run, staged
from crash_environment import BUILD

pytestmark = pytest.mark.slow


def run_part(part, folder, text="", **more):
    preload = {"LD_PRELOAD": str(BUILD / "test" / "failing_allocations.so")}
    done = run(
        [BUILD / "test" / "allocation_program", part], staged(folder, text, **preload, **more), folder / "run", 240
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    (count,) = re.findall(r"^(\d+) allocations$", done.stdout, re.MULTILINE)
    assert int(count) > 1
    return done


@pytest.mark.parametrize("stage", ["on", "off"])
@pytest.mark.parametrize("part", ["open", "objects"])
def test_later_calls_succeed_and_the_last_close_closes_the_file(part, stage, tmp_path):
    run_part(part, tmp_path, FOREBAY_STAGE=stage)
    assert (bytes_staged(tmp_path) > 0) == (stage == "on")


def test_an_open_after_a_failed_first_one_has_the_same_options(tmp_path):
    done = run_part("first", tmp_path, "stage=off;drain_threads=2;size=64MiB")
    assert "does not change" not in done.stderr


def test_a_read_that_goes_on_is_in_the_event_set(tmp_path):
    done = run_part("read", tmp_path)
    begun = sum(line.get("process", {}).get("async", {}).get("reads", 0) for line in _lines(tmp_path))
    assert begun == done.stdout.count("a read in the event set") > 0
