"""All ways to allocate and to fill a dataset in parallel give every rank's data, in the file as seen without forebay."""

import pytest
from connector_environment import native, staged
from parallel_environment import LONG, PROGRAMS, assert_staged, launch, node_names, program

pytestmark = pytest.mark.slow

COMBINATIONS = 3 * 3 * 3 * 2 * 2 * 2 * 3
SECONDS_MAX = 100


def run(mode: str, environment: dict[str, str], folder, ranks: int, per_rank=None, preload=()):
    (folder / "files").mkdir(parents=True, exist_ok=True)
    done = launch([program("parallel_allocation"), mode, "files"], environment, folder, ranks, SECONDS_MAX, per_rank, preload)
    assert done.hung is None and done.returncode == 0, done.told()
    assert done.stdout == f"{COMBINATIONS} combinations\n"
    assert len(list((folder / "files").glob("*.h5"))) == COMBINATIONS


def test_native_files_are_right(tmp_path):
    run("write", native(), tmp_path, 2)
    run("check", native(), tmp_path, 2)


def test_a_lost_write_is_noticed(tmp_path):
    run("write", native(), tmp_path, 2)
    victim = tmp_path / "files" / "fill2-alloc1-layout0-align4096-block2048-format0-dims2.h5"
    content = bytearray(victim.read_bytes())
    content[len(content) // 2 & ~4095 : (len(content) // 2 & ~4095) + 8] = bytes(8)
    victim.write_bytes(content)
    done = launch([program("parallel_allocation"), "check", "files"], native(), tmp_path, 2, SECONDS_MAX)
    assert done.returncode == 3 and victim.name in done.stderr, done.told()


@pytest.mark.parametrize(
    ("ranks", "nodes", "with_barriers"), [(2, 1, False), (3, 1, False), (2, 1, True), (2, 2, False)]
)
def test_staged_files_are_right(ranks, nodes, with_barriers, tmp_path):
    preload = (PROGRAMS / "barrier_interposer.so",) if with_barriers else ()
    run("write", staged(tmp_path), tmp_path, ranks, node_names(ranks, nodes), preload)
    run("check", native(), tmp_path, ranks)
    assert_staged(tmp_path, ranks)
