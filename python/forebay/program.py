"""Runs the demo's programs as a user would, in their own processes, and reads their reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from forebay.measured import MeasurementError, Phase, Run

SIMULATION = Path(__file__).with_name("simulation.py")
TRAINING = Path(__file__).with_name("training.py")


def native_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment without variables that change HDF5 or forebay."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("FOREBAY_") and name not in ("HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH", "HDF5_DRIVER")
    }


def staged_environment(plugins: Path, staging_area: Path, stats: Path, trace: Path) -> dict[str, str]:
    """Returns the native environment with forebay switched on, and no other change."""
    return native_environment() | {
        "HDF5_VOL_CONNECTOR": "forebay",
        "HDF5_PLUGIN_PATH": str(plugins),
        "FOREBAY_NLS": str(staging_area),
        "FOREBAY_STATS": str(stats),
        "FOREBAY_TRACE": str(trace),
    }


def cached_environment(plugins: Path, staging_area: Path, stats: Path) -> dict[str, str]:
    """Returns the native environment with forebay and its read cache switched on, and no other change."""
    return native_environment() | {
        "HDF5_VOL_CONNECTOR": "forebay",
        "HDF5_PLUGIN_PATH": str(plugins),
        "FOREBAY_NLS": str(staging_area),
        "FOREBAY_STATS": str(stats),
        "FOREBAY_READ_CACHE": "on",
    }


def run_simulation(
    name: str,
    file: Path,
    shape: Mapping[str, int],
    environment: Mapping[str, str],
    *,
    time_limit_s: float,
    on_phase: Callable[[Run, Phase], None] = lambda run, phase: None,
) -> Run:
    """Runs the simulation, which writes `file`. `shape` holds its options (size, steps, substeps)."""
    words: list[str | Path] = [SIMULATION, "--output", file]
    return _run(name, file, words, shape, environment, time_limit_s, on_phase)


def run_training(
    name: str,
    file: Path,
    options: Mapping[str, int],
    environment: Mapping[str, str],
    *,
    time_limit_s: float,
    on_phase: Callable[[Run, Phase], None] = lambda run, phase: None,
) -> Run:
    """Runs the training, which reads `file`. `options` holds its options (epochs, batch, seed)."""
    words: list[str | Path] = [TRAINING, "--data", file]
    return _run(name, file, words, options, environment, time_limit_s, on_phase)


def _run(
    name: str,
    file: Path,
    words: list[Path | str],
    options: Mapping[str, int],
    environment: Mapping[str, str],
    time_limit_s: float,
    on_phase: Callable[[Run, Phase], None],
) -> Run:
    """Runs a program and blocks until it has ended. Calls `on_phase` after each phase.

    Raises MeasurementError with the program's last messages if it fails or runs longer than `time_limit_s`.
    """
    command = [sys.executable, *map(str, words)]
    for option, value in options.items():
        command += [f"--{option}", str(value)]
    run = Run(name=name, file=file)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        begin = time.monotonic()
        with subprocess.Popen(
            command, env=dict(environment), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            overdue = threading.Event()

            def end_overdue() -> None:
                overdue.set()
                process.kill()

            timer = threading.Timer(time_limit_s, end_overdue)
            timer.start()
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    _take(line, run, on_phase)
                process.wait()
            except BaseException:
                process.kill()
                raise
            finally:
                timer.cancel()
        run.process_s = time.monotonic() - begin
        errors.seek(0)
        run.messages = errors.read().strip()
    if process.returncode != 0:
        why = f"did not end within {time_limit_s:.0f} s" if overdue.is_set() else f"ended with {process.returncode}"
        raise MeasurementError(f"the {name} run {why}\n{_last_lines(run.messages)}".rstrip())
    if not run.phases:
        raise MeasurementError(f"the {name} run reported nothing")
    return run


def _take(line: str, run: Run, on_phase: Callable[[Run, Phase], None]) -> None:
    try:
        entry = json.loads(line)
    except ValueError:
        raise MeasurementError(f"the {run.name} run printed a line that is no report: {line!r}") from None
    if "phase" not in entry:
        run.about.update(entry)
        return
    phase = Phase(entry["phase"], entry.get("checkpoint", entry.get("epoch", 0)), entry["begin_ns"], entry["end_ns"])
    run.phases.append(phase)
    on_phase(run, phase)


def _last_lines(text: str, lines: int = 15) -> str:
    return "\n".join(text.splitlines()[-lines:])
