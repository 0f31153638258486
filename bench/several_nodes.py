"""Measures the cost of nodes=consistent for a program that overwrites all its data before each flush.

    tools/env python3 bench/several_nodes.py [TURNS [FOLDER]]

Two ranks run the program of the crash tests, in turns with the option and without it. Each rank is on a played node
with its own staging area. The file is in FOLDER, if that is given. The output is milliseconds per epoch, and the ratio
of each turn. An epoch rewrites all data and flushes.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "test" / part) for part in ("crash", "integration", "conformance/parallel")]

from crash_environment import flushed, program, staged  # noqa: E402
from parallel_environment import launch, node_names  # noqa: E402

RANKS, EPOCHS, SECONDS_MAX = 2, 300, 120


def seconds(folder: Path, home: Path, nodes: str, epochs: int) -> float:
    areas = [folder / f"area{rank}" for rank in range(RANKS)]
    for area in areas:
        area.mkdir(exist_ok=True)
    per_rank = [{**name, "FOREBAY_NLS": str(area)} for name, area in zip(node_names(RANKS, RANKS), areas, strict=True)]
    path = home / f"{nodes}-{epochs}.h5"
    command = [program(), path, "latest", epochs, 0, "mpi"]
    begin = time.monotonic()
    done = launch(
        command, staged(folder / "unused", FOREBAY_NODES=nodes), folder, RANKS, SECONDS_MAX, per_rank=per_rank
    )
    elapsed = time.monotonic() - begin
    if done.hung is not None or flushed(done.stdout) != epochs:
        sys.exit(done.told())
    path.unlink()
    return elapsed


def milliseconds_per_epoch(root: Path, home: Path, nodes: str) -> float:
    folder = root / nodes
    folder.mkdir()
    # Subtracts the time of start and end.
    short = seconds(folder, home, nodes, 1)
    whole = seconds(folder, home, nodes, EPOCHS)
    shutil.rmtree(folder)
    return 1000 * (whole - short) / (EPOCHS - 1)


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    taken: dict[str, list[float]] = {"fast": [], "consistent": []}
    with tempfile.TemporaryDirectory() as root:
        home = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(root)
        for turn in range(turns):
            for nodes in sorted(taken, reverse=turn % 2 == 0):
                taken[nodes].append(milliseconds_per_epoch(Path(root), home, nodes))
    ratios = [consistent / fast for fast, consistent in zip(taken["fast"], taken["consistent"], strict=True)]
    for nodes, each in taken.items():
        print(f"nodes={nodes}: median {statistics.median(each):.2f} ms per epoch, {min(each):.2f} to {max(each):.2f}")
    print(
        f"consistent / fast: median {statistics.median(ratios):.2f}, "
        f"{min(ratios):.2f} to {max(ratios):.2f}, of {turns} turns"
    )


if __name__ == "__main__":
    main()
