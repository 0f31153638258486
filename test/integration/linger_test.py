"""`close=linger`: the program ends, and another process drains the rest."""

import fcntl
import json
import os
import threading
import time
from pathlib import Path

import pytest
from deferred_program import Program, StoppedTarget, closes, forebay, native_bytes, process_lines, variables

from forebay.slowfs import available

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

X, Y = "target/x.h5", "target/y.h5"
LINGER = "close=linger"


@pytest.fixture
def target(tmp_path):
    with StoppedTarget(tmp_path) as stopped:
        yield stopped


def area(tmp_path):
    return tmp_path / "staging-area"


def left(tmp_path):
    (folder,) = area(tmp_path).glob("forebay-*")
    return [entry.name for entry in folder.iterdir() if entry.name[0].isdigit()]


def test_the_program_ends_while_nothing_drains_and_the_files_come_home(tmp_path, target):
    with Program(tmp_path, variables(tmp_path, LINGER)) as program:
        program.must(f"write({X!r}).close()", f"write({Y!r}, 2).close()")
        assert program.end() == ""
    assert closes(tmp_path)[0] == 2 and process_lines(tmp_path)[0]["left_closes"] == 2
    # The drainer is known.
    waited = forebay(tmp_path, "wait", X, "--nls", area(tmp_path), "--timeout", "0")
    assert waited.returncode == 1 and "are not in the file yet" in waited.stderr, waited
    shown = json.loads(forebay(tmp_path, "status", "--json", "--nls", area(tmp_path)).stdout)
    assert {file["state"] for file in shown["files"]} == {"at_work"}
    late = forebay(tmp_path, "drain", "--all", "--timeout", "0", "--nls", area(tmp_path))
    assert late.returncode == 1, late
    target.go()
    done = forebay(tmp_path, "drain", "--all", "--nls", area(tmp_path))
    assert done.returncode == 0, done
    assert left(tmp_path) == []
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert target.written("y.h5") == native_bytes(tmp_path, Y, f"write({Y!r}, 2).close()")


def test_forebay_run_does_not_take_it_for_a_loss(tmp_path, target):
    area(tmp_path).mkdir()
    code = f"import h5py; f = h5py.File({X!r}, 'w'); f['x'] = range(100000); f.close()"
    options = [word for option in ("close=linger", f"nls={area(tmp_path)}") for word in ("-o", option)]
    ran = forebay(tmp_path, "run", *options, "--", "python3", "-c", code)
    assert ran.returncode == 0, ran
    target.go()
    assert forebay(tmp_path, "wait", X, "--nls", area(tmp_path)).returncode == 0


def test_a_reader_that_has_locked_a_file_is_waited_for_and_keeps_no_other_file(tmp_path, target):
    with Program(tmp_path, variables(tmp_path, LINGER)) as program:
        program.must(f"globals().update(file=write({X!r}))")
        with open(tmp_path / X) as reader:
            locking = threading.Thread(target=fcntl.flock, args=(reader, fcntl.LOCK_SH))
            locking.start()  # until the program has ended
            program.must("file.close()", f"write({Y!r}, 2).close()")
            assert program.end() == ""
            locking.join(60)
            target.go()
            expected = native_bytes(tmp_path, Y, f"write({Y!r}, 2).close()")
            last = time.monotonic() + 60
            while target.written("y.h5") != expected:
                assert time.monotonic() < last
                time.sleep(0.05)
            waiting = forebay(tmp_path, "wait", X, "--nls", area(tmp_path), "--timeout", "0")
            assert waiting.returncode == 1, waiting
    done = forebay(tmp_path, "drain", "--all", "--nls", area(tmp_path))
    assert done.returncode == 0 and left(tmp_path) == [], done
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")


def test_the_next_program_waits_for_the_file(tmp_path, target):
    with Program(tmp_path, variables(tmp_path, LINGER)) as program:
        program.must(f"write({X!r}).close()")
        program.end()
    with Program(tmp_path, variables(tmp_path, "close=wait")) as other:
        other.begin(f"content({X!r})")
        target.go()
        assert other.reply() == "ok True"
        other.end()


def test_what_the_program_leaves_open_is_drained_before_it_ends(tmp_path, target):
    with Program(tmp_path, variables(tmp_path, LINGER)) as program:
        program.must(f"globals().update(f=write({X!r}))", f"write({Y!r}, 2).close()")
        target.go()
        program.end()
    assert forebay(tmp_path, "drain", "--all", "--nls", area(tmp_path)).returncode == 0
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert target.written("y.h5") == native_bytes(tmp_path, Y, f"write({Y!r}, 2).close()")


def drainers(tmp_path):
    """The processes that were started for staging areas of this test."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().decode().split("\0")
            except OSError:  # it has ended
                continue
            if "--finish" in words and any(str(tmp_path) in word for word in words):
                yield process


def descriptors(process):
    """What they refer to, by number; one may be closed meanwhile."""
    found = {}
    for descriptor in (process / "fd").iterdir():
        try:
            found[int(descriptor.name)] = os.readlink(descriptor)
        except FileNotFoundError:
            continue
    return found


def test_what_stays_holds_no_descriptor_of_the_program_and_no_folder(tmp_path, target):
    with Program(tmp_path, variables(tmp_path, LINGER)) as program:
        program.must(f"write({X!r}).close()", "import os; os.set_inheritable(os.open('.', os.O_RDONLY), True)")
        program.end()
    (process,) = drainers(tmp_path)
    assert os.readlink(process / "cwd") == "/"
    held = descriptors(process)
    assert str(tmp_path) not in held.values()
    assert {held[number] for number in range(3)} == {"/dev/null"}
    target.go()
    assert forebay(tmp_path, "drain", "--all", "--nls", area(tmp_path)).returncode == 0
