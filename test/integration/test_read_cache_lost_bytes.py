"""A staging device takes writes and loses them later (docs/read-cache.md, "Crashes and faults").

The device is a loop device, whose image has no more room on its tmpfs. The kernel accepts the bytes of a replica, fails
to write them back, and forgets them: a read of the replica then returns zeros.
"""

import os
import shutil
import subprocess

import pytest
from connector_environment import native, slow_files
from forebay.slowfs import available
from test_read_cache import DATA_BYTES, MAKE, prefetch
from test_read_cache_devices import MIB, cache_of, command, environment_of, parts_on, read

pytest.importorskip("h5py")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]


def succeeds(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, timeout=120, check=False).returncode == 0


class LosingDevice:
    """What it mounts it unmounts again, by the names that it has made itself."""

    def __init__(self, folder):
        self.room, self.path, self.mounted = folder / "room", folder / "losing", []
        self.room.mkdir()
        self.path.mkdir()
        self.why_not = self.set_up()

    def set_up(self):
        missing = [tool for tool in ("losetup", "mkfs.xfs", "mount", "umount") if shutil.which(tool) is None]
        if os.geteuid() != 0 or missing:
            return f"needs root{' and ' + ', '.join(missing) if missing else ''}"
        image = self.room / "image"
        for words, mounted in (
            (("mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", self.room), self.room),
            (("truncate", "-s", "400M", image), None),
            (("mkfs.xfs", "-q", image), None),
            (("mount", "-o", "loop", image, self.path), self.path),
        ):
            if not succeeds(*words):
                return f"cannot {' '.join(str(word) for word in words)}"
            if mounted:
                self.mounted.insert(0, mounted)
        return None

    def begin_losing(self):
        """From now on there is no room for blocks that the device has not had before."""
        os.sync()
        with (self.room / "filler").open("wb", buffering=0) as filler:
            size = MIB
            while size:
                try:
                    filler.write(b"x" * size)
                except OSError:
                    size //= 2

    def forget(self, path):
        """Has the kernel write the file back, and drop it from memory."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.sync()
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)

    def take_down(self):
        for path in self.mounted:
            if not succeeds("umount", path):
                succeeds("umount", "-l", path)


# XFS goes on after it has lost bytes of a file. ext4 opens no file for writing any more, so a later program reads
# nothing from there; test/unit/cache/cached_file_lost_test.cc has both.
@pytest.fixture
def losing(tmp_path):
    device = LosingDevice(tmp_path)
    try:
        if device.why_not:
            pytest.skip(f"a device that loses what it takes: {device.why_not}")
        yield device
    finally:
        device.take_down()


def zero_blocks(path):
    with path.open("rb") as part:
        return sum(not any(block) for block in iter(lambda: part.read(4096), b""))


def test_programs_read_the_file_where_the_device_has_lost_its_bytes(losing, tmp_path):
    with slow_files(tmp_path, MAKE):
        expected = read(native(), tmp_path).stdout
        first = tmp_path / "first"
        first.mkdir()
        environment = environment_of(tmp_path, f"{first}=8MiB:{losing.path}=200MiB")
        losing.begin_losing()
        prefetch(environment, tmp_path)
        (part,) = parts_on(losing.path)
        assert read(environment, tmp_path).stdout == expected
        told = cache_of(tmp_path)
        assert told["hit_bytes"] >= 2 * DATA_BYTES and "fault" not in told["aside"], "all writes succeeded"

        before = zero_blocks(part)
        losing.forget(part)
        assert zero_blocks(part) > before + 100, "the device lost nothing, so the test shows nothing"
        assert read(environment, tmp_path).stdout == expected
        told = cache_of(tmp_path)
        assert told["hit_bytes"] > 0 and told["missed_bytes"] > 0 and told["aside"]["fault"] == 1, told
        losing.forget(part)  # what was stored again is lost again
        assert read(environment, tmp_path).stdout == expected
        assert command("cache", "verify", str(first)).returncode in (0, 1)
