"""Job scripts for Cache VOL, with nothing changed but the plugin's folder: strings, configuration files, variables."""

import sys
from pathlib import Path

import pytest
from cache_vol_environment import STACK, configuration, with_cache_vol
from connector_environment import asides, bytes_staged, native, run, run_python, statistics

pytestmark = pytest.mark.slow


WRITE = """
import h5py, numpy
with h5py.File("data.h5", "w") as file:
    for step in range(4):
        group = file.create_group(f"step{step}")
        group.create_dataset("plain", data=numpy.arange(200_000.0).reshape(400, 500) + step)
        group.create_dataset("packed", data=numpy.arange(60_000).reshape(200, 300), chunks=(50, 60), compression="gzip")
        file.flush()
"""


@pytest.fixture(name="expected", scope="module")
def native_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("native")
    run_python(WRITE, native(), folder)
    return (folder / "data.h5").read_bytes()


def written(environment: dict[str, str], folder: Path) -> tuple[bytes, list[str]]:
    """The file, and the lines on standard error."""
    done = run([sys.executable, "-c", WRITE], environment, folder)
    assert done.returncode == 0, done.stderr
    return (folder / "data.h5").read_bytes(), done.stderr.splitlines()


@pytest.mark.check
@pytest.mark.parametrize("separator", [":", ": ", " ", "\t"])
def test_the_stack_of_the_papers_stages_where_the_configuration_says(
    tmp_path: Path, expected: bytes, separator: str
) -> None:
    config = configuration(tmp_path, separator)
    text = f"config={config.name};{STACK}"
    data, told = written(with_cache_vol(tmp_path, text, HDF5_CACHE_WR="yes"), tmp_path)
    assert data == expected
    assert bytes_staged(tmp_path) > 0
    assert [line for line in told if "asynchrony" in line] == told
    assert len(told) == 1
    assert list((tmp_path / "local-storage").iterdir())  # the folder of this user stays


def test_a_user_is_told_once_that_there_is_no_async_vol(tmp_path: Path, expected: bytes) -> None:
    """Its string is the one that all documents of Cache VOL have."""
    environment = with_cache_vol(tmp_path, HDF5_CACHE_WR="yes")
    lines = [written(environment, tmp_path)[1] for _ in range(3)]
    assert [len(told) for told in lines] == [1, 0, 0], lines
    assert (tmp_path / "data.h5").read_bytes() == expected
    elsewhere = with_cache_vol(tmp_path / "elsewhere", HDF5_CACHE_WR="yes")
    assert written(elsewhere, tmp_path)[1] == []


@pytest.mark.parametrize("text", ["{0};under_vol=0", "under_vol=0;{0}", "under_info={};{0};under_vol=0;", "{0}"])
def test_the_pairs_come_in_any_order(tmp_path: Path, expected: bytes, text: str) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    config = f"config={configuration(folder)}"
    data, told = written(with_cache_vol(folder, text.replace("{0}", config), HDF5_CACHE_WR="yes"), folder)
    assert (data, told) == (expected, [])
    assert bytes_staged(folder) > 0


@pytest.mark.parametrize("value", [None, "no", "0", "off"])
def test_nothing_is_staged_unless_asked_for(tmp_path: Path, expected: bytes, value: str | None) -> None:
    more = {} if value is None else {"HDF5_CACHE_WR": value}
    data, _ = written(with_cache_vol(tmp_path, **more), tmp_path)
    assert data == expected
    assert bytes_staged(tmp_path) == 0
    assert asides(tmp_path) == {"disabled": 1}


def test_an_option_of_forebay_overrides_variable_and_file(tmp_path: Path, expected: bytes) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = with_cache_vol(tmp_path, HDF5_CACHE_WR="no", FOREBAY_STAGE="on", FOREBAY_NLS=str(elsewhere))
    data, _ = written(environment, tmp_path)
    assert data == expected
    assert bytes_staged(tmp_path) > 0
    assert list(elsewhere.iterdir())
    assert not list((tmp_path / "local-storage").iterdir())


def test_variables_of_the_first_generation_name_the_storage(tmp_path: Path, expected: bytes) -> None:
    storage = tmp_path / "ssd"
    storage.mkdir()
    environment = with_cache_vol(
        tmp_path, "under_vol=0", HDF5_CACHE_WR="yes", HDF5_LOCAL_STORAGE_PATH=str(storage), HDF5_WRITE_CACHE_SIZE="4e6"
    )
    data, told = written(environment, tmp_path)
    assert (data, told) == (expected, [])
    assert bytes_staged(tmp_path) > 0
    assert list(storage.iterdir())


def test_what_cannot_be_honoured_is_told_once(tmp_path: Path, expected: bytes) -> None:
    config = configuration(tmp_path, HDF5_CACHE_STORAGE_SCOPE="GLOBAL", HDF5_CACHE_UNHEARD_OF="3")
    environment = with_cache_vol(tmp_path, f"config={config};under_vol=0", HDF5_CACHE_WR="yes")
    data, told = written(environment, tmp_path)
    assert data == expected
    assert bytes_staged(tmp_path) > 0
    assert len(told) == 2
    assert any("HDF5_CACHE_STORAGE_SCOPE=GLOBAL" in line for line in told)
    assert any("HDF5_CACHE_UNHEARD_OF" in line for line in told)


def test_storage_of_type_memory_is_staged(tmp_path: Path, expected: bytes) -> None:
    config = configuration(tmp_path, HDF5_CACHE_STORAGE_TYPE="MEMORY", HDF5_CACHE_STORAGE_PATH="NULL")
    data, told = written(with_cache_vol(tmp_path, f"config={config}", HDF5_CACHE_WR="yes"), tmp_path)
    assert (data, told) == (expected, [])
    assert bytes_staged(tmp_path) > 0


HOSTILE = {
    "missing": None,
    "directory": Path,
    "binary": bytes(range(256)) * 40,
    "long lines": b"HDF5_CACHE_STORAGE_PATH: /" + b"x" * 100_000 + b"\n",
    "type": b"HDF5_CACHE_STORAGE_TYPE: TAPE\n",
    "size": b"HDF5_CACHE_STORAGE_SIZE: 1e999\n",
    "sizes": b"HDF5_CACHE_STORAGE_SIZE: 1GiB\nHDF5_CACHE_WRITE_BUFFER_SIZE: 2GiB\n",
    "path": b"HDF5_CACHE_STORAGE_PATH: /nowhere/at/all\n",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_configuration_leaves_the_program_alone(tmp_path: Path, expected: bytes, what: str) -> None:
    config, content = tmp_path / "hostile.cfg", HOSTILE[what]
    if isinstance(content, bytes):
        config.write_bytes(content)
    elif content is Path:
        config.mkdir()
    data, told = written(with_cache_vol(tmp_path, f"config={config}", HDF5_CACHE_WR="yes"), tmp_path)
    assert data == expected
    assert told
    strict = with_cache_vol(tmp_path, f"config={config}", HDF5_CACHE_WR="yes", FOREBAY_STRICT="on")
    done = run([sys.executable, "-c", WRITE], strict, tmp_path)
    assert done.returncode in (0, 1)  # an exception of Python, or what is passed over is no error
    if what not in ("binary",):
        assert done.returncode == 1, done.stderr
        assert "OSError" in done.stderr or "Error" in done.stderr


def test_another_connector_beneath_that_is_not_there_is_told(tmp_path: Path, expected: bytes) -> None:
    text = f"config={configuration(tmp_path)};under_vol=517;under_info={{}}"
    data, told = written(with_cache_vol(tmp_path, text, HDF5_CACHE_WR="yes"), tmp_path)
    assert data == expected
    assert any("under_vol=517" in line for line in told)
    assert statistics(tmp_path) == []


def test_another_connector_beneath_is_stacked_and_what_is_not_staged_is_told(tmp_path: Path, expected: bytes) -> None:
    text = f"under_info={{under_vol=0;under_info={{}}}};under_vol=pass_through;config={configuration(tmp_path)}"
    data, told = written(with_cache_vol(tmp_path, text, HDF5_CACHE_WR="yes"), tmp_path)
    assert data == expected
    assert told == [
        "forebay: under_vol=pass_through: what a connector beneath writes, other than HDF5's own, is not staged"
    ]
    assert asides(tmp_path) == {"under_connector": 1}


def test_datasets_may_be_prefetched_when_they_are_opened(tmp_path: Path, expected: bytes) -> None:
    (tmp_path / "data.h5").write_bytes(expected)
    read = "import h5py; print(h5py.File('data.h5')['step2/plain'][...].sum(), h5py.File('data.h5')['step1/packed'][7])"
    environment = with_cache_vol(tmp_path, HDF5_CACHE_RD="yes", DATASET_PREFETCH_AT_OPEN="yes")
    assert run_python(read, environment, tmp_path) == run_python(read, native(), tmp_path)


READ = """
import h5py
with h5py.File("data.h5") as file:
    print(file["step1/plain"][...].sum())
"""


def test_the_example_of_the_documents_that_caches_nothing_gets_a_hint(tmp_path: Path, expected: bytes) -> None:
    (tmp_path / "data.h5").write_bytes(expected)
    environment = with_cache_vol(tmp_path, f"config={configuration(tmp_path)}", HDF5_CACHE_WR="yes")
    done = run([sys.executable, "-c", READ], environment, tmp_path)
    assert done.returncode == 0 and done.stdout == run_python(READ, native(), tmp_path)
    assert len(done.stderr.splitlines()) == 1 and "HDF5_CACHE_RD=yes" in done.stderr, done.stderr
    for more in ({"HDF5_CACHE_RD": "no"}, {"HDF5_CACHE_RD": "yes"}):
        done = run([sys.executable, "-c", READ], {**environment, **more}, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
