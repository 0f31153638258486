"""What other programs do to a file behind a close that did not wait: theirs is what the file holds, as natively."""

import os

import pytest
from deferred_program import Program, StoppedTarget, closes, forebay, native_bytes, variables

from forebay.slowfs import available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

X = "target/x.h5"
ONE_BY_ONE = "close=deferred;size=16MiB;stripe=256KiB;drain_threads=1"  # target writes, so a look comes after each
CHANGES = {
    "cut": "os.truncate('target/x.h5', 100)",
    "copy": "shutil.copyfile('other', 'target/x.h5')",
    "save": "np.save(open('target/x.h5', 'wb'), np.arange(1000))",
}


@pytest.fixture
def target(tmp_path):
    with StoppedTarget(tmp_path) as stopped:
        yield stopped


def close_with(program, lease):
    """Where another descriptor of the file is open there is no lease."""
    program.must("import shutil, time", "open('other', 'wb').write(bytes(3210000)) and 0")
    if not lease:
        program.must(f"globals().update(held=os.open({X!r}, os.O_RDWR | os.O_CREAT))")
    program.must(f"write({X!r}).close()")


@pytest.mark.parametrize("change", CHANGES)
def test_with_a_lease_a_change_waits_for_the_drain_and_is_all_there_is(tmp_path, target, change):
    with Program(tmp_path, variables(tmp_path)) as program:
        close_with(program, True)
        program.begin(CHANGES[change])
        target.go()
        assert program.reply().startswith("ok")
        assert program.end() == ""
    assert closes(tmp_path)[0] == 1
    expected = {"copy": bytes(3210000), "cut": native_bytes(tmp_path, X, f"write({X!r}).close()")[:100]}
    if change == "save":
        assert len(target.written("x.h5")) == 8128
    else:
        assert target.written("x.h5") == expected[change]


def test_with_a_lease_a_move_to_another_file_system_is_whole(tmp_path, target):
    with Program(tmp_path, variables(tmp_path)) as program:
        close_with(program, True)
        program.begin(f"shutil.move({X!r}, 'moved.h5')")
        target.go()
        assert program.reply().startswith("ok")
        assert program.end() == ""
    assert (tmp_path / "moved.h5").read_bytes() == native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert closes(tmp_path)[0] == 1


def test_without_a_lease_a_change_ends_the_drain_and_everybody_is_told(tmp_path, target):
    with Program(tmp_path, variables(tmp_path, ONE_BY_ONE)) as program:
        close_with(program, False)
        target.let_one_write_end()
        program.must(CHANGES["cut"])
        target.go()
        program.do(f"h5py.File({X!r})")  # which waits until the close is over; the file is cut
        # A flush of another file tells it.
        program.must("globals().update(g=write('target/y.h5'))")
        told = program.do("g.flush()")
        assert "x.h5: another program has changed it since its close" in told, told
        program.must("g.close()")
        waited = forebay(tmp_path, "wait", X, "--nls", tmp_path / "staging-area", "--timeout", "60")
        assert waited.returncode == 1 and "another program has changed it" in waited.stderr, waited
        now = target.written("x.h5")
        program.end()
    recovered = forebay(tmp_path, "recover", "--nls", tmp_path / "staging-area")
    assert recovered.returncode == 1 and "another program changed it" in recovered.stdout + recovered.stderr, recovered
    assert target.written("x.h5") == now


def test_times_that_are_set_after_the_close_stay(tmp_path, target):
    with Program(tmp_path, variables(tmp_path, ONE_BY_ONE)) as program:
        close_with(program, False)
        target.let_one_write_end()
        program.must(f"os.utime({X!r}, (10**9, 10**9))")
        target.go()
        assert program.end() == ""
    assert os.stat(tmp_path / X).st_mtime == 10**9
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert closes(tmp_path)[0] == 1


def test_the_close_of_a_forked_child_waits(tmp_path, target):
    target.go()
    with Program(tmp_path, variables(tmp_path)) as program:
        done = program.must(f"os.waitpid(fork_and(lambda: write({X!r}).close() is None), 0)[1]")
        assert done == "0"
        assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
        program.end()
