"""A file costs about as many system calls beside hundreds of open files as beside few."""

import sys

import pytest
from connector_environment import ROOT, bytes_staged, run, staged
from target_calls import STRACE

sys.path.append(str(ROOT / "bench"))
from runs import counted_calls, counting_calls

pytestmark = [pytest.mark.skipif(STRACE is None, reason="there is no strace"), pytest.mark.slow]

SLOTS = 256  # files that a ledger has room for at a time
PROGRAM = """
import sys, h5py
files = [h5py.File(f"{number}.h5", "w") for number in range(int(sys.argv[1]))]
for number, file in enumerate(files):
    file["x"] = number
for file in files:
    file.close()
with h5py.File("0.h5") as file:
    assert file["x"][()] == 0
"""


def test_a_file_beyond_the_slots_of_the_ledger_costs_few_calls(tmp_path):
    calls = {}
    for files in (SLOTS + 4, SLOTS + 24):
        folder, summary = tmp_path / str(files), tmp_path / "calls"
        folder.mkdir()
        command = [*counting_calls(summary), sys.executable, "-c", PROGRAM, str(files)]
        done = run(command, staged(tmp_path), folder)
        assert done.returncode == 0, done.stderr
        calls[files] = counted_calls(summary)
    assert bytes_staged(tmp_path) > 0
    each = (calls[SLOTS + 24] - calls[SLOTS + 4]) / 20
    assert 50 < each < 1500, calls  # a scan of the own log at each open would take thousands
