"""Finds the command and the plugin of this package: in an installed wheel, below a prefix, or in a checkout's build.

A wheel holds ``forebay/bin`` and ``forebay/lib/hdf5/plugin``, as any installation has them below its prefix. ``make
install`` puts this package into ``PREFIX/lib/python…/site-packages``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from forebay.plugin import ForebayError

PACKAGE = Path(__file__).resolve().parent
_PLUGINS_INSTALLED = Path("lib") / "hdf5" / "plugin"


class NotInstalled(ForebayError):
    """The command or the plugin is missing. The message tells the user what to do."""


def plugin_places(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Folders that may hold the plugin, the best first: this package's own, its prefix's, and the build beside it."""
    return [PACKAGE / _PLUGINS_INSTALLED, *_plugins_of_prefix(), _build(environment) / "plugins"]


def has_plugin(folder: Path) -> bool:
    """Returns True if the folder holds a plugin of forebay."""
    return any(folder.glob("libforebay*.so*"))


def plugin_path() -> str:
    """Returns the first of these folders that holds the plugin, or this package's own folder if none does."""
    places = plugin_places()
    return str(next(filter(has_plugin, places), places[0]))


def command(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the program ``forebay`` that belongs to this package. Raises NotInstalled if there is none."""
    # Without plugins there, PREFIX/bin/forebay may be the script that starts the command.
    installed = [folder.parents[2] / "bin" / "forebay" for folder in _plugins_of_prefix()]
    places = [PACKAGE / "bin" / "forebay", *installed, _build(environment) / "bin" / "forebay"]
    for place in places:
        if os.access(place, os.X_OK) and place.is_file():
            return place
    looked = " or ".join(map(str, places))
    raise NotInstalled(f"there is no {looked}: install the wheel, or build the command with 'make build'")


def _plugins_of_prefix() -> list[Path]:
    if PACKAGE.parent.name not in ("site-packages", "dist-packages"):
        return []
    return [folder for folder in PACKAGE.parents[3].glob("lib*/hdf5/plugin") if has_plugin(folder)]


def _build(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("FOREBAY_BUILD_DIR") or PACKAGE.parents[1] / "build" / "release")
