"""All code is laid out by clang-format and ruff, in the versions that python/requirements.txt pins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def tool(root: Path, *options: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    command = [python, str(ROOT / "tools" / "format"), "--root", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def tree(tmp_path):
    """A tree with the rules of this one."""
    for name in (".clang-format", "ruff.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    return tmp_path


def test_this_source_tree_is_laid_out():
    result = tool(ROOT, "--check")
    assert result.returncode == 0, result.stdout + result.stderr


SLOPPY = {
    "src/a.cc": "int  f( ) { return 1 ; }\n",
    "test/a.h": "struct A{int a;};\n",
    "bench/a.py": "a = {'b':1}\n",
    "tools/a": "#!/usr/bin/env python3\na = 'b'\n",
}


@pytest.mark.parametrize("path", SLOPPY)
def test_a_file_that_is_not_laid_out_is_named_and_mended(tree, path):
    (tree / path).parent.mkdir()
    (tree / path).write_text(SLOPPY[path])
    (tree / "good.cc").write_text("int f() { return 1; }\n")
    result = tool(tree, "--check")
    assert result.returncode == 1 and result.stderr == ""
    assert result.stdout.splitlines()[:-1] == [
        f"{path}: is not laid out as the formatter does: `make format` mends that"
    ]
    assert (tree / path).read_text() == SLOPPY[path]
    assert tool(tree).returncode == 0
    assert (tree / path).read_text() != SLOPPY[path]
    assert tool(tree, "--check").returncode == 0


def test_what_was_built_and_what_is_no_code_is_left_alone(tree):
    (tree / "build").mkdir()
    (tree / "build" / "a.cc").write_text(SLOPPY["src/a.cc"])
    (tree / "script").write_text("#!/bin/sh\na = 'b'\n")
    assert tool(tree, "--check").returncode == 0


def test_a_file_that_cannot_be_read_as_code_is_told(tree):
    (tree / "a.py").write_text("def (\n")
    result = tool(tree, "--check")
    assert result.returncode == 2 and "a.py" in result.stderr


@pytest.mark.parametrize(("name", "file"), [("clang-format", "a.cc"), ("ruff", "a.py")])
@pytest.mark.parametrize("version", [None, "0.0.1"])
def test_a_formatter_that_is_missing_or_another_one_is_told(name, file, version, tree):
    programs = tree / ".bin"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec -a "$0" {sys.executable} "$@"\n'.replace("/bin/sh", "/bin/bash"))
    os.chmod(programs / "python", 0o755)
    if version is not None:
        (programs / name).write_text(f"#!/bin/sh\necho {name} version {version}\n")
        os.chmod(programs / name, 0o755)
    (tree / file).write_text("")
    result = tool(tree, "--check", python=str(programs / "python"))
    assert result.returncode == 2 and result.stdout == ""
    assert name in result.stderr and "tools/setup python" in result.stderr
    assert version is None or version in result.stderr
