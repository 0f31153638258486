"""`forebay estimate`: its model against a slow, plain calculation, and its command line."""

import json
import math
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from forebay import __main__ as front
from forebay import estimate
from forebay.estimate_shown import shown_seconds
from forebay.estimate_model import (
    MIB,
    CannotEstimate,
    Machine,
    Reading,
    Writing,
    cached_reading,
    compute_needed,
    crossing_nodes,
    drain_rate,
    native_reading,
    native_writing,
    nodes_drained,
    room_needed,
    served_writing,
    servers_needed,
    staged_writing,
    staging_rate,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integration"))
from seeds import seeds  # noqa: E402

MACHINE = Machine("here", local_write=1000 * MIB, local_read=2000 * MIB, fs_node=200 * MIB, fs_total=1600 * MIB)
PROGRAM = Writing(nodes=1, ranks=2, bytes_per_rank=100 * MIB, steps=6, compute_s=1.0)


def in_small_steps(machine, writing, parts=1500):
    """The wait with forebay, by small steps of time: staging, draining, computing, and no formula."""
    stage, drain = staging_rate(machine, writing), drain_rate(machine, writing)
    both, room = 1 + machine.contention, writing.size * writing.ranks
    tick = writing.node_bytes / stage / parts
    pending = wait_s = 0.0
    for _ in range(writing.steps):
        for _ in range(writing.writes):
            piece, staged = writing.node_bytes / writing.writes, 0.0
            while pending + piece > room:
                pending, wait_s = pending - tick * drain, wait_s + tick
            while staged < piece:
                slow = both if pending > 0 else 1.0
                staged += tick * stage / slow
                pending = max(0.0, pending - tick * drain / slow)
                wait_s += tick
            pending += piece
        work = 0.0
        while work < writing.compute_s:
            work += tick / (machine.compute_slowdown if pending > 0 else 1.0)
            pending = max(0.0, pending - tick * drain)
    return wait_s + pending / drain


@pytest.mark.parametrize("seed", seeds("estimate", 8, ()))
def test_the_closed_forms_agree_with_small_steps_of_time(seed):
    chance = random.Random(seed)
    machine = replace(
        MACHINE,
        fs_node=chance.uniform(20, 2000) * MIB,
        contention=chance.choice([0.0, 0.5, 1.0]),
        compute_slowdown=chance.choice([1.0, 1.3]),
    )
    writes = chance.randint(4, 6)
    writing = replace(
        PROGRAM,
        steps=chance.randint(1, 4),
        compute_s=chance.uniform(0, 1),
        writes=writes,
        size=chance.choice([math.inf, PROGRAM.bytes_per_rank * chance.uniform(1, 2)]),
    )
    assert staged_writing(machine, writing).wait_s == pytest.approx(in_small_steps(machine, writing), rel=0.01)


def test_native_writes_take_the_file_systems_rate_and_the_latency_of_each_request():
    assert native_writing(MACHINE, PROGRAM).wait_s == pytest.approx(6.0)
    late = replace(MACHINE, fs_latency_s=0.005, fs_request=MIB)  # a request of 1 MiB takes 5 + 5 ms
    assert native_writing(late, replace(PROGRAM, ranks=1)).wait_s == pytest.approx(6.0)
    assert native_writing(late, PROGRAM).wait_s == pytest.approx(6.0), "two ranks hide each other's latency"
    assert native_writing(replace(late, load=1.5), PROGRAM).wait_s == pytest.approx(9.0)


def test_a_step_with_enough_computing_waits_for_staging_only():
    waits = staged_writing(MACHINE, PROGRAM)
    assert waits.steps_s == pytest.approx((0.2,) * 6) and waits.close_s == pytest.approx(0.0)
    assert compute_needed(MACHINE, PROGRAM) == pytest.approx(1.0 - 0.2)


def test_a_deferred_close_returns_before_the_drain_ends():
    hurried = replace(PROGRAM, compute_s=0.0)
    waits = staged_writing(MACHINE, hurried)
    assert waits.close_s == pytest.approx(waits.wait_s - 6 * 0.2) and waits.left_s == 0
    deferred = staged_writing(MACHINE, replace(hurried, waits_at_close=False))
    assert (deferred.close_s, deferred.left_s) == (0, pytest.approx(waits.close_s))


def test_a_flush_that_drains_leaves_nothing_to_the_compute_time():
    waits = staged_writing(MACHINE, replace(PROGRAM, flush_drains=True))
    assert waits.steps_s == pytest.approx((1.2,) * 6) and waits.close_s == 0


@pytest.mark.parametrize("factor, waits_more", [(1.01, False), (0.9, True)])
def test_the_needed_size_is_just_enough(factor, waits_more):
    hurried = replace(PROGRAM, compute_s=0.3, writes=10)
    size = room_needed(MACHINE, hurried) * factor
    unlimited = sum(staged_writing(MACHINE, hurried).steps_s)
    assert (sum(staged_writing(MACHINE, replace(hurried, size=size)).steps_s) > unlimited * 1.001) == waits_more


@pytest.mark.parametrize("contention", [0.0, 0.7])
@pytest.mark.parametrize("slowdown", [1.0, 1.4])
def test_the_needed_compute_time_divides_programs_whose_close_waits(contention, slowdown):
    machine = replace(MACHINE, contention=contention, compute_slowdown=slowdown)
    program = replace(PROGRAM, steps=64)
    needed = compute_needed(machine, program)
    enough = staged_writing(machine, replace(program, compute_s=needed * 1.05))
    lacking = staged_writing(machine, replace(program, compute_s=needed * 0.95))
    assert enough.peak_bytes < 3 * program.node_bytes
    assert lacking.peak_bytes > enough.peak_bytes and lacking.close_s > enough.close_s


def test_the_drain_keeps_up_as_far_as_the_number_of_nodes_that_is_named():
    program = replace(PROGRAM, steps=64, compute_s=1.2)
    nodes = nodes_drained(MACHINE, program)
    assert nodes == pytest.approx(1600 * (0.2 + 1.2) / 200)
    below, above = (replace(program, nodes=count) for count in (math.floor(nodes), math.ceil(nodes) + 1))
    assert compute_needed(MACHINE, below) <= 1.2 < compute_needed(MACHINE, above)
    assert nodes_drained(MACHINE, replace(program, compute_s=0.1)) == 0, "one node is too many"


def test_the_crossing_divides_scales_where_staging_gains():
    fast = replace(MACHINE, fs_node=4000 * MIB, fs_total=8000 * MIB)
    program = replace(PROGRAM, compute_s=60.0)
    assert crossing_nodes(fast, program) == pytest.approx(8)
    for nodes, gains in [(1, False), (7, False), (9, True), (100, True)]:
        one = replace(program, nodes=nodes)
        assert (staged_writing(fast, one).wait_s < native_writing(fast, one).wait_s) == gains


def test_servers_help_nodes_with_slow_storage_from_the_number_that_is_named():
    machine = replace(MACHINE, local_write=50 * MIB, network=400 * MIB)
    program = replace(PROGRAM, nodes=16, compute_s=20.0)
    count = servers_needed(machine, program)
    now = min(staged_writing(machine, program).wait_s, native_writing(machine, program).wait_s)
    assert 1 < count <= 16
    assert served_writing(machine, program, count).waits.wait_s < now
    assert served_writing(machine, program, count - 1).waits.wait_s >= now
    assert servers_needed(replace(machine, network=MIB), program) == 0


def test_small_writes_gain_from_the_drains_large_ones():
    late = replace(MACHINE, fs_latency_s=0.001)
    small = replace(PROGRAM, writes=25_600, compute_s=1.0)  # of 4 KiB
    assert native_writing(late, small).wait_s > 10 * staged_writing(late, small).wait_s


READER = Reading(nodes=2, ranks=2, data_bytes=4000 * MIB, epochs=3)


def test_later_epochs_read_node_local_storage_and_the_other_nodes():
    near = replace(MACHINE, network=1000 * MIB)
    assert native_reading(near, READER).epochs_s == pytest.approx((10.0, 10.0, 10.0))
    assert cached_reading(near, READER).epochs_s == pytest.approx((10.0, 2.0, 2.0))
    assert cached_reading(near, replace(READER, shuffled=False)).epochs_s == pytest.approx((10.0, 1.0, 1.0))


def test_a_small_cache_leaves_the_rest_to_the_file_system():
    half = cached_reading(MACHINE, replace(READER, cache=1000 * MIB))
    assert half.hits == 0.5 and half.epochs_s[1] == pytest.approx(0.5 * 1.0 + 5.0)


def test_memory_serves_native_reads_again_only_in_order():
    wide = replace(MACHINE, memory=20_000 * MIB)
    kept = replace(READER, page_cache=4000 * MIB)
    assert native_reading(wide, kept).epochs_s[1] == pytest.approx(10.0)
    assert native_reading(wide, replace(kept, shuffled=False)).epochs_s[1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "text, size", [("64", 64), ("64MiB", 64 * MIB), ("1.5k", 1536), ("2GB/s", 2 << 30), ("2e9", 2e9)]
)
def test_sizes_have_the_units_of_the_options(text, size):
    assert estimate.quantity(text) == size


@pytest.mark.parametrize("text", ["", "abc", "-1", "0", "1X", "1..2", "1e9e9", "1e400", "1e308T"])
def test_a_wrong_size_is_refused(text, capsys):
    with pytest.raises(SystemExit) as end:
        estimate.main(["--bytes", text])
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        f"forebay estimate: --bytes: '{text}' is not a size, such as 64MiB, 2.5GiB/s or 2.1e9\n"
        "`forebay estimate --help` explains the command.\n"
    )


HERE = ["--bytes", "1MiB", "--fs-node", "100MiB/s", "--local-write", "1G", "--compute", "1"]


@pytest.mark.parametrize(
    "words, missing",
    [
        (["--preset", "summit"], "--bytes"),
        (["--preset", "fugaku", "--bytes", "1MiB"], "--fs-node"),
        (["--bytes", "1MiB", "--fs-node", "1G"], "--local-write"),
        (["--bytes", "1MiB", "--fs-node", "1G", "--local-write", "1G", "--nodes", "2"], "--fs-total"),
        (["--preset", "summit", "--epochs", "2"], "--bytes"),
        (["--from", "nowhere.json"], "nowhere.json"),
        ([*HERE, "--servers", "2"], "--fs-total"),
        ([*HERE, "--plot", "scales.png"], "--fs-total"),
        (["--epochs", "2", "--bytes", "1MiB", "--size", "1GiB"], "--size is for a program that writes"),
        (["--epochs", "2", "--from", "run.json"], "--from is for a program that writes"),
        ([*HERE, "--in-order"], "--in-order needs --epochs"),
    ],
)
def test_a_missing_figure_is_named(words, missing, capsys):
    assert estimate.main(words) == 2
    said = capsys.readouterr()
    assert said.out == "" and missing in said.err


@pytest.mark.parametrize("option", ["--size", "--cache"])
@pytest.mark.parametrize("text", ["8", "2P", "1E9T"])
def test_a_size_that_the_option_does_not_take_is_refused(option, text, capsys):
    with pytest.raises(SystemExit):
        estimate.main(["--bytes", "1MiB", option, text])
    assert capsys.readouterr().err.startswith(f"forebay estimate: {option}: '{text}' is not ")


def test_one_node_says_nothing_of_many(capsys):
    whole = answers(*HERE, capsys=capsys)
    assert "drain_keeps_up_to_nodes" not in whole and whole["faster_from_nodes"] == 1
    assert estimate.main(HERE) == 0
    assert "- The drain keeps up: a step" in capsys.readouterr().out
    slow = [*HERE, "--local-write", "10MiB/s"]
    assert "faster_from_nodes" not in answers(*slow, capsys=capsys)
    assert estimate.main(slow) == 0
    assert "- Native writes are faster on one node; --fs-total tells" in capsys.readouterr().out
    told = answers(*slow, "--fs-total", "1G", capsys=capsys)
    assert told["faster_from_nodes"] > 1 and told["drain_keeps_up_to_nodes"] > 1


SUMMIT = ["--preset", "summit", "--ranks", "16", "--bytes", "256MiB", "--compute", "20", "--steps", "20"]


def answers(*words, capsys):
    assert estimate.main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_shows_the_same_in_words_and_in_json(capsys):
    whole = answers(*SUMMIT, "--nodes", 256, "--servers", 8, capsys=capsys)
    assert set(whole["ways"]) == {"native", "forebay", "8 servers"}
    assert whole["ways"]["forebay"]["wait_s"] < whole["ways"]["native"]["wait_s"]
    assert estimate.main([*SUMMIT, "--nodes", "256", "--sources"]) == 0
    text = capsys.readouterr().out
    assert f"from {whole['faster_from_nodes']:,.0f} nodes on" in text
    assert f"{whole['ways']['native']['wait_s']:.3g} s" in text and "fitted to the crossing" in text


def test_a_program_that_reads_is_shown_epoch_by_epoch(capsys):
    whole = answers(*SUMMIT, "--nodes", 4, "--epochs", 3, "--cache", "1T", capsys=capsys)
    assert whole["ways"]["forebay"]["later_epoch_s"] > 0 and whole["hits"] == 1.0
    assert whole["cache_needed_bytes"] == 16 * 20 * 256 * MIB
    assert estimate.main([*SUMMIT, "--nodes", "4", "--epochs", "3", "--cache", "1T"]) == 0
    assert "100% in the cache" in capsys.readouterr().out


def test_an_unknown_rate_of_storing_is_said(capsys):
    rates = ["--local-read", "5GiB/s", "--fs-node", "10GiB/s", "--epochs", "2", "--bytes", "1GiB"]
    assert answers(*rates, capsys=capsys)["notes"] == [estimate._NOT_STORED]
    assert estimate.main(rates) == 0 and estimate._NOT_STORED in capsys.readouterr().out
    known = answers(*rates, "--local-write", "1GiB/s", capsys=capsys)
    assert known["notes"] == [] and known["ways"]["forebay"]["first_epoch_s"] == pytest.approx(10.0)


def test_a_figure_that_was_given_has_no_published_source(capsys):
    sources = answers(*SUMMIT, "--fs-node", "1GiB/s", "--sources", capsys=capsys)["sources"]
    assert "fs_node" not in sources and "fs_total" in sources


@pytest.mark.parametrize("seconds, text", [(0, "0"), (0.9996, "1 s"), (0.0009996, "1 ms"), (999.6, "1,000 s")])
def test_seconds_have_the_unit_that_fits_after_rounding(seconds, text):
    assert shown_seconds(seconds) == text


def file_line(**changed):
    line = {"path": "/x.h5", "requests": 60, "staged": 300 * MIB, "drained": 0, "commits": 0}
    line |= {"stage_ns": 300_000_000, "stall_ns": 0, "drain_ns": 0, "close_ns": 0, "through": 0}
    return line | changed


DRAINER = file_line(drained=600 * MIB, commits=3, drain_ns=6_000_000_000, close_ns=1_000_000_000)
PROCESSES = [{"process": {"pid": pid, "files_opened": 1}} for pid in (1, 2)]


def test_statistics_of_two_ranks_give_their_rates_and_sizes(tmp_path, capsys):
    lines = [{"file": DRAINER}, {"file": file_line()}, *PROCESSES, {"began": {"pid": 3}}]
    stats = tmp_path / "stats.jsonl"
    stats.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = estimate.read_run(stats)
    assert (run.ranks, run.commits) == (2, 3)
    assert run.bytes_per_rank == 300 * MIB and run.write_bytes == 5 * MIB
    assert run.staging_rate == pytest.approx(2000 * MIB) and run.target_rate == pytest.approx(100 * MIB)
    assert run.overlaps and run.compute_s is None
    assert estimate.main(["--from", str(stats)]) == 2
    assert f"--compute SECONDS, of a step, is missing: {stats}" in capsys.readouterr().err
    whole = answers("--from", stats, "--compute", 0, capsys=capsys)
    here = whole["ways"]["native"]
    assert whole["notes"] == [estimate._LOWER_BOUND]
    assert answers("--from", stats, "--compute", 0, "--fs-node", "1G", capsys=capsys)["notes"] == []
    assert here["wait_s"] == pytest.approx(6.0) and here["step_s"] == pytest.approx(2.0)
    there = answers("--from", stats, "--compute", 0, "--nodes", 100, "--fs-total", 1000 * MIB, capsys=capsys)
    assert there["ways"]["native"]["wait_s"] == pytest.approx(60.0), "ten nodes reach the total"


def test_the_json_of_a_run_gives_the_compute_time_and_the_files_rate(tmp_path, capsys):
    summary = {"processes": 2, "elapsed_s": 4.8, "totals": {}, "files": [DRAINER, file_line()]}
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"summary": summary, "target_bytes_per_s": 150.0 * MIB}))
    run = estimate.read_run(report)
    assert run.compute_s == pytest.approx(4.8 - (0.6 + 1.0) / 2) and run.target_rate == 150 * MIB
    plain = tmp_path / "run.json"
    plain.write_text(json.dumps(summary))
    assert estimate.read_run(plain).target_rate == pytest.approx(100 * MIB)
    whole = answers("--from", report, capsys=capsys)
    assert whole["ways"]["native"]["compute_s"] == pytest.approx(4.0) and whole["notes"] == []


@pytest.mark.parametrize("text", ["", "[1]", "hello", '{"process":{}}', '{"file":{"staged":0}}', '{"summary":null}'])
def test_a_file_without_a_staged_run_is_refused(text, tmp_path):
    path = tmp_path / "stats"
    path.write_text(text)
    with pytest.raises(CannotEstimate, match=str(path)):
        estimate.read_run(path)


def test_the_speeds_that_doctor_measured_are_the_machines(tmp_path, capsys):
    report = tmp_path / "doctor.json"
    report.write_text(
        json.dumps({"staging": {"write_bytes_per_s": 1000 * MIB}, "target": {"write_bytes_per_s": 100 * MIB}})
    )
    ways = answers("--measured", report, "--bytes", "100MiB", "--steps", 2, "--compute", 1, capsys=capsys)["ways"]
    assert ways["native"]["wait_s"] == pytest.approx(2.0) and ways["forebay"]["wait_s"] == pytest.approx(0.2)
    report.write_text("{}")
    assert estimate.main(["--measured", str(report), "--bytes", "1MiB"]) == 2


def test_a_plot_is_a_picture_or_the_reason_why_not(tmp_path, capsys):
    picture = tmp_path / "scales.png"
    assert estimate.main([*SUMMIT, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert estimate.main([*SUMMIT, "--plot", str(tmp_path / "scales.xyz")]) == 2
    assert estimate.main([*SUMMIT, "--plot", str(tmp_path / "missing" / "scales.png")]) == 1
    assert "missing" in capsys.readouterr().err


def test_the_package_runs_it_without_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["forebay", "estimate", *SUMMIT, "--json"])
    with pytest.raises(SystemExit) as end:
        front.main()
    assert end.value.code == 0 and json.loads(capsys.readouterr().out)["machine"] == "summit"
