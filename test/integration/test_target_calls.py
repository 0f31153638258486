"""A staged program makes no call on the target that a native one does not. conformance/parallel has several ranks."""

import sys

import pytest
from connector_environment import bytes_staged, native, run, staged
from target_calls import STRACE, assert_no_more_said, told_of, tracing

pytestmark = [pytest.mark.skipif(STRACE is None, reason="there is no strace"), pytest.mark.slow]

# Opens the file OPENS times for writing. Flushes and small writes are many: no call may go with each of them.
OPENS = 5
PROGRAM = """
import sys, h5py, numpy
name, rounds = sys.argv[1], 12
def use(file, prefix):
    for i in range(rounds):
        file.create_dataset(f"{prefix}{i}", data=numpy.arange(20000))
        file.flush()
for mode in ("w", "w", "a", "r+"):
    with h5py.File(name, mode) as file:
        use(file, mode.replace("+", "") if mode != "w" else "w")
with h5py.File(name, "r+", libver="latest") as file:
    # An end that nobody writes, and one that goes.
    late = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    late.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    late.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple((100000,))
    h5py.h5d.create(file.id, b"unwritten", h5py.h5t.NATIVE_DOUBLE, space, dcpl=late)
    file.flush()
    del file["unwritten"]
with h5py.File(name, "r") as file:
    assert file["r3"][7] == 7
"""


@pytest.mark.parametrize("before", [None, 0, 4096])
def test_a_serial_program_tells_the_target_nothing_more(before, tmp_path):
    """The file is new, or there and empty, or has content that goes."""
    told = {}
    for side, environment in (("native", native()), ("staged", staged(tmp_path))):
        folder = tmp_path / side
        folder.mkdir()
        if before is not None:
            (folder / "target.h5").write_bytes(bytes(before))
        command = [*tracing(tmp_path / f"{side}.trace"), sys.executable, "-c", PROGRAM, "target.h5"]
        done = run(command, environment, folder)
        assert done.returncode == 0, done.stderr
        told[side] = told_of(tmp_path / f"{side}.trace", "target.h5", before or 0)
    assert bytes_staged(tmp_path) > 0
    assert told["native"].changes["size 0"] == 2, told["native"].changes  # the trace shows what it is to show
    assert (tmp_path / "native" / "target.h5").read_bytes() == (tmp_path / "staged" / "target.h5").read_bytes()
    assert_no_more_said(told["staged"], told["native"], OPENS + 2)
