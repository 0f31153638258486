#!/usr/bin/env python3
"""Two machines, as far as the network goes: a network namespace each, joined by one wire, and MUNGE for both.

    unshare --net --mount two_machines.py FOLDER    makes them, says so, and waits for the end of standard input

MUNGE's daemon has a key of its own in FOLDER, and its socket at the place that is built into MUNGE; that place is
private to these namespaces, as is the rest of /run. `Machines` starts it, for tests.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PARALLEL = Path(__file__).resolve().parents[1] / "conformance" / "parallel"
MUNGE_SOCKET = Path("/run/munge/munge.socket.2")


def main(folder: Path) -> None:
    sys.path.insert(0, str(PARALLEL))
    import two_networks  # noqa: PLC0415

    two_networks.make()
    MUNGE_SOCKET.parent.mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o400)
    key.chmod(0o600)
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    # In the foreground, as our child, so that it ends with us. Without --foreground it returns once it listens; then
    # its number is in the file.
    daemon = [f"--key-file={key}", f"--socket={MUNGE_SOCKET}", f"--pid-file={folder}/munged.pid"]
    logs = [f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"]
    subprocess.run(["munged", "--force", *daemon, *logs], check=True, stdout=2, stdin=subprocess.DEVNULL)
    print("ready", flush=True)
    sys.stdin.read()
    os.kill(int((folder / "munged.pid").read_text()), 15)


class Machines:
    """`first` and `second` are what comes before a command to start it there; `address` is the first one's."""

    address = "10.77.0.1"

    def __init__(self, folder: Path):
        if os.getuid() != 0:
            pytest.skip("MUNGE's daemon and network namespaces need root here")
        for needed in ("munged", "ip", "unshare", "nsenter"):
            if shutil.which(needed) is None:
                pytest.skip(f"{needed} is not installed")
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", sys.executable, __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self.process.stdout.readline() != "ready\n":
            _, errors = self.process.communicate()
            pytest.skip(f"two networks with MUNGE cannot be made: {' '.join(errors.split())[-300:]}")
        enter = ["nsenter", "--mount", f"--target={self.process.pid}", "ip", "netns", "exec"]
        self.first, self.second = [*enter, "first"], [*enter, "second"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=60)

    def without_munge(self) -> None:
        subprocess.run([*self.first, "mv", MUNGE_SOCKET, f"{MUNGE_SOCKET}.away"], check=True)

    def with_munge(self) -> None:
        subprocess.run([*self.first, "mv", f"{MUNGE_SOCKET}.away", MUNGE_SOCKET], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
