"""What `forebay run` says of its own program, and of nothing else.

It says the exit status, that there was no HDF5 file, and what kept a file from being staged.
"""

import json
import os
import shlex
import subprocess
import sys
import textwrap
import time

import pytest
from connector_environment import native, plugin_folder, staged
from test_cli import EXIT_NOT_DRAINED, FOREBAY

from forebay.slowfs import SlowFS, available

pytestmark = pytest.mark.slow

_usable, _reason = available()

NO_FILE = "no HDF5 file went through forebay"
WRITE = "import h5py, numpy as np\nf = h5py.File(NAME, 'w'); f['x'] = np.arange(100000)\n"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
KILLED = WRITE + "f.flush(); f['y'] = np.arange(100000); " + KILL


def run(tmp_path, *program, options=(), **variables):
    area = tmp_path / "area"
    area.mkdir(exist_ok=True)
    return subprocess.run(
        [str(FOREBAY), "run", "-o", f"nls={area}", *options, "--", *map(str, program)],
        env=native(**variables),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )


# The command looks at its program ever more rarely: each pause is at most as long as the program has run, and 8.2 s.
OUTLAST = "import time; time.sleep(1 + min(9, 2 * (time.time() - {began})))\n"


def outlast():
    """A line of Python that ends after the command has looked at the program once more."""
    return OUTLAST.format(began=time.time())


def python(code, name="a.h5"):
    return [sys.executable, "-c", f"NAME = {name!r}\n" + textwrap.dedent(code)]


# ---- "no HDF5 file went through forebay" is never said of a program that was staged ----

STAGED = {
    "ends_well": WRITE + "f.close()",
    "never_closes": WRITE,
    "ends_by_a_signal": WRITE + "f.flush()\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "ends_by_a_signal_with_nothing_staged": WRITE
    + "f.close(); f = h5py.File(NAME, 'r+'); import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "ends_at_once": WRITE + "f.flush(); import os; os._exit(0)",
    "only_reads_and_ends_at_once": WRITE
    + "f.close(); import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', "
    "'import h5py, os; h5py.File(\"a.h5\").keys(); os._exit(0)'])\nos._exit(0)",
    "a_child": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r], check=True)"
    % ("NAME='a.h5'\n" + WRITE),
    "a_forked_child": "import os\nif os.fork() == 0:\n"
    "    import h5py; h5py.File(NAME, 'w').close(); os._exit(0)\nos.wait()",
    "becomes_another": "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', %r])"
    % ("NAME='a.h5'\n" + WRITE),
    "becomes_another_with_a_file_open": WRITE + "f.flush(); import os; os.execv('/bin/true', ['true'])",
    "elsewhere": "import os\nos.mkdir('below'); os.chdir('below')\n" + WRITE,
    "a_thread": "import threading\ndef work():\n    import h5py; h5py.File(NAME, 'w').close()\n"
    "t = threading.Thread(target=work); t.start(); t.join()",
    "another_driver": "import h5py\nh5py.File(NAME, 'w', driver='core').close()",
    "an_open_that_fails": "import h5py\ntry: h5py.File('nowhere/a.h5', 'r+')\nexcept OSError: pass\n"
    "h5py.File(NAME, 'w').close()",
}


@pytest.mark.check
@pytest.mark.parametrize("name", STAGED)
def test_a_program_that_forebay_has_served_is_never_said_to_have_no_file(name, tmp_path):
    done = run(tmp_path, *python(STAGED[name]))
    assert NO_FILE not in done.stderr and "forebay:" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "options, variables",
    [
        (["-o", "stats=/nonexistent/stats.jsonl"], {}),
        ((), {"FOREBAY_STATS": "relative.jsonl"}),
        ((), {"HDF5_VOL_CONNECTOR": "forebay stats=/dev/full"}),
    ],
)
def test_statistics_that_cannot_be_written_do_not_matter(options, variables, tmp_path):
    done = run(
        tmp_path, *python("import os\nos.mkdir('below'); os.chdir('below')\n" + WRITE), options=options, **variables
    )
    assert done.returncode == 0 and NO_FILE not in done.stderr and "1 file:" in done.stderr, done.stderr


def test_a_folder_for_temporary_files_that_does_not_exist_does_not_matter(tmp_path):
    done = run(tmp_path, *python(WRITE), TMPDIR="/nonexistent")
    assert done.returncode == 0 and "1 file:" in done.stderr, done.stderr


EMPTIED = 'rm -rf "$TMPDIR"/*; '
# The last bytes wait for the next flush: they are below the end of the last one.
LEAVES = "import h5py, os\nf = h5py.File(NAME, 'w'); f['x'] = [0] * 100000; f.flush(); f['x'][:] = 1\n"


def run_emptying(tmp_path, script, *options):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return run(tmp_path, "sh", "-c", script, options=options, TMPDIR=temporary)


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_what_is_not_known_is_said_to_be_unknown(options, tmp_path):
    done = run_emptying(tmp_path, EMPTIED + shlex.join(python(LEAVES + KILL)) + "; exit 0", *options)
    assert done.returncode == 3 and NO_FILE not in done.stderr and "are unknown" in done.stderr, done.stderr


def test_what_a_killed_process_leaves_counts_also_if_it_removed_the_record(tmp_path):
    code = LEAVES + f"os.system({EMPTIED!r})\n" + KILL
    done = run_emptying(tmp_path, shlex.join(python(code)) + "; exit 0")
    assert done.returncode == EXIT_NOT_DRAINED and "NOT DRAINED" in done.stderr and NO_FILE not in done.stderr, (
        done.stderr
    )


def test_only_folders_of_runs_are_removed(tmp_path):
    temporary = tmp_path / "temporary"
    for name in ("forebay-run-results", "forebay-run-abcdef"):
        (temporary / name).mkdir(parents=True)
        os.utime(temporary / name, (1, 1))
    assert run(tmp_path, "true", TMPDIR=temporary).returncode == 0
    assert sorted(os.listdir(temporary)) == ["forebay-run-abcdef", "forebay-run-results"]


def test_what_is_left_on_a_staging_area_whose_path_is_not_utf_8_counts(tmp_path):
    area = os.fsencode(tmp_path) + b"/area \xff"
    os.mkdir(area)
    done = subprocess.run(
        [FOREBAY, "run", "-o", b"nls=" + area, "--", "sh", "-c", shlex.join(python(LEAVES + KILL)) + "; exit 0"],
        env=native(),
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
    )
    told = done.stderr.decode(errors="replace")
    assert done.returncode == EXIT_NOT_DRAINED and "NOT DRAINED" in told and "is gone" not in told, told


def test_a_program_without_hdf5_is_said_to_have_none(tmp_path):
    assert NO_FILE in run(tmp_path, "true").stderr


def test_a_run_within_a_run_is_told_to_both(tmp_path):
    inner = [FOREBAY, "run", "--json", tmp_path / "inner.json", "--", *python(WRITE)]
    done = run(tmp_path, *inner, options=["--json", str(tmp_path / "outer.json")])
    assert done.returncode == 0, done.stderr
    for which in ("inner", "outer"):
        told = json.loads((tmp_path / f"{which}.json").read_text())
        assert told["files_closed"] == 1 and told["totals"]["staged"] > 800000, which


# ---- the exit status is about the program ----


def test_what_another_job_leaves_behind_meanwhile_does_not_count(tmp_path):
    area = tmp_path / "area"
    other = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r])" % ("NAME='other.h5'\n" + KILLED)
    code = f"import os\nos.environ.pop('FOREBAY_RUN')\n{other}\n{WRITE}f.close()"  # as another job on the node would be
    done = run(tmp_path, *python(code))
    assert any(area.glob("forebay-*/*-*")), "the other one has left nothing"
    assert done.returncode == 0 and "NOT DRAINED" not in done.stderr, done.stderr


def test_the_lines_of_another_job_in_the_same_statistics_do_not_count(tmp_path):
    stats = tmp_path / "stats.jsonl"
    line = json.dumps({"file": {"path": "/other.h5", "staged": 10, "pending": 10, "error": 5}})
    done = run(
        tmp_path,
        *python(f"open({str(stats)!r}, 'a').write({line!r} + chr(10))\n" + WRITE),
        options=["-o", f"stats={stats}"],
    )
    assert done.returncode == 0 and "NOT DRAINED" not in done.stderr, done.stderr
    assert len(stats.read_text().splitlines()) == 3


@pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
@pytest.mark.parametrize("child", ["spawned", "forked"])
def test_what_a_child_of_the_program_leaves_behind_counts(child, tmp_path):
    if child == "spawned":
        code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r])" % ("NAME='target/a.h5'\n" + KILLED)
    else:
        code = "import os\nif os.fork() == 0:\n" + textwrap.indent(KILLED, "    ") + "\nos.wait()"
    # Nothing reaches the file, so something is left, however late the child is killed.
    with SlowFS(tmp_path / "backing", tmp_path / "target", faults=["op=write,hang"]):
        done = run(tmp_path, *python(code, "target/a.h5"))
    assert done.returncode == EXIT_NOT_DRAINED and f"{tmp_path}/target/a.h5" in done.stderr, done.stderr


def test_a_file_that_a_dead_process_had_drained_is_counted(tmp_path):
    done = run(tmp_path, *python(WRITE + "f.flush(); " + KILL), options=["-o", "flush=drain", "--json", "-"])
    told = json.loads(done.stdout)
    assert told["totals"]["pending"] == 0 and told["totals"]["staged"] > 800000, told
    assert "forebay: 1 file:" in done.stderr and "NOT DRAINED" not in done.stderr, done.stderr


def test_what_was_brought_home_within_the_run_does_not_count(tmp_path):
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r])\n" % ("NAME='a.h5'\n" + KILLED)
    done = run(tmp_path, *python(code + "import h5py\nh5py.File(NAME, 'r+').close()"))
    assert done.returncode == 0 and "NOT DRAINED" not in done.stderr, done.stderr


# ---- why a program was not staged ----


def test_a_script_that_overwrites_the_plugin_path_is_told_of(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(
        f"export HDF5_PLUGIN_PATH=/site/plugins\n{sys.executable} -c 'try:\n"
        f'    import h5py; h5py.File("a.h5", "w")\nexcept Exception: pass\n{outlast()}\'\n'
    )
    done = run(tmp_path, "bash", script)
    assert NO_FILE in done.stderr and "HDF5_PLUGIN_PATH" in done.stderr and str(plugin_folder()) in done.stderr, (
        done.stderr
    )


def test_a_python_script_that_overwrites_the_plugin_path_is_told_of(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "import os\nos.environ['HDF5_PLUGIN_PATH'] = '/site/plugins'\ntry:\n"
        "    import h5py; h5py.File('a.h5', 'w')\nexcept Exception: pass\n"
    )
    done = run(tmp_path, sys.executable, script)
    assert NO_FILE in done.stderr and "job.py" in done.stderr and str(plugin_folder()) in done.stderr, done.stderr


def test_doctor_tells_of_a_plugin_path_that_lacks_the_plugin(tmp_path):
    environment = staged(tmp_path, HDF5_PLUGIN_PATH="/site/plugins")
    done = subprocess.run([str(FOREBAY), "doctor"], env=environment, capture_output=True, text=True, timeout=60)
    assert (
        done.returncode == 1 and "HDF5_PLUGIN_PATH=/site/plugins" in done.stdout and str(plugin_folder()) in done.stdout
    )


# ---- an HDF5 before 1.14 ----

OLD = "/usr/lib/x86_64-linux-gnu/libhdf5_serial.so.103"
WITH_OLD = f"""
import ctypes
old = ctypes.CDLL({OLD!r})
old.H5Fcreate.restype = ctypes.c_int64
assert old.H5open() >= 0
f = old.H5Fcreate(b"old.h5", 2, ctypes.c_int64(0), ctypes.c_int64(0))
assert f >= 0 and old.H5Fclose(ctypes.c_int64(f)) >= 0
"""
needs_old = pytest.mark.skipif(not os.path.exists(OLD), reason="Debian's HDF5 1.10 (libhdf5-103-1) is not installed")


@needs_old
def test_an_old_hdf5_gets_one_clear_line(tmp_path):
    done = run(tmp_path, sys.executable, "-c", WITH_OLD + outlast())
    assert done.returncode == 0, done.stderr
    assert [
        line for line in done.stderr.splitlines() if "1.14.0 or later" in line and OLD in line and "HDF5 1.10" in line
    ] != [], done.stderr


@needs_old
def test_an_old_hdf5_beside_a_newer_one_is_not_told_of(tmp_path):
    """Debian's PyTorch loads HDF5 1.10 and never calls it."""
    writes = "import h5py\nh5py.File('new.h5', 'w')['x'] = 1\n"
    done = run(tmp_path, sys.executable, "-c", f"import ctypes\nctypes.CDLL({OLD!r})\n" + writes + outlast())
    assert done.returncode == 0 and "1.14.0 or later" not in done.stderr, done.stderr


@needs_old
def test_doctor_refuses_an_old_hdf5_with_one_problem(tmp_path):
    done = subprocess.run(
        [str(FOREBAY), "doctor", "--json", "--library", OLD], env=native(), capture_output=True, text=True, timeout=60
    )
    problems = json.loads(done.stdout)["problems"]
    assert done.returncode == 1 and len([one for one in problems if "1.14.0" in one]) == 1 and len(problems) == 1, (
        problems
    )


@needs_old
def test_doctor_tries_the_newer_of_two_hdf5s(tmp_path):
    program = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({OLD!r}); import h5py"]
    command = [str(FOREBAY), "doctor", "--json", "--nls", tmp_path, "--", *program]
    done = subprocess.run(command, env=native(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "h5py" in json.loads(done.stdout)["hdf5"]["library"], done.stdout
