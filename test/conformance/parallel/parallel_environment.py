"""Starts MPI programs natively and through the connector, and asks the counters whether their files were staged.

The option `node` plays several nodes on one machine. Ranks that give different names count as on different nodes.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import two_networks
from connector_environment import ROOT, hdf5_prefix, reasons, statistics, statistics_file

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
PROGRAMS = Path(os.environ.get("FOREBAY_PARALLEL_PROGRAMS", BUILD / "test"))
LONG = os.environ.get("FOREBAY_TEST_LONG") == "1"
# The MPI that the tests' programs are compiled with, and HDF5 too.
MPI = os.environ.get("FOREBAY_HDF5_MPI") or "mpich"
TWO_NETWORKS = Path(two_networks.__file__)
# So long may a launcher take to end its ranks before they are ended for it.
GRACE_SECONDS = 15


@dataclass(frozen=True)
class Launch:
    """What came of one MPI launch."""

    command: str
    returncode: int
    stdout: str
    stderr: str
    hung: str | None = None  # not None: it was ended for taking too long; the ranks' stacks if they could be had

    def told(self) -> str:
        """For the message of a failed assertion."""
        ended = f"status {self.returncode}" if self.hung is None else f"ended for taking too long {self.hung}"
        return f"{self.command}: {ended}\n{self.stdout[-3000:]}\n{self.stderr[-3000:]}"


def launcher(mpi: str = MPI) -> list[str]:
    """The command that starts ranks, also as root and more of them than there are processors."""
    found = shutil.which(f"mpiexec.{mpi}") or (shutil.which("mpiexec") if mpi == MPI else None)
    if found is None:
        pytest.skip(f"no mpiexec of {mpi}")
    return [found, "--allow-run-as-root", "--oversubscribe"] if mpi == "openmpi" else [found]


def in_two_networks(ranks: int) -> tuple[list[str], list[str], dict[str, str]]:
    """What to put before MPICH's launcher, what to put after it, and the variables to set.

    The ranks are spread evenly and in order, as with node_names.
    """
    own_user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    before = ["unshare", *own_user, "--net", "--mount", sys.executable, str(TWO_NETWORKS), "run"]
    after = [
        "-hosts",
        ",".join(two_networks.ADDRESSES),
        "-ppn",
        str((ranks + 1) // 2),
        "-iface",
        two_networks.WIRE,
        "-launcher",
        "ssh",
        "-launcher-exec",
        str(TWO_NETWORKS),
    ]
    return before, after, {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": two_networks.WIRE}


def prefix_of(mpi: str) -> Path:
    """Where the HDF5 lies that was built with this MPI."""
    if mpi == MPI:
        return hdf5_prefix()
    prefix = os.environ.get(f"FOREBAY_HDF5_{mpi.upper()}")
    if prefix is None:
        pytest.skip(f"there is no HDF5 with {mpi}: tools/setup hdf5-{mpi} builds one where that MPI is installed")
    return Path(prefix)


def program(name: str) -> Path:
    """One of the programs beside these tests."""
    path = PROGRAMS / name
    if os.environ.get("FOREBAY_HDF5_PARALLEL") != "ON":
        pytest.skip("this HDF5 is not parallel")
    if not path.exists():
        pytest.fail(f"{path} is missing: run `make build`")
    return path


def node_names(ranks: int, nodes: int) -> list[dict[str, str]]:
    """One dictionary of variables per rank; the ranks are spread evenly over the nodes, in order."""
    if nodes == 1:
        return [{} for _ in range(ranks)]
    return [{"FOREBAY_NODE": "abcdefgh"[rank * nodes // ranks]} for rank in range(ranks)]


def launch(
    command: list,
    environment: dict[str, str],
    folder: Path,
    ranks: int,
    seconds_max: float,
    per_rank: list[dict[str, str]] | None = None,
    preload: tuple[Path, ...] = (),
    mpi: str = MPI,
    networks: bool = False,
    before_rank: dict[int, list[str]] | None = None,
) -> Launch:
    """Runs `command` on `ranks` ranks in `folder`; never longer than `seconds_max` and what ending it takes.

    `before_rank` is what to put before the command of single ranks.
    With `networks` half of the ranks are in a network of their own; see two_networks.py.
    """
    folder.mkdir(parents=True, exist_ok=True)
    leaving = (PROGRAMS / "quiet_leave.so",) if networks else ()
    # A sanitizer that programs were built with has to come before all other libraries.
    first = filter(None, [os.environ.get("FOREBAY_SANITIZER_LIBRARY")])
    libraries = ":".join(str(path) for path in (*first, *preload, *leaving, PROGRAMS / "yielding_progress.so"))
    before, after, more = in_two_networks(ranks) if networks else ([], [], {})
    words = [*before, *launcher(mpi), *after]
    outputs = folder.with_name(folder.name + "-outputs")
    if mpi == "openmpi":  # which else passes on what the ranks say in pieces that end anywhere
        shutil.rmtree(outputs, ignore_errors=True)
        words += ["--output-filename", f"{outputs}:nocopy"]
    if before_rank and not per_rank:
        per_rank = [{}] * ranks
    for at, variables in enumerate(per_rank or [{}]):
        if at > 0:
            words.append(":")
        settings = [f"{name}={value}" for name, value in {"LD_PRELOAD": libraries, **variables}.items()]
        words += [
            "-n",
            str(1 if per_rank else ranks),
            *(before_rank or {}).get(at, []),
            "env",
            *settings,
            *map(str, command),
        ]
    # MPI's transport library would catch crashes and wait for a debugger, and complain of the machine in the output.
    environment = {**environment, "UCX_HANDLE_ERRORS": "none", "UCX_LOG_LEVEL": "fatal", **more}
    process = subprocess.Popen(
        words,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        stdout, stderr = process.communicate(timeout=seconds_max)
        stdout += "".join(path.read_text(errors="replace") for path in sorted(outputs.glob("*/rank.*/stdout")))
        stderr += "".join(path.read_text(errors="replace") for path in sorted(outputs.glob("*/rank.*/stderr")))
        return Launch(shlex.join(words), process.returncode, stdout, stderr)
    except subprocess.TimeoutExpired:
        ranks_running = descendants(process.pid)
        hung = "".join(stacks_of(pid) for pid in ranks_running)
        stdout, stderr = end(process, ranks_running)
        return Launch(shlex.join(words), process.returncode, stdout, stderr, hung)


def end(process: subprocess.Popen, ranks_running: list[int]) -> tuple[str, str]:
    """Ends the launcher, which ends its ranks; then, by their ids, whatever is left of them."""
    process.terminate()
    try:
        return process.communicate(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        for pid in [process.pid, *ranks_running]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return process.communicate()


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have started, as far as they still run."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has just ended
        children.setdefault(parent, []).append(int(path.parent.name))
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    return found


def stacks_of(pid: int) -> str:
    """Where the threads of a hanging rank are, if there is a debugger that can tell."""
    debugger = shutil.which("gdb")
    if debugger is None:
        return ""
    try:
        told = subprocess.run(
            [debugger, "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 40"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    frames = [line[:200] for line in told.stdout.splitlines() if re.match(r"#|Thread ", line)]
    return "\n  ".join([f"\nprocess {pid}:", *frames])


# ---- what the counters say ---------------------------------------------------------------------------


def process_lines(folder: Path) -> list[dict]:
    path = statistics_file(folder)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line["process"] for line in lines if "process" in line]


def asides_by_reason(folder: Path) -> dict[str, int]:
    """Files that were not staged, by reason, over all ranks; those that are only read are left out."""
    counted: dict[str, int] = {}
    for process in process_lines(folder):
        for reason, count in (process.get("aside") or {}).items():
            if reason != "read_only":
                counted[reason] = counted.get(reason, 0) + count
    return counted


def assert_staged(folder: Path, ranks: int) -> None:
    """Every rank staged files, bytes were staged, none of them is left over, and nothing failed on the way home."""
    processes = process_lines(folder)
    assert len(processes) == ranks, f"{len(processes)} of {ranks} ranks said what they staged"
    told = f"{processes} {reasons(folder)}"
    assert all(process.get("files_staged", 0) > 0 for process in processes), told
    files = statistics(folder)
    assert sum(entry["staged"] for entry in files) > 0, told
    assert [entry for entry in files if entry["error"]] == []
    left = [path for path in (folder / "staging-area").rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert left == [], "left on the staging area"
