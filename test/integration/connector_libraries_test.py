"""Several libhdf5 in one process, and several threads in one libhdf5."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from connector_environment import bytes_staged, hdf5_prefix, native, plugin_folder, run, run_python, staged, statistics

from forebay.slowfs import SlowFS, available

# Calls of a second library, through ctypes: h5py has loaded its own with local visibility.
SECOND_LIBRARY = """
import ctypes, os, h5py, numpy
second = ctypes.CDLL(LIBRARY)
i64 = ctypes.c_int64
for name in ("H5Fcreate", "H5Fopen", "H5Screate_simple", "H5Dcreate2", "H5Dopen2"):
    getattr(second, name).restype = i64
def identifier(value):
    assert value >= 0
    return i64(value)
def constant(name):
    return i64.in_dll(second, name)
assert second.H5open() >= 0
def write(path, values):
    values = numpy.ascontiguousarray(values, dtype="f8")
    file = identifier(second.H5Fcreate(path.encode(), 2, i64(0), i64(0)))
    space = identifier(second.H5Screate_simple(1, (ctypes.c_uint64 * 1)(values.size), None))
    data = identifier(second.H5Dcreate2(file, b"x", constant("H5T_NATIVE_DOUBLE_g"), space, i64(0), i64(0), i64(0)))
    buffer = values.ctypes.data_as(ctypes.c_void_p)
    assert second.H5Dwrite(data, constant("H5T_NATIVE_DOUBLE_g"), i64(0), i64(0), i64(0), buffer) >= 0
    assert second.H5Dclose(data) >= 0 and second.H5Sclose(space) >= 0
    return file
def version(library):
    found = [ctypes.c_uint() for _ in range(3)]
    library.H5get_libversion(*map(ctypes.byref, found))
    return tuple(part.value for part in found)
assert version(second) != h5py.version.hdf5_version_tuple
"""


@pytest.fixture
def library():
    """The second one, beside that of h5py."""
    path = Path(os.environ.get("FOREBAY_HDF5_LIBRARY", hdf5_prefix() / "lib" / "libhdf5.so"))
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


@pytest.mark.parametrize("first", ["h5py", "second"])
def test_two_libraries_in_one_process_are_both_served(first, library, tmp_path):
    code = f"""
LIBRARY = {str(library)!r}
{SECOND_LIBRARY}
def from_h5py():
    f = h5py.File("first.h5", "w")
    f["x"] = numpy.arange(1e5)
    return f
def from_second():
    return write("second.h5", numpy.arange(2e5))
if {first!r} == "h5py":
    f, file = from_h5py(), from_second()
else:
    file, f = from_second(), from_h5py()
# Both are open now, and their identifiers mean nothing to the other library.
f["y"] = numpy.ones(1000)
assert second.H5Fclose(file) >= 0
f.close()
for path, last in ("first.h5", 99999), ("second.h5", 199999):
    with h5py.File(path) as f:
        assert f["x"][-1] == last, path
"""
    run_python(code, staged(tmp_path), tmp_path)
    # The drain of a write's first segment may show that the target is as fast. Then the rest bypasses the log.
    entries = {Path(entry["path"]).name: (entry["staged"], entry["through"]) for entry in statistics(tmp_path)}
    for name, size in ("first.h5", 800000), ("second.h5", 1600000):
        assert entries[name][0] > size / 4 and sum(entries[name]) >= size, entries
    check = "import h5py; print(h5py.File('first.h5')['x'][:].sum(), h5py.File('second.h5')['x'][:].sum())"
    assert run_python(check, native(), tmp_path) == "4999950000.0 19999900000.0\n"


# What include/forebay/forebay.h and operations.h declare, by any library.
CALLS = """
import json
class Call(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("arguments", ctypes.c_void_p)]
class Text(ctypes.Structure):
    _fields_ = [("into", ctypes.c_char_p), ("size", ctypes.c_uint64), ("length", ctypes.POINTER(ctypes.c_uint64))]
class Bytes(ctypes.Structure):
    _fields_ = [("bytes", ctypes.POINTER(ctypes.c_uint64))]
first = ctypes.CDLL(h5py.h5p.__file__)
def ask(library, name, file, arguments=None):
    call = Call(-1, ctypes.addressof(arguments) if arguments else None)
    assert library.H5VLfind_opt_operation(FILE, name.encode(), ctypes.byref(call, 0)) >= 0, name
    place = (b"file", b"function", ctypes.c_uint(1))
    default = i64.in_dll(library, "H5P_LST_DATASET_XFER_ID_g")
    return library.H5VLfile_optional_op(*place, i64(file), ctypes.byref(call), default, i64(0))
def statistics_of(library, file):
    length, into = ctypes.c_uint64(), ctypes.create_string_buffer(8192)
    asked = Text(ctypes.cast(into, ctypes.c_char_p), 8192, ctypes.pointer(length))
    assert ask(library, "forebay.file.statistics", file, asked) >= 0
    return json.loads(into.value)
"""


def test_calls_by_identifier_reach_the_library_that_has_the_file(library, tmp_path):
    code = f"""
LIBRARY, FILE = {str(library)!r}, 6  # H5VL_SUBCLS_FILE
{SECOND_LIBRARY}{CALLS}
def from_first(name):
    f = h5py.File(name, "w")
    f["x"] = numpy.arange(1e5)
    return f
f, file = from_first("first.h5"), write("second.h5", numpy.arange(2e5)).value
for found, id_, name in (first, f.id.id, "first.h5"), (second, file, "second.h5"):
    assert statistics_of(found, id_)["path"].endswith(name)
    assert ask(found, "forebay.file.pause_drain", id_) >= 0
    assert ask(found, "forebay.file.wait_durable", id_) >= 0  # which ends the pause
    assert ask(found, "forebay.file.resume_drain", id_) >= 0
    counted = statistics_of(found, id_)
    assert counted["syncs"] >= 1 and counted["staged"] > 0, counted
    assert ask(found, "forebay.file.evict", id_, Bytes(ctypes.pointer(ctypes.c_uint64()))) < 0  # it is not cached
assert second.H5Fclose(i64(file)) >= 0
assert ask(second, "forebay.file.pause_drain", file) < 0
f.close()
"""
    run_python(code, staged(tmp_path), tmp_path)
    assert {Path(entry["path"]).name for entry in statistics(tmp_path)} == {"first.h5", "second.h5"}
    check = "import h5py; print(h5py.File('first.h5')['x'][:].sum(), h5py.File('second.h5')['x'][:].sum())"
    assert run_python(check, native(), tmp_path) == "4999950000.0 19999900000.0\n"


def test_a_pause_holds_for_all_libraries_also_for_one_that_is_loaded_later(library, tmp_path):
    code = f"""
import ctypes, os, h5py
LIBRARY = {str(library)!r}
plugin = ctypes.CDLL({str(plugin_folder() / "libforebay_vol.so")!r}, mode=os.RTLD_NOLOAD | os.RTLD_LOCAL)
assert plugin.forebay_pause() == 0
{SECOND_LIBRARY}
paused, other = write("paused.h5", numpy.arange(1e5)), h5py.File("other paused.h5", "w")
assert plugin.forebay_resume() == 0 and plugin.forebay_resume() == -1
after = write("after.h5", numpy.arange(1e5))
assert second.H5Fclose(paused) >= 0 and second.H5Fclose(after) >= 0
other.close()
"""
    run_python(code, staged(tmp_path), tmp_path)
    told = {Path(entry["path"]).name: (entry["staged"] > 0, entry["reasons"]) for entry in statistics(tmp_path)}
    left_alone = (False, ["paused"])
    assert told == {"paused.h5": left_alone, "other paused.h5": left_alone, "after.h5": (True, [])}


_usable, _reason = available()


@pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
def test_calls_by_path_find_the_file_whichever_library_has_it(library, tmp_path):
    code = f"""
import os
LIBRARY = {str(library)!r}
{SECOND_LIBRARY}
plugin = ctypes.CDLL({str(plugin_folder() / "libforebay_vol.so")!r}, mode=os.RTLD_NOLOAD, use_errno=True)
arguments, left = (ctypes.c_uint64(0), None, None), ctypes.c_uint64()
def refused(call, *arguments):
    return ctypes.get_errno() if call(*arguments) == -1 else 0
files = [h5py.File("first.h5"), identifier(second.H5Fopen(b"second.h5", 0, i64(0)))]
for name in b"first.h5", b"second.h5":
    assert plugin.forebay_path_prefetch(name, *arguments) == 0, name
    assert plugin.forebay_path_prefetch_left(name, ctypes.byref(left)) == 0, name
    assert plugin.forebay_path_prefetch_cancel(name) == 0, name
assert refused(plugin.forebay_path_prefetch, b"third.h5", *arguments) == 2
assert refused(plugin.forebay_path_prefetch_left, b"third.h5", ctypes.byref(left)) == 2
assert refused(plugin.forebay_path_prefetch_cancel, b"third.h5") == 2
assert second.H5Fclose(files[1]) >= 0
assert refused(plugin.forebay_path_prefetch, b"second.h5", *arguments) == 2
"""
    with SlowFS(tmp_path / "backing", tmp_path / "target"):
        for name in "first.h5", "second.h5", "third.h5":
            run_python(f"import h5py; h5py.File({name!r}, 'w')['x'] = range(100000)", native(), tmp_path / "target")
            os.utime(tmp_path / "target" / name, (1_000_000_000, 1_000_000_000))
        run_python(code, staged(tmp_path, "read_cache=on"), tmp_path / "target")


def compile_program(source: str, prefix: Path, folder: Path) -> Path:
    compiler = prefix / "bin" / "h5cc" if (prefix / "bin" / "h5cc").exists() else prefix / "bin" / "h5pcc"
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip(f"no C compiler (and {compiler} would need one)")
    path, program = folder / "program.c", folder / "program"
    path.write_text(source)
    libraries = next(folder for folder in (prefix / "lib", prefix / "lib64") if folder.exists())
    subprocess.run(
        [
            gcc,
            "-O1",
            "-pthread",
            f"-I{prefix / 'include'}",
            path,
            f"-L{libraries}",
            f"-Wl,-rpath,{libraries}",
            "-lhdf5",
            "-o",
            program,
        ],
        check=True,
    )
    return program


THREADS = r"""
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define CHECK(call) do { if ((call) < 0) { fprintf(stderr, "failed: %s\n", #call); exit(1); } } while (0)
enum { kThreads = 8, kSteps = 40, kValues = 5000 };
static void *work(void *argument) {
    const int number = *(int *)argument;
    char path[32], name[32];
    static _Thread_local double values[kValues];
    snprintf(path, sizeof path, "thread%d.h5", number);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(file);
    const hsize_t extent[1] = {kValues};
    for (int step = 0; step < kSteps; ++step) {
        for (int i = 0; i < kValues; ++i) values[i] = number * 1e6 + step * 1e4 + i;
        snprintf(name, sizeof name, "step%d", step);
        hid_t space = H5Screate_simple(1, extent, NULL);
        hid_t data = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(data);
        CHECK(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
        if (step % 10 == 0) CHECK(H5Fflush(file, H5F_SCOPE_LOCAL));
        CHECK(H5Dclose(data));
        CHECK(H5Sclose(space));
        H5E_BEGIN_TRY { H5Dopen2(file, "not there", H5P_DEFAULT); } H5E_END_TRY
    }
    CHECK(H5Fclose(file));
    file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(file);
    for (int step = 0; step < kSteps; ++step) {
        snprintf(name, sizeof name, "step%d", step);
        hid_t data = H5Dopen2(file, name, H5P_DEFAULT);
        CHECK(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
        for (int i = 0; i < kValues; ++i)
            if (values[i] != number * 1e6 + step * 1e4 + i) { fprintf(stderr, "wrong value\n"); exit(1); }
        CHECK(H5Dclose(data));
    }
    CHECK(H5Fclose(file));
    return NULL;
}
int main(void) {
    pthread_t threads[kThreads];
    int numbers[kThreads];
    for (int i = 0; i < kThreads; ++i) { numbers[i] = i; pthread_create(&threads[i], NULL, work, &numbers[i]); }
    for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
    puts("all values right");
    return 0;
}
"""


@pytest.mark.long
def test_threads_of_a_thread_safe_library_write_and_read_their_files(tmp_path):
    prefix = os.environ.get("FOREBAY_HDF5_THREADSAFE")
    if prefix is None:
        pytest.skip("no thread-safe HDF5 in the cache")
    program = compile_program(THREADS, Path(prefix), tmp_path)
    done = run([program], staged(tmp_path), tmp_path / "run", 120)
    assert (done.returncode, done.stdout) == (0, "all values right\n"), done.stderr
    assert bytes_staged(tmp_path) >= 8 * 40 * 5000 * 8


UNCLOSED = r"""
#include <hdf5.h>
int main(void) {
    hid_t file = H5Fcreate("x.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t extent[1] = {100000};
    static int values[100000];
    for (int i = 0; i < 100000; ++i) values[i] = i;
    hid_t space = H5Screate_simple(1, extent, NULL);
    hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0;
    /* The library closes everything when the process exits. */
}
"""

REOPENED_LIBRARY = r"""
#include <hdf5.h>
#include <stdio.h>
int main(void) {
    for (int round = 0; round < 3; ++round) {
        hid_t file = H5Fcreate("x.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        if (file < 0) return 1;
        hid_t group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (group < 0 || H5Gclose(group) < 0 || H5Fclose(file) < 0) return 2;
        if (H5close() < 0) return 3;
    }
    puts("three times");
    return 0;
}
"""


@pytest.mark.long
def test_files_left_open_at_exit_are_complete(tmp_path):
    program = compile_program(UNCLOSED, _serial_prefix(), tmp_path)
    done = run([program], staged(tmp_path), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert run_python("import h5py; print(h5py.File('x.h5')['x'][99999])", native(), tmp_path) == "99999\n"
    assert bytes_staged(tmp_path) >= 400000


@pytest.mark.long
def test_the_library_can_be_closed_and_used_again(tmp_path):
    program = compile_program(REOPENED_LIBRARY, _serial_prefix(), tmp_path)
    done = run([program], staged(tmp_path), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "three times\n", "")
    assert len(statistics(tmp_path)) == 3


def _serial_prefix() -> Path:
    prefix = os.environ.get("FOREBAY_HDF5_THREADSAFE")
    if prefix is None:
        pytest.skip("no serial HDF5 in the cache")
    return Path(prefix)


def test_a_forked_child_opens_and_stages_files_of_its_own(tmp_path):
    code = """
import h5py, os
with h5py.File("before.h5", "w") as f:
    f["x"] = range(1000)
inherited = h5py.File("inherited.h5", "w")
inherited["x"] = range(1000)
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        with h5py.File(f"child{number}.h5", "w") as f:
            f["x"] = range(100000)
        with h5py.File("before.h5") as f:
            assert f["x"][999] == 999
        assert inherited["x"][999] == 999
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
inherited["y"] = range(10)
inherited.close()
for number in range(3):
    with h5py.File(f"child{number}.h5") as f:
        assert f["x"][99999] == 99999
with h5py.File("inherited.h5") as f:
    assert f["x"][999] + f["y"][9] == 1008
"""
    run_python(code, staged(tmp_path), tmp_path, 60)
    entries = {Path(entry["path"]).name: entry["staged"] for entry in statistics(tmp_path)}
    assert all(entries[f"child{number}.h5"] >= 800000 for number in range(3))
    assert entries["inherited.h5"] >= 8000
