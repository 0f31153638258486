"""forebay: node-local staging in front of a slow file system, for unmodified HDF5 programs.

Programs need nothing from this package: they are staged by ``HDF5_VOL_CONNECTOR=forebay``. It holds
what surrounds them: the demo, its plots, and the slow file system they are measured on.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
