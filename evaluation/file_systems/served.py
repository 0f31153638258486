"""The common part of all file systems: tools, folders, mounts, and an end in any case."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from file_systems.network import ADDRESS, Network, Unavailable, wait_until

READY_S_MAX = 60


class ServedFileSystem:
    """A file system whose servers run on this machine, in a namespace of their own.

    A subclass starts the servers, mounts the file system, and knows the processes that store its bytes. `clients` are
    two mounts: the second one stands for another machine.
    """

    name = ""
    layout = ""
    tools: tuple[str, ...] = ()
    package = "file-systems"  # the part of tools/setup
    has_sure_versions = True  # forebay's list for read_cache=auto has it
    settled_s = 4  # for attributes that a client keeps, and for files that are too young for read_cache=on

    def __init__(self, network: Network, folder: Path) -> None:
        self.network, self.folder = network, folder
        self.clients = [folder / "mount", folder / "other"]

    @classmethod
    def missing(cls) -> str:
        """Returns why this machine cannot run the file system, or an empty text."""
        absent = [tool for tool in cls.tools if shutil.which(tool) is None]
        if absent:
            return f"{', '.join(absent)} not installed: tools/setup {cls.package}"
        if os.geteuid() != 0:
            return "mounting needs root"
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            return "/dev/fuse is missing or closed"
        return ""

    @property
    def mount(self) -> Path:
        return self.clients[0]

    def version(self) -> str:
        """Returns the version that the installed program tells."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts the servers. Returns when they can serve a mount."""
        raise NotImplementedError

    def mount_command(self, place: Path) -> list[str | Path]:
        """Returns the command that mounts the file system at a place, and then ends."""
        raise NotImplementedError

    def sizes_right(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which `stat` gives the correct size of a file after each call that changes it."""
        return contextlib.nullcontext()

    def kill_store(self) -> None:
        """Kills one of the processes that store bytes, by its id."""
        raise NotImplementedError

    def return_store(self) -> None:
        """Brings the killed process back. Returns when it serves again."""
        raise NotImplementedError

    def attach(self) -> None:
        for place in self.clients:
            place.mkdir()
            self.mount_at(place)

    def mount_at(self, place: Path) -> None:
        self.network.run(*self.mount_command(place), seconds_max=READY_S_MAX)
        wait_until(lambda: os.path.ismount(place), READY_S_MAX, f"{self.name} is not mounted")

    def attach_again(self) -> None:
        """Mounts again where the client program has died."""
        for place in self.clients:
            try:
                os.statvfs(place)  # which the kernel does not answer from its cache
            except OSError as error:
                if error.errno != errno.ENOTCONN:
                    raise
                subprocess.run(["umount", "-l", place], capture_output=True, timeout=60)
                self.mount_at(place)

    def detach(self) -> None:
        for place in self.clients:
            subprocess.run(["umount", "-l", place], capture_output=True, timeout=60)

    def file_of(self, name: str, text: str) -> Path:
        """Writes a configuration file."""
        path = self.folder / name
        path.write_text(text)
        return path


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a server, and waits for its end."""
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)


@contextlib.contextmanager
def serve(kind: type[ServedFileSystem], folder: Path) -> Iterator[ServedFileSystem]:
    """Mounts a file system of this kind below a folder. In any case, nothing of it is left afterwards."""
    reason = kind.missing()
    if reason:
        raise Unavailable(reason)
    folder.mkdir(parents=True)
    try:
        with Network() as network:
            served = kind(network, folder)
            try:
                served.start()
                served.attach()
                yield served
            finally:
                served.detach()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


__all__ = ["ADDRESS", "ServedFileSystem", "Unavailable", "kill", "serve", "wait_until"]
