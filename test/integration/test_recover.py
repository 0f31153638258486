"""Programs that are killed, `forebay recover`, and what stock HDF5 then finds in their files.

What is expected is what the same program, run natively and killed right after its last flush, has in its file.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from connector_environment import hdf5_prefix, native, plugin_folder
from test_cli import FOREBAY, call

pytestmark = pytest.mark.slow

h5py = pytest.importorskip("h5py")

# The flags of a superblock of version 3, and its checksum: they differ between a file that is open and one that is not.
MARKS = (slice(11, 12), slice(44, 48))

PROGRAM = """
import os, signal, sys
import h5py, numpy as np
path, libver, until = sys.argv[1:4]
f = h5py.File(path, "a", libver=libver)
if until == "open":
    os.kill(os.getpid(), signal.SIGKILL)
for step in range(3):
    group = f.create_group(f"step {step}")
    group["raw"] = np.arange(60000, dtype="i8") * (step + 1)
    chunked = group.create_dataset("chunked", (400, 400), "f4", chunks=(50, 70), compression="gzip")
    chunked[::2] = step + 0.5
    group.create_dataset("text", data=["a", "bb" * step], dtype=h5py.string_dtype())
    if step:
        del f[f"step {step - 1}/text"]
        f[f"step {step - 1}/raw"][:1000] = -step
    f.flush()
    if until == f"flush {step}":
        os.kill(os.getpid(), signal.SIGKILL)
# After the last flush: space is freed and used again, what is there is overwritten, the file grows.
for step in range(3):
    f[f"step {step}/raw"][500:] = 7
    f[f"step {step}/chunked"][...] = 9
    del f[f"step {step}/chunked"]
f["late"] = np.ones(100000)
f.attrs["late"] = "yes"
os.kill(os.getpid(), signal.SIGKILL)
"""


def staged(area, info=""):
    return native(
        HDF5_VOL_CONNECTOR=f"forebay {info}".strip(), HDF5_PLUGIN_PATH=str(plugin_folder()), FOREBAY_NLS=str(area)
    )


def run_until_killed(path, libver, until, environment):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), libver, until],
        env=environment,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def recover(*arguments):
    done = call("recover", "--json", *arguments)
    return done.returncode, json.loads(done.stdout)


def without_marks(path):
    content = bytearray(path.read_bytes())
    if content[:8] == b"\x89HDF\r\n\x1a\n" and content[8] >= 2:
        for marks in MARKS:
            content[marks] = bytes(len(content[marks]))
    return bytes(content)


def h5dump(path):
    return subprocess.run(
        [hdf5_prefix() / "bin" / "h5dump", path.name], cwd=path.parent, env=native(), capture_output=True, timeout=60
    )


def left(area):
    return sorted(path.name for path in (area / f"forebay-{os.geteuid()}").iterdir())


def damage(log):
    """One bit in the header of the second record of every segment in use."""
    content = bytearray(log.read_bytes())
    segment = 1 << 20
    for begin in range(0, len(content), segment):
        if content[begin : begin + 8] == b"FBAYSEG1":
            content[content.index(b"FREC", content.index(b"FREC", begin) + 4) + 20] ^= 1
    log.write_bytes(content)


@pytest.fixture
def area(tmp_path):
    folder = tmp_path / "staging area"
    folder.mkdir()
    return folder


@pytest.fixture(params=["earliest", "v110", "latest"])  # superblocks without and with a mark; all that h5py knows
def libver(request):
    return request.param


@pytest.fixture
def killed(tmp_path, area, libver):
    """A file whose program was killed after three flushes and more, and one killed natively at the last flush."""
    (tmp_path / "native").mkdir()
    expected = tmp_path / "native" / "run.h5"
    run_until_killed(expected, libver, "flush 2", native())
    path = tmp_path / "run.h5"
    run_until_killed(path, libver, "end", staged(area))
    assert left(area), "nothing was staged"
    return path, expected


@pytest.mark.check
def test_a_recovered_file_holds_everything_up_to_the_last_flush_byte_for_byte(killed, area, libver):
    path, expected = killed
    status, report = recover(area)
    assert status == 0
    (file,) = report["files"]
    assert file["outcome"] == "recovered" and file["path"] == str(path)
    assert file["dropped_bytes"] > 0, "the program went on after its flush"
    assert file["dropped_reason"] == "not_committed"
    assert file["mark_cleared"] == (libver != "earliest")
    assert 0 < file["unchecked_bytes"] < file["bytes"], (
        "the large datasets' bytes have no checksum unless it is asked for"
    )
    assert without_marks(path) == without_marks(expected)
    assert left(area) == []
    with h5py.File(path, "r+") as f:  # refused as long as it is marked as open
        assert list(f) == ["step 0", "step 1", "step 2"]
        assert (f["step 1/raw"][:1000] == -2).all() and f["step 1/raw"][1000] == 2000
        assert "late" not in f.attrs


def test_h5dump_reads_the_recovered_file_as_it_reads_the_native_one(killed, area, libver):
    path, expected = killed
    assert recover(area)[0] == 0
    if libver == "latest" and h5py.version.hdf5_version_tuple >= (2, 0, 0):
        pytest.skip("the newest format is that of the wheel's HDF5, which h5dump of 1.14.5 does not read")
    if libver != "earliest":
        assert h5dump(expected).returncode != 0, "a native crash leaves a file that is marked"
        subprocess.run([hdf5_prefix() / "bin" / "h5clear", "-s", expected], env=native(), check=True, timeout=60)
    dumped = h5dump(path)
    assert dumped.returncode == 0
    assert dumped.stdout == h5dump(expected).stdout
    assert b"late" not in dumped.stdout


def test_it_may_be_run_again_and_tells_beforehand_what_it_will_do(killed, area):
    path, _ = killed
    before = path.read_bytes()
    status, report = recover("--dry-run", area)
    assert status == 0 and report["dry_run"] and report["files"][0]["outcome"] == "recovered"
    assert path.read_bytes() == before and left(area)
    assert recover(area)[0] == 0
    after = path.read_bytes()
    status, report = recover(area)
    assert status == 0 and report["files"] == []
    assert path.read_bytes() == after


def elsewhere(path, name):
    (path.parent / "elsewhere").mkdir()
    return path.rename(path.parent / "elsewhere" / name)


@pytest.mark.parametrize("asked", ["by its name now", "by its old name", "not by name"])
@pytest.mark.parametrize("how", ["below", "with its folder"])
def test_a_file_is_found_by_what_it_is_wherever_it_was_moved(killed, area, how, asked):
    path, expected = killed
    if how == "below":
        moved = elsewhere(path, "moved.h5")
    else:
        folder = path.parent / "step 5"
        folder.mkdir()
        moved = path.rename(folder / path.name)
        moved = folder.rename(path.parent / "step 5 is done") / path.name
    names = {"by its name now": [moved], "by its old name": [path], "not by name": []}[asked]
    status, report = recover("--nls", area, *names) if names else recover(area)
    assert status == 0 and report["files"][0]["path"] == str(moved), report
    assert without_marks(moved) == without_marks(expected) and not left(area)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_with_another_name_in_its_folder_is_found(killed, area, replaced):
    path, expected = killed
    moved = path.rename(path.with_name("moved.h5"))
    if replaced:
        path.write_bytes(b"something else")
    status, report = recover(area)
    assert status == 0 and report["files"][0]["path"] == str(moved)
    assert without_marks(moved) == without_marks(expected) and not left(area)
    assert not replaced or path.read_bytes() == b"something else"


def test_another_file_in_its_place_is_never_touched(killed, area, tmp_path_factory):
    path, expected = killed
    moved = path.rename(tmp_path_factory.mktemp("elsewhere") / "moved.h5")
    path.write_bytes(b"something else")
    status, report = recover(area)
    assert status == 0 and report["files"][0]["path"] == str(moved) and not left(area)
    assert path.read_bytes() == b"something else" and without_marks(moved) == without_marks(expected)


def test_what_has_taken_the_place_of_a_file_that_is_gone_is_never_touched(killed, area):
    path, _ = killed
    path.unlink()
    path.write_bytes(b"something else")
    status, report = recover(area)
    (file,) = report["files"]
    assert status == 1 and file["reason"] == "replaced" and left(area)
    assert path.read_bytes() == b"something else"


def test_a_file_that_was_written_long_after_is_left_alone(killed, area):
    path, _ = killed
    later = path.stat().st_mtime + 100
    os.utime(path, (later, later))
    before = path.read_bytes()
    status, report = recover(area)
    assert status == 1 and report["files"][0]["reason"] == "changed"
    assert path.read_bytes() == before and left(area)
    assert recover("--changed", area)[0] == 0


def test_a_file_that_was_never_flushed_is_as_it_was_when_it_was_opened(tmp_path, area):
    path, opened = tmp_path / "run.h5", tmp_path / "opened.h5"
    for each in (path, opened):
        with h5py.File(each, "w") as f:
            f["kept"] = 1
    run_until_killed(opened, "earliest", "open", native())  # HDF5 writes, and flushes, the superblock then
    program = PROGRAM.replace("    f.flush()\n", "")
    ended = subprocess.run([sys.executable, "-c", program, path, "earliest", "end"], env=staged(area), timeout=120)
    assert ended.returncode == -signal.SIGKILL
    status, report = recover(area)
    assert status == 0 and len(report["files"]) == 1 and report["files"][0]["dropped_bytes"] > 0
    # What HDF5 writes as it opens a file it flushes, and that is a commit.
    assert report["files"][0]["dropped_reason"] == "not_committed"
    assert path.read_bytes() == opened.read_bytes()


def test_it_tells_of_which_moment_the_file_is_although_the_record_of_the_commit_has_been_given_back(tmp_path, area):
    path = tmp_path / "run.h5"
    program = """
import os, signal, sys, time
import h5py, numpy as np
f = h5py.File(sys.argv[1], "w")
f["kept"] = np.arange(1000)
before = time.time_ns()
f.flush()
print(before, time.time_ns(), flush=True)
for step in range(32):   # four times what the log can hold
    f[f"late {step}"] = np.full(1 << 17, step, "f8")
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, path],
        env=staged(area, "size=8MiB"),
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    begun, ended_ns = map(int, ended.stdout.split())
    status, report = recover("--dry-run", area)
    assert status == 0
    (file,) = report["files"]
    assert file["outcome"] == "recovered" and file["commit_sequence"] > 0
    assert begun <= file["commit_time_ns"] <= ended_ns
    told = call("recover", area)
    assert told.returncode == 0
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(file["commit_time_ns"] // 10**9))
    assert f"recovered: to its commit of {moment}: " in told.stdout
    with h5py.File(path) as f:
        assert list(f) == ["kept"] and (f["kept"][:] == range(1000)).all()


def test_a_living_program_is_not_disturbed(tmp_path, area):
    path = tmp_path / "run.h5"
    program = PROGRAM.replace("os.kill(os.getpid(), signal.SIGKILL)", "print('here', flush=True), input(), f.close()")
    running = subprocess.Popen(
        [sys.executable, "-c", program, path, "earliest", "end"],
        env=staged(area),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "here\n"
    there = left(area)
    status, report = recover(area)
    assert status == 1 and report["files"] == [] and len(report["living"]) == 1
    told = call("recover", area)
    assert told.returncode == 1 and "in use by a living process" in told.stdout
    assert "There are no staged bytes of dead processes" not in told.stdout, "its log was not looked at"
    assert left(area) == there
    running.communicate("\n", timeout=60)
    assert running.returncode == 0
    with h5py.File(path) as f:
        assert "late" in f


# Sees processes of its own only, under other numbers, as in a container.
def await_end(process_id):
    """Until a process has let go of its files: its output ends before it gives up its locks."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.01)
    raise AssertionError("the process does not end")


ANOTHER_PID_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.mark.parametrize("ends", ["well", "killed"])
def test_a_living_program_of_another_container_is_not_disturbed_and_a_dead_one_is_recovered(tmp_path, area, ends):
    if subprocess.run([*ANOTHER_PID_NAMESPACE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not make a PID namespace")
    path, other = tmp_path / "run.h5", tmp_path / "other.h5"
    program = """
import sys
import h5py, numpy as np
f = h5py.File(sys.argv[1], "w", locking=False)
f["kept"] = np.arange(100000)
f.flush()
f["late"] = np.arange(200000)
print("here", flush=True)
input()
f["last"] = 1
f.close()
"""
    process = subprocess.Popen(
        [*ANOTHER_PID_NAMESPACE, sys.executable, "-c", program, path],
        env=staged(area),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "here\n"
    before = left(area)
    assert len(before) == 1
    # Not by recovery, not by the next program that stages something, nor by one that opens the very file.
    status, report = recover(area)
    assert status == 1 and report["files"] == [] and report["removed"] == [] and len(report["living"]) == 1
    assert "(dead)" not in call("status", area).stdout
    subprocess.run(
        [sys.executable, "-c", f"import h5py; h5py.File({str(other)!r}, 'w')['x'] = 1"],
        env=staged(area),
        check=True,
        timeout=60,
    )
    opened = subprocess.run(
        [sys.executable, "-c", f"import h5py; h5py.File({str(path)!r}, 'r', locking=False)"],
        env=staged(area),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "forebay: " not in opened.stderr, opened.stderr
    assert left(area) == before

    if ends == "well":
        assert process.communicate("\n", timeout=60) and process.returncode == 0
        with h5py.File(path) as f:
            assert list(f) == ["kept", "last", "late"] and (f["late"][:] == range(200000)).all()
    else:
        # The program itself: it would read the end of its input if its parent ended first, and close the file.
        (program_id,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(program_id), signal.SIGKILL)
        await_end(program_id)
        process.communicate(timeout=60)
        status, report = recover(area)
        assert status == 0 and [file["outcome"] for file in report["files"]] == ["recovered"]
        with h5py.File(path) as f:
            assert list(f) == ["kept"] and (f["kept"][:] == range(100000)).all()
    assert left(area) == []


def test_discard_asks_and_then_gives_the_log_up(killed, area):
    path, _ = killed
    before = path.read_bytes()
    assert call("discard", "--nls", area, path).returncode == 2, "there is nobody to ask"
    assert left(area)
    assert call("discard", area).returncode == 2, "a whole staging area is not discarded"
    done = call("discard", "--yes", "--nls", area, path)
    assert done.returncode == 0 and "discarded" in done.stdout
    assert left(area) == [] and path.read_bytes() == before


def test_verify_tells_a_sound_log_from_a_damaged_one(killed, area):
    path, _ = killed
    done = call("verify", "--json", area)
    (directory,) = json.loads(done.stdout)["directories"]
    assert done.returncode == 0 and directory["logs"][0]["path"] == str(path)
    assert directory["logs"][0]["records"] > 5 and directory["logs"][0]["damage"] == []
    damage(Path(directory["path"], "log"))
    done = call("verify", area)
    assert done.returncode == 1 and "DAMAGED" in done.stdout
    status, report = recover(area)
    assert status == 1 and report["files"][0]["reason"] == "damaged" and left(area)


def test_wait_returns_when_the_program_has_closed_the_file(tmp_path, area):
    path = tmp_path / "run.h5"
    # What is written below the end of the last commit waits for the next one.
    program = """
import sys, h5py, numpy as np
f = h5py.File(sys.argv[1], "w")
f["x"] = np.zeros(20000)
f.flush()
f["x"][:] = np.arange(20000)
print("here", flush=True)
input()
f.close()
input()
"""
    running = subprocess.Popen(
        [sys.executable, "-c", program, path],
        env=staged(area),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "here\n"
    waited = call("wait", "--nls", area, "--timeout", "0", path)
    assert waited.returncode == 1 and "not in the file yet" in waited.stderr
    waiting = subprocess.Popen([FOREBAY, "wait", "--nls", area, path], env=native())
    running.stdin.write("\n")
    running.stdin.flush()
    assert waiting.wait(timeout=60) == 0
    assert running.poll() is None, "the program has closed the file, and goes on"
    with h5py.File(path) as f:
        assert f["x"][19999] == 19999
    running.communicate("\n", timeout=60)


def test_wait_does_not_wait_for_the_dead(killed, area):
    path, _ = killed
    waited = call("wait", "--nls", area, path)
    assert waited.returncode == 1 and "forebay recover" in waited.stderr
    assert call("wait", "--nls", area, path.with_name("none.h5")).returncode == 2


MANY = """
import sys, h5py, numpy as np
from pathlib import Path
folder = Path(sys.argv[1])
files = [h5py.File(folder / f"{i:03}.h5", "w") for i in range(300)]
for f in files:
    f["x"] = np.zeros(20000)
    f.flush()
    f["x"][:] = np.arange(20000)
print("here", flush=True)
input()
for f in files:
    f.close()
print("closed", flush=True)
input()
"""


def test_wait_knows_of_files_that_are_not_in_the_table_of_their_process(tmp_path, area):
    running = subprocess.Popen(
        [sys.executable, "-c", MANY, tmp_path],
        env=staged(area),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "here\n"
    shown = json.loads(call("status", "--nls", area, "--json").stdout)
    assert sum(process["files_without_slot"] for process in shown["processes"]) == 300 - 256
    shown = {Path(file["path"]).name for process in shown["processes"] for file in process["files"]}
    hidden = next(path for path in sorted(tmp_path.glob("*.h5")) if path.name not in shown)
    waited = call("wait", "--nls", area, "--timeout", "0.5", hidden)
    assert waited.returncode == 1 and "has too many files open to show the progress" in waited.stderr
    waiting = subprocess.Popen([FOREBAY, "wait", "--nls", area, hidden], env=native())
    running.stdin.write("\n")
    running.stdin.flush()
    assert running.stdout.readline() == "closed\n"
    assert waiting.wait(timeout=60) == 0
    assert running.poll() is None
    running.communicate("\n", timeout=60)


def test_wait_does_not_say_what_it_cannot_know(tmp_path, area):
    path, other = tmp_path / "000.h5", tmp_path / "other.h5"
    other.write_bytes(b"")
    running = subprocess.Popen(
        [sys.executable, "-c", MANY.replace("300", "1"), tmp_path],
        env=staged(area),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "here\n"
    directory = area / f"forebay-{os.geteuid()}" / left(area)[0]
    magic = (directory / "ledger").read_bytes()[:8]
    with open(directory / "ledger", "r+b") as ledger:
        ledger.write(b"of other")
    assert call("wait", "--nls", area, "--timeout", "0", path).returncode == 1, "its log tells"
    waited = call("wait", "--nls", area, other)
    assert waited.returncode == 3 and "unknown whether bytes are staged" in waited.stderr
    with open(directory / "ledger", "r+b") as ledger:
        ledger.write(magic)
    assert call("wait", "--nls", area, other).returncode == 0
    running.communicate("\n\n", timeout=60)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_wait_syncs_the_file_and_its_directory_before_it_returns(tmp_path, area):
    path = tmp_path / "run.h5"
    path.write_bytes(b"something")
    for options, syncs in (([], [path, tmp_path]), (["--no-sync"], [])):
        traced = tmp_path / "trace"
        command = ["strace", "-y", "-e", "trace=fsync", "-o", traced, FOREBAY, "wait", "--nls", area, *options, path]
        assert subprocess.run(command, env=native(), timeout=60).returncode == 0
        lines = [line for line in traced.read_text().splitlines() if line.startswith("fsync")]
        assert len(lines) == len(syncs) and all(f"<{each}>" in line for each, line in zip(syncs, lines))


def test_status_names_what_was_left_and_what_to_do(killed, area):
    shown = call("status", "--nls", area).stdout
    assert "(dead)" in shown and "forebay recover" in shown and str(killed[0])[-40:] in shown


# ---- automatic recovery ------------------------------------------------------------------------------

READ = "import h5py, sys\nwith h5py.File(sys.argv[1], sys.argv[2], driver=sys.argv[3] or None) as f: print(list(f))"


def open_with(path, mode, environment, driver=""):
    return subprocess.run(
        [sys.executable, "-c", READ, path, mode, driver], env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.check
@pytest.mark.parametrize("driver", ["", "core", "stdio"])  # the default one is forebay's
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_opening_a_file_recovers_it_first_and_says_so_once(killed, area, mode, driver):
    path, expected = killed
    opened = open_with(path, mode, staged(area), driver)
    assert opened.returncode == 0, opened.stderr
    assert opened.stdout == "['step 0', 'step 1', 'step 2']\n"
    assert opened.stderr.count("forebay:") == 1 and "at its last flush now" in opened.stderr
    assert left(area) == []
    if mode == "r":
        assert without_marks(path) == without_marks(expected)
    again = open_with(path, mode, staged(area), driver)
    assert again.returncode == 0 and again.stderr == ""


def test_creating_a_file_anew_gives_up_what_was_left_of_the_old_one(killed, area):
    path, _ = killed
    with_new = "import h5py, sys\nwith h5py.File(sys.argv[1], 'w') as f: f['new'] = 1"
    created = subprocess.run(
        [sys.executable, "-c", with_new, path], env=staged(area), capture_output=True, text=True, timeout=60
    )
    assert created.returncode == 0 and left(area) == []
    status, report = recover(area)
    assert status == 0 and report["files"] == []
    with h5py.File(path) as f:
        assert list(f) == ["new"]


@pytest.mark.parametrize("driver", ["", "core", "stdio"])
def test_a_file_that_cannot_be_recovered_is_not_opened_for_writing(killed, area, driver):
    path, _ = killed
    (log,) = area.glob("forebay-*/*/log")
    damage(log)
    before = path.read_bytes()
    opened = open_with(path, "r+", staged(area), driver)
    assert opened.returncode != 0 and "cannot be recovered" in opened.stderr and "forebay discard" in opened.stderr
    assert path.read_bytes() == before and left(area)
    assert "cannot be recovered" in open_with(path, "r", staged(area), driver).stderr
