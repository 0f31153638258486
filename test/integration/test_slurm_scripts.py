"""The scripts of examples/slurm as slurmd starts them: with a short PATH, and stand-ins for the commands of Slurm.

slurm_test.py runs them under a real one.
"""

import os
import pwd
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from connector_environment import ROOT, plugin_folder
from staged_program import Holder, environment

h5py = pytest.importorskip("h5py")

SCRIPTS = ROOT / "examples" / "slurm"
USER = pwd.getpwuid(os.geteuid()).pw_name
BUILT = plugin_folder().parent / "bin" / "forebay"


def script(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


class Site:
    """A node: slurmd's commands, which note how they are called, and an installation of forebay, or none."""

    def __init__(self, folder):
        self.folder = folder
        self.scripts = folder / "prefix" / "share" / "forebay" / "slurm"
        self.scripts.mkdir(parents=True)
        for name in ("epilog.sh", "prolog.sh"):
            # Of the places where the scripts look, this machine's own must not count.
            text = re.sub(r"/(?:opt/forebay|usr/local|usr)/bin/forebay", "/none", (SCRIPTS / name).read_text())
            script(self.scripts / name).write_text(text)
        script(folder / "slurm" / "scontrol", f'echo "$@" >>{folder}/scontrol.called')
        script(folder / "slurm" / "logger", f'echo "$@" >>{folder}/log')

    def install(self, *lines):
        """A command that these lines make, or that of the build."""
        command = self.folder / "prefix" / "bin" / "forebay"
        command.parent.mkdir()
        if lines:
            script(command, *lines)
        else:
            command.symlink_to(BUILT)

    def start(self, name="epilog.sh", path=None, **variables):
        given = {
            "PATH": path or f"{self.folder}/slurm:/usr/bin:/bin",
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_USER": USER,
            "SLURMD_NODENAME": "n1",
            "FOREBAY_REGISTRY": os.environ["FOREBAY_REGISTRY"],
            "DRAIN_TIMEOUT": "0",
        }
        command = [self.scripts / name]
        return subprocess.run(
            command, env=given | variables, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )

    def told(self, name):
        file = self.folder / name
        return file.read_text() if file.exists() else ""

    @property
    def is_out_of_service(self):
        return "nodename=n1 state=drain" in self.told("scontrol.called")


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_the_epilog_leaves_a_node_in_service_on_which_forebay_is_not_installed(site):
    assert site.start().returncode == 0
    assert not site.told("scontrol.called")
    assert "forebay is not installed here" in site.told("log") and "job 7" in site.told("log")


@pytest.mark.parametrize(
    "status, out_of_service",
    [(0, False), (1, True), (2, False), (3, True), (70, True), (126, False), (127, False), (134, True), (137, True)],
)
def test_each_status_of_drain_means_one_thing_to_the_epilog(site, status, out_of_service):
    site.install(f"echo what it says; exit {status}")
    assert site.start().returncode == 0
    assert site.is_out_of_service == out_of_service
    if status:
        assert "what it says" in site.told("log") and str(status) in site.told("log")


def test_an_epilog_that_cannot_take_the_node_out_of_service_fails_so_that_slurmd_does(site):
    site.install("exit 1")
    script(site.folder / "slurm" / "scontrol", "exit 1")
    assert site.start().returncode == 1


def test_the_epilog_leaves_a_node_in_service_that_does_not_know_the_user(site):
    site.install("exit 1")
    assert site.start(SLURM_JOB_USER="no-such-user").returncode == 0
    assert not site.told("scontrol.called") and "did not run" in site.told("log")


def test_the_epilog_finds_its_installation_and_brings_home_what_a_killed_job_has_left(site):
    (site.folder / "area").mkdir()
    holder = Holder(site.folder / "x.h5", environment(site.folder / "area", SLURM_JOB_ID="7"))
    holder.kill()
    holder.end()
    site.install()
    done = site.start()
    assert done.returncode == 0 and not site.told("scontrol.called"), site.told("log")
    with h5py.File(site.folder / "x.h5") as f:
        assert f["x"][0] == f["x"][99999] == 1 and "late" not in f


@pytest.mark.parametrize("others", [{"SLURM_JOB_ID": "8"}, {"SLURM_JOB_ID": ""}, {}])
def test_a_living_writer_of_another_job_keeps_no_node_out_of_service(site, others):
    (site.folder / "area").mkdir()
    holder = Holder(site.folder / "x.h5", environment(site.folder / "area", **others))
    site.install()
    try:
        begun = site.start(DRAIN_TIMEOUT="1h")
        assert begun.returncode == 0 and not site.told("scontrol.called"), site.told("log")
        # It has not been disturbed.
        holder.close()
    finally:
        holder.end()
    with h5py.File(site.folder / "x.h5") as f:
        assert f["x"][0] == 2 and "late" in f


def test_a_living_writer_of_the_same_job_takes_the_node_out_of_service(site):
    (site.folder / "area").mkdir()
    holder = Holder(site.folder / "x.h5", environment(site.folder / "area", SLURM_JOB_ID="7"))
    site.install()
    try:
        assert site.start().returncode == 0
        assert site.is_out_of_service and "x.h5" in site.told("log")
    finally:
        holder.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts as another user")
def test_the_epilog_asks_as_the_job_s_user():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a test's own folder is root's alone
        site = Site(Path(folder))
        site.folder.chmod(0o777)
        site.install(f"id -un >{folder}/as-whom; id -Gn >>{folder}/as-whom; pwd >>{folder}/as-whom")
        assert site.start(SLURM_JOB_USER="nobody").returncode == 0
        assert site.told("as-whom").split() == ["nobody", "nogroup", "/"]


def test_the_prolog_goes_on_without_forebay_and_says_so_once(site):
    (site.folder / "inputs").write_text("a\nb\n")
    done = site.start("prolog.sh", INPUT_LIST=f"{site.folder}/inputs")
    assert done.returncode == 0 and not done.stdout
    assert done.stderr.count("not installed") == 1


def test_the_prolog_fetches_each_file_of_the_list(site):
    site.install(f'echo "$@" >>{site.folder}/fetched; [ "$4" != b ]')
    (site.folder / "inputs").write_text("a\n\nb\na b")
    done = site.start("prolog.sh", INPUT_LIST=f"{site.folder}/inputs")
    assert done.returncode == 0 and not done.stdout
    assert site.told("fetched").splitlines() == [f"cache prefetch -- {name}" for name in ("a", "b", "a b")]
    assert done.stderr.splitlines() == ["prolog: b is not in the read cache"]
