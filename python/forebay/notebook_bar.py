"""A progress bar in a notebook's output, for calls that wait. Outside of a notebook it shows nothing.

IPython, which the notebook has already loaded, draws it. forebay imports nothing for it.
"""

from __future__ import annotations

import html
import sys
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class NotebookBar:
    """`of_bytes` is 100 %. It grows if more bytes are left. Shows nothing outside of a notebook."""

    def __init__(self, title: str, of_bytes: int) -> None:
        self._title, self._of_bytes, self._left = title, max(1, of_bytes), of_bytes
        show = _display()
        self._shown: Any = None if show is None else show(self, display_id=True)

    def move_to(self, left_bytes: int) -> None:
        """Shows that `left_bytes` are missing."""
        self._left = left_bytes
        self._of_bytes = max(self._of_bytes, left_bytes)
        if self._shown is not None:
            self._shown.update(self)

    def _repr_html_(self) -> str:
        done = self._of_bytes - self._left
        figures = f"{_with_unit(done)} of {_with_unit(self._of_bytes)}"
        return (
            f"<progress style='width:60ex' max='{self._of_bytes}' value='{done}'></progress> "
            f"{html.escape(self._title)}: {figures}"
        )

    def __repr__(self) -> str:
        return f"{self._title}: {100 * (self._of_bytes - self._left) // self._of_bytes} %"


def _display() -> Any:
    """IPython's `display` if this process is the kernel of a notebook, else None."""
    loaded = sys.modules.get("IPython")
    shell = getattr(loaded, "get_ipython", lambda: None)()
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    return getattr(sys.modules.get("IPython.display"), "display", None)


def _with_unit(count: float) -> str:
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
