"""Opens, creations, deletions and queries that fail: forebay gives what native HDF5 gives.

Both programs walk the same table in a folder of their own and print what came of each entry.
"""

import fcntl
import re
import signal
import sys

import pytest
from connector_addresses_test import compile_c
from connector_environment import bytes_staged, native, plugin_folder, run, run_python, staged, statistics_file

pytestmark = pytest.mark.slow

# What the folder holds, made without forebay in either case.
GROUND = """
import h5py, os, numpy as np
os.makedirs("folder/below", exist_ok=True)
whole = ("good.h5", "locked.h5", "shared.h5", "cut.h5", "damaged.h5")
for name in whole + ("forbidden.h5", "read_only.h5", "open.h5", "folder/good.h5"):
    with h5py.File(name, "w") as f: f["x"] = np.arange(10000)
open("empty.h5", "w").close()
open("text.h5", "w").write("no HDF5 " * 1000)
with open("cut.h5", "r+b") as f: f.truncate(3000)
with open("damaged.h5", "r+b") as f: f.write(bytes(4096))
os.symlink("nowhere/at/all", "dangling.h5"); os.symlink("round.h5", "round.h5"); os.symlink("good.h5", "link.h5")
os.mkdir("closed"); os.chmod("closed", 0o555)
os.chmod("forbidden.h5", 0); os.chmod("read_only.h5", 0o444); os.chmod(".", 0o755)
"""
NAMES = (
    "good.h5 locked.h5 shared.h5 cut.h5 damaged.h5 empty.h5 text.h5 missing.h5 dangling.h5 round.h5 link.h5 folder "
    "folder/missing.h5 nowhere/missing.h5 good.h5/missing.h5 /dev/null"
).split() + ["x" * 300, "good.h5/", "./folder/../missing.h5"]
HOLDER = """
import fcntl, sys
exclusive, shared = open("locked.h5"), open("shared.h5")
fcntl.flock(exclusive, fcntl.LOCK_EX); fcntl.flock(shared, fcntl.LOCK_SH)
print("held", flush=True); sys.stdin.read()
"""
H5PY = """
import h5py, os, subprocess, sys
NAMES = %r
MADE_ANEW = (
    "good.h5", "link.h5", "text.h5", "cut.h5", "empty.h5", "damaged.h5", "missing.h5", "folder/missing.h5",
    "./folder/../missing.h5",
)
holder = subprocess.Popen([sys.executable, "-c", %r], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
holder.stdout.readline()
def attempt(what, name, act):
    try: outcome = act()
    except BaseException as error: outcome = f"{type(error).__name__} {getattr(error, 'errno', None)} {error}"
    print(what, name, outcome)
def opened(name, mode, **how):
    with h5py.File(name, mode, **how) as f: return sorted(f) if mode in ("r", "r+", "a") else "made"
for name in NAMES:
    for mode in ("r", "r+", "a", "x", "w"):
        if name == "/dev/null" and mode in ("w", "x"): continue
        if mode == "w" and name in MADE_ANEW: continue
        attempt(mode, name, lambda: opened(name, mode))
        if mode in ("a", "x") and name.endswith("missing.h5") and os.path.exists(name): os.unlink(name)
        if name == "empty.h5" and os.path.getsize(name): open(name, "w").close()
    attempt("is_hdf5", name, lambda: h5py.is_hdf5(name))
    attempt("swmr", name, lambda: opened(name, "r", swmr=True))
    attempt("no lock", name, lambda: opened(name, "r+", locking=False))
print("in the same process")
f = h5py.File("open.h5", "r")
for mode in ("r", "r+", "a", "w", "x"): attempt(mode, "open.h5", lambda: opened("open.h5", mode))
f.close()
f = h5py.File("open.h5", "r+")
f["new"] = range(20000)
for mode in ("r", "r+", "a", "w", "x"): attempt(mode, "open.h5", lambda: opened("open.h5", mode))
f.close()
attempt("closed", "open.h5", lambda: f["x"])
attempt("user block", "good.h5", lambda: opened("good.h5", "a", userblock_size=1024))
attempt("user block", "bad.h5", lambda: opened("bad.h5", "w", userblock_size=1000))
attempt("external", "good.h5", lambda: f.file)
with h5py.File("links.h5", "w") as f:
    for target in ("missing.h5", "text.h5", "locked.h5", "folder", "good.h5"):
        f[target] = h5py.ExternalLink(target, "/x")
    for target in f: attempt("behind a link", target, lambda: f[target].shape)
holder.communicate("")
""" % (NAMES, HOLDER)
AS_NOBODY = """
import h5py, os
os.seteuid(65534)
def attempt(what, name, act):
    try: outcome = act()
    except BaseException as error: outcome = f"{type(error).__name__} {getattr(error, 'errno', None)} {error}"
    print(what, name, outcome)
for name in ("forbidden.h5", "read_only.h5", "closed/new.h5", "folder/good.h5"):
    for mode in ("r", "r+", "a", "w", "x"): attempt(mode, name, lambda: h5py.File(name, mode).close())
    attempt("is_hdf5", name, lambda: h5py.is_hdf5(name))
"""


# What differs from one process to another.
OWN = re.compile(r"time = [^\n]*\n?|file descriptor = \d+|buf = 0x[0-9a-f]+")


def on_path_only(tmp_path, **more: str) -> dict[str, str]:
    """As a site's module leaves it: the plugin can be found, and nobody has asked for it."""
    return native(
        HDF5_PLUGIN_PATH=str(plugin_folder()),
        FOREBAY_NLS=str(tmp_path / "not asked for"),
        FOREBAY_STATS=str(statistics_file(tmp_path)),
        **more,
    )


def both(code: str, tmp_path, through=staged, **more: str) -> tuple[str, str]:
    """What the program prints natively and in the other environment, each on a ground of its own with the same name."""
    outputs = []
    for environment, folder in (
        (native(**more), tmp_path / "native" / "here"),
        (through(tmp_path, **more), tmp_path / "through" / "here"),
    ):
        run_python(GROUND, native(), folder)
        outputs.append(OWN.sub("...", run_python(code, environment, folder)))
    return tuple(outputs)


@pytest.mark.check
@pytest.mark.parametrize("locking", [None, "FALSE", "BEST_EFFORT"])
def test_an_open_that_fails_gives_python_the_error_that_it_gives_natively(locking, tmp_path):
    plain, through = both(H5PY, tmp_path, **({"HDF5_USE_FILE_LOCKING": locking} if locking else {}))
    different = [pair for pair in zip(plain.splitlines(), through.splitlines()) if pair[0] != pair[1]]
    assert different == [] and plain == through
    assert plain.count("\n") > 150 and "FileNotFoundError 2" in plain and "IsADirectoryError 21" in plain
    assert locking or "BlockingIOError 11" in plain
    assert bytes_staged(tmp_path) > 0


def test_an_open_that_is_forbidden_gives_python_the_error_that_it_gives_natively(tmp_path):
    plain, through = both(AS_NOBODY, tmp_path)
    assert plain == through and "PermissionError 13" in plain


LOADED = """
assert "libforebay_vol" in open("/proc/self/maps").read() or "HDF5_PLUGIN_PATH" not in os.environ
"""


@pytest.mark.parametrize("locking", [None, "FALSE"])
def test_a_plugin_that_is_only_on_the_path_changes_no_error_of_python(locking, tmp_path):
    more = {"HDF5_USE_FILE_LOCKING": locking} if locking else {}
    plain, searched = both(H5PY + LOADED, tmp_path, on_path_only, **more)
    assert [pair for pair in zip(plain.splitlines(), searched.splitlines()) if pair[0] != pair[1]] == []
    assert plain == searched and "FileNotFoundError 2" in plain
    assert not statistics_file(tmp_path).exists() and not (tmp_path / "not asked for").exists()


C_PROGRAM = r"""
#include <hdf5.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <fcntl.h>
#include <unistd.h>

struct ends { char first[2000], last[2000]; };
static herr_t keep(unsigned n, const H5E_error2_t *error, void *data) {
    struct ends *ends = data;
    char text[2000], major[200] = "", minor[200] = "";
    H5Eget_msg(error->maj_num, NULL, major, sizeof major);
    H5Eget_msg(error->min_num, NULL, minor, sizeof minor);
    snprintf(text, sizeof text, "[%s|%s|%s]", major, minor, error->desc ? error->desc : "");
    if (n == 0) strcpy(ends->first, text);
    strcpy(ends->last, text);
    return 0;
}
static void tell(const char *what, const char *name, long result) {
    struct ends ends = {"", ""};
    hid_t stack = H5Eget_current_stack();
    H5Ewalk2(stack, H5E_WALK_UPWARD, keep, &ends);
    H5Eclose_stack(stack);
    printf("%s %s %s %s %s\n", what, name, result < 0 ? "failed" : result == 0 ? "no" : "yes", ends.first, ends.last);
    if (result > 1000) H5Fclose((hid_t)result);
}
int main(int argc, char **argv) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    int held = open("locked.h5", O_RDONLY);
    flock(held, LOCK_EX);
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i];
        tell("open r", name, H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT));
        tell("open rw", name, H5Fopen(name, H5F_ACC_RDWR, H5P_DEFAULT));
        tell("accessible", name, H5Fis_accessible(name, H5P_DEFAULT));
        tell("create", name, H5Fcreate(name, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
        if (strstr(name, "missing")) unlink(name);
        tell("delete", name, strcmp(name, "/dev/null") ? H5Fdelete(name, H5P_DEFAULT) : 0);
        printf("%s is %s\n", name, access(name, F_OK) ? "gone" : "there");
    }
    tell("flags", "good.h5", H5Fopen("good.h5", 0x1000, H5P_DEFAULT));
    tell("flags", "good.h5", H5Fcreate("good.h5", H5F_ACC_TRUNC | H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    tell("no name", "", H5Fopen("", H5F_ACC_RDONLY, H5P_DEFAULT));
    tell("no name", "", H5Fcreate("", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    hid_t f = H5Fcreate("mine.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    tell("truncate an open one", "mine.h5", H5Fcreate("mine.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    tell("delete an open one", "mine.h5", H5Fdelete("mine.h5", H5P_DEFAULT));
    tell("close", "mine.h5", H5Fclose(f));
    tell("close again", "mine.h5", H5Fclose(f));
    return 0;
}
"""


def test_a_c_program_gets_the_error_stack_that_it_gets_natively(tmp_path):
    program = compile_c(C_PROGRAM, tmp_path / "errors")
    outputs = []
    for environment, folder in (
        (native(), tmp_path / "native" / "here"),
        (staged(tmp_path), tmp_path / "through" / "here"),
        (on_path_only(tmp_path), tmp_path / "searched" / "here"),
    ):
        run_python(GROUND, native(), folder)
        done = run([program, *NAMES], environment, folder)
        assert done.returncode == 0, done.stderr
        outputs.append(OWN.sub("...", done.stdout).splitlines())
    for other in outputs[1:]:
        assert [pair for pair in zip(outputs[0], other) if pair[0] != pair[1]] == []
    assert len(outputs[0]) == len(outputs[1]) == len(outputs[2]) > 100


OLDER_HANDLER = r"""
#include <hdf5.h>
#include <stdio.h>
static int calls;
static herr_t tell(void *data) {
    ++*(int *)data;
    return 0;
}
int main(void) {
    H5E_auto1_t handler = NULL;
    void *data = NULL;
    H5Eset_auto1(tell, &calls);
    hid_t file = H5Fcreate("x.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t extent[1] = {1000};
    int values[1000] = {7};
    hid_t space = H5Screate_simple(1, extent, NULL);
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    printf("written %d\n", H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    printf("address %d\n", H5Dget_offset(set) != HADDR_UNDEF);
    printf("asked %d\n", H5Eget_auto1(&handler, &data));
    printf("the same %d\n", handler == tell);
    H5F_info2_t info;
    hid_t group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    printf("of a dataset %d\n", H5Fget_info2(set, &info));
    printf("of a group %d, version %u\n", H5Fget_info2(group, &info), info.super.version);
    printf("calls of the handler %d\n", calls);
    // With any connector in between HDF5 calls it once for each of them.
    hid_t missing = H5Fopen("missing.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    printf("missing %d %d\n", missing < 0, calls > 0);
    return H5Gclose(group) < 0 || H5Dclose(set) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0;
}
"""


@pytest.mark.parametrize("driver", ["sec2", "stdio"])
def test_a_handler_of_the_first_version_stays_and_is_called_for_the_programs_errors_only(driver, tmp_path):
    """Also asks a group and a dataset for facts of their file."""
    program = compile_c(OLDER_HANDLER, tmp_path / "handler")
    more = {"HDF5_DRIVER": driver}
    plain = run([program], native() | more, tmp_path / "native")
    through = run([program], staged(tmp_path) | more, tmp_path / "through")
    assert (plain.returncode, through.returncode) == (0, 0), through.stderr
    assert through.stdout == plain.stdout and "calls of the handler 0\nmissing 1 1\n" in plain.stdout
    assert (bytes_staged(tmp_path) > 0) == (driver == "sec2")


# The file is staged, and locked by forebay's driver. It is opened once more, with the default access list.
OPENED_NATIVELY = r"""
#include <hdf5.h>
#include <stdio.h>
static int innermost(unsigned n, const H5E_error2_t *error, void *data) {
    (void)n;
    snprintf(data, 500, "%s", error->desc);
    return 0;
}
int main(void) {
    hid_t connector = H5VLregister_connector_by_name("forebay", H5P_DEFAULT), list = H5Pcreate(H5P_FILE_ACCESS);
    if (H5Pset_vol(list, connector, NULL) < 0) return 1;
    hid_t file = H5Fcreate("x.h5", H5F_ACC_TRUNC, H5P_DEFAULT, list);
    static int values[100000], seen[100000];
    values[7] = 7;
    const hsize_t extent[1] = {100000};
    hid_t space = H5Screate_simple(1, extent, NULL);
    hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0 || H5Dclose(data) < 0) return 2;
    hid_t again = H5Fopen("x.h5", H5F_ACC_RDWR, H5P_DEFAULT);
    data = H5Dopen2(again, "x", H5P_DEFAULT);
    if (H5Dread(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, seen) < 0 || seen[7] != 7) return 3;
    if (H5Dclose(data) < 0 || H5Fclose(again) < 0) return 4;
    char text[500] = "";
    if (H5Fopen("missing.h5", H5F_ACC_RDWR, H5P_DEFAULT) >= 0) return 5;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, innermost, text);
    puts(text);
    return H5Fclose(file) < 0 || H5Pclose(list) < 0 || H5VLclose(connector) < 0;
}
"""


def test_a_search_finds_a_file_that_is_staged_here_and_reports_others_as_natively(tmp_path):
    program = compile_c(OPENED_NATIVELY, tmp_path / "again")
    (tmp_path / "not asked for").mkdir()
    done = run([program], on_path_only(tmp_path), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "name = 'missing.h5', errno = 2, error message = 'No such file or directory'" in done.stdout
    assert done.stderr.count("HDF5-DIAG") == 1  # no second report, of the search
    assert bytes_staged(tmp_path) >= 400000


BY_NAME = r"""
#include <hdf5.h>
int main(void) {
    hid_t connector = H5VLregister_connector_by_name("forebay", H5P_DEFAULT);
    int operation = 0;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (connector < 0 || H5VLfind_opt_operation(H5VL_SUBCLS_FILE, "gov.lbl.async.file.wait", &operation) < 0) return 1;
    return H5VLclose(connector) < 0;
}
"""


def test_a_folder_of_the_path_that_is_not_there_is_no_failed_open(tmp_path):
    program = compile_c(BY_NAME, tmp_path / "by_name")
    environment = on_path_only(tmp_path)
    environment["HDF5_PLUGIN_PATH"] = f"{tmp_path}/missing:{environment['HDF5_PLUGIN_PATH']}"
    assert run([program], environment, tmp_path / "here").returncode == 0


AGAIN_IN_PYTHON = """
import h5py, os, numpy as np, forebay
forebay.enable(os.environ["FOREBAY_NLS"])
f = h5py.File("x.h5", "w")
f["x"] = np.arange(100000)
f.flush()
for name in b"x.h5", b"missing.h5":
    try: h5py.h5f.open(name, h5py.h5f.ACC_RDWR)
    except OSError as error: print(type(error).__name__, error)
f.close()
assert h5py.File("x.h5")["x"][99999] == 99999
"""


def test_no_search_of_hdf5_2_finds_a_file_as_it_would_crash(tmp_path):
    h5py = pytest.importorskip("h5py")
    if h5py.version.hdf5_version_tuple < (2, 0):
        pytest.skip(f"h5py has HDF5 {h5py.version.hdf5_version}")
    (tmp_path / "not asked for").mkdir()
    said = run_python(AGAIN_IN_PYTHON, on_path_only(tmp_path), tmp_path).splitlines()
    assert said[0].startswith("BlockingIOError") and "unable to lock file" in said[0]
    assert said[1].startswith("FileNotFoundError") and len(said) == 2
    assert bytes_staged(tmp_path) >= 800000


LEFT = """
import h5py, numpy as np, os, signal
f = h5py.File("left.h5", "w"); f["x"] = np.arange(20000); f.flush(); os.kill(os.getpid(), signal.SIGKILL)
"""
OTHERS_LOCK = """
import h5py
for mode in ("r", "r+", "a", "x"):
    try: print(mode, sorted(h5py.File("left.h5", mode)))
    except OSError as error: print(mode, type(error).__name__, error.errno, error)
"""


def test_a_file_that_another_process_has_locked_is_so_too_when_a_dead_one_has_left_a_log_of_it(tmp_path):
    folder = tmp_path / "through"
    done = run([sys.executable, "-c", LEFT], staged(tmp_path), folder)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with (folder / "left.h5").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        plain = run_python(OTHERS_LOCK, native(), folder)
        assert run_python(OTHERS_LOCK, staged(tmp_path), folder) == plain
        assert plain.count("BlockingIOError 11") == 3
    # Once it is not locked any more, it is brought home.
    assert "r+ ['x']" in run_python(OTHERS_LOCK, staged(tmp_path), folder)
