"""What `wait`, `status`, `recover`, `verify` and `discard` say of a file, in each situation that a user meets.

They say the truth, or that they cannot tell.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from staged_program import environment, holding, process_directories
from target_calls import STRACE, tracing
from test_cli import FOREBAY, call, clean_environment
from test_cli_status import HEADER_BYTES, SLOT_BYTES, SLOT_FIELDS

pytestmark = pytest.mark.slow

h5py = pytest.importorskip("h5py")

FINE, PROBLEM, USAGE, UNKNOWN = 0, 1, 2, 3
ANOTHER = 54321
is_root = os.geteuid() == 0
needs_strace = pytest.mark.skipif(STRACE is None, reason="there is no strace")


@pytest.fixture
def area(tmp_path):
    """Told to the program only: commands find it in the registry."""
    folder = tmp_path / "an area of its own"
    folder.mkdir()
    return folder


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "run.h5"


def ask(command, *arguments, cwd=None, user=None, **environment):
    as_user = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    more = {"wait": ["--timeout", "0"], "discard": ["--yes"]}.get(command, [])
    return subprocess.run(
        [FOREBAY, command, *more, *map(str, arguments)],
        env=clean_environment(**environment),
        cwd=cwd,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        **as_user,
    )


def answers(*arguments, **more):
    """The exit status of each command. Those that change something come last."""
    return {
        command: ask(command, *arguments, **more).returncode
        for command in ("wait", "status", "verify", "recover", "discard")
    }


def spellings(path):
    """The same file by other names."""
    (path.parent / "symbolic.h5").symlink_to(path)
    os.link(path, path.parent / "hard.h5")
    (path.parent.parent / "elsewhere").mkdir()
    (path.parent.parent / "elsewhere" / "folder").symlink_to(path.parent)
    return {
        "plain": (path, None),
        "relative": (path.name, path.parent),
        "symbolic link": (path.parent / "symbolic.h5", None),
        "hard link": (path.parent / "hard.h5", None),
        "folder that is a link": (path.parent.parent / "elsewhere" / "folder" / ".." / "data" / path.name, None),
        "roundabout": (f"{path.parent}/../data/./{path.name}", None),
    }


@pytest.mark.check
def test_a_file_that_is_being_written_is_told_of_by_every_name(path, area):
    with holding(path, area) as holder:
        for spelling, (name, cwd) in spellings(path).items():
            waited = ask("wait", name, cwd=cwd)
            assert waited.returncode == PROBLEM and "not in the file yet" in waited.stderr, spelling
            shown = json.loads(ask("status", "--json", name, cwd=cwd).stdout)
            assert [file["path"] for file in shown["files"]] == [str(path)] and shown["files"][0]["pending"] > 0, (
                spelling
            )
            for command in ("recover", "discard"):
                done = ask(command, "--json", name, cwd=cwd)
                report = json.loads(done.stdout)
                assert done.returncode == PROBLEM, (spelling, done.stdout)
                assert [(file["outcome"], file["reason"], file["processes"]) for file in report["files"]] == [
                    ("refused", "in_use", [holder.pid])
                ], spelling
                assert report["living"] == [str(directory) for directory in process_directories(area)]
        assert ask("status", "--check", path).returncode == 4
        holder.close()
        assert answers(path) == {"wait": FINE, "status": FINE, "verify": FINE, "recover": FINE, "discard": FINE}
        assert ask("status", "--check", path).returncode == FINE


def test_after_a_restart_the_log_of_a_file_counts_more_than_its_ledger(path, area):
    """A ledger is never synced. After a loss of power it may be older than the last commit in the log."""
    with holding(path, area) as holder:
        holder.kill()
    (directory,) = process_directories(area)
    content = bytearray((directory / "ledger").read_bytes())
    for slot in range(HEADER_BYTES, len(content), SLOT_BYTES):
        for field in ("pending", "held", "oldest_ns"):
            at = slot + 8 * SLOT_FIELDS.index(field)
            content[at : at + 8] = bytes(8)
    (directory / "ledger").write_bytes(content)
    assert ask("status", "--check", path).returncode == FINE
    content[32] ^= 1  # the boot id
    (directory / "ledger").write_bytes(content)
    assert ask("status", "--check", path).returncode == ask("wait", path).returncode == PROBLEM
    (file,) = json.loads(ask("status", "--json", path).stdout)["files"]
    assert file["state"] == "left_behind"
    text = ask("status", path).stdout
    assert "its log may have more than these counters show" in text and "all staged bytes are in the file" not in text


def test_commands_name_only_processes_that_have_the_file(path, area, tmp_path):
    other = path.with_name("other.h5")
    second = tmp_path / "second"
    second.mkdir()
    with holding(path, area) as one, holding(other, second):
        for command in ("recover", "discard"):
            report = json.loads(ask(command, "--json", path).stdout)
            assert [file["processes"] for file in report["files"]] == [[one.pid]]
            assert len(report["living"]) == 1 and f"/{one.pid}-" in report["living"][0]
        waited = ask("wait", path, other)
        assert waited.returncode == PROBLEM and str(path) in waited.stderr and str(other) in waited.stderr
        shown = json.loads(ask("status", "--json").stdout)
        assert sorted(file["path"] for file in shown["files"]) == sorted([str(path), str(other)])
        # Whoever names an area asks about that one.
        assert [file["path"] for file in json.loads(ask("status", "--json", "--nls", second).stdout)["files"]] == [
            str(other)
        ]


def test_a_dead_programs_log_is_found_without_being_told_where(path, area):
    with holding(path, area) as holder:
        holder.kill()
    for _spelling, (name, cwd) in spellings(path).items():
        waited = ask("wait", name, cwd=cwd)
        assert (
            waited.returncode == PROBLEM
            and "forebay recover" in waited.stderr
            and str(process_directories(area)[0]) in waited.stderr
        )
    assert ask("status", "--check", path).returncode == PROBLEM
    assert "forebay recover" in ask("status", path).stdout
    verified = json.loads(ask("verify", "--json", path).stdout)
    assert [directory["path"] for directory in verified["directories"]] == [
        str(one) for one in process_directories(area)
    ]
    assert ask("recover", path).returncode == FINE
    with h5py.File(path) as file:
        assert (file["x"][:] == 1).all() and "late" not in file
    assert answers(path) == {"wait": FINE, "status": FINE, "verify": FINE, "recover": FINE, "discard": FINE}


def test_the_registry_forgets_what_is_empty(path, area, registry):
    def noted():
        return sorted(registry.glob("forebay-areas-*/*"))

    with holding(path, area) as holder:
        assert len(noted()) == 1 and str(area) in noted()[0].read_text()
        assert ask("status").returncode == FINE and len(noted()) == 1, "it is in use"
        holder.close()
    assert ask("status").returncode == FINE
    assert noted() == []


def test_after_a_restart_an_area_is_looked_for_until_its_own_directory_is_there(path, area, registry):
    """A restart may change the number of the area's device, and may leave its file system unmounted."""
    with holding(path, area) as holder:
        holder.kill()
    (entry,) = registry.glob("forebay-areas-*/*")
    text = entry.read_text()
    for line in ("device 1", "boot 00000000-0000-0000-0000-000000000000", "memory 0"):
        text, replaced = re.subn(rf"^{line.split()[0]} .*$", line, text, count=1, flags=re.MULTILINE)
        assert replaced == 1
    entry.write_text(text)
    mounted = area.rename(area.with_name("the file system"))
    area.mkdir()
    (area / "NOT_MOUNTED").touch()
    for command in (["status", "--check"], ["wait", path], ["recover"], ["drain", "--all", "--timeout", "0"]):
        done = ask(*command)
        assert done.returncode == UNKNOWN, (command, done.stdout, done.stderr)
        assert f"{area}: its file system is not mounted there" in done.stdout + done.stderr
        assert entry.read_text() == text
    shutil.rmtree(area)
    mounted.rename(area)
    assert ask("status", "--check").returncode == PROBLEM
    assert ask("recover").returncode == FINE
    assert process_directories(area) == []
    assert ask("status", "--check").returncode == FINE
    assert not entry.exists(), "it is empty"


@pytest.mark.parametrize("gone", ["deleted", "damaged entry", "unreadable registry"])
def test_what_the_registry_cannot_tell_is_told(path, area, registry, gone):
    path.touch()
    with holding(path.with_name("other.h5"), area) as holder:
        holder.kill()
    (entry,) = registry.glob("forebay-areas-*/*")
    if gone == "deleted":
        shutil.rmtree(area)
        expected = FINE
    elif gone == "damaged entry":
        entry.write_text("x")
        expected = UNKNOWN
    else:
        entry.parent.chmod(0o755)
        expected = UNKNOWN
    for command in ("wait", "verify", "recover", "discard"):
        done = ask(command, path) if command != "wait" else call("wait", path)
        assert done.returncode == expected, (command, done.stdout, done.stderr)
        if expected == UNKNOWN:
            assert str(entry.parent) in done.stdout + done.stderr
    assert ask("status", "--check", path).returncode == expected


def test_a_directory_and_a_file_that_does_not_exist_are_no_files_to_wait_for(path, area):
    with holding(path, area) as holder:
        for directory in (area, path.parent, "."):
            waited = ask("wait", directory, cwd=path.parent)
            assert waited.returncode == USAGE and "is a directory" in waited.stderr
        missing = path.with_name("none.h5")
        assert ask("wait", missing).returncode == USAGE
        assert ask("recover", missing).returncode == USAGE
        # It has gone away under the program: its log is found by its name.
        path.unlink()
        assert ask("wait", path).returncode == USAGE
        holder.kill()
    for command in (["recover", "--dry-run"], ["status"]):
        done = ask(*command, "--json", path)
        assert "run.h5" in done.stdout
    # On a small file system it is proved that the file is gone; else only the user knows.
    (file,) = json.loads(ask("recover", "--json", "--dry-run", path).stdout)["files"]
    assert file["reason"] == "missing" or file["outcome"] == "gone"
    assert ask("recover", "--dry-run", path).returncode == (FINE if file["outcome"] == "gone" else PROBLEM)
    assert ask("discard", path).returncode == FINE
    assert process_directories(area) == []


@pytest.mark.parametrize(
    "damage, wait, recover, verify", [("version", UNKNOWN, PROBLEM, PROBLEM), ("garbage", UNKNOWN, PROBLEM, PROBLEM)]
)
def test_a_log_that_cannot_be_read_may_be_of_any_file(path, area, damage, wait, recover, verify):
    path.touch()
    with holding(path.with_name("other.h5"), area) as holder:
        holder.kill()
    (directory,) = process_directories(area)
    log = directory / "log"
    content = bytearray(log.read_bytes())
    if damage == "version":
        for begin in range(0, len(content), 1 << 20):
            if content[begin : begin + 8] == b"FBAYSEG1":
                content[begin + 8 : begin + 12] = (2).to_bytes(4, "little")
    else:
        content[:] = b"x" * len(content)
    log.write_bytes(content)
    waited = call("wait", path)
    assert (
        waited.returncode == wait
        and "unknown whether bytes are staged" in waited.stderr
        and str(directory) in waited.stderr
    )
    assert ask("verify", path).returncode == verify
    recovered = ask("recover", path)
    assert recovered.returncode == recover and str(directory) in recovered.stdout
    assert ask("discard", path).returncode == PROBLEM
    assert ask("status", "--check", path).returncode == UNKNOWN
    assert ask("discard", directory).returncode == FINE
    assert answers(path) == {"wait": FINE, "status": FINE, "verify": FINE, "recover": FINE, "discard": FINE}


def synced_by_wait(tmp_path, name):
    """The calls that sync something, with the paths of their descriptors."""
    trace = tmp_path / "trace.txt"
    done = subprocess.run(
        [*tracing(trace), FOREBAY, "wait", name], env=clean_environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == FINE, done.stderr
    return re.findall(r"(fsync|syncfs)\(\d+<(.*?)>", trace.read_text())


@needs_strace
def test_wait_syncs_the_folder_that_has_the_file_and_not_that_of_a_link_to_it(path, area, tmp_path):
    path.write_bytes(b"complete")
    (tmp_path / "link.h5").symlink_to(path)
    synced = synced_by_wait(tmp_path, tmp_path / "link.h5")
    assert synced == [("fsync", str(path)), ("fsync", str(path.parent))]


@pytest.mark.skipif(not is_root, reason="becoming another user takes root")
class TestOtherUsers:
    @pytest.fixture
    def open_to_all(self, tmp_path, area, path, registry):
        """Everybody may come to everything, as on /tmp."""
        for folder in (area, path.parent, registry):
            folder.chmod(0o1777)
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        if subprocess.run(["test", "-x", FOREBAY], user=ANOTHER, group=ANOTHER, check=False).returncode != 0:
            pytest.skip("another user cannot run the command where it was built")

    def test_root_sees_the_logs_of_all(self, open_to_all, path, area):
        with holding(path, area, user=ANOTHER) as holder:
            assert ask("wait", path).returncode == PROBLEM
            assert ask("recover", path).returncode == PROBLEM
            assert ask("status", "--check").returncode == FINE, "root's own"
            assert ask("status", "--check", "--all-users").returncode == 4
            shown = json.loads(ask("status", "--json", "--nls", area).stdout)
            assert [file["path"] for file in shown["files"]] == [str(path)]
            holder.kill()
        # A user who asks about a file of their own is told nothing of another user's.
        own = path.with_name("own.h5")
        own.touch()
        for command in (["wait", own], ["status", own], ["recover", own], ["recover", "--dry-run", own]):
            told = ask(*command)
            said = told.stdout + told.stderr
            assert told.returncode == FINE and path.name not in said and f"user {ANOTHER}" not in said, said
        assert ask("wait", path).returncode == PROBLEM
        assert ask("verify", "--json", process_directories(area, ANOTHER)[0].parent).returncode == FINE
        nothing = ask("recover")
        assert nothing.returncode == FINE and f"Not included: the logs of user {ANOTHER}" in nothing.stdout
        assert process_directories(area, ANOTHER), "not asked for"
        recovered = ask("recover", "--json", area)
        assert recovered.returncode == FINE, recovered.stdout
        assert [file["outcome"] for file in json.loads(recovered.stdout)["files"]] == ["recovered"]
        assert path.stat().st_uid == ANOTHER and process_directories(area, ANOTHER) == []
        assert ask("wait", path).returncode == FINE

    def test_another_users_log_is_not_taken_for_none(self, open_to_all, path, area):
        with holding(path, area) as holder:
            path.chmod(0o644)
            for command in ("wait", "verify", "recover", "discard"):
                done = ask(command, path, user=ANOTHER)
                assert done.returncode == UNKNOWN, (command, done.stdout, done.stderr)
                assert "root (0)" in done.stdout + done.stderr
            assert ask("status", "--check", path, user=ANOTHER).returncode == UNKNOWN
            folder = process_directories(area)[0].parent
            assert ask("verify", folder, user=ANOTHER).returncode == UNKNOWN
            # Nobody else could have written this one.
            mine = path.with_name("mine.h5")
            mine.touch()
            os.chown(mine, ANOTHER, ANOTHER)
            assert ask("wait", mine, user=ANOTHER).returncode == FINE
            assert ask("recover", user=ANOTHER).returncode == FINE
            holder.close()

    def test_a_folder_that_the_user_may_only_search_is_no_failure(self, open_to_all, path, area):
        path.write_bytes(b"complete")
        os.chown(path, ANOTHER, ANOTHER)
        path.parent.chmod(0o711)
        done = ask("wait", path, user=ANOTHER)
        assert done.returncode == FINE, done.stderr

    def test_root_recovers_with_the_rights_of_the_user(self, open_to_all, path, area, tmp_path):
        """Whoever makes a log that names somebody else's file must not have root write it."""
        with holding(path, area, user=ANOTHER) as holder:
            holder.kill()
        os.chown(path, 0, 0)
        path.chmod(0o644)
        before = path.read_bytes()
        assert ask("recover", path).returncode == PROBLEM
        assert path.read_bytes() == before


@pytest.mark.skipif(not is_root, reason="mounting takes root")
def test_a_file_is_the_same_at_another_mount_point(path, area, tmp_path):
    second = tmp_path / "mounted again"
    second.mkdir()
    if subprocess.run(["mount", "--bind", path.parent, second], check=False, capture_output=True).returncode != 0:
        pytest.skip("this system does not let root mount")
    try:
        with holding(path, area) as holder:
            assert ask("wait", second / path.name).returncode == PROBLEM
            assert ask("recover", second / path.name).returncode == PROBLEM
            holder.kill()
        assert ask("recover", second / path.name).returncode == FINE
        assert Path(path).stat().st_size > 0
    finally:
        subprocess.run(["umount", "-l", second], check=False)


def test_a_close_that_failed_in_a_process_that_lives_is_told_of(path, area):
    """A limit of the file size stops the drain. What was staged stays in the log as long as the process lives."""
    code = f"""
import resource, signal, sys
import h5py
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
f = h5py.File({str(path)!r}, "w")
f["x"] = list(range(200000))
f.flush()
f["x"][:] = 7   # below the end of the last commit: it waits for the next one
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
try:
    f.close()
except Exception as error:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("closed", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(area),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdout.readline() == "closed\n"
        waited = call("wait", path)
        assert waited.returncode == PROBLEM and str(path) in waited.stderr and "cannot write" in waited.stderr, (
            waited.stderr
        )
        done = ask("recover", "--json", path)
        assert done.returncode == PROBLEM and json.loads(done.stdout)["files"][0]["processes"] == [program.pid]
        assert ask("status", "--check", path).returncode == PROBLEM
        program.kill()
