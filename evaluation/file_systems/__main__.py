"""Mounts distributed file systems on this machine, tries forebay on each, and prints a table.

    tools/setup file-systems
    tools/env python evaluation/file_systems [--only GlusterFS] [--minutes 0.5] [--json FILE]

The servers run in a network namespace of this program. A file system that cannot run here is skipped by name, with the
reason. Exit status: 0 all right or told; 1 wrong data, or a trial that failed; 2 wrong words on the command line.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from file_systems.campaign import KINDS, TRIALS, print_table, summary, try_all  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [kind.name for kind in KINDS]
    parser.add_argument("--only", action="append", choices=names, help="this file system; may be repeated")
    parser.add_argument("--trial", action="append", choices=TRIALS, help="this trial; may be repeated")
    parser.add_argument("--minutes", type=float, default=0.5, help="of torture on each (0.5)")
    parser.add_argument("--json", type=Path, help="write the results there, too")
    given = parser.parse_args()
    # A terminated run tears down as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    kinds = [kind for kind in KINDS if given.only is None or kind.name in given.only]
    with tempfile.TemporaryDirectory(prefix="forebay-fs-", ignore_cleanup_errors=True) as folder:
        results = try_all(kinds, Path(folder), given.minutes, given.trial or list(TRIALS))
    print_table(results)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(summary(results), indent=2) + "\n")
    return 1 if any(result.is_bad() for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
