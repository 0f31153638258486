"""Closes of files that several ranks write, with close=deferred: docs/consistency.md, "Deferred close", from outside.

The target is a slowfs mount that is stopped: what is closed then has not drained. Rank 0 reads lines of Python, and all
ranks do what they say.
"""

import errno
import functools
import os
import threading

import pytest
from connector_environment import native, statistics
from deferred_program import Program, StoppedTarget, closes, forebay, variables
from parallel_environment import PROGRAMS, launcher, node_names

from forebay.slowfs import available

_usable, _reason = available()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")]

RANKS = 2
X, Y, Z = "target/x.h5", "target/y.h5", "target/z.h5"

LINES = """
import os, sys
from mpi4py import MPI
import h5py, numpy as np
world = MPI.COMM_WORLD
COUNT = 60_000
def values(rank, seed):
    return np.random.default_rng(1000 * seed + rank).random(COUNT)
def write(name, seed=1, mode="w", comm=world):
    f = h5py.File(name, mode, driver="mpio", comm=comm)
    dataset = f.create_dataset(f"x{seed}", (comm.size * COUNT,), "f8", track_times=False)
    dataset[comm.rank * COUNT : (comm.rank + 1) * COUNT] = values(comm.rank, seed)
    return f
def content(name, seed=1, ranks=world.size, **how):
    with h5py.File(name, "r", **how) as f:
        return all(bool((f[f"x{seed}"][i * COUNT : (i + 1) * COUNT] == values(i, seed)).all()) for i in range(ranks))
while True:
    line = world.bcast(sys.stdin.readline() if world.rank == 0 else None)
    if line in ("", "finalize\\n"):
        break
    try:
        value = eval(line) if not line.startswith(("import ", "del ")) and "; " not in line else exec(line)
        reply = f"ok {value}"
    except Exception as error:
        reply = f"{type(error).__name__} {error}".replace("\\n", " ")
    replies = world.gather(reply)
    if world.rank == 0:
        print(replies[0] if len(set(replies)) == 1 else " | ".join(replies), flush=True)
first = world.rank == 0
MPI.Finalize()
if first:
    print("finalized", flush=True)
"""


class Ranks(Program):
    """Ranks that do what rank 0 is told. The reply is that of all, or those of each."""

    def __init__(self, folder, python, environment, nodes=1, ranks=RANKS, per_rank=None):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ranks.py").write_text(LINES)
        words = launcher()
        preload = f"LD_PRELOAD={PROGRAMS / 'yielding_progress.so'}"
        for at, more in enumerate(per_rank or node_names(ranks, nodes)):
            settings = [f"{name}={value}" for name, value in more.items()]
            words += [":"] if at > 0 else []
            words += ["-n", "1", "env", preload, *settings, str(python), "ranks.py"]
        environment = {**environment, "UCX_HANDLE_ERRORS": "none", "UCX_LOG_LEVEL": "fatal"}
        self.start(words, folder, environment)


@pytest.fixture
def target(tmp_path):
    with StoppedTarget(tmp_path) as stopped:
        yield stopped


@pytest.fixture
def start(tmp_path, mpi_python):
    """Starts ranks, which end with the test at the latest."""
    started = []

    def begin(info="close=deferred", nodes=1, ranks=RANKS, **more):
        started.append(Ranks(tmp_path, mpi_python, variables(tmp_path, info, **more), nodes, ranks))
        return started[-1]

    yield begin
    for one in started:
        one.__exit__()


SEEDS = range(4)
UPDATED = "updated"  # written with seed 1, then with seed 2


@pytest.fixture(scope="module")
def native_bytes(tmp_path_factory, mpi_python):
    """What files hold that ranks have written natively, by seed. Their names and folders make no difference."""

    @functools.cache
    def of(ranks: int = RANKS) -> dict[object, bytes]:
        folder = tmp_path_factory.mktemp(f"native-{ranks}")
        with Ranks(folder, mpi_python, native(), ranks=ranks) as started:
            started.must(*(f"write('{seed}.h5', {seed}).close()" for seed in SEEDS))
            started.must(f"write('{UPDATED}.h5', 1).close()", f"write('{UPDATED}.h5', 2, 'r+').close()")
            started.end()
        return {name: (folder / f"{name}.h5").read_bytes() for name in (*SEEDS, UPDATED)}

    return of


def close_deferred(ranks, name=X, seed=1, mode="w"):
    ranks.must(f"write({name!r}, {seed}, {mode!r}).close()")


@pytest.mark.parametrize("count", [2, 4])
def test_files_of_many_steps_are_what_they_are_natively(tmp_path, native_bytes, target, start, count):
    names = [f"target/step{i}.h5" for i in range(3)]
    ranks = start(ranks=count)
    for step, name in enumerate(names):
        close_deferred(ranks, name, step)
    assert all(len(target.written(os.path.basename(name))) < 8 * 60_000 for name in names)  # nothing has drained
    target.go()
    ranks.end()
    for step, name in enumerate(names):
        assert target.written(os.path.basename(name)) == native_bytes(count)[step]
    assert closes(tmp_path) == (3 * count, {})
    assert {entry["pending"] for entry in statistics(tmp_path)} == {0}


def test_the_communicator_may_be_freed_before_the_drain_and_mpi_ends_after_it(tmp_path, native_bytes, target, start):
    ranks = start()
    ranks.must("globals().update(other=world.Dup())", f"write({X!r}, comm=other).close()", "other.Free()")
    assert len(target.written("x.h5")) < 8 * 60_000  # not drained
    ranks.begin("finalize")
    target.go()
    assert ranks.reply() == "finalized"
    ranks.end()
    assert target.written("x.h5") == native_bytes()[1]
    assert closes(tmp_path) == (RANKS, {})


@pytest.mark.parametrize(
    "opens",
    [
        f"content({X!r}, driver='mpio', comm=world)",
        f"content({X!r}, driver='mpio', comm=MPI.COMM_SELF)",
        f"content({X!r})",
        f"content({X!r}) if world.rank == 1 else True",
    ],
)
def test_opening_the_file_again_waits(tmp_path, target, start, opens):
    ranks = start()
    close_deferred(ranks)
    ranks.begin(opens)
    target.go()
    assert ranks.reply() == "ok True"
    ranks.end()
    assert closes(tmp_path) == (RANKS, {})


@pytest.mark.parametrize("unable", range(RANKS))
@pytest.mark.parametrize("mode", ["r+", "r"])
def test_an_open_fails_on_all_ranks_if_one_cannot_tell_whether_the_file_is_being_closed(
    tmp_path, mpi_python, mode, unable
):
    opens = f"h5py.File('x.h5', {mode!r}, driver='mpio', comm=world).close()"
    per_rank = [{} for _ in range(RANKS)]
    libraries = f"{PROGRAMS / 'failing_calls.so'}:{PROGRAMS / 'yielding_progress.so'}"
    per_rank[unable] = {"LD_PRELOAD": libraries, "FAILING_PATH": "/closing", "FAILING_ERRNO": str(errno.EIO)}
    with Ranks(tmp_path, mpi_python, variables(tmp_path, ""), per_rank=per_rank) as ranks:
        watch = threading.Timer(60, ranks.process.terminate)
        watch.start()
        ranks.must("write('x.h5').close()", f"os.environ.update(FAILING_CALLS='opendir' * (world.rank == {unable}))")
        reply = ranks.do(opens)
        assert "/closing" in reply and "Input/output error" in reply, reply
        assert all(not one.startswith("ok") for one in reply.split(" | ")), reply
        ranks.must("os.environ.pop('FAILING_CALLS') and None", opens, "content('x.h5')")
        watch.cancel()
        ranks.end()


@pytest.mark.parametrize("mode", ["r+", "w"])
def test_writing_the_file_again_waits(tmp_path, native_bytes, target, start, mode):
    ranks = start()
    close_deferred(ranks)
    ranks.begin(f"write({X!r}, 2, {mode!r}).close()")
    target.go()
    assert ranks.reply().startswith("ok")
    ranks.end()
    assert target.written("x.h5") == native_bytes()[UPDATED if mode == "r+" else 2]
    assert closes(tmp_path)[0] >= RANKS


def test_another_process_of_the_node_waits(tmp_path, target, start):
    ranks = start()
    close_deferred(ranks)
    with Program(tmp_path, variables(tmp_path, "close=wait")) as other:
        other.begin(f"h5py.File({X!r})['x1'].shape[0]")
        target.go()
        assert other.reply() == f"ok {RANKS * 60_000}"
        other.end()
    ranks.end()
    assert closes(tmp_path) == (RANKS, {})


def test_what_a_close_committed_outlives_all_ranks(tmp_path, native_bytes, target, start):
    ranks = start()
    close_deferred(ranks)
    ranks.begin("os.kill(os.getpid(), 9)")
    ranks.process.wait(timeout=60)
    target.go()
    recovered = forebay(tmp_path, "recover", "--nls", tmp_path / "staging-area")
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert target.written("x.h5") == native_bytes()[1]


@pytest.mark.parametrize("count", [2, 4])
def test_the_next_close_reports_what_failed_after_a_close_on_all_ranks(tmp_path, target, start, count):
    ranks = start(ranks=count)
    target.go()
    # The superblock: it waits for the commit, so the close finds no failure yet.
    target.mount.fault("op=write,hang,errno=ENOSPC,count=1,offset=0..96,path=x.h5")
    target.mount.fault("op=write,errno=ENOSPC,offset=0..96,path=x.h5")
    close_deferred(ranks)
    target.await_hanging()
    target.mount.release()
    refused = ranks.do(f"write({X!r}, 2, 'r+').close()")
    assert not refused.startswith("ok"), refused
    ranks.must("globals().update(other=write('other.h5'))")
    reported = ranks.do("other.close()")
    assert "x.h5" in reported and "did not wait for the drain" in reported, reported
    waited = forebay(tmp_path, "wait", X, "--nls", tmp_path / "staging-area", "--timeout", "60")
    assert waited.returncode == 1, waited.stderr
    ranks.must("write('third.h5').close()")
    target.mount.clear()
    ranks.end()
    assert closes(tmp_path)[0] >= count


def test_forebay_run_tells_a_failure_that_no_close_reported(tmp_path, mpi_python, target):
    target.go()
    target.mount.fault("op=write,hang,errno=EIO,count=1,offset=0..96,path=x.h5")
    target.mount.fault("op=write,errno=EIO,offset=0..96,path=x.h5")
    (tmp_path / "once.py").write_text(f"""
from mpi4py import MPI
import h5py, json, numpy, time
f = h5py.File({X!r}, "w", driver="mpio", comm=MPI.COMM_WORLD)
x = f.create_dataset("x", (200000,), "i8")
x[MPI.COMM_WORLD.rank * 100000 : (MPI.COMM_WORLD.rank + 1) * 100000] = numpy.arange(100000)
f.close()
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 0:
    while json.load(open("target/.slowfs"))["hanging"] == 0:  # only what hangs already is released
        time.sleep(0.01)
    with open("target/.slowfs", "w") as control:
        control.write("release\\n")
""")
    area = tmp_path / "staging-area"
    area.mkdir(exist_ok=True)
    words = ["run", "-o", f"nls={area}", "-o", "close=deferred", "--", *launcher(), "-n", RANKS]
    done = forebay(tmp_path, *words, mpi_python, "once.py", UCX_LOG_LEVEL="fatal")
    assert done.returncode == 74, done
    assert "did not wait for the drain" in done.stderr and "NOT DRAINED" in done.stderr
    target.go()
    assert forebay(tmp_path, "recover", "--nls", area).returncode == 0


def test_a_full_staging_area_waits_for_closed_files(tmp_path, native_bytes, target, start):
    ranks = start("close=deferred;size=1MiB")
    close_deferred(ranks, X, 1)  # 480 kB of each rank
    ranks.begin(f"(write({Y!r}, 2).close(), write({Z!r}, 3).close())")
    target.go()
    assert ranks.reply().startswith("ok")
    ranks.end()
    for seed, name in enumerate((X, Y, Z), 1):
        assert target.written(os.path.basename(name)) == native_bytes()[seed]


def test_ranks_of_several_nodes_wait_and_are_counted(tmp_path, native_bytes, target, start):
    target.go()
    ranks = start(nodes=2)
    close_deferred(ranks)
    assert target.written("x.h5") == native_bytes()[1]
    ranks.end()
    assert closes(tmp_path) == (0, {"shared": RANKS})


def test_with_linger_ranks_wait_and_are_counted(tmp_path, native_bytes, target, start):
    target.go()
    ranks = start("close=linger")
    close_deferred(ranks)
    assert target.written("x.h5") == native_bytes()[1]
    ranks.end()
    assert closes(tmp_path) == (0, {"shared": RANKS})
