"""Where this package has the command and the plugin: in an installed wheel, or in the build of a checkout.

A wheel holds ``forebay/bin`` and ``forebay/lib/hdf5/plugin``, as any installation has them below its prefix.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from forebay.plugin import ForebayError

PACKAGE = Path(__file__).resolve().parent
_PLUGINS_INSTALLED = Path("lib") / "hdf5" / "plugin"


class NotInstalled(ForebayError):
    """The command or the plugin is not there; the message says what to do."""


def plugin_places(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Folders that may hold the plugin, the best first: this package's own, and the build beside it."""
    return [PACKAGE / _PLUGINS_INSTALLED, _build(environment) / "plugins"]


def command(environment: Mapping[str, str] = os.environ) -> Path:
    """The program ``forebay`` that belongs to this package. Raises NotInstalled when there is none."""
    places = [PACKAGE / "bin" / "forebay", _build(environment) / "bin" / "forebay"]
    for place in places:
        if os.access(place, os.X_OK) and place.is_file():
            return place
    looked = " or ".join(map(str, places))
    raise NotInstalled(f"there is no {looked}: install the wheel, or build the command with 'make build'")


def _build(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("FOREBAY_BUILD_DIR") or PACKAGE.parents[1] / "build" / "release")
