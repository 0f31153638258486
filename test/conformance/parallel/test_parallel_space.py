"""Space that HDF5 fills for all ranks, or frees and uses again, holds what was written last, even when drains are late.

The target is a slowfs mount. In each kind of file, the first write beyond the first pages hangs for a while and is
carried out then. So what was staged for an old use of the space reaches the file as late as it can.
"""

import re

import pytest
from connector_environment import bytes_staged, native, staged
from parallel_environment import Launch, assert_staged, launch, node_names, program

from forebay.slowfs import SlowFS, available

_usable, _reason = available()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")]

SECONDS_MAX = 240
FREEING = (
    "link",
    "link-by-index",
    "chunked",
    "anonymous",
    "unlinked",
    "counted",
    "group",
    "open-group",
    "shrunk",
    "moved",
    "attribute",
    "filtered",
    "mounted",
    "mounted-anonymous",
    "external",
    "external-unlinked",
)
FILLING = (
    "create-contiguous",
    "create-chunked",
    "grow",
    "cut-and-grow",
    "open-contiguous",
    "open-chunked",
    "open-object",
    "copy-contiguous",
    "copy-chunked",
)
WAYS = (*FREEING, *FILLING)


def file_of(way: str) -> str:
    """The file in which space is freed, or filled: of two files that are mounted or linked, the other one."""
    return f"{way}-other.h5" if way.startswith(("mounted", "external")) else f"{way}.h5"


def run_all(folder, environment: dict[str, str], ranks: int, nodes: int) -> Launch:
    """All ways in one launch, each with a write that hangs."""
    with SlowFS(folder / "backing", folder / "target") as fs:
        for way in WAYS:
            fs.fault(f"op=write,path={file_of(way)},offset=131072..196608,count=1,hang=0.15s")
        done = launch(
            [program("parallel_space"), "."],
            environment,
            folder / "target",
            ranks,
            SECONDS_MAX,
            node_names(ranks, nodes),
        )
        hit = {way: fault["hit"] for way, fault in zip(WAYS, fs.stats()["faults"], strict=True)}
    # Each file has a dataset there that is written at last.
    assert hit == dict.fromkeys(WAYS, 1), (hit, done.told())
    return done


def outcomes(done: Launch) -> dict[str, str]:
    assert done.hung is None, done.told()
    return dict(re.findall(r"^(\S+): (.*)$", done.stdout, re.MULTILINE))


def test_native_files_are_right(tmp_path):
    done = launch([program("parallel_space"), "."], native(), tmp_path / "run", 2, SECONDS_MAX)
    assert outcomes(done) == dict.fromkeys(WAYS, "ok"), done.told()
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("ranks", "nodes", "crash"), [(2, 1, "fast"), (2, 2, "fast"), (4, 2, "fast"), (2, 2, "consistent")]
)
def test_freed_and_filled_space_holds_what_was_written_last(ranks, nodes, crash, tmp_path):
    done = run_all(tmp_path, staged(tmp_path, FOREBAY_NODES=crash), ranks, nodes)
    assert outcomes(done) == dict.fromkeys(WAYS, "ok"), done.told()
    assert done.returncode == 0, done.told()
    assert_staged(tmp_path, ranks)
    # In each of them one part of 384 KiB at least is a program's own.
    assert bytes_staged(tmp_path) > len(WAYS) * 256 * 1024
