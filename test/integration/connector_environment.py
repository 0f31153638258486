"""Runs programs natively and through the connector, and reads what the connector counted.

Used by the tests of the connector here and by the conformance tests beside them. `tools/env` provides the variables.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from forebay.slowfs import SlowFS

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("FOREBAY_CACHE", Path.home() / ".cache" / "forebay"))
CLOCK_BEHIND_S = 3600  # of a SlowFS: its files look an hour old, so the read cache stores them at once


def plugin_folder() -> Path:
    return Path(os.environ.get("FOREBAY_PLUGIN_DIR", ROOT / "build" / "release" / "plugins"))


def hdf5_prefix() -> Path:
    return Path(os.environ.get("FOREBAY_HDF5_PREFIX", CACHE / "hdf5-1.14.5-mpich"))


def native(**more: str) -> dict[str, str]:
    """The environment without a connector and without any option of forebay."""
    # Kept are the variables of tools/env, which name builds and folders.
    # And the registry of staging areas, which each test has to itself (test/conftest.py).
    kept = ("FOREBAY_HDF5_", "FOREBAY_CACHE", "FOREBAY_BUILD_DIR", "FOREBAY_PLUGIN_DIR", "FOREBAY_REGISTRY")
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FOREBAY_", "HDF5_")) or name.startswith(kept)
    }
    return {**plain, **more}


def staging_area(folder: Path, name: str = "staging-area") -> Path:
    """A folder's staging area. With FOREBAY_TEST_AREAS it lies there, and a link in the folder leads to it.

    So the files of a test may be on another file system, and the staging area stays on this node. The result is the
    area's own path, because forebay refuses a staging area that is a symbolic link.
    """
    area, areas = folder / name, os.environ.get("FOREBAY_TEST_AREAS")
    if areas and not area.exists():
        folder.mkdir(parents=True, exist_ok=True)
        area.symlink_to(tempfile.mkdtemp(prefix="area-", dir=areas))
    area.mkdir(parents=True, exist_ok=True)
    return area.resolve() if areas else area


def staged(folder: Path, info: str = "", **more: str) -> dict[str, str]:
    """The environment with the connector on; staging area and statistics are in `folder`."""
    area = staging_area(folder)
    return native(
        **{
            "HDF5_VOL_CONNECTOR": f"forebay {info}".strip(),
            "HDF5_PLUGIN_PATH": str(plugin_folder()),
            "FOREBAY_NLS": str(area),
            "FOREBAY_STATS": str(statistics_file(folder)),
            **more,
        }
    )


def statistics_file(folder: Path) -> Path:
    return folder / "statistics.jsonl"


def _lines(folder: Path) -> list[dict]:
    path = statistics_file(folder)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def statistics(folder: Path) -> list[dict]:
    """One dictionary per file that was closed."""
    return [line["file"] for line in _lines(folder) if "file" in line]


def bytes_staged(folder: Path) -> int:
    return sum(entry["staged"] for entry in statistics(folder))


def reasons(folder: Path) -> set[str]:
    """Why files that had been attached to the engine stopped being staged."""
    return {reason for entry in statistics(folder) for reason in entry["reasons"]}


def asides(folder: Path) -> dict[str, int]:
    """How many files stepped aside, by reason, over all processes; files that are only read are left out."""
    counted: dict[str, int] = {}
    for line in _lines(folder):
        for reason, count in (line.get("process", {}).get("aside") or {}).items():
            if reason != "read_only":
                counted[reason] = counted.get(reason, 0) + count
    return counted


def run(command: list, environment: dict[str, str], cwd: Path, seconds_max: float = 120) -> subprocess.CompletedProcess:
    cwd.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [str(word) for word in command],
        env=environment,
        cwd=cwd,
        timeout=seconds_max,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
    )


def run_python(code: str, environment: dict[str, str], cwd: Path, seconds_max: float = 120) -> str:
    """The standard output of a script; a failure of the script fails the test with its standard error."""
    done = run([sys.executable, "-c", code], environment, cwd, seconds_max)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_samples(files: int, values: int) -> str:
    """A program that writes `files` small files, 0.h5, 1.h5, …, of `values` random bytes and a label each."""
    return f"""
import h5py, numpy as np
for number in range({files}):
    with h5py.File(f"target/{{number}}.h5", "w") as f:
        f["sample"] = np.random.default_rng(number).integers(0, 256, {values}, dtype=np.uint8)
        f.attrs["label"] = number
"""


@contextlib.contextmanager
def slow_files(folder: Path, make: str) -> Iterator[SlowFS]:
    """A slow file system at `target` in the folder, with files that the Python program `make` writes there natively.

    Their times are an hour ago, so the read cache stores them at once.
    """
    with SlowFS(
        folder / "backing",
        folder / "target",
        bandwidth="400MiB/s",
        latency={"read": "0.3ms"},
        clock_behind=CLOCK_BEHIND_S,
    ) as fs:
        run_python(make, native(), folder)
        yield fs
