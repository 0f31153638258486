"""Unmodified programs on a target whose writes fail: the promises of docs/consistency.md, "Errors", seen from outside.

The target is a slowfs mount. A native run makes the file beforehand, and a staged one changes it. In the end the file
should hold what the same program leaves natively, byte for byte.
"""

import errno
import os
import shutil
import signal
import sys
import time

import pytest
from connector_environment import asides, bytes_staged, native, run, run_python, staged, statistics
from test_cli import EXIT_NOT_DRAINED, FOREBAY
from test_recover import left, recover

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

CAUSES = ["EIO", "ENOSPC", "EDQUOT", "ESTALE"]
# A call that has to fail may try again for a while. It must not wait for `patience`, which is 600 s.
SECONDS_MAX = 240

MAKE = """
import h5py, numpy as np
with h5py.File("target/x.h5", "w") as f:
    f["old"] = np.arange(300_000)
    f.attrs["step"] = 0
"""

# Says what came of a call.
CALL = """
def call(name, what):
    try:
        what()
        print(name, "ok", flush=True)
    except Exception as error:
        print(name, type(error).__name__, error, flush=True)
"""

# "first" and "second" are committed by a flush each, "late" by the close.
CHANGE = (
    CALL
    + """
import h5py, numpy as np
def write(step, name):
    f[name] = np.arange(400_000) * step
    f["old"][step * 1000 : step * 1000 + 500] = -step
    f.attrs["step"] = step
f = h5py.File("target/x.h5", "r+")
call("write 1", lambda: write(1, "first"))
call("flush 1", f.flush)
call("write 2", lambda: write(2, "second"))
call("flush 2", f.flush)
call("read", lambda: (f["first"][399_999], f["old"][1000]))
call("write 3", lambda: write(3, "late"))
call("close", f.close)
# A file that has nothing to do with it goes on.
with h5py.File("healthy.h5", "w") as g:
    g["x"] = np.arange(1000)
    g.flush()
    g["y"] = np.arange(100_000)
with h5py.File("healthy.h5") as g:
    assert g["x"][999] == 999 and g["y"][99_999] == 99_999
print("went on")
"""
)


def script(code, *arguments):
    return [sys.executable, "-c", code, *arguments]


def outcomes(stdout):
    """What came of each call, by its name."""
    found = {}
    for line in stdout.splitlines():
        for name in ("write 1", "flush 1", "write 2", "flush 2", "read", "write 3", "close"):
            if line.startswith(name + " "):
                found[name] = line[len(name) + 1 :]
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What a native program leaves."""
    folder = tmp_path_factory.mktemp("native")
    (folder / "target").mkdir()
    run_python(MAKE, native(), folder)
    done = run(script(CHANGE), native(), folder)
    assert done.returncode == 0 and set(outcomes(done.stdout).values()) == {"ok"}, done.stderr
    return (folder / "target/x.h5").read_bytes()


@pytest.fixture
def target(tmp_path):
    """A mount without faults, with the file on it."""
    with SlowFS(tmp_path / "backing", tmp_path / "target") as fs:
        run_python(MAKE, native(), tmp_path)
        yield fs


def change(fs, tmp_path, options, fault):
    """Runs the program on the target with this fault; its outcomes, after what holds in any case was checked."""
    fs.fault(fault)
    begin = time.monotonic()
    done = run(script(CHANGE), staged(tmp_path, options), tmp_path)
    assert time.monotonic() - begin < SECONDS_MAX
    assert done.returncode == 0 and done.stdout.endswith("went on\n"), done.stdout + done.stderr
    assert fs.stats()["faults"][0]["hit"] > 0, "the target has not failed"
    assert bytes_staged(tmp_path) > 3_000_000, "nothing was staged"
    files = {entry["path"].rsplit("/", 1)[1]: entry for entry in statistics(tmp_path)}
    assert files["healthy.h5"]["staged"] > 0 and files["healthy.h5"]["error"] == 0
    return outcomes(done.stdout), files["x.h5"]


def assert_names_file_offset_and_cause(told, cause, path):
    assert str(path) in told and " at offset " in told, told
    assert os.strerror(getattr(errno, cause)) in told, told


def recovered(tmp_path):
    """`forebay recover` has brought the one file home."""
    status, report = recover(tmp_path / "staging-area")
    assert status == 0, report
    (file,) = report["files"]
    assert file["outcome"] == "recovered"
    assert left(tmp_path / "staging-area") == []
    return file


# ---- a fault that passes -----------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("flush", ["commit", "drain"])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_write_that_fails_once_is_tried_again_and_nobody_is_told(cause, flush, target, tmp_path, expected):
    told, file = change(target, tmp_path, f"on_error=retry;flush={flush}", f"op=write,errno={cause},count=1")
    assert set(told.values()) == {"ok"}
    assert file["error"] == 0 and file["pending"] == 0
    assert (tmp_path / "backing/x.h5").read_bytes() == expected
    assert left(tmp_path / "staging-area") == []


def test_several_writes_that_fail_in_a_row_are_tried_again(target, tmp_path, expected):
    told, file = change(target, tmp_path, "on_error=retry", "op=write,errno=EIO,count=3")
    assert set(told.values()) == {"ok"} and file["error"] == 0
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


def test_a_write_that_is_cut_short_is_gone_on_with(target, tmp_path, expected):
    told, file = change(target, tmp_path, "", "op=write,short=half,count=5")
    assert set(told.values()) == {"ok"} and file["error"] == 0
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


@pytest.mark.parametrize("cause", CAUSES)
def test_without_retry_what_has_failed_once_is_written_at_the_close_which_succeeds(cause, target, tmp_path, expected):
    told, file = change(target, tmp_path, "on_error=fail", f"op=write,errno={cause},count=1")
    assert [fault["hit"] for fault in target.stats()["faults"]] == [1], "the target has not failed"
    assert file["error"] == 0 and file["pending"] == 0
    assert {told[name] for name in ("write 1", "write 2", "read", "write 3", "close")} == {"ok"}
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


# ---- a fault that stays ------------------------------------------------------------------------------


@pytest.mark.parametrize("on_error", ["fail", "retry"])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_target_that_takes_nothing_is_told_and_recovery_brings_everything_home(
    cause, on_error, target, tmp_path, expected
):
    told, file = change(target, tmp_path, f"on_error={on_error}", f"op=write,errno={cause}")
    path = target / "x.h5"
    assert_names_file_offset_and_cause(told["close"], cause, path)
    assert "stay in the staging log" in told["close"]
    for name in ("flush 1", "flush 2"):  # a flush tells what is known by then
        if told[name] != "ok":
            assert_names_file_offset_and_cause(told[name], cause, path)
    # Writes are taken, and what was written can be read, as long as the file is open.
    assert {told[name] for name in ("write 1", "write 2", "read", "write 3")} == {"ok"}
    assert file["error"] == getattr(errno, cause) and file["pending"] > 3_000_000
    assert left(tmp_path / "staging-area"), "the log is gone"

    # As long as the fault is there recovery fails, says so, and keeps the log.
    status, report = recover(tmp_path / "staging-area")
    assert status == 1 and os.strerror(getattr(errno, cause)) in report["files"][0]["message"]
    assert left(tmp_path / "staging-area"), "the log is gone"
    target.clear()
    recovered(tmp_path)
    assert (tmp_path / "backing/x.h5").read_bytes() == expected
    assert run_python("import h5py; print(*h5py.File('target/x.h5'))", native(), tmp_path) == "first late old second\n"


# HDF5 flushes when it opens a file too, with flush=drain to the target, and an open must not be half done.
@pytest.mark.parametrize("on_error", ["fail", "retry"])
def test_a_flush_that_drains_tells_it_at_once(on_error, target, tmp_path, expected):
    beginning = "op=write,errno=EDQUOT,offset=100.."  # what the open writes arrives
    told, _ = change(target, tmp_path, f"on_error={on_error};flush=drain", beginning)
    for name in ("flush 1", "flush 2", "close"):
        assert_names_file_offset_and_cause(told[name], "EDQUOT", target / "x.h5")
    target.clear()
    recovered(tmp_path)
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


@pytest.mark.parametrize("on_error", ["fail", "retry"])
def test_an_open_that_drains_to_a_faulty_target_crashes_nothing(on_error, target, tmp_path, expected):
    told, _ = change(target, tmp_path, f"on_error={on_error};flush=drain", "op=write,errno=EDQUOT")
    for name in ("flush 1", "flush 2", "close"):
        assert_names_file_offset_and_cause(told[name], "EDQUOT", target / "x.h5")
    target.clear()
    recovered(tmp_path)
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


def test_a_healthy_file_does_not_hear_of_the_failure_of_another(target, tmp_path):
    target.fault("op=write,errno=EIO")
    code = """
import h5py, numpy as np
f = h5py.File("target/x.h5", "r+")
g = h5py.File("healthy.h5", "w")
g["x"] = np.arange(1000)
g.flush()
g.close()
try:
    f.close()
except Exception:
    print("told", flush=True)
"""
    done = run(script(code), staged(tmp_path, "flush=drain"), tmp_path)
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr


def test_the_failure_of_a_second_open_is_told_by_that_file_and_no_other(target, tmp_path):
    """HDF5 opens a file again to see that it is open already, and closes it at once. That close fails here."""
    target.fault("op=flush,errno=EIO,count=1,path=x.h5")
    code = (
        CALL
        + """
import h5py, numpy as np
f = h5py.File("target/x.h5", "r+")
g = h5py.File("target/y.h5", "w")
g["x"] = np.arange(1000)
again = h5py.File("target/x.h5", "r+")
call("other file", g.close)
call("first", f.flush)
call("second", f.flush)
call("file", f.close)
"""
    )
    told = run_python(code, staged(tmp_path), tmp_path).splitlines()
    assert told[0] == "other file ok"
    assert told[1].startswith("first ") and os.strerror(errno.EIO) in told[1] and "x.h5" in told[1]
    assert told[2:] == ["second ok", "file ok"]


def test_a_target_that_is_full_after_a_while_keeps_its_last_commit(target, tmp_path, expected):
    """Beyond what the file has already nothing finds room: the program is told, and the log has what the file lacks."""
    size = (tmp_path / "backing/x.h5").stat().st_size
    told, file = change(target, tmp_path, "", f"op=write,errno=ENOSPC,offset={size + 1_000_000}..")
    assert_names_file_offset_and_cause(told["close"], "ENOSPC", target / "x.h5")
    assert file["pending"] > 0
    target.clear()
    recovered(tmp_path)
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


def test_a_mount_that_was_made_again_is_recovered_on(target, tmp_path, expected):
    """The device number must be the same. Else the file counts as another: nothing is touched, and the log stays."""
    change(target, tmp_path, "", "op=write,errno=EIO")
    device, before = os.stat(target / "x.h5").st_dev, (tmp_path / "backing/x.h5").read_bytes()
    target.unmount()
    # Takes the number that has become free.
    with (
        SlowFS(tmp_path / "other backing", tmp_path / "other"),
        SlowFS(tmp_path / "backing", tmp_path / "target") as elsewhere,
    ):
        if os.stat(elsewhere / "x.h5").st_dev == device:
            pytest.skip("somebody else has unmounted something, and the device number is the same")
        status, report = recover(tmp_path / "staging-area")
        assert status == 1 and report["files"][0]["reason"] == "replaced"
        assert (tmp_path / "backing/x.h5").read_bytes() == before and left(tmp_path / "staging-area")
    with SlowFS(tmp_path / "backing", tmp_path / "target") as again:
        if os.stat(again / "x.h5").st_dev != device:
            pytest.skip("somebody else has mounted something, and has the device number")
        recovered(tmp_path)
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


def test_a_mount_with_another_device_number_is_told_of_and_recovered_when_somebody_vouches_for_it(
    target, tmp_path, expected
):
    change(target, tmp_path, "", "op=write,errno=EIO")
    area = tmp_path / "staging-area"
    device, before = os.stat(target / "x.h5").st_dev, (tmp_path / "backing/x.h5").read_bytes()
    target.unmount()
    with (
        SlowFS(tmp_path / "other backing", tmp_path / "other"),
        SlowFS(tmp_path / "backing", tmp_path / "target") as elsewhere,
    ):
        if os.stat(elsewhere / "x.h5").st_dev == device:
            pytest.skip("somebody else has unmounted something, and the device number is the same")
        opened = run(script("import h5py\nh5py.File('target/x.h5').close()\n"), staged(tmp_path), tmp_path)
        assert opened.returncode == 0 and opened.stderr.count("--accept-moved") == 1, opened.stderr
        opened = run(script("import h5py\nh5py.File('target/x.h5').close()\n"), staged(tmp_path, "strict=on"), tmp_path)
        assert opened.returncode != 0 and "another identity" in opened.stderr, opened.stderr
        assert (tmp_path / "backing/x.h5").read_bytes() == before and left(area)
        status, report = recover("--accept-moved", "--nls", area, elsewhere / "x.h5")
        assert status == 0 and report["files"][0]["outcome"] == "recovered", report
        assert left(area) == []
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


# ---- a target that hangs, or is slow -----------------------------------------------------------------

HANGS_MAX = 120  # so long a program may take that ought to give up after two seconds, on a busy machine too


@pytest.mark.parametrize("on_error", ["fail", "retry"])
def test_a_target_that_hangs_is_given_up_at_close_and_recovery_brings_everything_home(
    on_error, target, tmp_path, expected
):
    path, before = target / "x.h5", (tmp_path / "backing/x.h5").read_bytes()
    target.fault("op=write,hang")
    done = run(script(CHANGE), staged(tmp_path, f"patience=2;on_error={on_error}"), tmp_path, HANGS_MAX)
    assert done.returncode == 0 and done.stdout.endswith("went on\n"), done.stdout + done.stderr
    assert target.stats()["faults"][0]["hit"] > 0, "the target has not hung"
    told = outcomes(done.stdout)
    assert f"nothing has reached {path} for 2 seconds" in told.pop("close"), done.stdout
    assert set(told.values()) == {"ok"}, "only the close needs the target"
    assert "stay in the staging log" in done.stdout and f"errno = {errno.ETIMEDOUT}" in done.stdout
    files = {entry["path"].rsplit("/", 1)[1]: entry for entry in statistics(tmp_path)}
    file, healthy = files["x.h5"], files["healthy.h5"]
    assert file["error"] == errno.ETIMEDOUT and file["drained"] == 0 and file["pending"] > 3_000_000
    assert healthy["staged"] > 0 and healthy["pending"] == 0 and healthy["error"] == 0
    assert len(left(tmp_path / "staging-area")) == 1, "the log is gone"
    assert target.stats()["hanging"] == 0, "the program has ended, and nobody writes for it any more"
    assert (tmp_path / "backing/x.h5").read_bytes() == before

    target.clear()
    assert recovered(tmp_path)["bytes"] == file["pending"]
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


def test_a_program_that_hears_nothing_is_told_of_a_target_that_hangs_on_standard_error(target, tmp_path, expected):
    target.fault("op=write,hang")
    code = CHANGE.replace('call("close", f.close)', "raise SystemExit(0)")
    done = run(script(code), staged(tmp_path, "patience=2"), tmp_path, HANGS_MAX)
    assert f"nothing has reached {target / 'x.h5'} for 2 seconds" in done.stderr
    target.clear()
    recovered(tmp_path)
    assert (tmp_path / "backing/x.h5").read_bytes() == expected


def test_a_target_that_has_become_a_thousand_times_slower_is_waited_for_beyond_patience(tmp_path):
    """One thread writes 24 pieces of 64 KiB, 0.2 s each. No piece takes as long as `patience`, but all do."""
    make = """
import h5py, numpy as np
with h5py.File("target/x.h5", "w") as f:
    f["old"] = np.arange(200_000)
"""
    code = (
        CALL
        + """
import h5py, numpy as np
f = h5py.File("target/x.h5", "r+")
def write():
    f["old"][:] = -np.arange(200_000)
    f["new"] = np.arange(100)
call("write", write)
call("flush", f.flush)
call("close", f.close)
"""
    )
    (tmp_path / "native/target").mkdir(parents=True)
    run_python(make + code, native(), tmp_path / "native")
    with SlowFS(tmp_path / "backing", tmp_path / "target", latency="0.2ms") as slow:
        run_python(make, native(), tmp_path)
        slow.set_latency("200ms")
        slow.reset()
        done = run(script(code), staged(tmp_path, "patience=2;drain_threads=1;size=4MiB"), tmp_path, HANGS_MAX)
        written = slow.stats()["operations"]["write"]
    assert (done.returncode, done.stdout, done.stderr) == (0, "write ok\nflush ok\nclose ok\n", "")
    assert (tmp_path / "backing/x.h5").read_bytes() == (tmp_path / "native/target/x.h5").read_bytes()
    (file,) = statistics(tmp_path)
    assert file["staged"] > 1_600_000 and file["drained"] > 0 and file["through"] == 0 and file["pending"] == 0
    assert file["error"] == 0 and file["reasons"] == []
    assert written["count"] >= 20 and written["time_s"] > 3, "it was not slow for longer than patience"
    assert left(tmp_path / "staging-area") == []


# ---- the option `through` ---------------------------------------------------------------------------

# Overwrites in place, through one identifier: no dataset is closed while the target fails.
THROUGH = (
    CALL
    + """
import h5py, numpy as np
path = b"target/x.h5"
f = h5py.h5f.open(path, h5py.h5f.ACC_RDWR)
d = h5py.h5d.open(f, b"old")
def write(value):
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.full(300_000, value, "i8"))
call("write 1", lambda: write(1))
call("flush 1", lambda: h5py.h5f.flush(f))
call("write 2", lambda: write(2))
call("flush 2", lambda: h5py.h5f.flush(f))
with h5py.File("healthy.h5", "w") as g:
    g["x"] = np.arange(1000)
print("went on", flush=True)
"""
)


@pytest.mark.parametrize("cause", ["EIO", "ENOSPC"])
def test_with_through_later_writes_fail_by_themselves(cause, target, tmp_path):
    target.fault(f"op=write,errno={cause},offset=1000000..")  # in the dataset
    code = THROUGH + "import os; os._exit(0)\n"
    done = run(script(code), staged(tmp_path, "on_error=through;flush=drain"), tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("went on\n"), done.stdout + done.stderr
    told = outcomes(done.stdout)
    assert told["write 1"] == "ok"  # it was staged
    for name in ("flush 1", "write 2", "flush 2"):
        assert_names_file_offset_and_cause(told[name], cause, target / "x.h5")
    assert "earlier" in told["flush 1"] and "earlier" not in told["write 2"], (
        "a write that goes through has an error of its own"
    )
    assert left(tmp_path / "staging-area"), "the log is gone"
    target.clear()
    recovered(tmp_path)
    assert run_python("import h5py; print(h5py.File('target/x.h5')['old'][299_999])", native(), tmp_path) == "1\n"


@pytest.mark.xfail(
    strict=True,
    reason="HDF5 crashes after a dataset's close has failed, as it does when its last bytes cannot be written through",
)
def test_with_through_a_dataset_whose_last_bytes_fail_at_its_close_crashes_nothing(target, tmp_path):
    told, _ = change(target, tmp_path, "on_error=through", "op=write,errno=EIO")
    assert_names_file_offset_and_cause(told["close"], "EIO", target / "x.h5")


# ---- options of one file -----------------------------------------------------------------------------

# h5py has no call for the connector of one file. Its library has, and is asked through ctypes.
OPEN_WITH = """
import ctypes, sys
import h5py, numpy as np
hdf5 = ctypes.CDLL(h5py.h5p.__file__)
hdf5.H5VLget_connector_id_by_name.restype = ctypes.c_int64
hdf5.H5VLconnector_str_to_info.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p)]
hdf5.H5Pset_vol.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
def open_with(path, options):
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    fapl.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    if options:
        connector, info = hdf5.H5VLget_connector_id_by_name(b"forebay"), ctypes.c_void_p()
        assert hdf5.H5VLconnector_str_to_info(options.encode(), connector, ctypes.byref(info)) >= 0
        assert hdf5.H5Pset_vol(fapl.id, connector, info) >= 0
    return h5py.File(h5py.h5f.open(path.encode(), h5py.h5f.ACC_RDWR, fapl=fapl))
"""
TWO_FILES = (
    CALL
    + OPEN_WITH
    + """
names, options = sys.argv[1:3], sys.argv[3:5]
files = [open_with(f"target/{name}.h5", text) for name, text in zip(names, options)]
for name, f in zip(names, files):
    f["old"][:500] = -1
    f["new"] = np.arange(100_000)
    call(f"flush {name}", f.flush)
for name, f in zip(names, files):
    call(f"close {name}", f.close)
"""
)


@pytest.fixture
def two_targets(tmp_path):
    """A mount with two files, and what a native program leaves of each."""
    (tmp_path / "native/target").mkdir(parents=True)
    with SlowFS(tmp_path / "backing", tmp_path / "target") as fs:
        for name in ("one", "two"):
            run_python(MAKE.replace("x.h5", f"{name}.h5"), native(), tmp_path)
            shutil.copy(tmp_path / f"backing/{name}.h5", tmp_path / "native/target")
        done = run(script(TWO_FILES, "one", "two", "", ""), native(), tmp_path / "native")
        assert done.stdout.count(" ok\n") == 4, done.stdout + done.stderr
        yield fs


def change_two(tmp_path, *options):
    """The program with these options for its two files; both are in the end as natively, and nothing is left."""
    done = run(script(TWO_FILES, "one", "two", *options), staged(tmp_path), tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("one.h5", "two.h5"):
        assert (tmp_path / "backing" / name).read_bytes() == (tmp_path / "native/target" / name).read_bytes()
    assert left(tmp_path / "staging-area") == []
    return done


@pytest.mark.parametrize("first, second", [("fail", "retry"), ("retry", "fail")])
def test_what_is_done_about_errors_the_first_file_decides_and_another_wish_is_answered_by_a_warning(
    first, second, two_targets, tmp_path
):
    for name in ("one", "two"):
        two_targets.fault(f"op=write,errno=EIO,count=1,offset=2000..,path={name}.h5")  # what the open writes arrives
    options = [f"flush=drain;on_error={value}" for value in (first, second)]
    done = change_two(tmp_path, *options)
    assert [fault["hit"] for fault in two_targets.stats()["faults"]] == [1, 1], "the target has not failed"
    told = done.stdout.splitlines()
    assert len(told) == 4
    for line in told:
        if first == "fail" and line.startswith("flush"):  # the close writes it again, and succeeds
            assert_names_file_offset_and_cause(line, "EIO", two_targets / f"{line.split()[1]}.h5")
        else:
            assert line.endswith(" ok")
    warned = (
        "forebay: the options of the first file opened hold for the process: "
        f'"{options[1]}" does not change "{options[0]}"\n'
    )
    assert done.stderr == warned
    assert {entry["error"] for entry in statistics(tmp_path)} == {0}
    assert bytes_staged(tmp_path) > 1_600_000


def test_one_file_of_two_can_be_left_unstaged(two_targets, tmp_path):
    done = change_two(tmp_path, "on_error=retry", "on_error=retry;stage=off")
    assert done.stdout.count(" ok\n") == 4 and done.stderr == "", done.stdout + done.stderr
    assert [os.path.basename(entry["path"]) for entry in statistics(tmp_path) if entry["staged"] > 0] == ["one.h5"]
    assert asides(tmp_path) == {"disabled": 1}


# ---- programs that do not ask ------------------------------------------------------------------------


def test_a_program_that_ends_without_closing_is_told_on_standard_error_and_in_the_status(target, tmp_path):
    target.fault("op=write,errno=ESTALE")
    code = CHANGE.replace('call("close", f.close)', "raise SystemExit(0)")
    command = ["run", "-o", f"nls={tmp_path}/area", "--", *script(code)]
    (tmp_path / "area").mkdir()
    done = run([FOREBAY, *command], native(HDF5_PLUGIN_PATH=""), tmp_path)
    assert done.returncode == EXIT_NOT_DRAINED, done.stderr
    assert_names_file_offset_and_cause(done.stderr, "ESTALE", target / "x.h5")
    target.clear()
    status, _ = recover(tmp_path / "area")
    assert status == 0
    assert run_python("import h5py; print(*h5py.File('target/x.h5'))", native(), tmp_path).startswith(
        "first late old second"
    )


# ---- a target that cannot be opened ------------------------------------------------------------------

KILLED = CHANGE[: CHANGE.index('call("write 3"')] + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.mark.parametrize("cause, operations", [("ESTALE", "open"), ("ESTALE", "lookup|getattr"), ("EIO", "open")])
def test_what_a_dead_process_left_of_a_target_that_cannot_be_opened_stays_until_it_can(
    cause, operations, target, tmp_path
):
    (tmp_path / "native/target").mkdir(parents=True)
    run_python(MAKE, native(), tmp_path / "native")
    assert run(script(KILLED), native(), tmp_path / "native").returncode == -signal.SIGKILL
    target.fault("op=write,hang")  # so that everything is in the log only
    assert run(script(KILLED), staged(tmp_path), tmp_path).returncode == -signal.SIGKILL
    area, before = tmp_path / "staging-area", (tmp_path / "backing/x.h5").read_bytes()
    (log,) = left(area)

    target.clear()
    target.fault(f"op={operations},errno={cause},path=x.h5")
    status, report = recover(area)
    (file,) = report["files"]
    assert status == 1 and file["outcome"] == "refused" and file["reason"] == "system", report
    assert file["message"] == f"open {target / 'x.h5'}: {os.strerror(getattr(errno, cause))}"
    assert "forebay recover" in file["advice"] and file["bytes"] > 3_000_000
    opened = run(script("import h5py\nh5py.File('target/x.h5', 'r+')\n"), staged(tmp_path), tmp_path)
    assert opened.returncode != 0 and os.strerror(getattr(errno, cause)) in opened.stderr, opened.stderr
    # The open fails as natively, before anybody looks for what is left of the file.
    assert "which cannot be recovered" not in opened.stderr, opened.stderr
    assert left(area) == [log] and (tmp_path / "backing/x.h5").read_bytes() == before

    target.clear()
    assert recovered(tmp_path)["bytes"] == file["bytes"]
    assert (tmp_path / "backing/x.h5").read_bytes() == (tmp_path / "native/target/x.h5").read_bytes()
