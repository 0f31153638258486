"""Ranks that do not stage make a file anew with HDF5's own driver: no bytes of a dead process come back into it."""

import subprocess
import sys

import pytest
from connector_environment import hdf5_prefix, staged
from parallel_environment import MPI, asides_by_reason, launch, program
from test_recover import left, run_until_killed

pytestmark = pytest.mark.slow

SECONDS_MAX = 60

CODE = r"""
#include <hdf5.h>
#include <mpi.h>
int main(int c, char **v) {
    MPI_Init(&c, &v);
    hid_t l = H5Pcreate(H5P_FILE_ACCESS); H5Pset_fapl_mpio(l, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t f = H5Fcreate(v[1], H5F_ACC_TRUNC, 0, l); H5Pclose(l);
    H5Gclose(H5Gcreate2(f, "new", 0, 0, 0));
    int closed = H5Fclose(f); MPI_Finalize();
    return f < 0 || closed < 0;
}
"""


def test_a_file_that_unstaged_ranks_empty_loses_the_log_of_the_dead_process(tmp_path):
    h5py = pytest.importorskip("h5py")
    program("parallel_cases")  # skips where HDF5 is not parallel
    (tmp_path / "p.c").write_text(CODE)
    prefix = hdf5_prefix()
    compiler = "mpicc.openmpi" if MPI == "openmpi" else "mpicc"
    places = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib"]
    subprocess.run([compiler, "-w", "p.c", "-o", "p", *places, "-lhdf5"], cwd=tmp_path, check=True, timeout=60)
    path, area = tmp_path / "run.h5", tmp_path / "staging-area"
    run_until_killed(path, "latest", "end", staged(tmp_path))
    assert left(area), "nothing was staged"
    done = launch([tmp_path / "p", path], staged(tmp_path, "mpi=off"), tmp_path / "ranks", 2, SECONDS_MAX)
    assert done.hung is None and done.returncode == 0 and "forebay" not in done.stderr, done.told()
    assert set(asides_by_reason(tmp_path)) == {"mpi"}
    assert left(area) == []
    again = [sys.executable, "-c", f"import h5py; print(list(h5py.File({str(path)!r}, 'r+')))"]
    opened = subprocess.run(again, env=staged(tmp_path), capture_output=True, text=True, timeout=60)
    assert (opened.stdout, opened.stderr) == ("['new']\n", "")
    with h5py.File(path) as file:
        assert list(file) == ["new"]
