"""bench/report.py: the page gets the figures that have a target, and the file of tables gets all."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture(name="bench")
def modules_of_bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import figures
    import report

    yield figures, report
    for name in ("figures", "report"):
        sys.modules.pop(name, None)


@pytest.fixture(name="results")
def two_cases(bench):
    figures, _ = bench
    small, idle = figures.Result("small", "Small writes", 3), figures.Result("idle", "An idle file", 1)
    small.add("rate", [100.0], [50.0], "/s", figures.at_least(0.8))
    small.add("close", [1.0], [2.0], "s")
    small.add("total", [2.0], [1.0], "s", figures.at_most(1.05))
    small.notes.append("a note")
    idle.add("threads", [1], [5], "")
    return [small, idle]


def test_the_page_gets_each_figure_with_a_target_and_keeps_its_text(bench, results, tmp_path):
    _, report = bench
    page = tmp_path / "performance.md"
    page.write_text(f"before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n")
    report.write_page(page, "bench/run", {"cores": "2"}, results)
    text = page.read_text()
    assert text.startswith(f"before\n\n{report.BEGIN}\n") and text.endswith(f"{report.END}\n\nafter\n")
    assert "`bench/run`: cores 2." in text and "old" not in text
    assert [line for line in text.splitlines() if line.startswith("|")][2:] == [
        "| `small` (3) | rate | 100 /s | 50 /s | 0.5 (≥ 0.8, **missed**) |",
        "|  | total | 2.000 s | 1.000 s | 0.5 (≤ 1.05, met) |",
    ]


def test_a_page_without_markers_is_refused(bench, results, tmp_path):
    _, report = bench
    page = tmp_path / "performance.md"
    page.write_text("no markers\n")
    with pytest.raises(SystemExit, match="markers"):
        report.write_page(page, "bench/run", {}, results)
    assert page.read_text() == "no markers\n"


def test_the_tables_get_each_figure_and_note(bench, results, tmp_path):
    _, report = bench
    report.write_tables(tmp_path / "tables.md", "bench/run", {"cores": "2"}, results)
    text = (tmp_path / "tables.md").read_text()
    for line in ("### Small writes", "| close | 1.000 s | 2.000 s | 2 |  |  |", "A note.", "### An idle file"):
        assert f"\n{line}\n" in text
