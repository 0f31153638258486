"""Figures: a native and a forebay value, their ratio, and the target beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

LEAST_COST = 1e-9  # a smaller cost has no logarithm
UNITS: dict[str, Callable[[float], str]] = {
    "s": lambda v: f"{v:.3f} s" if v < 10 else f"{v:.2f} s",
    "MiB/s": lambda v: f"{v:,.0f} MiB/s",
    "MiB": lambda v: f"{v:,.1f} MiB",
    "/s": lambda v: f"{v:,.0f} /s",
    "ns": lambda v: f"{v:,.0f} ns",
    "": lambda v: f"{v:,.0f}",
}


@dataclass(frozen=True)
class Target:
    """A bound on a ratio or, for `of="forebay"` and `of="difference"`, on the value or the difference."""

    bound: float
    at_most: bool
    of: str = "ratio"
    unit: str = ""

    def met_by(self, value: float) -> bool:
        """True if the value keeps the bound."""
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        subject = {"ratio": "", "forebay": "forebay ", "difference": "native + "}[self.of]
        if self.of == "difference":
            return f"{sign} {subject}{self.bound:g} {self.unit}".strip()
        return f"{subject}{sign} {self.bound:g} {self.unit}".strip()


@dataclass
class Figure:
    """One line of a table. `base` is the value to compare with, mostly the native one."""

    what: str
    base: float
    forebay: float
    unit: str
    target: Target | None = None
    base_name: str = "native"
    base_samples: Sequence[float] = ()
    forebay_samples: Sequence[float] = ()

    @property
    def ratio(self) -> float | None:
        """The ratio forebay ÷ base, or None if base is zero."""
        return self.forebay / self.base if self.base else None

    @property
    def met(self) -> bool | None:
        """True if the target is met, None without a target."""
        if self.target is None:
            return None
        if self.target.of == "difference":
            return self.target.met_by(self.forebay - self.base)
        value = self.forebay if self.target.of == "forebay" else self.ratio
        return value is not None and self.target.met_by(value)

    def cells(self) -> list[str]:
        """Returns a row: measured, base, forebay, ratio, target, verdict."""
        show = UNITS[self.unit]
        base = show(self.base) + ("" if self.base_name == "native" else f" ({self.base_name})")
        ratio = "–" if self.ratio is None else f"{self.ratio:.3g}" if self.ratio < 100 else f"{self.ratio:,.0f}"
        return [
            self.what,
            base,
            show(self.forebay),
            ratio,
            str(self.target or ""),
            {None: "", True: "met", False: "missed"}[self.met],
        ]

    def as_dict(self) -> dict:
        return asdict(self) | {"ratio": self.ratio, "met": self.met, "target_text": str(self.target or "")}


@dataclass
class Result:
    """The figures of one case."""

    name: str
    title: str
    repetitions: int
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    samples: dict = field(default_factory=dict)

    def add(
        self,
        what: str,
        base: Iterable[float],
        forebay: Iterable[float],
        unit: str,
        target: Target | None = None,
        **options,
    ) -> None:
        """Adds the medians of two series as one figure."""
        base, forebay = list(base), list(forebay)
        self.figures.append(
            Figure(
                what,
                statistics.median(base),
                statistics.median(forebay),
                unit,
                target,
                base_samples=base,
                forebay_samples=forebay,
                **options,
            )
        )


def at_most(bound: float, of: str = "ratio", unit: str = "") -> Target:
    """Returns the target that a value is at most `bound`."""
    return Target(bound, True, of, unit)


def at_least(bound: float) -> Target:
    """Returns the target that a ratio is at least `bound`."""
    return Target(bound, False)


def slope_of(costs: Mapping[int, float]) -> float:
    """The slope of log cost over log size, by least squares, in the upper half of the sizes; 0 for one size."""
    points = [(math.log(size), math.log(max(cost, LEAST_COST))) for size, cost in sorted(costs.items())]
    middle = (points[0][0] + points[-1][0]) / 2
    points = [point for point in points if point[0] > middle - 1e-6 or point in points[-2:]]
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
