#!/usr/bin/env python3
"""Two networks on one machine, joined by one wire: a program in the one reaches the other through it only.

    unshare --net --mount two_networks.py run COMMAND…    makes them and runs the command in the first
    two_networks.py [-x] HOST COMMAND…                    what MPI's launcher calls instead of a remote shell

The hosts are ADDRESSES. At the end `run` writes one line to standard error: how many
bytes went over the wire. Everything is gone with the namespaces that `unshare` made.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

ADDRESSES = {"10.77.0.1": "first", "10.77.0.2": "second"}  # each network's address and name
WIRE = "wire"
RTMGRP_LINK = 1


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def make() -> None:
    # The machine's own /run, where names of namespaces are kept, stays as it is.
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    for name in ADDRESSES.values():
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    first, second = ADDRESSES.values()
    ip("link", "add", WIRE, "netns", first, "type", "veth", "peer", "name", WIRE, "netns", second)
    for address, name in ADDRESSES.items():
        ip("-n", name, "address", "add", f"{address}/24", "dev", WIRE)
        ip("-n", name, "link", "set", WIRE, "up")
    for name in ADDRESSES.values():
        subprocess.run(["ip", "netns", "exec", name, sys.executable, __file__, "await"], check=True)


def await_link() -> None:
    """Returns when the wire carries: MPI's transport looks once and takes only interfaces that run."""
    events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    events.bind((0, RTMGRP_LINK))
    events.settimeout(20)
    while Path(f"/sys/class/net/{WIRE}/operstate").read_text().strip() != "up":
        events.recv(65536)


def run(command: list[str]) -> int:
    make()
    first = next(iter(ADDRESSES.values()))
    status = subprocess.run(["ip", "netns", "exec", first, *command], check=False).returncode
    counter = f"/sys/class/net/{WIRE}/statistics/tx_bytes"
    sent = [
        int(
            subprocess.run(
                ["ip", "netns", "exec", name, "cat", counter], capture_output=True, text=True, check=True
            ).stdout
        )
        for name in ADDRESSES.values()
    ]
    print(f"over the wire: {sent[0]} {sent[1]}", file=sys.stderr)
    return status


def enter(words: list[str]) -> None:
    host, *command = [word for word in words if word != "-x"]  # -x is for a remote shell
    # The launcher means its words for a shell, as a remote one would read them.
    os.execvp("ip", ["ip", "netns", "exec", ADDRESSES[host], "sh", "-c", " ".join(command)])


if __name__ == "__main__":
    if sys.argv[1] == "await":
        await_link()
    elif sys.argv[1] == "run":
        sys.exit(run(sys.argv[2:]))
    else:
        enter(sys.argv[1:])
