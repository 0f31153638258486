"""tools/check-classes counts what a class offers and holds, and its list only shrinks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check-classes"), "--root", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def write(root: Path, path: str, content: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def counts(root: Path, body: str) -> dict[str, tuple[int, int]]:
    """The public functions and the members of each class of this code, by name."""
    write(root, "src/io/a.h", body)
    lines = [line.split() for line in run(root, "--all").stdout.splitlines()]
    return {name: (int(functions), int(members)) for _, name, functions, members in lines}


def large(functions: int, members: int) -> str:
    calls = "".join(f"    void f{i}();\n" for i in range(functions))
    held = "".join(f"    int m{i}_ = 0;\n" for i in range(members))
    return f"class A {{\n  public:\n{calls}\n  private:\n{held}}};\n"


def test_classes_of_this_source_tree_are_as_small_as_the_list_says():
    result = run(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("text", "functions", "members"),
    [
        ("A(int a) : a_{a}, b_(1) {}", 1, 0),
        ("~A();", 1, 0),
        ("A(const A&) = delete;", 0, 0),
        ("[[nodiscard]] bool f() const noexcept { return g({1}); }", 1, 0),
        ("template <class T>\n    void f(T&& call) { call(); }", 1, 0),
        ("bool operator==(const A&) const = default;", 1, 0),
        ("std::function<void(int)> f() const;", 1, 0),
        ("Status f() REQUIRES(mutex_, other.mutex());", 1, 0),
        ("void f();   // void g();", 1, 0),
        ("std::function<void(int)> call_;", 0, 1),
        ("std::uint64_t (*now_ns_)() noexcept = nullptr;", 0, 1),
        ("std::deque<int> queue_ GUARDED_BY(mutex_);", 0, 1),
        ("std::atomic<int> a_{0}, b_{0}, c_{0};", 0, 3),
        ("std::map<int, int> a_ = {{1, 2}}, b_;", 0, 2),
        ("int a_[3] = {1, 2, 3};", 0, 1),
        ("std::size_t a_ = f(1, 2);", 0, 1),
        ("static constexpr int kA = 1;\n    static int b();", 1, 0),
        ("using B = int;\n    friend class C;\n    class D;\n    enum class E { kA, kB };", 0, 0),
        ("struct B {\n        int a, b;\n    };\n    B b_;", 0, 1),
    ],
)
def test_public_functions_and_members_are_told_apart(tmp_path, text, functions, members):
    code = f"namespace b {{\nclass A final : public B<int> {{\n  public:\n    {text}\n}};\n}}\n"
    assert counts(tmp_path, code)["A"] == (functions, members)


def test_only_public_functions_and_all_members_count(tmp_path):
    code = (
        "class A {\n    void a();\n\n  public:\n    void b();\n    int c;\n\n"
        "  protected:\n    void d();\n    int e;\n};\n"
    )
    assert counts(tmp_path, code) == {"A": (1, 2)}


def test_a_record_is_not_counted_and_a_nested_class_counts_for_itself(tmp_path):
    record = "struct A {\n    int a, b;\n};\n"
    code = record + "class B {\n  public:\n    class C {\n      public:\n        void f();\n    };\n};\n"
    assert counts(tmp_path, code) == {"B": (0, 0), "B::C": (1, 0)}


@pytest.mark.parametrize(("functions", "members"), [(26, 0), (0, 19)])
def test_a_class_over_a_limit_fails(tmp_path, functions, members):
    write(tmp_path, "src/io/a.h", large(25, 18))
    assert run(tmp_path).returncode == 0
    write(tmp_path, "src/io/a.h", large(functions, members))
    result = run(tmp_path)
    assert result.returncode == 1
    assert result.stdout.startswith(f"src/io/a.h:1: classes: A has {functions} public functions and {members} members")


def test_the_list_only_shrinks(tmp_path):
    write(tmp_path, "tools/classes.txt", "src/io A 30 18\n")
    write(tmp_path, "src/io/a.h", large(30, 18))
    assert run(tmp_path).returncode == 0
    write(tmp_path, "src/io/a.h", large(31, 18))
    assert run(tmp_path, "--update").returncode == 1, "an update raises no number"
    write(tmp_path, "src/io/a.h", large(28, 18))
    assert run(tmp_path).returncode == 1, "the list is out of date"
    assert run(tmp_path, "--update").returncode == 0
    assert (tmp_path / "tools" / "classes.txt").read_text() == "src/io A 28 18\n"
    write(tmp_path, "src/io/a.h", large(25, 18))
    assert run(tmp_path, "--update").returncode == 0
    assert (tmp_path / "tools" / "classes.txt").read_text() == ""
