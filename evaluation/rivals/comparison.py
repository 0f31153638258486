"""Runs each contender in turns on one slow file system, checks its bytes, and makes a table."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from file_systems.network import Unavailable
from forebay.slowfs import SlowFS, available
from rivals.contenders import CONTENDERS, Contender, companion, end_group, environment_of, python_of

PROGRAM = Path(__file__).with_name("program.py")
BY_HAND = Path(__file__).with_name("by_hand.json")
UNAVAILABLE = 4  # exit status of the program
RUN_S_MAX = 180
SAMPLE_S = 0.05
MIB = 1 << 20
BASES = {"forebay, close=deferred": 2}  # compared with files of steps; all others with the one file


@dataclass(frozen=True)
class Shape:
    steps: int = 4
    arrays: int = 8
    mib: int = 8
    compute_s: float = 0.8
    bandwidth: str = "200MiB/s"

    def arguments(self) -> list[str]:
        return ["--steps", str(self.steps), "--arrays", str(self.arrays), "--mib", str(self.mib)]

    def total_bytes(self) -> int:
        return self.steps * self.arrays * self.mib * MIB


@dataclass
class Outcome:
    """All runs of one contender, or the reason why there is none."""

    contender: Contender
    skipped: str = ""
    waited_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    own_bytes: list[int] = field(default_factory=list)  # peaks of memory
    node_bytes: list[int] = field(default_factory=list)
    wrong_bytes: int = 0


class Broken(Exception):
    """A run that failed; the message gives the reason."""


@dataclass
class Memory:
    """Peaks: of the processes' own memory, and of what lies in this node's memory as files or shared segments."""

    own_bytes: int = 0
    node_bytes: int = 0

    def sample(self, processes: set[int], node: Path) -> None:
        facts = [status_of(process) for process in processes]
        self.own_bytes = max(self.own_bytes, sum(fact.get("RssAnon", 0) for fact in facts))
        # Of processes with one runtime the largest: they map the same segments.
        shared = 0 if len(facts) < 2 else max(fact.get("RssShmem", 0) for fact in facts)
        self.node_bytes = max(self.node_bytes, shared + allocated_bytes(node))


def status_of(process: int) -> dict[str, int]:
    """Returns the memory figures of a process in bytes; none if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    words = (line.split() for line in lines if line.startswith("Rss"))
    return {name.rstrip(":"): int(size) * 1024 for name, size, _ in words}


def allocated_bytes(folder: Path) -> int:
    """Returns what the files of a folder take. Files that vanish meanwhile count as nothing."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total


def run_program(command: list[str], environment: dict[str, str], others, node: Path) -> tuple[dict, Memory]:
    """Runs the program. Returns its figures, and the memory that it and the processes `others()` took."""
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        memory, end = Memory(), time.monotonic() + RUN_S_MAX
        try:
            while process.poll() is None:
                if time.monotonic() > end:
                    raise Broken(f"it has not ended in {RUN_S_MAX} s")
                memory.sample({process.pid, *others()}, node)
                time.sleep(SAMPLE_S)
        finally:
            end_group(process)
        said.seek(0)
        errors = said.read().strip().splitlines() or ["no output"]
        if process.returncode == UNAVAILABLE:
            raise Unavailable(errors[-1])
        if process.returncode != 0:
            raise Broken(f"status {process.returncode}: {errors[-1][:200]}")
        return json.loads(process.stdout.read()), memory


def run_once(contender: Contender, shape: Shape, slow: SlowFS, folder: Path, outcome: Outcome) -> None:
    """Runs a contender once, and then reads its files back natively beside the slow file system."""
    name = contender.way
    (slow.backing / name).mkdir()
    folder.mkdir()
    command = [python_of(contender), str(PROGRAM), contender.way, *shape.arguments()]
    try:
        with companion(contender, folder) as beside:
            figures, memory = run_program(
                [*beside.command, *command, "--target", str(slow.mount_point / name), "--memory", str(beside.memory)]
                + ["--compute", str(shape.compute_s)],
                environment_of(contender, folder / "memory"),
                beside.processes,
                folder / "memory",
            )
        if contender.connector and staged_bytes(folder) < shape.total_bytes():
            raise Broken(f"forebay staged only {staged_bytes(folder)} bytes")
        native = environment_of(Contender("", "", ""), folder)
        checked, _ = run_program([*command, "--target", str(slow.backing / name), "--verify"], native, list, folder)
    finally:
        shutil.rmtree(slow.backing / name)
        shutil.rmtree(folder, ignore_errors=True)
    outcome.waited_s.append(figures["waited_s"])
    outcome.total_s.append(figures["total_s"])
    outcome.own_bytes.append(memory.own_bytes)
    outcome.node_bytes.append(memory.node_bytes)
    outcome.wrong_bytes += checked["wrong_bytes"]


def staged_bytes(folder: Path) -> int:
    path = folder / "statistics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return sum(line["file"]["staged"] for line in lines if "file" in line)


def compare(contenders: list[Contender], shape: Shape, repetitions: int, target: Path, node: Path) -> list[Outcome]:
    """Runs all contenders in turns: one repetition of each, and then the next one."""
    outcomes = [Outcome(contender) for contender in contenders]
    usable, reason = available()
    if not usable:
        for outcome in outcomes:
            outcome.skipped = f"the slow file system cannot be mounted: {reason}"
        return outcomes
    with SlowFS(target / "backing", target / "slow", bandwidth=shape.bandwidth) as slow:
        for number in range(repetitions):
            for outcome in outcomes:
                if outcome.skipped:
                    continue
                try:
                    run_once(outcome.contender, shape, slow, node / "run", outcome)
                except (Unavailable, Broken) as why:
                    outcome.skipped = str(why)
                said = outcome.skipped or f"waited {outcome.waited_s[-1]:.2f} s"
                print(f"    {number + 1}: {outcome.contender.name}: {said}", file=sys.stderr, flush=True)
    return outcomes


def base_of(outcome: Outcome, outcomes: list[Outcome]) -> Outcome | None:
    """Returns the native run that a contender is compared with."""
    name = CONTENDERS[BASES.get(outcome.contender.name, 0)].name
    return next((one for one in outcomes if one.contender.name == name and one.waited_s and not one.skipped), None)


def summary(outcomes: list[Outcome], shape: Shape, repetitions: int) -> dict:
    rows = []
    for outcome in outcomes:
        row = {"name": outcome.contender.name, "skipped": outcome.skipped, "changes": outcome.contender.changes}
        if outcome.waited_s and not outcome.skipped:
            base = base_of(outcome, outcomes)
            row |= {
                "waited_s": median(outcome.waited_s),
                "total_s": median(outcome.total_s),
                "own_bytes": max(outcome.own_bytes),
                "node_bytes": max(outcome.node_bytes),
                "wrong_bytes": outcome.wrong_bytes,
            }
            if base:
                row |= {
                    "native": base.contender.name,
                    "waited_of_native": row["waited_s"] / median(base.waited_s),
                    "own_over_native_bytes": row["own_bytes"] - max(base.own_bytes),
                }
        rows.append(row)
    setting = {"repetitions": repetitions, "bandwidth": shape.bandwidth, "compute_s": shape.compute_s}
    setting |= {"steps": shape.steps, "bytes_of_a_step": shape.arrays * shape.mib * MIB}
    return {"setting": setting, "rivals": rows, "by_hand": json.loads(BY_HAND.read_text())}


def print_table(told: dict) -> None:
    """Prints two tables in Markdown: the run, and the figures that were measured by hand."""
    print("| checkpoints by | program waits | of native | until all is at the target | peak memory over native "
          "| in the node's memory | wrong bytes | a program has to change |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in told["rivals"]:
        if "waited_s" not in row:
            print(f"| {row['name']} | skipped: {row['skipped']} | | | | | | {row['changes']} |")
            continue
        ratio = f"{row['waited_of_native']:.2f}" if "native" in row else "–"
        memory = f"{row['own_over_native_bytes'] / MIB:.0f} MiB" if "native" in row else "–"
        print(
            f"| {row['name']} | {row['waited_s']:.2f} s | {ratio} | {row['total_s']:.2f} s | {memory} "
            f"| {row['node_bytes'] / MIB:.0f} MiB | {row['wrong_bytes']:,} | {row['changes']} |"
        )
    by_hand = told["by_hand"]
    print(f"\n{by_hand['note']}\n")
    for cells in (by_hand["columns"], ["---"] * len(by_hand["columns"]), *by_hand["rows"]):
        print("| " + " | ".join(cells) + " |")


def is_bad(told: dict) -> bool:
    """Wrong bytes of any contender, or a run of native h5py or forebay that failed."""
    rows = told["rivals"]
    ours = [row for row in rows if row["name"].startswith(("native", "forebay"))]
    failed = [row for row in ours if row["skipped"] and not row["skipped"].startswith(("not installed", "the slow"))]
    return bool(failed) or any(row.get("wrong_bytes") for row in rows)
