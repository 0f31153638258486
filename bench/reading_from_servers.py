#!/usr/bin/env python3
"""Times how fast a program gets the units of a file from the read cache of another node's staging server.

One run measures all. A program on the first of two played nodes reads a file in units of 1 MiB from the second node's
server, which has all of it in the replica, while a program of the second node computes: once without room in its own
cache, so that it only receives the bytes, and once with room, so that it stores all of them. A plain socket
copies the same bytes, in pieces of the same size, beside the same programs. Then programs on two nodes with new staging
areas read the file from a slow file system at once, and what that saw is counted.

    tools/env bench/reading_from_servers.py

Prints MiB/s and their ratios to the plain socket (bar: 0.5), medians over the repetitions, and the bytes that the file
system saw (bar: 1.02 x the data). Processor time counts both sides, the program's or receiver's and the server's or
sender's; its ratio is that of bytes per second of it to the plain socket's (bar: 0.8). With --host, an address of this
machine's that is not the loopback interface's, frames are sealed, as between machines. All read data are compared.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forebay.slowfs import SlowFS
from reading import YOUNG_SECONDS, make_rows, plain_environment, told_by

# Reads in random order. The clock starts after the first row, when the connection exists.
READ = """
import json, sys, time, zlib, h5py, numpy as np
path, seed = sys.argv[1], int(sys.argv[2])
with h5py.File(path, "r") as f:
    rows = f["rows"]
    buffer, sums = np.empty(rows.shape[1], dtype=np.uint8), [0] * rows.shape[0]
    server = (~int(sys.argv[3]) << 3) | 2 if len(sys.argv) > 3 else time.CLOCK_PROCESS_CPUTIME_ID  # the server's
    for turn, row in enumerate(np.random.default_rng(seed).permutation(rows.shape[0])):
        if turn == 1:
            start, own, others = time.monotonic(), time.process_time(), time.clock_gettime(server)
        rows.read_direct(buffer, np.s_[int(row)])
        sums[row] = zlib.crc32(buffer[::997].tobytes())
    seconds = time.monotonic() - start
    processor = [time.process_time() - own, time.clock_gettime(server) - others]
    print(json.dumps({"seconds": seconds, "processor": processor, "sum": zlib.crc32(repr(sums).encode())}))
"""

COMPUTE = """
import numpy as np
a = np.random.default_rng(1).random((200, 200))
while True:
    a = a @ a % 1.0
"""

SEND = """
import socket, sys, time
pieces, piece = int(sys.argv[1]), int(sys.argv[2])
data = memoryview(bytearray(piece))
with socket.create_connection((sys.argv[4], int(sys.argv[3]))) as out:
    start = time.process_time()
    for _ in range(pieces):
        out.sendall(data)
print(time.process_time() - start)
"""


class Node:
    """A staging area with its server."""

    def __init__(self, folder: Path, host: str = "127.0.0.1"):
        self.area = folder
        folder.mkdir()
        binary = Path(os.environ["FOREBAY_BUILD_DIR"]) / "bin" / "forebay"
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", f"{host}:0", "--nls", folder, "-o", "read_cache=on"],
            env=plain_environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().split()[-1]

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate()

    def environment(self, servers: str, size: str = "8GiB") -> dict[str, str]:
        return plain_environment() | {
            "HDF5_VOL_CONNECTOR": f"forebay read_cache=on;read_cache_size={size};read_cache_servers={servers}",
            "HDF5_PLUGIN_PATH": os.environ["FOREBAY_PLUGIN_DIR"],
            "FOREBAY_NLS": str(self.area),
            "FOREBAY_STATS": str(self.area / "statistics"),
            "OPENBLAS_NUM_THREADS": "1",  # idle threads would take processor time
        }


def plain_copy(data_bytes: int, piece: int, host: str) -> tuple[float, float]:
    """Returns bytes per second from a process to this one, and bytes per processor second of both."""
    with socket.create_server((host, 0)) as listener:
        words = [str(data_bytes // piece), str(piece), str(listener.getsockname()[1]), host]
        with subprocess.Popen([sys.executable, "-c", SEND, *words], stdout=subprocess.PIPE, text=True) as sender:
            connection, _ = listener.accept()
            buffer = memoryview(bytearray(piece))
            start, own = time.monotonic(), time.process_time()
            for _ in range(data_bytes // piece):
                if connection.recv_into(buffer, piece, socket.MSG_WAITALL) != piece:
                    sys.exit("the plain copy has ended early")
            took, processor = time.monotonic() - start, time.process_time() - own
            connection.close()
            processor += float(sender.communicate()[0])
    copied = data_bytes // piece * piece
    return copied / took, copied / processor


def computing(programs: int) -> list[subprocess.Popen]:
    environment = plain_environment() | {"OPENBLAS_NUM_THREADS": "1"}
    started = [subprocess.Popen([sys.executable, "-c", COMPUTE], env=environment) for _ in range(programs)]
    time.sleep(1)  # until they compute
    return started


def speeds(folder: Path, path: Path, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Returns bytes per second, and per processor second: of a plain socket, and from a server."""
    data_bytes = options.rows << 20
    first, second = Node(folder / "first"), Node(folder / "second", options.host)
    others: list[subprocess.Popen] = []
    try:
        told = [told_by(READ, [str(path), "1"], second.environment(second.address))]
        others = computing(options.computing)
        plain = [plain_copy(data_bytes, 1 << 20, options.host)]
        words = [str(path), "2", str(second.process.pid)]
        told += [told_by(READ, words, first.environment(second.address, size)) for size in ("1MiB", "8GiB")]
        plain.append(plain_copy(data_bytes, 1 << 20, options.host))
        if len({one["sum"] for one in told}) != 1:
            sys.exit("the two nodes have read different bytes")
        read_bytes = (options.rows - 1) << 20
        from_servers = [(read_bytes / one["seconds"], read_bytes / sum(one["processor"])) for one in told[1:]]
        mean = (sum(one[0] for one in plain) / 2, sum(one[1] for one in plain) / 2)
        return {"plain": mean, "without room": from_servers[0], "stored": from_servers[1]}
    finally:
        for process in others:
            process.kill()
            process.wait()
        first.end()
        second.end()


def read_at_once(folder: Path, path: Path) -> None:
    nodes = [Node(folder / "third"), Node(folder / "fourth")]
    servers = ",".join(node.address for node in nodes)
    try:
        readers = [
            subprocess.Popen(
                [sys.executable, "-c", READ, path, str(seed)],
                env=node.environment(servers),
                stdout=subprocess.PIPE,
                text=True,
            )
            for seed, node in enumerate(nodes)
        ]
        if len({json.loads(reader.communicate()[0])["sum"] for reader in readers}) != 1:
            sys.exit("the two nodes have read different bytes")
    finally:
        for node in nodes:
            node.end()


def main() -> None:
    """Measures. Each repetition has new staging areas."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256, help="of 1 MiB")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--host", default="127.0.0.1", help="where the second node's server listens")
    parser.add_argument("--computing", type=int, default=1, help="programs that compute")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-servers-", dir="/dev/shm"))
    told, seen = [], []
    try:
        with SlowFS(folder / "backing", folder / "mount", bandwidth="200MiB/s", latency="0.5ms") as file_system:
            path = file_system / "data.h5"
            make_rows(folder / "backing" / "data.h5", options.rows, 1 << 20)
            time.sleep(YOUNG_SECONDS)
            for repetition in range(options.repetitions):
                areas = folder / f"areas-{repetition}"
                areas.mkdir()
                told.append(speeds(areas, path, options))
                before = file_system.stats()["operations"]["read"]["bytes"]
                read_at_once(areas, path)
                now = file_system.stats()["operations"]["read"]["bytes"]
                seen.append((now - before) / (options.rows << 20))
                shutil.rmtree(areas)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for number, unit in enumerate(("MiB/s", "MiB per second of processor time")):
        print(f"plain socket: {statistics.median(one['plain'][number] for one in told) / 2**20:.0f} {unit}")
        for what in ("without room", "stored"):
            speed = statistics.median(one[what][number] for one in told) / 2**20
            ratios = sorted(one[what][number] / one["plain"][number] for one in told)
            all_ratios = ", ".join(f"{one:.2f}" for one in ratios)
            print(
                f"from the server, {what}: {speed:.0f} {unit}, {statistics.median(ratios):.2f} x plain ({all_ratios})"
            )
    print(f"the file system saw {statistics.median(seen):.3f} x the data ({max(seen):.3f} at most)", flush=True)


if __name__ == "__main__":
    main()
