"""What an installation offers to sites: package configurations, manual pages, completion, recipes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import ROOT, native, run, statistics, statistics_file
from forebay.equality import compare_files

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
EXAMPLE = ROOT / "examples" / "cmake"
WHOLE = "the file is whole, and on its device"


def passes(command, folder, **more):
    done = run(command, native(**more), folder, seconds_max=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    passes(["cmake", "--install", BUILD, "--prefix", folder / "forebay"], folder)
    return folder / "forebay"


def hdf5():
    """The prefix of the tests' HDF5, and the compiler that knows the MPI that its headers want."""
    found = os.environ.get("FOREBAY_HDF5_PREFIX")
    if not found:
        pytest.skip("tools/env names no HDF5")
    mpi = os.environ.get("FOREBAY_HDF5_MPI")
    return Path(found), shutil.which(f"mpicc.{mpi}") or shutil.which("mpicc") if mpi else shutil.which("cc")


def runs_staged(program, prefix, folder):
    """The program, natively and through the installed command: the same contents, staged the second time.

    Its datasets keep the second in which they were made.
    """
    (folder / "area").mkdir()
    assert "forebay is not there" in passes([program, "native.h5"], folder)
    launcher = [prefix / "bin" / "forebay", "run", "-q", "-o", f"nls={folder / 'area'}", "--"]
    assert WHOLE in passes([*launcher, program, "staged.h5"], folder, FOREBAY_STATS=str(statistics_file(folder)))
    (file,) = statistics(folder)
    assert file["staged"] > 0 and file["staged"] + file["through"] >= 8 << 20
    assert (folder / "staged.h5").stat().st_size == (folder / "native.h5").stat().st_size
    compared = compare_files(folder / "staged.h5", folder / "native.h5")
    assert compared.equal and compared.value_bytes >= 8 << 20, compared


def test_the_example_finds_the_package_with_cmake(prefix, tmp_path):
    library, compiler = hdf5()
    found = f"-DCMAKE_PREFIX_PATH={prefix};{library}"
    shown = passes(["cmake", "-S", EXAMPLE, "-B", "build", f"-DCMAKE_C_COMPILER={compiler}", found], tmp_path)
    assert str(prefix / "lib") in re.search(r"HDF5_PLUGIN_PATH=(.+)", shown).group(1)
    passes(["cmake", "--build", "build"], tmp_path)
    runs_staged(tmp_path / "build" / "checkpoint", prefix, tmp_path)


def test_the_example_compiles_with_pkg_config_wherever_it_was_installed(prefix, tmp_path):
    if shutil.which("pkg-config") is None:
        pytest.skip("there is no pkg-config")
    library, compiler = hdf5()
    (folder,) = prefix.glob("lib*/**/pkgconfig")
    environment = {"PKG_CONFIG_PATH": str(folder)}
    flags = passes(["pkg-config", "--cflags", "--libs", "forebay"], tmp_path, **environment).split()
    plugins = passes(["pkg-config", "--variable=plugindir", "forebay"], tmp_path, **environment).strip()
    assert (Path(plugins) / "libforebay_vol.so").exists()
    beside = [f"-I{os.environ['FOREBAY_HDF5_INCLUDE_DIR']}", os.environ["FOREBAY_HDF5_LIBRARY"]]
    rpath = f"-Wl,-rpath,{Path(os.environ['FOREBAY_HDF5_LIBRARY']).parent}"
    passes([compiler, EXAMPLE / "checkpoint.c", *flags, *beside, rpath, "-o", "checkpoint"], tmp_path)
    runs_staged(tmp_path / "checkpoint", prefix, tmp_path)


@pytest.mark.slow
def test_the_debian_package_stages_what_is_written_and_lintian_finds_nothing(tmp_path):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("there is no dpkg-deb")
    pytest.importorskip("h5py")
    said = passes([ROOT / "packaging" / "build-deb", BUILD, tmp_path], tmp_path)
    assert not re.search(r"^[EW]: ", said, re.MULTILINE), said
    (package,) = tmp_path.glob("forebay_*.deb")
    control = passes(["dpkg-deb", "--field", package, "Depends"], tmp_path)
    assert "libc6 (>=" in control and "hdf5" not in control and "mpi" not in control, control
    passes(["dpkg-deb", "--extract", package, tmp_path / "root"], tmp_path)
    (tmp_path / "area").mkdir()
    write = "import h5py\nwith h5py.File('x.h5', 'w') as file: file['x'] = range(100000)"
    launcher = [tmp_path / "root" / "usr" / "bin" / "forebay", "run", "-q", "-o", f"nls={tmp_path / 'area'}", "--"]
    passes([*launcher, sys.executable, "-c", write], tmp_path, FOREBAY_STATS=str(statistics_file(tmp_path)))
    (file,) = statistics(tmp_path)
    assert file["staged"] > 0 and file["staged"] + file["through"] >= 800000


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    passes([ROOT / "packaging" / "make-pages", BUILD / "bin" / "forebay", folder], folder)
    return folder


def subcommands(*words):
    """As the command itself lists them."""
    shown = subprocess.run([BUILD / "bin" / "forebay", *words, "--help"], capture_output=True, text=True, check=True)
    listed = re.search(r"^Subcommands:\n(.*?)\n\n", shown.stdout, re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"^ {2}(\w+) ", listed, re.MULTILINE)


def test_each_command_has_a_manual_page_with_all_its_options(pages):
    names = [name for name in subcommands() if name != "help"] + [f"cache-{name}" for name in subcommands("cache")]
    assert len(names) > 15
    written = {page.name for page in (pages / "man1").iterdir()}
    assert written == {"forebay.1", *(f"forebay-{name}.1" for name in names)}
    for name in names:
        shown = subprocess.run(
            [BUILD / "bin" / "forebay", *name.split("-"), "--help"], capture_output=True, text=True, check=True
        ).stdout
        page = (pages / "man1" / f"forebay-{name}.1").read_text().replace("\\-", "-")
        for option in re.findall(r"^ {2}(-[^ ]+)", shown, re.MULTILINE):
            assert f"\n.B {option}" in page, (name, option)
        for section in (".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH SEE ALSO"):
            assert section in page, name


def test_manual_pages_are_laid_out_without_a_warning(pages, tmp_path):
    if shutil.which("groff") is None:
        pytest.skip("there is no groff")
    for page in (pages / "man1").iterdir():
        done = run(["groff", "-man", "-Tutf8", "-ww", "-z", page], native(), tmp_path)
        assert done.returncode == 0 and not done.stderr, (page.name, done.stderr)


def completed(pages, *words):
    """What bash offers for the last word."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _forebay; printf "%s\\n" "${COMPREPLY[@]}"'
    command = ["bash", "-c", script, "bash", pages / "completion" / "forebay", *words]
    return run(command, native(), pages).stdout.split()


def test_bash_completes_commands_options_and_settings(pages):
    assert completed(pages, "forebay", "") == subcommands()
    assert completed(pages, "forebay", "cache", "") == subcommands("cache")
    assert completed(pages, "forebay", "help", "doc") == ["doctor"]
    assert "--timeout" in completed(pages, "forebay", "wait", "--")
    assert completed(pages, "forebay", "cache", "evict", "--old") == ["--older-than"]
    assert completed(pages, "forebay", "run", "-o", "drain_t") == ["drain_threads="]
    assert completed(pages, "forebay", "run", "--", "ls", "-") == []


def test_recipes_speak_of_this_version_and_of_folders_that_are_installed(prefix):
    version = run([prefix / "bin" / "forebay", "--version"], native(), prefix).stdout.split()[1]
    (easyconfig,) = (ROOT / "packaging" / "easybuild").glob("*.eb")
    assert easyconfig.name.startswith(f"forebay-{version}-")
    assigned: dict = {}
    exec(compile(easyconfig.read_text(), easyconfig, "exec"), assigned)
    assert assigned["version"] == version
    for file in assigned["sanity_check_paths"]["files"]:
        assert (prefix / file).is_file(), file
    for folder in assigned["sanity_check_paths"]["dirs"]:
        assert (prefix / folder).is_dir(), folder
    module = (ROOT / "packaging" / "modules" / "forebay.lua").read_text()
    for folder in ("bin", "lib/hdf5/plugin", "lib/pkgconfig"):
        assert f'"{folder}"' in module and (prefix / folder).is_dir(), folder
    compile((ROOT / "packaging" / "spack" / "package.py").read_text(), "package.py", "exec")
    assert re.search(rf"^version: {re.escape(version)}$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)


def test_easybuild_reads_its_recipe_and_finds_no_fault_of_style(tmp_path):
    command = shutil.which("eb")
    if command is None:
        pytest.skip("there is no EasyBuild")
    if not os.environ.get("LMOD_CMD"):
        pytest.skip("EasyBuild wants Lmod, whose LMOD_CMD is not set")
    (recipe,) = (ROOT / "packaging" / "easybuild").glob("*.eb")
    settings = {
        "EB_PYTHON": str(Path(command).with_name("python3")),
        "EASYBUILD_PREFIX": str(tmp_path),
        "EASYBUILD_ALLOW_USE_AS_ROOT_AND_ACCEPT_CONSEQUENCES": "1",
    }
    assert "All style checks PASSed" in passes([command, "--check-style", recipe], tmp_path, **settings)
