"""Random parallel HDF5 programs give the same results staged as natively, on every rank.

FOREBAY_PARALLEL_CASES   programs over all settings together (default 40; 1200 with FOREBAY_TEST_LONG=1)
FOREBAY_PARALLEL_SEED    the first seed (default: it depends on FOREBAY_SEED, which is new in each run and printed)
"""

import os
from pathlib import Path

import pytest
from comparison import Side, forebay_side
from connector_environment import hdf5_prefix, plugin_folder
from parallel_comparison import ParallelPrograms, assert_random_programs_equal, assert_staging_programs_equal, explained
from parallel_environment import LONG, PROGRAMS
from seeds import seed_of

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("FOREBAY_PARALLEL_CASES", "1200" if LONG else "40"))
FIRST_SEED = int(os.environ.get("FOREBAY_PARALLEL_SEED") or seed_of("parallel differential"))
# Seeds that failed once are added here, with the settings in which they did, and are tried in every run.
KNOWN_SEEDS: dict[str, tuple[int, ...]] = {}

# A log so small that many programs fill it, with segments so small that they are recycled all the time.
TINY = {"size": "1MiB"}
# name: (share of the programs in percent, ranks, nodes, with barriers after collective calls, options)
SETTINGS = {
    "two-ranks": (25, 2, 1, False, {}),
    "two-ranks-small-pieces": (15, 2, 1, False, {"stripe": "4KiB", "size": "4MiB", "durability": "node"}),
    "two-ranks-tiny-log-that-waits": (15, 2, 1, False, {**TINY, "full": "wait"}),
    "two-ranks-tiny-log-written-through": (10, 2, 1, False, {**TINY, "full": "through"}),
    "two-ranks-flush-drains": (10, 2, 1, False, {"flush": "drain", "drain_threads": "1"}),
    "three-ranks": (8, 3, 1, False, {}),
    "three-ranks-barriers": (5, 3, 1, True, {}),
    "four-ranks": (5, 4, 1, False, {}),
    "four-ranks-on-two-nodes": (7, 4, 2, False, {}),
    "four-ranks-on-two-consistent-nodes": (4, 4, 2, False, {"nodes": "consistent"}),
}


def barriers(on: bool) -> tuple[Path, ...]:
    return (PROGRAMS / "barrier_interposer.so",) if on else ()


def programs_in(folder: Path, ranks: int, nodes: int = 1, with_barriers: bool = False) -> ParallelPrograms:
    return ParallelPrograms(folder, ranks, nodes, barriers(with_barriers), hdf5_prefix() / "bin" / "h5diff")


@pytest.mark.parametrize("setting", SETTINGS)
def test_staged_programs_equal_native_ones(setting, tmp_path):
    share, ranks, nodes, with_barriers, options = SETTINGS[setting]
    count = max(CASES * share // 100, 1)
    first = FIRST_SEED + list(SETTINGS).index(setting) * CASES
    programs = programs_in(tmp_path, ranks, nodes, with_barriers)
    sides = Side("native"), forebay_side("forebay", plugin_folder(), **options)
    for seed in KNOWN_SEEDS.get(setting, ()):
        known = programs.compare(*sides, range(seed, seed + 1), workers=1)
        assert not known.mismatches, explained(known)
    assert_staging_programs_equal(programs, sides)
    assert_random_programs_equal(programs, sides, first, count)


@pytest.mark.parametrize("with_barriers", [False, True])
def test_native_programs_depend_on_nothing_but_their_seed(with_barriers, tmp_path):
    """The programs are well defined: neither fresh memory nor the timing between ranks changes their result."""
    count = max(CASES // 8, 1)
    plain = programs_in(tmp_path / "plain", 2)
    sides = Side("native-17", {"MALLOC_PERTURB_": "17"}), Side("native-201", {"MALLOC_PERTURB_": "201"})
    if with_barriers:
        plain.preload = barriers(True)
    comparison = plain.compare(*sides, range(FIRST_SEED, FIRST_SEED + count), workers=1, explain=False)
    print(comparison)
    assert not comparison.mismatches and not comparison.died_natively, explained(comparison)


# The share of the programs in which the fault must be noticed: what is overwritten unread is lost on nobody.
FAULTS = {"value": 0.4, "read": 0.5, "crash": 1.0}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_rank_is_noticed(fault, tmp_path):
    seeds = range(1, 1 + (4 if fault == "crash" else 12))  # the same ones always: how many notice it is counted
    faulty = Side(f"faulty-{fault}", arguments=("--fault", f"{fault}@2"))
    comparison = programs_in(tmp_path, 2).compare(Side("native"), faulty, seeds, workers=1, explain=False)
    assert len(comparison.mismatches) >= FAULTS[fault] * len(seeds), comparison
    if fault == "crash":
        assert {mismatch.kind for mismatch in comparison.mismatches} == {"death"}


def test_a_hanging_rank_is_ended_and_the_rest_still_run(tmp_path):
    outcome = programs_in(tmp_path, 2).run(
        Side("hanging", arguments=("--fault", "hang@3")), range(1, 3), tmp_path / "hanging", seconds_max=4
    )
    assert all(str(outcome.broke_off(seed)).startswith("died: no end") for seed in (1, 2))
