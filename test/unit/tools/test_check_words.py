"""tools/check-words finds each kind of fault where people read it, and its numbers only go down."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LONG = "This sentence has " + "many " * 26 + "words indeed."  # 31


def check(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check-words"), "--root", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def write(root: Path, path: str, content: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def faults(root: Path) -> list[str]:
    """`file:line: kind` of each fault, after checking that the exit status says the same."""
    result = check(root)
    assert result.stderr == ""
    found = [":".join(line.split(":")[:3]) for line in result.stdout.splitlines()[:-1] if line.split(":")[1].isdigit()]
    assert result.returncode == (1 if found else 0)
    return found


def test_words_of_this_source_tree_are_as_plain_as_the_list_says():
    result = check(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("src/io/a.cc", "int a;\n// The file is there.\n// {}\n", 2),
        ("src/io/a.cc", "/* A file.\n\n   {} */\n", 3),
        ("src/io/a.cc", 'auto a = "it is a file. "\n    "{}";\n', 1),
        ("include/forebay/a.h", "int a; // {}\n", 1),
        ("python/forebay/a.py", '"""A file.\n\n{}\n"""\n', 3),
        ("python/forebay/a.py", "a = 1\n# {}\n", 2),
        ("python/forebay/a.py", 'a = f"{{a}} is there: no. {}"\n', 1),
        ("tools/a", "#!/usr/bin/env python3\n# {}\n", 2),
        ("tools/a.sh", "a=1\n# {}\n", 2),
        ("test/support/a.h", "\n// {}\n", 2),
        ("docs/a.md", "# A\n\n- one\n- {}\n", 4),
        ("docs/a.md", "| a | b |\n| - | - |\n| c | {} |\n", 3),
        ("README.md", "A file.\n{}\n", 1),
    ],
)
def test_faults_are_found_in_comments_messages_and_pages(tmp_path, path, text, line):
    for sentence, kind in [
        (LONG, "long"),
        ("Then nobody reads the file.", "words"),
        ("What the file has is kept.", "openings"),
        ("Of a file that is gone, the log goes.", "openings"),
    ]:
        write(tmp_path, path, text.format(sentence))
        assert faults(tmp_path) == [f"{path}:{line}: {kind}"]
    write(tmp_path, path, text.format("The log keeps the file. A process reads it."))
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/io/a.cc", 'std::string nobody = "nobody";  // a name\n'),
        ("src/io/a.cc", '#include "nobody/reads/this file or that.h"\n'),
        ("src/io/a.cc", "int a;  // it is short\nint b;  // " + "word " * 28 + "\n"),
        ("test/support/a.h", 'auto text = "what nobody says is no message here";\n'),
        ("test/unit/io/a_test.cc", "// What nobody says.\n"),
        ("docs/a.md", "What does the log keep? It keeps bytes.\n\n## What it keeps\n\n```sh\nwhat nobody has\n```\n"),
        ("docs/a.md", "The table has `nobody` in it.\n"),
        ("docs/a.md", "- " + "word " * 20 + "\n- " + "word " * 20 + "\n"),
        ("build/docs/a.md", "What nobody says.\n"),
    ],
)
def test_names_code_questions_and_other_folders_are_left_alone(tmp_path, path, text):
    write(tmp_path, path, text)
    assert faults(tmp_path) == []


def test_a_row_with_another_number_of_cells_than_the_header_is_found(tmp_path):
    write(tmp_path, "docs/a.md", "| a | b |\n| - | - |\n| c \\| d | e |\n| f |\n| g | h | i |\n\n| j |\n| - |\n")
    assert faults(tmp_path) == ["docs/a.md:4: tables", "docs/a.md:5: tables"]


def test_the_allowed_number_of_a_room_goes_down_and_never_up(tmp_path):
    two = "// Nobody reads.\n\n// Nobody writes.\n"
    write(tmp_path, "tools/words.txt", "src/io words 2\n")
    write(tmp_path, "src/io/a.cc", two)
    assert check(tmp_path).returncode == 0

    write(tmp_path, "src/log/a.cc", two)
    assert faults(tmp_path) == ["src/log/a.cc:1: words", "src/log/a.cc:3: words"]  # each room has its own number
    (tmp_path / "src/log/a.cc").unlink()

    write(tmp_path, "src/io/a.cc", "// Nobody reads.\n")
    result = check(tmp_path)
    assert result.returncode == 1 and "src/io words: lower the number to 1" in result.stdout
    assert check(tmp_path, "--update").returncode == 0
    assert (tmp_path / "tools/words.txt").read_text() == "src/io words 1\n"

    write(tmp_path, "src/io/a.cc", two)
    result = check(tmp_path, "--update")
    assert result.returncode == 1 and "src/io: words: 2 faults, 1 allowed" in result.stdout
    assert (tmp_path / "tools/words.txt").read_text() == "src/io words 1\n"

    write(tmp_path, "src/io/a.cc", "// It reads.\n")
    assert check(tmp_path, "--update").returncode == 0
    assert (tmp_path / "tools/words.txt").read_text() == ""


def test_the_faults_of_one_room_are_listed_on_demand(tmp_path):
    write(tmp_path, "tools/words.txt", "src/io words 1\nsrc/log words 1\n")
    write(tmp_path, "src/io/a.cc", "// Nobody reads.\n")
    write(tmp_path, "src/log/a.cc", "// Nobody reads.\n")
    result = check(tmp_path, "--list", "src/io")
    assert result.returncode == 0
    assert "src/io/a.cc:1: words" in result.stdout and "src/log/a.cc" not in result.stdout
