"""Runs the same random HDF5 programs twice, natively and staged, and tells where they disagree.

A *side* is one way of running programs: an environment and further arguments. Programs are numbered by seed. Two sides
agree on a seed when their journals and the files they leave are equal byte for byte. A journal holds the outcome of
every call and a digest of every read.
"""

from __future__ import annotations

import filecmp
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

BATCH_CASES = 50
SINGLE_SECONDS_MAX = 60
SHRINK_RUNS_MAX = 120
SETTLED_MAX = 20
EXPLAINED_MAX = 5
# Fillings of fresh memory, of which 255 makes zeros. A program whose result depends on them has no defined result. The
# allocator fills no block that it takes from a thread's cache, and HDF5 hands out again what it has freed: both caches
# are off.
PERTURBATIONS = {
    byte: {"MALLOC_PERTURB_": byte, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"} for byte in ("17", "201", "255")
}
NO_FREE_LISTS = ("--free-lists", "off")
# A program that dies natively in one run of ten lives through all of these in one case of 500.
NATIVE_RUNS_UNTIL_DEATH_MAX = 60


@dataclass(frozen=True)
class Side:
    """One way of running the programs."""

    label: str
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    def variables(self, staging: Path | None) -> dict[str, str]:
        """The process's environment: nothing of forebay but what this side asks for."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name == "FOREBAY_REGISTRY"
            or not name.startswith(("FOREBAY_", "HDF5_VOL_", "HDF5_PLUGIN_", "HDF5_DRIVER"))
        }
        kept["UCX_HANDLE_ERRORS"] = "none"  # MPI's transport library would catch our crashes
        kept |= self.environment
        if "HDF5_VOL_CONNECTOR" in kept:
            assert staging is not None
            kept |= {"FOREBAY_NLS": str(staging / "nls"), "FOREBAY_STATS": str(staging / "stats.jsonl")}
        return kept


def forebay_side(label: str, plugins: Path, **options: str) -> Side:
    environment = {"HDF5_VOL_CONNECTOR": "forebay", "HDF5_PLUGIN_PATH": str(plugins), "FOREBAY_STRICT": "on"}
    return Side(label, environment | {f"FOREBAY_{name.upper()}": value for name, value in options.items()})


@dataclass
class Outcome:
    """What one side made of some seeds."""

    journals: dict[int, list[str]] = field(default_factory=dict)
    staged_bytes: dict[int, int] = field(default_factory=dict)
    aside: dict[str, int] = field(default_factory=dict)  # files, by the reason why they were not staged

    def broke_off(self, seed: int) -> str | None:
        """How the program died, if it did."""
        lines = self.journals.get(seed, [])
        return lines[-1] if lines and lines[-1].startswith("died: ") else None


@dataclass
class Mismatch:
    """One seed on which two sides disagree."""

    seed: int
    kind: str  # "journal", "files" or "death"
    detail: str
    report: str = ""


@dataclass
class Comparison:
    """What came of comparing two sides."""

    seeds: range
    mismatches: list[Mismatch] = field(default_factory=list)
    died_natively: list[int] = field(default_factory=list)
    undefined_natively: list[int] = field(default_factory=list)
    files: int = 0
    cases_staged: int = 0
    staged_bytes: int = 0
    aside: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"seeds {self.seeds.start}..{self.seeds.stop - 1}: "
            f"{len(self.mismatches)} disagree, {self.files} files compared byte for byte, "
            f"{self.cases_staged} cases staged {self.staged_bytes} bytes, files not staged: {self.aside or 'none'}, "
            f"programs that kill HDF5 itself: {self.died_natively or 'none'}, "
            f"that it gives no defined result: {self.undefined_natively or 'none'}"
        )

    def merge(self, other: Comparison) -> None:
        self.mismatches += other.mismatches
        self.died_natively += other.died_natively
        self.undefined_natively += other.undefined_natively
        self.files += other.files
        self.cases_staged += other.cases_staged
        self.staged_bytes += other.staged_bytes
        for reason, count in other.aside.items():
            self.aside[reason] = self.aside.get(reason, 0) + count


class Programs:
    """The executable that runs random programs, and a folder to run them in."""

    def __init__(self, executable: Path, folder: Path, h5diff: Path | None = None, command: tuple[str, ...] = ()):
        self.command = [*command, str(executable)]
        self.folder = folder
        self.h5diff = h5diff
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self, side: Side, seeds: range, folder: Path, arguments: tuple[str, ...] = (), seconds_max: float | None = None
    ) -> Outcome:
        """Runs the seeds, if one of them kills the process then the rest in a new one."""
        outcome = Outcome()
        # Staging areas stay on this node if the files are elsewhere.
        areas = os.environ.get("FOREBAY_TEST_AREAS")
        staging = Path(areas or folder.parent) / (folder.name + "-staging")
        (staging / "nls").mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        first = seeds.start
        while first < seeds.stop:
            journal = folder.with_name(folder.name + ".journal")
            journal.unlink(missing_ok=True)
            command = [
                *self.command,
                "--seeds",
                f"{first}..{seeds.stop - 1}",
                "--dir",
                str(folder),
                "--journal",
                str(journal),
                *side.arguments,
                *arguments,
            ]
            death = finish(command, side.variables(staging), seconds_max or SINGLE_SECONDS_MAX + len(seeds))
            read_journal(journal, outcome.journals)
            last = max(outcome.journals, default=first - 1)
            if death is not None:
                last = max(first, last)
                outcome.journals.setdefault(last, []).append(f"died: {death}")
            elif last < first:
                raise RuntimeError(f"nothing ran: {shlex.join(command)}")
            first = last + 1  # a program that could not close everything ends the process early
        read_statistics(staging / "stats.jsonl", outcome)
        left = [path for path in (staging / "nls").rglob("*") if path.is_file() and path.stat().st_size > 0]
        unclosed = re.compile(r"left-open=[1-9]")  # where HDF5 cannot close a file, its log may well stay
        if left and not any(
            outcome.broke_off(seed) or any(map(unclosed.search, outcome.journals[seed])) for seed in seeds
        ):
            outcome.journals[seeds.stop - 1].append(f"left on the staging area: {sorted(str(path) for path in left)}")
        shutil.rmtree(staging)
        return outcome

    def compare(self, left: Side, right: Side, seeds: range, workers: int = 2, explain: bool = True) -> Comparison:
        """Runs both sides on all seeds, in parallel batches."""
        batches = [range(at, min(at + BATCH_CASES, seeds.stop)) for at in range(seeds.start, seeds.stop, BATCH_CASES)]
        result = Comparison(seeds)
        with ThreadPoolExecutor(workers) as pool:
            for part in pool.map(lambda batch: self.compare_batch(left, right, batch), batches):
                result.merge(part)
        if not explain:
            return result
        for mismatch in result.mismatches[:SETTLED_MAX]:
            if self.also_dies(left, mismatch, seeds) or not self.is_defined(left, right, mismatch.seed, result):
                result.undefined_natively.append(mismatch.seed)
        result.mismatches = [
            mismatch for mismatch in result.mismatches if mismatch.seed not in result.undefined_natively
        ]
        for mismatch in result.mismatches[:EXPLAINED_MAX]:
            self.explain(left, right, mismatch)
        return result

    def also_dies(self, side: Side, mismatch: Mismatch, seeds: range) -> bool:
        """Whether this side, too, dies of the program of a death, after the programs before it, in one of many runs.

        HDF5 uses memory that it has freed. The place of that memory decides about a crash, and depends on the length of
        the files' names.
        """
        if mismatch.kind != "death":
            return False
        batch = range(mismatch.seed - (mismatch.seed - seeds.start) % BATCH_CASES, mismatch.seed + 1)
        died = False
        for length in range(1, NATIVE_RUNS_UNTIL_DEATH_MAX + 1):
            folder = self.folder / f"{side.label}-{mismatch.seed}-{'n' * length}"
            died = self.run(side, batch, folder).broke_off(mismatch.seed) is not None
            shutil.rmtree(folder)
            folder.with_name(folder.name + ".journal").unlink()
            if died:
                break
        return died

    def is_defined(self, left: Side, right: Side, seed: int, result: Comparison) -> bool:
        """Whether the left side gives this program one result, whatever fresh memory holds."""
        batch = range(seed - (seed - result.seeds.start) % BATCH_CASES, seed + 1)
        alone = range(seed, seed + 1)
        if self.compare_batch(left, right, alone).mismatches:
            batch = alone
        elif any(died - seed in range(-BATCH_CASES, BATCH_CASES) for died in result.died_natively):
            return False  # alone all is well; what kills the library damages its memory before
        perturbed = [
            Side(f"{left.label}-{byte}", left.environment | variables, (*left.arguments, *NO_FREE_LISTS))
            for byte, variables in PERTURBATIONS.items()
        ]
        # What it stores and never set may come from other places alone than after the programs before it.
        for seeds in (batch, alone):
            for one, other in itertools.pairwise((left, *perturbed)):
                again = self.compare_batch(one, other, seeds)
                if seed in again.died_natively or any(mismatch.seed == seed for mismatch in again.mismatches):
                    return False
        return True

    def compare_batch(self, left: Side, right: Side, seeds: range, arguments: tuple[str, ...] = ()) -> Comparison:
        result = Comparison(seeds)
        folders = [
            self.folder / f"{side.label}-{seeds.start}-{position}" for position, side in enumerate((left, right))
        ]
        outcomes = [
            self.run(side, seeds, folder, arguments) for side, folder in zip((left, right), folders, strict=True)
        ]
        for seed in seeds:
            if outcomes[0].broke_off(seed):
                result.died_natively.append(seed)
                continue
            mismatch = self.compare_seed(seed, outcomes, folders)
            if mismatch is not None:
                result.mismatches.append(mismatch)
            result.files += sum(1 for path in (folders[0] / str(seed)).iterdir() if path.is_file())
        result.cases_staged = sum(1 for staged in outcomes[1].staged_bytes.values() if staged > 0)
        result.staged_bytes = sum(outcomes[1].staged_bytes.values())
        result.aside = outcomes[1].aside
        for folder in folders:
            shutil.rmtree(folder)
            folder.with_name(folder.name + ".journal").unlink()
        return result

    def compare_seed(self, seed: int, outcomes: list[Outcome], folders: list[Path]) -> Mismatch | None:
        death = outcomes[1].broke_off(seed)
        if death is not None:
            return Mismatch(seed, "death", "\n    ".join(line[:600] for line in outcomes[1].journals[seed][-2:]))
        lines = [outcome.journals.get(seed, ["did not run"]) for outcome in outcomes]
        if lines[0] != lines[1]:
            return Mismatch(seed, "journal", first_difference(*lines))
        names = [{path.name for path in (folder / str(seed)).iterdir() if path.is_file()} for folder in folders]
        if names[0] != names[1]:
            return Mismatch(seed, "files", f"natively {sorted(names[0])}, staged {sorted(names[1])}")
        for name in sorted(names[0]):
            paths = [folder / str(seed) / name for folder in folders]
            if not filecmp.cmp(*paths, shallow=False):
                return Mismatch(seed, "files", self.describe_bytes(name, paths))
        return None

    def describe_bytes(self, name: str, paths: list[Path]) -> str:
        left, right = (path.read_bytes() for path in paths)
        places = [at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other]
        text = f"{name}: {len(left)} and {len(right)} bytes, {len(places)} differ"
        if places:
            text += f", from {places[0]} to {places[-1]}"
        if self.h5diff is not None and name.endswith(".h5"):
            told = subprocess.run(
                [self.h5diff, "-q", *paths],
                capture_output=True,
                timeout=SINGLE_SECONDS_MAX,
                check=False,
                env=Side("tool").variables(None),
            )
            text += {0: "; h5diff finds the contents equal", 1: "; h5diff finds a difference"}.get(
                told.returncode, "; h5diff cannot compare them"
            )
        return text

    def explain(self, left: Side, right: Side, mismatch: Mismatch) -> None:
        """Leaves operations out of the program for as long as the sides still disagree, then says how to see it."""
        seed = mismatch.seed
        runs = 0

        def disagree(skipped: list[int]) -> Mismatch | None:
            nonlocal runs
            runs += 1
            arguments = ("--skip", ",".join(map(str, skipped))) if skipped else ()
            found = self.compare_batch(left, right, range(seed, seed + 1), arguments).mismatches
            return found[0] if found else None

        smallest = disagree([])
        rerun = [*self.command, "--seeds", f"{seed}..{seed}", "--dir", "DIRECTORY", *right.arguments]
        if smallest is None:
            mismatch.report = (
                f"seed {seed}: {mismatch.kind}: {mismatch.detail}\n  alone it agrees: it happens seldom, "
                f"or needs the seeds before it (batches of {BATCH_CASES})"
            )
            return
        operations, skipped = self.operations_of(left, seed), []
        size = max(len(operations) // 2, 1)
        while runs < SHRINK_RUNS_MAX:
            shorter = False
            for at in range(0, len(operations), size):
                attempt = sorted(skipped + operations[at : at + size])
                found = disagree(attempt) if runs < SHRINK_RUNS_MAX else None
                if found is not None:
                    smallest, skipped, shorter = found, attempt, True
                    operations = [one for one in operations if one not in skipped]
                    break
            if not shorter:
                if size == 1:
                    break
                size = max(size // 2, 1)
        if skipped:
            rerun += ["--skip", ",".join(map(str, skipped))]
        journal = self.journal_of(left, seed, skipped)
        switched = " ".join(f"{name}={shlex.quote(value)}" for name, value in right.environment.items())
        mismatch.report = (
            f"seed {seed}, {len(operations)} operations left after {runs} runs: "
            f"{smallest.kind}: {smallest.detail}\n  natively:\n    "
            + "\n    ".join(line[:400] for line in journal)
            + f"\n  again: {switched} {shlex.join(rerun)}"
        )

    def journal_of(self, side: Side, seed: int, skipped: list[int]) -> list[str]:
        arguments = ("--skip", ",".join(map(str, skipped))) if skipped else ()
        folder = self.folder / f"journal-{seed}"
        lines = self.run(side, range(seed, seed + 1), folder, arguments).journals.get(seed, [])
        shutil.rmtree(folder)
        return lines

    def operations_of(self, side: Side, seed: int) -> list[int]:
        numbers = (re.match(r"> (\d+) ", line) for line in self.journal_of(side, seed, []))
        return [int(number[1]) for number in numbers if number and int(number[1]) < 9999]


def finish(command: list[str], environment: dict[str, str], seconds_max: float) -> str | None:
    """Runs a command to its end; says how it died if it did."""
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _, errors = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        stacks = stacks_of(process.pid)
        process.kill()
        process.communicate()
        return f"no end after {seconds_max:.0f} s{stacks}"
    if process.returncode == 0:
        return None
    how = signal.Signals(-process.returncode).name if process.returncode < 0 else f"status {process.returncode}"
    return how + "; " + errors.decode(errors="replace").strip()[-400:]


def stacks_of(process: int) -> str:
    """Where the threads of a hanging process are, if there is a debugger that can tell."""
    debugger = shutil.which("gdb")
    if debugger is None:
        return ""
    told = subprocess.run(
        [debugger, "-p", str(process), "-batch", "-ex", "thread apply all backtrace 12"],
        capture_output=True,
        text=True,
        timeout=SINGLE_SECONDS_MAX,
        check=False,
    )
    return "".join("\n      " + line[:160] for line in told.stdout.splitlines() if re.match(r"#|Thread ", line))


def read_journal(path: Path, journals: dict[int, list[str]]) -> None:
    if not path.exists():
        return
    lines: list[str] = []
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("case "):
            lines = journals[int(line[5:])] = []
        else:
            lines.append(line)


def read_statistics(path: Path, outcome: Outcome) -> None:
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        counters = json.loads(line).get("file")
        if counters is None:
            continue
        seed = int(Path(counters["path"]).parent.name) if Path(counters["path"]).parent.name.isdigit() else -1
        outcome.staged_bytes[seed] = outcome.staged_bytes.get(seed, 0) + counters["staged"]
        for reason in counters.get("reasons", []):
            outcome.aside[reason] = outcome.aside.get(reason, 0) + 1


def first_difference(left: list[str], right: list[str]) -> str:
    for one, other in zip(left, right, strict=False):
        if one != other:
            at = next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            at = max(at - 200, 0)
            return f"{one[:40]}\n    natively: …{one[at : at + 500]}\n    staged:   …{other[at : at + 500]}"
    return f"{len(left)} lines natively, {len(right)} staged: {(left + right)[min(len(left), len(right))][:300]}"
