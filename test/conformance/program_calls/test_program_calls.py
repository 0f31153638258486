"""A program that calls forebay's functions: its files, and what it reads, are those of the same program natively."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integration"))

from connector_environment import ROOT, asides, bytes_staged, native, reasons, run, staged, statistics

import forebay
from forebay.slowfs import SlowFS, available

pytestmark = pytest.mark.slow

PROGRAM = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release")) / "test" / "program_calls"


def call(part: str, environment: dict[str, str], folder: Path) -> tuple[str, str]:
    done = run([PROGRAM, part, "data.h5"], environment, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.check
def test_a_drain_is_paused_and_waited_for_and_the_file_is_the_same(tmp_path: Path) -> None:
    call("write", native(), tmp_path / "native")
    told, _ = call("write", staged(tmp_path), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    assert reasons(tmp_path) == set()
    counted = json.loads(told)
    assert counted["path"].endswith("data.h5")
    assert counted["pending"] == 0
    assert counted["commits"] >= 1
    assert counted["syncs"] >= 1


def test_a_file_that_is_not_cached_is_read_as_natively_and_each_request_is_an_error(tmp_path: Path) -> None:
    call("write", native(), tmp_path)
    assert call("read", staged(tmp_path, "read_cache=on"), tmp_path)[0] == call("read", native(), tmp_path)[0]


_usable, _reason = available()


@pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
def test_what_is_fetched_pinned_and_evicted_is_what_the_file_holds(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with SlowFS(tmp_path / "backing", target, bandwidth="400MiB/s", latency={"read": "0.2ms"}):
        call("write", native(), target)
        os.utime(target / "data.h5", (1_000_000_000, 1_000_000_000))
        expected = call("read", native(), target)[0]
        told, counted = call("read", staged(tmp_path, "read_cache=on", PROGRAM_CALLS_CACHED="1"), target)
        assert told == expected
        cache = json.loads(counted.splitlines()[-1])["cache"]
        assert cache["fetched_bytes"] > 0


@pytest.mark.check
def test_wrong_arguments_and_states_are_errors_with_one_number_each(tmp_path: Path) -> None:
    call("wrong", native(), tmp_path)
    told, _ = call("wrong", staged(tmp_path), tmp_path)
    version = run([PROGRAM.parents[1] / "bin" / "forebay", "--version"], native(), tmp_path).stdout.split()[1]
    assert told.strip() == version == forebay.__version__


@pytest.mark.check
def test_files_that_are_opened_while_paused_are_left_alone_and_the_others_go_on(tmp_path: Path) -> None:
    call("pause", native(), tmp_path / "native")
    call("pause", staged(tmp_path), tmp_path)
    expected = sorted(path.name for path in (tmp_path / "native").glob("*.h5"))
    assert expected == ["after.h5", "before.h5", "native again.h5", "native yet.h5", "native.h5"]
    for name in expected:
        assert (tmp_path / name).read_bytes() == (tmp_path / "native" / name).read_bytes(), name
    # One line for each time that a file was closed.
    lines = [(Path(entry["path"]).name, entry["reasons"], entry["staged"] > 0) for entry in statistics(tmp_path)]
    assert [line for line in lines if line[0].startswith("native")] == [
        ("native again.h5", ["paused"], False),
        ("native yet.h5", ["paused"], False),
        ("native.h5", ["paused"], False),
        ("native again.h5", [], True),
    ]
    assert [line for line in lines if not line[0].startswith("native")] == [
        ("before.h5", [], True),
        ("after.h5", [], True),
    ]
    assert asides(tmp_path) == {"paused": 4}


def test_a_pause_opens_files_also_where_strict_refuses_to_stage_them(tmp_path: Path) -> None:
    environment = staged(tmp_path, "strict=on", FOREBAY_NLS="/no/such/folder")
    code = """
import ctypes, os, h5py
plugin = ctypes.CDLL(os.environ["HDF5_PLUGIN_PATH"] + "/libforebay_vol.so", mode=os.RTLD_NOLOAD)
def opens():
    try: h5py.File("x.h5", "w").close()
    except OSError: return False
    return True
print(opens(), plugin.forebay_pause(), opens(), plugin.forebay_resume(), opens())
"""
    assert run([sys.executable, "-c", code], environment, tmp_path).stdout == "False 0 True 0 False\n"
