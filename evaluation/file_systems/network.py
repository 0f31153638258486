"""A network namespace for the processes of one file system: loopback, one address, and no way out.

The servers keep their usual ports there, and meet no other server of the machine. Each process that ever started in the
namespace is found by it, also a daemon that has left its parent. So the end of the namespace ends them all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

ADDRESS = "10.77.0.1"  # of this machine, inside the namespace alone
END_S_MAX = 20


class Unavailable(Exception):
    """This machine cannot run a file system; the message gives the reason."""


class Network:
    """The namespace, from `__enter__` to `__exit__`. Needs root and the command `ip`."""

    def __init__(self) -> None:
        self.name = f"forebay-{os.getpid()}"

    def __enter__(self) -> Network:
        if shutil.which("ip") is None or shutil.which("nsenter") is None:
            raise Unavailable("the commands ip and nsenter are missing (Debian: iproute2, util-linux)")
        try:
            self._ip("netns", "add", self.name)
        except Unavailable as why:
            raise Unavailable(f"no network namespace can be made: {why}") from None
        try:
            self._ip("-n", self.name, "link", "set", "lo", "up")
            self._ip("-n", self.name, "address", "add", f"{ADDRESS}/32", "dev", "lo")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @staticmethod
    def _ip(*words: str) -> str:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Unavailable(done.stderr.strip() or f"ip {' '.join(words)} failed")
        return done.stdout

    def command(self, *words: str | Path) -> list[str]:
        """Returns the command that runs these words in the namespace, with the mounts of this process."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *map(str, words)]

    def start(self, *words: str | Path, log: Path) -> subprocess.Popen[bytes]:
        """Starts a process that stays in the foreground; its output goes to the log."""
        with log.open("ab") as sink:
            return subprocess.Popen(
                self.command(*words),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, *words: str | Path, check: bool = True, seconds_max: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end. A failure of a checked one is an `Unavailable` with its last line."""
        try:
            done = subprocess.run(
                self.command(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds_max
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{words[0]} has not ended in {seconds_max} s") from None
        if check and done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise Unavailable(f"{words[0]} ended with status {done.returncode}: {said}")
        return done

    def processes(self) -> list[int]:
        """Returns the ids of all processes in the namespace."""
        with contextlib.suppress(Unavailable):
            return [int(word) for word in self._ip("netns", "pids", self.name).split()]
        return []

    def close(self) -> None:
        """Kills the processes of the namespace, each by its id, and removes it."""
        end = time.monotonic() + END_S_MAX
        while time.monotonic() < end and (left := self.processes()):
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process, os.WNOHANG)
            time.sleep(0.05)
        with contextlib.suppress(Unavailable):
            self._ip("netns", "delete", self.name)


def wait_until(true, seconds_max: float, what: str) -> None:
    """Waits until `true()` holds. If it never does, raises `Unavailable` with `what` has not happened."""
    end = time.monotonic() + seconds_max
    while not true():
        if time.monotonic() > end:
            raise Unavailable(f"after {seconds_max:.0f} s, {what}")
        time.sleep(0.05)
