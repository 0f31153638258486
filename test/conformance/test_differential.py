"""Random HDF5 programs give the same results with forebay as without.

FOREBAY_DIFFERENTIAL_CASES   programs over all settings together (default 1000; 30000 with FOREBAY_TEST_LONG=1)
FOREBAY_DIFFERENTIAL_SEED    the first seed (default: it depends on FOREBAY_SEED, which is new in each run and printed)
FOREBAY_DIFFERENTIAL_DIR     where to run them (default: pytest's temporary folder)
"""

import itertools
import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "differential"))
from comparison import PERTURBATIONS, Programs, Side, forebay_side  # noqa: E402
from seeds import seed_of  # noqa: E402
from server_environment import Server  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
PLUGINS = Path(os.environ.get("FOREBAY_PLUGIN_DIR", BUILD / "plugins"))
EXECUTABLE = BUILD / "test" / "differential"
LONG = os.environ.get("FOREBAY_TEST_LONG") == "1"
CASES = int(os.environ.get("FOREBAY_DIFFERENTIAL_CASES", "30000" if LONG else "1000"))
FIRST_SEED = int(os.environ.get("FOREBAY_DIFFERENTIAL_SEED") or seed_of("differential"))
# Seeds that failed once are added here, and are tried in every run and setting.
KNOWN_SEEDS = (1, 2, 3)
# The same ones always. HDF5 gives each of them a defined result, and most of them write what can be staged: what is
# counted is counted over these. Others, new in each run, have to be right where HDF5 defines what right is.
FIXED_SEEDS = range(1, 31)
WORKERS = len(os.sched_getaffinity(0))

# A log so small that many programs fill it, with segments so small that they are recycled all the time.
TINY = {"size": "1MiB"}
SETTINGS = {
    "default": {},
    "tiny-log-that-waits": {**TINY, "full": "wait"},
    "tiny-log-written-through": {**TINY, "full": "through"},
    "flush-drains-without-file-locks": {"flush": "drain", "drain_threads": "1"},
    "a-log-that-outlives-the-node": {"durability": "node", "stripe": "4KiB", "size": "4MiB"},
}
# Set on both sides. Without locks a file may be opened twice that should not be, which a lock would have told.
BOTH_SIDES = {"flush-drains-without-file-locks": {"HDF5_USE_FILE_LOCKING": "FALSE"}}
# At least so many of the programs must have staged something. Not staged are files that are read-only, never written,
# or on other drivers.
STAGED_SHARE_MIN = 0.7


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if not EXECUTABLE.exists():
        pytest.fail(f"{EXECUTABLE} is missing: run `make build`")
    tools = os.environ.get("FOREBAY_HDF5_BIN_DIR")
    folder = os.environ.get("FOREBAY_DIFFERENTIAL_DIR")
    where = Path(folder) / f"differential-{os.getpid()}" if folder else tmp_path_factory.mktemp("differential")
    yield Programs(EXECUTABLE, where, Path(tools) / "h5diff" if tools else None)
    shutil.rmtree(where, ignore_errors=True)


def explained(comparison):
    told = [
        mismatch.report or f"seed {mismatch.seed}: {mismatch.kind}: {mismatch.detail}"
        for mismatch in comparison.mismatches[:20]
    ]
    return f"{comparison}\n\n" + "\n\n".join(told)


@pytest.mark.parametrize("setting", SETTINGS)
def test_staged_programs_equal_native_ones(programs, setting):
    count = max(CASES // len(SETTINGS), 1)
    first = FIRST_SEED + list(SETTINGS).index(setting) * count
    staged = forebay_side(f"forebay-{setting}", PLUGINS, **SETTINGS[setting])
    both = BOTH_SIDES.get(setting, {})
    sides = Side("native", both), Side(staged.label, staged.environment | both)
    for seed in KNOWN_SEEDS:
        known = programs.compare(*sides, range(seed, seed + 1), WORKERS)
        assert not known.mismatches, explained(known)
    comparison = programs.compare(*sides, range(first, first + count), WORKERS)
    print(comparison)
    assert not comparison.mismatches, explained(comparison)
    fixed = programs.compare(*sides, FIXED_SEEDS, WORKERS)
    assert not fixed.mismatches, explained(fixed)
    assert fixed.died_natively == fixed.undefined_natively == [], fixed
    assert fixed.cases_staged >= STAGED_SHARE_MIN * len(FIXED_SEEDS), f"too little was staged: {fixed}"


def test_programs_that_write_through_a_server_equal_native_ones(programs, tmp_path):
    count = max(CASES // len(SETTINGS), 1)
    first = FIRST_SEED + len(SETTINGS) * count
    with Server(tmp_path, None, "--clients-max", "64") as server:
        sides = Side("native"), forebay_side("forebay-server", PLUGINS, **{**TINY, "server": server.address})
        fixed = programs.compare(*sides, FIXED_SEEDS, WORKERS)
        assert not fixed.mismatches, explained(fixed)
        assert fixed.died_natively == fixed.undefined_natively == [], fixed
        server.end()
        staged = sum(file["staged"] > 0 for file in server.files())
        assert staged >= STAGED_SHARE_MIN * len(FIXED_SEEDS), f"the server has staged too little: {fixed}"
        server.listen = server.address
        server.start()
        comparison = programs.compare(*sides, range(first, first + count), WORKERS)
        print(comparison)
        assert not comparison.mismatches, explained(comparison)


def test_native_programs_depend_on_nothing_but_their_seed(programs):
    """What the programs do is defined: other bytes in fresh memory change nothing."""
    sides = [Side(f"native-{byte}", variables) for byte, variables in PERTURBATIONS.items()]
    for one, other in itertools.pairwise(sides):
        comparison = programs.compare(one, other, FIXED_SEEDS, WORKERS, explain=False)
        assert not comparison.mismatches and not comparison.died_natively, explained(comparison)


# The share of the programs in which the fault must be noticed: what a program overwrites unread is lost on nobody.
FAULTS = {"value": 0.7, "lost-write": 0.7, "read": 0.9, "status": 1.0, "crash": 1.0}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(programs, fault):
    seeds = FIXED_SEEDS
    faulty = Side(f"faulty-{fault}", arguments=("--fault", f"{fault}@6"))
    comparison = programs.compare(Side("native"), faulty, seeds, WORKERS, explain=False)
    assert len(comparison.mismatches) >= FAULTS[fault] * len(seeds), comparison
    if fault == "crash":
        assert {mismatch.kind for mismatch in comparison.mismatches} == {"death"}


def test_a_hanging_program_is_ended_and_the_rest_still_run(programs):
    folder = programs.folder / "hanging"
    outcome = programs.run(Side("hanging", arguments=("--fault", "hang@7")), range(1, 3), folder, seconds_max=2)
    assert all(outcome.broke_off(seed).startswith("died: no end after 2 s") for seed in (1, 2))


def test_a_disagreement_is_shrunk_to_few_operations(programs):
    faulty = Side("faulty", arguments=("--fault", "lost-write@6"))
    mismatch = programs.compare(Side("native"), faulty, FIXED_SEEDS[:10], WORKERS, explain=False).mismatches[0]
    programs.explain(Side("native"), faulty, mismatch)
    print(mismatch.report)
    assert int(mismatch.report.split(" operations left")[0].split()[-1]) <= 5
    assert "--skip" in mismatch.report
