"""A Slurm of two nodes on this machine, for as long as a test needs it: munged, slurmctld and a slurmd for each node.

All files are in one folder, all ports are free ones, and nothing of an installed Slurm is used but its programs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS_MAX = 300
NODES = ("n1", "n2")
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "sinfo", "runuser")


def missing() -> str | None:
    """Why there can be no Slurm here; nothing: there can."""
    lacking = [name for name in _PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"no {', '.join(lacking)}: packages slurmctld, slurmd, slurm-client and munge"
    return None if os.geteuid() == 0 else "slurmd runs as root only"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as sockets:
        taken = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


def _until(what: str, done, log: Path) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen in {SECONDS_MAX} s: {log.read_text()[-2000:]}")
        time.sleep(0.05)


@dataclass(frozen=True)
class Cluster:
    """What is needed to run jobs on it."""

    folder: Path
    variables: dict[str, str]

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        command = [str(word) for word in words]
        return subprocess.run(
            command, env=self.variables, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )

    def run_job(self, node: str, script: Path, **variables: str) -> str:
        """Runs a batch job on a node, and returns its number once the node's epilog has ended, too."""
        names = ",".join(["ALL", *(f"{name}={value}" for name, value in variables.items())])
        done = self.run("sbatch", "--parsable", f"--export={names}", "-w", node, "-o", "job-%j.txt", script)
        assert done.returncode == 0, done.stderr
        number = done.stdout.strip()
        log = self.folder / "slurmctld.log"

        def has_ended() -> bool:
            asked = self.run("squeue", "-h", "-j", number)
            return asked.returncode == 0 and not asked.stdout.strip()

        _until(f"the end of job {number}", has_ended, log)
        return number

    def state_of(self, node: str) -> str:
        return self.run("sinfo", "-h", "-n", node, "-o", "%T").stdout.strip()


@contextlib.contextmanager
def cluster(folder: Path, epilog: Path, variables: dict[str, str]) -> Iterator[Cluster]:
    """Two idle nodes, each of which runs `epilog` after each job."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    control, *ports = _free_ports(1 + len(NODES))
    host = socket.gethostname()
    configuration = folder / "slurm.conf"
    lines = [
        "ClusterName=forebay",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={control}",
        "SlurmUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder}/munge.socket",
        "CredType=cred/munge",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool-%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd-%n.pid",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "MpiDefault=none",
        "ReturnToService=2",
        f"Epilog={epilog}",
        *(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1"
            for node, port in zip(NODES, ports, strict=True)
        ),
        "PartitionName=all Nodes=ALL Default=YES State=UP",
    ]
    configuration.write_text("\n".join(lines) + "\n")
    (folder / "state").mkdir()
    env = variables | {"SLURM_CONF": str(configuration)}
    commands = {
        "munged": [
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"),
            *(f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munged.seed", f"--log-file={folder}/munge.log"),
        ],
        "slurmctld": ["slurmctld", "-D", "-f", str(configuration)],
        **{node: ["slurmd", "-D", "-N", node, "-f", str(configuration)] for node in NODES},
    }
    made = Cluster(folder, env)
    comes_up = {
        "munged": lambda: (folder / "munge.socket").exists(),
        "slurmctld": lambda: "is UP" in made.run("scontrol", "ping").stdout,
    }
    running: list[subprocess.Popen] = []
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("w") as log:
                running.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
            if name in comes_up:
                _until(name, comes_up[name], folder / f"{name}.log")
        for node in NODES:
            _until(f"node {node}", lambda node=node: made.state_of(node) == "idle", folder / "slurmctld.log")
        yield made
    finally:
        for process in reversed(running):
            process.terminate()
        for process in reversed(running):
            try:
                process.wait(timeout=SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
