"""`forebay drain`: waits for the living, recovers from the dead, and tells what it could not."""

import json
import os
import signal
import subprocess

import pytest
from connector_environment import ROOT, native, plugin_folder
from deferred_program import Program, StoppedTarget, forebay, native_bytes, variables
from staged_program import Holder, environment, process_directories
from test_cli import FOREBAY

from forebay.slowfs import available

h5py = pytest.importorskip("h5py")

_usable, _reason = available()
needs_slowfs = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

X = "target/x.h5"


@pytest.fixture
def area(tmp_path):
    folder = tmp_path / "staging-area"
    folder.mkdir()
    return folder


def test_there_is_nothing_to_drain_where_nothing_was_staged(tmp_path, area):
    assert forebay(tmp_path, "drain", "--all", "--nls", area).returncode == 0
    assert forebay(tmp_path, "drain", area).returncode == 0


def test_it_wants_to_know_which_areas(tmp_path, area):
    assert forebay(tmp_path, "drain").returncode == 2
    assert forebay(tmp_path, "drain", "--all", area).returncode == 2
    (tmp_path / "x.h5").touch()
    assert forebay(tmp_path, "drain", "x.h5").returncode == 2


@needs_slowfs
def test_it_waits_for_a_close_that_was_deferred(tmp_path, area):
    with StoppedTarget(tmp_path) as target, Program(tmp_path, variables(tmp_path)) as program:
        program.must(f"write({X!r}).close()")
        late = forebay(tmp_path, "drain", "--all", "--timeout", "0", "--nls", area)
        assert late.returncode == 1 and "x.h5" in late.stderr and str(program.process.pid) in late.stderr
        target.go()
        done = forebay(tmp_path, "drain", "--all", "--nls", area)
        assert done.returncode == 0, done.stdout + done.stderr
        assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
        program.end()


@needs_slowfs
def test_it_brings_home_what_a_killed_program_closed(tmp_path, area):
    with StoppedTarget(tmp_path) as target, Program(tmp_path, variables(tmp_path)) as program:
        program.must(f"write({X!r}).close()")
        program.process.send_signal(signal.SIGKILL)
        target.go()
        program.process.wait(timeout=60)
        done = forebay(tmp_path, "drain", "--all", "--json", "--nls", area)
        assert done.returncode == 0, done.stdout + done.stderr
        assert [file["outcome"] for file in json.loads(done.stdout)["files"]] == ["recovered"]
        assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")


def died_during(tmp_path, area, *command):
    """What the command says if a process comes and dies while it writes the file of another."""
    with StoppedTarget(tmp_path) as target, Program(tmp_path, variables(tmp_path)) as program:
        program.must(f"write({X!r}).close()")
        program.process.send_signal(signal.SIGKILL)
        target.go()
        program.process.wait(timeout=60)
        target.stop()
        at_work = subprocess.Popen(
            [FOREBAY, *command], env=native(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        target.await_hanging()
        holder = Holder(tmp_path / "late.h5", environment(area))
        holder.kill()
        holder.end()
        target.go()
        out, err = at_work.communicate(timeout=120)
        assert target.written("x.h5") == native_bytes(tmp_path, X, f"write({X!r}).close()")
    return at_work.returncode, out, err


@needs_slowfs
def test_it_also_brings_home_what_a_process_left_that_died_meanwhile(tmp_path, area):
    status, out, err = died_during(tmp_path, area, "drain", "--all", "--json", "--nls", area)
    assert status == 0, out + err
    files = {file["path"]: file["outcome"] for file in json.loads(out)["files"]}
    assert files == {str(tmp_path / X): "recovered", str(tmp_path / "late.h5"): "recovered"}
    assert h5py.File(tmp_path / "late.h5")["x"][99999] == 1
    assert process_directories(area) == []


@needs_slowfs
def test_recover_tells_of_a_process_that_died_meanwhile(tmp_path, area):
    status, out, err = died_during(tmp_path, area, "recover", "--nls", area)
    assert status == 1 and "died meanwhile; run the command again" in out, out + err
    again = forebay(tmp_path, "recover", "--nls", area)
    assert again.returncode == 0 and h5py.File(tmp_path / "late.h5")["x"][99999] == 1, again.stdout + again.stderr


def test_it_tells_what_stays_in_the_log_of_a_living_process(tmp_path, area):
    holder = Holder(tmp_path / "x.h5", environment(area))
    done = forebay(tmp_path, "drain", area, "--timeout", "0")
    holder.close()
    holder.end()
    assert done.returncode == 1 and str(holder.pid) in done.stderr and "x.h5" in done.stderr
    assert forebay(tmp_path, "drain", area, "--timeout", "60").returncode == 0


def test_it_tells_what_cannot_be_recovered(tmp_path, area):
    holder = Holder(tmp_path / "x.h5", environment(area))
    holder.kill()
    holder.end()
    (tmp_path / "x.h5").write_bytes(b"another program's")
    done = forebay(tmp_path, "drain", area)
    assert (tmp_path / "x.h5").read_bytes() == b"another program's"
    assert done.returncode == 1 and "NOT RECOVERED" in done.stdout and "x.h5" in done.stdout


# ---- examples/slurm --------------------------------------------------------------------------------------


@pytest.fixture
def commands(tmp_path):
    """Where the example scripts find `forebay`, and in place of Slurm's commands some that note their arguments."""
    folder = tmp_path / "commands"
    folder.mkdir()
    os.symlink(plugin_folder().parent / "bin" / "forebay", folder / "forebay")
    for name in ("scontrol", "logger"):
        (folder / name).write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/{name}.txt"\n')
        (folder / name).chmod(0o755)
    (folder / "runuser").write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    (folder / "runuser").chmod(0o755)
    return folder


def script(tmp_path, commands, name, **more):
    return subprocess.run(
        ["sh", ROOT / "examples" / "slurm" / name],
        env=native(PATH=f"{commands}:{os.environ['PATH']}", **more),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )


def epilog(tmp_path, commands, area):
    return script(
        tmp_path,
        commands,
        "epilog.sh",
        SLURM_JOB_USER="somebody",
        SLURM_JOB_ID="42",
        SLURMD_NODENAME="node7",
        FOREBAY_NLS=str(area),
    )


def test_the_epilog_brings_files_home_and_leaves_the_node_in_service(tmp_path, area, commands):
    holder = Holder(tmp_path / "x.h5", environment(area))
    holder.kill()
    holder.end()
    done = epilog(tmp_path, commands, area)
    assert done.returncode == 0 and not (tmp_path / "scontrol.txt").exists(), done.stderr
    assert h5py.File(tmp_path / "x.h5")["x"][99999] == 1


def test_the_epilog_takes_the_node_out_of_service_if_bytes_are_left(tmp_path, area, commands):
    holder = Holder(tmp_path / "x.h5", environment(area))
    holder.kill()
    holder.end()
    (tmp_path / "x.h5").write_bytes(b"another program's")
    assert epilog(tmp_path, commands, area).returncode == 0
    assert "nodename=node7 state=drain" in (tmp_path / "scontrol.txt").read_text()
    assert "x.h5" in (tmp_path / "logger.txt").read_text()


@needs_slowfs
def test_the_prolog_fetches_the_files_that_are_listed(tmp_path, area, commands):
    with StoppedTarget(tmp_path) as target:
        target.go()
        with h5py.File(tmp_path / X, "w") as f:
            f["x"] = range(100000)
        (tmp_path / "inputs.txt").write_text(f"{tmp_path / X}\n{tmp_path / 'missing.h5'}\n")
        variables = {"FOREBAY_NLS": str(area), "INPUT_LIST": str(tmp_path / "inputs.txt")}
        done = script(tmp_path, commands, "prolog.sh", **variables)
        assert done.returncode == 0 and done.stdout == "" and "missing.h5" in done.stderr
        listed = forebay(tmp_path, "cache", "list", "--json", "--nls", area)
        assert "x.h5" in listed.stdout, listed.stdout + listed.stderr
