"""A rank alone asks HDF5 where its data are, and finds them in the file by its path."""

import pytest
from connector_environment import native, reasons, staged
from parallel_comparison import assert_same_contents
from parallel_environment import assert_staged, launch, node_names, program

SECONDS_MAX = 240


@pytest.mark.parametrize(
    ("way", "ranks", "nodes", "durability"),
    [
        ("offset", 2, 1, "process"),
        ("chunk", 3, 1, "process"),
        ("iter", 2, 1, "process"),
        ("offset", 4, 2, "process"),
        ("chunk", 2, 2, "process"),
        ("offset", 2, 1, "node"),
        ("chunk", 3, 1, "node"),
    ],
)
def test_a_rank_that_is_handed_an_address_finds_its_bytes_there(way, ranks, nodes, durability, tmp_path):
    for side, environment in (("native", native()), ("staged", staged(tmp_path, f"durability={durability}"))):
        folder = tmp_path / side
        folder.mkdir()
        done = launch(
            [program("parallel_addresses"), "x.h5", way],
            environment,
            folder,
            ranks,
            SECONDS_MAX,
            node_names(ranks, nodes) if side == "staged" else None,
        )
        assert done.hung is None and done.returncode == 0 and "wrong 0" in done.stdout, done.told()
    assert_staged(tmp_path, ranks)
    assert "address_given" in reasons(tmp_path)
    assert_same_contents(tmp_path / "native", tmp_path / "staged")
