"""Runs the program of the crash tests, natively and staged, until it is killed."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from connector_environment import ROOT, native, plugin_folder

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
PROGRAM = Path(BUILD, "test", "crash_program")
EPOCHS = 4
# The flags of a superblock of version 2 or 3, and its checksum: they tell a file that is open from one that is not.
MARKS = (slice(11, 12), slice(44, 48))


def program() -> Path:
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing: run `make build`")
    return PROGRAM


def staged(area: Path, **more: str) -> dict[str, str]:
    area.mkdir(parents=True, exist_ok=True)
    return native(
        HDF5_VOL_CONNECTOR="forebay", HDF5_PLUGIN_PATH=str(plugin_folder()), FOREBAY_NLS=str(area), **more
    )


def flushed(stdout: str) -> int:
    """How many epochs the program has told of."""
    return len(re.findall(r"^flushed \d+$", stdout, re.M))


def without_marks(content: bytes) -> bytes:
    unmarked = bytearray(content)
    if unmarked[:8] == b"\x89HDF\r\n\x1a\n" and unmarked[8] >= 2:
        for marks in MARKS:
            unmarked[marks] = bytes(len(unmarked[marks]))
    return bytes(unmarked)


def native_states(folder: Path, libver: str) -> list[bytes]:
    """What the file holds after each number of flushes; 0: when it was just created, which is nothing."""
    folder.mkdir()
    states = [b""]
    for epochs in range(1, EPOCHS + 1):
        path = folder / f"{epochs}.h5"
        done = subprocess.run(
            [program(), path, libver, str(epochs), "0"], env=native(), capture_output=True, text=True, timeout=60
        )
        assert flushed(done.stdout) == epochs, done.stderr
        states.append(without_marks(path.read_bytes()))
    return states


def dead_directories(area: Path) -> list[Path]:
    return sorted(area.glob("forebay-*/*"))
