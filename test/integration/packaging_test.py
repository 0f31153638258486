"""What an installation offers to sites: package configurations, manual pages, completion, recipes."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from connector_environment import ROOT, native, run, statistics, statistics_file
from forebay.equality import compare_files

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
EXAMPLE = ROOT / "examples" / "cmake"
INSTALL = ROOT / "packaging" / "install"
WHOLE = "the file is whole, and on its device"


def passes(command, folder, **more):
    done = run(command, native(**more), folder, seconds_max=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


NOBODY = 65534
MANIFEST = Path("share/forebay/install-manifest")


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@contextlib.contextmanager
def site_prefix():
    """A prefix that every user can look at, with a foreign file and all that `make install` puts there.

    Installed with a umask that would shut others out.
    """
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="fb-site-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        prefix = folder / "opt" / "forebay"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "foreign").touch()
        command = ["sh", "-c", 'umask 077; exec "$@"', "sh", INSTALL, BUILD, prefix]
        passes(command, folder)
        yield prefix


@pytest.fixture(scope="module")
def site():
    with site_prefix() as prefix:
        yield prefix


def as_nobody(command, folder, **more):
    """As a user who may read nothing of root's; else as this one."""
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    return run([*drop, *command], native(**more), folder)


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


def test_cmake_refuses_the_package_for_another_version_and_keeps_the_prefix_out_of_it(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(other LANGUAGES C)\nfind_package(forebay 9 REQUIRED)\n"
    )
    done = run(["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}"], native(), tmp_path)
    assert done.returncode != 0 and 'compatible with requested version "9"' in done.stderr
    for file in prefix.glob("lib*/cmake/forebay/*.cmake"):
        assert str(prefix) not in file.read_text(), file  # it may be moved


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


@pytest.mark.long
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


def test_what_is_installed_is_removed_and_nothing_else():
    with site_prefix() as prefix:
        installed = files_below(prefix)
        for file in ("bin/forebay", "share/man/man1/forebay.1", "share/bash-completion/completions/forebay"):
            assert file in installed
        (package,) = prefix.glob("lib/python3*/*-packages/forebay")
        assert not (package / "demo.py").exists() and (package / "py.typed").exists()
        # What users and Python add; and a second installation over the first one.
        compiles = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": ""}
        passes([sys.executable, "-c", "import forebay"], prefix, **compiles)
        assert list(package.glob("__pycache__/*.pyc"))
        stale = prefix / "share" / "forebay" / "of-an-older-version"
        stale.touch()
        with (prefix / MANIFEST).open("a") as manifest:
            manifest.write(f"{stale.relative_to(prefix)}\n")
        (prefix / "share" / "of-a-user").touch()
        passes([INSTALL, BUILD, prefix], prefix)
        assert not stale.exists()
        assert {name for name in files_below(prefix) if "__pycache__" not in name} == installed | {"share/of-a-user"}
        passes([INSTALL, "--uninstall", prefix], prefix)
        assert files_below(prefix) == {"bin", "bin/foreign", "share", "share/of-a-user"}
        again = run([INSTALL, "--uninstall", prefix], native(), prefix)
        assert again.returncode == 1 and "installed nothing" in again.stderr


def test_a_prefix_that_make_install_has_made_goes_with_make_uninstall(tmp_path):
    passes([INSTALL, BUILD, "/opt/new/forebay", tmp_path], tmp_path)
    prefix = tmp_path / "opt" / "new" / "forebay"
    (module,) = prefix.glob("share/modulefiles/forebay/*.lua")
    assert 'root = "/opt/new/forebay"' in module.read_text() and str(tmp_path) not in module.read_text()
    passes([INSTALL, "--uninstall", "/opt/new/forebay", tmp_path], tmp_path)
    assert not prefix.exists()


@pytest.mark.parametrize("prefix", ["/usr/local", "/usr"])
def test_the_command_finds_the_package_where_debians_python_looks_for_it(tmp_path, prefix):
    """Debian's Python has packages in dist-packages."""
    folders = run(["/usr/bin/python3", "-c", "import site; print(*site.getsitepackages())"], native(), tmp_path)
    if "dist-packages" not in folders.stdout:
        pytest.skip("this is no Debian with a Python of its own")
    passes(["/usr/bin/python3", INSTALL, BUILD, prefix, tmp_path], tmp_path)
    command = tmp_path / prefix[1:] / "bin" / "forebay"
    (tmp_path / "nls").mkdir()
    shown = run([command, "run", "-q", "--nls", tmp_path / "nls", "--", "printenv", "PYTHONPATH"], native(), tmp_path)
    startup = Path(shown.stdout.strip().split(":")[0])
    assert startup.is_relative_to(tmp_path / prefix[1:]) and (startup / "sitecustomize.py").exists(), shown


def test_nothing_is_removed_by_a_manifest_that_leaves_the_prefix(tmp_path):
    (tmp_path / "kept").touch()
    manifest = tmp_path / "prefix" / MANIFEST
    manifest.parent.mkdir(parents=True)
    for line in ("../kept", f"{tmp_path}/kept"):
        manifest.write_text(f"head\n{line}\n")
        assert run([INSTALL, "--uninstall", tmp_path / "prefix"], native(), tmp_path).returncode == 1
        assert (tmp_path / "kept").exists() and manifest.exists()


def test_the_makefile_installs_and_uninstalls_with_that_script():
    for target, words in (
        ("install", "packaging/install build/release"),
        ("uninstall", "packaging/install --uninstall"),
    ):
        told = subprocess.run(
            ["make", "-n", "-o", "build", target, "PREFIX=/opt/x"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        assert words in told and "/opt/x" in told


def test_every_user_reads_and_runs_what_root_has_installed(site):
    for path in site.rglob("*"):
        mode = path.stat().st_mode
        assert mode & 0o444 == 0o444 and (not path.is_dir() or mode & 0o111 == 0o111), path
        assert path.is_dir() or mode & 0o022 == 0
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        (package,) = site.glob("lib/python3*/*-packages/forebay")
        code = "import forebay.installation as i, forebay; print(i.command()); print(forebay.enabling.plugin_folder())"
        named = {"PYTHONPATH": str(package.parent), "FOREBAY_BUILD_DIR": "/none", "PATH": "/usr/bin:/bin"}
        done = as_nobody(["python3", "-B", "-c", code], Path(folder), **named)
        assert done.stdout.split() == [f"{site}/bin/forebay", f"{site}/lib/hdf5/plugin"], done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts as another user")
def test_doctor_helps_a_user_who_cannot_read_the_hdf5_of_the_build(site):
    """The library lies in a folder of root's, as the tests' one does."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "nls").mkdir()
        (folder / "nls").chmod(0o777)
        mine = json.loads(run([site / "bin" / "forebay", "doctor", "--json", "--nls", folder], native(), folder).stdout)
        library = mine["hdf5"]["library"]
        if as_nobody(["test", "-r", library], folder).returncode == 0:
            pytest.skip("every user may read the HDF5 of this build")
        doctor = [site / "bin" / "forebay", "doctor", "--nls", folder / "nls"]
        # None of the machine counts: h5cc and python3 are these.
        tools = folder / "tools"
        tools.mkdir(mode=0o755)
        for tool in ("h5cc", "h5pcc", "python3"):
            (tools / tool).write_text("#!/bin/sh\nexit 1\n")
            (tools / tool).chmod(0o755)
        bare = {"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": "/tmp", "FOREBAY_REGISTRY": name}
        done = as_nobody(doctor, folder, **bare)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{library}: Permission denied" in done.stdout and "doctor -- PROGRAM" in done.stdout
        assert "All is well" not in done.stdout
        # One that users may read, as h5cc names it.
        copy = folder / "hdf5" / "lib"
        copy.mkdir(parents=True)
        shutil.copy(library, copy / "libhdf5.so")
        (tools / "h5cc").write_text(f"#!/bin/sh\necho cc -I/none -L{copy} {copy}/libhdf5.a -lz\n")
        done = as_nobody(doctor, folder, **bare)
        assert done.returncode == 0 and "All is well" in done.stdout, done.stdout + done.stderr
        assert f"{copy}/libhdf5.so" in done.stdout and f"{library}: Permission denied" in done.stdout


def test_the_module_files_name_what_is_installed(site):
    for module in sorted((site / "share" / "modulefiles" / "forebay").iterdir()):
        text = module.read_text()
        named = re.findall(r'"(?:\$root/)?((?:bin|lib|share)/?[^"$]*)"', text)
        assert {"bin", "lib/hdf5/plugin", "lib/pkgconfig"} < set(named), module
        assert any(name.startswith("lib/python3") for name in named)
        for name in named:
            assert (site / name).is_dir(), (module, name)
        assert f'root "{site}"' in text or f'root = "{site}"' in text


def test_environment_modules_read_the_module_file(site):
    if shutil.which("tclsh") is None:
        pytest.skip("there is no tclsh")
    (module,) = (path for path in (site / "share" / "modulefiles" / "forebay").iterdir() if path.suffix != ".lua")
    stand_in = "proc module-whatis args {}; proc prepend-path {name value} {puts $name=$value}; source [lindex $argv 0]"
    with tempfile.NamedTemporaryFile("w", suffix=".tcl") as script:
        script.write(stand_in)
        script.flush()
        said = passes(["tclsh", script.name, module], site)
    assert f"PATH={site}/bin\n" in said and f"HDF5_PLUGIN_PATH={site}/lib/hdf5/plugin\n" in said


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
