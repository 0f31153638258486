"""Runs the program of the crash tests, natively and staged, until it is killed; and counts what came of many kills."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from connector_environment import ROOT, hdf5_prefix, native, plugin_folder
from test_cli import call

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
PROGRAM = Path(BUILD, "test", "crash_program")
EPOCHS = 4
LONG = os.environ.get("FOREBAY_TEST_LONG") == "1"
STRACE = shutil.which("strace")
# So small that logs are used again and again, and the drain writes often.
SMALL = {"FOREBAY_SIZE": "4MiB", "FOREBAY_STRIPE": "64KiB", "FOREBAY_DRAIN_THREADS": "1"}
SECONDS_HELD = 3600  # longer than any test
# So long a launcher may be gone before the last rank is, which it has killed.
GRACE_SECONDS = 20
# The flags of a superblock of version 2 or 3, and its checksum: they tell a file that is open from one that is not.
MARKS = (slice(11, 12), slice(44, 48))


def program() -> Path:
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing: run `make build`")
    return PROGRAM


def staged(area: Path, **more: str) -> dict[str, str]:
    area.mkdir(parents=True, exist_ok=True)
    return native(HDF5_VOL_CONNECTOR="forebay", HDF5_PLUGIN_PATH=str(plugin_folder()), FOREBAY_NLS=str(area), **more)


def flushed(stdout: str) -> int:
    """How many epochs the program has told of."""
    return len(re.findall(r"^flushed \d+$", stdout, re.M))


def without_marks(content: bytes) -> bytes:
    unmarked = bytearray(content)
    if unmarked[:8] == b"\x89HDF\r\n\x1a\n" and unmarked[8] >= 2:
        for marks in MARKS:
            unmarked[marks] = bytes(len(unmarked[marks]))
    return bytes(unmarked)


def dead_directories(area: Path) -> list[Path]:
    return sorted(area.glob("forebay-*/[0-9]*"))


def still_running(area):
    """The ranks of which there is a process directory, and that have not ended."""
    running = []
    for directory in dead_directories(area):
        try:
            process = Path("/proc", directory.name.split("-")[0])
            # The first thread may be gone, and others not yet.
            if (
                process.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
                or len(list(process.joinpath("task").iterdir())) > 1
            ):
                running.append(int(process.name))
        except OSError:  # it has just ended
            continue
    return running


def running_on(path):
    """The processes that name `path` on their command line: also those that have no process directory yet."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            if str(path).encode() in line.read_bytes().split(b"\0"):
                found.append(int(line.parent.name))
    return found


def ranks_on(path):
    """Of these, the program's own: no launcher, and no strace."""
    found = []
    for process in running_on(path):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/comm").read_text().strip() == PROGRAM.name[:15]:
                found.append(process)
    return found


def tracer_of(process):
    """Its strace, which has to be killed after what it holds, to let that die."""
    return int(re.search(r"TracerPid:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1])


def wait_for_the_end_of_all(area, path):
    """Waits for those that name `path`, and for those that have a directory in `area` unless that is None."""
    until = time.monotonic() + GRACE_SECONDS
    # In this order: who is not seen by the first look makes no directory before the second.
    while (running_on(path) or (area and still_running(area))) and time.monotonic() < until:
        time.sleep(0.01)


@contextlib.contextmanager
def area_on_disk():
    """A staging area that durability=node takes: one in memory is refused."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="forebay-test-") as folder:
        yield Path(folder)


# ---- many kills --------------------------------------------------------------------------------------------


def killing(system_call: str, nth: int, signal: str, told_to: Path) -> list[str]:
    """What to put before a command for a signal at the `nth` call: SIGKILL comes before the call, others come after it.

    strace counts for each thread on its own; the thread that gets so far first is the one.
    """
    return [
        STRACE,
        "-f",
        "-qq",
        "-o",
        str(told_to),
        "-e",
        f"trace={system_call}",
        "-e",
        f"inject={system_call}:signal={signal}:when={nth}",
    ]


def holding(system_call: str) -> list[str]:
    """What to put before a command to hold each thread that makes this call, before the call; see `tracer_of`."""
    inject = f"inject={system_call}:delay_enter={SECONDS_HELD}s"
    return [STRACE, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={system_call}", "-e", inject]


def was_killed(told_to: Path, signal: str) -> bool:
    return f"+++ killed by SIG{signal} +++" in told_to.read_text(errors="replace")


def progress(stdout: str) -> int:
    """How many epochs the program has told of, and one more if it has closed the file: an index into `States`."""
    return flushed(stdout) + len(re.findall(r"^closed$", stdout, re.M))


class States:
    """What the file holds, natively, after each number of flushes, and at the end, when it is closed.

    `run(path, epochs, tail)` runs the program natively and returns its standard output.
    """

    def __init__(self, folder: Path, run):
        folder.mkdir()
        self.states = []
        for steps, (epochs, tail) in enumerate([*((epochs, "0") for epochs in range(EPOCHS + 1)), (EPOCHS, "close")]):
            path = folder / f"{steps}.h5"
            stdout = run(path, epochs, tail)
            assert progress(stdout) == steps, stdout
            self.states.append({without_marks(path.read_bytes())})
        self.states[0].add(b"")  # it is just being created
        assert len(set.union(*self.states)) == sum(map(len, self.states)), "states that look the same tell nothing"

    def which(self, path: Path, told: int) -> int | None:
        """The state that the file is in, if it may be; a flush may be complete before the program can tell of it."""
        content = without_marks(path.read_bytes()) if path.exists() else b""
        return next((at for at in (told, told + 1) if content in self.states[min(at, EPOCHS + 1)]), None)


@dataclass
class Tally:
    """What came of the kills of one campaign."""

    name: str
    kills: int = 0
    dumped: int = 0
    lost: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    recovered: dict[int, int] = field(default_factory=dict)  # how often each state

    def look(self, where: str, states: States, path: Path, area: Path, stdout: str, compare: bool = True) -> None:
        """After a kill: recovers, and compares, if that is wanted. What is not right is left where it is."""
        self.kills += 1
        told = progress(stdout)
        done = call("recover", "--json", area)
        state = states.which(path, told) if compare else 0
        wrong = []
        if done.returncode != 0:
            wrong.append(f"recovery ended with {done.returncode}: {done.stderr}{done.stdout}")
        elif any(file["commit_sequence"] and not file["commit_time_ns"] for file in json.loads(done.stdout)["files"]):
            wrong.append(f"recovery does not say of when the file is: {done.stdout}")
        if state is None:
            wrong.append("the file is none of the states that there may be")
        if dead_directories(area):
            wrong.append(f"left over: {dead_directories(area)}")
        # HDF5 itself opens it: the marks, which were not compared, are right too.
        elif state:
            self.dumped += 1
            dump = subprocess.run(
                [hdf5_prefix() / "bin" / "h5dump", path],
                env=native(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
            )
            if dump.returncode != 0:
                wrong.append(f"h5dump: {dump.stderr}")
        if wrong:
            self.lost.append(f"{where}, after {told} steps were told of: {'; '.join(wrong)}; see {path} and {area}")
            return
        self.recovered[state] = self.recovered.get(state, 0) + 1
        shutil.rmtree(area)
        path.unlink(missing_ok=True)

    def end(self) -> None:
        states = ", ".join(f"{count} at {state}" for state, count in sorted(self.recovered.items()))
        print(
            f"{self.name}: {self.kills} kills, {len(self.lost)} lost, {len(self.hung)} hung, "
            f"{self.dumped} opened with h5dump; recovered states: {states}"
        )
        assert not self.lost and not self.hung, "\n".join([*self.lost, *self.hung])
        assert self.kills > 0, "nothing was killed"
