"""Each way to allocate and fill a dataset in parallel gives every rank's data, as seen without forebay."""

import pytest
from connector_environment import native, staged
from parallel_environment import LONG, PROGRAMS, assert_staged, launch, node_names, program
from seeds import seed_of

pytestmark = pytest.mark.slow

# One in so many, others in each run; each way to fill, to allocate and to lay out is among them.
EVERY = 1 if LONG else 4
FIRST = seed_of("parallel_allocation") % EVERY
COMBINATIONS = 3 * 3 * 3 * 2 * 2 * 2 * 3 // EVERY
SECONDS_MAX = 400


def run(mode: str, environment: dict[str, str], folder, ranks: int, per_rank=None, preload=(), first=FIRST):
    (folder / "files").mkdir(parents=True, exist_ok=True)
    command = [program("parallel_allocation"), mode, "files", EVERY, first]
    done = launch(command, environment, folder, ranks, SECONDS_MAX, per_rank, preload)
    assert done.hung is None and done.returncode == 0, done.told()
    assert done.stdout == f"{COMBINATIONS} combinations\n"
    assert len(list((folder / "files").glob("*.h5"))) == COMBINATIONS


def test_native_files_are_right(tmp_path):
    run("write", native(), tmp_path, 2)
    run("check", native(), tmp_path, 2)


def test_a_lost_write_is_noticed(tmp_path):
    first = 3 % EVERY  # has the victim among its combinations
    run("write", native(), tmp_path, 2, first=first)
    victim = tmp_path / "files" / "fill2-alloc1-layout0-align4096-block2048-format0-dims2.h5"
    content = bytearray(victim.read_bytes())
    content[len(content) // 2 & ~4095 : (len(content) // 2 & ~4095) + 8] = bytes(8)
    victim.write_bytes(content)
    command = [program("parallel_allocation"), "check", "files", EVERY, first]
    done = launch(command, native(), tmp_path, 2, SECONDS_MAX)
    assert done.returncode == 3 and victim.name in done.stderr, done.told()


@pytest.mark.parametrize(
    ("ranks", "nodes", "with_barriers"), [(2, 1, False), (3, 1, False), (2, 1, True), (2, 2, False)]
)
def test_staged_files_are_right(ranks, nodes, with_barriers, tmp_path):
    preload = (PROGRAMS / "barrier_interposer.so",) if with_barriers else ()
    run("write", staged(tmp_path), tmp_path, ranks, node_names(ranks, nodes), preload)
    run("check", native(), tmp_path, ranks)
    assert_staged(tmp_path, ranks)
