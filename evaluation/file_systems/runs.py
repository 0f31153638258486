"""Programs with forebay and without, on a mount; and the rows of the table."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RIGHT, TOLD, WRONG, FAILED, SKIPPED = "right", "told", "wrong", "failed", "skipped"
BAD = (WRONG, FAILED)
_VARIABLES_OF_FOREBAY = ("HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH", "FOREBAY_")
# The variables of tools/env, which name builds.
_KEPT = ("FOREBAY_HDF5_", "FOREBAY_CACHE", "FOREBAY_BUILD_DIR", "FOREBAY_PLUGIN_DIR")


@dataclass
class Row:
    """One trial on one file system."""

    trial: str
    outcome: str  # RIGHT: every byte; TOLD: an error was reported, and nothing that was flushed is lost; or a BAD one
    ran: str = ""
    wrong_bytes: int = 0
    told: str = ""

    def as_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Places:
    """The build, a folder of the file system on each client, and a fresh folder on this node."""

    build: Path
    target: Path
    other: Path  # the same folder as `target`, through the other client
    local: Path

    def program(self, name: str) -> Path:
        return self.build / "bench" / name

    @property
    def forebay(self) -> Path:
        return self.build / "bin" / "forebay"

    def native(self) -> dict[str, str]:
        """The environment without a connector. Its registry knows no areas of other programs."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_VARIABLES_OF_FOREBAY) or name.startswith(_KEPT)
        }
        return kept | {"FOREBAY_REGISTRY": str(self.registry())}

    def registry(self) -> Path:
        registry = self.local / "registry"
        registry.mkdir(exist_ok=True)
        return registry

    def area(self) -> Path:
        area = self.local / "area"
        area.mkdir(exist_ok=True)
        return area

    def staged(self, info: str = "") -> dict[str, str]:
        """The environment with forebay; its statistics go to `self.statistics()`."""
        return self.native() | {
            "HDF5_VOL_CONNECTOR": f"forebay {info}".strip(),
            "HDF5_PLUGIN_PATH": str(self.build / "plugins"),
            "FOREBAY_NLS": str(self.area()),
            "FOREBAY_STATS": str(self.local / "statistics.jsonl"),
        }

    def statistics(self) -> list[dict]:
        """Returns the lines of statistics since the last call."""
        path = self.local / "statistics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


# Not of the form FOREBAY_…, which are options.
MARK = f"EVALUATION_OF_FOREBAY={os.getpid()}"


def end_marked() -> None:
    """Kills, each by its id, the processes with this program's mark: also ranks that their launcher has left."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and MARK.encode() in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def run(
    command: Sequence[object], environment: dict[str, str], seconds_max: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command. One that has not ended in time is killed, and counts as ended with status -1."""
    words = [str(word) for word in command]
    name, _, value = MARK.partition("=")
    try:
        return subprocess.run(
            words, env=environment | {name: value}, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=seconds_max,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        end_marked()
        return subprocess.CompletedProcess(words, -1, "", f"it has not ended in {seconds_max:.0f} s")


def run_python(code: str, *arguments: object, environment: dict[str, str], seconds_max: float = 120):
    return run([sys.executable, "-c", code, *arguments], environment, seconds_max)


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "no output"


def staged_bytes(statistics: list[dict]) -> int:
    return sum(line["file"]["staged"] for line in statistics if "file" in line)
