import functools
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "integration"), str(HERE.parent / "differential"), str(HERE)]

from connector_environment import native
from parallel_call_parts import PARTS, Parts, run_parts
from parallel_case_runs import NATIVE, RANKS, run_natively


@pytest.fixture(scope="session")
def mpi_python() -> str:
    python = os.environ.get("FOREBAY_HDF5_PYTHON")
    if python is None:
        pytest.skip("there is no h5py with MPI for this HDF5: tools/setup python-mpi says why, or builds it")
    return python


@pytest.fixture(scope="session")
def native_cases(tmp_path_factory):
    """What cases of parallel_cases do natively, all in one launch, and one more for each other number of ranks."""

    @functools.cache
    def run(cases: tuple[str, ...] = NATIVE, ranks: int = RANKS):
        return run_natively(cases, tmp_path_factory.mktemp(f"native-cases-{ranks}"), ranks)

    return run


@pytest.fixture(scope="session")
def native_parts(tmp_path_factory):
    """What all parts of parallel_calls say natively, in one launch for each number of ranks, and their files."""

    @functools.cache
    def run(ranks: int) -> Parts:
        return run_parts(PARTS, native(), tmp_path_factory.mktemp(f"native-parts-{ranks}"), ranks)

    return run
