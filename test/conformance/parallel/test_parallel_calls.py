"""Calls of parallel HDF5 return and store the same as natively.

These calls concern more than one object, or not all ranks make them.
"""

import functools

import pytest
from connector_environment import bytes_staged, native, staged
from parallel_environment import Launch, assert_staged, launch, node_names, process_lines, program

pytestmark = pytest.mark.slow

SECONDS_MAX = 240
# HDF5 leaves some bytes of its blocks as malloc has given them.
SAME_MEMORY = {"MALLOC_PERTURB_": "165"}
PARTS = ("multi", "nested", "closed", "rejected", "external", "alone", "strategies")


@pytest.fixture(scope="session")
def native_part(tmp_path_factory):
    """What a part of the program says natively, and the folder with its files; each is run once."""

    @functools.cache
    def run(part: str, ranks: int):
        folder = tmp_path_factory.mktemp(f"native-{part}-{ranks}")
        done = launch([program("parallel_calls"), part], native(**SAME_MEMORY), folder, ranks, SECONDS_MAX)
        assert done.hung is None and done.returncode == 0 and done.stdout, done.told()
        return done, folder

    return run


def run_staged(part: str, tmp_path, ranks: int, nodes: int, **more: str) -> Launch:
    done = launch(
        [program("parallel_calls"), part],
        staged(tmp_path, **SAME_MEMORY, **more),
        tmp_path / "run",
        ranks,
        SECONDS_MAX,
        node_names(ranks, nodes),
    )
    assert done.hung is None, done.told()
    return done


RUNS = [(part, 2, nodes, "fast") for part in PARTS for nodes in (1, 2)]
RUNS += [(part, 3, 2, "consistent") for part in PARTS if part not in ("multi", "strategies")]


@pytest.mark.parametrize(("part", "ranks", "nodes", "crash"), RUNS)
def test_calls_return_and_store_the_same(part, ranks, nodes, crash, native_part, tmp_path):
    plain, plain_folder = native_part(part, ranks)
    done = run_staged(part, tmp_path, ranks, nodes, FOREBAY_NODES=crash)
    assert done.stdout.splitlines() == plain.stdout.splitlines(), done.told()
    assert done.returncode == 0, done.told()
    names = sorted(path.name for path in plain_folder.glob("*.h5"))
    assert names == sorted(path.name for path in (tmp_path / "run").glob("*.h5")) != []
    if part == "strategies":
        assert len(names) == 24
        different = [
            name for name in names if (plain_folder / name).read_bytes() != (tmp_path / "run" / name).read_bytes()
        ]
        assert different == []
    if part == "closed":  # each time the library begins anew the process counts anew
        assert len(process_lines(tmp_path)) >= ranks and bytes_staged(tmp_path) > 0
    else:
        assert_staged(tmp_path, ranks)


@pytest.mark.parametrize("nodes", [1, 2])
def test_an_error_of_one_rank_in_a_collective_write_is_its_own(nodes, tmp_path):
    """Natively all others wait for that rank for ever."""
    done = run_staged("bad-space", tmp_path, 2, nodes)
    assert done.returncode == 0, done.told()
    assert done.stdout.splitlines() == [
        "collective write with a bad memory space on the last rank: 0 -1",
        "closed: 0 0",
    ]
    assert_staged(tmp_path, 2)
