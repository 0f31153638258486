"""Who is dead: a lock that ends with the process says so.

The process's number, parent, children and descriptors do not matter. Each program stages, flushes, and then dies in one
of the ways in which number and start time mislead. The next one that opens the file has to find what was flushed, and
nothing else.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import hdf5_prefix, native, plugin_folder
from test_cli import call

pytestmark = pytest.mark.slow

h5py = pytest.importorskip("h5py")

# Sees processes of its own only, under other numbers, as in a container.
ANOTHER_PID_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
# Enough that it is not in the file before the process dies, as long as nobody waits.
SIZE = 1 << 20
OPEN = "import h5py, numpy as np, os, signal, subprocess, sys, time\n"
VALUES = "print(sorted(set(f['x'][...].tolist())), 'late' in f)\n"
LOCKING = [None, False]


def staged(area, info="", **more):
    return native(
        HDF5_VOL_CONNECTOR=f"forebay {info}".strip(),
        HDF5_PLUGIN_PATH=str(plugin_folder()),
        FOREBAY_NLS=str(area),
        **more,
    )


@pytest.fixture
def area(tmp_path):
    made = tmp_path / "area"
    made.mkdir()
    return made


@pytest.fixture
def path(tmp_path):
    """A file as it was before: ones."""
    made = tmp_path / "run.h5"
    subprocess.run(
        [sys.executable, "-c", f"{OPEN}with h5py.File({str(made)!r}, 'w') as f: f['x'] = np.full({SIZE}, 1, 'i4')"],
        env=native(),
        check=True,
    )
    return made


def locking_text(locking):
    return f"{{}}" if locking is None else f"dict(locking={locking})"


def python(code, area, *arguments, before=(), **more):
    return subprocess.run(
        [*before, sys.executable, "-c", OPEN + code, *map(str, arguments)],
        env=staged(area, **more),
        capture_output=True,
        text=True,
        timeout=120,
    )


def left(area):
    """The directories of processes."""
    (folder,) = area.glob("forebay-*")
    return sorted(each.name for each in folder.iterdir() if each.name[0].isdigit())


def read_now(path, area, mode="r+", locking=None, **more):
    return python(
        f"with h5py.File(sys.argv[1], {mode!r}, **{locking_text(locking)}) as f:\n    {VALUES}", area, path, **more
    )


def expect_flushed(done):
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2] False\n", done.stdout + done.stderr


# What a program does that is to die: the flushed state is twos, and no "late".
WRITE = """
f = h5py.File(sys.argv[1], "r+", **LOCK)
f["x"][...] = 2
f.flush()
f["late"] = np.arange(1000)
"""


def write(locking=None):
    return WRITE.replace("LOCK", locking_text(locking))


@pytest.mark.check
@pytest.mark.parametrize("mode", ["r", "r+", "a"])
def test_a_child_that_was_killed_and_not_waited_for_is_dead(path, area, mode):
    parent = f"""
child = subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]])
h5py.File(sys.argv[1] + ".other", "w").close()      # it has looked round while the child lived
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
with h5py.File(sys.argv[1], "{mode}") as f:
    {VALUES}"""
    child = OPEN + write() + "os.kill(os.getpid(), signal.SIGKILL)"
    expect_flushed(python(parent, area, path, child))
    assert left(area) == []


EXEC = {
    "by itself": "os.execv(sys.executable, again)",
    "from a thread": "import threading\n"
    "t = threading.Thread(target=os.execv, args=(sys.executable, again))\nt.start()\nt.join()",
}


@pytest.mark.parametrize("how", EXEC)
@pytest.mark.parametrize("locking", LOCKING)
def test_after_exec_the_flushed_is_there_and_the_rest_is_gone(path, area, how, locking):
    program = f"""
if len(sys.argv) == 3:
    {write(locking).replace(chr(10), chr(10) + "    ")}
    again = [sys.executable, "-c", sys.argv[2], sys.argv[1], sys.argv[2], "again"]
    {EXEC[how].replace(chr(10), chr(10) + "    ")}
with h5py.File(sys.argv[1], "r+", **{locking_text(locking)}) as f:
    {VALUES}"""
    expect_flushed(python(program, area, path, OPEN + program))
    assert left(area) == []


def test_what_was_never_flushed_before_an_exec_is_dropped(path, area):
    program = f"""
if len(sys.argv) == 3:
    f = h5py.File(sys.argv[1], "r+")
    f["x"][...] = 3
    f["late"] = np.arange(1000)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], sys.argv[1], sys.argv[2], "again"])
with h5py.File(sys.argv[1], "r") as f:
    {VALUES}"""
    done = python(program, area, path, OPEN + program)
    assert done.returncode == 0, done.stderr
    # HDF5 flushes when it opens for writing: raw data of its own place may be there, as natively, but no metadata.
    assert done.stdout.endswith("False\n"), done.stdout + done.stderr


@pytest.mark.parametrize("locking", LOCKING)
def test_a_chain_of_images_ends_with_all_that_each_has_flushed(path, area, locking):
    program = f"""
turn = int(sys.argv[3])
f = h5py.File(sys.argv[1], "r+", **{locking_text(locking)})
f[f"turn {{turn}}"] = np.full(50000, turn)
f.flush()
f["late"] = turn
if turn < 4:
    program, file = sys.argv[2], sys.argv[1]
    os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:1], program, file, program, str(turn + 1)])
del f["late"]
f.close()
with h5py.File(sys.argv[1], "r") as f:
    print(sorted(f), [int(f[f"turn {{i}}"][:].sum()) for i in range(5)])
"""
    done = python(program, area, path, OPEN + program, "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{['turn ' + str(i) for i in range(5)] + ['x']} {[50000 * i for i in range(5)]}\n"
    assert left(area) == []


PROGRAM_IN_C = r"""
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
static char **arguments;
static void *run_again(void *unused) {
    char *again[] = {arguments[0], arguments[1], (char *)"read", NULL};
    execv("/proc/self/exe", again);
    return unused;
}
int main(int count, char **values) {
    arguments = values;
    int *all = malloc(sizeof(int) << 20), different = 0;
    hid_t file = H5Fopen(values[1], strcmp(values[2], "read") == 0 ? H5F_ACC_RDONLY : H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t x = H5Dopen2(file, "x", H5P_DEFAULT);
    if (strcmp(values[2], "read") == 0) {
        if (H5Dread(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) < 0) return 1;
        for (int i = 0; i < 1 << 20; ++i) different += all[i] != 2;
        printf("%d different\n", different);
        return 0;
    }
    for (int i = 0; i < 1 << 20; ++i) all[i] = 2;
    H5Dwrite(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, all);
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) return 1;
    if (strcmp(values[2], "vfork") == 0) {
        pid_t child = vfork();
        if (child == 0) { execl("/bin/true", "true", (char *)NULL); _exit(1); }
        waitpid(child, NULL, 0);
        puts("here");
        fflush(stdout);
        getchar();
        return H5Dclose(x) < 0 || H5Fclose(file) < 0;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, run_again, NULL);
    pthread_join(thread, NULL);
    return 1;
}
"""


@pytest.fixture(scope="module")
def program_in_c(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM_IN_C)
    prefix, mpi = hdf5_prefix(), shutil.which("mpicc")
    subprocess.run(
        [
            mpi or compiler,
            "-w",
            f"-I{prefix}/include",
            str(folder / "program.c"),
            "-o",
            str(folder / "program"),
            f"-L{prefix}/lib",
            f"-Wl,-rpath,{prefix}/lib",
            "-lhdf5",
            "-lpthread",
        ],
        check=True,
    )
    return folder / "program"


@pytest.mark.parametrize("locking", ["TRUE", "FALSE"])
def test_exec_from_a_thread_of_a_program_in_c(path, area, program_in_c, locking):
    done = subprocess.run(
        [program_in_c, path, "write"],
        env=staged(area, HDF5_USE_FILE_LOCKING=locking),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "0 different\n"), done.stderr


def test_a_child_made_by_vfork_that_runs_another_program_does_not_end_its_parents_life(path, area, program_in_c):
    running = subprocess.Popen(
        [program_in_c, path, "vfork"],
        env=staged(area, "drain_threads=1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "here\n"
    there = left(area)
    report = json.loads(call("recover", "--json", area).stdout)
    assert len(report["living"]) == 1 and left(area) == there
    running.communicate("\n", timeout=60)
    assert running.returncode == 0 and left(area) == []


def test_a_forked_child_that_lives_on_does_not_keep_its_parent_alive(path, area):
    parent = (
        write(False)
        + """
if os.fork() == 0:
    print("here", flush=True)
    os.close(1)
    input()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN + parent, path],
        env=staged(area),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "here\n"
    process.wait(timeout=60)
    expect_flushed(read_now(path, area, locking=False))
    assert left(area) == []
    process.communicate("\n")


def test_a_program_that_has_closed_all_descriptors_lives(tmp_path, area):
    program = """
f = h5py.File(sys.argv[1], "w")
f["x"] = np.arange(100000)
f.close()                             # all of it is in the file
os.closerange(3, 4096)
print("here", flush=True)
input()
os._exit(0)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN + program, tmp_path / "mine.h5"],
        env=staged(area),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "here\n"
    there = left(area)
    report = json.loads(call("recover", "--json", area).stdout)
    assert len(report["living"]) == 1 and report["removed"] == [] and left(area) == there
    process.communicate("\n", timeout=60)
    report = json.loads(call("recover", "--json", area).stdout)
    assert report["living"] == [] and left(area) == []


# ---- PID namespaces ------------------------------------------------------------------------------------


def need_pid_namespaces():
    if (
        shutil.which("unshare") is None
        or subprocess.run([*ANOTHER_PID_NAMESPACE, "true"], capture_output=True, check=False).returncode != 0
    ):
        pytest.skip("this user may not make a PID namespace")


@pytest.mark.parametrize("locking", LOCKING)
@pytest.mark.parametrize("reader", ["outside", "in another container"])
def test_containers_with_the_same_numbers_share_a_staging_area(tmp_path, area, reader, locking):
    need_pid_namespaces()
    before = ANOTHER_PID_NAMESPACE if reader != "outside" else []
    paths = [tmp_path / f"run {i}.h5" for i in range(2)]
    program = (
        write(locking).replace('"r+"', '"w"').replace('f["x"][...] = 2', f'f["x"] = np.full({SIZE}, 2, "i4")')
        + """
print("here", os.getpid(), flush=True)
input()
del f["late"]
f.close()
"""
    )
    running = [
        subprocess.Popen(
            [*ANOTHER_PID_NAMESPACE, sys.executable, "-c", OPEN + program, path],
            env=staged(area),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for path in paths
    ]
    assert {each.stdout.readline() for each in running} == {"here 1\n"}
    names = left(area)
    assert len(names) == 2 and len({name.split("-")[1] for name in names}) == 2, (
        "each has a name and a start of its own"
    )
    running[0].kill()
    # The program dies a moment after its parent. Without standard input it would end well meanwhile.
    assert running[0].stdout.read() == ""
    running[0].communicate(timeout=60)
    expect_flushed(read_now(paths[0], area, locking=locking, before=before))
    assert len(left(area)) == 1, "that of the living one"
    running[1].communicate("\n", timeout=60)
    assert running[1].returncode == 0
    expect_flushed(read_now(paths[1], area, locking=locking, before=before))
    assert left(area) == []


# ---- waiting for the lock of a writer that is killed ---------------------------------------------------


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("waiters", [1, 2])
def test_whoever_waits_for_the_lock_of_a_killed_writer_finds_what_it_had_flushed(path, area, mode, waiters):
    for turn in range(2):
        writer = subprocess.Popen(
            [
                sys.executable,
                "-c",
                OPEN + write() + "print('here', flush=True)\ninput()\nos.kill(os.getpid(), signal.SIGKILL)",
                path,
            ],
            env=staged(area),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout.readline() == "here\n"
        waiter = f"""
print("waiting", flush=True)
while True:
    try:
        f = h5py.File(sys.argv[1], "{mode}")
        break
    except OSError:
        pass
{VALUES}f.close()
"""
        waiting = [
            subprocess.Popen(
                [sys.executable, "-c", OPEN + waiter, path],
                env=staged(area),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(waiters)
        ]
        for each in waiting:
            assert each.stdout.readline() == "waiting\n"
        writer.communicate("\n", timeout=60)
        for each in waiting:
            said, complained = each.communicate(timeout=60)
            assert said == "[2] False\n", said + complained
        assert left(area) == []
        subprocess.run(
            [sys.executable, "-c", f"{OPEN}with h5py.File({str(path)!r}, 'r+') as f: f['x'][...] = 1"],
            env=native(),
            check=True,
        )


# ---- directories that cannot be read -------------------------------------------------------------------


def kill_a_writer(path, area, locking=None):
    done = python(write(locking) + "os.kill(os.getpid(), signal.SIGKILL)", area, path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (name,) = left(area)
    (folder,) = area.glob("forebay-*")
    return folder / name


def spoil_mode(directory):
    directory.chmod(0o770)


def spoil_log_mode(directory):
    (directory / "log").chmod(0o660)


def spoil_segments(directory, offset, content):
    """Overwrites a part of the header of every segment."""
    with open(directory / "log", "r+b") as log:
        for at in range(0, os.fstat(log.fileno()).st_size, 4096):
            log.seek(at)
            if log.read(8) == b"FBAYSEG1":
                log.seek(at + offset)
                log.write(content)


def spoil_log(directory):
    spoil_segments(directory, 72, b"\xff" * 8)


SPOILT = [spoil_mode, spoil_log_mode, spoil_log]


@pytest.mark.parametrize("mode", ["r", "r+", "a", "w"])
@pytest.mark.parametrize("spoil", SPOILT)
def test_a_directory_that_cannot_be_used_keeps_the_file_that_it_names_from_being_opened(path, area, spoil, mode):
    directory = kill_a_writer(path, area)
    spoil(directory)
    before = path.read_bytes()
    done = read_now(path, area, mode)
    assert done.returncode != 0
    assert str(directory) in done.stderr and str(path) in done.stderr and "forebay " in done.stderr, done.stderr
    assert path.read_bytes() == before and directory.exists()
    # Others are not concerned.
    done = python("with h5py.File(sys.argv[1], 'w') as f: f['x'] = 1", area, path.with_name("other.h5"))
    assert done.returncode == 0 and str(directory) not in done.stderr, done.stderr


def test_one_of_which_nobody_can_tell_what_it_is_about_is_told_of_once_and_counted(path, area, tmp_path):
    directory = kill_a_writer(path, area)
    spoil_log(directory)
    (directory / "ledger").unlink()
    statistics = tmp_path / "statistics"
    program = "for name in 'ab':\n    with h5py.File(sys.argv[1] + name, sys.argv[2]) as f: f[f'x {len(f)}'] = 1"
    other = tmp_path / "other"
    made = python(program, area, other, "w", FOREBAY_STATS=str(statistics))
    assert made.returncode == 0 and made.stderr == "", "a new file has nothing to do with it"
    for mode in "a", "r+":
        done = python(program, area, other, mode, FOREBAY_STATS=str(statistics))
        assert done.returncode == 0, done.stderr
        assert str(directory) in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    lines = [json.loads(line) for line in statistics.read_text().splitlines()]
    assert [line["process"]["unread"] for line in lines if "process" in line] == [0, 1, 1]
    strict = python(program, area, other, "r+", FOREBAY_STRICT="on")
    assert strict.returncode != 0 and str(directory) in strict.stderr, strict.stderr


def test_root_is_told_of_what_a_user_has_left_of_a_file(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("not root")
    nobody = 65534
    shared = Path("/tmp") / f"forebay-liveness-{os.getpid()}"
    shared.mkdir(mode=0o777)
    try:
        shared.chmod(0o777)
        area = shared / "area"
        area.mkdir()
        area.chmod(0o1777)
        path = shared / "run.h5"
        as_nobody = dict(user=nobody, group=nobody, extra_groups=[])
        make = f"{OPEN}with h5py.File({str(path)!r}, 'w') as f: f['x'] = np.full({SIZE}, 1, 'i4')"
        try:
            can = (
                subprocess.run(
                    [sys.executable, "-c", "import h5py"], **as_nobody, env=native(), capture_output=True, check=False
                ).returncode
                == 0
            )
        except PermissionError:
            can = False
        can = (
            can
            and subprocess.run(["ls", str(plugin_folder())], **as_nobody, capture_output=True, check=False).returncode
            == 0
        )
        if not can:
            pytest.skip("another user cannot run Python or read the plugin here")
        subprocess.run([sys.executable, "-c", make], env=native(HOME=str(shared)), **as_nobody, check=True)
        done = subprocess.run(
            [sys.executable, "-c", OPEN + write() + "os.kill(os.getpid(), signal.SIGKILL)", str(path)],
            env=staged(area),
            **as_nobody,
            capture_output=True,
            text=True,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        done = read_now(path, area)
        assert done.returncode != 0 and f"forebay-{nobody}" in done.stderr and str(path) in done.stderr, done.stderr
        done = subprocess.run(
            [sys.executable, "-c", f"{OPEN}with h5py.File({str(path)!r}, 'r+') as f:\n    {VALUES}"],
            env=staged(area),
            **as_nobody,
            capture_output=True,
            text=True,
        )
        expect_flushed(done)
    finally:
        shutil.rmtree(shared, ignore_errors=True)
