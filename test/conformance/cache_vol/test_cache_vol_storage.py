"""What a program says of its storage is checked as a configuration file is; and programs that use other names of Cache
VOL's headers compile and run."""

from pathlib import Path

import pytest
from cache_vol_environment import configuration, program, with_cache_vol
from connector_environment import asides, bytes_staged, native, run


@pytest.fixture(name="expected", scope="module")
def native_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("native")
    assert run([program("storage"), "native"], native(), folder).returncode == 0
    return (folder / "data.h5").read_bytes()


def write(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    """Standard error, and what the program prints."""
    done = run([program("storage"), *arguments], environment, folder)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def test_names_that_benchmarks_use_are_declared(tmp_path: Path) -> None:
    done = run([program("names")], native(), tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_storage_as_the_configuration_has_it_is_staged_to(tmp_path: Path, expected: bytes) -> None:
    told = write(tmp_path, with_cache_vol(tmp_path, f"config={configuration(tmp_path)}"), "none")
    assert told == ""
    assert (tmp_path / "data.h5").read_bytes() == expected
    assert bytes_staged(tmp_path) > 0


WRONG = {
    "type": {"HDF5_CACHE_STORAGE_TYPE": "TAPE"},
    "size": {"HDF5_CACHE_STORAGE_SIZE": "-1"},
    "size that is no number": {"HDF5_CACHE_STORAGE_SIZE": "banana"},
    "buffer": {"HDF5_CACHE_STORAGE_SIZE": "1GiB", "HDF5_CACHE_WRITE_BUFFER_SIZE": "3GiB"},
    "policy": {"HDF5_CACHE_REPLACEMENT_POLICY": "MRU"},
}
VARIABLES = {
    "HDF5_CACHE_STORAGE_TYPE": "HDF5_LOCAL_STORAGE_TYPE",
    "HDF5_CACHE_STORAGE_SIZE": "HDF5_LOCAL_STORAGE_SIZE",
    "HDF5_CACHE_WRITE_BUFFER_SIZE": "HDF5_WRITE_CACHE_SIZE",
    "HDF5_CACHE_REPLACEMENT_POLICY": "HDF5_CACHE_REPLACEMENT",
}


@pytest.mark.parametrize("by", ["file", "variables"])
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_value_is_told_also_if_the_program_has_made_a_storage_of_it(
    tmp_path: Path, expected: bytes, what: str, by: str
) -> None:
    keys = WRONG[what]
    key, value = list(keys.items())[-1]
    if by == "file":
        environment = with_cache_vol(tmp_path, f"config={configuration(tmp_path, **keys)}")
    else:
        environment = with_cache_vol(tmp_path, "under_vol=0", **{VARIABLES[name]: keys[name] for name in keys})
    told = write(tmp_path, environment, "none")
    assert f"{key}=" in told and "files are opened natively" in told, told
    if what != "buffer":
        assert f"{key}={value}" in told
    assert (tmp_path / "data.h5").read_bytes() == expected
    assert bytes_staged(tmp_path) == 0
    done = run([program("storage"), "none"], {**environment, "FOREBAY_STRICT": "on"}, tmp_path)
    assert done.returncode == 1 and f"{key}=" in done.stderr


@pytest.mark.parametrize("what", ["type", "size", "policy", "buffer"])
def test_a_wrong_value_that_the_program_puts_into_its_storage_is_told(
    tmp_path: Path, expected: bytes, what: str
) -> None:
    told = write(tmp_path, with_cache_vol(tmp_path, f"config={configuration(tmp_path)}"), what)
    assert "LOCAL_STORAGE" in told and "files are opened natively" in told, told
    assert (tmp_path / "data.h5").read_bytes() == expected
    assert bytes_staged(tmp_path) == 0


@pytest.mark.parametrize(
    ("type_name", "path", "size"), [("TAPE", "", "1000000000"), ("SSD", "", "-1"), ("SSD", "/nowhere", "1000000000")]
)
def test_a_setting_of_the_program_that_means_nothing_is_refused(
    tmp_path: Path, expected: bytes, type_name: str, path: str, size: str
) -> None:
    """Also by a program that does not look at the result of its call."""
    environment = with_cache_vol(tmp_path, f"config={configuration(tmp_path)}")
    told = write(tmp_path, environment, "set", type_name, path or str(tmp_path / "local-storage"), size)
    assert "refused" in told and "forebay: " in told, told
    assert (tmp_path / "data.h5").read_bytes() == expected
    assert bytes_staged(tmp_path) == 0


def test_a_value_that_the_program_sets_takes_the_place_of_a_wrong_one(tmp_path: Path, expected: bytes) -> None:
    """The path may have every character; and a write buffer that nobody has asked for fits a small storage."""
    storage = tmp_path / "a {b} 100%7D };c=d"
    storage.mkdir()
    more = {"HDF5_LOCAL_STORAGE_TYPE": "TAPE", "HDF5_LOCAL_STORAGE_SIZE": "much"}
    environment = with_cache_vol(tmp_path, "under_vol=0", **more)
    told = write(tmp_path, environment, "set", "SSD", str(storage), str(1 << 30))
    assert told == ""
    assert (tmp_path / "data.h5").read_bytes() == expected
    assert bytes_staged(tmp_path) > 0 and list(storage.iterdir())


def test_a_storage_of_the_programs_own_keeps_its_path(tmp_path: Path) -> None:
    config = configuration(tmp_path, HDF5_CACHE_STORAGE_TYPE="TAPE")
    done = run([program("storage"), "own", str(config)], native(), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"1 1 {tmp_path / 'local-storage'} /own\n"
    assert "HDF5_CACHE_STORAGE_TYPE=TAPE" in done.stderr


def test_every_unknown_key_is_named_and_a_size_of_nothing_is_one_line(tmp_path: Path, expected: bytes) -> None:
    keys = {"HDF5_CACHE_STORAGE_SIZE": "0", "HDF5_CACHE_FIRST": "1", "HDF5_CACHE_SECOND": "2"}
    environment = with_cache_vol(tmp_path, f"config={configuration(tmp_path, **keys)}", HDF5_CACHE_WR="yes")
    done = run([program("storage"), "native"], environment, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 3, done.stderr
    assert [sum(word in line for line in lines) for word in ("FIRST", "SECOND", "HDF5_CACHE_STORAGE_SIZE")] == [1, 1, 1]
    assert (tmp_path / "data.h5").read_bytes() == expected


@pytest.mark.parametrize("value", ["YES", "true", "1", "on", " Yes "])
def test_words_that_mean_yes_stage(tmp_path: Path, expected: bytes, value: str) -> None:
    environment = with_cache_vol(tmp_path, f"config={configuration(tmp_path)}", HDF5_CACHE_WR=value)
    assert write(tmp_path, environment, "native") == ""
    assert (tmp_path / "data.h5").read_bytes() == expected
    assert bytes_staged(tmp_path) > 0


def test_a_word_that_means_nothing_is_told(tmp_path: Path, expected: bytes) -> None:
    more = {"HDF5_CACHE_WR": "maybe", "HDF5_CACHE_RD": "perhaps", "HDF5_CACHE_DELAY_CLOSE": "later"}
    told = write(tmp_path, with_cache_vol(tmp_path, f"config={configuration(tmp_path)}", **more), "native")
    assert [sum(name in line for line in told.splitlines()) for name in more] == [1, 1, 1], told
    assert (tmp_path / "data.h5").read_bytes() == expected
    assert asides(tmp_path) == {"disabled": 1}
