"""No function of src/ has more than 60 lines, and no include is unused: clang-tidy, with the settings of .clang-tidy."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def tool(root: Path, *files: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check-tidy"), "--root", str(root), *files]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200)


@pytest.fixture
def tree(tmp_path):
    """A tree with the settings of this one, and a header."""
    (tmp_path / ".clang-tidy").write_text((ROOT / ".clang-tidy").read_text())
    (tmp_path / "src" / "room").mkdir(parents=True)
    (tmp_path / "src" / "room" / "one.h").write_text("#pragma once\ninline int one() { return 1; }\n")
    return tmp_path


@pytest.mark.timeout(1200)
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
        result = tool(tree)
        assert result.returncode == 1 and finding in result.stdout, result.stdout + result.stderr


def test_a_function_of_60_lines_is_left_alone(tree):
    (tree / "src" / "room" / "a.cc").write_text(long_function(60))
    result = tool(tree)
    assert result.returncode == 0, result.stdout


def test_a_file_is_read_anew_once_a_header_that_it_includes_has_changed(tree):
    (tree / "src" / "room" / "two.h").write_text(
        '#pragma once\n#include "room/one.h"\ninline int two() { return one(); }\n'
    )
    (tree / "src" / "room" / "a.cc").write_text('#include "room/two.h"\nint f() { return two(); }\n')
    assert "1 files, 1 of them read: nothing found" in tool(tree).stdout
    assert "1 files, 0 of them read: nothing found" in tool(tree).stdout
    (tree / "src" / "room" / "one.h").write_text("#pragma once\ninline int one() { return 2; }\n")
    assert "1 files, 1 of them read: nothing found" in tool(tree).stdout


def test_a_file_that_cannot_be_read_as_code_is_told(tree):
    (tree / "src" / "room" / "a.cc").write_text("int f( {\n")
    result = tool(tree)
    assert result.returncode != 0 and "src/room/a.cc" in result.stdout
