"""Calls of parallel HDF5 return and store the same as natively.

These calls concern more than one object, or not all ranks make them.
"""

import functools
from pathlib import Path

import pytest
from connector_environment import staged, statistics
from parallel_call_parts import BAD_SPACE, FILES, Parts, assert_same_part, files_of, run_parts
from parallel_environment import process_lines

pytestmark = pytest.mark.slow

SETTINGS = [(2, 1, "fast"), (2, 2, "fast"), (3, 2, "consistent")]


def parts_with(crash: str) -> tuple[str, ...]:
    """Two parts take long where nodes keep their files consistent."""
    return tuple(part for part in FILES if crash == "fast" or part not in ("multi", "strategies"))


@pytest.fixture(scope="module")
def staged_parts(tmp_path_factory):
    """All parts in one launch, with forebay on these nodes; and the folder of the statistics."""

    @functools.cache
    def run(ranks: int, nodes: int, crash: str) -> tuple[Parts, Path]:
        folder = tmp_path_factory.mktemp(f"staged-parts-{ranks}-{nodes}")
        environment = staged(folder, FOREBAY_NODES=crash)
        return run_parts(parts_with(crash), environment, folder / "run", ranks, nodes), folder

    return run


@pytest.mark.parametrize(
    ("part", "ranks", "nodes", "crash"),
    [(part, *setting) for setting in SETTINGS for part in parts_with(setting[2]) if part != BAD_SPACE],
)
def test_calls_return_and_store_the_same(part, ranks, nodes, crash, native_parts, staged_parts):
    through, folder = staged_parts(ranks, nodes, crash)
    assert_same_part(part, through, native_parts(ranks))
    files = files_of(part, statistics(folder))
    assert files and sum(entry["staged"] for entry in files) > 0, files


@pytest.mark.parametrize(("ranks", "nodes", "crash"), SETTINGS)
def test_every_rank_stages_and_leaves_nothing(ranks, nodes, crash, staged_parts):
    through, folder = staged_parts(ranks, nodes, crash)
    assert through.done.returncode == 0, through.done.told()
    # Each time the library begins anew the process counts anew.
    processes = process_lines(folder)
    assert len({process["pid"] for process in processes}) == ranks < len(processes), processes
    for pid in {process["pid"] for process in processes}:
        assert sum(process["files_staged"] for process in processes if process["pid"] == pid) > 0, processes
    assert [entry for entry in statistics(folder) if entry["error"]] == []
    left = [path for path in (folder / "staging-area").rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert left == [], "left on the staging area"


@pytest.mark.parametrize(("ranks", "nodes", "crash"), SETTINGS)
def test_an_error_of_one_rank_in_a_collective_write_is_its_own(ranks, nodes, crash, staged_parts):
    """Natively all others wait for that rank for ever."""
    through, folder = staged_parts(ranks, nodes, crash)
    others = " ".join(["0"] * (ranks - 1))
    assert through.lines(BAD_SPACE) == [
        f"collective write with a bad memory space on the last rank: {others} -1",
        f"closed: {others} 0",
    ]
    files = files_of(BAD_SPACE, statistics(folder))
    assert len(files) == ranks and sum(entry["staged"] for entry in files) > 0, files
