"""Programs with Async VOL's calls run with forebay in its place, and with forebay under its own name."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integration"))

from connector_environment import ROOT, _lines, bytes_staged, hdf5_prefix, native, plugin_folder, run, staged

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
ASYNC_PLUGINS = plugin_folder().with_name(plugin_folder().name + "-async")


def with_async_vol(folder: Path, **more: str) -> dict[str, str]:
    return {**staged(folder), "HDF5_PLUGIN_PATH": str(ASYNC_PLUGINS), **more}


def reads(folder: Path) -> int:
    return sum(line.get("process", {}).get("async", {}).get("reads", 0) for line in _lines(folder))


def run_calls(environment: dict[str, str], folder: Path, *arguments: str, program: str = "async_vol_calls") -> None:
    done = run([BUILD / "test" / program, *arguments], environment, folder)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr


@pytest.mark.parametrize("connector", ["async under_vol=0;under_info={}", "async", "forebay"])
def test_all_calls_do_what_they_say(connector, tmp_path):
    environment = staged(tmp_path) if connector == "forebay" else with_async_vol(tmp_path)
    environment["HDF5_VOL_CONNECTOR"] = connector
    run_calls(environment, tmp_path / "run")
    assert bytes_staged(tmp_path) > 0 and reads(tmp_path) == 2


def test_a_program_may_choose_the_connector_itself(tmp_path):
    environment = with_async_vol(tmp_path)
    del environment["HDF5_VOL_CONNECTOR"]
    run_calls(environment, tmp_path / "run", "by-list")
    assert bytes_staged(tmp_path) > 0 and reads(tmp_path) == 2


def test_files_written_so_are_ordinary_files(tmp_path):
    run_calls(with_async_vol(tmp_path, HDF5_VOL_CONNECTOR="async"), tmp_path / "run")
    told = run([hdf5_prefix() / "bin" / "h5dump", "-H", "async.h5"], native(), tmp_path / "run")
    assert told.returncode == 0 and 'DATASET "words"' in told.stdout, told.stderr


def test_without_forebay_the_calls_fail_and_say_so(tmp_path):
    done = run([BUILD / "test" / "async_vol_calls"], native(), tmp_path / "run")
    assert done.returncode == 1 and "WRONG H5Fpause" in done.stdout


STACK = "async under_vol=0;under_info={}"


@pytest.mark.parametrize(
    ("connector", "arguments"),
    [(STACK, []), (STACK, ["by-list"]), ("async", []), ("async", ["by-list"]), (None, ["by-list"])],
)
def test_a_program_linked_with_the_original_libraries_runs_with_forebay_in_their_place(connector, arguments, tmp_path):
    environment = with_async_vol(tmp_path, LD_LIBRARY_PATH=str(ASYNC_PLUGINS))
    del environment["HDF5_VOL_CONNECTOR"]
    if connector is not None:
        environment["HDF5_VOL_CONNECTOR"] = connector
    linked = run(["readelf", "-d", BUILD / "test" / "async_vol_calls_original"], environment, tmp_path)
    assert "[libh5async.so]" in linked.stdout, linked.stdout
    run_calls(environment, tmp_path / "run", *arguments, program="async_vol_calls_original")
    assert bytes_staged(tmp_path) > 0 and reads(tmp_path) == 2
    told = run([hdf5_prefix() / "bin" / "h5dump", "-H", "async.h5"], native(), tmp_path / "run")
    assert told.returncode == 0 and 'DATASET "words"' in told.stdout, told.stderr


@pytest.mark.parametrize("program", ["async_vol_calls", "async_vol_calls_original"])
def test_a_program_may_put_the_connector_on_top_of_forebay(program, tmp_path):
    """As Async VOL above another connector: it is that one that stages, and reads are made at once."""
    folders = f"{plugin_folder()}:{ASYNC_PLUGINS}"
    environment = {**staged(tmp_path), "HDF5_PLUGIN_PATH": folders, "LD_LIBRARY_PATH": str(ASYNC_PLUGINS)}
    run_calls(environment, tmp_path / "run", "by-list", program=program)
    assert bytes_staged(tmp_path) > 0


CACHE_VOL = "cache_ext under_vol=512;under_info={under_vol=0;under_info={}}"


@pytest.mark.parametrize("connector", ["async", STACK, CACHE_VOL, "cache_ext", "forebay"])
def test_failures_of_asynchronous_calls_are_where_the_replaced_connector_has_them(connector, tmp_path):
    """In the event set with Async VOL's name and with Cache VOL on top of it; with forebay's own name as natively."""
    environment = with_async_vol(tmp_path, HDF5_VOL_CONNECTOR=connector, HDF5_CACHE_WR="yes")
    if connector.startswith("cache_ext"):
        environment["HDF5_PLUGIN_PATH"] = str(plugin_folder().with_name(plugin_folder().name + "-cache_ext"))
    elif connector == "forebay":
        environment = staged(tmp_path)
    where = "in-event-set" if connector in ("async", STACK, CACHE_VOL) else "at-once"
    failing = BUILD / "test" / "async_vol_event_set_failures"
    done = run([failing, where, "file.h5"], environment, tmp_path / "run")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr
    assert "HDF5-DIAG" not in done.stderr and "infinite loop" not in done.stderr
    assert bytes_staged(tmp_path) > 0
    natively = run([failing, "at-once", "file.h5"], native(), tmp_path / "native")
    assert natively.returncode == 0, natively.stderr
    assert (tmp_path / "run" / "file.h5").read_bytes() == (tmp_path / "native" / "file.h5").read_bytes()
