"""The examples of the Cache VOL papers on two ranks, and its calls made by ranks."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parallel"))

from cache_vol_environment import STACK, configuration, program, with_cache_vol
from connector_environment import bytes_staged, native, reasons
from parallel_environment import launch, node_names

from forebay.slowfs import SlowFS, available

RANKS, SECONDS_MAX = 2, 120


def run_example(name: str, environment: dict[str, str], folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    done = launch([program(name), "data.h5", "mpi"], environment, folder, RANKS, SECONDS_MAX)
    assert done.returncode == 0, done.told()
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("by_value", [False, True])
def test_the_examples_of_the_papers_with_ranks(tmp_path: Path, by_value: bool) -> None:
    more = {"EXAMPLE_BY_VALUE": "1"} if by_value else {}
    run_example("example_write", native(**more), tmp_path / "native")
    run_example("example_write", with_cache_vol(tmp_path, **more), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    expected = run_example("example_read", native(), tmp_path)
    assert len(expected) == 4
    assert run_example("example_read", with_cache_vol(tmp_path), tmp_path) == expected


@pytest.mark.parametrize("value", ["yes", "no"])
def test_all_ranks_see_what_the_variable_says(tmp_path: Path, value: str) -> None:
    run_example("example_write", native(), tmp_path / "native")
    run_example("example_write", with_cache_vol(tmp_path, HDF5_CACHE_WR=value), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert (bytes_staged(tmp_path) > 0) == (value == "yes")


def test_notices_are_printed_once_a_job(tmp_path: Path) -> None:
    """Also those of another job of the same user, but for the one that each user sees once."""
    config = configuration(tmp_path, HDF5_CACHE_STORAGE_SCOPE="GLOBAL", HDF5_CACHE_UNHEARD_OF="3")
    environment = with_cache_vol(tmp_path, f"config={config};{STACK}", HDF5_CACHE_WR="yes")
    told = []
    for _ in range(2):
        done = launch([program("example_write"), "data.h5", "mpi"], environment, tmp_path, RANKS, SECONDS_MAX)
        assert done.returncode == 0, done.told()
        told.append(sorted(line for line in done.stderr.splitlines() if "forebay: " in line))
    words = ("asynchrony", "HDF5_CACHE_STORAGE_SCOPE", "HDF5_CACHE_UNHEARD_OF")
    assert [[sum(word in line for line in lines) for word in words] for lines in told] == [[1, 1, 1], [0, 1, 1]], told


def test_files_that_are_opened_natively_are_told_once_a_job(tmp_path: Path) -> None:
    config = configuration(tmp_path, HDF5_CACHE_STORAGE_TYPE="TAPE")
    environment = with_cache_vol(tmp_path, f"config={config}", HDF5_CACHE_WR="yes")
    done = launch([program("example_write"), "data.h5", "mpi"], environment, tmp_path, RANKS, SECONDS_MAX)
    assert done.returncode == 0, done.told()
    assert done.stderr.count("files are opened natively") == 1, done.stderr


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("part", ["all", "alone", "remove"])
def test_ranks_pause_start_wait_and_remove(tmp_path: Path, part: str, nodes: int) -> None:
    """Also with ranks on two nodes, where one rank alone pauses, and where no rank starts what it has paused."""
    command = [program("ranks"), part, "data.h5"]
    (tmp_path / "native").mkdir()
    done = launch(command, native(), tmp_path / "native", RANKS, SECONDS_MAX)
    assert done.returncode == 0, done.told()
    per_rank = [{"FOREBAY_NODE": f"node{rank % nodes}"} for rank in range(RANKS)]
    done = launch(command, with_cache_vol(tmp_path, HDF5_CACHE_WR="yes"), tmp_path, RANKS, SECONDS_MAX, per_rank)
    assert done.returncode == 0, done.told()
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    assert reasons(tmp_path) == ({"disabled"} if part == "remove" else set())


_usable, _reason = available()


@pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
@pytest.mark.parametrize(("ranks", "nodes"), [(2, 1), (4, 1), (2, 2), (4, 2)])
def test_what_ranks_have_paused_the_others_read(tmp_path: Path, ranks: int, nodes: int) -> None:
    """On one node from the logs, where it stays. Files of several nodes go on draining, so nobody waits for ever."""
    command = [program("ranks"), "read", "data.h5"]
    done = launch(command, native(), tmp_path / "native", ranks, SECONDS_MAX)
    assert done.returncode == 0, done.told()
    with SlowFS(tmp_path / "backing", tmp_path / "target"):  # nothing bypasses the log there
        environment = with_cache_vol(tmp_path, HDF5_CACHE_WR="yes")
        done = launch(command, environment, tmp_path / "target", ranks, SECONDS_MAX, node_names(ranks, nodes))
    assert done.hung is None and done.returncode == 0, done.told()
    assert (tmp_path / "backing" / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0 and reasons(tmp_path) == set()
    if nodes == 1:
        assert done.stdout.splitlines() == ["kept"] * 6
