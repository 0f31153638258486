"""Programs without MPI on several nodes, each with a staging server: what one node has read the others get from there.

Two nodes are two staging areas, each with a server; the file is on a slowfs mount, which counts what is read of it.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from connector_environment import native, plugin_folder, run, run_python
from server_environment import Server, tcp_address
from test_read_cache import YOUNG_SECONDS
from two_machines import Machines

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

ROWS, ROW_BYTES = 192, 64 << 10
# Times the file: a busy machine may store a part late, which is then read twice. Without servers it is 2.
ONCE = 1.5

MAKE = f"""
import sys, h5py, numpy as np
random = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
with h5py.File("target/data.h5", "w", libver="latest") as f:
    f.create_dataset("rows", data=random.integers(0, 256, ({ROWS}, {ROW_BYTES}), dtype=np.uint8))
"""

# Prints a checksum of each part of the rows, in an order of its own; before each but the first it waits for a line.
READ = f"""
import sys, zlib, h5py, numpy as np
parts, seed, waits = int(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3
with h5py.File("target/data.h5") as f:
    rows = f["rows"]
    for part, order in enumerate(np.array_split(np.random.default_rng(seed).permutation({ROWS}), parts)):
        if part > 0 and waits:
            sys.stdin.readline()
        print(zlib.crc32(b"".join(rows[row].tobytes() for row in order)), flush=True)
"""

# The file is open before the workers are made.
FORK = f"""
import os, sys, zlib, h5py
f = h5py.File("target/data.h5")
rows = f["rows"]
for worker in range(2):
    if os.fork() == 0:
        part = b"".join(rows[row].tobytes() for row in range(worker * {ROWS} // 2, (worker + 1) * {ROWS} // 2))
        os.write(1, f"{{worker}} {{zlib.crc32(part)}}\\n".encode())
        os._exit(0)
for worker in range(2):
    assert os.wait()[1] == 0
"""


class Nodes:
    """Two nodes, which have a file system in common."""

    def __init__(self, folder, fs, servers):
        self.folder, self.fs, self.servers = folder, fs, servers
        self.names = ",".join(server.address for server in servers)

    def environment(self, node, info=""):
        """Of a program on that node."""
        folder = self.servers[node].folder
        options = f"nls={self.servers[node].area};read_cache=on;read_cache_servers={self.names}"
        return native(
            HDF5_VOL_CONNECTOR=f"forebay {options};stats={folder}/programs.jsonl;{info}",
            HDF5_PLUGIN_PATH=str(plugin_folder()),
        )

    def read(self, node, *arguments, info="", on=(), code=READ):
        command = [*on, "env", f"--chdir={self.folder}", sys.executable, "-c", code, *arguments]
        done = run(command, self.environment(node, info), self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def begin(self, node, *arguments, code=READ):
        """A program that waits for a line before each part, or each but the first."""
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments, "waits"],
            env=self.environment(node),
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def natively(self, *arguments, code=READ):
        done = run([sys.executable, "-c", code, *arguments], native(), self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def caches(self, node):
        """What the caches of the node's programs have counted, in the order in which those have ended."""
        lines = (self.servers[node].folder / "programs.jsonl").read_text().splitlines()
        return [line["process"]["cache"] for line in map(json.loads, lines) if "process" in line]

    def cache(self, node):
        """That of the last one."""
        return self.caches(node)[-1]

    def restart_servers(self):
        """They have stored what they have read then."""
        for server in self.servers:
            server.end()
            server.listen = server.address
            server.start()

    def bytes_read(self):
        return self.fs.stats()["operations"]["read"]["bytes"]

    def file_bytes(self):
        return (self.folder / "target/data.h5").stat().st_size


@pytest.fixture
def folder(tmp_path):
    with SlowFS(tmp_path / "backing", tmp_path / "target", latency={"read": "0.3ms"}) as fs:
        run_python(MAKE, native(), tmp_path)
        time.sleep(YOUNG_SECONDS)
        yield tmp_path, fs


@pytest.fixture
def nodes(folder):
    tmp_path, fs = folder
    cached = ("-o", "read_cache=on")
    with (
        Server(tmp_path / "first", tcp_address(), *cached) as first,
        Server(tmp_path / "second", f"unix:{tmp_path}/second.socket", *cached) as second,
    ):
        yield Nodes(tmp_path, fs, [first, second])


def test_each_byte_of_the_file_is_read_once_for_all_nodes(nodes):
    expected = [nodes.natively("1", str(seed)) for seed in (7, 8)]
    before = nodes.bytes_read()
    assert nodes.read(0, "1", "7") == expected[0]
    nodes.restart_servers()
    assert nodes.read(1, "1", "8") == expected[1]
    first, second = nodes.cache(0), nodes.cache(1)
    assert first["remote_bytes"] > 0 and second["remote_bytes"] > 0, (first, second)
    assert first["late_answers"] == second["late_answers"] == 0, (first, second)
    assert nodes.bytes_read() - before <= ONCE * nodes.file_bytes()
    assert nodes.read(1, "1", "7") == expected[0]
    assert nodes.cache(1)["hit_bytes"] > 0


def test_programs_of_both_nodes_that_read_at_once_read_what_the_file_has(nodes):
    expected = [nodes.natively("4", str(seed)) for seed in range(4)]
    readers = [nodes.begin(seed % 2, "4", str(seed)) for seed in range(4)]
    assert [reader.communicate("\n" * 4, timeout=100)[0] for reader in readers] == expected
    # The second program of a node may find all that the first one has stored; a busy server may answer late.
    asked = [[cache["remote_bytes"] + cache["late_answers"] for cache in nodes.caches(node)] for node in (0, 1)]
    assert all(map(any, asked)), asked


# Reads of 4 MiB, which have parts of both homes.
LARGE = f"""
import sys, zlib, h5py
with h5py.File("target/data.h5") as f:
    for row in range(0, {ROWS}, 64):
        sys.stdin.readline()
        print(zlib.crc32(f["rows"][row:row + 64].tobytes()), flush=True)
"""


def test_programs_of_both_nodes_that_ask_for_the_same_at_the_same_time_do_not_wait_for_each_other(nodes):
    expected = nodes.natively(code=LARGE)
    programs = [nodes.begin(node, code=LARGE) for node in (0, 1)]
    for line in expected.splitlines():
        for program in programs:
            program.stdin.write("\n")
            program.stdin.flush()
        assert [program.stdout.readline().strip() for program in programs] == [line, line]
    for program in programs:
        program.communicate(timeout=60)
        assert program.returncode == 0
    for node in (0, 1):
        cache = nodes.cache(node)
        assert cache["late_answers"] == 0 and cache["remote_bytes"] > 0, cache


def test_a_prefetch_comes_from_the_homes(nodes):
    expected = nodes.natively("1", "7")
    before = nodes.bytes_read()
    for node in (0, 1):
        assert nodes.read(node, "1", "7", info="prefetch=open") == expected
        nodes.restart_servers()
    assert nodes.bytes_read() - before <= ONCE * nodes.file_bytes()
    assert all(nodes.cache(node)["late_answers"] == 0 for node in (0, 1))


def test_workers_that_are_forked_after_the_open_ask_servers_too(nodes):
    expected = sorted(nodes.natively(code=FORK).splitlines())
    before = nodes.bytes_read()
    assert sorted(nodes.read(0, code=FORK).splitlines()) == expected
    nodes.restart_servers()
    assert sorted(nodes.read(1, code=FORK).splitlines()) == expected
    assert nodes.bytes_read() - before <= ONCE * nodes.file_bytes()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_without_its_server_a_node_s_part_is_read_from_the_file(nodes, how):
    expected = nodes.natively("2", "7")
    with nodes.begin(0, "2", "7") as reader:
        first = reader.stdout.readline()
        nodes.servers[1].process.send_signal(how)
        rest, _ = reader.communicate("\n", timeout=100)
        assert reader.returncode == 0
    assert first + rest == expected
    assert nodes.cache(0)["remote_bytes"] > 0
    if how == signal.SIGSTOP:  # one that was killed may refuse to be asked
        assert nodes.cache(0)["late_answers"] > 0
        nodes.servers[1].process.send_signal(signal.SIGCONT)


def test_a_server_that_comes_back_is_asked_again(nodes):
    expected = nodes.natively("2", "7")
    with nodes.begin(0, "2", "7") as reader:
        first = reader.stdout.readline()
        nodes.restart_servers()
        rest, _ = reader.communicate("\n", timeout=100)
        assert reader.returncode == 0
    assert first + rest == expected
    assert nodes.cache(0)["remote_bytes"] > 0 and nodes.cache(0)["late_answers"] == 0


def test_a_server_has_no_file_open_once_nobody_asks_it(nodes):
    """Else its replica could not be evicted, nor the file's space be freed."""
    nodes.read(1, 1, 7)
    assert nodes.cache(1)["remote_bytes"] > 0
    descriptors = Path(f"/proc/{nodes.servers[0].process.pid}/fd")

    def open_files():
        with contextlib.suppress(FileNotFoundError):  # one that is closed meanwhile
            return [os.readlink(entry) for entry in descriptors.iterdir()]
        return None

    deadline = time.monotonic() + 60  # its session ends at some time after the program
    while any("data.h5" in name for name in open_files() or ["data.h5"]):
        assert time.monotonic() < deadline, open_files()
        time.sleep(0.01)


def test_a_file_that_is_made_anew_is_read_anew(nodes):
    old = nodes.natively("1", "7")
    assert [nodes.read(node, "1", "7") for node in (0, 1)] == [old, old]
    run([sys.executable, "-c", MAKE, "2"], native(), nodes.folder)
    new = nodes.natively("1", "7")
    assert new != old
    assert [nodes.read(node, "1", "7") for node in (0, 1)] == [new, new]  # young: nobody stores it
    time.sleep(YOUNG_SECONDS)
    for _ in range(2):
        assert [nodes.read(node, "1", "7") for node in (0, 1)] == [new, new]
    assert nodes.cache(1)["hit_bytes"] > 0


def test_servers_that_nobody_can_use_change_nothing(folder):
    tmp_path, fs = folder
    with Server(tmp_path / "first", f"unix:{tmp_path}/first.socket") as server:  # which has no read cache
        nodes = Nodes(tmp_path, fs, [server])
        expected = nodes.natively("1", "7")
        for servers in (server.address, f"unix:{tmp_path}/none", "no-such-host.invalid:5000", "nothing"):
            nodes.names = f"{servers},unix:{tmp_path}/nobody"
            assert nodes.read(0, "1", "7") == expected
        assert nodes.cache(0)["remote_bytes"] == 0
        for file in os.listdir(server.area):
            assert file.startswith("forebay-")


def test_nodes_on_two_machines(folder):
    tmp_path, fs = folder
    cached = ("-o", "read_cache=on")
    with Machines(tmp_path) as machines:
        on = [machines.first, machines.second]
        with (
            Server(tmp_path / "first", "10.77.0.1:0", *cached, on=on[0]) as first,
            Server(tmp_path / "second", "10.77.0.2:0", *cached, on=on[1]) as second,
        ):
            nodes = Nodes(tmp_path, fs, [first, second])
            expected = nodes.natively("1", "7")
            before = nodes.bytes_read()
            assert nodes.read(0, "1", "7", on=on[0]) == expected
            nodes.restart_servers()
            assert nodes.read(1, "1", "7", on=on[1]) == expected
            assert all(nodes.cache(node)["remote_bytes"] > 0 for node in (0, 1))
            assert all(nodes.cache(node)["late_answers"] == 0 for node in (0, 1))
            assert nodes.bytes_read() - before <= ONCE * nodes.file_bytes()


# Each rank prints the checksum of each row that its workers bring, which open the file themselves.
TRAIN = f"""
import sys, zlib, h5py, torch
import torch.distributed as distributed
from torch.utils.data import DataLoader, Dataset, DistributedSampler

class Rows(Dataset):
    file = None
    def __len__(self):
        return {ROWS}
    def __getitem__(self, row):
        if self.file is None:
            self.file = h5py.File("target/data.h5")
        return row, zlib.crc32(self.file["rows"][row].tobytes())

distributed.init_process_group("gloo")
rows = Rows()
sampler = DistributedSampler(rows, shuffle=True, seed=3)
for epoch in range(2):
    sampler.set_epoch(epoch)
    loader = DataLoader(rows, batch_size=None, sampler=sampler, num_workers=2, multiprocessing_context="fork")
    for row, checksum in loader:
        sys.stdout.write(f"{{epoch}} {{row}} {{checksum}}\\n")
distributed.destroy_process_group()
"""

CHECKSUMS = f"""
import zlib, h5py
with h5py.File("target/data.h5") as f:
    sums = [zlib.crc32(f["rows"][row].tobytes()) for row in range({ROWS})]
for epoch in range(2):
    for row, checksum in enumerate(sums):
        print(epoch, row, checksum)
"""


@pytest.mark.slow
def test_the_workers_of_ranks_on_two_nodes_read_each_row_as_it_is(nodes):
    python = os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON")
    if not python:
        pytest.skip("there is no Python with PyTorch here: tools/setup examples")
    (nodes.folder / "train.py").write_text(TRAIN)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    # As torchrun starts them, one on each node.
    ranks = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    jobs = [
        subprocess.Popen(
            [python, "train.py"],
            env=nodes.environment(node) | ranks | {"RANK": str(node), "LOCAL_RANK": "0"},
            cwd=nodes.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        for node in (0, 1)
    ]
    told = [line for job in jobs for line in job.communicate(timeout=240)[0].splitlines()]
    assert [job.returncode for job in jobs] == [0, 0]
    assert sorted(told) == sorted(nodes.natively(code=CHECKSUMS).splitlines())
    reports = [server.end() for server in nodes.servers]
    assert all("programs elsewhere have read" in report for report in reports), reports
