"""A serial program that is killed at every system call of a kind, one after the other, and recovered each time.

strace injects the signal. Without it the tests are skipped.
"""

import json
import os
import shutil
import subprocess

import pytest
from crash_environment import EPOCHS, dead_directories, flushed, native_states, program, staged, without_marks
from test_cli import call

STRACE = shutil.which("strace")
pytestmark = [pytest.mark.skipif(STRACE is None, reason="there is no strace"), pytest.mark.slow]
# So small that logs are used again and again, and the drain writes often.
SMALL = {"FOREBAY_SIZE": "4MiB", "FOREBAY_SEGMENT": "64KiB", "FOREBAY_STRIPE": "64KiB", "FOREBAY_WRITE_MAX": "64KiB", "FOREBAY_DRAIN_THREADS": "1"}
# Each: the calls that count, and how many lie between two kills.
CAMPAIGNS = {
    "writes": ("pwrite64,pwritev,write,writev", 1),
    "sizes": ("ftruncate,fallocate", 1),
    "openings": ("openat,mkdir,mkdirat,unlinkat,mmap", 12),
    "threads": ("futex", 1),   # how often depends on who comes first
}
LONG = os.environ.get("FOREBAY_TEST_LONG") == "1"


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_whenever_it_is_killed_the_file_holds_its_last_flush(tmp_path, campaign, libver):
    states = native_states(tmp_path / "native", libver)
    calls, step = CAMPAIGNS[campaign]
    kills, recovered = 0, set()
    nth = 1
    while True:
        path, area = tmp_path / f"{nth}.h5", tmp_path / f"area {nth}"
        ended = subprocess.run(
            [STRACE, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:signal=KILL:when={nth}",
             program(), path, libver, str(EPOCHS), "1"],
            env=staged(area, **SMALL), capture_output=True, text=True, timeout=120,
        )
        told = flushed(ended.stdout)
        done = call("recover", "--json", area)
        assert done.returncode == 0, f"killed at call {nth}: {done.stderr}{done.stdout}"
        kills += told < EPOCHS
        content = without_marks(path.read_bytes()) if path.exists() else b""
        # A flush may be complete before the program can tell of it.
        possible = [epochs for epochs in (told, told + 1) if epochs <= EPOCHS and states[epochs] == content]
        if told == 0 and not possible:
            # HDF5 flushes the superblock of a file that it has just created.
            possible = [0] if len(content) < 4096 else []
        assert possible, f"killed at call {nth}, after {told} flushes: the file is none of the states there may be"
        recovered.add(possible[0])
        assert not dead_directories(area), f"killed at call {nth}"
        shutil.rmtree(area)
        path.unlink(missing_ok=True)
        if told == EPOCHS:
            break
        nth += 1 if LONG else step
    assert kills >= 1, "the program was not killed in its midst"
    print(f"{campaign}: killed {kills} times, after flushes {sorted(recovered)}")
