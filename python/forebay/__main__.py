"""``python -m forebay`` and the script ``forebay``: the command, which is a program of its own beside this package."""

from __future__ import annotations

import os
import sys

from forebay.installation import NotInstalled, command


def main() -> None:
    """Becomes the command, with this process's arguments, environment and descriptors. Returns only by SystemExit."""
    try:
        path = command()
    except NotInstalled as reason:
        sys.exit(f"forebay: {reason}")
    os.execv(path, ["forebay", *sys.argv[1:]])


if __name__ == "__main__":
    main()
