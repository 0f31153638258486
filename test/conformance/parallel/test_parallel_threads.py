"""MPI is called by the program's own thread only, in a call of the program's, and never started or ended."""

import re
import subprocess
from pathlib import Path

import pytest
from connector_environment import ROOT, native, staged, statistics
from parallel_case_runs import run_cases
from parallel_environment import BUILD, MPI, PROGRAMS, Launch, assert_staged, launch, node_names, process_lines, program

pytestmark = pytest.mark.slow

RANKS = 4
SECONDS_MAX = 240
WITNESS = PROGRAMS / "thread_witness.so"


def used_functions() -> set[str]:
    """The functions of MPI that forebay's library for it calls: it is linked with them, or finds them by name."""
    named = re.findall(r"\bX\((\w+)\)", (ROOT / "src" / "mpi" / "calls.h").read_text())
    library = BUILD / "lib" / f"libforebay_mpi_{MPI}.so"
    told = subprocess.run(
        ["nm", "--dynamic", "--undefined-only", library], capture_output=True, text=True, timeout=30, check=True
    )
    return set(re.findall(r" U P?MPI_(\w+)", told.stdout)) or set(named)


def test_the_witness_sees_all_that_forebay_calls():
    watched = set(re.findall(r"^SEE\((\w+),", (Path(__file__).parent / "thread_witness.c").read_text(), re.MULTILINE))
    used = used_functions()
    assert used and used <= watched
    # What starts, ends or stops MPI is the program's, and no call may need more threads than the program asked MPI for.
    assert not used & {"Init", "Init_thread", "Finalize", "Abort", "Query_thread"}


def calls_seen(done: Launch) -> list[tuple[int, int]]:
    """For each rank, how often forebay called MPI, and how often anybody did on another thread than the first."""
    counts = re.findall(r"^thread_witness: (\d+) calls by forebay, (\d+) by other threads", done.stderr, re.MULTILINE)
    return [(int(mine), int(others)) for mine, others in counts]


def test_a_call_on_another_thread_is_seen(tmp_path):
    done = launch(
        [program("parallel_cases"), "asked-by-a-thread"],
        native(),
        tmp_path / "run",
        RANKS,
        SECONDS_MAX,
        preload=(WITNESS,),
    )
    assert done.returncode == 0 and calls_seen(done) == [(0, 1)] * RANKS, done.told()


# Much is drained while the ranks compute and meet; each case is written with MPI_Init, without threads.
CASES = ("plain", "many-files", "twice-through-one", "atomic")


@pytest.mark.parametrize("nodes", [1, 2])
def test_no_other_thread_calls_mpi(nodes, tmp_path):
    through = run_cases(
        CASES, staged(tmp_path), tmp_path / "run", node_names(RANKS, nodes), ranks=RANKS, preload=(WITNESS,)
    )
    done = through.done
    assert done.hung is None and done.returncode == 0, done.told()
    assert len(calls_seen(done)) == RANKS, done.told()
    assert all(mine > 0 and others == 0 for mine, others in calls_seen(done)), done.told()
    assert all(through.staged_bytes(case, statistics(tmp_path)) > 0 for case in CASES), done.told()
    assert_staged(tmp_path, RANKS)


def test_no_other_thread_calls_mpi_after_closes_that_do_not_wait(tmp_path):
    done = launch(
        [program("parallel_cases"), "many-files"],
        staged(tmp_path, "close=deferred"),
        tmp_path / "run",
        RANKS,
        SECONDS_MAX,
        preload=(WITNESS,),
    )
    assert done.hung is None and done.returncode == 0, done.told()
    assert len(calls_seen(done)) == RANKS, done.told()
    assert all(mine > 0 and others == 0 for mine, others in calls_seen(done)), done.told()
    for process in process_lines(tmp_path):
        assert process["deferred_closes"] + sum(process["waited_closes"].values()) > 0, process
        assert "shared" not in process["waited_closes"], process
