"""`forebay recover` and `forebay discard` as somebody at a terminal sees them."""

import os
import pty
import select
import subprocess
import time

import pytest
from connector_environment import native
from test_cli import FOREBAY
from test_recover import area, killed, left, libver  # noqa: F401  fixtures

pytestmark = pytest.mark.slow


def at_terminal(*arguments, answer=None, wait_for=None):
    """Exit status and everything that the command wrote, its input, output and messages being one terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([FOREBAY, *arguments], env=native(), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
        if answer is not None and wait_for in shown:
            os.write(ours, answer)
            answer = None
    os.close(ours)
    return process.wait(timeout=60), shown.decode()


@pytest.mark.check
def test_a_bar_is_drawn_and_taken_away(killed, area):  # noqa: F811
    status, shown = at_terminal("recover", area)
    assert status == 0 and "file 1 of 1" in shown
    bar, report = shown.rsplit("\r\x1b[K", 1)
    assert "[##############################]" in bar, "full, at the end"
    assert "recovered" in report and "#" not in report
    assert left(area) == []


def test_no_bar_for_programs(killed, area):  # noqa: F811
    done = subprocess.run([FOREBAY, "recover", area], env=native(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and "\r" not in done.stdout


@pytest.mark.parametrize("answer", ["y", "n", "", "\x04"])
def test_discard_asks_and_does_as_it_is_told(killed, area, answer):  # noqa: F811
    path, _ = killed
    before, was = path.read_bytes(), left(area)
    status, shown = at_terminal("discard", "--nls", area, path, answer=answer.encode() + b"\n", wait_for=b"[y/N] ")
    assert "would be discarded" in shown and path.read_bytes() == before
    if answer == "y":
        assert status == 0 and left(area) == [] and "discarded" in shown.split("[y/N]")[1]
    else:
        assert status == 1 and left(area) == was
