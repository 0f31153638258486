"""MPI programs of which all ranks are killed, and what recovery makes of their files."""

import json
import subprocess

import pytest
from connector_environment import hdf5_prefix, native
from crash_environment import EPOCHS, area_on_disk, dead_directories, flushed, program, staged, without_marks
from parallel_environment import launch
from test_cli import call

RANKS = 2


def run(path, libver, epochs, tail, environment):
    ended = launch([program(), path, libver, epochs, tail, "mpi"], environment, path.parent, RANKS, 60)
    assert ended.hung is None, ended.told()
    assert flushed(ended.stdout) == epochs, ended.told()


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_the_file_of_two_killed_ranks_holds_everything_up_to_their_last_flush(tmp_path, libver):
    (tmp_path / "native").mkdir()
    expected, path, area = tmp_path / "native" / "run.h5", tmp_path / "run.h5", tmp_path / "area"
    run(expected, libver, EPOCHS, 0, native())
    run(path, libver, EPOCHS, 1, staged(area))
    assert len(dead_directories(area)) == RANKS, "every rank has left a log"
    before = path.read_bytes()

    done = call("recover", "--json", area)
    assert done.returncode == 0, done.stderr + done.stdout
    (file,) = json.loads(done.stdout)["files"]
    assert file["outcome"] == "recovered" and len(file["processes"]) == RANKS
    assert file["dropped_bytes"] > 0, "the ranks went on after their last flush"
    assert file["dropped_reason"] == "not_committed"
    assert file["commit_time_ns"] > 0
    assert dead_directories(area) == []
    assert without_marks(path.read_bytes()) == without_marks(expected.read_bytes())
    assert len(before) >= len(path.read_bytes()), "what lay beyond is cut off"
    compared = subprocess.run(
        [hdf5_prefix() / "bin" / "h5diff", path, expected], env=native(), capture_output=True, timeout=60
    )
    assert compared.returncode == 0, compared.stdout + compared.stderr


def test_what_killed_ranks_never_flushed_is_dropped_and_reported_as_never_committed(tmp_path):
    path, area = tmp_path / "run.h5", tmp_path / "area"
    run(path, "earliest", 0, 1, staged(area))
    assert len(dead_directories(area)) == RANKS, "every rank has left a log"
    (file,) = recover(area)
    assert file["outcome"] == "rolled_back" and file["dropped_bytes"] > 0
    assert file["dropped_reason"] == "never_committed" and file["commit_sequence"] == 0
    assert dead_directories(area) == []
    assert path.read_bytes() == b"", "it is as the ranks had created it"


def look_again(path, how, environment, per_rank=None):
    """The next program opens the file that the killed ones have left."""
    return launch([program(), path, "earliest", EPOCHS, 0, "mpi", how], environment, path.parent, RANKS, 60, per_rank)


def lines_about(ended, path):
    return [line for line in ended.stderr.splitlines() if line.startswith("forebay: ") and str(path) in line]


@pytest.mark.parametrize("durability", ["process", "node"])
@pytest.mark.parametrize("how", ["read", "write"])
def test_ranks_that_open_the_file_of_killed_ranks_find_it_recovered(tmp_path, how, durability):
    (tmp_path / "native").mkdir()
    expected, path = tmp_path / "native" / "run.h5", tmp_path / "run.h5"
    run(expected, "earliest", EPOCHS, 0, native())
    with area_on_disk() as area:
        environment = staged(area, FOREBAY_DURABILITY=durability, FOREBAY_STATS=str(tmp_path / "stats"))
        run(path, "earliest", EPOCHS, 1, environment)
        assert len(dead_directories(area)) == RANKS
        boards = [board.read_bytes() for board in area.glob("forebay-*/*/board-*")]
        assert [b"FBSTATE1" in board for board in boards] == [durability == "node"]
        if (
            durability == "process"
        ):  # ranks may have written straight to the file; else this would be a change by somebody else
            with path.open("ab") as file:  # as if some of what came after the last flush had been drained
                file.write(bytes(100_000))
        ended = look_again(path, how, environment)
        assert ended.returncode == 0 and ended.stdout.count("found") == RANKS, ended.told()
        (line,) = lines_about(ended, path)
        assert "it is at its last flush now" in line
        assert dead_directories(area) == []
    native_end = look_again(expected, how, native())
    assert native_end.returncode == 0, native_end.told()
    assert path.read_bytes() == expected.read_bytes()
    staged_bytes = [
        json.loads(text).get("file", {}).get("staged", 0) for text in (tmp_path / "stats").read_text().splitlines()
    ]
    assert (sum(staged_bytes) > 0) == (how == "write")


def test_a_file_whose_log_is_damaged_is_refused_to_all_ranks_that_would_write_it(tmp_path):
    path, area = tmp_path / "run.h5", tmp_path / "area"
    run(path, "earliest", EPOCHS, 1, staged(area))
    for board in area.glob("forebay-*/*/board-*"):
        board.unlink()
    before = path.read_bytes()
    refused = look_again(path, "write", staged(area))
    assert refused.returncode != 0 and "found" not in refused.stdout
    assert refused.stderr.count("which cannot be recovered") >= RANKS, refused.told()
    assert path.read_bytes() == before
    warned = look_again(path, "read", staged(area))
    (line,) = lines_about(warned, path)
    assert "which cannot be recovered" in line
    assert path.read_bytes() == before and len(dead_directories(area)) == RANKS


def test_the_next_launch_recovers_the_file_before_anyone_opens_it(tmp_path):
    path, area = tmp_path / "run.h5", tmp_path / "area"
    run(path, "earliest", EPOCHS, 1, staged(area))
    assert len(dead_directories(area)) == RANKS
    # The same program creates it anew: what was left is void, on every rank, and does not come back.
    run(path, "earliest", 1, 0, staged(area))
    assert call("recover", area).returncode == 0
    (tmp_path / "native").mkdir()
    expected = tmp_path / "native" / "run.h5"
    run(expected, "earliest", 1, 0, native())
    assert path.read_bytes() == expected.read_bytes()


# ---- two nodes -----------------------------------------------------------------------------------------

NODES = [{"FOREBAY_NODE": "a"}, {"FOREBAY_NODE": "b"}]


def kill_on_two_nodes(path, areas):
    """Both ranks write on after their last flush, and are killed; returns what the same leaves natively."""
    expected = path.parent / "native" / path.name
    expected.parent.mkdir(exist_ok=True)
    run(expected, "earliest", EPOCHS, 1, native())
    per_rank = [{**node, "FOREBAY_NLS": str(area)} for node, area in zip(NODES, areas)]
    ended = launch([program(), path, "earliest", EPOCHS, 1, "mpi"], staged(areas[0]), path.parent, RANKS, 60, per_rank)
    assert ended.hung is None and flushed(ended.stdout) == EPOCHS, ended.told()
    return expected.read_bytes()


def recover(area):
    done = call("recover", "--json", area)
    assert done.returncode == 0, done.stderr + done.stdout
    assert dead_directories(area) == []
    return json.loads(done.stdout)["files"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_node_brings_home_its_part_in_either_order_and_tells_of_the_other(tmp_path, order):
    path, areas = tmp_path / "run.h5", [tmp_path / "area a", tmp_path / "area b"]
    for area in areas:
        area.mkdir()
    expected = kill_on_two_nodes(path, areas)
    assert [len(dead_directories(area)) for area in areas] == [1, 1]
    written = path.stat().st_mtime_ns
    for node in order:
        (file,) = recover(areas[node])
        assert file["outcome"] == "recovered", file
        assert (file["nodes"], file["nodes_here"]) == (2, 1)
        assert "the logs of 1 are not here" in file["advice"]
        assert path.stat().st_mtime_ns == written, "for the other node nobody has changed it"
    assert path.read_bytes() == expected


def test_both_nodes_in_one_staging_area_are_recovered_at_once(tmp_path):
    path, area = tmp_path / "run.h5", tmp_path / "area"
    area.mkdir()
    expected = kill_on_two_nodes(path, [area, area])
    assert len(dead_directories(area)) == RANKS
    files = recover(area)
    assert [(file["outcome"], file["nodes"], file["nodes_here"]) for file in files] == [("recovered", 2, 2)] * 2
    assert path.read_bytes() == expected


@pytest.mark.parametrize("how", ["read", "write"])
def test_the_next_launch_on_both_nodes_finds_both_parts(tmp_path, how):
    path, areas = tmp_path / "run.h5", [tmp_path / "area a", tmp_path / "area b"]
    for area in areas:
        area.mkdir()
    (tmp_path / "native").mkdir()
    per_rank = [{**node, "FOREBAY_NLS": str(area)} for node, area in zip(NODES, areas)]
    ended = launch([program(), path, "earliest", EPOCHS, 0, "mpi"], staged(areas[0]), path.parent, RANKS, 60, per_rank)
    assert flushed(ended.stdout) == EPOCHS and [len(dead_directories(area)) for area in areas] == [1, 1], ended.told()
    again = look_again(path, how, staged(areas[0]), per_rank)
    assert again.returncode == 0 and again.stdout.count("found") == RANKS, again.told()
    (line,) = lines_about(again, path)
    assert "2 nodes wrote it together" in line
    assert [dead_directories(area) for area in areas] == [[], []]
