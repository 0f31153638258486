"""GlusterFS: two bricks, files in shards over both. One brick is killed under a serial program, and started again.

The next flush tells of it; once the brick is back, recovery brings everything that was flushed to the file.
"""

import ast
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from connector_environment import native, run_python, staged

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", Path(__file__).resolve().parents[2] / "build" / "release"))
MISSING = [tool for tool in ("glusterd", "gluster", "glusterfs", "umount") if shutil.which(tool) is None]
PORT = 24007
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"glusterfs-server is not installed ({', '.join(MISSING)})"),
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="mounting GlusterFS needs root and FUSE"
    ),
]


class Gluster:
    """A server of the test's own with one volume, mounted at `mount`. It ends what it has started, by number."""

    def __init__(self, folder: Path):
        self.folder, self.mount = folder, folder / "mount"
        for name in ("work", "mount", "brick0", "brick1"):
            (folder / name).mkdir()
        volume = folder / "glusterd.vol"
        volume.write_text(
            f"volume management\n type mgmt/glusterd\n option working-directory {folder / 'work'}\n"
            " option transport-type socket\nend-volume\n"
        )
        self.server = subprocess.Popen(["glusterd", "-N", "-f", volume, "-l", folder / "glusterd.log"])
        host = socket.gethostname()
        self.until(lambda: self.tell("pool", "list", check=False).returncode == 0)
        self.tell("volume", "create", "v", f"{host}:{folder / 'brick0'}", f"{host}:{folder / 'brick1'}", "force")
        for key, value in (
            ("features.shard", "on"),
            ("features.shard-block-size", "4MB"),
            ("network.ping-timeout", "2"),
        ):
            self.tell("volume", "set", "v", key, value)
        self.tell("volume", "start", "v")
        subprocess.run(
            [
                "glusterfs",
                f"--volfile-server={host}",
                "--volfile-id=v",
                f"--log-file={folder / 'client.log'}",
                self.mount,
            ],
            check=True,
            timeout=60,
        )
        self.until(lambda: os.path.ismount(self.mount))

    def tell(self, *words, check=True):
        return subprocess.run(
            ["gluster", "--mode=script", *words], check=check, timeout=60, capture_output=True, text=True
        )

    def until(self, true, seconds=30, why=lambda: "GlusterFS is not ready"):
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, why()
            time.sleep(0.05)

    def bricks(self) -> list[int]:
        shown = self.tell("volume", "status", "v", check=False).stdout
        return [int(number) for number in re.findall(r"Y\s+(\d+)\s*$", shown, re.MULTILINE)]

    def close(self):
        subprocess.run(["umount", "-l", self.mount], timeout=60)
        for brick in self.bricks():
            os.kill(brick, signal.SIGKILL)
        self.server.kill()
        self.server.wait()


@pytest.fixture
def gluster(tmp_path):
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            pytest.skip(f"another glusterd is running (port {PORT})")
    (tmp_path / "gluster").mkdir()
    server = Gluster(tmp_path / "gluster")
    yield server
    server.close()


# Each step is flushed; what the flush has come to is a line. After the step that is named a line is waited for.
PROGRAM = """
import h5py, numpy as np, os, sys
f = h5py.File(sys.argv[1], "w")
for step in range(40):
    f[f"step{step}"] = np.full(1 << 20, step, "i8")
    try: f.flush(); print("flushed", step, flush=True)
    except Exception as error: print("failed", step, error, flush=True); os._exit(3)
    if step == 3: sys.stdin.readline()
"""
READ = """
import h5py, sys
with h5py.File(sys.argv[1], "r") as f:
    print(sorted((int(n[4:]), int(f[n][0]), int(f[n][:].min() == f[n][:].max())) for n in f))
"""


def test_a_brick_that_is_killed_costs_nothing_that_was_flushed(gluster, tmp_path):
    environment, target = staged(tmp_path, "patience=20"), gluster.mount / "run.h5"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, target],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = []
    while not lines or lines[-1] != "flushed 3\n":
        lines.append(program.stdout.readline())
        assert lines[-1].startswith("flushed"), lines
    os.kill(gluster.bricks()[1], signal.SIGKILL)
    rest, _ = program.communicate("\n", timeout=120)
    lines += rest.splitlines(keepends=True)
    assert program.returncode == 3 and lines[-1].startswith("failed"), lines
    flushed = [int(line.split()[1]) for line in lines if line.startswith("flushed")]
    assert flushed[:4] == [0, 1, 2, 3]

    # The server may not have noticed yet that it has to be started.
    gluster.until(lambda: gluster.tell("volume", "start", "v", "force", check=False) and len(gluster.bricks()) == 2)
    recover = [BUILD / "bin" / "forebay", "recover", "--nls", environment["FOREBAY_NLS"], target]
    done = None

    def recovered() -> bool:
        nonlocal done
        done = subprocess.run(recover, env=native(), capture_output=True, text=True, timeout=120)
        lost = ("no longer has the last bytes", "the process that died may have left between")
        if "--changed" not in recover and done.returncode != 0 and any(text in done.stdout for text in lost):
            # The client had reported writes, or a size, that were still on their way to the brick. So the file is not
            # as the program has left it. The log has the bytes still. Only the user can say that no other program
            # wrote the file.
            recover.insert(2, "--changed")
        return done.returncode == 0

    gluster.until(recovered, why=lambda: done.stdout + done.stderr)
    seen = ast.literal_eval(run_python(READ.replace("sys.argv[1]", repr(str(target))), native(), tmp_path / "reader"))
    assert [one for one in seen if one[0] in flushed] == [(step, step, 1) for step in flushed]
