"""Cases of bench/ as sections of the evaluation."""

from __future__ import annotations

import dataclasses
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cases import SLOW_LATENCY, Setting
from cells import Cell, Outcome, Section, shown_bytes
from figures import Result
from parallel_cases import COLLECTIVE_PROGRAMS, QUICK_REPETITIONS
from runs import FOREBAY, NATIVE, BenchError
from writing_sections import run_cells

BENCH = Path(__file__).resolve().parents[1] / "bench"
DLIO_TIMEOUT_S = 1800
QUICK_SIZES = {"--rows": "32", "--writes": "8", "--count": "64"}
QUICK_PIECES = "20000"
HEADINGS = ["figure", "native", "forebay", "forebay ÷ native"]


def bench_section(case: Callable[[Setting], Result], after: str) -> Callable[[Setting, bool], Section]:
    """Returns a section that runs a case of bench/, whose sizes are small if repetitions are few."""

    def section(setting: Setting, quick: bool) -> Section:
        repetitions = setting.repetitions if quick else QUICK_REPETITIONS + 1
        result = case(dataclasses.replace(setting, repetitions=repetitions))
        picture = setting.figures / f"{result.name}.png"
        return Section(
            result.name,
            result.title,
            after,
            [_outcome(name, runs) for name, runs in result.samples.items()],
            [picture] if picture.exists() else [],
            [note for note in result.notes if not note.startswith("figure: ")],
            [[HEADINGS, *(figure.cells()[:4] for figure in result.figures)]],
        )

    return section


def _outcome(name: str, samples: dict[str, list[dict]]) -> Outcome:
    """A case has verified each run, and required staging, before it returned."""
    outcome = Outcome(name)
    for mode in (NATIVE, FOREBAY):
        outcome.seconds[mode] = [one["calls_s"] + one["close_s"] for one in samples[mode]]
        outcome.compared_bytes += sum(one.get("compared", 0) for one in samples[mode])
    staged = statistics.median(one["counters"].get("staged", 0) for one in samples[FOREBAY])
    outcome.proof = f"{shown_bytes(staged)} staged"
    if outcome.compared_bytes == 0:
        outcome.failures.append(f"{name}: no byte was compared")
    return outcome


def patterns(setting: Setting, quick: bool) -> Section:
    """Patterns of h5bench, each collective and independent."""
    section = Section(
        "patterns",
        "Patterns of h5bench",
        "Contiguous and chunked arrays, many datasets, scattered pieces and points (the suite that the Cache VOL paper "
        "takes VPIC-IO from).",
    )
    cells = []
    for title, program in COLLECTIVE_PROGRAMS.items():
        if program.name != "parallel_patterns":
            continue
        name = re.sub(r"^[\d,]+ ", "", title)  # a number that is not that of a quick run
        words = _smaller(program.arguments) if quick else program.arguments
        cells.append(Cell(name, program.name, words, program.ranks))
        if "pieces" not in words:  # natively a write each
            cells.append(Cell(f"{name}, independent", program.name, (*words, "--independent"), program.ranks))
    return run_cells(setting, section, cells, "in HDF5 calls and close", latency=SLOW_LATENCY)


def _smaller(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the arguments of a pattern with the sizes of a quick run."""
    sizes = QUICK_SIZES | ({"--count": QUICK_PIECES} if "pieces" in arguments else {})
    return tuple(sizes.get(before, word) for before, word in zip(("", *arguments), arguments))


def dlio(setting: Setting, quick: bool) -> Section:
    """DLIO, by bench/dlio.py, which reads nothing that could be compared: it shows times, not bytes."""
    section = Section("dlio", "DLIO, the benchmark of MLPerf Storage", "Accelerator utilisation in later epochs.")
    python = os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON")
    if python is None:
        section.not_measured = "there is no Python with PyTorch (tools/setup examples)"
        return section
    words = ["--shapes", "cosmoflow", "--pairs", "1", "--epochs", "3"] if quick else []
    command = [sys.executable, str(BENCH / "dlio.py"), "--python", python, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DLIO_TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise BenchError(f"dlio.py has not ended in {DLIO_TIMEOUT_S} s") from late
    if done.returncode:
        section.outcomes.append(Outcome("dlio", failures=[done.stderr[-2000:] or f"exit code {done.returncode}"]))
    section.notes += [line.strip() for line in done.stdout.splitlines() if line.strip()]
    section.notes.append("DLIO compares no bytes, and counts as no cell")
    return section
