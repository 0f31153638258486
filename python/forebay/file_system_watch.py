"""Measures the traffic of the slow file system, from the file system's own counters."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from forebay.measured import NANOSECOND, RateStep
from forebay.slowfs import SlowFS


class FileSystemWatch:
    """In its context, a thread reads the byte count of one operation, write or read, every `interval_s`.

    `requests` and `bytes` are the sums, `steps` the rates between readings. Without a slow file system (None) it stays
    empty.
    """

    def __init__(self, slow: SlowFS | None, interval_s: float, operation: str = "write") -> None:
        self._slow = slow
        self._operation = operation
        self._interval_s = interval_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="file-system-watch", daemon=True)
        self._readings: list[tuple[int, int]] = []  # monotonic ns, bytes
        self.requests = 0
        self.bytes = 0

    def __enter__(self) -> FileSystemWatch:
        if self._slow is not None:
            self._slow.reset()
            self._read(self._slow)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._slow is None:
            return
        self._end.set()
        self._thread.join()
        if kind is None:
            self._read(self._slow)

    @property
    def watches(self) -> bool:
        """True if there is a file system that counts."""
        return self._slow is not None

    @property
    def steps(self) -> list[RateStep]:
        """The rates between successive readings."""
        return [
            RateStep(begin, end, (after - before) / ((end - begin) * NANOSECOND))
            for (begin, before), (end, after) in zip(self._readings, self._readings[1:], strict=False)
            if end > begin
        ]

    def _watch(self) -> None:
        assert self._slow is not None
        while not self._end.wait(self._interval_s):
            try:
                self._read(self._slow)
            except OSError:  # unmounted meanwhile, which another part of the demo reports
                return

    def _read(self, slow: SlowFS) -> None:
        counted = slow.stats()["operations"][self._operation]
        self._readings.append((time.monotonic_ns(), counted["bytes"]))
        self.requests, self.bytes = counted["count"], counted["bytes"]
