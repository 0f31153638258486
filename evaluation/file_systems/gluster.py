"""GlusterFS: one volume of two bricks, as it comes, or with each file in shards over both."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from file_systems.served import ADDRESS, READY_S_MAX, ServedFileSystem, Unavailable, wait_until

VOLUME = "v"
# With shards, writes and cuts can leave a file too long: natively 6 of 1,800 calls did.
SIZES_RIGHT = ("performance.write-behind", "off")


class GlusterFS(ServedFileSystem):
    """The daemon that manages the volume starts its bricks."""

    name = "GlusterFS"
    layout = "two bricks, no replica"
    options: ClassVar = {"network.ping-timeout": "2"}
    has_sure_versions = False  # with shards, a client does not see each change in a file's times
    settled_s = 62  # its times come late
    tools = ("glusterd", "gluster", "glusterfs", "glusterfsd")

    def version(self) -> str:
        return subprocess.run(["glusterd", "--version"], capture_output=True, text=True).stdout.split()[1]

    def start(self) -> None:
        for name in ("work", "brick0", "brick1"):
            (self.folder / name).mkdir()
        volume = self.file_of(
            "glusterd.vol",
            f"volume management\n type mgmt/glusterd\n option working-directory {self.folder / 'work'}\n"
            f" option run-directory {self.folder / 'work'}\n"
            f" option glusterd-sockfile {self.folder / 'socket'}\n option transport-type socket\nend-volume\n",
        )
        self.network.start(
            "glusterd", "-N", "-f", volume, "-l", self.folder / "glusterd.log", log=self.folder / "glusterd.out"
        )
        wait_until(
            lambda: self.tell("pool", "list", check=False).returncode == 0, READY_S_MAX, "glusterd does not answer"
        )
        bricks = (f"{ADDRESS}:{self.folder / name}" for name in ("brick0", "brick1"))
        self.tell("volume", "create", VOLUME, *bricks, "force")
        for key, value in self.options.items():
            self.tell("volume", "set", VOLUME, key, value)
        self.tell("volume", "start", VOLUME)
        wait_until(lambda: len(self.bricks()) == 2, READY_S_MAX, "the bricks do not run")

    def tell(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.network.run(
            "gluster", "--mode=script", f"--glusterd-sock={self.folder / 'socket'}", *words, check=check
        )

    def bricks(self) -> list[int]:
        """Returns the processes that store bytes: those that are online, in the order of their bricks."""
        shown = self.tell("volume", "status", VOLUME, check=False).stdout
        return [int(number) for number in re.findall(r"Y\s+(\d+)\s*$", shown, re.MULTILINE)]

    def mount_command(self, place: Path) -> list[str | Path]:
        return [
            "glusterfs",
            f"--volfile-server={ADDRESS}",
            f"--volfile-id={VOLUME}",
            f"--log-file={self.folder / 'client.log'}",
            place,
        ]

    def kill_store(self) -> None:
        running = self.bricks()
        if len(running) != 2:
            raise Unavailable(f"{len(running)} bricks run instead of two")
        os.kill(running[1], signal.SIGKILL)

    def return_store(self) -> None:
        def both_run() -> bool:
            # glusterd may not have noticed yet that the brick has to be started.
            self.tell("volume", "start", VOLUME, "force", check=False)
            return len(self.bricks()) == 2

        wait_until(both_run, READY_S_MAX, "the killed brick does not run again")


class ShardedGlusterFS(GlusterFS):
    """The same with shards."""

    name = "GlusterFS-shards"
    layout = "two bricks, shards of 4 MiB, no replica"
    options: ClassVar = {**GlusterFS.options, "features.shard": "on", "features.shard-block-size": "4MB"}

    @contextlib.contextmanager
    def sizes_right(self) -> Iterator[None]:
        name, value = SIZES_RIGHT
        self.tell("volume", "set", VOLUME, name, value)
        try:
            yield
        finally:
            self.tell("volume", "reset", VOLUME, name)
