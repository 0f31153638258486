#!/usr/bin/env python3
"""Two machines, as far as the network goes: a network namespace each, joined by one wire.

    unshare --net --mount two_machines.py    makes them, says so, and waits for the end of standard input

Both have one user's key for staging servers. `Machines` starts it, for tests.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PARALLEL = Path(__file__).resolve().parents[1] / "conformance" / "parallel"


def main() -> None:
    sys.path.insert(0, str(PARALLEL))
    import two_networks  # noqa: PLC0415

    two_networks.make()
    print("ready", flush=True)
    sys.stdin.read()


class Machines:
    """`first` and `second` are what comes before a command to start it there; `address` is the first one's."""

    address = "10.77.0.1"

    def __init__(self, folder: Path):
        if os.getuid() != 0:
            pytest.skip("network namespaces need root here")
        for needed in ("ip", "unshare", "nsenter"):
            if shutil.which(needed) is None:
                pytest.skip(f"{needed} is not installed")
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self.process.stdout.readline() != "ready\n":
            _, errors = self.process.communicate()
            pytest.skip(f"two networks cannot be made: {' '.join(errors.split())[-300:]}")
        enter = ["nsenter", "--mount", f"--target={self.process.pid}", "ip", "netns", "exec"]
        key = ["env", f"FOREBAY_SERVER_KEY={folder}/server.key"]
        self.first, self.second = [*enter, "first", *key], [*enter, "second", *key]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=60)


if __name__ == "__main__":
    main()
