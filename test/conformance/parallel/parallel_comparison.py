"""Compares the random programs of parallel_differential natively and staged; see ../differential/comparison.py."""

import filecmp
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "differential"))

from comparison import (
    SINGLE_SECONDS_MAX,
    Comparison,
    Mismatch,
    Outcome,
    Programs,
    Side,
    first_difference,
    read_journal,
    read_statistics,
)  # noqa: E402
from connector_environment import hdf5_prefix, native  # noqa: E402
from parallel_environment import Launch, launch, node_names, program  # noqa: E402

# Of these programs all but one stage in each setting, and HDF5 gives all of them one result.
STAGING_SEEDS = range(1, 5)
# In some random programs HDF5 itself fails, or gives no defined result. Others are tried in their place.
# At most so many are tried for each that is wanted.
TRIED_MAX = 4
# A launch takes 0.1 to 0.3 s, a program 0.1 s and more.
SECONDS_PER_CASE = 2
SECONDS_MAX = 240


class ParallelPrograms(Programs):
    """The MPI executable that runs random programs, and a folder to run them in."""

    def __init__(
        self,
        folder: Path,
        ranks: int,
        nodes: int = 1,
        preload: tuple[Path, ...] = (),
        h5diff: Path | None = None,
        networks: bool = False,
    ):
        super().__init__(program("parallel_differential"), folder, h5diff)
        self.ranks = ranks
        self.nodes = nodes
        self.preload = preload
        self.networks = networks  # the staged side runs in two of them
        self.fixed = ("--between-nodes",) if nodes > 1 else ()
        self.processes_staging = 0

    def run(
        self, side: Side, seeds: range, folder: Path, arguments: tuple[str, ...] = (), seconds_max: float | None = None
    ) -> Outcome:
        """Runs the seeds; if one of them kills a rank or hangs, then the rest in a new launch."""
        outcome = Outcome()
        staging = folder.with_name(folder.name + "-staging")
        (staging / "nls").mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        journal = folder.with_name(folder.name + ".journal")
        journal.touch()
        first = seeds.start
        while first < seeds.stop:
            command = [
                *self.command,
                "--seeds",
                f"{first}..{seeds.stop - 1}",
                "--dir",
                folder,
                "--journal",
                journal,
                *self.fixed,
                *side.arguments,
                *arguments,
            ]
            staged_side = "HDF5_VOL_CONNECTOR" in side.environment
            done = launch(
                command,
                side.variables(staging),
                folder,
                self.ranks,
                seconds_max or SECONDS_MAX + SECONDS_PER_CASE * (seeds.stop - first),
                node_names(self.ranks, self.nodes) if staged_side else None,
                self.preload,
                networks=self.networks and staged_side,
            )
            last = self.read_journals(journal, outcome)
            if done.returncode != 0 or done.hung is not None:
                last = max(first, last)
                outcome.journals.setdefault(last, []).append(f"died: {how(done)}")
            elif last < first:
                raise RuntimeError(f"nothing ran: {done.told()}")
            first = last + 1
        read_statistics(staging / "stats.jsonl", outcome)
        left = [path for path in (staging / "nls").rglob("*") if path.is_file() and path.stat().st_size > 0]
        if left and not any(outcome.broke_off(seed) for seed in seeds):
            outcome.journals[seeds.stop - 1].append(f"left on the staging area: {sorted(map(str, left))}")
        shutil.rmtree(staging)
        return outcome

    def compare_seed(self, seed: int, outcomes: list[Outcome], folders: list[Path]) -> Mismatch | None:
        """Compares with h5diff: where space was freed, parallel files keep bytes that no program defined."""
        if outcomes[1].broke_off(seed) is not None:
            return super().compare_seed(seed, outcomes, folders)
        lines = [outcome.journals.get(seed, ["did not run"]) for outcome in outcomes]
        if lines[0] != lines[1]:
            return Mismatch(seed, "journal", first_difference(*lines))
        names = [sorted(path.name for path in (folder / str(seed)).iterdir()) for folder in folders]
        if names[0] != names[1]:
            return Mismatch(seed, "files", f"natively {names[0]}, staged {names[1]}")
        for name in names[0]:
            paths = [folder / str(seed) / name for folder in folders]
            if filecmp.cmp(*paths, shallow=False):
                continue
            told = subprocess.run(
                [self.h5diff, *paths],
                capture_output=True,
                text=True,
                timeout=SINGLE_SECONDS_MAX,
                check=False,
                env=Side("tool").variables(None),
            )
            if told.returncode != 0 or paths[0].stat().st_size != paths[1].stat().st_size:
                return Mismatch(
                    seed, "files", f"{self.describe_bytes(name, paths)} {told.stdout[:600]}{told.stderr[:600]}"
                )
        return None

    def read_journals(self, journal: Path, outcome: Outcome) -> int:
        """Adds what the ranks wrote down, one rank after the other; the last seed that any of them began."""
        last = -1
        for rank in range(self.ranks):
            path = journal.with_name(f"{journal.name}.{rank}")
            journals: dict[int, list[str]] = {}
            read_journal(path, journals)
            path.unlink(missing_ok=True)
            for seed, lines in journals.items():
                outcome.journals.setdefault(seed, []).extend([f"rank {rank}", *lines])
                last = max(last, seed)
        return last

    def operations_of(self, side: Side, seed: int) -> list[int]:
        numbers = (re.match(r"> (\d+) ", line) for line in self.journal_of(side, seed, []))
        return sorted({int(number[1]) for number in numbers if number and int(number[1]) < 9999})


def explained(comparison: Comparison) -> str:
    told = [
        mismatch.report or f"seed {mismatch.seed}: {mismatch.kind}: {mismatch.detail}"
        for mismatch in comparison.mismatches[:10]
    ]
    return f"{comparison}\n\n" + "\n\n".join(told)


def without_result(comparison: Comparison) -> set[int]:
    """The programs that kill HDF5 itself, or to which it gives no defined result."""
    return {*comparison.died_natively, *comparison.undefined_natively}


def assert_staging_programs_equal(programs: ParallelPrograms, sides: tuple[Side, Side]) -> None:
    """The same ones always, so it is known how many of them stage."""
    comparison = programs.compare(*sides, STAGING_SEEDS, workers=1)
    print(comparison)
    assert not comparison.mismatches and not without_result(comparison), explained(comparison)
    assert comparison.cases_staged >= len(STAGING_SEEDS) - 1, f"too little was staged: {comparison}"


def assert_random_programs_equal(programs: ParallelPrograms, sides: tuple[Side, Side], first: int, count: int) -> None:
    """So many programs with a defined result agree, beginning with this seed."""
    compared, last = 0, first + TRIED_MAX * count
    while compared < count:
        seeds = range(first, first + count - compared)
        assert seeds.stop <= last, f"of {TRIED_MAX * count} programs only {compared} have a result natively"
        comparison = programs.compare(*sides, seeds, workers=1)
        print(comparison)
        assert not comparison.mismatches, explained(comparison)
        compared += len(seeds) - len(without_result(comparison))
        first = seeds.stop


def how(done: Launch) -> str:
    if done.hung is not None:
        return f"no end; {done.hung}"
    return f"status {done.returncode}; {done.stderr.strip()[-600:]}"


def assert_same_contents(left: Path, right: Path) -> None:
    """Both folders hold the same files, and h5diff finds no difference in them."""
    names = [sorted(path.name for path in folder.glob("*.h5")) for folder in (left, right)]
    assert names[0] == names[1]
    for name in names[0]:
        told = subprocess.run(
            [hdf5_prefix() / "bin" / "h5diff", left / name, right / name],
            env=native(),
            capture_output=True,
            text=True,
            timeout=SINGLE_SECONDS_MAX,
            check=False,
        )
        assert told.returncode == 0, f"{name}: {told.stdout[-500:]}{told.stderr[-500:]}"
