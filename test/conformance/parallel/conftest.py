import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "integration"), str(HERE.parent / "differential"), str(HERE)]


@pytest.fixture(scope="session")
def mpi_python() -> str:
    python = os.environ.get("FOREBAY_HDF5_PYTHON")
    if python is None:
        pytest.skip("there is no h5py with MPI for this HDF5: tools/setup python-mpi says why, or builds it")
    return python
