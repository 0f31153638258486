"""Parallel programs whose ranks are in two networks, joined by a wire, come out the same natively and staged.

Elsewhere the tests play several nodes by names alone, and MPI moves bytes through memory that the ranks share. Here MPI
has to send them. A rank learns of another node only what that node's MPI answers. That holds for barriers, gathers and
reads of windows too.
"""

import re
import subprocess
from pathlib import Path

import pytest
from comparison import Side, forebay_side
from connector_environment import hdf5_prefix, plugin_folder, staged, statistics
from parallel_case_runs import CASES, RANKS, STAGING_NOTHING, Cases, assert_same, run_cases
from parallel_comparison import ParallelPrograms, assert_random_programs_equal, assert_staging_programs_equal
from parallel_environment import LONG, MPI, Launch, assert_staged, in_two_networks, node_names

pytestmark = pytest.mark.slow

NODES = 2
SECONDS_MAX = 400
DIFFERENTIAL_CASES = 120 if LONG else 4
FIRST_SEED = 300001


@pytest.fixture(scope="session", autouse=True)
def networks():
    if MPI != "mpich":
        pytest.skip(f"how to start ranks of {MPI} in two networks is not known here")
    before, _, _ = in_two_networks(RANKS)
    try:
        tried = subprocess.run([*before, "true"], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except FileNotFoundError as missing:
        pytest.skip(f"two network namespaces need {missing.filename}")
    if tried.returncode != 0:
        reason = [line for line in tried.stderr.splitlines() if line.strip()] or ["no reason given"]
        pytest.skip(f"network namespaces are not permitted here: {reason[-1]}")


def sent(done: Launch) -> list[int]:
    """The bytes that either network sent to the other."""
    told = re.search(r"^over the wire: (\d+) (\d+)$", done.stderr, re.MULTILINE)
    assert told is not None, done.told()
    return [int(told[1]), int(told[2])]


@pytest.fixture(scope="module")
def cases_in_networks(tmp_path_factory) -> tuple[Cases, Path]:
    """All cases in one launch, and the folder of its statistics."""
    folder = tmp_path_factory.mktemp("cases-in-networks")
    through = run_cases(CASES, staged(folder), folder / "run", node_names(RANKS, NODES), networks=True)
    # Not even the addresses of the ranks fit into less.
    assert min(sent(through.done)) > 1000 * len(CASES), through.done.told()
    return through, folder


@pytest.mark.parametrize("case", CASES)
def test_unusual_programs_in_two_networks_see_the_same(case, native_cases, cases_in_networks):
    through, folder = cases_in_networks
    assert_same(case, through, native_cases())
    if case not in STAGING_NOTHING:
        assert through.staged_bytes(case, statistics(folder)) > 0, through.done.told()


def test_every_rank_in_two_networks_stages_and_leaves_nothing(cases_in_networks):
    through, folder = cases_in_networks
    assert through.done.returncode == 0, through.done.told()
    assert_staged(folder, RANKS)


@pytest.mark.parametrize("ranks", [2, 4])
def test_random_programs_in_two_networks_equal_native_ones(ranks, tmp_path):
    programs = ParallelPrograms(tmp_path, ranks, NODES, h5diff=hdf5_prefix() / "bin" / "h5diff", networks=True)
    sides = Side("native"), forebay_side("forebay", plugin_folder())
    assert_staging_programs_equal(programs, sides)
    assert_random_programs_equal(programs, sides, FIRST_SEED + ranks * DIFFERENTIAL_CASES, DIFFERENTIAL_CASES)
