"""Programs that set nothing but what `forebay env` sets: what is read again is cached, and nobody is hurt by it.

docs/read-cache.md, "Without being asked". The files are on a slowfs mount whose clock is an hour behind: a file is
cached 61 s after its last change.
"""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from connector_environment import _lines, native, run, slow_files, staged
from test_cli import FOREBAY

from forebay.slowfs import available

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

ROWS, ROW_BYTES = 512, 64 << 10
DATA_BYTES = ROWS * ROW_BYTES

MAKE = f"""
import h5py, numpy as np
with h5py.File("target/data.h5", "w", libver="latest") as f:
    data = np.random.default_rng(1).integers(0, 256, ({ROWS}, {ROW_BYTES}), dtype=np.uint8)
    f.create_dataset("rows", data=data, chunks=(1, {ROW_BYTES}))
"""

# Prints a checksum of each epoch's rows. The order: "shuffled", or "once": from front to back.
READ = f"""
import os, sys, zlib, h5py, numpy as np
epochs, order, workers = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def read(rows, part, seed):
    random, sums = np.random.default_rng(seed), []
    for epoch in range(epochs):
        mine = random.permutation({ROWS}) if order == "shuffled" else np.arange({ROWS})
        sums.append(sum(zlib.crc32(rows[int(row)].tobytes()) * int(row + 1) for row in mine[part::max(1, workers)]))
    return sums
with h5py.File("target/data.h5") as f:
    rows = f["rows"]
    if workers == 0:
        print(read(rows, 0, 7), flush=True)
    children = []
    for part in range(workers):
        get, put = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(put, repr(read(rows, part, 7)).encode())
            sys.exit(0)
        os.close(put)
        children.append((child, get))
    for child, get in children:
        print(os.read(get, 65536).decode())
        assert os.waitpid(child, 0)[1] == 0
"""


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unasked")
    with slow_files(folder, MAKE) as fs:
        yield folder, fs


def read(environment, folder, epochs, order, workers=0):
    done = run([sys.executable, "-c", READ, str(epochs), order, str(workers)], environment, folder)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


def read_and_wait(environment, folder):
    """A program that has read three shuffled epochs, has the file open, and waits for a line."""
    code = READ.replace("print(read(rows, 0, 7), flush=True)", "print(read(rows, 0, 7), flush=True); input()")
    reader = subprocess.Popen(
        [sys.executable, "-c", code, "3", "shuffled", "0"],
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout.readline()
    return reader


def caches(tmp_path):
    return [line["process"]["cache"] for line in _lines(tmp_path) if "cache" in line.get("process", {})]


def bytes_read(fs):
    return fs.stats()["operations"]["read"]["bytes"]


def replicas(nls):
    """Folders of replicas on the staging area."""
    return [path for path in Path(nls).glob("forebay-*/cache/*") if path.is_dir()]


@pytest.mark.check
def test_a_training_is_read_from_the_file_system_about_once(mounted, tmp_path):
    folder, fs = mounted
    expected = read(native(), folder, 5, "shuffled")
    environment = staged(tmp_path)
    before = bytes_read(fs)
    assert read(environment, folder, 5, "shuffled") == expected
    (told,) = caches(tmp_path)
    assert told["files"] == 1 and told["hit_bytes"] > 3 * DATA_BYTES, told
    assert bytes_read(fs) - before < 1.5 * DATA_BYTES, told
    assert replicas(environment["FOREBAY_NLS"]) == []


def test_a_program_that_reads_once_writes_nothing_to_the_node(mounted, tmp_path):
    folder, _ = mounted
    environment = staged(tmp_path)
    assert read(environment, folder, 1, "once") == read(native(), folder, 1, "once")
    (told,) = caches(tmp_path)
    assert told["files"] == told["stored_bytes"] == 0 and told["aside"] == {"once": 1}, told
    assert list(Path(environment["FOREBAY_NLS"]).glob("forebay-*/cache")) == []


def test_what_is_read_in_order_again_is_cached_from_the_second_epoch_on(mounted, tmp_path):
    folder, _ = mounted
    environment = staged(tmp_path)
    assert read(environment, folder, 4, "once") == read(native(), folder, 4, "once")
    (told,) = caches(tmp_path)
    assert told["hit_bytes"] > DATA_BYTES, told
    assert replicas(environment["FOREBAY_NLS"]) == []


def test_forked_workers_share_what_they_read(mounted, tmp_path):
    folder, _ = mounted
    environment = staged(tmp_path)
    expected = read(native(), folder, 4, "shuffled", 3)
    assert read(environment, folder, 4, "shuffled", 3) == expected
    assert sum(told["hit_bytes"] for told in caches(tmp_path)) > DATA_BYTES, caches(tmp_path)
    assert replicas(environment["FOREBAY_NLS"]) == []


# Each round has new workers, as each epoch of a DataLoader has.
ROUNDS = f"""
import multiprocessing, sys, zlib, h5py, numpy as np
def work(part, seed, queue):
    with h5py.File("target/data.h5") as f:
        mine = np.random.default_rng(seed).permutation({ROWS})[part::2]
        queue.put(sum(zlib.crc32(f["rows"][int(row)].tobytes()) * int(row + 1) for row in mine))
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    if sys.argv[2] == "parent":
        h5py.File("target/data.h5").close()
    for seed in range(3):
        queue = context.SimpleQueue()
        workers = [context.Process(target=work, args=(part, seed, queue)) for part in range(2)]
        for worker in workers:
            worker.start()
        print(sum(queue.get() for _ in workers))
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
"""


@pytest.mark.parametrize("opened", ["parent", "worker"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_what_workers_have_stored_stays_for_later_ones_of_a_parent_that_removes_it(mounted, tmp_path, method, opened):
    folder, fs = mounted
    (tmp_path / "rounds.py").write_text(ROUNDS)
    program = [sys.executable, tmp_path / "rounds.py", method, opened]
    expected = run(program, native(), folder)
    environment = staged(tmp_path)
    before = bytes_read(fs)
    done = run(program, environment, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected.stdout, ""), done.stderr
    if opened == "parent":
        assert bytes_read(fs) - before < 1.5 * DATA_BYTES, "natively all rows are read three times"
    elif method != "spawn":  # its workers run their exit handlers
        read(environment, folder, 3, "shuffled")
    assert replicas(environment["FOREBAY_NLS"]) == []


def test_what_a_killed_program_left_goes_with_the_next_one_that_caches(mounted, tmp_path):
    folder, _ = mounted
    environment = staged(tmp_path)
    reader = read_and_wait(environment, folder)
    assert len(replicas(environment["FOREBAY_NLS"])) == 1
    reader.send_signal(signal.SIGKILL)
    reader.wait()
    assert len(replicas(environment["FOREBAY_NLS"])) == 1, "nobody was there to remove it"
    read(environment, folder, 3, "shuffled")
    assert replicas(environment["FOREBAY_NLS"]) == []


def test_a_replica_that_is_there_is_used_from_the_first_read_on(mounted, tmp_path):
    folder, fs = mounted
    environment = staged(tmp_path)
    done = run([FOREBAY, "cache", "prefetch", "target/data.h5"], environment, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    before = bytes_read(fs)
    assert read(environment, folder, 1, "once") == read(native(), folder, 1, "once")
    told = caches(tmp_path)[-1]
    assert told["hit_bytes"] >= DATA_BYTES and told["stored_bytes"] == 0, told
    assert bytes_read(fs) - before <= 1.1 * DATA_BYTES, "native's own reads"
    assert len(replicas(environment["FOREBAY_NLS"])) == 1, "what the user has prefetched stays"


def test_threads_end_when_they_have_nothing_to_do(mounted, tmp_path):
    folder, _ = mounted
    program = (
        READ.replace("import os, sys", "import os, sys, time")
        + """
    # In the block that has the file open.
    until = time.monotonic() + 30
    while len(os.listdir("/proc/self/task")) > began and time.monotonic() < until:
        time.sleep(0.05)
    print("threads", len(os.listdir("/proc/self/task")) - began)
"""
    ).replace("with h5py.File", 'began = len(os.listdir("/proc/self/task"))\nwith h5py.File', 1)
    environment = staged(tmp_path)
    done = run([sys.executable, "-c", program, "3", "shuffled", "0"], environment, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "threads 0", done.stdout
    (told,) = caches(tmp_path)
    assert told["stored_bytes"] > 0, told


def test_of_a_staging_area_in_memory_a_little_is_taken(mounted, tmp_path):
    if not Path("/dev/shm").is_mount():
        pytest.skip("/dev/shm is no file system of its own")
    folder, _ = mounted
    nls = Path("/dev/shm") / f"forebay-test-{uuid.uuid4()}"
    nls.mkdir()
    try:
        environment = staged(tmp_path) | {"FOREBAY_NLS": str(nls), "FOREBAY_READ_CACHE_SIZE": "1TiB"}
        reader = read_and_wait(environment, folder)
        shown = run([FOREBAY, "status", "--json", str(nls)], environment, folder)
        reader.communicate("\n")
        (cache,) = json.loads(shown.stdout)["read_caches"]
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert 0 < cache["capacity_bytes"] <= memory / 32, cache
        assert replicas(nls) == []
    finally:
        subprocess.run(["rm", "-rf", str(nls)], check=True)
