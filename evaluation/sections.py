"""The sections of the page, in its order."""

from __future__ import annotations

from collections.abc import Callable

from cases import Setting
from cells import Section
from layouts import layouts

# Each takes the setting, and whether sizes are to be small.
SECTIONS: dict[str, Callable[[Setting, bool], Section]] = {"layouts": layouts}
