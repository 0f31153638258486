import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "integration"), str(HERE.parent / "differential"), str(HERE)]

from parallel_environment import why_not_staged  # noqa: E402


@pytest.fixture(scope="session")
def staged_on_one_node():
    """Skips what wants several ranks of one node to stage, as long as the counters say that they do not."""
    if reason := why_not_staged(nodes=1):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def staged_on_two_nodes():
    if reason := why_not_staged(nodes=2):
        pytest.skip(reason)
