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


@pytest.mark.parametrize(
    ("room", "target"),
    [
        ("base", "extent/interval_map.h"),
        ("extent", "io/file.h"),
        ("io", "extent/interval_map.h"),
        ("io", "log/reader.h"),
        ("plan", "log/reader.h"),
        ("plan", "io/file.h"),
        ("task", "io/file.h"),
        ("task", "extent/interval_map.h"),
        ("cache", "log/reader.h"),
        ("drain", "cache/block.h"),
        ("stage", "node/peers.h"),
        ("node", "mpi/peers.h"),
        ("hdf5", "mpi/peers.h"),
        ("cli", "mpi/peers.h"),
    ],
)
def test_an_include_that_does_not_point_down_is_found(tmp_path, room, target):
    write(tmp_path, f"src/{room}/a.cc", f'#include <string>\n#include "{target}"\n')
    assert rules_broken(tmp_path) == [f"src/{room}/a.cc:2: rooms"]


@pytest.mark.parametrize(
    ("room", "target"),
    [
        ("extent", "base/status.h"),
        ("log", "base/status.h"),
        ("drain", "extent/interval_map.h"),
        ("stage", "log/reader.h"),
        ("mpi", "stage/engine.h"),
        ("hdf5", "drain/drain.h"),
        ("cli", "hdf5/binding.h"),
        ("base", "forebay/forebay.h"),
        ("base", "base/status.h"),
        ("base", "status.h"),
    ],
)
def test_an_include_that_points_down_is_left_alone(tmp_path, room, target):
    write(tmp_path, f"src/{room}/a.cc", f'#include "{target}"\n#include <nlohmann/json.hpp>\n')
    assert rules_broken(tmp_path) == []


def test_a_public_header_includes_no_room(tmp_path):
    write(tmp_path, "include/forebay/forebay.h", '#include <stdint.h>\n#include "base/status.h"\n')
    assert rules_broken(tmp_path) == ["include/forebay/forebay.h:2: rooms"]


@pytest.mark.parametrize("target", ["../io/file.h", "nowhere/file.h"])
def test_an_include_outside_the_rooms_is_found(tmp_path, target):
    write(tmp_path, "src/log/a.cc", f'#include "{target}"\n')
    assert rules_broken(tmp_path) == ["src/log/a.cc:1: rooms"]


def test_a_folder_that_is_no_room_is_found(tmp_path):
    write(tmp_path, "src/attic/a.cc", "int a;\n")
    assert rules_broken(tmp_path) == ["src/attic/a.cc:1: rooms"]


@pytest.mark.parametrize(
    ("room", "header"),
    [("drain", "fcntl.h"), ("node", "sys/mman.h"), ("cache", "fstream"), ("stage", "hdf5.h"), ("cli", "H5VLconnector.h"), ("node", "mpi.h")],
)
def test_a_header_that_belongs_to_another_room_is_found(tmp_path, room, header):
    write(tmp_path, f"src/{room}/a.cc", f"#include <{header}>\n")
    assert rules_broken(tmp_path) == [f"src/{room}/a.cc:1: door"]


@pytest.mark.parametrize(("room", "header"), [("io", "fcntl.h"), ("hdf5", "hdf5.h"), ("mpi", "mpi.h"), ("drain", "mutex")])
def test_a_header_in_its_own_room_is_left_alone(tmp_path, room, header):
    write(tmp_path, f"src/{room}/a.cc", f"#include <{header}>\n")
    assert rules_broken(tmp_path) == []


@pytest.mark.parametrize(
    "call",
    [
        "std::abort();", "exit(1);", "::exit (1);", "std::terminate();",
        'setenv("A", "b", 1);', "MPI_Init(nullptr, nullptr);", "MPI_Abort(MPI_COMM_WORLD, 1);",
        'printf("a");', 'std::printf("a");', 'fprintf(stderr, "a");', "puts(text);", "std::cout << 1;", "std::cerr << 1;", 'fmt::print("a");',
        "usleep(1);", "std::this_thread::sleep_for(1ms);", "nanosleep(&t, nullptr);", "sched_yield();", "std::this_thread::yield();",
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
        "task.abort();", "task->abort();", "on_exit(f);", "_exit(127);", "snprintf(buffer, 1, format);", "int constexpr kMany = 1'000'000;",
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
    "path", ["src/base/util.h", "src/base/file_utils.cc", "src/log/misc/a.cc", "python/forebay/helpers.py", "src/log/cache_manager.h", "src/log/writer2.cc", "src/log/writer_new.cc"]
)
def test_a_file_named_after_nothing_is_found(tmp_path, path):
    write(tmp_path, path, "\n")
    assert f"{path}:1: names" in rules_broken(tmp_path)


@pytest.mark.parametrize("declaration", ["class TaskManager {};", "struct LogHelper;", "namespace util {", "enum class Misc { a };", "struct Writer2 {};"])
def test_a_type_named_after_nothing_is_found(tmp_path, declaration):
    write(tmp_path, "src/log/a.h", f"\n{declaration}\n")
    assert rules_broken(tmp_path) == ["src/log/a.h:2: names"]


@pytest.mark.parametrize("declaration", ["class Utilisation {};", "struct Crc32 {};", "namespace forebay::hdf5 {", "struct Dismissal;"])
def test_a_type_with_a_name_of_its_own_is_left_alone(tmp_path, declaration):
    write(tmp_path, "src/log/a.h", f"{declaration}\n")
    assert rules_broken(tmp_path) == []


@pytest.mark.parametrize(
    "words",
    ["/ro" + "ot/.cache", "/ho" + "me/someone/x", "htt" + "ps://py" + "pi.org/simple", "// TO" + "DO: later", "see iss" + "ue #12", "written by an A" + "I assistant"],
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


def test_a_long_file_is_noted_and_is_no_failure(tmp_path):
    write(tmp_path, "src/base/a.cc", "\n" * 601)
    result = check(tmp_path)
    assert result.returncode == 0
    assert "src/base/a.cc: note: 601 lines" in result.stdout


def test_an_exception_that_is_no_longer_needed_is_found(tmp_path):
    # A copy of the tool in a tree of its own, where nothing includes what the exceptions are for.
    write(tmp_path, "tools/check-rooms", (ROOT / "tools" / "check-rooms").read_text())
    command = [sys.executable, str(tmp_path / "tools" / "check-rooms")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "src/hdf5/driver.cc:1: door: <fcntl.h> is no longer included" in result.stdout
