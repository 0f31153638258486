"""What the demo derives from its measurements."""

import json
import math

import pytest

from forebay.measured import (
    MeasurementError,
    Phase,
    TargetWrite,
    rates,
    read_cache_counters,
    read_counters,
    read_trace,
    share_during,
)

SECOND = 1_000_000_000


def test_rates_keep_every_byte_and_never_overlap():
    writes = [TargetWrite(SECOND, 3 * SECOND, 0, 4000), TargetWrite(2 * SECOND, 2 * SECOND, 0, 500)]
    writes.append(TargetWrite(int(2.5 * SECOND), int(7.25 * SECOND), 0, 9000))
    steps = rates(writes, SECOND // 7)
    total = sum(step.bytes_per_s * (step.end_ns - step.begin_ns) / SECOND for step in steps)
    assert math.isclose(total, 13500, rel_tol=1e-6)
    assert all(one.end_ns == other.begin_ns for one, other in zip(steps, steps[1:], strict=False))
    assert rates([], 1) == []


def test_the_hidden_share_counts_bytes_that_move_while_the_program_computes():
    phases = [Phase("compute", 0, 0, 10), Phase("compute", 1, 20, 30)]
    assert share_during([TargetWrite(0, 10, 0, 8)], phases) == 1.0
    assert share_during([TargetWrite(10, 20, 0, 8)], phases) == 0.0
    assert share_during([TargetWrite(5, 25, 0, 8)], phases) == 0.5
    assert share_during([TargetWrite(0, 10, 0, 3), TargetWrite(12, 18, 0, 1)], phases) == 0.75
    assert share_during([], phases) == 0.0


def test_counters_are_those_of_the_file_and_summed_over_its_closes(tmp_path):
    stats = tmp_path / "stats"
    lines = [
        {"file": {"path": "/slow/a.h5", "staged": 5, "reasons": []}},
        {"file": {"path": "/slow/b.h5", "staged": 70, "reasons": []}},
        {"file": {"path": "/slow/a.h5", "staged": 6, "reasons": []}},
        {"process": {"files_opened": 3}},
    ]
    stats.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_counters(stats, tmp_path / "a.h5") == {"staged": 11}


def test_counters_of_the_read_cache_are_summed_over_processes(tmp_path):
    stats = tmp_path / "stats"
    caches = [{"hit_bytes": 5, "aside": {"young": 1}}, {"hit_bytes": 6, "missed_bytes": 1}]
    lines = [{"file": {"path": "/slow/a.h5"}}, *({"process": {"cache": cache}} for cache in caches), {"process": {}}]
    stats.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_cache_counters(stats) == {"hit_bytes": 11, "missed_bytes": 1}
    with pytest.raises(MeasurementError):
        read_cache_counters(tmp_path / "missing")


@pytest.mark.parametrize("content", [None, "", '{"process": {}}\n', '{"file": \n'])
def test_statistics_that_say_nothing_of_the_file_are_an_error(tmp_path, content):
    stats = tmp_path / "stats"
    if content is not None:
        stats.write_text(content)
    with pytest.raises(MeasurementError):
        read_counters(stats, tmp_path / "a.h5")


@pytest.mark.parametrize("content", [None, "[1]\n", '{"begin_ns": 1}\n', "torn"])
def test_a_trace_that_cannot_be_read_is_an_error(tmp_path, content):
    trace = tmp_path / "trace"
    if content is not None:
        trace.write_text(content)
    with pytest.raises(MeasurementError):
        read_trace(trace)
