"""A staging server, and programs that write through it, for tests."""

import fcntl
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

from connector_environment import ROOT, native, plugin_folder

# Reads lines of Python, carries each out, and says how that went.
PROGRAM = """
import sys
import h5py, numpy as np
for line in sys.stdin:
    try:
        exec(line, globals())
        print("ok", flush=True)
    except Exception as error:
        print("error " + " ".join(str(error).split()), flush=True)
"""


def command() -> str:
    return str(Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release")) / "bin" / "forebay")


_reserved: list[socket.socket] = []  # until this process ends


def tcp_address() -> str:
    """An address that is this process's own: a server can take it, and come back to it.

    It is bound here, so that neither a connection nor another test gets it. A server may bind it as well, as both say
    SO_REUSEADDR, and this one does not listen. Said after it was bound, it gave way to nobody.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(1000):
        port = random.SystemRandom().randrange(max(lowest // 2, 1024), lowest)
        tried = socket.socket()
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            tried.close()
            continue
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _reserved.append(tried)
        return f"127.0.0.1:{port}"
    raise AssertionError("no port is free")


class Server:
    """`forebay serve` with a staging area of its own; ends with the block, by SIGTERM unless it has ended."""

    def __init__(self, folder: Path, listen: str | None = None, *more: str, on: list[str] | None = None):
        self.on = on or []  # the command that starts others on another machine
        self.folder = folder
        self.area = folder / "server-area"
        self.area.mkdir(parents=True, exist_ok=True)
        self.statistics_file = folder / "server.jsonl"
        self.listen = listen or f"unix:{folder}/socket"
        self.more = more
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.on, command(), "serve", "--listen", self.listen, "--nls", str(self.area), *self.more]
            + ["-o", f"stats={self.statistics_file}"],
            env=native(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("forebay serve: ready at "), (line, self.process.stderr.read() if not line else "")
        self.address = line.split()[-1]

    def end(self, how=signal.SIGTERM, status=0) -> str:
        """What it has reported."""
        self.process.send_signal(how)
        _, errors = self.process.communicate(timeout=120)
        if how == signal.SIGTERM:
            assert self.process.returncode == status, errors
        return errors

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.end(signal.SIGTERM if kind is None else signal.SIGKILL)

    def report(self, begin: str = "") -> str:
        """The next line of its report that contains this."""
        for line in self.process.stderr:
            if begin in line:
                return line
        raise AssertionError(f"it has not reported {begin!r}")

    def files(self) -> list[dict]:
        lines = self.statistics_file.read_text().splitlines() if self.statistics_file.exists() else []
        return [line["file"] for line in map(json.loads, lines) if "file" in line]

    def left(self) -> list[str]:
        """Process directories in its staging area."""
        return [
            entry.name
            for folder in self.area.glob("forebay-*")
            for entry in folder.iterdir()
            if entry.name[0].isdigit() and entry.name.count("-") == 2
        ]


def through(address: str, folder: Path, info: str = "", **more: str) -> dict[str, str]:
    """The environment of a program that writes through the server, and has no staging area."""
    return native(
        HDF5_VOL_CONNECTOR=f"forebay server={address};nls={folder}/there-is-none;stats={folder}/client.jsonl;{info}",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
        **more,
    )


def client_reasons(folder: Path) -> dict[str, int]:
    """Why the programs' files were not staged there, over all of them."""
    counted: dict[str, int] = {}
    for line in map(json.loads, (folder / "client.jsonl").read_text().splitlines()):
        for reason, count in (line.get("process", {}).get("aside") or {}).items():
            counted[reason] = counted.get(reason, 0) + count
    return counted


class Client:
    def __init__(self, folder: Path, variables: dict[str, str], on: list[str] | None = None):
        self.process = subprocess.Popen(
            [*(on or []), "env", f"--chdir={folder}", sys.executable, "-c", PROGRAM],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def begin(self, line: str):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def reply(self) -> str:
        return self.process.stdout.readline().rstrip("\n")

    def waits(self, seconds: int = 1) -> bool:
        """Whether it has not replied so much later."""
        return not select.select([self.process.stdout], [], [], seconds)[0]

    def do(self, line: str) -> str:
        self.begin(line)
        return self.reply()

    def must(self, *lines: str):
        for line in lines:
            said = self.do(line)
            assert said == "ok", (line, said)

    def end(self) -> str:
        """What it has said on standard error."""
        _, errors = self.process.communicate(timeout=120)
        return errors

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


class LastWrite:
    """What a server that has lost a client is still at: it has marked the file, and writes it."""

    SET_LOCK, AWAIT_LOCK = 37, 38  # F_OFD_SETLK, F_OFD_SETLKW

    def __init__(self, file: Path):
        self.file = open(file, "r+b", buffering=0)  # noqa: SIM115: until it ends
        fcntl.fcntl(self.file, self.SET_LOCK, self.mark(fcntl.F_RDLCK))

    @staticmethod
    def mark(kind: int) -> bytes:
        return struct.pack("hhqqi", kind, os.SEEK_SET, 2**63 - 2, 1, 0)

    @classmethod
    def await_end(cls, path: Path) -> None:
        """Until no server has the file marked."""
        with open(path, "r+b", buffering=0) as file:
            fcntl.fcntl(file, cls.AWAIT_LOCK, cls.mark(fcntl.F_WRLCK))

    def end(self):
        os.pwrite(self.file.fileno(), b"late" * 1000, 0)
        self.file.close()


def natively(folder: Path, *lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with Client(folder, native()) as program:
        program.must(*lines)
        assert program.end() == ""
