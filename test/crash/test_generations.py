"""What somebody else does to a file after its writer was killed: no byte of another generation may ever appear.

The runs are random sequences, killed before, after or in the midst of a flush; then people do something to the file. If
nobody has touched it, the file has the last state that was flushed. Else it is as the other one has left it, to the
byte. Opening it through forebay then gives that content, if it is another file, or is refused. FOREBAY_SEED repeats a
run.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy
import pytest
from connector_environment import staged
from forebay.slowfs import SlowFS, available
from loop_file_system import FileSystem, skip_without_tools
from seeds import seed_of

SHAPE = (40, 16384)
ROUNDS = 60 if os.environ.get("FOREBAY_TEST_LONG") else 8


class Worker:
    def __init__(self, environment):
        script = Path(__file__).with_name("generations_worker.py")
        self.process = subprocess.Popen(
            [sys.executable, script],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        told = []
        while (line := self.process.stdout.readline().strip()) != "end":
            assert line or self.process.poll() is None, self.process.stderr.read()
            told.append(line)
        return told

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()
        self.process.stderr.close()


def make(path, number, mode="w"):
    with h5py.File(path, mode) as file:
        file["x"] = numpy.full(SHAPE, number, "i4")


# ---- what others do; each returns where the file is then --------------------------------------------------


def nothing(path, backup, number):
    return path


def moved(path, backup, number):
    target = path.with_name(f"moved-{path.name}")
    path.rename(target)
    return target


def rewritten(path, backup, number):
    make(path, number)
    return path


def copied(path, backup, number):
    subprocess.run(["cp", backup, path], check=True)
    return path


def copied_with_times(path, backup, number):
    subprocess.run(["cp", "-p", backup, path], check=True)
    return path


def synchronised_in_place(path, backup, number):
    """As rsync -a --inplace does."""
    with path.open("r+b") as file:
        file.write(backup.read_bytes())
        file.truncate()
    times = backup.stat()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return path


def renamed_over(path, backup, number):
    shutil.copy2(backup, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)
    return path


def removed_and_made(path, backup, number):
    path.unlink()
    make(path, number, "x")
    return path


def shortened(path, backup, number):
    os.truncate(path, path.stat().st_size // 2)
    return path


def touched(path, backup, number):
    wait()
    os.utime(path)
    return path


def changed_in_place(path, backup, number):
    """A few bytes, and its time set back."""
    wait()
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(before.st_size // 2)
        file.write(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return path


def wait():
    """What changes a few bytes within 250 ms of a write that was under way cannot be told from it."""
    time.sleep(0.3)


UNTOUCHED = [nothing, moved]
OTHERS = [
    rewritten,
    copied,
    copied_with_times,
    synchronised_in_place,
    renamed_over,
    removed_and_made,
    shortened,
    touched,
    changed_in_place,
]


# Where a run is killed, and what its file may hold then: so much more than it has told of.
AFTER = {"half_way": (0,), "written": (0,), "flushed": (1,), "any_time": (0, 1)}


def is_refused(act, same_inode, served):
    """Whether an open tells that it cannot recover; else the file is another one, or was recovered.

    A file that was made anew under the old number is another one by the time of its birth, which a server does not
    tell.
    """
    return act not in UNTOUCHED and same_inode and (served or act is not removed_and_made)


def one_round(worker, folder, chance, turn, act, served):
    path, backup = folder / f"run-{turn}.h5", folder / f"backup-{turn}.h5"
    make(path, 0)
    make(backup, 1000)
    where, flushes = chance.choice(list(AFTER)), chance.randint(2, 12)
    delay = chance.choice([0.0, 0.001, 0.003, 0.01, 0.03])
    command = {"do": "write", "path": str(path), "flushes": flushes, "where": where, "kill_after_s": delay}
    said = [int(line) for line in worker(**command)]
    assert len(said) == flushes or (len(said) > flushes and where == "any_time")
    may_be = [[said[-1] + more] for more in AFTER[where]]
    inode = path.stat().st_ino
    path = act(path, backup, 2000)
    left, same_inode = path.read_bytes(), path.stat().st_ino == inode
    seen = json.loads(worker(do="look", path=str(path))[0])
    where = f"{act.__name__} after {len(said)} flushes, killed {where}: {seen}"
    if act in UNTOUCHED:
        assert seen.get("values") in may_be, where
    elif act is touched and "values" in seen:  # several writes were under way: its bytes are the run's own
        assert seen["values"] in may_be, where
    elif is_refused(act, same_inode, served):
        assert "cannot be recovered" in seen.get("error", ""), where
        assert path.read_bytes() == left, where
    else:
        with h5py.File(path, "r") as file:
            assert seen.get("values") == numpy.unique(file["x"][...]).tolist(), where
        assert seen["values"] in ([1000], [2000]), where
    for each in (path, backup):
        each.unlink()


@pytest.fixture(params=["tmpfs", "ext4", "fuse"])
def folder(request, tmp_path):
    if request.param == "tmpfs":
        where = Path("/dev/shm") / f"forebay-generations-{os.getpid()}"
        where.mkdir()
        yield where
        shutil.rmtree(where)
        return
    if request.param == "fuse":
        usable, why = available()
        if not usable:
            pytest.skip(f"slowfs cannot be used: {why}")
        for each in ("backing", "target"):
            (tmp_path / each).mkdir()
        with SlowFS(tmp_path / "backing", tmp_path / "target"):
            yield tmp_path / "target"
        return
    skip_without_tools("a file system of its own")
    system = FileSystem(tmp_path, "target")
    if (why := system.set_up()) is not None:
        system.take_down()
        pytest.skip(why)
    yield system.path
    system.take_down()


def test_no_byte_of_another_generation_appears(request, folder, tmp_path):
    chance = random.Random(seed_of(request.node.name))
    # Where a server sets the times, a ctime that is a minute later proves nothing (docs/recovery.md).
    served = request.node.callspec.params["folder"] == "fuse"
    acts = [act for act in UNTOUCHED + OTHERS if not (served and act is changed_in_place)]
    chance.shuffle(acts)
    worker = Worker(staged(tmp_path / "staged"))
    try:
        for turn in range(ROUNDS):
            one_round(worker, folder, chance, turn, acts[turn % len(acts)], served)
            shutil.rmtree(tmp_path / "staged" / "staging-area", ignore_errors=True)  # what was refused
            (tmp_path / "staged" / "staging-area").mkdir()
    finally:
        worker.end()
