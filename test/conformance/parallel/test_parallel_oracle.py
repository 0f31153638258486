"""Random parallel programs that know what they must read (oracle_program.h), on one node and on several.

Some of them run while the drain is slow.

Each run takes new seeds. FOREBAY_SEED sets the first one; FOREBAY_TEST_LONG=1 runs many more.
"""

import os
import time

import pytest
from connector_environment import bytes_staged, staged
from parallel_environment import LONG, process_lines
from parallel_oracle import assert_right, differences, is_wrong_natively, native_environment, run_oracle

from forebay.slowfs import SlowFS, available

pytestmark = pytest.mark.slow

FIRST_SEED = int(os.environ.get("FOREBAY_SEED") or time.time_ns() // 1_000_000 % 1_000_000_000)
SEEDS = 60 if LONG else 2  # of each setting
KNOWN_SEEDS = range(1, 5)  # of these programs each setting stages
OPERATIONS_MAX = 18  # in a short run

# A log so small that many programs fill it, with segments so small that they are used again all the time.
TINY = {"FOREBAY_SIZE": "1MiB"}
# name: (ranks, nodes, slow target, options)
SETTINGS = {
    "two-ranks": (2, 1, False, {}),
    "three-ranks-slow": (3, 1, True, {}),
    "two-ranks-tiny-log-slow": (2, 1, True, {**TINY, "FOREBAY_FULL": "wait"}),
    "two-nodes": (2, 2, False, {}),
    "two-nodes-slow": (2, 2, True, {}),
    "four-ranks-on-two-nodes-slow": (4, 2, True, {"FOREBAY_STRIPE": "4KiB"}),
    "two-ranks-read-again-slow": (2, 1, True, {"FOREBAY_READ_CACHE": "on"}),
    "two-consistent-nodes-slow": (2, 2, True, {"FOREBAY_NODES": "consistent"}),
}
# Many collective steps, which cost a time slice each where ranks share processors: a short run does less of them.
COSTLY = ("two-ranks-tiny-log-slow", "four-ranks-on-two-nodes-slow", "two-consistent-nodes-slow")


@pytest.fixture
def slow_target(tmp_path):
    """A folder where a write takes milliseconds, so that what is drained late comes late."""
    usable, why = available()
    if not usable:
        pytest.skip(why)
    with SlowFS(tmp_path / "backing", tmp_path / "mount", bandwidth="100MiB/s", latency={"write": "1ms"}) as fs:
        yield fs.mount_point


def operations(most: int) -> tuple[str, ...]:
    """So many in a short run; a long one leaves none out."""
    return () if LONG else ("--max-ops", str(most))


@pytest.mark.parametrize("setting", SETTINGS)
def test_ranks_read_what_they_must(setting, tmp_path, request):
    ranks, nodes, slow, options = SETTINGS[setting]
    first = FIRST_SEED + list(SETTINGS).index(setting) * 1000
    most = operations(8 if setting in COSTLY and not LONG else OPERATIONS_MAX)
    print(f"FOREBAY_SEED={FIRST_SEED}: seeds {first} to {first + SEEDS - 1}")
    folder = request.getfixturevalue("slow_target") if slow else tmp_path
    # Of the known programs some write raw data; of a few random ones perhaps none does.
    launches = 2
    for name, seeds in ("known", KNOWN_SEEDS), ("random", range(first, first + SEEDS)):
        ran = run_oracle(folder / name, ranks, seeds, staged(tmp_path, **options), nodes, most)
        try:
            assert_right(ran, seeds, f"FOREBAY_SEED={FIRST_SEED} pytest {__file__} -k {setting}")
        except AssertionError:
            # One launch runs all of them, so one that HDF5 gets wrong hides the others.
            wrong = [seed for seed in seeds if name == "random" and is_wrong_natively(tmp_path, ranks, seed, most)]
            if not wrong:
                raise
            print(f"HDF5 itself goes wrong with {wrong}")
            launches = 1  # that leave a line of each process for certain
            for seed in sorted(set(seeds) - set(wrong)):
                one = range(seed, seed + 1)
                ran = run_oracle(folder / f"again-{seed}", ranks, one, staged(tmp_path, **options), nodes, most)
                assert_right(ran, one, f"seed {seed} of FOREBAY_SEED={FIRST_SEED} pytest {__file__} -k {setting}")
    processes = process_lines(tmp_path)
    assert len(processes) == 2 * ranks or (launches == 1 and len(processes) >= ranks), processes
    assert all(process["files_staged"] > 0 for process in processes[:ranks]), processes
    assert bytes_staged(tmp_path) > 0
    # The read cache stays. It is empty but where a run takes so long that its files are no longer young.
    left = [path for path in (tmp_path / "staging-area").rglob("*") if path.is_file() and path.stat().st_size > 0]
    left = [path for path in left if "cache" not in path.relative_to(tmp_path).parts]
    assert left == [], "left on the staging area"


def test_native_programs_are_right_too(tmp_path):
    """The programs themselves do nothing that HDF5 does not define."""
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS)
    assert_right(
        run_oracle(tmp_path, 2, seeds, native_environment(), arguments=operations(OPERATIONS_MAX)),
        seeds,
        f"FOREBAY_SEED={FIRST_SEED}",
    )


def test_a_rank_does_nothing_alone_where_metadata_are_read_together(tmp_path):
    """A seed that once had one rank write to an unnamed dataset of such a file, which fails natively."""
    seeds = range(1530147291, 1530147292)
    environment = staged(tmp_path, FOREBAY_NODES="consistent")
    ran = run_oracle(tmp_path / "run", 2, seeds, environment, 2, operations(8))
    assert_right(ran, seeds, f"pytest {__file__} -k alone_where")
    assert bytes_staged(tmp_path) > 0


def test_a_wrong_byte_is_noticed(tmp_path):
    """By a read of a rank, or else in the file: what is overwritten unread is lost on nobody."""
    seeds = range(1, 4)
    ran = run_oracle(tmp_path, 2, seeds, native_environment(), arguments=("--corrupt", "1"))
    assert ran.done.returncode in (0, 3), ran.done.told()
    noticed = [seed for seed in seeds if f"seed {seed}," in ran.done.stderr or differences(tmp_path / str(seed))]
    assert noticed, ran.done.told()
