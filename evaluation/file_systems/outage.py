"""A process that stores bytes is killed under a program, and comes back. No flushed byte may be lost untold."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from file_systems.runs import FAILED, RIGHT, TOLD, WRONG, Places, Row, last_line, run, run_python
from file_systems.served import ServedFileSystem

STEPS, STEP_BYTES = 24, 8 << 20
KILL_AFTER = 4  # flushed steps
FAILED_STATUS = 3  # of the program
END_S_MAX, RECOVERY_S_MAX = 240, 120

CONTENT = f"np.random.default_rng(step).integers(0, 256, {STEP_BYTES}, dtype=np.uint8)"
WRITE = f"""
import h5py, numpy as np, os, sys, time
def attempt(words, call):
    try: call()
    except Exception as error: print("failed", words, str(error)[:300].replace(chr(10), " "), flush=True); os._exit(3)
    print(words, flush=True)
f = h5py.File(sys.argv[1], "w")
for step in range({STEPS}):
    def write():
        f.create_dataset(f"step{{step}}", data={CONTENT})
        f.flush()
    attempt(f"flushed {{step}}", write)
    time.sleep(0.25)
attempt("closed", f.close)
"""
# Prints the number of wrong bytes in the steps that are named: all, if the file cannot be read.
COUNT_WRONG = f"""
import h5py, numpy as np, sys
wrong, why = 0, ""
for step in map(int, sys.argv[2:]):
    try:
        with h5py.File(sys.argv[1], "r") as f: wrong += int((f[f"step{{step}}"][()] != {CONTENT}).sum())
    except Exception as error: wrong += {STEP_BYTES}; why = str(error)[:200].replace(chr(10), " ")
print(wrong, why)
"""


@dataclass
class Ended:
    """A program's end, and the steps that it was told are flushed."""

    status: int
    lines: list[str] = field(default_factory=list)

    @property
    def flushed(self) -> list[int]:
        return [int(line.split()[1]) for line in self.lines if line.startswith("flushed")]

    @property
    def reported(self) -> str:
        return next((line for line in self.lines if line.startswith("failed")), "")


def write_under_outage(served: ServedFileSystem, file: Path, environment: dict[str, str], away_s: float) -> Ended:
    """Runs the program. Kills a store after some steps, and brings it back, whatever the program does meanwhile."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, file],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as program:
        try:
            lines = []
            for line in program.stdout:
                lines.append(line.strip())
                if line == f"flushed {KILL_AFTER - 1}\n" or not line.startswith("flushed"):
                    break
            served.kill_store()
            try:
                time.sleep(away_s)
            finally:
                served.return_store()
            rest, _ = program.communicate(timeout=END_S_MAX)
            return Ended(program.returncode, lines + rest.splitlines())
        except subprocess.TimeoutExpired:
            program.kill()
            return Ended(-1, [*lines, f"it has not ended in {END_S_MAX} s"])
        except BaseException:
            program.kill()  # an interrupted run does not wait for it
            raise


def wrong_bytes(places: Places, file: Path, steps: list[int]) -> tuple[int, str]:
    """Counts the wrong bytes of steps, natively; with a reason if they cannot be read."""
    done = run_python(COUNT_WRONG, file, *steps, environment=places.native(), seconds_max=180)
    if done.returncode != 0:
        return len(steps) * STEP_BYTES, last_line(done.stderr)
    count, _, why = done.stdout.strip().partition(" ")
    return int(count), why


def recover(places: Places, file: Path) -> tuple[bool, str]:
    """Recovers the file, as a person would: again while the file system comes back, and at last with --changed."""
    command = [places.forebay, "recover", "--nls", places.area(), file]
    end, used = time.monotonic() + RECOVERY_S_MAX, "forebay recover"
    while True:
        done = run(command, places.native(), RECOVERY_S_MAX)
        if done.returncode == 0:
            return True, used
        if "--changed" not in command and "it no longer has" in done.stdout:
            # The file system had confirmed writes, and has lost them with the process that stored them. The log has
            # them. Only the user can say that no other program wrote the file.
            command.insert(2, "--changed")
            used = "forebay recover --changed"
        if time.monotonic() > end:
            return False, last_line(done.stdout + done.stderr)
        time.sleep(1)


def outage(served: ServedFileSystem, places: Places, title: str, info: str, away_s: float) -> Row:
    """The program with forebay."""
    file = places.target / f"outage-{away_s:.0f}.h5"
    ended = write_under_outage(served, file, places.staged(info), away_s)
    ran = f"{len(ended.flushed)} of {STEPS} steps flushed, store away for {away_s:.0f} s"
    if ended.status == 0:
        wrong, why = wrong_bytes(places, places.other / file.name, list(range(STEPS)))
        left = status_of(places)
        outcome = WRONG if wrong else RIGHT
        return Row(title, outcome, ran, wrong, why or f"the program ended well; forebay status --check: {left}")
    if ended.status != FAILED_STATUS or not ended.reported:
        return Row(title, FAILED, ran, told=f"status {ended.status}: {(ended.lines or ['no output'])[-1][:200]}")
    left = status_of(places)
    recovered, how = recover(places, file)
    told = f"the program: {ended.reported[:160]}; forebay status --check: {left}; {how}"
    if not recovered:  # the log still has the bytes
        return Row(title, FAILED, ran, told=told)
    wrong, why = wrong_bytes(places, places.other / file.name, ended.flushed)
    return Row(title, WRONG if wrong else TOLD, ran, wrong, f"{told}; {why}" if why else told)


def status_of(places: Places) -> int:
    return run([places.forebay, "status", "--check", "--nls", places.area()], places.native(), 60).returncode


def outage_natively(served: ServedFileSystem, places: Places, away_s: float) -> Row:
    """The same program without forebay, for comparison. Its losses are the file system's."""
    title = "the same without forebay"
    file = places.target / f"outage-{away_s:.0f}.h5"  # of the same name, so on the same stores
    file.unlink(missing_ok=True)
    ended = write_under_outage(served, file, places.native(), away_s)
    steps = list(range(STEPS)) if ended.status == 0 else ended.flushed
    wrong, why = wrong_bytes(places, places.other / file.name, steps)
    said = "the program ended well" if ended.status == 0 else f"the program: {(ended.reported or '–')[:160]}"
    ran = f"{len(ended.flushed)} of {STEPS} steps flushed, store away for {away_s:.0f} s"
    return Row(title, "native", ran, wrong, f"{said}; {why}" if why else said)
