"""A target is told nothing by staged ranks that native ones do not tell it; see ../../integration/target_calls.py."""

import pytest
from connector_environment import native, staged
from parallel_comparison import assert_same_contents
from parallel_environment import assert_staged, launch, node_names, program
from target_calls import STRACE, assert_no_more_said, told_of, tracing

pytestmark = [pytest.mark.skipif(STRACE is None, reason="there is no strace"), pytest.mark.slow]

RANKS = 2
OPENS = 4
SECONDS_MAX = 240


@pytest.mark.parametrize(("before", "nodes"), [(None, 1), (0, 1), (4096, 1), (None, 2)])
def test_ranks_tell_the_target_nothing_more(before, nodes, tmp_path):
    """The file is new, or there and empty, or has content that goes."""
    told = {}
    for side, environment in (("native", native()), ("staged", staged(tmp_path))):
        folder = tmp_path / side
        folder.mkdir()
        if before is not None:
            (folder / "target.h5").write_bytes(bytes(before))
        traces = [tmp_path / f"{side}-{rank}.trace" for rank in range(RANKS)]
        done = launch(
            [program("parallel_rewrite"), "target.h5"],
            environment,
            folder,
            RANKS,
            SECONDS_MAX,
            node_names(RANKS, nodes) if side == "staged" else None,
            before_rank={rank: tracing(traces[rank]) for rank in range(RANKS)},
        )
        assert done.hung is None and done.returncode == 0, done.told()
        told[side] = [told_of(trace, "target.h5", before or 0) for trace in traces]
    assert_staged(tmp_path, RANKS)
    assert_same_contents(tmp_path / "native", tmp_path / "staged")
    # The second creation finds content, and some process empties the file. The first does only if there was some
    # before.
    emptied = 2 if before else 1
    for side in told:
        assert sum(one.changes["size 0"] for one in told[side]) == emptied, (side, [one.changes for one in told[side]])
    both = {side: merged(told[side]) for side in told}
    assert_no_more_said(both["staged"], both["native"], OPENS, RANKS)


def merged(ranks):
    """What all ranks said together. Which size a rank has set that was there already only a trace of all could tell."""
    whole = ranks[0]
    for one in ranks[1:]:
        whole.changes += one.changes
        whole.looks += one.looks
        whole.opens += one.opens
    whole.needless = []
    return whole
