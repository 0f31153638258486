#!/usr/bin/env python3
"""Holds `forebay estimate` against runs on this machine.

    tools/env python evaluation/estimate_check.py [--quick] [--target-dir DIR] [--staging-dir DIR] [--json FILE]

bench/parallel_checkpoint runs natively and with forebay on slow file systems of five bandwidths, with 1, 2, 4 and 8
ranks, and computes half, one and two times as long as it writes natively. The estimates know the program's sizes and
two speeds: that of the staging area and that of the file system. "native" and "doctor" take them from `forebay doctor`,
just before each pair of runs; "run" from the report of one run with forebay and two ranks, as `--from` does, once for
each file system. The output is the waiting time of each run, its estimates, and the median and the largest error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

import runs  # noqa: E402
from cases import MIB, SLOW_LATENCY, waiting_s  # noqa: E402
from runs import FOREBAY, NATIVE, Places, SlowTarget  # noqa: E402

from forebay.estimate_model import Machine, Writing, native_writing, staged_writing  # noqa: E402
from forebay.estimate_sources import read_doctor, read_run  # noqa: E402

BANDWIDTHS_MIB = (50, 100, 200, 400, 800)
RANKS = (1, 2, 4, 8)
COMPUTE_RATIOS = (0.5, 1.0, 2.0)  # compute time by native write time
QUICK = ((50, 100), (1, 2))
STEPS, DATASETS = 4, 4
STEP_S = 0.64  # of native writes
LEARNED_RANKS, LEARNED_RATIO = 2, 1.0  # of the run whose report "run" knows
# Each way to estimate, and the mode whose time it estimates.
WAYS = {"native": NATIVE, "doctor": FOREBAY, "run": FOREBAY}


@dataclass(frozen=True)
class Case:
    """One program on one file system, with the waiting time of each mode."""

    bandwidth_mib: int
    ranks: int
    compute_s: float
    measured_s: dict[str, float]
    estimated_s: dict[str, float]  # by WAYS

    def error(self, way: str) -> float:
        """The estimate's deviation, as a part of the measured time."""
        return self.estimated_s[way] / self.measured_s[WAYS[way]] - 1


def calibrated(places: Places, folder: Path) -> Machine:
    """The machine as `forebay doctor` measures it."""
    report = places.staging / "doctor.json"
    command = [places.programs.parent / "bin" / "forebay", "doctor", "--json", "--nls", places.staging]
    with report.open("w") as output:
        subprocess.run(
            [*command, "--target", folder], stdout=output, stderr=subprocess.DEVNULL, timeout=60, check=False
        )
    speeds = read_doctor(report)
    return Machine("this machine", speeds["local_write"], 0.0, speeds["fs_node"], speeds["fs_node"])


def program_of(bandwidth_mib: int, ranks: int, ratio: float) -> Writing:
    """The program as the estimate knows it: a step writes natively in about STEP_S."""
    part_mib = max(1, round(bandwidth_mib * STEP_S / DATASETS / ranks))
    compute_s = ratio * part_mib * DATASETS * ranks / bandwidth_mib
    return Writing(1, ranks, part_mib * DATASETS * MIB, STEPS, compute_s, DATASETS)


def command_of(places: Places, program: Writing) -> tuple[list[str], list[str]]:
    """The program's command line without the file, and the part that verifies a file."""
    sizes = ["--datasets", str(DATASETS), "--mib", str(round(program.request / MIB)), "--steps", str(STEPS)]
    return [places.program("parallel_checkpoint"), *sizes, "--compute-seconds", f"{program.compute_s:.3f}"], sizes


def learned(places: Places, where: SlowTarget, bandwidth_mib: int) -> Machine:
    """The machine as the report of one run with forebay shows it."""
    command, _ = command_of(places, program_of(bandwidth_mib, LEARNED_RANKS, LEARNED_RATIO))
    file, report = where.mounted / "learned.h5", places.staging / "report"
    forebay = [str(places.programs.parent / "bin" / "forebay"), "run", "--nls", str(places.staging)]
    started = [*forebay, "--report", str(report), "--", *runs.mpiexec(LEARNED_RANKS), *command, "--file", str(file)]
    runs.run(places, NATIVE, started, timeout_s=120)
    file.unlink()
    seen = read_run(report / "report.json")
    return Machine("this machine", seen.staging_rate, 0.0, seen.target_rate, seen.target_rate)


def measured(places: Places, where: SlowTarget, seen: Machine, bandwidth_mib: int, ranks: int, ratio: float) -> Case:
    """Runs one program natively and with forebay, and estimates both."""
    program = program_of(bandwidth_mib, ranks, ratio)
    command, sizes = command_of(places, program)
    machine, waits = calibrated(places, where.mounted), {}
    for mode in (NATIVE, FOREBAY):
        name = f"{mode}.h5"
        one = runs.run_verified(
            places,
            mode,
            command,
            where.mounted / name,
            verify=sizes,
            seen_at=where.backing / name,
            ranks=ranks,
            timeout_s=120,
        )
        waits[mode] = waiting_s(one)
    estimates = {
        "native": native_writing(machine, program).wait_s,
        "doctor": staged_writing(machine, program).wait_s,
        "run": staged_writing(seen, program).wait_s,
    }
    return Case(bandwidth_mib, ranks, program.compute_s, waits, estimates)


def measure_all(places: Places, quick: bool) -> Iterator[Case]:
    """Yields the cases, as they are measured. One that this machine cannot measure ends the program."""
    bandwidths, ranks = QUICK if quick else (BANDWIDTHS_MIB, RANKS)
    for bandwidth_mib in bandwidths:
        with runs.slow_target(places, bandwidth=f"{bandwidth_mib}MiB/s", latency=SLOW_LATENCY) as where:
            seen = learned(places, where, bandwidth_mib)
            for count in ranks:
                for ratio in COMPUTE_RATIOS:
                    yield measured(places, where, seen, bandwidth_mib, count, ratio)


HEADER = (
    f"{'file system':>11} {'ranks':>5} {'computes':>9} | {'native':>7} {'estimate':>8} {'':>5} | {'forebay':>7} "
    f"{'doctor':>8} {'':>5} {'run':>8}"
)


def told(case: Case) -> str:
    """Returns the case's line of the table."""
    estimates = {way: f"{case.estimated_s[way]:8.3f} {case.error(way):+5.0%}" for way in WAYS}
    return (
        f"{case.bandwidth_mib:5d} MiB/s {case.ranks:5d} {case.compute_s:7.2f} s | {case.measured_s[NATIVE]:7.3f} "
        f"{estimates['native']} | {case.measured_s[FOREBAY]:7.3f} {estimates['doctor']} {estimates['run']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two bandwidths, 1 and 2 ranks")
    parser.add_argument("--target-dir", type=Path, help="where target files go (default: a temporary folder)")
    parser.add_argument("--staging-dir", type=Path, help="where the staging area goes (default: the same)")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    given = parser.parse_args()
    build = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
    cases = []
    with (
        tempfile.TemporaryDirectory(dir=given.target_dir) as target,
        tempfile.TemporaryDirectory(dir=given.staging_dir or given.target_dir) as staging,
    ):
        places = Places(build / "bench", build / "plugins", None, Path(target), Path(staging))
        print(HEADER)
        try:
            for case in measure_all(places, given.quick):
                cases.append(case)
                print(told(case), flush=True)
        except (runs.BenchError, runs.NotMeasured) as reason:
            print(f"estimate_check: {reason}", file=sys.stderr)
            return 1
    for way in WAYS:
        errors = [abs(case.error(way)) for case in cases]
        apart = [abs(case.estimated_s[way] - case.measured_s[WAYS[way]]) / case.measured_s[NATIVE] for case in cases]
        print(
            f"{way}: median error {statistics.median(errors):.0%}, largest {max(errors):.0%}; as a part of native's "
            f"time {statistics.median(apart):.0%} and {max(apart):.0%}; {len(errors)} programs"
        )
    if given.json:
        given.json.write_text(json.dumps([asdict(case) for case in cases], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
