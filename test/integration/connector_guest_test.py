"""A guest in somebody else's process: its descriptors, its limits, and its end are the program's."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import (
    asides,
    bytes_staged,
    hdf5_prefix,
    native,
    run_python,
    staged,
    statistics,
    statistics_file,
)

from mounts import unmount

pytestmark = pytest.mark.slow


def build(folder: Path, code: str) -> Path:
    """A C program against the HDF5 of the build."""
    (folder / "program.c").write_text(code)
    prefix = hdf5_prefix()
    command = [
        "mpicc",
        "-O1",
        "-w",
        f"-I{prefix}/include",
        "program.c",
        "-o",
        "program",
        f"-L{prefix}/lib",
        f"-Wl,-rpath,{prefix}/lib",
        "-lhdf5",
        "-lpthread",
    ]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder / "program"


def run(command, environment, folder, **more) -> subprocess.CompletedProcess[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, **more
    )


def processes(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in statistics_file(folder).read_text().splitlines()]
    return [line["process"] for line in lines if "process" in line]


def nothing_left(folder: Path) -> bool:
    """No process directory is left in the staging area."""
    return not [path for path in (folder / "staging-area").glob("forebay-*/*") if path.name[0].isdigit()]


# ---- descriptors --------------------------------------------------------------------------------------

TAKEN_OVER = """
import fcntl, os, sys, h5py, numpy as np, socket
how, when = sys.argv[1:]
taken = {}
def foreign(i):
    if how == 'files':
        open(f'data{i}.bin', 'wb').write(b'program' * 1000)
        return open(f'data{i}.bin', 'r+b', buffering=0)
    if how == 'appended': return open(f'data{i}.bin', 'ab', buffering=0)
    if how == 'pipes': return os.pipe()
    if how == 'sockets': return socket.socketpair()
    if how == 'folders': os.makedirs(f'd{i}', exist_ok=True); return os.open(f'd{i}', os.O_RDONLY)
    if how == 'target': return open('out.h5' if os.path.exists('out.h5') else 'settings.h5', 'r+b', buffering=0)
def numbers(keep):
    for one in keep:
        for each in one if isinstance(one, tuple) else [one]: yield each if isinstance(each, int) else each.fileno()
def identity(number):
    found = os.fstat(number)
    return found.st_dev, found.st_ino, found.st_mode, fcntl.fcntl(number, fcntl.F_GETFL)
def close_and_take():
    os.closerange(3, 4096)
    keep = [foreign(i) for i in range(14)]
    taken.update((number, identity(number)) for number in numbers(keep))
    return keep
with h5py.File('settings.h5', 'w') as f: f['n'] = np.arange(200000)
if when == 'before': keep = close_and_take()
f = h5py.File('out.h5', 'w'); d = f.create_dataset('v', (40, 1 << 15), 'f8', chunks=(1, 1 << 15))
for i in range(20): d[i] = i
f.flush()
if when == 'between': keep = close_and_take()
for i in range(20, 40): d[i] = i
print(bool((d[:] == np.arange(40)[:, None]).all()))
f.flush(); f.close()
print(len(taken) >= 14, [number for number, was in taken.items() if identity(number) != was])
if how in ('files', 'appended'):
    whole = b'program' * 1000 if how == 'files' else b''
    print([i for i in range(14) if open(f'data{i}.bin', 'rb').read() != whole])
if how == 'pipes':
    for r, w in keep: os.set_blocking(r, False)
    print([i for i, (r, w) in enumerate(keep) if __import__('select').select([r], [], [], 0)[0]])
if how == 'sockets': print([i for i, pair in enumerate(keep) if __import__('select').select(pair, [], [], 0)[0]])
if how == 'folders': print([i for i in range(14) if os.listdir(f'd{i}')])
if how == 'target':  # nothing was read or written through them, and they are of a file that is there
    there = [(found.st_dev, found.st_ino) for found in map(os.stat, ('settings.h5', 'out.h5'))]
    print([i for i, k in enumerate(keep) if k.tell() != 0 or identity(k.fileno())[:2] not in there])
with h5py.File('out.h5', 'r') as g: print(bool((g['v'][:] == np.arange(40)[:, None]).all()))
with h5py.File('settings.h5', 'r') as g: print(bool((g['n'][:] == np.arange(200000)).all()))
"""


@pytest.mark.check
@pytest.mark.parametrize("when", ["before", "between"])
@pytest.mark.parametrize("how", ["files", "appended", "pipes", "sockets", "folders", "target"])
def test_numbers_that_the_program_takes_over_are_its_own(tmp_path, how, when):
    # Without locks: natively, too, they end with the descriptor, and the program opens the file once more.
    environment = staged(tmp_path, HDF5_USE_FILE_LOCKING="FALSE")
    (tmp_path / "p.py").write_text(TAKEN_OVER)
    done = run([sys.executable, "p.py", how, when], environment, tmp_path)
    assert done.stdout.splitlines() == ["True", "True []", "[]", "True", "True"], done.stdout + done.stderr
    assert bytes_staged(tmp_path) > 0
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_an_open_file_takes_as_many_descriptors_as_natively(tmp_path, mode):
    code = f"""
import h5py, os
n = lambda: len(os.listdir('/proc/self/fd'))
for i in range(20): h5py.File(f'z{{i}}.h5', 'w').close()
with h5py.File('warm.h5', 'w') as f: f['x'] = range(1000)
a = n(); f = [h5py.File(f'z{{i}}.h5', {mode!r}) for i in range(20)]
if {mode!r} == 'r+':
    for x in f: x['d'] = range(1000); x.flush()
print(n() - a); [x.close() for x in f]; print(n() - a)
"""
    plain = run_python(code, native(), tmp_path / "native")
    assert run_python(code, staged(tmp_path), tmp_path / "through") == plain == "20\n0\n"
    assert bytes_staged(tmp_path) > 0


def test_a_closed_file_has_no_descriptor_any_more(tmp_path):
    """One that is closed later would end the locks (F_SETLK) that the program takes meanwhile."""
    code = """
import os, h5py
def of_the_file():
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum(os.readlink(link).endswith("data.h5") for link in links if os.path.lexists(link))
late = 0
for i in range(300):
    with h5py.File("data.h5", "w") as f:
        f["numbers"] = range(100)
    late += of_the_file()
print(late)
"""
    assert run_python(code, staged(tmp_path), tmp_path) == "0\n"
    assert bytes_staged(tmp_path) > 0


def test_staging_takes_one_descriptor_of_the_process_and_opens_none_meanwhile(tmp_path):
    code = """
import h5py, os, numpy as np
link = '/proc/self/fd/{}'.format
n = lambda: {k: os.readlink(link(k)) for k in os.listdir('/proc/self/fd') if os.path.exists(link(k))}
before = set(n().values())
f = h5py.File('x.h5', 'w'); f['x'] = np.zeros(3000000); f.flush()
print(sorted(os.path.basename(v) for v in set(n().values()) - before if 'proc' not in v))
"""
    assert run_python(code, staged(tmp_path), tmp_path / "through") == "['log', 'x.h5']\n"


def test_a_program_with_as_many_descriptors_as_it_may_have_goes_on(tmp_path):
    code = """
import h5py, os, resource, numpy as np
with h5py.File('first.h5', 'w') as f: f['x'] = range(10)
f = h5py.File('x.h5', 'w'); d = f.create_dataset('v', (64, 1 << 17), 'f8')
keep = []
try:
    while True: keep.append(os.open('/dev/null', os.O_RDONLY))
except OSError: pass
for i in range(64): d[i] = i
f.flush()
print(bool((d[:] == np.arange(64)[:, None]).all())); f.close()
for k in keep: os.close(k)
with h5py.File('x.h5') as f: print(bool((f['v'][:] == np.arange(64)[:, None]).all()))
"""
    (tmp_path / "p.py").write_text(code)
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
    done = run([sys.executable, "p.py"], staged(tmp_path), tmp_path, preexec_fn=few)
    assert done.stdout == "True\nTrue\n", done.stdout + done.stderr


# ---- signals ------------------------------------------------------------------------------------------


def test_no_thread_of_a_program_takes_a_signal_but_its_own(tmp_path):
    code = """
import h5py, glob, numpy as np
f = h5py.File('x.h5', 'w'); f['x'] = np.zeros(4000000); f.flush(); f['y'] = np.zeros(4000000); f.flush()
import os
mine = set(os.environ['THREADS'].split()) if 'THREADS' in os.environ else set()
blocked = lambda status: next(line for line in open(status) if line.startswith('SigBlk')).split()[1]
def mask(status):
    while True:   # the C library blocks every signal in a thread while it starts
        bits = int(blocked(status), 16)
        if not bits & (1 << 10): return bits
masks = {t.split('/')[-2]: mask(t) for t in glob.glob('/proc/self/task/*/status')}
ours = [m for t, m in masks.items() if m & (1 << 9)]   # SIGUSR1
# SIGSEGV; SIGTERM; SIGXFSZ
print(len(ours) > 0, all(not m & (1 << 10) and m & (1 << 14) and m & (1 << 24) for m in ours))
"""
    assert run_python(code, staged(tmp_path), tmp_path / "through") == "True True\n"


def test_a_storm_of_signals_breaks_nothing(tmp_path):
    code = """
import signal, h5py, numpy as np
ticks = [0]
def tick(*_): ticks[0] += 1
signal.signal(signal.SIGALRM, tick); signal.siginterrupt(signal.SIGALRM, True)
signal.setitimer(signal.ITIMER_REAL, .0005, .0005)
for n in range(3):
    with h5py.File('x.h5', 'w') as f:
        d = f.create_dataset('v', (200, 1 << 14), 'f8')
        for i in range(200): d[i] = i
        f.flush(); right = bool((d[:] == np.arange(200)[:, None]).all())
    with h5py.File('x.h5', 'a') as f: f['w'] = f['v'][::2]; right = right and bool((f['w'][:] == f['v'][::2]).all())
signal.setitimer(signal.ITIMER_REAL, 0); print(right, ticks[0] > 10)
"""
    assert run_python(code, staged(tmp_path), tmp_path / "through") == "True True\n"
    assert bytes_staged(tmp_path) > 0


# ---- limits -------------------------------------------------------------------------------------------

LIMITED = r"""
#include <hdf5.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
static volatile sig_atomic_t raised;
static void note(int s) { ++raised; }
/* program MIB-LIMIT MIB-WRITTEN default|caught|ignored before|after */
int main(int c, char **v) {
    struct rlimit r = {strtoul(v[1], 0, 10) << 20, RLIM_INFINITY};
    if (!strcmp(v[3], "caught")) signal(SIGXFSZ, note);
    if (!strcmp(v[3], "ignored")) signal(SIGXFSZ, SIG_IGN);
    H5Eset_auto2(0, 0, 0);
    if (!strcmp(v[4], "before")) setrlimit(RLIMIT_FSIZE, &r);
    hsize_t n = strtoul(v[2], 0, 10) << 18; int *b = malloc(n * 4); for (hsize_t i = 0; i < n; ++i) b[i] = i;
    hid_t f = H5Fcreate("o.h5", H5F_ACC_TRUNC, 0, 0), s = H5Screate_simple(1, &n, 0);
    hid_t d = H5Dcreate2(f, "x", H5T_NATIVE_INT, s, 0, 0, 0);
    if (!strcmp(v[4], "after")) setrlimit(RLIMIT_FSIZE, &r);
    int w = H5Dwrite(d, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, 0, b);
    int fl = H5Fflush(f, H5F_SCOPE_GLOBAL);
    printf("write %d flush %d raised %d\n", w, fl, raised > 0); fflush(stdout);
    H5Dclose(d); printf("close %d\n", H5Fclose(f)); return 0;
}
"""


@pytest.fixture(scope="module")
def limited(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("limited"), LIMITED)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("signal_is", ["default", "caught", "ignored"])
@pytest.mark.parametrize(("limit", "written"), [(8, 2), (1, 4), (4, 64)])
def test_a_limit_of_files_ends_what_it_ends_natively(tmp_path, limited, limit, written, signal_is, when):
    arguments = [limited, limit, written, signal_is, when]
    plain = run(arguments, native(), tmp_path / "native")
    through = run(arguments, staged(tmp_path), tmp_path / "through")
    raised = lambda done: [line.split()[-1] for line in done.stdout.splitlines()[:1]]
    assert (through.returncode, raised(through)) == (plain.returncode, raised(plain)), through.stderr
    # Natively the write fails; staged, the flush or the close does, and the bytes stay in the log.
    assert (" -1" in through.stdout) == (" -1" in plain.stdout)
    if written < limit:
        assert through.stdout == plain.stdout
        assert (tmp_path / "through" / "o.h5").stat().st_size == (tmp_path / "native" / "o.h5").stat().st_size
        assert bytes_staged(tmp_path) > 0
        assert nothing_left(tmp_path)


def test_a_log_stays_below_the_limit_of_files_that_are_all_below_it(tmp_path):
    code = """
import h5py, resource, numpy as np, os, glob
resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
files = [h5py.File(f'{i}.h5', 'w') for i in range(10)]
for turn in range(5):
    for f in files: f[f'v{turn}'] = np.full(1 << 17, turn, 'f8')
for f in files: f.flush()
print(max(os.path.getsize(p) for p in glob.glob(os.environ['FOREBAY_NLS'] + '/*/*/log')) <= 8 << 20)
[f.close() for f in files]
print(all(h5py.File(f'{i}.h5')['v4'][0] == 4 for i in range(10)))
"""
    assert run_python(code, staged(tmp_path), tmp_path / "through") == "True\nTrue\n"
    assert bytes_staged(tmp_path) > 0


@pytest.mark.parametrize("gigabytes", [2, 16])
def test_a_limit_of_memory_that_may_be_mapped_leaves_the_program_what_it_has_natively(tmp_path, gigabytes):
    code = """
import h5py, mmap, resource, sys, numpy as np
left = lambda: resource.getrlimit(resource.RLIMIT_AS)[0] - int(open('/proc/self/statm').read().split()[0]) * 4096
f = h5py.File('x.h5', 'w'); f['x'] = np.arange(3000000.); f.flush()
had = left()
MAP_NORESERVE = 0x4000
keep = mmap.mmap(-1, int(had * .9), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE); print('mapped')
f['y'] = np.arange(3000000.); f.close()
with h5py.File('x.h5') as f: print(f['x'][2999999], f['y'][2999999])
print(had, file=sys.stderr)
"""
    (tmp_path / "p.py").write_text(code)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
    plain = run([sys.executable, "p.py"], native(), tmp_path, preexec_fn=limit)
    through = run([sys.executable, "p.py"], staged(tmp_path), tmp_path, preexec_fn=limit)
    assert through.stdout == plain.stdout == "mapped\n2999999.0 2999999.0\n", through.stderr
    assert int(through.stderr.split()[-1]) > 0.85 * int(plain.stderr.split()[-1])
    assert asides(tmp_path) == ({"staging_area": 1} if gigabytes == 2 else {})
    assert (bytes_staged(tmp_path) > 0) == (gigabytes == 16)


def test_a_program_that_writes_little_has_little_taken(tmp_path):
    code = """
import h5py, os, glob, time
f = h5py.File('x.h5', 'w'); f['x'] = range(512); f.flush()
log, = glob.glob(os.environ['FOREBAY_NLS'] + '/*/*/log')
seen = 0
for _ in range(30):   # the reserve begins to be made after a second
    time.sleep(.1); seen = max(seen, os.path.getsize(log))
print(seen >> 20); f.close()
"""
    assert int(run_python(code, staged(tmp_path), tmp_path / "through")) <= 4


# ---- the end of the process ---------------------------------------------------------------------------

NEVER_CLOSED = r"""
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static herr_t create(hid_t g, const char *n, const H5L_info2_t *i, void *u) {
    hid_t h = H5Gcreate2(g, "zzz", 0, 0, 0);
    printf("create in callback %d\n", h >= 0);
    return 1;
}
static herr_t visit(hid_t g, const char *n, const H5O_info2_t *i, void *u) {
    if (strcmp(n, ".") == 0) return 0;
    return create(g, n, NULL, u);
}
static void *end(void *how) { exit(0); }
/* program literate|ovisit|dont_atexit flush|noflush return|exit|thread|_exit */
int main(int c, char **v) {
    if (!strcmp(v[1], "dont_atexit")) H5dont_atexit();
    H5Eset_auto2(0, 0, 0);
    hid_t f = H5Fcreate("b.h5", H5F_ACC_TRUNC, 0, 0);
    for (int i = 0; i < 20; i++) { char k[9]; sprintf(k, "g%d", i); H5Gclose(H5Gcreate2(f, k, 0, 0, 0)); }
    hsize_t at = 0;
    if (!strcmp(v[1], "literate")) H5Literate2(f, H5_INDEX_NAME, H5_ITER_INC, &at, create, 0);
    if (!strcmp(v[1], "ovisit")) H5Ovisit3(f, H5_INDEX_NAME, H5_ITER_INC, visit, 0, H5O_INFO_BASIC);
    hsize_t n = 1000000; hid_t s = H5Screate_simple(1, &n, 0), timeless = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(timeless, 0);
    hid_t d = H5Dcreate2(f, "d", H5T_NATIVE_INT, s, 0, timeless, 0); H5Pclose(timeless);
    int *b = malloc(n * 4); for (int i = 0; i < n; i++) b[i] = i;
    printf("write %d\n", H5Dwrite(d, H5T_NATIVE_INT, 0, 0, 0, b)); H5Dclose(d); H5Sclose(s);
    if (!strcmp(v[2], "flush")) printf("flush %d\n", H5Fflush(f, 0));
    if (strcmp(v[1], "dont_atexit")) printf("close %d\n", H5Fclose(f));
    fflush(stdout);
    if (!strcmp(v[3], "thread")) { pthread_t t; pthread_create(&t, 0, end, 0); pthread_join(t, 0); }
    if (!strcmp(v[3], "exit")) exit(0);
    if (!strcmp(v[3], "_exit")) _exit(0);
    return 0;
}
"""


@pytest.fixture(scope="module")
def never_closed(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("never"), NEVER_CLOSED)


@pytest.mark.parametrize("how", ["return", "exit", "thread"])
@pytest.mark.parametrize("flush", ["flush", "noflush"])
@pytest.mark.parametrize("why", ["literate", "ovisit", "dont_atexit"])
def test_a_file_that_hdf5_never_closes_is_as_natively_at_the_end(tmp_path, never_closed, why, flush, how):
    arguments = [never_closed, why, flush, how]
    plain = run(arguments, native(), tmp_path / "native")
    through = run(arguments, staged(tmp_path), tmp_path / "through")
    assert (through.returncode, through.stdout) == (plain.returncode, plain.stdout)
    assert through.stderr == plain.stderr
    assert (tmp_path / "through" / "b.h5").read_bytes() == (tmp_path / "native" / "b.h5").read_bytes()
    assert bytes_staged(tmp_path) > 0
    (process,) = processes(tmp_path)
    assert process["files_staged"] == 1
    assert nothing_left(tmp_path)


def test_what_cannot_be_brought_home_at_the_end_is_told(tmp_path, never_closed):
    (tmp_path / "small").mkdir()
    probe = run(["sh", "-c", "mount -t tmpfs -o size=2m none small"], native(), tmp_path)
    if probe.returncode != 0:
        pytest.skip("the test may not mount a file system")
    try:
        through = run([never_closed, "literate", "flush", "return"], staged(tmp_path), tmp_path / "small")
        assert "b.h5" in through.stderr and "forebay recover" in through.stderr and through.stderr.count("\n") == 1
        assert through.returncode == 0
        assert not nothing_left(tmp_path)
        (process,) = processes(tmp_path)
        assert process["files_staged"] == 1
    finally:
        unmount(tmp_path / "small")


def test_a_process_that_ends_without_its_end_leaves_what_recovery_brings_home(tmp_path, never_closed):
    run([never_closed, "literate", "flush", "_exit"], staged(tmp_path), tmp_path / "through")
    assert not nothing_left(tmp_path)
    run([never_closed, "literate", "flush", "_exit"], native(), tmp_path / "native")
    forebay = (
        Path(os.environ.get("FOREBAY_BUILD_DIR", Path(__file__).resolve().parents[2] / "build" / "release"))
        / "bin"
        / "forebay"
    )
    recovered = run([forebay, "recover", tmp_path / "staging-area"], native(), tmp_path)
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert nothing_left(tmp_path)
    recovered_bytes, native_bytes = ((tmp_path / side / "b.h5").read_bytes() for side in ("through", "native"))
    assert recovered_bytes == native_bytes
