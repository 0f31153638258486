"""One rank alone looks up objects, with link access lists that name a file access list with a communicator.

HDF5 duplicates the communicator whenever it copies such a list. That is collective, so no rank may do it alone.
"""

import subprocess
from pathlib import Path

import pytest
from connector_environment import hdf5_prefix, native, staged
from parallel_environment import MPI, launch, program

pytestmark = pytest.mark.slow

SECONDS_MAX = 60

CODE = r"""
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
/* program mpio|sec2: the driver that files behind links are opened with; sec2 leaves a communicator in the list */
int main(int c, char **v) {
    int rank; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    hid_t l = H5Pcreate(H5P_FILE_ACCESS); H5Pset_fapl_mpio(l, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t f = H5Fcreate("p.h5", H5F_ACC_TRUNC, 0, l);
    H5Gclose(H5Gcreate2(f, "g", 0, 0, 0));
    hid_t s = H5Screate(H5S_SCALAR); H5Dclose(H5Dcreate2(f, "d", H5T_NATIVE_INT, s, 0, 0, 0)); H5Sclose(s);
    hid_t behind = H5Pcopy(l); if (!strcmp(v[1], "sec2")) H5Pset_fapl_sec2(behind);
    hid_t lapl = H5Pcreate(H5P_LINK_ACCESS); H5Pset_elink_fapl(lapl, behind);
    if (rank == 0) {
        int there = H5Lexists(f, "g", lapl), absent = H5Lexists(f, "h", lapl);
        hid_t o = H5Oopen(f, "g", lapl), d = H5Oopen(f, "d", lapl);
        printf("%d %d %d %d\n", there, absent, o > 0, d > 0); fflush(stdout);
        H5Oclose(o); H5Oclose(d);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    hid_t files = H5Pget_elink_fapl(lapl);
    int same = H5Pequal(files, behind); H5Pclose(files);
    printf("rank %d: %d\n", rank, same);
    H5Pclose(lapl); H5Pclose(behind); H5Pclose(l);
    int closed = H5Fclose(f); MPI_Finalize();
    return closed < 0;
}
"""


@pytest.fixture(scope="module")
def lone_lookups(tmp_path_factory) -> Path:
    program("parallel_cases")  # skips where HDF5 is not parallel
    folder = tmp_path_factory.mktemp("lone")
    (folder / "p.c").write_text(CODE)
    prefix = hdf5_prefix()
    compiler = "mpicc.openmpi" if MPI == "openmpi" else "mpicc"
    places = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib"]
    command = [compiler, "-O1", "-w", "p.c", "-o", "p", *places, "-lhdf5"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder / "p"


@pytest.mark.parametrize("driver", ["mpio", "sec2"])
def test_one_rank_alone_looks_up_objects_with_a_list_for_links(tmp_path, lone_lookups, driver):
    plain = launch([lone_lookups, driver], native(), tmp_path / "native", 2, SECONDS_MAX)
    assert plain.hung is None and plain.returncode == 0, plain.told()
    assert "1 0 1 1" in plain.stdout
    through = launch([lone_lookups, driver], staged(tmp_path), tmp_path / "through", 2, SECONDS_MAX)
    assert through.hung is None and through.returncode == 0, through.told()
    assert sorted(through.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert through.stderr == plain.stderr
