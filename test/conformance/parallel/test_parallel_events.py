"""Event sets of ranks that have one file open: the data are those of a native run, and counters say what was begun."""

import errno
import functools
import os
import shutil
from pathlib import Path

import pytest
from connector_environment import bytes_staged, native, run, staged, statistics
from parallel_comparison import assert_same_contents
from parallel_environment import BUILD, PROGRAMS, Launch, assert_staged, launch, node_names, process_lines, program
from pairwise import pairwise

from forebay.slowfs import SlowFS, available

_usable, _reason = available()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")]

SECONDS_MAX = 240
ROWS = 32


@pytest.fixture
def target(tmp_path):
    """No local file system, so files that are opened for reading are read through forebay."""
    with SlowFS(tmp_path / "backing", tmp_path / "target") as mounted:
        yield mounted.mount_point


def run_parts(parts, environment: dict[str, str], folder: Path, ranks: int, per_rank=None) -> Launch:
    """`parts` are pairs of a part of the program and its file; all run in one launch."""
    words = [word for part in parts for word in part]
    done = launch([program("parallel_events"), *words], environment, folder, ranks, SECONDS_MAX, per_rank)
    assert done.hung is None, done.told()
    return done


def told(done: Launch) -> list[str]:
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))


def of_ranks(folder: Path) -> list[dict]:
    """What each rank has counted of asynchronous calls."""
    return [line["async"] for line in process_lines(folder) if "async" in line]


WRITING = (("write", "words.h5"), ("update", "other.h5"))
READING = (("read", "words.h5"), ("together", "words.h5"))


@pytest.fixture(scope="module")
def native_words(tmp_path_factory):
    """What ranks see natively, and the folder with words.h5 as it is made and other.h5, which was updated."""

    @functools.cache
    def run_natively(ranks: int) -> tuple[dict, Path]:
        folder = tmp_path_factory.mktemp(f"native-words-{ranks}")
        made = run_parts(WRITING[:1], native(), folder, ranks)
        assert made.returncode == 0 and told(made) == [], made.told()  # who only writes sees nothing
        shutil.copy(folder / "words.h5", folder / "other.h5")
        seen = {}
        for parts, ran in (WRITING, WRITING[1:]), (READING, READING):
            done = run_parts(ran, native(), folder, ranks)
            assert done.returncode == 0 and told(done) != [], done.told()
            seen[parts] = told(done)
        return seen, folder

    return run_natively


@pytest.mark.parametrize(
    ("ranks", "nodes", "close"), pairwise("written with event sets", [2, 4], [1, 2], ["wait", "deferred"])
)
def test_what_ranks_write_with_event_sets_is_what_they_write_natively(
    ranks, nodes, close, native_words, target, tmp_path
):
    seen, folder = native_words(ranks)
    shutil.copy(folder / "words.h5", target / "other.h5")  # which is updated
    done = run_parts(WRITING, staged(tmp_path, f"close={close}"), target, ranks, node_names(ranks, nodes))
    assert done.returncode == 0 and told(done) == seen[WRITING], done.told()
    for name in "words.h5", "other.h5":
        assert (tmp_path / "backing" / name).read_bytes() == (folder / name).read_bytes(), name
        assert sum(entry["staged"] for entry in statistics(tmp_path) if entry["path"] == str(target / name)) > 0, name
    # All is read before the call returns: ranks write the file.
    assert [(one["reads"], one["at_once"]) for one in of_ranks(tmp_path)] == [(0, {"file": 2 * ROWS})] * ranks
    if close == "wait":
        return
    for line in process_lines(tmp_path):
        waited = line["waited_closes"]
        assert line["deferred_closes"] + sum(waited.values()) == len(WRITING), line
        # A close that finds everything in the file has nothing to defer, and those of the others wait with it.
        assert waited.keys() == {"shared"} if nodes == 2 else waited.keys() <= {"nothing_left", "shared"}, line


@pytest.fixture
def made(native_words, target):
    """A file on the target, old enough to be cached."""
    shutil.copy(native_words(2)[1] / "words.h5", target)
    os.utime(target / "words.h5", (1_000_000_000, 1_000_000_000))
    return target


@pytest.mark.parametrize(("ranks", "nodes", "cache"), pairwise("read in the background", [2, 4], [1, 2], ["on", "off"]))
def test_what_ranks_read_in_the_background_is_what_they_read_natively(
    ranks, nodes, cache, native_words, made, tmp_path
):
    done = run_parts(READING, staged(tmp_path, f"read_cache={cache}"), made, ranks, node_names(ranks, nodes))
    assert done.returncode == 0 and told(done) == native_words(ranks)[0][READING], done.told()
    # Without the cache mpio keeps such a file. With it ranks that read together do so before the call returns.
    expected = (ROWS, {"collective": ROWS}) if cache == "on" else (0, {"file": 2 * ROWS})
    assert [(one["reads"], one["at_once"]) for one in of_ranks(tmp_path)] == [expected] * ranks


# ---- one rank's device fails ---------------------------------------------------------------------------


def failing(ranks: int, rank: int, folder: Path, calls: str, path: str, cause: int, **more: str) -> list[dict]:
    """Variables for each rank: on one of them these calls fail."""
    libraries = f"{PROGRAMS / 'failing_calls.so'}:{PROGRAMS / 'yielding_progress.so'}"
    told_by = folder / "failed-calls"
    variables = {"FAILING_CALLS": calls, "FAILING_PATH": path, "FAILING_ERRNO": str(cause), **more}
    variables |= {"LD_PRELOAD": libraries, "FAILING_TOLD": str(told_by)}
    return [variables if one == rank else {} for one in range(ranks)]


def failed_calls(folder: Path) -> int:
    return int((folder / "failed-calls").read_text())


@pytest.mark.parametrize(("ranks", "rank"), [(2, 0), (2, 1), (4, 2)])
def test_a_read_that_fails_in_the_background_of_one_rank_is_told_there_alone(ranks, rank, made, tmp_path):
    variables = failing(ranks, rank, tmp_path, "pread", "words.h5", errno.EIO, FAILING_FROM=str(2 << 20))
    for one, settings in enumerate(variables):  # each its own cache: what one has read no other one gets
        area = tmp_path / f"area-{one}"
        area.mkdir()
        settings = {**settings, "FOREBAY_NLS": str(area)}
        variables[one] = settings
    done = run_parts(READING[:1], staged(tmp_path, "read_cache=on"), made, ranks, variables)
    expected = [f"rank {one}: read: right" for one in range(ranks) if one != rank]
    expected += [f"rank {rank}: H5Dread_async failed: Input/output error", f"rank {rank}: read: failed"]
    assert done.returncode == 0 and told(done) == sorted(expected), done.told()
    assert failed_calls(tmp_path) > 0
    assert sorted(one["failed"] > 0 for one in of_ranks(tmp_path)) == [False] * (ranks - 1) + [True]


@pytest.fixture(scope="session")
def native_files(tmp_path_factory):
    """The folder of a file that ranks have made, and of what it is once they have overwritten it, natively."""

    @functools.cache
    def make(ranks: int) -> tuple[Path, Path]:
        folders = tmp_path_factory.mktemp(f"made-{ranks}"), tmp_path_factory.mktemp(f"overwritten-{ranks}")
        done = launch([program("parallel_cases"), "prepared"], native(), folders[0], ranks, SECONDS_MAX)
        assert done.returncode == 0, done.told()
        shutil.copy(folders[0] / "prepared.h5", folders[1])
        done = launch([program("parallel_cases"), "overwritten"], native(), folders[1], ranks, SECONDS_MAX)
        assert done.returncode == 0, done.told()
        return folders

    return make


def overwrite(ranks, tmp_path, native_files, info, variables, nodes) -> tuple[Launch, Path, Path]:
    """What came of it with forebay, and the folders of the file and of the native one."""
    prepared, expected = native_files(ranks)
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(prepared / "prepared.h5", folder)
    per_rank = [{**mine, **name} for mine, name in zip(variables, node_names(ranks, nodes), strict=True)]
    command = [program("parallel_cases"), "overwritten"]
    done = launch(command, staged(tmp_path, info), folder, ranks, SECONDS_MAX, per_rank)
    assert done.hung is None, done.told()
    return done, folder, expected


def outcome(done: Launch, ranks: int, what: str) -> str:
    """The same on all ranks."""
    outcomes = {
        line.rsplit(": ", 1)[1]
        for rank in range(ranks)
        for line in done.stdout.splitlines()
        if line.startswith(f"rank {rank}: {what}: ")
    }
    assert len(outcomes) == 1 and done.stdout.count(f": {what}: ") == ranks, done.told()
    return outcomes.pop()


def drainers(ranks: int, nodes: int) -> set[int]:
    return {0} if nodes == 1 else {0, ranks // 2}


WHERE = ([2, 4], [1, 2], ["first", "half", "last"])


def rank_at(where: str, ranks: int) -> int:
    return {"first": 0, "half": ranks // 2, "last": ranks - 1}[where]


@pytest.mark.parametrize(
    ("ranks", "nodes", "where", "close"), pairwise("a target fails one rank", *WHERE, ["wait", "deferred"])
)
def test_a_target_that_fails_one_rank_fails_all_or_harms_nobody(ranks, nodes, where, close, native_files, tmp_path):
    rank = rank_at(where, ranks)
    variables = failing(ranks, rank, tmp_path, "pwrite", "prepared.h5", errno.EIO)
    done, folder, expected = overwrite(ranks, tmp_path, native_files, f"close={close}", variables, nodes)
    flushed, closed = outcome(done, ranks, "flush"), outcome(done, ranks, "close")
    assert bytes_staged(tmp_path) >= ranks * (2 << 20)
    if rank in drainers(ranks, nodes):
        assert failed_calls(tmp_path) > 0 and (flushed, closed) == ("failed", "failed"), done.told()
        assert f"rank {rank}: " in done.stderr and "Input/output error" in done.stderr, done.told()
    elif nodes == 1:  # it writes nothing to the target
        assert failed_calls(tmp_path) == 0 and (flushed, closed) == ("ok", "ok"), done.told()
    if (flushed, closed) != ("ok", "ok"):
        recovered = run([BUILD / "bin" / "forebay", "recover", tmp_path / "staging-area"], native(), tmp_path)
        assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert_same_contents(expected, folder)
    assert [path for path in (tmp_path / "staging-area").rglob("log*")] == []


# The first segment, or a later one; a log that drains meanwhile may need few.
@pytest.mark.parametrize(
    ("ranks", "nodes", "where", "how"),
    pairwise("a log cannot grow", *WHERE, [(0, "wait"), (2, "wait"), (2, "deferred")]),
)
def test_a_log_of_one_rank_that_cannot_grow_harms_nobody(ranks, nodes, where, how, native_files, tmp_path):
    rank, (after, close) = rank_at(where, ranks), how
    variables = failing(ranks, rank, tmp_path, "fallocate", "staging-area", errno.ENOSPC, FAILING_AFTER=str(after))
    info = f"close={close};size=4MiB"
    done, folder, expected = overwrite(ranks, tmp_path, native_files, info, variables, nodes)
    assert done.returncode == 0 and failed_calls(tmp_path) > 0, done.told()
    assert_same_contents(expected, folder)
    if after > 0:
        assert_staged(tmp_path, ranks)
        return
    assert {reason for line in process_lines(tmp_path) for reason in line["aside"]} == {"staging_area"}, done.told()
    assert bytes_staged(tmp_path) == 0 and "no rank stages the file" in done.stderr, done.told()
