"""One plugin serves programs of each MPI that is found, through the library built for it.

The other tests of this folder run with the MPI that the HDF5 of the build was compiled with. These tests take the other
MPI. It needs an HDF5 of its own: tools/setup hdf5-openmpi.
"""

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from connector_environment import native, run, staged, statistics
from parallel_case_runs import CASES, RANKS, STAGING_NOTHING, Cases, assert_same, facts, run_cases, run_natively
from parallel_comparison import assert_same_contents
from parallel_environment import BUILD, MPI, assert_staged, launch, node_names, prefix_of

pytestmark = pytest.mark.slow

OTHER = "openmpi" if MPI == "mpich" else "mpich"
NEEDS = {"mpich": [], "openmpi": ["libmpi.so.40"]}  # that of MPICH takes the one that the program has
SOURCES = ("cases", "failures", "groups", "rows", "turns")  # of the program parallel_cases
SECONDS_MAX = 240


@pytest.mark.parametrize("mpi", [MPI, OTHER])
def test_there_is_a_library_for_each_mpi_that_has_a_compiler(mpi):
    if shutil.which(f"mpicc.{mpi}") is None:
        pytest.skip(f"no mpicc.{mpi}")
    library = BUILD / "lib" / f"libforebay_mpi_{mpi}.so"
    told = run(["readelf", "--dynamic", "--dyn-syms", "--wide", library], native(), Path.cwd())
    assert told.returncode == 0, told.stderr
    wanted = [name for name in re.findall(r"NEEDED.*\[(.+)\]", told.stdout) if name.startswith("libmp")]
    assert wanted == NEEDS[mpi], told.stdout
    assert "forebay_mpi_adapter" in told.stdout


@pytest.fixture(scope="session")
def cases_program(tmp_path_factory) -> Path:
    """parallel_cases, compiled with the other MPI."""
    prefix = prefix_of(OTHER)
    program = tmp_path_factory.mktemp(OTHER) / "parallel_cases"
    done = subprocess.run(
        [
            f"mpicc.{OTHER}",
            "-std=gnu11",
            "-DOMPI_SKIP_MPICXX",
            f"-I{prefix}/include",
            *(Path(__file__).with_name(f"parallel_{part}.c") for part in SOURCES),
            "-o",
            program,
            f"-L{prefix}/lib",
            "-lhdf5",
            "-lpthread",
            f"-Wl,-rpath,{prefix}/lib",
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def native_cases_of_other(cases_program, tmp_path_factory) -> Cases:
    return run_natively(CASES, tmp_path_factory.mktemp(OTHER) / "run", executable=cases_program, mpi=OTHER)


@pytest.fixture(scope="module")
def staged_cases_of_other(cases_program, tmp_path_factory):
    """All cases on so many nodes, in one launch, and the folder of its statistics."""

    @functools.cache
    def run_on(nodes: int) -> tuple[Cases, Path]:
        folder = tmp_path_factory.mktemp(f"{OTHER}-{nodes}")
        per_rank = node_names(RANKS, nodes)
        return run_cases(CASES, staged(folder), folder / "run", per_rank, executable=cases_program, mpi=OTHER), folder

    return run_on


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_unusual_programs_of_another_mpi_see_the_same(case, nodes, native_cases_of_other, staged_cases_of_other):
    through, folder = staged_cases_of_other(nodes)
    assert_same(case, through, native_cases_of_other)
    if case not in STAGING_NOTHING:
        assert through.staged_bytes(case, statistics(folder)) > 0, through.done.told()
    if case == "plain":
        assert through.done.returncode == 0, through.done.told()
        assert_staged(folder, RANKS)


def test_programs_without_mpi_under_the_launcher_of_another_mpi(cases_program, tmp_path):
    plain = launch([cases_program, "serial"], native(), tmp_path / "plain", RANKS, SECONDS_MAX, mpi=OTHER)
    done = launch([cases_program, "serial"], staged(tmp_path), tmp_path / "run", RANKS, SECONDS_MAX, mpi=OTHER)
    assert done.hung is None and done.returncode == plain.returncode == 0, done.told()
    assert facts(done) == facts(plain) != []
    assert_same_contents(tmp_path / "plain", tmp_path / "run")
    assert_staged(tmp_path, RANKS)
