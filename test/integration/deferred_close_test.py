"""Closes that do not wait: docs/consistency.md, "Deferred close", from outside.

The target is a slowfs mount that is stopped, so nothing drains before a test lets it. What is closed after that may
have drained by its close, and is not counted as deferred then.
"""

import os
import signal
import time

import pytest
from connector_environment import native, run, staged, statistics
from deferred_program import Program, StoppedTarget, closes, forebay, native_bytes, process_lines, variables

from forebay.slowfs import available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

X, Y, Z = "target/x.h5", "target/y.h5", "target/z.h5"


@pytest.fixture
def target(tmp_path):
    with StoppedTarget(tmp_path) as stopped:
        yield stopped


@pytest.fixture
def start(tmp_path):
    """Starts programs, which end with the test at the latest."""
    programs = []

    def begin(info="close=deferred", **more):
        program = Program(tmp_path, variables(tmp_path, info, **more))
        programs.append(program)
        return program

    yield begin
    for program in programs:
        program.__exit__()


def close_deferred(program, name=X, seed=1, mode="w"):
    program.must(f"write({name!r}, {seed}, {mode!r}).close()")


# ---- the same process ----------------------------------------------------------------------------------


@pytest.mark.check
def test_files_of_many_steps_are_what_they_are_natively(tmp_path, target, start):
    names = [f"target/step{i}.h5" for i in range(5)]
    program = start()
    for step, name in enumerate(names):
        close_deferred(program, name, step)
    target.go()
    assert program.end() == ""
    for step, name in enumerate(names):
        expected = native_bytes(tmp_path, name, f"write({name!r}, {step}).close()")
        assert target.written(os.path.basename(name)) == expected
    assert closes(tmp_path) == (5, {})
    assert {entry["pending"] for entry in statistics(tmp_path)} == {0}


@pytest.mark.parametrize("how", ["{}", "{'driver': 'core', 'backing_store': False}", "{'driver': 'stdio'}"])
def test_opening_the_file_again_waits(tmp_path, target, start, how):
    program = start()
    close_deferred(program)
    program.begin(f"content({X!r}, **{how})")
    target.go()
    assert program.reply() == "ok True"
    program.end()
    assert closes(tmp_path)[0] == 1


def test_writing_the_file_again_waits(tmp_path, target, start):
    program = start()
    close_deferred(program)
    program.begin(f"write({X!r}, 2, 'r+').close()")
    target.go()
    assert program.reply().startswith("ok")
    program.end()
    expected = native_bytes(tmp_path, X, f"write({X!r}).close()", f"write({X!r}, 2, 'r+').close()")
    assert target.written("x.h5") == expected
    assert closes(tmp_path)[0] >= 1


def test_the_second_of_two_closed_files_can_be_had_before_the_first(tmp_path, target, start):
    program = start()
    target.go()
    target.mount.fault("op=write,hang,path=x.h5")
    close_deferred(program, X)
    close_deferred(program, Y, 2)
    assert program.must(f"content({Y!r}, 2)") == "True"
    target.go()
    program.end()
    assert closes(tmp_path)[0] >= 1


@pytest.mark.parametrize("file", ["the first in the queue", "behind another"])
def test_creating_the_file_anew_leaves_nothing_of_the_old_one(tmp_path, target, start, file):
    program = start()
    if file == "behind another":
        close_deferred(program, Y, 9)
    close_deferred(program)
    program.begin(f"write({X!r}, 2).close()")
    target.go()
    assert program.reply().startswith("ok")
    program.end()
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}, 2).close()")
    assert closes(tmp_path)[0] >= (2 if file == "behind another" else 1)


def test_asking_whether_it_is_accessible_and_deleting_wait(tmp_path, target, start):
    program = start()
    close_deferred(program)
    program.begin(f"h5py.is_hdf5({X!r})")
    target.go()
    assert program.reply() == "ok True"
    target.stop()
    close_deferred(program, Y)
    program.begin(f"h5py.h5f.delete({Y!r}.encode())" if hasattr(h5py.h5f, "delete") else f"os.remove({Y!r})")
    target.go()
    assert program.reply().startswith("ok")
    program.end()
    assert sorted(os.listdir(tmp_path / "backing")) == ["x.h5"]
    assert closes(tmp_path)[0] == 2


def close_behind(target, program, name=X):
    """Y is stopped, and the one drain thread with it: no write of `name` is under way, and its name can be changed."""
    target.go()
    target.mount.fault("op=write,hang,path=y.h5")
    close_deferred(program, Y, 9)
    close_deferred(program, name)


@pytest.mark.parametrize("change", ["rename", "link"])
def test_a_file_with_another_name_after_its_close_is_whole_under_that(tmp_path, target, start, change):
    program = start("close=deferred;drain_threads=1")
    close_behind(target, program)
    program.must(f"os.{change}({X!r}, {Z!r})")
    program.begin(f"content({Z!r})")
    target.go()
    assert program.reply() == "ok True"
    program.end()
    assert target.written("z.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert closes(tmp_path)[0] >= 1


def test_the_size_is_never_more_than_the_final_one(tmp_path, target, start):
    program = start()
    close_deferred(program)
    expected = native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert os.stat(tmp_path / X).st_size <= len(expected)
    target.go()
    program.end()
    assert os.stat(tmp_path / X).st_size == len(expected)


def test_a_copy_after_forebay_wait_is_whole(tmp_path, target, start):
    program = start()
    close_deferred(program)
    target.go()
    waited = forebay(tmp_path, "wait", X, "--nls", tmp_path / "staging-area")
    assert waited.returncode == 0, waited.stderr
    assert (tmp_path / X).read_bytes() == native_bytes(tmp_path, X, f"write({X!r}).close()")
    program.end()
    assert closes(tmp_path)[0] == 1


def test_forebay_status_knows_what_is_being_closed(tmp_path, target, start):
    program = start()
    close_deferred(program)
    shown = forebay(tmp_path, "status", "--json", "--nls", tmp_path / "staging-area")
    assert '"state": "at_work"' in shown.stdout and "x.h5" in shown.stdout, shown.stdout + shown.stderr
    waited = forebay(tmp_path, "wait", X, "--nls", tmp_path / "staging-area", "--timeout", "0")
    assert waited.returncode == 1 and "are not in the file yet" in waited.stderr
    target.go()
    program.end()


def test_a_record_lock_that_the_program_takes_after_the_close_is_kept(tmp_path, target, start):
    program = start()
    # Open before the close: else it would wait for the drain.
    program.must("import fcntl", f"globals().update(held=os.open({X!r}, os.O_RDWR | os.O_CREAT))")
    close_deferred(program)
    program.must("fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)")
    target.go()
    waited = forebay(tmp_path, "wait", X, "--nls", tmp_path / "staging-area")
    assert waited.returncode == 0, waited.stderr
    program.must("h5py.File('other.h5', 'w').close()")
    taken = run(
        ["python3", "-c", f"import fcntl; fcntl.lockf(open({X!r}, 'rb+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"],
        native(),
        tmp_path,
    )
    assert "BlockingIOError" in taken.stderr, taken
    # Closing the file through HDF5 ends it, as natively.
    program.must(f"content({X!r})")
    program.end()
    assert closes(tmp_path)[0] >= 1


def test_more_closes_than_descriptors_allow_wait(tmp_path, target, start):
    program = start()
    program.must("import resource", "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))")
    # Only those that are closed first are stopped, and they stay so until the last one is in its file.
    target.go()
    target.mount.fault("op=write,hang,path=?.h5")
    for step in range(8):
        close_deferred(program, f"target/{step}.h5", step)
    program.must("write('target/more.h5').close()")
    assert target.written("more.h5") == native_bytes(tmp_path, "target/more.h5", "write('target/more.h5').close()")
    target.go()
    program.end()
    assert closes(tmp_path) == (8, {"too_many": 1})


def test_a_full_staging_area_waits_for_closed_files(tmp_path, target, start):
    program = start("close=deferred;size=8MiB")
    close_deferred(program, X, 1)  # 3.2 MB each
    close_deferred(program, Y, 2)
    program.begin(f"write({Z!r}, 3).close()")
    target.go()
    assert program.reply().startswith("ok")
    program.end()
    for seed, name in enumerate((X, Y, Z), 1):
        assert target.written(os.path.basename(name)) == native_bytes(
            tmp_path, name, f"write({name!r}, {seed}).close()"
        )
    assert closes(tmp_path)[0] >= 2
    assert {entry["guarantee_given_up"] for entry in statistics(tmp_path)} == {0}


# ---- other processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("locks", ["TRUE", "FALSE"])
def test_another_process_of_the_node_waits(tmp_path, target, start, locks):
    program, other = start(HDF5_USE_FILE_LOCKING=locks), start("close=wait", HDF5_USE_FILE_LOCKING=locks)
    close_deferred(program)
    other.begin(f"content({X!r})")
    target.go()
    assert other.reply() == "ok True"
    program.end()
    other.end()
    assert closes(tmp_path)[0] == 1


def test_another_process_without_forebay_waits_for_the_lease(tmp_path, target, start):
    program = start()
    close_deferred(program)
    with Program(tmp_path, native()) as other:
        other.begin(f"content({X!r})")
        target.go()
        assert other.reply() == "ok True"
        program.end()
        other.end()
    assert closes(tmp_path)[0] == 1


def test_another_process_without_forebay_is_refused_by_the_lock_where_there_is_no_lease(tmp_path, target, start):
    program = start()
    program.must("globals().update(held=os.open('target/x.h5', os.O_RDWR | os.O_CREAT))")  # no lease beside it
    close_deferred(program)
    with Program(tmp_path, native()) as other:
        refused = other.do(f"content({X!r})")
        assert refused.startswith("BlockingIOError") and "unable to lock file" in refused
        target.go()
        program.end()
        assert other.do(f"content({X!r})") == "ok True"
        other.end()


def test_processes_of_one_machine_that_are_played_as_nodes_wait_for_the_lease(tmp_path, target, start):
    program, other = start(FOREBAY_NODE="a"), start("close=wait", FOREBAY_NODE="b")
    close_deferred(program)
    other.begin(f"content({X!r})")
    target.go()
    assert other.reply() == "ok True"
    program.end()
    other.end()
    assert closes(tmp_path)[0] == 1


def test_a_forked_child_waits_and_leaves_the_drain_to_its_parent(tmp_path, target, start):
    program = start()
    close_deferred(program)
    program.begin(f"os.waitstatus_to_exitcode(os.waitpid(fork_and(lambda: content({X!r})), 0)[1])")
    target.go()
    assert program.reply() == "ok 0"
    program.end()
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert closes(tmp_path)[0] == 1


# ---- how the process ends ------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
@pytest.mark.parametrize("renamed", [False, True])
def test_what_a_close_committed_outlives_the_process(tmp_path, target, start, end, renamed):
    program = start("close=deferred;drain_threads=1")
    close_behind(target, program)
    if renamed:
        program.must(f"os.rename({X!r}, {Z!r})")
    program.begin(end)
    program.process.wait(timeout=60)
    target.go()
    recovered = forebay(tmp_path, "recover", "--nls", tmp_path / "staging-area")
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert target.written("y.h5") == native_bytes(tmp_path, Y, f"write({Y!r}, 9).close()")
    name = "z.h5" if renamed else "x.h5"
    assert target.written(name) == native_bytes(tmp_path, X, f"write({X!r}).close()")


def test_the_next_open_brings_home_what_a_dead_process_closed(tmp_path, target, start):
    program = start("close=deferred;drain_threads=1")
    close_behind(target, program)
    program.must(f"os.rename({X!r}, {Z!r})")
    program.process.send_signal(signal.SIGKILL)
    program.process.wait(timeout=60)
    target.go()
    other = start("close=wait")
    assert other.must(f"content({Z!r})") == "True"
    other.end()


def test_a_program_that_ends_without_closing_waits_too(tmp_path, target, start):
    program = start()
    program.must(f"globals().update(f=write({X!r}), g=write({Y!r}, 2))")
    program.process.stdin.close()
    target.go()
    assert program.process.wait(timeout=300) == 0
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert target.written("y.h5") == native_bytes(tmp_path, Y, f"write({Y!r}, 2).close()")


# ---- a target that fails -------------------------------------------------------------------------------


def test_the_next_close_reports_what_failed_after_a_close(tmp_path, target, start):
    program = start()
    target.go()
    # The superblock: one write at a time has it, so the close finds no failure yet.
    target.mount.fault("op=write,hang,errno=ENOSPC,count=1,offset=0..96,path=x.h5")
    target.mount.fault("op=write,errno=ENOSPC,offset=0..96,path=x.h5")
    close_deferred(program)
    target.await_hanging()
    target.mount.release()
    # It waits until the drain has failed. The file can be read, and not be written.
    refused = program.do(f"write({X!r}, 2, 'r+').close()")
    assert not refused.startswith("ok"), refused
    program.must("globals().update(other=write('other.h5'))")
    reported = program.do("other.close()")
    assert "x.h5" in reported and "did not wait for the drain" in reported, reported
    assert program.must(f"content({X!r})") == "True"
    waited = forebay(tmp_path, "wait", X, "--nls", tmp_path / "staging-area", "--timeout", "60")
    assert waited.returncode == 1, waited.stderr
    program.must("write('third.h5').close()")
    target.mount.clear()
    program.end()


@pytest.mark.parametrize("seconds", [0.1, 1])
def test_a_target_that_hangs_for_a_while_delays_whoever_waits_and_loses_nothing(tmp_path, target, start, seconds):
    program = start()
    close_deferred(program)
    program.begin(f"content({X!r})")
    time.sleep(seconds)  # how long it hangs
    target.go()
    assert program.reply() == "ok True"
    program.must("write('other.h5').close()")
    assert program.end() == ""
    assert list((tmp_path / "staging-area").rglob("log*")) == []
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")


def test_a_target_that_comes_back_after_it_was_given_up_loses_nothing(tmp_path, target, start):
    program = start("close=deferred;patience=1")
    close_deferred(program)
    program.must("globals().update(other=write('other.h5'))")
    assert program.must(f"content({X!r})") == "True"  # once the close has been given up
    target.go()  # what hung may come from now on
    assert "nothing has reached" in program.do("other.close()")
    refused = program.do(f"write({X!r}, 2, 'r+').close()")
    assert not refused.startswith("ok"), refused
    program.end()
    recovered = forebay(tmp_path, "recover", "--nls", tmp_path / "staging-area")
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
    assert list((tmp_path / "staging-area").rglob("log*")) == []


def test_a_target_that_hangs_is_given_up_and_the_next_close_reports_it(tmp_path, target, start):
    program = start("close=deferred;patience=1")
    close_deferred(program)
    assert program.must(f"content({X!r})") == "True"  # once the close has been given up
    program.must("globals().update(other=write('other.h5'))")
    reported = program.do("other.close()")
    assert "x.h5" in reported and "nothing has reached" in reported, reported
    refused = program.do(f"write({X!r}, 2, 'r+').close()")
    assert not refused.startswith("ok"), refused
    waited = forebay(tmp_path, "wait", X, "--nls", tmp_path / "staging-area", "--timeout", "60")
    assert waited.returncode == 1, waited.stderr
    target.go()
    program.end()
    recovered = forebay(tmp_path, "recover", "--nls", tmp_path / "staging-area")
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")


def test_forebay_run_tells_a_failure_that_no_close_reported(tmp_path, target):
    target.go()
    # As above; the program itself lets the write go that hangs, after its close.
    target.mount.fault("op=write,hang,errno=EIO,count=1,offset=0..96,path=x.h5")
    target.mount.fault("op=write,errno=EIO,offset=0..96,path=x.h5")
    code = f"""
import json, time
import h5py, numpy
f = h5py.File({X!r}, "w")
f["x"] = numpy.arange(100000)
f.close()
while json.load(open("target/.slowfs"))["hanging"] == 0:
    time.sleep(0.01)
with open("target/.slowfs", "w") as control:
    control.write("release\\n")
"""
    area = tmp_path / "staging-area"
    area.mkdir(exist_ok=True)
    done = forebay(tmp_path, "run", "-o", f"nls={area}", "-o", "close=deferred", "--", "python3", "-c", code)
    assert done.returncode == 74, done
    assert "did not wait for the drain" in done.stderr and "NOT DRAINED" in done.stderr
    target.go()
    assert forebay(tmp_path, "recover", "--nls", area).returncode == 0
    assert h5py.File(tmp_path / X)["x"][99999] == 99999


# ---- the end of the job --------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["option", "Slurm"])
def test_near_the_end_of_the_job_a_close_waits_and_the_program_is_warned_once(tmp_path, target, start, by):
    target.go()
    over = {"FOREBAY_DEADLINE": "2001-01-01T00:00Z"} if by == "option" else {"SLURM_JOB_END_TIME": "1000000000"}
    program = start("close=linger", **over)
    for step in range(3):
        close_deferred(program, f"target/step{step}.h5", step)
        expected = native_bytes(tmp_path, f"target/step{step}.h5", f"write('target/step{step}.h5', {step}).close()")
        assert target.written(f"step{step}.h5") == expected
    told = program.end()
    assert told.count("the job has reached its end") == 1 and told.count("forebay:") == 1, told
    deferred, waited = closes(tmp_path)
    assert deferred == 0 and sum(waited.values()) == 3 and waited.keys() <= {"deadline", "nothing_left"}, waited
    assert [line["deadline"] for line in process_lines(tmp_path)] == [True]


def test_an_end_of_the_job_that_is_far_away_changes_nothing(tmp_path, target, start):
    program = start(FOREBAY_DEADLINE="10000h")
    close_deferred(program)
    target.go()
    assert program.end() == ""
    assert closes(tmp_path) == (1, {})


# ---- close=auto ----------------------------------------------------------------------------------------


def test_auto_defers_files_without_a_name_only(tmp_path, target, start):
    program = start("close=auto")
    program.must("globals().update(f=write('scratch.h5'))", "os.remove('scratch.h5')", "f.close()")
    program.begin(f"write({Y!r}).close()")
    target.go()
    assert program.reply().startswith("ok")
    assert target.written("y.h5") == native_bytes(tmp_path, Y, f"write({Y!r}).close()")
    program.end()
    deferred, waited = closes(tmp_path)
    assert deferred + waited.pop("nothing_left", 0) == 1  # its drain may have ended before
    assert waited == {"named": 1}


def test_by_default_a_close_waits(tmp_path, target):
    target.go()
    assert (
        run(["python3", "-c", f"import h5py; h5py.File({X!r}, 'w')['x'] = 1"], staged(tmp_path), tmp_path).returncode
        == 0
    )
    assert statistics(tmp_path)[0]["pending"] == 0
    assert "deferred_closes" not in (tmp_path / "statistics.jsonl").read_text()
