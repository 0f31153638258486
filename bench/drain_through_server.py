#!/usr/bin/env python3
"""Counts the writes that a file system sees of MPI programs that stage on each node, with and without a server.

    tools/env bench/drain_through_server.py            4 nodes of one rank, 3 repetitions, 0.5 ms per operation
    tools/env bench/drain_through_server.py --latency 5ms  a file system that is busy with others

The programs are those of bench/through_server.py. Each runs natively, staged on its nodes, and staged there and drained
through a server (server_mode=drain), in turns. Nodes are played (option node). All files are read back natively and
compared. The figures are medians: the writes at the file system, and the time in HDF5 calls and close.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from forebay.slowfs import SlowFS

sys.path.insert(0, str(Path(__file__).parent))
from runs import NATIVE, Places, environment, mpiexec
from through_server import LATENCY, PROGRAMS, server, verify

STAGED, DRAINED = "staged", "drained through a server"
WAYS = (NATIVE, STAGED, DRAINED)
# Each rank is a node of its own.
ON_NODES = ("sh", "-c", 'FOREBAY_NODE=n$PMI_RANK exec "$@"', "sh")


def run(places: Places, folder: Path, fs: SlowFS, what: str, way: str, ranks: int) -> dict[str, float]:
    program, arguments, _ = PROGRAMS[what]
    plain = environment(places, NATIVE, folder / "unused")
    before = fs.stats()["operations"]["write"]["count"]
    stats = folder / "client.jsonl"
    stats.unlink(missing_ok=True)
    with ExitStack() as stack:
        options = f"nls={folder}/area;stats={stats}"
        (folder / "area").mkdir(exist_ok=True)
        if way == DRAINED:
            options += f";server_mode=drain;server={stack.enter_context(server(folder, ranks))}"
        staged = {"HDF5_VOL_CONNECTOR": f"forebay {options}", "HDF5_PLUGIN_PATH": str(places.plugins)}
        done = subprocess.run(
            [*mpiexec(ranks), *ON_NODES, places.program(program), *arguments, "--file", str(fs.mount_point / "run.h5")],
            env=plain if way == NATIVE else {**plain, **staged},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    if done.returncode != 0 or not done.stdout.startswith("{"):
        raise SystemExit(f"{what} ({way}) has failed: {done.stderr[-2000:]}")
    told = json.loads(done.stdout)
    told["writes"] = fs.stats()["operations"]["write"]["count"] - before
    if way != NATIVE:
        files = [line["file"] for line in map(json.loads, stats.read_text().splitlines()) if "file" in line]
        served, drained = (sum(file[key] for file in files) for key in ("served", "drained"))
        if drained == 0 or (served >= drained) != (way == DRAINED):
            raise SystemExit(f"{what} ({way}): {drained} bytes drained, and {served} through a server")
    verify([*mpiexec(ranks), places.program(program), *arguments], fs.backing / "run.h5", plain, f"{what} ({way})")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", choices=PROGRAMS, action="append")
    parser.add_argument("--latency", default=LATENCY, help=f"of each operation of the file system ({LATENCY})")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        build = Path(os.environ["FOREBAY_BUILD_DIR"])
        places = Places(build / "bench", Path(os.environ["FOREBAY_PLUGIN_DIR"]), None, folder, folder)
        with SlowFS(folder / "backing", folder / "mount", latency=options.latency) as fs:
            print("| program | " + " | ".join(f"{way}: writes, time" for way in WAYS) + " |")
            for what in options.only or PROGRAMS:
                cells = []
                runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
                for _ in range(options.repetitions):
                    for way in WAYS:
                        runs[way].append(run(places, folder, fs, what, way, options.ranks))
                for way in WAYS:
                    writes = statistics.median(each["writes"] for each in runs[way])
                    seconds = statistics.median(each["calls_s"] + each["close_s"] for each in runs[way])
                    cells.append(f"{writes:,.0f}, {seconds:.3f} s")
                print(f"| {what} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
