"""Programs that hold bytes back, for tests of what commands say of them.

The program writes the file past its last flush, and those bytes wait for the next one. So they stay staged until the
program is told to go on. When it is killed some of its last flush is in the log only: it overwrites that, and what is
overwritten is not drained, while the drain is still at 16 MiB that come first.
"""

import contextlib
import os
import subprocess
import sys

from connector_environment import native, plugin_folder

# Each word that it reads is something to do; each that it writes says that it has been done.
PROGRAM = """
import os, sys
import h5py, numpy
h5py.File("memory", "w", driver="core", backing_store=False).close()
if len(sys.argv) > 2:   # what is read so far may be another user's
    user = int(sys.argv[2])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
f = h5py.File(sys.argv[1], "w", libver="latest")
before = f.create_dataset("before", (16 << 20,), "u1")   # contiguous: nothing of it stays in HDF5's cache
d = f.create_dataset("x", (100000,), "i8")
before[:], d[:] = 1, 0
f.flush()
# Below the end of the last commit: it waits for the next one. Then `before` is drained before x.
before[:], d[:] = 2, 1
f.flush()
d[:] = 2
f.create_group("late")
print("staged", flush=True)
for word in sys.stdin:
    if word == "close\\n":
        f.close()
    if word == "end\\n":
        break
    print("done", flush=True)
"""


def environment(area, info="", **more):
    """Only the connector's own string names the area, as `forebay run -o nls=` or a program does."""
    return native(
        HDF5_VOL_CONNECTOR=f"forebay nls={area};size=64MiB;drain_threads=1;{info}",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
        **more,
    )


class Holder:
    """A process that has staged bytes of a file, and its way to let go."""

    def __init__(self, path, variables, user=None):
        as_user = [] if user is None else [str(user)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), *as_user],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "staged\n"

    @property
    def pid(self):
        return self.process.pid

    def close(self):
        self._tell("close")
        assert self.process.stdout.readline() == "done\n"

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=60)

    def end(self):
        if self.process.poll() is None:
            self._tell("end")
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        return self.process.wait(timeout=60)

    def _tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()


@contextlib.contextmanager
def holding(path, area, info="", user=None, **more):
    holder = Holder(path, environment(area, info, **more), user)
    try:
        yield holder
    finally:
        holder.end()


def process_directories(area, user=None):
    folder = area / f"forebay-{os.geteuid() if user is None else user}"
    return sorted(folder.glob("[0-9]*")) if folder.exists() else []
