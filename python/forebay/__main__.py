"""``python -m forebay`` and the script ``forebay``: start the command, a separate program beside this package.

``python -m forebay run train.py`` is ``forebay run -- python train.py``, with this interpreter. ``estimate`` runs here.
"""

from __future__ import annotations

import os
import sys

from forebay.installation import NotInstalled, command

_WITH_VALUE = ("-o", "--option", "--nls", "--json", "--report", "--folder", "--copies", "--runs")


def main() -> None:
    """Replaces this process by the command, with its arguments and environment. Returns only by SystemExit."""
    if sys.argv[1:2] == ["estimate"]:  # is a module of this package, and needs no other program
        from forebay import estimate

        sys.exit(estimate.main(sys.argv[2:]))
    try:
        path = command()
    except NotInstalled as reason:
        sys.exit(f"forebay: {reason}")
    os.execv(path, ["forebay", *with_interpreter(sys.argv[1:])])


def with_interpreter(words: list[str]) -> list[str]:
    """Returns the command line, with this interpreter in front of a Python file that ``run`` starts."""
    if words[:1] != ["run"]:
        return words
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 2 if words[at] in _WITH_VALUE else 1
    program = at + 1 if words[at : at + 1] == ["--"] else at
    if program < len(words) and words[program].endswith(".py") and os.path.isfile(words[program]):
        return [*words[:at], "--", sys.executable, *words[program:]]
    return words


if __name__ == "__main__":
    main()
