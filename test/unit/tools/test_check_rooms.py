"""tools/check-rooms finds what it promises to find, and leaves the rest alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check-rooms"), "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def write(root: Path, path: str, content: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def rules_broken(root: Path) -> list[str]:
    """`file:line: rule` of each violation, after checking that the exit status says the same."""
    result = check(root)
    assert result.stderr == ""
    found = [":".join(line.split(":")[:3]) for line in result.stdout.splitlines()[:-1] if ": note: " not in line]
    assert result.returncode == (1 if found else 0)
    return found


def test_this_source_tree_keeps_its_rules():
    result = check(ROOT)
    assert result.returncode == 0, result.stdout


def test_a_public_header_includes_no_room(tmp_path):
    write(tmp_path, "include/forebay/forebay.h", '#include <stdint.h>\n#include "base/status.h"\n')
    assert rules_broken(tmp_path) == ["include/forebay/forebay.h:2: rooms"]


@pytest.mark.parametrize("target", ["../io/file.h", "./file.h"])
def test_an_include_that_does_not_start_at_src_is_found(tmp_path, target):
    write(tmp_path, "src/log/a.cc", f'#include "{target}"\n')
    assert rules_broken(tmp_path) == ["src/log/a.cc:1: rooms"]


@pytest.mark.parametrize(
    ("room", "header"),
    [
        ("drain", "fcntl.h"),
        ("file", "sys/mman.h"),
        ("cache", "fstream"),
        ("stage", "hdf5.h"),
        ("cli", "H5VLconnector.h"),
        ("file", "mpi.h"),
    ],
)
def test_a_header_that_belongs_to_another_room_is_found(tmp_path, room, header):
    write(tmp_path, f"src/{room}/a.cc", f"#include <{header}>\n")
    assert rules_broken(tmp_path) == [f"src/{room}/a.cc:1: door"]


@pytest.mark.parametrize(
    ("room", "header"), [("io", "fcntl.h"), ("hdf5", "hdf5.h"), ("mpi", "mpi.h"), ("drain", "mutex")]
)
def test_a_header_in_its_own_room_is_left_alone(tmp_path, room, header):
    write(tmp_path, f"src/{room}/a.cc", f"#include <{header}>\n")
    assert rules_broken(tmp_path) == []


@pytest.mark.parametrize(
    "call",
    [
        "std::abort();",
        "exit(1);",
        "::exit (1);",
        "std::terminate();",
        'setenv("A", "b", 1);',
        "MPI_Init(nullptr, nullptr);",
        "MPI_Abort(MPI_COMM_WORLD, 1);",
        'printf("a");',
        'std::printf("a");',
        'fprintf(stderr, "a");',
        "puts(text);",
        "std::cout << 1;",
        "std::cerr << 1;",
        'fmt::print("a");',
        "usleep(1);",
        "std::this_thread::sleep_for(1ms);",
        "std::jthread a([] {});",
        "auto a = std::thread{f};",
        "a = std::make_unique<std::jthread>(f);",
        "std::async(f);",
        "pthread_create(&a, nullptr, f, nullptr);",
        "nanosleep(&t, nullptr);",
        "sched_yield();",
        "std::this_thread::yield();",
    ],
)
def test_a_call_that_a_library_must_not_make_is_found(tmp_path, call):
    write(tmp_path, "src/drain/a.cc", f"void f() {{\n  {call}\n}}\n")
    assert rules_broken(tmp_path) == ["src/drain/a.cc:2: calls"]


@pytest.mark.parametrize(
    "line",
    [
        "// exit(1) would end the application",
        "/* never abort() */ int a;",
        "/* over two\n lines: abort() */ int a;",
        'auto a = "printf(";',
        'auto a = R"(exit(1))";',
        "task.abort();",
        "task->abort();",
        "on_exit(f);",
        "auto thread = std::make_unique<std::jthread>();",
        "_exit(127);",
        "snprintf(buffer, 1, format);",
        "int constexpr kMany = 1'000'000;",
    ],
)
def test_what_only_looks_like_such_a_call_is_left_alone(tmp_path, line):
    write(tmp_path, "src/drain/a.cc", f"{line}\n")
    assert rules_broken(tmp_path) == []


def test_the_command_may_print_and_exit_but_not_poll(tmp_path):
    write(tmp_path, "src/cli/a.cc", "void f() {\n  std::cout << 1;\n  exit(1);\n  usleep(1);\n}\n")
    assert rules_broken(tmp_path) == ["src/cli/a.cc:4: calls"]


def test_tests_and_benchmarks_may_print_and_sleep(tmp_path):
    write(tmp_path, "bench/a.c", 'int main(void) { printf("a"); usleep(1); exit(0); }\n')
    assert rules_broken(tmp_path) == []


@pytest.mark.parametrize(
    "path",
    [
        "src/base/util.h",
        "src/base/file_utils.cc",
        "src/log/misc/a.cc",
        "python/forebay/helpers.py",
        "src/log/cache_manager.h",
        "src/log/writer2.cc",
        "src/log/writer_new.cc",
    ],
)
def test_a_file_named_after_nothing_is_found(tmp_path, path):
    write(tmp_path, path, "\n")
    assert f"{path}:1: names" in rules_broken(tmp_path)


@pytest.mark.parametrize(
    "declaration",
    ["class TaskManager {};", "struct LogHelper;", "namespace util {", "enum class Misc { a };", "struct Writer2 {};"],
)
def test_a_type_named_after_nothing_is_found(tmp_path, declaration):
    write(tmp_path, "src/log/a.h", f"\n{declaration}\n")
    assert rules_broken(tmp_path) == ["src/log/a.h:2: names"]


@pytest.mark.parametrize(
    "declaration", ["class Utilisation {};", "struct Crc32 {};", "namespace forebay::hdf5 {", "struct Dismissal;"]
)
def test_a_type_with_a_name_of_its_own_is_left_alone(tmp_path, declaration):
    write(tmp_path, "src/log/a.h", f"{declaration}\n")
    assert rules_broken(tmp_path) == []


@pytest.mark.parametrize(
    "words",
    [
        "/ro" + "ot/.cache",
        "/ho" + "me/someone/x",
        "htt" + "ps://py" + "pi.org/simple",
        "// TO" + "DO: later",
        "see iss" + "ue #12",
        "written by an A" + "I assistant",
    ],
)
def test_a_word_that_does_not_belong_to_the_project_is_found(tmp_path, words):
    write(tmp_path, "docs/a.md", f"first\n{words}\n")
    assert rules_broken(tmp_path) == ["docs/a.md:2: words"]


@pytest.mark.parametrize("words", ["~/.cache/forebay", "$HOME/work/x", "an issue of style", "todo lists", "/tmp/x"])
def test_ordinary_words_are_left_alone(tmp_path, words):
    write(tmp_path, "docs/a.md", f"{words}\n")
    assert rules_broken(tmp_path) == []


def test_what_was_built_is_not_looked_at(tmp_path):
    write(tmp_path, "build/release/util.h", "\n")
    assert rules_broken(tmp_path) == []


def test_what_a_run_has_left_in_the_top_folder_is_found(tmp_path):
    write(tmp_path, "src/base/a.cc", "int a;\n")
    write(tmp_path, "1", '{"process": {}}\n')
    write(tmp_path, "run.h5", "")
    assert rules_broken(tmp_path) == ["1:1: root", "run.h5:1: root"]


def test_an_exception_that_is_no_longer_needed_is_found(tmp_path):
    # A copy of the tool in a tree of its own, where nothing includes what the exceptions are for.
    for tool in ("check-rooms", "check-classes"):
        write(tmp_path, f"tools/{tool}", (ROOT / "tools" / tool).read_text())
    command = [sys.executable, str(tmp_path / "tools" / "check-rooms")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "src/hdf5/driver/driver_base.cc:1: door: <fcntl.h> is no longer included" in result.stdout


@pytest.mark.parametrize("path", ["src/base/a.cc", "test/a.c", "bench/a.py", "cmake/A.cmake", "src/CMakeLists.txt"])
def test_a_line_of_code_beyond_column_120_is_found(tmp_path, path):
    write(tmp_path, path, "#" + "x" * 119 + "\n#" + "ä" * 120 + "\n")
    assert rules_broken(tmp_path) == [f"{path}:2: columns"]


def test_a_long_line_of_a_script_is_found(tmp_path):
    write(tmp_path, "tools/a", "#!/bin/sh\n# " + "x" * 120 + "\n")
    assert rules_broken(tmp_path) == ["tools/a:2: columns"]


LONG = "word " * 21


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"- an item\n  {LONG}",
        f"1. {LONG}",
        f"- an item\n\n    {LONG}",
        f"text right before\n    {LONG}",
        f"```\ncode\n```\n{LONG}",
        f"[{LONG}](https://example.org)",
    ],
)
def test_a_line_of_a_document_beyond_column_100_is_found(tmp_path, text):
    write(tmp_path, "docs/a.md", f"{text}\n")
    assert rules_broken(tmp_path) == [f"docs/a.md:{len(text.splitlines())}: columns"]


@pytest.mark.parametrize(
    "text",
    [
        "x" * 98 + " y",
        f"| a | b |\n| --- | --- |\n| {LONG} | {LONG} |",
        f"```text\n{LONG}\n```",
        f"before\n\n    {LONG}\n    {LONG}\n\nbehind",
        "- [name](https://example.org/" + "x" * 100 + ")",
        "[" + "x" * 100 + "](https://example.org) and more",
    ],
)
def test_tables_and_code_and_words_that_cannot_be_broken_may_be_longer(tmp_path, text):
    write(tmp_path, "docs/a.md", f"{text}\n")
    assert rules_broken(tmp_path) == []


@pytest.mark.parametrize("path", ["src/base/a.cc", "src/base/a.h", "src/api/a.c", "src/CMakeLists.txt"])
def test_a_file_of_more_than_500_lines_in_src_is_found(tmp_path, path):
    write(tmp_path, path, "\n" * 501)
    assert rules_broken(tmp_path) == [f"{path}:501: size"]


@pytest.mark.parametrize("path", ["include/forebay/a.h", "test/unit/base/a_test.cc", "test/a.py", "bench/src/a.cc"])
def test_a_file_of_more_than_600_lines_elsewhere_is_found(tmp_path, path):
    write(tmp_path, path, "\n" * 601)
    assert rules_broken(tmp_path) == [f"{path}:601: size"]


def test_a_file_of_as_many_lines_as_it_may_have_is_left_alone(tmp_path):
    write(tmp_path, "src/base/a.cc", "\n" * 500)
    write(tmp_path, "test/unit/base/a_test.cc", "\n" * 600)
    write(tmp_path, "docs/a.md", "\n" * 601)
    assert rules_broken(tmp_path) == []
