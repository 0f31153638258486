"""Programs without MPI on several nodes, each with a staging server: what one node has read the others get from there.

Two nodes are two staging areas, each with a server; the file is on a slowfs mount, which counts what is read of it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from connector_environment import CLOCK_BEHIND_S, native, plugin_folder, run, run_python
from server_environment import Server, tcp_address
from two_machines import Machines

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

ROWS, ROW_BYTES = 192, 64 << 10
# Times the file. Without servers it is 2.
ONCE = 1.02
# A server that answers late is not waited for, and chance decides which server has which part of the file. What is to
# be shown is tried so often, with servers of other names; what is read has to be right each time.
TRIALS = 20

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

    def late_answers(self):
        return sum(cache["late_answers"] for node in range(len(self.servers)) for cache in self.caches(node))

    def bytes_read(self):
        return self.fs.stats()["operations"]["read"]["bytes"]

    def file_bytes(self):
        return (self.folder / "target/data.h5").stat().st_size


@pytest.fixture
def folder(tmp_path):
    with SlowFS(
        tmp_path / "backing", tmp_path / "target", latency={"read": "0.3ms"}, clock_behind=CLOCK_BEHIND_S
    ) as fs:
        run_python(MAKE, native(), tmp_path)
        yield tmp_path, fs


CACHED = ("-o", "read_cache=on")


@contextlib.contextmanager
def two_nodes(folder, fs, name="node"):
    """Nothing is cached on them."""
    with (
        Server(folder / f"{name}-first", tcp_address(), *CACHED) as first,
        Server(folder / f"{name}-second", f"unix:{folder}/{name}.socket", *CACHED) as second,
    ):
        yield Nodes(folder, fs, [first, second])


@pytest.fixture
def nodes(folder):
    with two_nodes(*folder) as two:
        yield two


def try_until_shown(folder, trial, make_nodes=two_nodes):
    """`trial(nodes)` returns True, or what it saw where it could not show what it is for."""
    seen = []
    for number in range(TRIALS):
        with make_nodes(*folder, f"trial-{number}") as nodes:
            outcome = trial(nodes)
            if outcome is True:
                return
            seen.append(outcome)
    pytest.fail(f"not once in {TRIALS} trials: {seen}")


def read_once(nodes, before, asked=(0, 1)):
    """True if the file system was read once for all nodes, and programs of those that are named have asked others."""
    late, bytes_read = nodes.late_answers(), nodes.bytes_read() - before
    remote = [sum(cache["remote_bytes"] for cache in nodes.caches(node)) for node in asked]
    if late == 0 and all(remote) and bytes_read <= ONCE * nodes.file_bytes():
        return True
    return {"late": late, "remote": remote, "read": bytes_read / nodes.file_bytes()}


def read_one_after_the_other(nodes, expected, **how):
    """A program on each node, with `expected`, by node."""
    before = nodes.bytes_read()
    for node, (arguments, lines) in enumerate(expected):
        assert nodes.read(node, *arguments, **how) == lines
        nodes.restart_servers()
    return before


@pytest.fixture
def expected(folder):
    """What a program on each node is told to read, and what it tells natively."""
    natively = Nodes(*folder, []).natively
    return [(arguments, natively(*arguments)) for arguments in (("1", "7"), ("1", "8"))]


@pytest.mark.check
def test_each_byte_of_the_file_is_read_once_for_all_nodes(folder, expected):
    def trial(nodes):
        once = read_once(nodes, read_one_after_the_other(nodes, expected))
        arguments, lines = expected[0]
        assert nodes.read(1, *arguments) == lines
        assert nodes.cache(1)["hit_bytes"] > 0
        return once

    try_until_shown(folder, trial)


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


def test_programs_of_both_nodes_that_ask_for_the_same_at_the_same_time_do_not_wait_for_each_other(folder):
    expected = Nodes(*folder, []).natively(code=LARGE)

    def trial(nodes):
        programs = [nodes.begin(node, code=LARGE) for node in (0, 1)]
        for line in expected.splitlines():
            for program in programs:
                program.stdin.write("\n")
                program.stdin.flush()
            assert [program.stdout.readline().strip() for program in programs] == [line, line]
        for program in programs:
            program.communicate(timeout=300)
            assert program.returncode == 0
        told = [nodes.cache(node) for node in (0, 1)]
        return all(cache["late_answers"] == 0 and cache["remote_bytes"] > 0 for cache in told) or told

    try_until_shown(folder, trial)


def test_a_prefetch_comes_from_the_homes(folder, expected):
    def trial(nodes):
        # What is prefetched from elsewhere counts as the node's own when it is read.
        return read_once(nodes, read_one_after_the_other(nodes, expected, info="prefetch=open"), asked=())

    try_until_shown(folder, trial)


def test_workers_that_are_forked_after_the_open_ask_servers_too(folder):
    expected = sorted(Nodes(*folder, []).natively(code=FORK).splitlines())

    def trial(nodes):
        before = nodes.bytes_read()
        for node in (0, 1):
            assert sorted(nodes.read(node, code=FORK).splitlines()) == expected
            nodes.restart_servers()
        return read_once(nodes, before, asked=())  # the workers have no statistics

    try_until_shown(folder, trial)


# The first of so many parts is less than what a program has to ask for before anything is read ahead.
PARTS = "16"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_without_its_server_a_node_s_part_is_read_from_the_file(folder, how):
    expected = Nodes(*folder, []).natively(PARTS, "7")

    def trial(nodes):
        with nodes.begin(0, PARTS, "7") as reader:
            first = reader.stdout.readline()
            nodes.servers[1].process.send_signal(how)
            rest, _ = reader.communicate("\n" * int(PARTS), timeout=300)
            assert reader.returncode == 0
        assert first + rest == expected
        cache = nodes.cache(0)
        if how == signal.SIGSTOP:
            nodes.servers[1].process.send_signal(signal.SIGCONT)
        # One that was killed may refuse to be asked.
        return (cache["remote_bytes"] > 0 and (how == signal.SIGKILL or cache["late_answers"] > 0)) or cache

    try_until_shown(folder, trial)


def test_a_server_that_comes_back_is_asked_again(folder):
    expected = Nodes(*folder, []).natively(PARTS, "7")

    def trial(nodes):
        with nodes.begin(0, PARTS, "7") as reader:
            first = reader.stdout.readline()
            nodes.restart_servers()
            rest, _ = reader.communicate("\n" * int(PARTS), timeout=300)
            assert reader.returncode == 0
        assert first + rest == expected
        # Nothing but a small part was asked for before.
        cache = nodes.cache(0)
        return (cache["remote_bytes"] > nodes.file_bytes() // int(PARTS) and cache["late_answers"] == 0) or cache

    try_until_shown(folder, trial)


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
    file, ahead = nodes.folder / "target/data.h5", time.time() + 24 * 3600
    os.utime(file, (ahead, ahead))
    for _ in range(2):
        assert [nodes.read(node, "1", "7") for node in (0, 1)] == [new, new]
        assert [nodes.cache(node)["hit_bytes"] for node in (0, 1)] == [0, 0], "it is young: nobody stores it"
    os.utime(file, (ahead - 48 * 3600, ahead - 48 * 3600))
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


def test_nodes_on_two_machines(folder, expected):
    with Machines(folder[0]) as machines:
        on = [machines.first, machines.second]

        @contextlib.contextmanager
        def on_two_machines(folder, fs, name):
            with (
                Server(folder / f"{name}-first", "10.77.0.1:0", *CACHED, on=on[0]) as first,
                Server(folder / f"{name}-second", "10.77.0.2:0", *CACHED, on=on[1]) as second,
            ):
                yield Nodes(folder, fs, [first, second])

        def trial(nodes):
            before = nodes.bytes_read()
            for node, (arguments, lines) in enumerate(expected):
                assert nodes.read(node, *arguments, on=on[node]) == lines
                nodes.restart_servers()
            return read_once(nodes, before)

        try_until_shown(folder, trial, on_two_machines)


# Each rank prints the checksum of each row that its workers bring, which open the file themselves.
TRAIN = f"""
import os, sys, zlib, h5py, torch
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

distributed.init_process_group(
    "gloo", init_method=f"file://{{sys.argv[1]}}", rank=int(os.environ["RANK"]), world_size=2)
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
def test_the_workers_of_ranks_on_two_nodes_read_each_row_as_it_is(folder):
    python = os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON")
    if not python:
        pytest.skip("there is no Python with PyTorch here: tools/setup examples")
    (folder[0] / "train.py").write_text(TRAIN)
    expected = sorted(Nodes(*folder, []).natively(code=CHECKSUMS).splitlines())

    def trial(nodes):
        # The ranks, one on each node, find each other through a file.
        jobs = [
            subprocess.Popen(
                [python, "train.py", f"{nodes.servers[0].folder}/meeting"],
                env=nodes.environment(node) | {"RANK": str(node), "OMP_NUM_THREADS": "1"},
                cwd=nodes.folder,
                stdout=subprocess.PIPE,
                text=True,
            )
            for node in (0, 1)
        ]
        told = [line for job in jobs for line in job.communicate(timeout=240)[0].splitlines()]
        assert [job.returncode for job in jobs] == [0, 0]
        assert sorted(told) == expected
        reports = [server.end() for server in nodes.servers]
        return all("other programs have read" in report for report in reports) or reports

    try_until_shown(folder, trial)
