"""The ways to write a checkpoint that are compared, and what each asks of a program."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from file_systems.network import Network, Unavailable, wait_until

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", Path(__file__).resolve().parents[2] / "build" / "release"))
READY_S_MAX = 60
RIVALS_PYTHON, TORCH_PYTHON = "FOREBAY_HDF5_RIVALS_PYTHON", "FOREBAY_HDF5_EXAMPLES_PYTHON"
PART_OF_SETUP = {RIVALS_PYTHON: "rivals", TORCH_PYTHON: "torch"}


@dataclass(frozen=True)
class Contender:
    """One way. `way` is that of program.py; `changes` says what a program with h5py has to change."""

    name: str
    way: str
    changes: str
    python: str = RIVALS_PYTHON
    connector: str = ""  # HDF5_VOL_CONNECTOR
    mounts_iowarp: bool = False


CONTENDERS = (
    Contender("native h5py, one file", "one-file", "–"),
    Contender("forebay, one file", "one-file", "nothing", connector="forebay"),
    Contender("native h5py, a file for each step", "files", "–"),
    Contender("forebay, close=deferred", "files-deferred", "nothing; one option", connector="forebay close=deferred"),
    Contender(
        "cp to memory and back", "copy-back", "the path; it starts each copy, waits for it, and reports failures"
    ),
    Contender("ADIOS2 BP5", "adios2", "each call of h5py becomes one of ADIOS2; readers need ADIOS2, too"),
    Contender("ADIOS2 BP5, AsyncWrite", "adios2-async", "the same, and one parameter"),
    Contender("torch.save", "torch-save", "tensors instead of datasets; readers need PyTorch", TORCH_PYTHON),
    Contender(
        "torch async_save",
        "torch-async-save",
        "the same, with a process group, and a wait before the next one",
        TORCH_PYTHON,
    ),
    Contender(
        "IOWarp by FUSE",
        "copy-out",
        "the path; a runtime and a mount on each node; it copies the files out at its end",
        mounts_iowarp=True,
    ),
)


@dataclass
class Companion:
    """What a contender needs beside the program."""

    memory: Path
    command: list[str] = field(default_factory=list)  # prefix of the program's command
    network: Network | None = None

    def processes(self) -> list[int]:
        return self.network.processes() if self.network else []


def python_of(contender: Contender) -> str:
    """Returns the Python that has the contender's library."""
    python = os.environ.get(contender.python)
    if not python:
        raise Unavailable(f"not installed: tools/setup {PART_OF_SETUP[contender.python]}")
    return python


def environment_of(contender: Contender, memory: Path) -> dict[str, str]:
    """The program's environment: without forebay, or with it alone."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH", "FOREBAY_", "PYTHONPATH"))
    }
    if contender.connector:
        clean |= {
            "HDF5_VOL_CONNECTOR": contender.connector,
            "HDF5_PLUGIN_PATH": str(BUILD / "plugins"),
            "FOREBAY_NLS": str(memory),
            "FOREBAY_STATS": str(memory.parent / "statistics.jsonl"),
            "FOREBAY_REGISTRY": str(memory.parent),
            "RIVALS_FOREBAY": str(BUILD / "bin" / "forebay"),
        }
    return clean


@contextlib.contextmanager
def companion(contender: Contender, folder: Path) -> Iterator[Companion]:
    """Makes the folder on this node, and starts what else is needed. It all ends with the context."""
    memory = folder / "memory"
    memory.mkdir()
    if not contender.mounts_iowarp:
        yield Companion(memory)
        return
    programs = Path(python_of(contender)).parent
    missing = [name for name in ("clio_run", "clio_cte_fuse") if not (programs / name).exists()]
    if missing:
        raise Unavailable(f"iowarp-core brings no {', '.join(missing)}")
    home, mount = folder / "home", folder / "iowarp"
    home.mkdir()
    mount.mkdir()
    home_of = ("env", f"HOME={home}", "CLIO_WITH_RUNTIME=0")
    with Network() as network:
        try:
            network.start(*home_of, programs / "clio_run", "start", log=folder / "runtime.log")
            network.start(*home_of, programs / "clio_cte_fuse", mount, "-f", log=folder / "client.log")
            wait_until(lambda: os.path.ismount(mount), READY_S_MAX, "clio_cte_fuse has not mounted")
            yield Companion(mount, network.command(), network)
        finally:
            subprocess.run(["umount", "-l", mount], capture_output=True, timeout=60)


def end_group(process: subprocess.Popen) -> None:
    """Kills a program and its children: they have a process group of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
