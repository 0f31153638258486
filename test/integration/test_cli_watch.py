"""`forebay status` and its `--watch` on terminals of several sizes."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

import pytest
from test_cli import FOREBAY, clean_environment, nls  # noqa: F401 (fixtures)
from test_cli_status import MIB, open_file, own_ledger, put, start_ticks, status


def staged_files(nls, count):  # noqa: F811
    files = [
        open_file(path=f"/scratch/a/rather/long/folder/run-{at:03}.h5", inode=at, requests=7) for at in range(count)
    ]
    put(nls, f"{os.getpid()}-{start_ticks(os.getpid())}-0", own_ledger(*files))


def first_frame(nls, columns, rows, end, **environment):  # noqa: F811
    """What `status --watch` writes to a terminal until `end` is in it."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:  # a container without devpts
        pytest.skip(f"this system gives no pseudo-terminal: {error}")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    command = [FOREBAY, "status", "--watch", "--nls", nls]
    shown = b""
    with subprocess.Popen(
        command, env=clean_environment(**environment), stdin=theirs, stdout=theirs, stderr=theirs
    ) as watch:
        os.close(theirs)
        while end not in shown and select.select([ours], [], [], 300)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # it has ended
                break
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=300) == 0
    os.close(ours)
    assert end in shown
    return shown[: shown.index(end)].decode()


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize(("columns", "rows"), [(120, 50), (80, 24), (60, 24), (60, 10)])
def test_a_frame_fits_the_screen_and_counts_what_is_left_out(nls, columns, rows, locale):  # noqa: F811
    staged_files(nls, 40)
    frame = first_frame(nls, columns, rows, b"\x1b[J", TERM="xterm", LC_ALL=locale)
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", frame).split("\r\n")
    assert lines.pop() == "" and len(lines) < rows, "the last line break takes a row"
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("total: 40 files, staged 2.5 GiB, drained 1.6 GiB")
    (said,) = re.findall(r"^\.\.\. and (\d+) more files", lines[-1])
    assert sum(line.endswith(".h5") for line in lines) + int(said) == 40


def test_a_dumb_terminal_gets_no_control_sequences(nls):  # noqa: F811
    staged_files(nls, 2)
    for variables in ({"TERM": "dumb"}, {"TERM": "dumb", "NO_COLOR": "1"}):
        assert "\x1b" not in first_frame(nls, 80, 24, b"total: 2 files", **variables)


def test_nothing_is_coloured(nls):  # noqa: F811
    staged_files(nls, 2)
    frame = first_frame(nls, 80, 24, b"\x1b[J", TERM="xterm", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*m", frame)


def test_several_files_have_a_total_and_time_that_is_left(nls):  # noqa: F811
    staged_files(nls, 3)
    text = status(nls)
    (total,) = [line for line in text.splitlines() if line.startswith("total: ")]
    assert total.startswith("total: 3 files, staged 192 MiB, drained 120 MiB, pending 72 MiB, ")
    assert re.search(r", about \d+ (s|min|h \d+ min) left$", total)
    assert text.count(" left\n") == 4, "each file, and the total"


def test_one_file_needs_no_total_and_one_that_is_drained_no_time(nls):  # noqa: F811
    file = open_file(drained=64 * MIB, pending=0, held=0)
    put(nls, f"{os.getpid()}-{start_ticks(os.getpid())}-0", own_ledger(file))
    text = status(nls)
    assert "total: " not in text and " left\n" not in text
