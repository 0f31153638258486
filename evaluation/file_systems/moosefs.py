"""MooseFS: a master and two chunk servers; each chunk is on one of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from file_systems.served import ADDRESS, READY_S_MAX, ServedFileSystem, kill, wait_until

AS_ROOT = "WORKING_USER = root\nWORKING_GROUP = root\nNICE_LEVEL = 0\n"
PORTS = (9422, 9432)  # of the chunk servers
NEW_METADATA = b"MFSM NEW"  # the content of a master's file of metadata before its first start


class MooseFS(ServedFileSystem):
    """Its master refuses chunk servers at 127.0.0.1, so they are at the namespace's address."""

    name = "MooseFS"
    layout = "two chunk servers, one copy of each chunk"
    has_sure_versions = False  # its mount is of type fuse, without a name
    tools = ("mfsmaster", "mfschunkserver", "mfsmount", "mfssetgoal")

    def version(self) -> str:
        told = subprocess.run(["mfsmount", "-V"], capture_output=True, text=True)
        found = re.search(r"MFS version: (\S+)", told.stdout + told.stderr)
        return found[1] if found else "of unknown version"

    def start(self) -> None:
        (self.folder / "master").mkdir()
        (self.folder / "master" / "metadata.mfs").write_bytes(NEW_METADATA)
        exports, topology = self.file_of("exports", "* / rw,alldirs,maproot=0\n"), self.file_of("topology", "")
        settings = self.file_of(
            "master.cfg",
            f"{AS_ROOT}DATA_PATH = {self.folder / 'master'}\nEXPORTS_FILENAME = {exports}\n"
            f"TOPOLOGY_FILENAME = {topology}\nLOCK_MEMORY = 0\n",
        )
        self.network.start("mfsmaster", "-c", settings, "-f", "start", log=self.folder / "master.log")
        self.stores = [self.start_store(number) for number in range(len(PORTS))]
        wait_until(lambda: self.registered() >= len(PORTS), READY_S_MAX, "the chunk servers have not met the master")

    def registered(self) -> int:
        """Returns how many times a chunk server has registered at the master."""
        return (self.folder / "master.log").read_text(errors="replace").count("chunkserver register end")

    def start_store(self, number: int) -> subprocess.Popen[bytes]:
        for name in (f"chunks{number}", f"state{number}"):
            (self.folder / name).mkdir(exist_ok=True)
        disks = self.file_of(f"disks{number}", f"{self.folder / f'chunks{number}'}\n")
        settings = self.file_of(
            f"store{number}.cfg",
            f"{AS_ROOT}DATA_PATH = {self.folder / f'state{number}'}\nHDD_CONF_FILENAME = {disks}\n"
            f"MASTER_HOST = {ADDRESS}\nBIND_HOST = {ADDRESS}\nCSSERV_LISTEN_PORT = {PORTS[number]}\n"
            "HDD_LEAVE_SPACE_DEFAULT = 64MiB\nMASTER_RECONNECTION_DELAY = 1\n",
        )
        return self.network.start(
            "mfschunkserver", "-c", settings, "-f", "start", log=self.folder / f"store{number}.log"
        )

    def mount_command(self, place: Path) -> list[str | Path]:
        return ["mfsmount", place, "-H", ADDRESS]

    def attach(self) -> None:
        super().attach()
        self.network.run("mfssetgoal", "-r", "1", self.mount)

    def kill_store(self) -> None:
        kill(self.stores[1])

    def return_store(self) -> None:
        before = self.registered()
        self.stores[1] = self.start_store(1)
        wait_until(lambda: self.registered() > before, READY_S_MAX, "the killed chunk server has not met the master")
