"""A slow, faulty file system as a context manager: starts the ``slowfs`` program and unmounts at the end.

    with SlowFS(backing, mount_point, bandwidth="200MiB/s", latency="0.5ms") as fs:
        fs.fault("op=write,errno=ENOSPC,after=3")
        ...
        print(fs.stats()["operations"]["write"]["count"])

tools/slowfs/README.md describes bandwidths, latencies, rules and statistics. Needs the standard library only.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["SlowFS", "SlowFSError", "available", "program"]

_START_SECONDS_MAX = 30.0
_END_SECONDS_MAX = 10.0


class SlowFSError(RuntimeError):
    """slowfs cannot start, or does not understand a line. The message is that of slowfs."""


def program() -> Path | None:
    """Returns the slowfs program: in ``$FOREBAY_BUILD_DIR/bin`` if set, else in ``build/release/bin``, else in PATH."""
    build = os.environ.get("FOREBAY_BUILD_DIR")
    tree = Path(__file__).resolve().parents[2]
    candidate = (Path(build) if build else tree / "build" / "release") / "bin" / "slowfs"
    if candidate.is_file():
        return candidate
    found = None if build else shutil.which("slowfs")
    return Path(found) if found else None


def available() -> tuple[bool, str]:
    """Returns True if slowfs is usable here, and otherwise a reason."""
    if program() is None:
        return False, "the slowfs program is not built (set FOREBAY_BUILD_DIR to the build tree)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return False, "/dev/fuse is missing or closed to this user"
    if shutil.which("fusermount3") is None:
        return False, "fusermount3 is missing (Debian: fuse3)"
    return True, ""


class SlowFS:
    """A mount of ``backing`` on ``mount_point``. Creates both if they are missing.

    The arguments are the program's options, in its units: ``bandwidth="200MiB/s"`` or bytes per second,
    ``latency="1ms"`` or ``{"fsync": "20ms", "read|write": "1ms"}``. The mount ends with the context, and with this
    process, even if that is killed.
    """

    def __init__(
        self,
        backing: str | os.PathLike[str],
        mount_point: str | os.PathLike[str],
        *,
        bandwidth: str | int | None = None,
        read_bandwidth: str | int | None = None,
        write_bandwidth: str | int | None = None,
        thread_bandwidth: str | int | None = None,
        process_bandwidth: str | int | None = None,
        latency: str | dict[str, str] | None = None,
        faults: Iterable[str] = (),
        page_cache: bool = False,
        locks: bool = True,
        clock_behind: int = 0,
        allow_other: bool = False,
    ) -> None:
        self.backing = Path(backing)
        self.mount_point = Path(mount_point)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._arguments: list[str] = []
        for option, value in (
            ("--bandwidth", bandwidth),
            ("--read-bandwidth", read_bandwidth),
            ("--write-bandwidth", write_bandwidth),
            ("--thread-bandwidth", thread_bandwidth),
            ("--process-bandwidth", process_bandwidth),
        ):
            if value is not None:
                self._arguments += [option, str(value)]
        if isinstance(latency, str):
            self._arguments += ["--latency", latency]
        elif latency is not None:
            for operations, duration in latency.items():
                self._arguments += ["--latency", f"{operations}={duration}"]
        for rule in faults:
            self._arguments += ["--fault", rule]
        if page_cache:
            self._arguments.append("--page-cache")
        if not locks:
            self._arguments.append("--no-locks")
        if clock_behind:
            self._arguments += ["--clock-behind", str(clock_behind)]
        if allow_other:
            self._arguments.append("--allow-other")

    def __enter__(self) -> SlowFS:
        self.mount()
        return self

    def __exit__(self, *exception: object) -> None:
        self.unmount()

    def __fspath__(self) -> str:
        return str(self.mount_point)

    def __truediv__(self, name: str) -> Path:
        return self.mount_point / name

    available = staticmethod(available)

    def mount(self) -> None:
        """Starts the program. Returns when the mount is usable."""
        if self._process is not None:
            raise SlowFSError(f"{self.mount_point} is mounted already")
        executable = program()
        if executable is None:
            raise SlowFSError(available()[1])
        self.backing.mkdir(parents=True, exist_ok=True)
        self.mount_point.mkdir(parents=True, exist_ok=True)
        # The program's messages go to a file. A pipe without a reader would block the program when it is full.
        self._errors = tempfile.TemporaryFile()
        # The program's standard input ends with this process, and the mount with it.
        self._process = subprocess.Popen(
            [str(executable), "--end-with-stdin", *self._arguments, str(self.backing), str(self.mount_point)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # tests handle an interrupt from the keyboard, and unmount then
        )
        if not self._is_ready():
            message = self._words() or "slowfs did not become ready"
            self.unmount()
            raise SlowFSError(message)

    def unmount(self) -> None:
        """Ends the mount, even if it is in use. Does nothing if there is none."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        if self._errors is not None:
            self._errors.close()
        # A fallback if the program had no time to unmount. os.path.ismount cannot look behind a dead mount.
        if self._is_mounted():
            subprocess.run(["fusermount3", "-u", "-z", str(self.mount_point)], check=False, capture_output=True)

    def stats(self) -> dict[str, Any]:
        """Returns the current statistics, rules and settings."""
        told: dict[str, Any] = json.loads((self.mount_point / ".slowfs").read_text())
        return told

    def fault(self, rule: str) -> None:
        """Adds a fault rule, e.g. ``op=write,errno=EIO,after=3,count=1``."""
        self.control(f"fault {rule}")

    def clear(self) -> None:
        """Removes all fault rules and releases the operations that hang."""
        self.control("clear")

    def release(self) -> None:
        """Releases the operations that hang."""
        self.control("release")

    def reset(self) -> None:
        """Resets the statistics."""
        self.control("reset")

    def set_bandwidth(self, bandwidth: str | int, direction: str | None = None) -> None:
        """Changes the bandwidth of reads and writes together, or that of one ``direction``: read or write."""
        self.control(f"{direction}-bandwidth {bandwidth}" if direction else f"bandwidth {bandwidth}")

    def set_latency(self, latency: str, operations: str | None = None) -> None:
        """Changes the latency of ``operations``, or of the operations with a default latency."""
        self.control(f"latency {operations}={latency}" if operations else f"latency {latency}")

    def control(self, line: str) -> None:
        """Writes one line to the control file."""
        descriptor = os.open(self.mount_point / ".slowfs", os.O_WRONLY)
        try:
            os.write(descriptor, line.encode() + b"\n")
        except OSError as error:
            words = self._words().splitlines()
            raise SlowFSError(words[-1] if words else f"slowfs does not accept '{line}': {error}") from error
        finally:
            os.close(descriptor)

    def _is_ready(self) -> bool:
        assert self._process is not None and self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            deadline = time.monotonic() + _START_SECONDS_MAX
            while (left := deadline - time.monotonic()) > 0:
                if selector.select(left):
                    return self._process.stdout.readline() == b"ready\n"
        return False

    def _words(self) -> str:
        # This avoids a seek, because the program shares the file position.
        size = os.fstat(self._errors.fileno()).st_size
        words = os.pread(self._errors.fileno(), size, 0).decode(errors="replace").strip()
        return words

    def _is_mounted(self) -> bool:
        wanted = str(self.mount_point.absolute())
        try:
            mounts = Path("/proc/self/mounts").read_text()
        except OSError:
            return False
        return any(line.split(" ")[1] == wanted for line in mounts.splitlines() if line.startswith("slowfs "))
