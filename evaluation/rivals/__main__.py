"""Writes checkpoints by forebay and by other libraries, in turns on one slow file system, and prints a table.

    tools/setup rivals torch
    tools/env python evaluation/rivals [--repetitions 3] [--only NAME] [--json FILE]

The files on the node (forebay's log, copies) lie in /dev/shm, or in --node DIR. A rival that cannot run is skipped by
name, with the reason. Exit status: 0 all bytes are right; 1 wrong bytes, or native h5py or forebay failed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from rivals.comparison import Shape, compare, is_bad, print_table, summary  # noqa: E402
from rivals.contenders import CONTENDERS  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [contender.name for contender in CONTENDERS]
    parser.add_argument("--only", action="append", choices=names, help="this one; may be repeated")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--node", type=Path, default=Path("/dev/shm"), help="a folder on this node (/dev/shm)")
    parser.add_argument("--json", type=Path, help="write the results there, too")
    given = parser.parse_args()
    # A terminated run tears down as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = [contender for contender in CONTENDERS if given.only is None or contender.name in given.only]
    shape = Shape()
    with (
        tempfile.TemporaryDirectory(prefix="forebay-rivals-") as target,
        tempfile.TemporaryDirectory(prefix="forebay-rivals-", dir=given.node) as node,
    ):
        outcomes = compare(chosen, shape, given.repetitions, Path(target), Path(node))
    told = summary(outcomes, shape, given.repetitions)
    print_table(told)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return 1 if is_bad(told) else 0


if __name__ == "__main__":
    sys.exit(main())
