"""tools/find-hdf5 takes a suitable HDF5 that is named or found, and says in one line why it takes none.

The HDF5s are folders with the few files that are looked at.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


class Machine:
    """A machine on which nothing is installed but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "path"
        self.bin.mkdir()
        self.environment = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "FOREBAY_CACHE": str(folder / "cache"),
            "PKG_CONFIG_LIBDIR": str(folder / "pkgconfig"),
        }
        for name in ("h5cc", "h5pcc"):  # an installed one must not be found
            self.program(self.bin / name, "exit 1")

    def program(self, path: Path, script: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def hdf5(self, name: str, version: str, parallel: bool = False, include: str = "include", lib: str = "lib") -> Path:
        prefix = self.folder / name
        headers = prefix / include
        headers.mkdir(parents=True)
        words = ("MAJOR", "MINOR", "RELEASE")
        lines = [
            f"#define H5_VERS_{word} {number} /* {word} */"
            for word, number in zip(words, version.split("."), strict=True)
        ]
        (headers / "H5public.h").write_text("\n".join(lines))
        (headers / "H5pubconf.h").write_text(
            "#define H5_HAVE_PARALLEL 1\n" if parallel else "/* #undef H5_HAVE_PARALLEL */\n"
        )
        (prefix / lib).mkdir(parents=True)
        (prefix / lib / "libhdf5.so").touch()
        return prefix

    def find(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [ROOT / "tools" / "find-hdf5", *arguments]
        return subprocess.run(command, env=self.environment | environment, capture_output=True, text=True, timeout=60)

    def choice(self, **environment: str) -> dict[str, str]:
        written = self.folder / "choice.env"
        result = self.find("--env", str(written), **environment)
        assert result.returncode == 0, result.stderr
        return dict(line.removeprefix("FOREBAY_HDF5_").split("=", 1) for line in written.read_text().splitlines())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_named_one_is_taken(machine):
    prefix = machine.hdf5("mine", "1.14.0")
    choice = machine.choice(HDF5_ROOT=str(prefix))
    assert choice["PREFIX"] == str(prefix)
    assert choice["VERSION"] == "1.14.0"
    assert choice["PARALLEL"] == "OFF"
    assert choice["LIBRARY"] == f"{prefix}/lib/libhdf5.so"


def test_a_named_one_in_the_distributions_layout_is_taken(machine):
    prefix = machine.hdf5("usr", "1.14.5", parallel=True, include="include/hdf5/mpich", lib="lib/hdf5/mpich")
    choice = machine.choice(HDF5_ROOT=str(prefix))
    assert choice["INCLUDE_DIR"] == f"{prefix}/include/hdf5/mpich"
    assert choice["PARALLEL"] == "ON"


def test_the_test_programs_that_it_lacks_are_known_to_be_missing(machine):
    prefix = machine.hdf5("mine", "2.0.0")
    assert (machine.choice(HDF5_ROOT=str(prefix))["API_TESTS"]) == "''"
    machine.program(prefix / "bin" / "h5_api_test", "exit 0")
    choice = machine.choice(HDF5_ROOT=str(prefix))
    assert choice["API_TESTS"] == f"{prefix}/bin"
    assert choice["PARALLEL_TESTS"] == "''"


@pytest.mark.parametrize("version", ["1.10.8", "1.13.9"])
def test_a_named_one_that_is_too_old_is_refused_in_one_line(machine, version):
    prefix = machine.hdf5("old", version)
    result = machine.find(HDF5_ROOT=str(prefix))
    assert result.returncode != 0
    assert f"is HDF5 {version}, and 1.14.0 or later is needed" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("missing", ["include/H5public.h", "lib/libhdf5.so"])
def test_a_named_one_that_is_incomplete_is_refused_in_one_line(machine, missing):
    prefix = machine.hdf5("broken", "1.14.5")
    (prefix / missing).unlink()
    result = machine.find(HDF5_ROOT=str(prefix))
    assert result.returncode != 0
    assert f"holds no {missing.split('/')[1]}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_one_of_a_compiler_wrapper_is_found(machine):
    prefix = machine.hdf5("module", "1.14.3")
    machine.program(machine.bin / "h5cc", f"echo gcc -I{prefix}/include -L{prefix}/lib -lhdf5")
    assert machine.choice()["INCLUDE_DIR"] == f"{prefix}/include"


def test_a_parallel_compiler_wrapper_comes_first(machine):
    serial, parallel = machine.hdf5("serial", "1.14.3"), machine.hdf5("parallel", "1.14.3", parallel=True)
    machine.program(machine.bin / "h5cc", f"echo gcc -I{serial}/include {serial}/lib/libhdf5.so")
    machine.program(machine.bin / "h5pcc", f"echo mpicc -I{parallel}/include {parallel}/lib/libhdf5.so")
    choice = machine.choice()
    assert choice["LIBRARY"] == f"{parallel}/lib/libhdf5.so"
    assert choice["PARALLEL"] == "ON"


def test_the_one_of_pkg_config_is_found(machine):
    prefix = machine.hdf5("package", "1.14.6")
    folder = machine.folder / "pkgconfig"
    folder.mkdir()
    (folder / "hdf5.pc").write_text(
        f"prefix={prefix}\nName: hdf5\nDescription: x\nVersion: 1.14.6\n"
        f"Cflags: -I${{prefix}}/include\nLibs: -L${{prefix}}/lib -lhdf5\n"
    )
    assert machine.choice()["VERSION"] == "1.14.6"


def test_one_that_is_found_but_too_old_is_passed_over(machine):
    old = machine.hdf5("old", "1.10.8")
    machine.program(machine.bin / "h5cc", f"echo gcc -I{old}/include -L{old}/lib -lhdf5")
    cached = machine.hdf5("cache/hdf5-1.14.5-mpich", "1.14.5", parallel=True)
    (cached / ".forebay-complete").touch()
    assert machine.choice()["PREFIX"] == str(cached)


def test_a_cached_build_that_was_cut_short_is_not_taken(machine):
    machine.hdf5("cache/hdf5-1.14.5-mpich", "1.14.5", parallel=True)
    result = machine.find()
    assert result.returncode != 0
    assert "run 'make build'" in result.stderr


def test_the_choice_is_not_rewritten_when_it_is_the_same(machine):
    prefix = machine.hdf5("mine", "1.14.5")
    machine.choice(HDF5_ROOT=str(prefix))
    before = (machine.folder / "choice.env").stat().st_mtime_ns
    machine.choice(HDF5_ROOT=str(prefix))
    assert (machine.folder / "choice.env").stat().st_mtime_ns == before
