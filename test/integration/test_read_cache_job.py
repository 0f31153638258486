"""The nodes of a job that torchrun has started read from each other's caches, and nothing is configured but one option.

Two nodes are two networks, joined by one wire, with a staging area each; two ranks run on each of them. The file is on
a slowfs mount, which counts what is read of it. torchrun itself is not needed: its variables are.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from connector_environment import CLOCK_BEHIND_S, native, plugin_folder, run, run_python
from two_machines import Machines

from forebay.slowfs import SlowFS, available

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

ROWS, ROW_BYTES = 96, 256 << 10
NODES, RANKS_PER_NODE = 2, 2
ONCE = 1.01  # times the file, over both nodes
# A peer that answers late is not waited for. What is to be shown is tried so often; what is read has to be right each
# time.
TRIALS = 10
TIMEOUT = 300
LAST_MOMENT_S = 5  # src/server/job_peers.cc waits so long for a thread that does not end

MAKE = f"""
import h5py, numpy as np
with h5py.File("target/data.h5", "w", libver="latest") as f:
    rows = np.random.default_rng(1).integers(0, 256, ({ROWS}, {ROW_BYTES}), dtype=np.uint8)
    f.create_dataset("rows", data=rows)
"""

# Each part of the rows is read in an order of its own, and before each it waits for a line, and at the end. A line
# "again" has the file opened anew.
READ = f"""
import sys, zlib, h5py, numpy as np
parts, seed = int(sys.argv[1]), int(sys.argv[2])
f = h5py.File("target/data.h5")
print("open", flush=True)
for order in np.array_split(np.random.default_rng(seed).permutation({ROWS}), parts):
    if sys.stdin.readline() == "again\\n":
        f.close()
        f = h5py.File("target/data.h5")
    print(zlib.crc32(b"".join(f["rows"][row].tobytes() for row in order)), flush=True)
sys.stdin.readline()
"""


class Rank:
    """A program on one of the nodes."""

    def __init__(self, job, number, code, *arguments, options="read_cache_servers=job", **more):
        self.node, self.area = number // RANKS_PER_NODE, job.area(number // RANKS_PER_NODE)
        variables = {
            "MASTER_ADDR": job.master,
            "MASTER_PORT": "29400",
            "TORCHELASTIC_RUN_ID": job.name,
            "WORLD_SIZE": NODES * RANKS_PER_NODE,
            "RANK": number,
            "LOCAL_RANK": number % RANKS_PER_NODE,
            "LOCAL_WORLD_SIZE": RANKS_PER_NODE,
            "GROUP_RANK": self.node,
            "FOREBAY_NLS": self.area,
            "FOREBAY_STATS": job.statistics(number),
            "HDF5_VOL_CONNECTOR": f"forebay {options}",
            "HDF5_PLUGIN_PATH": plugin_folder(),
        }
        self.process = subprocess.Popen(
            [*job.on(self.node), "env", f"--chdir={job.folder}", sys.executable, "-c", code, *map(str, arguments)],
            env=native(**{name: str(value) for name, value in {**variables, **more}.items()}),
            cwd=job.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line.strip()

    def go(self, word=""):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def next(self, word=""):
        self.go(word)
        return self.line()

    def end(self):
        _, errors = self.process.communicate("\n", timeout=TIMEOUT)
        assert self.process.returncode == 0, errors
        return errors

    def serves(self):
        """Whether it is its node's peer."""
        noted = [file.read_text() for file in self.area.glob("forebay-*/peers/*")]
        return any(text.rstrip("\0\n") == f"process {self.process.pid}" for text in noted)

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT)


class Job:
    """Four ranks on two nodes. Without machines the nodes are two staging areas of this one."""

    def __init__(self, folder, fs, name, machines=None):
        self.folder, self.fs, self.name, self.machines = folder, fs, name, machines
        self.master = Machines.address if machines else "127.0.0.1"
        for node in range(NODES):
            self.area(node).mkdir(parents=True)
        self.ranks = []

    def area(self, node):
        return self.folder / self.name / f"node-{node}"

    def statistics(self, rank):
        return self.folder / self.name / f"rank-{rank}.jsonl"

    def on(self, node):
        return (self.machines.first, self.machines.second)[node] if self.machines else []

    def begin(self, *arguments, code=READ, ranks=range(NODES * RANKS_PER_NODE), **how):
        begun = [Rank(self, number, code, *arguments, number, **how) for number in ranks]
        self.ranks += begun
        return begun

    def cache(self, rank):
        lines = map(json.loads, self.statistics(rank).read_text().splitlines())
        return [line["process"]["cache"] for line in lines if "process" in line][-1]

    def bytes_read(self):
        return self.fs.stats()["operations"]["read"]["bytes"]

    def file_bytes(self):
        return (self.folder / "target/data.h5").stat().st_size

    def rendezvous(self):
        return list((self.folder / "target").glob(".forebay-job-*"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.kill()


@pytest.fixture
def folder(tmp_path):
    with SlowFS(
        tmp_path / "backing", tmp_path / "target", latency={"read": "0.3ms"}, clock_behind=CLOCK_BEHIND_S
    ) as fs:
        run_python(MAKE, native(), tmp_path)
        yield tmp_path, fs


@pytest.fixture
def machines(tmp_path):
    with Machines(tmp_path) as both:
        yield both


def natively(folder, parts, number):
    done = subprocess.run(
        [sys.executable, "-c", READ, str(parts), str(number)],
        env=native(),
        cwd=folder,
        input="\n" * (parts + 1),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    return done.stdout.split()[1:]


def try_until_shown(folder, machines, trial):
    """`trial(job)` returns True, or what it saw where it could not show what it is for."""
    seen = []
    for number in range(TRIALS):
        with Job(*folder, f"job-{number}", machines) as job:
            outcome = trial(job)
            if outcome is True:
                return
            seen.append(outcome)
    pytest.fail(f"not once in {TRIALS} trials: {seen}")


def read_all(ranks, parts):
    """The checksums by rank; all ranks read each part at once."""
    told = [[] for _ in ranks]
    for _ in range(parts):
        for rank in ranks:
            rank.go()
        for rank, lines in zip(ranks, told, strict=True):
            lines.append(rank.line())
    return told


@pytest.mark.check
def test_two_nodes_read_the_file_once(folder, machines):
    parts = 4
    expected = [natively(folder[0], parts, number) for number in range(NODES * RANKS_PER_NODE)]

    def trial(job):
        before = job.bytes_read()
        ranks = job.begin(parts)
        assert [rank.line() for rank in ranks] == ["open"] * len(ranks)
        assert [sum(rank.serves() for rank in ranks if rank.node == node) for node in range(NODES)] == [1, 1]
        assert read_all(ranks, parts) == expected
        bytes_read = job.bytes_read() - before
        for rank in ranks:
            assert rank.end() == ""
        assert job.rendezvous() == []
        caches = [job.cache(number) for number in range(len(ranks))]
        remote = [sum(cache["remote_bytes"] for cache in caches[node * 2 : node * 2 + 2]) for node in range(NODES)]
        if all(remote) and bytes_read <= ONCE * job.file_bytes():
            return True
        return {"read": bytes_read / job.file_bytes(), "remote": remote, "late": [c["late_answers"] for c in caches]}

    try_until_shown(folder, machines, trial)


def test_ranks_read_on_when_a_peer_is_killed_and_another_takes_its_place(folder, machines):
    parts, before = 12, 2
    expected = [natively(folder[0], parts, number) for number in range(NODES * RANKS_PER_NODE)]

    def trial(job):
        ranks = job.begin(parts)
        assert [rank.line() for rank in ranks] == ["open"] * len(ranks)
        told = read_all(ranks, before)
        (killed,) = [number for number in (2, 3) if ranks[number].serves()]
        ranks[killed].kill()
        left = [number for number in range(len(ranks)) if number != killed]
        for number, lines in zip(left, read_all([ranks[number] for number in left], 4), strict=True):
            told[number] += lines
        (other,) = [number for number in left if ranks[number].node == 1]
        assert not ranks[other].serves()
        told[other].append(ranks[other].next("again"))
        assert ranks[other].serves()
        for number in left:
            told[number] += [ranks[number].next() for _ in range(parts - len(told[number]))]
            assert told[number] == expected[number]
            assert ranks[number].end() == ""
        assert job.rendezvous() == []
        caches = [job.cache(number) for number in (0, 1)]
        return any(cache["late_answers"] for cache in caches) or caches

    try_until_shown(folder, machines, trial)


def sockets(pid):
    descriptors = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # one that is closed meanwhile
            descriptors.append(os.readlink(entry))
    return [name for name in descriptors if name.startswith("socket:")]


def test_only_a_program_that_asks_opens_a_port(folder):
    expected = [natively(folder[0], 1, number) for number in range(NODES * RANKS_PER_NODE)]
    for name, options, ask in (
        ("quiet", "read_cache=on", False),
        ("automatic", "read_cache_servers=job;read_cache=auto", False),
        ("asking", "read_cache_servers=job", True),
    ):
        with Job(*folder, name) as job:
            ranks = job.begin(1, options=options)
            assert [rank.line() for rank in ranks] == ["open"] * len(ranks)
            assert read_all(ranks, 1) == expected
            assert any(sockets(rank.process.pid) for rank in ranks) == ask
            assert [rank.end() for rank in ranks] == [""] * len(ranks)


# The child keeps nothing of the peer, and what it reads is right.
FORK = """
import os, sys, zlib, h5py
f = h5py.File("target/data.h5")
print("open", flush=True)
sys.stdin.readline()
child = os.fork()
if child == 0:
    print(sum(os.readlink(f"/proc/self/fd/{each}").startswith("socket:")
              for each in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{each}")), flush=True)
    print(zlib.crc32(f["rows"][:].tobytes()), flush=True)
    f.close()
    f = h5py.File("target/data.h5")
    print(zlib.crc32(f["rows"][:].tobytes()), flush=True)
    sys.exit(0)  # through all handlers of exit, which end nothing of the parent's
assert os.waitpid(child, 0)[1] == 0
print("ended", flush=True)
sys.stdin.readline()
"""

WHOLE = """
import zlib, h5py
print(zlib.crc32(h5py.File("target/data.h5")["rows"][:].tobytes()))
"""


def test_a_forked_child_reads_and_does_not_serve(folder):
    expected = run_python(WHOLE, native(), folder[0]).strip()
    with Job(*folder, "forking") as job:
        ranks = job.begin(code=FORK)
        assert [rank.line() for rank in ranks] == ["open"] * len(ranks)
        serving = [rank for rank in ranks if rank.serves()]
        assert len(serving) == NODES
        for rank in ranks:
            rank.go()
            assert [rank.line() for _ in range(4)] == ["0", expected, expected, "ended"]
        assert all(rank.serves() for rank in serving)
        (shared,) = job.rendezvous()
        for rank in serving:
            (address,) = [line for line in (shared / f"node-{rank.node}").read_text().splitlines() if ":" in line]
            host, port = address.split()[-1].split(":")
            socket.create_connection((host, int(port)), timeout=TIMEOUT).close()
        assert [rank.end() for rank in ranks] == [""] * len(ranks)


# Only children open files, as workers of a DataLoader do.
WORKERS = """
import os, h5py, zlib
child = os.fork()
if child == 0:
    print(zlib.crc32(h5py.File("target/data.h5")["rows"][:].tobytes()), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_ranks_whose_workers_alone_open_files_are_told_what_to_do(folder):
    expected = run_python(WHOLE, native(), folder[0]).strip()
    with Job(*folder, "workers") as job:
        ranks = job.begin(code=WORKERS)
        assert [rank.line() for rank in ranks] == [expected] * len(ranks)
        assert not any(sockets(rank.process.pid) for rank in ranks if rank.process.poll() is None)
        assert "open a file in each rank's own process" in "".join(rank.end() for rank in ranks)


def test_a_folder_that_cannot_be_trusted_is_told_of_once_and_not_used(folder):
    expected = natively(folder[0], 1, 0)
    rendezvous = folder[0] / "rendezvous"
    rendezvous.mkdir()
    with Job(*folder, "first") as job:
        ranks = job.begin(1, options=f"read_cache_servers=job:{rendezvous}")
        assert [rank.line() for rank in ranks] == ["open"] * len(ranks)
        (shared,) = rendezvous.iterdir()
        assert shared.stat().st_mode & 0o777 == 0o700
        assert {file.name for file in shared.iterdir()} == {"key", "node-0", "node-1"}
        assert {file.stat().st_mode & 0o777 for file in shared.iterdir()} == {0o600}
        for rank in ranks:
            rank.kill()
    shared.chmod(0o755)
    for options, why in (
        (f"read_cache_servers=job:{rendezvous}", "others than its owner have rights to it (chmod 700)"),
        ("read_cache_servers=job:nowhere", "the path of the folder is not absolute"),
    ):
        (rank,) = job.begin(1, ranks=[0], options=options)
        assert rank.line() == "open"
        assert rank.next() == expected[0]
        told = rank.end()
        assert told.count(f"option {options}: ") == 1
        assert why in told
        assert not rank.serves()


# Opens the file, and reads none of it: it serves the other node.
SERVE = """
import sys, h5py
f = h5py.File("target/data.h5")
print("open", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def peer_and_reader(folder, name, parts):
    """A rank that only serves its node, and one of the other node that reads."""
    with Job(*folder, name) as job:
        (peer,) = job.begin(code=SERVE, ranks=[0])
        (reader,) = job.begin(parts, ranks=[RANKS_PER_NODE], options="read_cache_servers=job;prefetch=off")
        assert [peer.line(), reader.line()] == ["open", "open"]
        assert peer.serves()
        try:
            yield peer, reader
        finally:
            folder[1].clear()


def end_with_a_thread_that_hangs(peer):
    begin = time.monotonic()
    assert peer.end() == ""
    assert time.monotonic() - begin >= LAST_MOMENT_S, "nothing hung: the test shows nothing"


def waits_for_fuse(process):
    """True if a thread of this process waits for the answer of a FUSE file system."""
    threads = Path("/proc", str(process.pid), "task").iterdir()
    return any((thread / "wchan").read_text() == "request_wait_answer" for thread in threads)


def a_read_hangs(fs, reader):
    """Waits until a read hangs, or until the reader has its row without one."""
    answered = []
    while fs.stats()["hanging"] == 0 and not answered:
        answered, _, _ = select.select([reader.process.stdout], [], [], 0.02)
    return fs.stats()["hanging"] == 1


def test_a_program_ends_although_its_read_for_another_node_hangs(folder):
    """Both processes read the file in the background, so the test looks whose read it is that hangs."""
    _, fs = folder
    with peer_and_reader(folder, "reads", ROWS) as (peer, reader):
        for _ in range(ROWS):
            fs.fault("op=read,hang,count=1,path=data.h5")
            reader.go()
            if a_read_hangs(fs, reader):
                of_peer, of_reader = waits_for_fuse(peer.process), waits_for_fuse(reader.process)
                if of_peer and not of_reader:
                    break
                if not of_peer and not of_reader:
                    pytest.skip("the kernel does not tell which thread waits for FUSE")
            fs.clear()
            reader.line()
        else:
            pytest.fail("no read of the peer for the other node was seen to hang")
        end_with_a_thread_that_hangs(peer)


def test_a_program_ends_although_the_folder_of_its_job_does_not_answer(folder):
    _, fs = folder
    with peer_and_reader(folder, "withdraws", 1) as (peer, _):
        fs.fault("op=*,hang,path=node-0")
        end_with_a_thread_that_hangs(peer)
