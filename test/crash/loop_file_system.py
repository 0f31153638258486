"""File systems of a test's own, on loop devices, whose device can be made to go away. Needs root."""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest
from mounts import unmount

SECONDS_MAX = 240  # for a command
# linux/ext4.h, fs/xfs/xfs_fs.h: _IOR('X', 125, __u32), and its flag "do not flush the journal".
IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS_MAX)


# What mkfs is told, and how large the image is (XFS takes none below 300 MiB; it is sparse).
KINDS = {"ext4": (("-q", "-F"), 64 << 20), "xfs": (("-q",), 320 << 20)}


def skip_without_tools(what: str, kind: str = "ext4"):
    missing = [tool for tool in ("losetup", f"mkfs.{kind}", "mount", "umount") if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"{what}: needs root{' and ' + ', '.join(missing) if missing else ''}")


class FileSystem:
    """A file system in an image file; what it sets up it takes down again, by the names that it has made itself."""

    def __init__(self, folder: Path, name: str, kind: str = "ext4"):
        self.kind = kind
        self.image, self.path, self.device, self.mounted = folder / f"{name}.image", folder / name, None, False
        self.path.mkdir()
        with self.image.open("wb") as image:
            image.truncate(KINDS[kind][1])

    def set_up(self):
        """The reason why that is not possible here; None: it was."""
        made = run("losetup", "--find", "--show", self.image)
        if made.returncode != 0:
            return f"no loop device: {made.stderr.strip()}"
        self.device = made.stdout.strip()
        if (formatted := run(f"mkfs.{self.kind}", *KINDS[self.kind][0], self.device)).returncode != 0:
            return f"mkfs.{self.kind}: {formatted.stderr.strip()}"
        return self.mount()

    def mount(self):
        done = run("mount", "-t", self.kind, self.device, self.path)
        self.mounted = done.returncode == 0
        return None if self.mounted else f"mount: {done.stderr.strip()}"

    def shut_down(self):
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(directory, IOC_SHUTDOWN, struct.pack("=I", NO_LOG_FLUSH))
        finally:
            os.close(directory)

    def mount_again(self):
        """Mounts it as after a restart. Where another process has made a mount namespace meanwhile, that has the file
        system that was shut down, and one that is mounted then is the same: it is tried until that process has ended.
        """
        for _ in range(600):
            unmount(self.path)
            self.mounted = False
            assert (why := self.mount()) is None, why
            try:
                os.stat(self.path / f"nothing {time.monotonic_ns()}")  # new: for a known one the disk is not asked
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{self.path} is what was shut down, for a minute")

    def take_down(self):
        if self.mounted and run("umount", self.path).returncode != 0:
            run("umount", "-l", self.path)
        if self.device:
            run("losetup", "-d", self.device)
