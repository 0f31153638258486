"""What tests mount, and how it goes away again."""

import contextlib
import os
import subprocess
import time
from pathlib import Path


def holders(path: Path) -> list[str]:
    """The processes that have a file below `path` open, mapped or as their folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            links = [os.readlink(link) for link in (process / "cwd", *(process / "fd").iterdir())]
            if f"{path}/" in "".join(f"{link}/\n" for link in links) + (process / "maps").read_text():
                found.append(f"{process.name} {(process / 'comm').read_text().strip()}")
    return found


def unmount(path: Path):
    """Unmounts it as soon as nobody holds it. A process that was killed has files open until the kernel has ended it.
    By then its parent may have been told, and it has no command line any more.
    """
    for _ in range(600):
        done = subprocess.run(["umount", path], capture_output=True, text=True, timeout=240, check=False)
        if done.returncode == 0:
            return
        assert "busy" in done.stderr, done.stderr
        time.sleep(0.1)
    raise AssertionError(f"{done.stderr.strip()} It is held by {holders(path)}")
