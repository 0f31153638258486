"""Parallel programs whose ranks are in two networks, joined by a wire, come out the same natively and staged.

Elsewhere the tests play several nodes by names alone, and MPI moves bytes through memory that the ranks share. Here MPI
has to send them. A rank learns of another node only what that node's MPI answers. That holds for barriers, gathers and
reads of windows too.
"""

import re
import subprocess

import pytest
from comparison import Side, forebay_side
from connector_environment import bytes_staged, hdf5_prefix, native, plugin_folder, staged
from parallel_comparison import ParallelPrograms, assert_same_contents
from parallel_environment import LONG, MPI, Launch, assert_staged, in_two_networks, launch, node_names, program
from test_parallel_cases import CASES, RANKS, STAGING_NOTHING, facts

pytestmark = pytest.mark.slow

NODES = 2
SECONDS_MAX = 400
DIFFERENTIAL_CASES = 120 if LONG else 8
FIRST_SEED = 300001
STAGED_SHARE_MIN = 0.8


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


def launch_in_networks(command: list, environment: dict[str, str], folder, ranks: int) -> Launch:
    return launch(command, environment, folder, ranks, SECONDS_MAX, node_names(ranks, NODES), networks=True)


def sent(done: Launch) -> list[int]:
    """The bytes that either network sent to the other."""
    told = re.search(r"^over the wire: (\d+) (\d+)$", done.stderr, re.MULTILINE)
    assert told is not None, done.told()
    return [int(told[1]), int(told[2])]


@pytest.mark.parametrize("case", CASES)
def test_unusual_programs_in_two_networks_see_the_same(case, tmp_path):
    plain = launch([program("parallel_cases"), case], native(), tmp_path / "plain", RANKS, SECONDS_MAX)
    done = launch_in_networks([program("parallel_cases"), case], staged(tmp_path), tmp_path / "run", RANKS)
    assert plain.hung is None and plain.returncode == 0 and facts(plain), plain.told()
    assert done.hung is None, done.told()
    assert facts(done) == facts(plain), done.told()
    assert done.returncode == 0, done.told()
    assert_same_contents(tmp_path / "plain", tmp_path / "run")
    # Not even the addresses of the ranks fit into less.
    assert min(sent(done)) > 1000
    if case not in STAGING_NOTHING:
        assert bytes_staged(tmp_path) > 0
    if case == "plain":
        assert_staged(tmp_path, RANKS)


@pytest.mark.parametrize("ranks", [2, 4])
def test_random_programs_in_two_networks_equal_native_ones(ranks, tmp_path):
    programs = ParallelPrograms(tmp_path, ranks, NODES, h5diff=hdf5_prefix() / "bin" / "h5diff", networks=True)
    seeds = range(FIRST_SEED + ranks * DIFFERENTIAL_CASES, FIRST_SEED + (ranks + 1) * DIFFERENTIAL_CASES)
    comparison = programs.compare(Side("native"), forebay_side("forebay", plugin_folder()), seeds, workers=1)
    print(comparison)
    assert not comparison.mismatches, comparison.mismatches
    assert len(comparison.died_natively + comparison.undefined_natively) <= 1, comparison
    assert comparison.cases_staged >= STAGED_SHARE_MIN * len(seeds), f"too little was staged: {comparison}"
