"""`forebay status`, and what `forebay run` and `forebay doctor` make of ledgers of dead processes."""

import errno
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from pathlib import Path

import pytest
from test_cli import EXIT_NOT_DRAINED, FOREBAY, binary, call, clean_environment, nls  # noqa: F401 (fixtures)

# src/ledger/ledger.h: sizes of the header and of a slot, which are multiples of 64.
HEADER_BYTES, SLOT_BYTES, PATH_MAX = 448, 4352, 4096
MAGIC, VERSION = 0x3152474459414246, 9
SLOT_FIELDS = (
    "in_use opened_ns device inode requests staged drained superseded through pending held oldest_ns commits "
    "target_writes drain_ns stage_ns stall_ns close_ns guarantee_given_up merged stolen syncs error aside "
    "path_bytes"
).split()
REASONS = (
    "disabled driver mpi subfiling swmr under_connector read_only bad_option staging_area handle_taken not_regular "
    "second_library atomicity several_nodes address_given forwarded server paused"
).split()
MIB = 1 << 20


def start_ticks(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def ledger(pid, start, files, aside=None):
    """The bytes of a ledger: `files` are dicts of counters with a `path`."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip().encode()
    header = struct.pack("<4Q40s", MAGIC, VERSION, pid, start, boot_id)
    header += struct.pack("<8Q", len(files), 64 * MIB, MIB, 10, 4, 3, 2, 0)
    header += struct.pack(f"<{len(REASONS)}Q", *((aside or {}).get(reason, 0) for reason in REASONS))
    slots = b""
    for counters in files:
        path = counters["path"].encode()
        values = {**counters, "in_use": 1, "path_bytes": len(path)}
        slot = struct.pack(f"<{len(SLOT_FIELDS)}Q", *(values.get(field, 0) for field in SLOT_FIELDS)) + path.ljust(
            PATH_MAX, b"\0"
        )
        slots += slot.ljust(SLOT_BYTES, b"\0")
    return header.ljust(HEADER_BYTES, b"\0") + slots


def put(nls, name, content):
    root = nls / f"forebay-{os.geteuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    (root / name).mkdir(mode=0o700)
    (root / name / "ledger").write_bytes(content)
    return root / name / "ledger"


def open_file(**counters):
    """A file that was opened ten seconds ago, with 40 of its 64 MiB drained."""
    now = time.time_ns()
    return {
        "path": "/scratch/run.h5",
        "opened_ns": now - 10 * 10**9,
        "oldest_ns": now - 2 * 10**9 if counters.get("pending", 1) else 0,
        "staged": 64 * MIB,
        "drained": 40 * MIB,
        "pending": 24 * MIB,
        "held": 4 * MIB,
        **counters,
    }


def own_ledger(*files, **more):
    return ledger(os.getpid(), start_ticks(os.getpid()), files, **more)


def status(nls, *arguments):
    done = call("status", "--nls", nls, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_screen(nls, columns):
    """The lines of `status` on a terminal that is so wide."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, columns, 0, 0))
    command = [FOREBAY, "status", "--nls", nls]
    with subprocess.Popen(command, env=clean_environment(LC_ALL="C.UTF-8"), stdout=terminal) as process:
        os.close(terminal)
        text = b""
        try:
            while piece := os.read(ours, 1 << 16):
                text += piece
        except OSError as error:  # how a terminal tells its end
            assert error.errno == errno.EIO
        os.close(ours)
        assert process.wait(60) == 0
    return text.decode().replace("\r\n", "\n").splitlines()


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@pytest.mark.parametrize("columns", [40, 80])
def test_status_keeps_the_columns_of_the_terminal(nls, columns):
    long, wide = "/scratch/" + "a long name/" * 12 + "x.h5", "/scratch/" + "数据とe\u0301tudes " * 9 + "x.h5"
    put(nls, f"{os.getpid()}-1-0", own_ledger(open_file(path=long), open_file(path=wide, inode=7)))
    lines = on_screen(nls, columns)
    assert sum("x.h5" in line for line in lines) == 2, lines
    assert [line for line in lines if width(line) > columns] == []


def test_a_file_that_a_server_stages_has_not_stepped_aside(nls):
    forwarded = 1 << REASONS.index("forwarded")
    put(nls, f"{os.getpid()}-1-0", own_ledger(open_file(aside=forwarded), aside={"forwarded": 1}))
    text = status(nls)
    assert "staged by a server" in text and "stepped aside" not in text


def test_an_empty_node_is_said_to_be_empty(nls):
    assert "No process has logs" in status(nls)
    assert json.loads(status(nls, "--json"))["processes"] == []


def test_the_area_may_be_named_with_and_without_its_option(nls):
    put(nls, f"{os.getpid()}-{start_ticks(os.getpid())}-0", own_ledger(open_file()))
    for command, found in (("status", "processes"), ("verify", "directories")):
        for area in (["--nls", nls], [nls]):
            done = call(command, "--json", *area)
            assert done.returncode == 0, done.stderr
            (one,) = json.loads(done.stdout)[found]
            assert one["pid"] == os.getpid()


def test_a_living_process_is_shown_with_its_files(nls):
    put(nls, f"{os.getpid()}-{start_ticks(os.getpid())}-0", own_ledger(open_file(aside=1 << 4), aside={"mpi": 2}))
    (process,) = json.loads(status(nls, "--json"))["processes"]
    assert (process["pid"], process["alive"], process["left_behind"], process["aside"]) == (
        os.getpid(),
        True,
        False,
        {"mpi": 2},
    )
    (file,) = process["files"]
    assert (file["path"], file["staged"], file["drained"], file["pending"], file["held"]) == (
        "/scratch/run.h5",
        64 * MIB,
        40 * MIB,
        24 * MIB,
        4 * MIB,
    )
    assert file["reasons"] == ["swmr"]
    assert 2 <= file["oldest_age_s"] < 60
    assert 0 < file["rate_bytes_per_s"] <= 4 * MIB  # over the file's life
    text = status(nls)
    assert f"process {os.getpid()}: 3 opened, 2 staged; log 6 MiB of 64 MiB" in text
    assert "staged 64 MiB, drained 40 MiB, pending 24 MiB, held 4 MiB" in text
    assert " 62 %" in text and "[############........]" in text
    assert "stepped aside: swmr" in text and "stepped aside, files by reason: mpi 2" in text
    assert "recover" not in text


def test_a_dead_process_is_shown_as_left_behind(nls):
    put(nls, "4000000-1-0", ledger(4000000, 1, [open_file(error=28)]))
    (process,) = json.loads(status(nls, "--json"))["processes"]
    assert (process["alive"], process["left_behind"]) == (False, True)
    text = status(nls)
    assert "process 4000000 (dead)" in text and "left by a dead process" in text
    (path,) = {file["path"] for file in json.loads(status(nls, "--json"))["files"]}
    assert f"if the file was deleted: `forebay discard {path}` removes its log" in text
    assert "No space left on device" in text
    assert "B/s" not in text and " left\n" not in text  # nothing is being drained
    assert json.loads(status(nls, "--json"))["files"][0]["rate_bytes_per_s"] == 0


def test_what_is_no_ledger_is_named(nls):
    put(nls, "1-1-0", b"x")
    shown = {more: call("status", "--nls", nls, *more) for more in ((), ("--json",), ("--prometheus",))}
    assert [done.returncode for done in shown.values()] == [3, 3, 3]
    assert "1-1-0/ledger" in json.loads(shown[("--json",)].stdout)["skipped"][0]
    assert "not read: " in shown[()].stdout


def test_control_characters_in_a_path_do_not_reach_the_terminal(nls):
    put(nls, f"{os.getpid()}-{start_ticks(os.getpid())}-0", own_ledger(open_file(path="/a\x1b[2J.h5")))
    assert "\x1b" not in status(nls)


def test_a_missing_staging_area_is_an_error(tmp_path):
    done = call("status", "--nls", tmp_path / "none")
    assert done.returncode == 2 and "does not exist" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_shows_the_rate_of_now_and_ends_cleanly(nls, number):
    file = open_file()
    path = put(nls, f"{os.getpid()}-{start_ticks(os.getpid())}-0", own_ledger(file))
    command = [FOREBAY, "status", "--watch", "--json", "--nls", nls]
    with subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE, text=True) as watch:
        first = json.loads(watch.stdout.readline())
        # Whole at each instant, as the watch may look at any.
        path.with_name("other").write_bytes(own_ledger({**file, "drained": 48 * MIB, "pending": 16 * MIB}))
        path.with_name("other").replace(path)
        second = json.loads(watch.stdout.readline())
        watch.send_signal(number)
        assert watch.wait(timeout=300) == 0
    (before,), (after,) = (look["processes"][0]["files"] for look in (first, second))
    elapsed_s = (second["time_ns"] - first["time_ns"]) / 1e9
    assert after["rate_bytes_per_s"] == pytest.approx((after["drained"] - before["drained"]) / elapsed_s)


# ---- files that several processes write, and the exit status for scripts ----


def test_a_file_of_several_processes_is_one_entry(nls):
    """Followers count nothing as pending or drained: it is the file's progress that counts."""
    mine = f"{os.getpid()}-{start_ticks(os.getpid())}-0"
    shared = {"device": 7, "inode": 8}
    put(nls, mine, own_ledger(open_file(staged=10 * MIB, drained=15 * MIB, pending=5 * MIB, held=0, **shared)))
    put(nls, "4000000-1-0", ledger(4000000, 1, [open_file(staged=10 * MIB, drained=0, pending=0, held=0, **shared)]))
    (file,) = json.loads(status(nls, "--json"))["files"]
    assert (file["staged"], file["drained"], file["pending"], file["progress"]) == (20 * MIB, 15 * MIB, 5 * MIB, 0.75)
    assert [
        (process["pid"], process["alive"]) for process in sorted(file["processes"], key=lambda one: one["pid"])
    ] == sorted([(os.getpid(), True), (4000000, False)])
    text = status(nls)
    assert text.count("/scratch/run.h5") == 1 and " 75 %" in text and "100 %" not in text and "4000000 (dead)" in text
    assert "left by" not in text, "one of them is at work"


@pytest.mark.parametrize(
    "counters, alive, expected",
    [
        ({"pending": 0, "held": 0}, True, 0),
        ({"pending": 1}, True, 4),
        ({"pending": 1, "error": 28}, True, 1),
        ({"pending": 0, "error": 28}, True, 0),
        ({"pending": 1}, False, 1),
        ({"pending": 0, "held": 0}, False, 0),
        ({"pending": 0, "held": 0, "oldest_ns": 1}, True, 4),  # its size is not set yet
        ({"pending": 0, "held": 0, "oldest_ns": 1, "error": 28}, True, 1),
        ({"pending": 0, "held": 0, "oldest_ns": 1}, False, 1),
        (None, True, 3),
    ],
)
def test_check_tells_by_the_exit_status(nls, counters, alive, expected):
    pid, start = (os.getpid(), start_ticks(os.getpid())) if alive else (4000000, 1)
    put(nls, f"{pid}-{start}-0", b"x" if counters is None else ledger(pid, start, [open_file(**counters)]))
    assert call("status", "--check", "--nls", nls).returncode == expected
    assert call("status", "--check", FOREBAY_NLS=nls).returncode == expected


def test_what_was_drained_by_a_process_that_was_interrupted_is_not_left_behind(nls):
    put(nls, "4000000-1-0", ledger(4000000, 1, [open_file(pending=0, held=0, drained=64 * MIB)]))
    put(nls, "4000001-1-0", ledger(4000001, 1, []))
    assert "left by" not in status(nls) and "recover" not in status(nls)
    assert not any(process["left_behind"] for process in json.loads(status(nls, "--json"))["processes"])


# ---- what died processes leave behind ----

DIE_WITH_STAGED_BYTES = "import sys\nfrom pathlib import Path\nfrom test_cli_status import ledger, open_file, put\n"


def program_that_leaves_behind(nls, **counters):
    text = (
        DIE_WITH_STAGED_BYTES
        + f"made = put(Path({str(nls)!r}), '4000000-1-0', ledger(4000000, 1, [open_file(**{counters!r})]))\n"
        # As the library does when it makes a directory there.
        + "import json, os\nopen(os.environ['FOREBAY_RUN'], 'a').write("
        "json.dumps({'area': {'pid': 4000000, 'directory': str(made.parent)}}) + chr(10))"
    )
    return [sys.executable, "-c", text]


def run(binary, nls, *program):
    return call("run", "-q", "-o", f"nls={nls}", "--", *program, binary=binary, PYTHONPATH=Path(__file__).parent)


def test_run_fails_when_a_process_of_it_died_with_staged_bytes(binary, nls):
    done = run(binary, nls, *program_that_leaves_behind(nls))
    assert done.returncode == EXIT_NOT_DRAINED, done.stderr
    assert "NOT DRAINED: /scratch/run.h5: 24 MiB" in done.stderr
    assert str(nls / f"forebay-{os.geteuid()}" / "4000000-1-0") in done.stderr
    assert "the staged bytes stay" in done.stderr


def test_run_does_not_return_0_if_it_cannot_read_the_log_of_a_process(binary, nls):
    made = put(nls, "4000000-1-0", b"x")
    line = json.dumps({"area": {"pid": 4000000, "directory": str(made.parent)}}) + "\n"
    done = run(binary, nls, sys.executable, "-c", f"import os; open(os.environ['FOREBAY_RUN'], 'a').write({line!r})")
    assert done.returncode == 3 and "the log of process 4000000 is unknown" in done.stderr, done.stderr


def test_the_summary_counts_what_a_killed_process_had_staged(binary, nls):
    done = call(
        "run",
        "-o",
        f"nls={nls}",
        "--",
        *program_that_leaves_behind(nls),
        binary=binary,
        PYTHONPATH=Path(__file__).parent,
    )
    assert "1 file: 64 MiB staged, 40 MiB drained" in done.stderr
    assert done.stderr.count("24 MiB not drained") == 1 and "`forebay recover`" in done.stderr


def test_bytes_that_a_close_left_are_told_once(binary, nls):
    """The statistics have a line for each attempt to close it. The process died then, and its ledger has it too."""
    opened_ns = 1700000000000000000
    lines = [json.dumps({"file": {**open_file(opened_ns=opened_ns, error=28), "staged": 64 * MIB}})] * 2
    code = program_that_leaves_behind(nls, opened_ns=opened_ns, error=28)[2]
    code += f"\nimport os\nopen(os.environ['FOREBAY_STATS'], 'a').write({chr(10).join([*lines, ''])!r})"
    report = nls / "summary"
    done = call(
        "run",
        "--json",
        report,
        "-o",
        f"nls={nls}",
        "--",
        sys.executable,
        "-c",
        code,
        binary=binary,
        PYTHONPATH=Path(__file__).parent,
    )
    assert done.stderr.count("24 MiB not drained") == 1 and "1 file: 64 MiB staged" in done.stderr
    assert json.loads(report.read_text())["totals"]["pending"] == 24 * MIB


@pytest.mark.parametrize("processes", [1, 3])
def test_the_summary_calls_a_sum_over_processes_a_sum(binary, processes):
    lines = [
        json.dumps(
            {"file": {"path": "/scratch/a.h5", "opened_ns": at + 1, "staged": MIB, "drained": MIB, "stage_ns": 10**9}}
        )
        for at in range(processes)
    ]
    lines += [json.dumps({"process": {"pid": at + 1, "files_opened": 1, "aside": {}}}) for at in range(processes)]
    code = f"import os\nopen(os.environ['FOREBAY_STATS'], 'a').write({chr(10).join([*lines, ''])!r})"
    told = call("run", "--", sys.executable, "-c", code, binary=binary).stderr
    assert ("sum over 3 processes: in staged writes 3.00 s" in told) == (processes == 3)
    assert ("time in staged writes 1.00 s" in told) == (processes == 1)


def test_run_is_content_when_a_dead_process_had_drained(binary, nls):
    assert run(binary, nls, *program_that_leaves_behind(nls, pending=0, oldest_ns=0)).returncode == 0


def test_run_does_not_answer_for_processes_that_died_before(binary, nls):
    put(nls, "4000000-1-0", ledger(4000000, 1, [open_file()]))
    assert run(binary, nls, "true").returncode == 0


def test_doctor_points_out_what_was_left_behind(nls):
    put(nls, "4000000-1-0", ledger(4000000, 1, [open_file()]))
    report = json.loads(call("doctor", "--json", FOREBAY_NLS=nls).stdout)
    assert report["left_behind"] == {"processes": 1, "files": 1, "bytes": 24 * MIB}
    assert any("left 24 MiB of a file in its log" in problem for problem in report["problems"])
    assert call("doctor", FOREBAY_NLS=nls).returncode == 1
