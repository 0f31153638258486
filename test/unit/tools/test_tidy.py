"""No function of src/ has more than 60 lines, and no include is unused: clang-tidy, with .clang-tidy's settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def tool(root: Path, *files: str, build: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"FOREBAY_BUILD_DIR": str(build)} if build else {})}
    command = [sys.executable, str(ROOT / "tools" / "check-tidy"), "--root", str(root), *files]
    return subprocess.run(command, capture_output=True, text=True, timeout=1000, env=environment)


def read(root: Path, *files: str) -> subprocess.CompletedProcess[str]:
    return tool(root, *files, build=root / "build" / "release")


def compile_commands(root: Path, *files: Path) -> None:
    build = root / "build" / "release"
    build.mkdir(parents=True, exist_ok=True)
    entries = [{"directory": str(build), "command": f"c++ -c {file}", "file": str(file)} for file in files]
    (build / "compile_commands.json").write_text(json.dumps(entries))


@pytest.fixture
def tree(tmp_path):
    """A tree with the settings of this one, and a header. The build compiles src/room/a.cc."""
    (tmp_path / ".clang-tidy").write_text((ROOT / ".clang-tidy").read_text())
    (tmp_path / "src" / "room").mkdir(parents=True)
    (tmp_path / "src" / "room" / "one.h").write_text("#pragma once\ninline int one() { return 1; }\n")
    compile_commands(tmp_path, tmp_path / "src" / "room" / "a.cc")
    return tmp_path


# Without build/tidy this reads all files: 14 minutes of one processor. So only `make check` runs it.
@pytest.mark.timeout(1100)
def test_this_source_tree_has_no_long_function_and_no_unused_include():
    result = tool(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def long_function(lines: int) -> str:
    return "inline int f() {\n" + "    // a line\n" * (lines - 3) + "    return 1;\n}\n"


@pytest.mark.parametrize(
    ("file", "text", "finding"),
    [
        ("a.cc", long_function(61), "src/room/a.cc:1: function 'f' exceeds"),
        ("one.h", long_function(61), "src/room/one.h:1: function 'f' exceeds"),
        (
            "a.cc",
            '#include "room/one.h"\nint f() { return 1; }\n',
            "src/room/a.cc:1: included header one.h is not used",
        ),
    ],
)
def test_a_long_function_and_an_unused_include_are_named(tree, file, text, finding):
    (tree / "src" / "room" / "a.cc").write_text('#include "room/one.h"\nint g() { return f(); }\n')
    (tree / "src" / "room" / file).write_text(text)
    for _ in range(2):  # a file with a finding is read each time
        result = read(tree)
        assert result.returncode == 1 and finding in result.stdout, result.stdout + result.stderr


def test_a_function_of_60_lines_is_left_alone(tree):
    (tree / "src" / "room" / "a.cc").write_text(long_function(60))
    result = read(tree)
    assert result.returncode == 0, result.stdout


def test_a_file_is_read_anew_once_a_header_that_it_includes_has_changed(tree):
    (tree / "src" / "room" / "two.h").write_text(
        '#pragma once\n#include "room/one.h"\ninline int two() { return one(); }\n'
    )
    (tree / "src" / "room" / "a.cc").write_text('#include "room/two.h"\nint f() { return two(); }\n')
    assert "1 files, 1 of them read, 0 findings" in read(tree).stdout
    assert "1 files, 0 of them read, 0 findings" in read(tree).stdout
    (tree / "src" / "room" / "one.h").write_text("#pragma once\ninline int one() { return 2; }\n")
    assert "1 files, 1 of them read, 0 findings" in read(tree).stdout


def test_a_file_that_cannot_be_read_as_code_is_told(tree):
    (tree / "src" / "room" / "a.cc").write_text("int f( {\n")
    result = read(tree)
    assert result.returncode != 0 and "src/room/a.cc" in result.stdout


def test_a_file_that_the_build_joins_with_others_is_read(tree):
    joined = tree / "build" / "release" / "joined.cc"
    compile_commands(tree, joined)
    joined.write_text(f'#include "{tree}/src/room/a.cc"\n')
    (tree / "src" / "room" / "a.cc").write_text('#include "room/one.h"\n')
    result = read(tree)
    assert result.returncode == 1 and "src/room/a.cc:1: included header one.h is not used" in result.stdout


def test_a_file_that_the_build_leaves_out_is_counted_and_not_read(tree):
    (tree / "src" / "room" / "a.cc").write_text("int f() { return 1; }\n")
    (tree / "src" / "room" / "b.cc").write_text("#include <no_such_header.h>\n")
    for files in ([], ["src/room/a.cc", "src/room/b.cc"]):
        result = read(tree, *files)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "1 files (1 more are not in this build)" in result.stdout


def test_a_tree_without_a_build_is_told(tree):
    (tree / "build" / "release" / "compile_commands.json").unlink()
    result = read(tree)
    assert result.returncode == 2 and "compile_commands.json is missing: run make build" in result.stderr
