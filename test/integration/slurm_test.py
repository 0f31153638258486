"""The scripts of examples/slurm, and the job of examples/server, run by a real Slurm."""

import os
import re
import shutil
import sys

import pytest
from connector_environment import ROOT, native, plugin_folder
from deferred_program import StoppedTarget, forebay
from forebay.slowfs import available
from server_environment import tcp_address
from slurm_environment import cluster, missing

h5py = pytest.importorskip("h5py")

pytestmark = pytest.mark.slow

_usable, _reason = available()

# It writes past its last flush, and dies. Nothing of that is in the file without recovery.
WRITE_AND_DIE = """
import os, signal, sys
import h5py
f = h5py.File(sys.argv[1], "w", libver="latest")
d = f.create_dataset("x", (100000,), "i8")
d[:] = 1
f.flush()
d[:] = 2
f.create_group("late")
os.kill(os.getpid(), signal.SIGKILL)
"""


def executable(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


@pytest.fixture
def slurm(tmp_path):
    """A cluster whose epilog is the example's; the staging area and the registry are this test's own."""
    if why := missing():
        pytest.skip(why)
    installed = tmp_path / "prefix" / "share" / "forebay" / "slurm"
    shutil.copytree(ROOT / "examples" / "slurm", installed)
    (tmp_path / "prefix" / "bin").symlink_to(plugin_folder().parent / "bin")
    own = {"FOREBAY_REGISTRY": str(tmp_path / "registry")}
    (tmp_path / "registry").mkdir()
    (tmp_path / "staging-area").mkdir()
    exports = "".join(f"export {name}='{value}'\n" for name, value in own.items())
    epilog = executable(tmp_path / "epilog.sh", f"{exports}exec {installed}/epilog.sh\n")
    with cluster(tmp_path, epilog, native(**own)) as made:
        yield made


def job_of(tmp_path, name):
    (tmp_path / "write.py").write_text(WRITE_AND_DIE)
    return executable(
        tmp_path / "job.sh",
        f"export HDF5_VOL_CONNECTOR='forebay nls={tmp_path}/staging-area' HDF5_PLUGIN_PATH='{plugin_folder()}'\n"
        f"exec '{sys.executable}' {tmp_path}/write.py {tmp_path}/{name}\n",
    )


def test_the_epilog_brings_home_what_a_killed_job_has_left(slurm, tmp_path):
    slurm.run_job("n1", job_of(tmp_path, "x.h5"))
    with h5py.File(tmp_path / "x.h5") as f:
        assert f["x"][0] == f["x"][99999] == 1 and "late" not in f
    assert slurm.state_of("n1") == "idle"


def test_the_epilog_takes_a_node_out_of_service_if_bytes_are_left(slurm, tmp_path):
    script = job_of(tmp_path, "x.h5")
    script.write_text(script.read_text().replace("exec ", "") + f"echo another >{tmp_path}/x.h5\n")
    slurm.run_job("n2", script)
    assert slurm.state_of("n2") in ("drained", "draining")
    assert slurm.state_of("n1") == "idle"
    assert "forebay" in slurm.run("sinfo", "-R").stdout


@pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
def test_the_prolog_fetches_a_job_s_files_into_the_read_cache(slurm, tmp_path):
    with StoppedTarget(tmp_path) as target:
        target.go()
        with h5py.File(tmp_path / "target" / "x.h5", "w") as f:
            f["x"] = range(100000)
        (tmp_path / "inputs.txt").write_text(f"{tmp_path}/target/x.h5\n")
        script = executable(
            tmp_path / "job.sh",
            f"srun --task-prolog={tmp_path}/prefix/share/forebay/slurm/prolog.sh true && touch done\n",
        )
        area = tmp_path / "staging-area"
        number = slurm.run_job("n1", script, FOREBAY_NLS=str(area), INPUT_LIST=f"{tmp_path}/inputs.txt")
        assert (tmp_path / "done").exists(), (tmp_path / f"job-{number}.txt").read_text()
        listed = forebay(tmp_path, "cache", "list", "--json", "--nls", area)
        assert "x.h5" in listed.stdout, listed.stdout + (tmp_path / f"job-{number}.txt").read_text()


def server_job(tmp_path, area, simulation):
    """The example on two nodes of this machine, with a program that runs this."""
    script = (ROOT / "examples" / "server" / "job.sh").read_text()
    address = tcp_address()
    for text, here in (
        ("--nodes=9", "--nodes=2"),
        ("--nodes=8", "--nodes=1"),
        ("0.0.0.0:5000", address),
        ("$node:5000", address),
        ("/local/ssd", str(area)),
        ("./simulation", f"'{sys.executable}' {tmp_path}/simulation.py"),
    ):
        assert script.count(text) == 1, text
        script = script.replace(text, here)
    (tmp_path / "simulation.py").write_text(f"import sys, h5py\nf = h5py.File('{tmp_path}/x.h5', 'w')\n{simulation}\n")
    job = tmp_path / "job.sh"
    job.write_text(script)
    return job


@pytest.mark.parametrize("case", ["fine", "program fails", "server fails"])
def test_the_job_with_a_server_ends_it_by_sigterm_and_has_the_first_bad_status(slurm, tmp_path, case):
    area = tmp_path / ("none" if case == "server fails" else "staging-area")
    simulation = "f['x'] = range(100000)\nf.close()" + ("\nsys.exit(3)" if case == "program fails" else "")
    path = f"{tmp_path}/prefix/bin:{os.environ['PATH']}"
    number = slurm.run_job("n1", server_job(tmp_path, area, simulation), PATH=path)
    said = (tmp_path / f"job-{number}.txt").read_text()
    status = re.search(r"ExitCode=(\d+:\d+)", slurm.run("scontrol", "show", "job", number).stdout)
    assert status and status[1] == {"fine": "0:0", "program fails": "3:0", "server fails": "2:0"}[case], said
    assert ("ending: the server accepts no new clients" in said) == (case != "server fails"), said
    assert ("files are written directly" in said) == (case == "server fails"), said
    with h5py.File(tmp_path / "x.h5") as f:
        assert len(f["x"]) == 100000
