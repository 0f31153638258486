"""Programs that do one line of Python after the other, as a test tells them, on a target that can be stopped.

While the target is stopped no write to it returns. So a close that returns then has not waited for the drain.
"""

import json
import os
import subprocess
import sys
import time

from connector_environment import native, plugin_folder, statistics_file

from forebay.slowfs import SlowFS

PROGRAM = """
import os, sys
import h5py, numpy as np
def write(name, seed=1, mode="w"):
    f = h5py.File(name, mode)
    f.create_dataset(f"x{seed}", data=np.random.default_rng(seed).random(400_000), track_times=False)
    return f
def content(name, seed=1, **how):
    with h5py.File(name, "r", **how) as f:
        return bool((f[f"x{seed}"][()] == np.random.default_rng(seed).random(400_000)).all())
def fork_and(do):
    child = os.fork()
    if child == 0:
        os._exit(0 if do() is True else 1)
    return child
for line in sys.stdin:
    try:
        value = eval(line) if not line.startswith(("import ", "del ")) and "; " not in line else exec(line)
        print("ok", value, flush=True)
    except Exception as error:
        print(type(error).__name__, str(error).replace("\\n", " "), flush=True)
"""

STOP = "op=write,hang,path=*.h5"


def variables(folder, info="close=deferred", **more):
    """The environment with the connector on; staging area and statistics are in `folder`."""
    area = folder / "staging-area"
    area.mkdir(parents=True, exist_ok=True)
    return native(
        HDF5_VOL_CONNECTOR=f"forebay nls={area};stats={statistics_file(folder)};{info}",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
        **more,
    )


class Program:
    """A process that does what it is told, in `folder`."""

    def __init__(self, folder, environment, launcher=()):
        folder.mkdir(parents=True, exist_ok=True)
        self.start([*map(str, launcher), sys.executable, "-c", PROGRAM], folder, environment)

    def start(self, command, folder, environment):
        self.process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def begin(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def reply(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line.rstrip("\n")

    def do(self, line):
        """What came of it: `ok` and its value, or the exception."""
        self.begin(line)
        return self.reply()

    def must(self, *lines):
        for line in lines:
            reply = self.do(line)
            assert reply.startswith("ok"), f"{line}: {reply}"
        return reply.removeprefix("ok ")

    def end(self):
        """Standard error, after the normal end."""
        self.process.stdin.close()
        told = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert self.process.wait(timeout=300) == 0, told
        return told

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=60)


class StoppedTarget:
    """A slowfs mount `target` whose writes hang until `go`."""

    def __init__(self, folder):
        self.mount = SlowFS(folder / "backing", folder / "target")
        self.folder = folder

    def __enter__(self):
        self.mount.mount()
        self.stop()
        return self

    def __exit__(self, *_):
        self.go()
        self.mount.unmount()

    def stop(self):
        self.mount.fault(STOP)

    def go(self):
        self.mount.clear()

    def let_one_write_end(self):
        """The write that hangs ends, and the look at the file that comes next hangs."""
        self.await_hanging()
        written = self.ended("write")
        self.mount.fault("op=getattr,hang,count=1,path=*.h5")
        self.mount.release()
        while self.ended("write") == written:
            time.sleep(0.01)
        self.await_hanging()

    def await_hanging(self):
        while self.mount.stats()["hanging"] == 0:
            time.sleep(0.01)

    def ended(self, operation):
        return self.mount.stats()["operations"][operation]["count"]

    def written(self, name):
        return (self.folder / "backing" / name).read_bytes()


def native_bytes(folder, name, *lines):
    """What the file holds after a native run of these lines in a folder of its own."""
    (folder / "native" / "target").mkdir(parents=True, exist_ok=True)
    with Program(folder / "native", native()) as program:
        program.must(*lines)
        program.end()
    return (folder / "native" / name).read_bytes()


def process_lines(folder):
    lines = [json.loads(line) for line in statistics_file(folder).read_text().splitlines()]
    return [line["process"] for line in lines if "process" in line]


def closes(folder):
    """How many closes of all processes were deferred, and how many waited, by reason."""
    deferred, waited = 0, {}
    for line in process_lines(folder):
        deferred += line.get("deferred_closes", 0)
        for reason, count in line.get("waited_closes", {}).items():
            waited[reason] = waited.get(reason, 0) + count
    return deferred, waited


def forebay(folder, *arguments, **more):
    """`forebay` on this folder's staging area."""
    command = os.path.join(plugin_folder(), "..", "bin", "forebay")
    return subprocess.run(
        [command, *map(str, arguments)], env=native(**more), cwd=folder, capture_output=True, text=True, timeout=300
    )
