"""Runs a program natively and with forebay, and records facts about each run.

A native run has no connector, and none of forebay's variables. A run with forebay has HDF5_VOL_CONNECTOR=forebay and a
staging area, and no other option. Both get a fresh target file, which is removed after the native verification. mpiexec
starts a program of several ranks, with the same environment.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory import Need, held_for, touch_free_memory

NATIVE = "native"
FOREBAY = "forebay"
WRONG_DATA = 3  # exit code of the programs
_VARIABLES_OF_FOREBAY = ("HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH", "FOREBAY_")
_SAMPLE_INTERVAL_S = 0.02
_END_S_MAX = 10  # until mpiexec has ended its ranks


class BenchError(Exception):
    """An invalid measurement: wrong data, staging that was off, or a program that failed."""


class WrongData(BenchError):
    """A program has read bytes that were not those written. `wrong_bytes` is their number, 1 if it printed none."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        figures = _json_of(output)
        self.wrong_bytes = max(1, figures.get("wrong", 1))
        self.compared_bytes = figures.get("compared", 0)


class NotMeasured(Exception):
    """This machine cannot measure a case; the message gives the reason."""


@dataclass
class Run:
    """One run of one program."""

    figures: dict  # the program's output
    wall_s: float  # of the process
    cpu_s: float  # of the process, all threads
    output: str
    counters: dict[str, int] = field(default_factory=dict)  # FOREBAY_STATS, summed over the closed files
    anonymous_peak_bytes: int = 0
    staged_of_file: dict[str, int] = field(default_factory=dict)  # bytes by the file's name, summed over the processes


@dataclass(frozen=True)
class Places:
    """The folders of programs, target files and the staging area."""

    programs: Path
    plugins: Path
    api_tests: Path | None
    target: Path
    staging: Path

    def program(self, name: str) -> str:
        path = self.programs / name
        if not path.exists():
            raise BenchError(f"{path} is not there: build the release preset first (make build)")
        return str(path)


def environment(places: Places, mode: str, stats: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment of a run, without forebay variables of the caller. `settings` are forebay's, by name."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_VARIABLES_OF_FOREBAY)}
    if mode == FOREBAY:
        clean |= {
            "HDF5_VOL_CONNECTOR": "forebay",
            "HDF5_PLUGIN_PATH": str(places.plugins),
            "FOREBAY_NLS": str(places.staging),
            "FOREBAY_STATS": str(stats),
        } | dict(settings or {})
    return clean


def mpiexec(ranks: int) -> list[str]:
    """Returns the command prefix that starts that many ranks: the launcher of the MPI that HDF5 was built with."""
    if os.environ.get("FOREBAY_HDF5_PARALLEL") != "ON":
        raise NotMeasured("this HDF5 was built without MPI")
    kind = os.environ.get("FOREBAY_HDF5_MPI", "")
    launcher = shutil.which(f"mpiexec.{kind}") or shutil.which("mpiexec")
    if launcher is None:
        raise NotMeasured("there is no mpiexec")
    return [launcher, *(["--oversubscribe"] if kind == "openmpi" else []), "-n", str(ranks)]


def run(
    places: Places,
    mode: str,
    command: Sequence[str],
    *,
    ranks: int = 0,
    timeout_s: float = 300,
    cwd: Path | None = None,
    sample_memory: bool = False,
    touch_bytes: int = 0,
    need: Need | None = None,
    settings: Mapping[str, str] | None = None,
) -> Run:
    """Runs a program to its end, by mpiexec if a number of ranks is given. `settings` are variables of forebay.

    With `sample_memory`, measures its peak of anonymous memory from outside. Keeps `touch_bytes` of memory ready at its
    start, and the memory of `need` later.
    """
    with held_for(need):
        if touch_bytes:
            touch_free_memory(touch_bytes)
        return _run(places, mode, command, ranks, timeout_s, cwd, sample_memory, settings)


def _run(
    places: Places,
    mode: str,
    command: Sequence[str],
    ranks: int,
    timeout_s: float,
    cwd: Path | None,
    sample_memory: bool,
    settings: Mapping[str, str] | None,
) -> Run:
    stats = places.staging / f"statistics-{os.getpid()}"
    stats.unlink(missing_ok=True)
    begin, cpu_before_s = time.monotonic(), _cpu_of_ended_children_s()
    started = [*mpiexec(ranks), *command] if ranks else command
    with subprocess.Popen(
        started,
        env=environment(places, mode, stats, settings),
        cwd=cwd,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            peak = _watch_memory(process, begin + timeout_s) if sample_memory else 0
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as late:
            _end(process)
            raise BenchError(f"{Path(command[0]).name} ({mode}) has not ended in {timeout_s} s") from late
        except BaseException:
            _end(process)
            raise
    wall_s, cpu_s = time.monotonic() - begin, _cpu_of_ended_children_s() - cpu_before_s
    if process.returncode == WRONG_DATA:
        raise WrongData(f"{Path(command[0]).name} ({mode}): wrong data\n{errors[-2000:]}", output)
    if process.returncode != 0:
        raise BenchError(f"{Path(command[0]).name} ({mode}): exit code {process.returncode}\n{errors[-2000:]}")
    if errors:
        print(errors, file=sys.stderr, end="")
    figures = _json_of(output)
    counters = _counters(stats) if mode == FOREBAY else {}
    staged_of_file = _staged_of_file(stats) if mode == FOREBAY else {}
    stats.unlink(missing_ok=True)
    return Run(figures, wall_s, cpu_s, output, counters, peak, staged_of_file)


def counting_calls(summary: Path) -> list[str]:
    """Returns the command prefix that counts the system calls of a program, all threads, into a file."""
    if shutil.which("strace") is None:
        raise NotMeasured("there is no strace")
    return ["strace", "-f", "-qq", "-c", "-U", "calls,name", "-o", str(summary)]


def counted_calls(summary: Path) -> int:
    """Returns the number of system calls. Waits for other threads do not count."""
    lines = re.findall(r"^\s*(\d+) (\w+)$", summary.read_text(encoding="ascii"), re.MULTILINE)
    return sum(int(calls) for calls, name in lines if name not in ("futex", "total"))


def system_calls(places: Places, command: Sequence[str], settings: Mapping[str, str] | None = None) -> int:
    """Returns the system calls of a run with forebay."""
    summary = places.staging / "system-calls"
    run(places, FOREBAY, [*counting_calls(summary), *command], settings=settings)
    return counted_calls(summary)


def _json_of(output: str) -> dict:
    """Returns the object that a program has printed, or an empty one."""
    return json.loads(output) if output.startswith("{") else {}


def _end(process: subprocess.Popen) -> None:
    """Ends a program. mpiexec ends its ranks at SIGTERM."""
    process.terminate()
    try:
        process.wait(_END_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()


def run_verified(
    places: Places,
    mode: str,
    command: Sequence[str],
    file: Path,
    *,
    verify: Sequence[str] = (),
    seen_at: Path | None = None,
    keep: bool = False,
    ranks: int = 0,
    aside_allowed: bool = False,
    **options,
) -> Run:
    """Runs a program that writes `file`, then reads the file back natively, compares it, and removes it.

    `seen_at` is a fast path to the file, without the target's slowness. With forebay, all bytes that the program
    reports must have been staged and drained, unless `aside_allowed`.
    """
    try:
        result = run(places, mode, [*command, "--file", str(file)], ranks=ranks, **options)
        reading = run(places, NATIVE, [command[0], "--file", str(seen_at or file), "--verify", *verify], ranks=ranks)
        if "compared" in reading.figures:
            result.figures["compared"] = result.figures.get("compared", 0) + reading.figures["compared"]
    finally:
        if not keep:
            file.unlink(missing_ok=True)
    if mode == FOREBAY and not aside_allowed:
        require_staging(result, result.figures["bytes"], Path(command[0]).name)
    return result


def require_staging(result: Run, payload_bytes: int, name: str) -> None:
    """Fails unless forebay took at least `payload_bytes`, and no file stepped aside.

    On a page cache large blocks may bypass the log if that is as fast; elsewhere all bytes are staged. The samples show
    both numbers.
    """
    staged = result.counters.get("staged", 0)
    taken = staged + result.counters.get("through", 0)
    if staged == 0 or taken < payload_bytes or result.counters.get("reasons"):
        reasons = result.counters.get("reasons") or result.counters.get("not_staged") or "no reason given"
        raise BenchError(f"{name}: only {staged} of {payload_bytes} bytes were staged ({reasons})")
    left = staged - result.counters.get("drained", 0) - result.counters.get("superseded", 0)
    if left > 0:
        raise BenchError(f"{name}: {left} staged bytes were not drained by the close")


def _cpu_of_ended_children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _counters(stats: Path) -> dict:
    if not stats.exists():
        raise BenchError("forebay wrote no statistics: it was not loaded")
    sums: dict = {}
    for line in stats.read_text(encoding="utf-8").splitlines():
        parsed = json.loads(line)
        closed, process = parsed.get("file"), parsed.get("process") or {}
        for key, value in ((parsed.get("read") or {}).get("cache") or {}).items():
            if isinstance(value, int):
                sums[f"cache_{key}"] = sums.get(f"cache_{key}", 0) + value
        for reason, files in process.get("aside", {}).items():
            not_staged = sums.setdefault("not_staged", {})
            not_staged[reason] = not_staged.get(reason, 0) + files
        for key, value in (closed or {}).items():
            if isinstance(value, int):
                sums[key] = sums.get(key, 0) + value
            elif isinstance(value, list) and value:
                sums[key] = sums.get(key, []) + value
        if closed is not None:
            sums["files"] = sums.get("files", 0) + 1
    return sums


def _staged_of_file(stats: Path) -> dict[str, int]:
    sums: dict[str, int] = {}
    for line in stats.read_text(encoding="utf-8").splitlines():
        if closed := json.loads(line).get("file"):
            name = Path(closed["path"]).name
            sums[name] = sums.get(name, 0) + closed.get("staged", 0)
    return sums


def _watch_memory(process: subprocess.Popen, deadline: float) -> int:
    """Returns the largest `Anonymous` of smaps_rollup until the process ends: its own memory.

    The high-water mark VmHWM is unsuitable. It includes the pages of the mapped log, and these are page cache of the
    staging device, which the kernel may reclaim at any time.
    """
    peak = 0
    rollup = Path(f"/proc/{process.pid}/smaps_rollup")
    while process.poll() is None and time.monotonic() < deadline:
        try:
            for line in rollup.read_text(encoding="ascii").splitlines():
                if line.startswith("Anonymous:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
        except OSError:
            break  # it has just ended
        time.sleep(_SAMPLE_INTERVAL_S)
    return peak


@dataclass(frozen=True)
class SlowTarget:
    """A folder behind the slow file system, and the same folder beside it."""

    mounted: Path
    backing: Path
    file_system: Any = None  # forebay.slowfs.SlowFS

    def writes(self) -> int:
        """The number of writes that have reached the file system, of at most 1 MiB each."""
        return self.file_system.stats()["operations"]["write"]["count"]


@contextmanager
def slow_target(places: Places, **limits: str) -> Iterator[SlowTarget]:
    """A slow file system in front of a fresh folder in the target directory, during a `with` block.

    `limits` are those of slowfs: bandwidth ("200MiB/s") and latency per operation ("0.5ms").
    """
    from forebay.slowfs import SlowFS, available

    usable, reason = available()
    if not usable:
        raise NotMeasured(f"the slow file system cannot be mounted: {reason}")
    mounted, backing = places.target / "slow", places.target / "behind"
    mounted.mkdir()
    backing.mkdir()
    try:
        with SlowFS(backing, mounted, **limits) as file_system:
            yield SlowTarget(mounted, backing, file_system)
    finally:
        shutil.rmtree(backing)
        mounted.rmdir()
