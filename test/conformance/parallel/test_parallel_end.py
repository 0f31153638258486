"""Ranks end after MPI, with a file that HDF5 cannot close. What they wrote is in the file, as natively."""

import subprocess
from pathlib import Path

import pytest
from connector_environment import hdf5_prefix, native, staged, statistics
from parallel_environment import MPI, assert_staged, asides_by_reason, launch, process_lines, program

SECONDS_MAX = 240

CODE = r"""
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static herr_t create(hid_t g, const char *n, const H5L_info2_t *i, void *u) {
    hid_t h = H5Gcreate2(g, "zzz", 0, 0, 0);
    return h >= 0 ? -1 : 1;
}
/* program flush|noflush last-rank-lives-on */
int main(int c, char **v) {
    int rank, size; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    H5Eset_auto2(0, 0, 0);
    hid_t l = H5Pcreate(H5P_FILE_ACCESS); H5Pset_fapl_mpio(l, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t f = H5Fcreate("p.h5", H5F_ACC_TRUNC, 0, l);
    for (int i = 0; i < 20; i++) { char k[9]; sprintf(k, "g%d", i); H5Gclose(H5Gcreate2(f, k, 0, 0, 0)); }
    hsize_t at = 0; H5Literate2(f, H5_INDEX_NAME, H5_ITER_INC, &at, create, 0);
    hsize_t n = 500000, all = n * size, begin = n * rank;
    hid_t s = H5Screate_simple(1, &all, 0), m = H5Screate_simple(1, &n, 0);
    hid_t d = H5Dcreate2(f, "d", H5T_NATIVE_INT, s, 0, 0, 0);
    H5Sselect_hyperslab(s, H5S_SELECT_SET, &begin, 0, &n, 0);
    int *b = malloc(n * 4); for (int i = 0; i < n; i++) b[i] = begin + i;
    int w = H5Dwrite(d, H5T_NATIVE_INT, m, s, 0, b); H5Dclose(d); H5Sclose(s); H5Sclose(m);
    int fl = strcmp(v[1], "flush") ? 0 : H5Fflush(f, 0);
    int cl = H5Fclose(f); H5Pclose(l);
    int e = MPI_Finalize();
    printf("rank %d write %d flush %d close %d end %d\n", rank, w, fl, cl, e);
    return 0;
}
"""


@pytest.fixture(scope="module")
def never_closed(tmp_path_factory) -> Path:
    program("parallel_cases")  # skips where HDF5 is not parallel
    folder = tmp_path_factory.mktemp("never")
    (folder / "p.c").write_text(CODE)
    prefix = hdf5_prefix()
    compiler = "mpicc.openmpi" if MPI == "openmpi" else "mpicc"
    command = [
        compiler,
        "-O1",
        "-w",
        f"-I{prefix}/include",
        "p.c",
        "-o",
        "p",
        f"-L{prefix}/lib",
        f"-Wl,-rpath,{prefix}/lib",
        "-lhdf5",
    ]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder / "p"


@pytest.mark.parametrize("flush", ["flush", "noflush"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_what_the_ranks_wrote_is_in_the_file_at_their_end(tmp_path, never_closed, ranks, flush):
    command = [never_closed, flush]
    plain = launch(command, native(), tmp_path / "native", ranks, SECONDS_MAX)
    through = launch(command, staged(tmp_path), tmp_path / "through", ranks, SECONDS_MAX)
    assert through.hung is None and through.returncode == plain.returncode == 0, through.told()
    assert sorted(through.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert through.stderr == plain.stderr
    expected = b"".join(number.to_bytes(4, "little") for number in range(500000 * ranks))
    assert expected in (tmp_path / "native" / "p.h5").read_bytes()
    assert expected in (tmp_path / "through" / "p.h5").read_bytes()
    assert (tmp_path / "through" / "p.h5").stat().st_size == (tmp_path / "native" / "p.h5").stat().st_size
    assert_staged(tmp_path, ranks)


def test_ranks_of_which_one_cannot_stage_count_no_file_as_staged(tmp_path):
    """Two segments are the least that a log has; each open file takes one for itself."""
    done = launch(
        [program("parallel_cases"), "many-files"], staged(tmp_path, "size=1MiB"), tmp_path / "target", 2, SECONDS_MAX
    )
    assert done.hung is None and done.returncode == 0, done.told()
    counted = sum(process["files_staged"] for process in process_lines(tmp_path))
    really = sum(1 for entry in statistics(tmp_path) if not entry["reasons"])
    assert counted == really, process_lines(tmp_path)
    assert asides_by_reason(tmp_path).get("staging_area", 0) == sum(
        1 for entry in statistics(tmp_path) if "staging_area" in entry["reasons"]
    )
