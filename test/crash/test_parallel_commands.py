"""What `status`, `wait`, `recover` and `run` say of files that ranks write together."""

import json
import os
import subprocess

import pytest
from connector_environment import native, plugin_folder
from crash_environment import EPOCHS, staged
from parallel_environment import launcher, launch, node_names
from test_cli import FOREBAY, call
from test_parallel_crash import run

RANKS = 2

# Rank 0 is told what to do next; the others follow it. What comes after the flush waits for the next one.
PROGRAM = """
import sys
import h5py, numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
f = h5py.File(sys.argv[1], "w", driver="mpio", comm=world, libver="latest")
d = f.create_dataset("x", (world.size * 100000,), "i8")
mine = slice(world.rank * 100000, (world.rank + 1) * 100000)
d[mine] = world.rank + 1
f.flush()
f.create_group("late")
d[mine] = 9
world.Barrier()
if world.rank == 0:
    print("staged", flush=True)
while True:
    word = world.bcast(sys.stdin.readline() if world.rank == 0 else None)
    if word == "close\\n":
        f.close()
    if word in ("end\\n", ""):
        break
    if world.rank == 0:
        print("done", flush=True)
"""


def test_a_file_of_killed_ranks_is_one_entry_with_its_drainer(tmp_path):
    path, area = tmp_path / "run.h5", tmp_path / "area"
    run(path, "latest", EPOCHS, 1, staged(area))
    (file,) = json.loads(call("status", "--json").stdout)["files"]
    assert (file["path"], file["state"]) == (str(path), "left_behind")
    assert len(file["processes"]) == RANKS and not any(process["alive"] for process in file["processes"])
    assert sum(process["drains"] for process in file["processes"]) == 1
    assert all(process["staged"] > 0 for process in file["processes"]), "each rank has written"
    assert 0 <= file["progress"] < 1 and file["pending"] > 0
    text = call("status", path).stdout
    assert text.splitlines().count(str(path)) == 1 and text.count(" %") == 1 and "drains for all" in text
    assert call("status", "--check", path).returncode == 1
    assert call("wait", path).returncode == 1
    assert call("recover", path).returncode == 0
    assert call("status", "--check", path).returncode == 0
    assert call("wait", path).returncode == 0


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_file_of_living_ranks_is_pending_until_it_is_closed(tmp_path, nodes):
    python = os.environ.get("FOREBAY_HDF5_PYTHON")
    if python is None:
        pytest.skip("there is no h5py with MPI for this HDF5")
    path, area = tmp_path / "run.h5", tmp_path / "area"
    area.mkdir()
    variables = native(
        HDF5_VOL_CONNECTOR=f"forebay nls={area}",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
        UCX_HANDLE_ERRORS="none",
        UCX_LOG_LEVEL="fatal",
    )
    words = [*launcher("mpich")]
    for at, names in enumerate(node_names(RANKS, nodes)):
        words += [":"] if at > 0 else []
        words += [
            "-n",
            "1",
            "env",
            *(f"{name}={value}" for name, value in names.items()),
            python,
            "-c",
            PROGRAM,
            str(path),
        ]
    with subprocess.Popen(
        words, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as program:
        try:
            assert program.stdout.readline() == "staged\n"
            (file,) = json.loads(call("status", "--json").stdout)["files"]
            assert file["state"] == "at_work" and len(file["processes"]) == RANKS
            assert sum(process["drains"] for process in file["processes"]) == nodes
            for command in ("recover", "discard"):
                done = call(command, "--json", path, *(["--yes"] if command == "discard" else []))
                (told,) = json.loads(done.stdout)["files"]
                assert (done.returncode, told["reason"]) == (1, "in_use")
            if nodes == 1:  # of several nodes nothing is held back
                waited = call("wait", "--timeout", "0", path)
                assert waited.returncode == 1 and "not in the file yet" in waited.stderr
                assert call("status", "--check", path).returncode == 4
            with subprocess.Popen([FOREBAY, "wait", path], env=native()) as waiting:
                program.stdin.write("close\n")
                assert program.stdout.readline() == "done\n"
                assert waiting.wait(timeout=300) == 0
            assert call("status", "--check", path).returncode == 0
            assert call("recover", path).returncode == 0
            program.stdin.write("end\n")
            program.stdin.close()
            assert program.wait(timeout=300) == 0
        finally:
            if program.poll() is None:
                program.terminate()


def test_the_summary_adds_up_ranks_and_says_so(tmp_path):
    python = os.environ.get("FOREBAY_HDF5_PYTHON")
    if python is None:
        pytest.skip("there is no h5py with MPI for this HDF5")
    path, area = tmp_path / "run.h5", tmp_path / "area"
    area.mkdir()
    environment = native(UCX_HANDLE_ERRORS="none", UCX_LOG_LEVEL="fatal")
    done = subprocess.run(
        [
            FOREBAY,
            "run",
            "--json",
            tmp_path / "summary",
            "-o",
            f"nls={area}",
            "--",
            *launcher("mpich"),
            "-n",
            str(RANKS),
            python,
            "-c",
            PROGRAM,
            path,
        ],
        env=environment,
        input="close\nend\n",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "summary").read_text())
    assert summary["distinct_files"] == 1 and summary["processes"] == RANKS and summary["totals"]["staged"] > 0
    assert f"sum over {RANKS} processes: in staged writes" in done.stderr and "1 file: " in done.stderr
