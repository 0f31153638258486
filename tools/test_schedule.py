"""Runs pieces of work in parallel, and keeps pieces apart that would disturb each other."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Piece:
    """A piece of work. It starts when all pieces named in `after` have ended, and otherwise in the given order.

    Two pieces with the same `apart` never run at the same time. A piece that is `alone` runs after all others, while no
    other piece runs.
    """

    name: str
    work: Callable[[], None]
    after: tuple[str, ...] = ()
    apart: str = ""
    alone: bool = False


@dataclass
class Schedule:
    """The waiting, running and ended pieces. Pieces that never began stay in `pieces`."""

    pieces: list[Piece]
    width: int
    running: list[Piece] = field(default_factory=list)
    stopped: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def _next(self) -> Piece | None:
        unended = {piece.name for piece in [*self.pieces, *self.running]}
        if len(self.running) >= self.width or any(piece.alone for piece in self.running):
            return None
        for piece in self.pieces:
            if any(name in unended for name in piece.after):
                continue
            if piece.alone:
                if self.running or any(not other.alone for other in self.pieces):
                    continue
                return piece
            if not piece.apart or all(other.apart != piece.apart for other in self.running):
                return piece
        return None

    def _run(self, piece: Piece) -> None:
        try:
            piece.work()
        finally:
            with self.changed:
                self.running.remove(piece)
                self.changed.notify_all()

    def wait_for_the_running(self, seconds_max: float) -> None:
        """Starts no more pieces, and waits for the running ones. It is called at the time limit or at a signal."""
        with self.changed:
            self.stopped = True
            self.changed.wait_for(lambda: not self.running, timeout=seconds_max)

    def run(self, seconds_max: float) -> bool:
        """Returns True when all pieces have ended, or False at the time limit, when some may still run."""
        until = time.monotonic() + seconds_max
        with self.changed:
            while not self.stopped and (self.pieces or self.running):
                while piece := self._next():
                    self.pieces.remove(piece)
                    self.running.append(piece)
                    threading.Thread(target=self._run, args=(piece,), name=piece.name, daemon=True).start()
                if not self.running:
                    raise ValueError(f"nothing can begin: {[piece.name for piece in self.pieces]}")
                # Waits in short intervals, so that a signal is handled soon.
                if (
                    not self.changed.wait(timeout=max(0.0, min(until - time.monotonic(), 1.0)))
                    and time.monotonic() >= until
                ):
                    return False
        return not self.stopped
