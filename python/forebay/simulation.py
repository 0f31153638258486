"""An ordinary simulation: the wave equation in a closed box, with checkpoints through h5py.

It knows HDF5 and nothing else: no staging, no special calls, one file, written as most programs
write theirs. ``python simulation.py --output wave.h5`` runs it; see ``--help``.

Physics: u_tt = u_xx + u_yy + u_zz on the unit cube, u = 0 on its faces, started at rest from two
Gaussian pulses. Scheme: explicit leapfrog, second order in space and time, stable for
dt <= h / sqrt(3); see for example Strikwerda, "Finite Difference Schemes and Partial Differential
Equations", chapter 8.

It prints one JSON object per line: its settings, then the begin and end of each phase (open, compute,
write, flush, close) in nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import h5py
import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float64]

COURANT = 0.5  # dt / h; the scheme is stable up to 1 / sqrt(3) = 0.577
CACHE_BYTES = 1 << 19  # planes are advanced in slabs of about this size, so that they stay in cache


class Wave:
    """The state of the wave on `points`³ grid points, faces included, at time `time`.

    `displacement` is u at `time`. `velocity()` is u_t half a step earlier. The two are enough to continue.
    """

    def __init__(self, initial: Field) -> None:
        """Starts at rest from `initial`, shape (n, n, n). Its faces count as zero."""
        points = initial.shape[0]
        if initial.shape != (points, points, points) or points < 3:
            raise ValueError(f"the initial state must be a cube of at least 3³ points, not {initial.shape}")
        self.spacing: float = 1.0 / (points - 1)
        self.time_step: float = COURANT * self.spacing
        self.steps = 0
        self.displacement: Field = np.zeros(initial.shape)
        inner = (slice(1, -1),) * 3
        self.displacement[inner] = initial[inner]
        self._slab = max(1, CACHE_BYTES // self.displacement[0].nbytes)
        self._sum: Field = np.empty((self._slab, points - 2, points - 2))
        # At rest u(-dt) = u(dt), so u(-dt) = u + dt²/2 · Laplacian(u), to the order of the scheme. The leapfrog from a
        # "previous" of zero yields 2u + dt² · Laplacian(u), twice that.
        self._previous: Field = np.zeros(initial.shape)
        self._leap(self.displacement, self._previous)
        self._previous *= 0.5

    @property
    def time(self) -> float:
        """Physical time of `displacement`."""
        return self.steps * self.time_step

    def advance(self, steps: int) -> None:
        """Computes `steps` time steps."""
        for _ in range(steps):
            self._leap(self.displacement, self._previous)
            self.displacement, self._previous = self._previous, self.displacement
            self.steps += 1

    def velocity(self, out: Field) -> Field:
        """u_t at time - dt / 2, into `out`."""
        np.subtract(self.displacement, self._previous, out=out)
        out /= self.time_step
        return out

    def _leap(self, now: Field, previous: Field) -> None:
        """Overwrites u(t - dt) by u(t + dt) = 2 u(t) - u(t - dt) + (dt/h)² · (sum of neighbours - 6 u(t))."""
        courant_squared = COURANT * COURANT
        end = now.shape[0] - 1
        for begin in range(1, end, self._slab):
            stop = min(begin + self._slab, end)
            total = self._sum[: stop - begin]
            np.add(now[begin - 1 : stop - 1, 1:-1, 1:-1], now[begin + 1 : stop + 1, 1:-1, 1:-1], out=total)
            total += now[begin:stop, :-2, 1:-1]
            total += now[begin:stop, 2:, 1:-1]
            total += now[begin:stop, 1:-1, :-2]
            total += now[begin:stop, 1:-1, 2:]
            total *= courant_squared
            total -= previous[begin:stop, 1:-1, 1:-1]
            inner = previous[begin:stop, 1:-1, 1:-1]
            np.multiply(now[begin:stop, 1:-1, 1:-1], 2.0 - 6.0 * courant_squared, out=inner)
            inner += total


def two_pulses(points: int) -> Field:
    """Two Gaussian pulses of opposite sign, off the centre of the box."""
    axis = np.linspace(0.0, 1.0, points)

    def pulse(x: float, y: float, z: float, width: float) -> Field:
        along = [np.exp(-(((axis - centre) / width) ** 2)) for centre in (x, y, z)]
        product: Field = np.einsum("i,j,k->ijk", *along)
        return product

    field: Field = pulse(0.35, 0.40, 0.45, 0.08) - 0.6 * pulse(0.70, 0.65, 0.50, 0.05)
    return field


def report(**fields: object) -> None:
    """One line of JSON on standard output."""
    print(json.dumps(fields), flush=True)


@contextmanager
def phase(name: str, checkpoint: int) -> Iterator[None]:
    """Reports the begin and end of the enclosed work."""
    begin_ns = time.monotonic_ns()
    yield
    report(phase=name, checkpoint=checkpoint, begin_ns=begin_ns, end_ns=time.monotonic_ns())


def run(output: str, points: int, checkpoints: int, substeps: int) -> None:
    """Simulates and writes `checkpoints` checkpoints, `substeps` time steps apart, into one file."""
    wave = Wave(two_pulses(points))
    velocity = np.empty_like(wave.displacement)
    report(h5py=f"h5py {h5py.version.version} (HDF5 {h5py.version.hdf5_version})")

    with phase("open", 0):
        file = h5py.File(output, "w")
        file.attrs["equation"] = "u_tt = u_xx + u_yy + u_zz, unit cube, u = 0 on the faces"
        file.attrs["spacing"] = wave.spacing
        file.attrs["time_step"] = wave.time_step
    for checkpoint in range(checkpoints):
        with phase("compute", checkpoint):
            wave.advance(substeps)
            wave.velocity(out=velocity)
        with phase("write", checkpoint):
            group = file.create_group(f"checkpoint/{checkpoint:04d}")
            group.attrs["time"] = wave.time
            group.attrs["steps"] = wave.steps
            group.create_dataset("displacement", data=wave.displacement)
            group.create_dataset("velocity", data=velocity)
        with phase("flush", checkpoint):
            file.flush()
    with phase("close", checkpoints):
        file.close()


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description="The wave equation in a box, with checkpoints into one HDF5 file.")
    parser.add_argument("--output", required=True, help="the HDF5 file to write")
    parser.add_argument("--size", type=int, default=160, help="grid points along each axis (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="checkpoints to write (default: %(default)s)")
    parser.add_argument("--substeps", type=int, default=10, help="time steps between them (default: %(default)s)")
    arguments = parser.parse_args()
    run(arguments.output, arguments.size, arguments.steps, arguments.substeps)


if __name__ == "__main__":
    main()
