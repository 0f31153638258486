"""Cache VOL's API, by programs that were compiled with forebay's headers and library: the files, and what is read, are
those of the same program without a connector."""

import os
import sys
from pathlib import Path

import pytest
from cache_vol_environment import cache_vol_plugin_folder, configuration, program, with_cache_vol
from connector_environment import ROOT, _lines, asides, bytes_staged, native, plugin_folder, reasons, run, staged

from forebay.slowfs import SlowFS, available

WRITING = ["write", "paused", "removed", "async"]


def call(part: str, environment: dict[str, str], folder: Path, name: str = "data.h5") -> str:
    done = run([program("calls"), part, name], environment, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("part", WRITING)
def test_what_is_written_with_every_call_is_what_is_written_natively(tmp_path: Path, part: str) -> None:
    call(part, native(), tmp_path / "native")
    call(part, with_cache_vol(tmp_path, HDF5_CACHE_WR="yes"), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    assert reasons(tmp_path) == ({"disabled"} if part in ("removed", "async") else set())


@pytest.mark.parametrize("part", WRITING)
def test_the_calls_do_the_same_with_the_connector_forebay(tmp_path: Path, part: str) -> None:
    call(part, native(), tmp_path / "native")
    call(part, staged(tmp_path), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0


def test_the_calls_do_no_harm_where_nothing_is_staged(tmp_path: Path) -> None:
    call("paused", native(), tmp_path / "native")
    call("paused", with_cache_vol(tmp_path), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert asides(tmp_path) == {"disabled": 1}
    assert bytes_staged(tmp_path) == 0


def test_a_cache_that_is_created_while_the_file_is_open_stages_it(tmp_path: Path) -> None:
    call("write", native(), tmp_path / "native")
    call("write", with_cache_vol(tmp_path), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert asides(tmp_path) == {"disabled": 1}
    assert bytes_staged(tmp_path) > 0


def test_a_cache_that_was_removed_can_be_created_again(tmp_path: Path) -> None:
    call("again", native(), tmp_path / "native")
    call("again", with_cache_vol(tmp_path, HDF5_CACHE_WR="yes"), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    assert reasons(tmp_path) == {"disabled"}


def test_the_access_list_says_which_files_are_staged(tmp_path: Path) -> None:
    call("list", native(), tmp_path / "native")
    call("list", with_cache_vol(tmp_path), tmp_path)
    for spelling in range(5):
        name = f"data.h5.{spelling}"
        assert (tmp_path / name).read_bytes() == (tmp_path / "native" / name).read_bytes()
    assert bytes_staged(tmp_path) > 0
    assert asides(tmp_path) == {"disabled": 1}


@pytest.mark.parametrize("value", ["yes", "no"])
def test_the_variable_is_stronger_than_the_access_list(tmp_path: Path, value: str) -> None:
    call("list", with_cache_vol(tmp_path, HDF5_CACHE_WR=value), tmp_path)
    assert asides(tmp_path) == ({} if value == "yes" else {"disabled": 5})
    assert (bytes_staged(tmp_path) > 0) == (value == "yes")


@pytest.mark.parametrize("name", ["storage", "my  local storage {1}"])
def test_a_local_storage_in_the_access_list_is_where_it_is_staged(tmp_path: Path, name: str) -> None:
    storage = tmp_path / name
    storage.mkdir()
    call("storage", native(CACHE_VOL_STORAGE=str(storage)), tmp_path / "native")
    call("storage", with_cache_vol(tmp_path, CACHE_VOL_STORAGE=str(storage)), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    assert list(storage.iterdir())
    assert not list((tmp_path / "local-storage").iterdir())


def test_a_program_names_connector_and_configuration_by_itself(tmp_path: Path) -> None:
    call("info", native(), tmp_path / "native")
    environment = with_cache_vol(tmp_path, HDF5_CACHE_WR="yes", CACHE_VOL_CONFIG=str(configuration(tmp_path)))
    del environment["HDF5_VOL_CONNECTOR"]
    call("info", environment, tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    assert list((tmp_path / "local-storage").iterdir())


@pytest.mark.parametrize("part", WRITING)
def test_a_close_that_does_not_wait_leaves_the_same_file(tmp_path: Path, part: str) -> None:
    call(part, native(), tmp_path / "native")
    text = f"config={configuration(tmp_path)};under_vol=512;close=deferred"
    call(part, with_cache_vol(tmp_path, text, HDF5_CACHE_WR="yes"), tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0


def test_what_is_read_is_what_is_read_natively(tmp_path: Path) -> None:
    call("write", native(), tmp_path)
    expected = call("read", native(), tmp_path)
    assert call("read", with_cache_vol(tmp_path), tmp_path) == expected
    assert call("read", staged(tmp_path, "read_cache=on"), tmp_path) == expected


_usable, _reason = available()


@pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
@pytest.mark.parametrize("variable", [None, "yes"])
def test_what_is_prefetched_is_what_the_file_holds(tmp_path: Path, variable: str | None) -> None:
    more = {} if variable is None else {"HDF5_CACHE_RD": variable}
    with SlowFS(tmp_path / "backing", tmp_path / "target", bandwidth="400MiB/s", latency={"read": "0.2ms"}):
        call("write", native(), tmp_path / "target")
        os.utime(tmp_path / "target" / "data.h5", (1_000_000_000, 1_000_000_000))  # old enough to be cached
        expected = call("read", native(), tmp_path / "target")
        for _ in range(2):
            assert call("read", with_cache_vol(tmp_path, **more), tmp_path / "target") == expected


@pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
@pytest.mark.parametrize("more", [{}, {"HDF5_CACHE_DELAY_CLOSE": "yes"}])
def test_a_dataset_may_be_closed_before_what_was_begun_on_it_has_ended(tmp_path: Path, more: dict[str, str]) -> None:
    with SlowFS(tmp_path / "backing", tmp_path / "target") as mounted:
        control = str(mounted.mount_point / ".slowfs")
        call("close", with_cache_vol(tmp_path, CACHE_VOL_CONTROL=control, **more), tmp_path / "target")
    requests = [line["process"]["async"] for line in _lines(tmp_path) if "process" in line]
    assert [(one["reads"], one["failed"], one["canceled"]) for one in requests] == [(1, 0, 0)]


def test_the_account_of_a_storage_is_kept(tmp_path: Path) -> None:
    call("account", native(), tmp_path)
    call("account", with_cache_vol(tmp_path), tmp_path)


@pytest.mark.parametrize("value", ["yes", "no"])
def test_wrong_identifiers_and_states_are_errors(tmp_path: Path, value: str) -> None:
    call("wrong", with_cache_vol(tmp_path, HDF5_CACHE_WR=value), tmp_path)


def test_with_a_thread_safe_library_several_threads_get_errors_too(tmp_path: Path) -> None:
    from connector_environment import CACHE  # noqa: PLC0415

    library = CACHE / "hdf5-1.14.5-threadsafe" / "lib"
    if not library.is_dir():
        pytest.skip("there is no thread-safe HDF5 here")
    environment = with_cache_vol(tmp_path, HDF5_CACHE_WR="yes", LD_PRELOAD=str(library / "libhdf5.so"))
    call("wrong", environment, tmp_path)


@pytest.mark.parametrize("name", ["beside_user_code", "linked_with_plugin"])
@pytest.mark.parametrize("connector", [False, True])
def test_the_headers_stand_beside_code_that_uses_the_same_words(tmp_path: Path, name: str, connector: bool) -> None:
    environment = with_cache_vol(tmp_path) if connector else native()
    done = run([program(name)], {**environment, "LD_LIBRARY_PATH": str(cache_vol_plugin_folder())}, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("by_value", [False, True])
def test_the_examples_of_the_papers(tmp_path: Path, by_value: bool) -> None:
    more = {"EXAMPLE_BY_VALUE": "1"} if by_value else {}
    for folder, environment in ((tmp_path / "native", native(**more)), (tmp_path, with_cache_vol(tmp_path, **more))):
        done = run([program("example_write"), "data.h5"], environment, folder)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    expected = run([program("example_read"), "data.h5"], native(), tmp_path)
    done = run([program("example_read"), "data.h5"], with_cache_vol(tmp_path), tmp_path)
    assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr
    assert expected.stdout
    # H5Dprefetch of a file that has no cache is told what has one.
    done = run([program("example_read"), "data.h5"], with_cache_vol(tmp_path, HDF5_CACHE_RD="no"), tmp_path)
    assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr
    hints = [line for line in done.stderr.splitlines() if "HDF5_CACHE_RD=yes caches files" in line]
    assert len(hints) == 1, done.stderr


def test_both_plugins_in_one_path_serve_one_program(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    environment = with_cache_vol(tmp_path, f"config={config}", HDF5_CACHE_WR="yes")
    environment["HDF5_PLUGIN_PATH"] = f"{plugin_folder()}:{environment['HDF5_PLUGIN_PATH']}"
    call("write", native(), tmp_path / "native")
    call("write", environment, tmp_path)
    assert (tmp_path / "data.h5").read_bytes() == (tmp_path / "native" / "data.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0


def test_the_python_package_finds_the_plugin_under_its_other_name(tmp_path: Path) -> None:
    code = "import h5py, forebay; h5py.File('x.h5', 'w')['x'] = 1; print(forebay.stats()['files_opened'])"
    environment = with_cache_vol(tmp_path, HDF5_CACHE_WR="yes", PYTHONPATH=str(ROOT / "python"))
    done = run([sys.executable, "-c", code], environment, tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
