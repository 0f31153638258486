#!/usr/bin/env python3
"""Times MPI programs that write one file together through a staging server, with its merging and without.

    tools/env bench/through_server.py            16 and 4 ranks, 3 repetitions, the file system at 0.5 ms per operation
    tools/env bench/through_server.py --ranks 4  so many ranks only
    tools/env bench/through_server.py --latency 5ms  a file system that is busy with others

The programs are FFBench and FLASH I/O (bench/kernels). Each runs natively, through a server that writes each request to
the file by itself (`forebay serve -o stage=off`), and through one that stages and merges, in turns. All three files are
read back natively and compared. The figures are the time in HDF5 calls and close, and the writes at the file system.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from forebay.slowfs import SlowFS

sys.path.insert(0, str(Path(__file__).parent))
from runs import NATIVE, Places, environment, mpiexec

LATENCY = "0.5ms"
UNMERGED, MERGED = "server, unmerged", "server, merged"
WAYS = (NATIVE, UNMERGED, MERGED)
SHAPE = ("--rows", "128", "--columns", "2048")
# The papers' results: the reduction of time against the same server without merging.
PROGRAMS = {
    "collective buffering": ("ffbench", ("--pattern", "collective_buffering", *SHAPE), 0.30),
    "morphing": ("ffbench", ("--pattern", "morphing", "--rows", "32", "--columns", "2048"), 0.40),
    "stealing from another rank": ("ffbench", ("--pattern", "stealing", *SHAPE, "--neighbour"), 0.70),
    "FLASH checkpoint": ("flash_io", ("--kind", "checkpoint"), 0.42),
    "FLASH plot with corners": ("flash_io", ("--kind", "plot_corners"), 0.42),
}


@contextmanager
def server(folder: Path, ranks: int, *more: str):
    """Starts `forebay serve` with a staging area in memory. Yields its address."""
    command = Path(os.environ["FOREBAY_BUILD_DIR"]) / "bin" / "forebay"
    area = Path(tempfile.mkdtemp(dir="/dev/shm"))
    address = f"unix:{folder}/socket"
    process = subprocess.Popen(
        [command, "serve", "--listen", address, "--nls", area, "--size", "4GiB", "--clients-max", str(ranks)]
        + ["-o", f"stats={folder}/server.jsonl", *more],
        env={name: value for name, value in os.environ.items() if not name.startswith("HDF5_VOL")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    if not process.stdout.readline().startswith("forebay serve: ready"):
        raise SystemExit("the server does not begin")
    try:
        yield address
    finally:
        process.terminate()
        if process.wait(timeout=120) != 0:
            raise SystemExit("the server has failed")
        shutil.rmtree(area)


def run(places: Places, folder: Path, fs: SlowFS, what: str, way: str, ranks: int) -> dict[str, float]:
    program, arguments, _ = PROGRAMS[what]
    command = [*mpiexec(ranks), places.program(program), *arguments]
    name = "run.h5"
    before = fs.stats()["operations"]["write"]["count"]
    variables = environment(places, NATIVE, folder / "unused")

    def go(more: dict[str, str]) -> dict[str, float]:
        done = subprocess.run(
            [*command, "--file", str(fs.mount_point / name)],
            env={**variables, **more},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode != 0 or not done.stdout.startswith("{"):
            raise SystemExit(f"{what} ({way}) has failed: {done.stderr[-2000:]}")
        return json.loads(done.stdout)

    if way == NATIVE:
        told = go({})
    else:
        with server(folder, ranks, *(("-o", "stage=off") if way == UNMERGED else ())) as address:
            stats = folder / "client.jsonl"
            stats.unlink(missing_ok=True)
            told = go(
                {
                    "HDF5_VOL_CONNECTOR": f"forebay server={address};stats={stats}",
                    "HDF5_PLUGIN_PATH": str(places.plugins),
                }
            )
        lines = [json.loads(line) for line in stats.read_text().splitlines()]
        forwarded = sum(line.get("process", {}).get("aside", {}).get("forwarded", 0) for line in lines)
        if forwarded < ranks:
            raise SystemExit(f"{what} ({way}): only {forwarded} opens went through the server")
    told["writes"] = fs.stats()["operations"]["write"]["count"] - before
    verify(command, fs.backing / name, variables, f"{what} ({way})")
    return told


def verify(command: list, file: Path, variables: dict[str, str], of: str) -> None:
    verified = subprocess.run(
        [*command, "--file", str(file), "--verify"],
        env=variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if verified.returncode != 0:
        raise SystemExit(f"{of}: wrong data: {verified.stderr[-2000:]}")
    file.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, action="append")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--latency", default=LATENCY, help="of each operation of the file system")
    parser.add_argument("--only", choices=PROGRAMS, action="append")
    options = parser.parse_args()
    build = Path(os.environ["FOREBAY_BUILD_DIR"])
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        places = Places(build / "bench", Path(os.environ["FOREBAY_PLUGIN_DIR"]), None, folder, folder)
        with SlowFS(folder / "backing", folder / "mount", latency=options.latency) as fs:
            print("| program | ranks | native | unmerged | merged | less time than unmerged | paper | writes |")
            print("| --- | --- | --- | --- | --- | --- | --- | --- |")
            for ranks in options.ranks or [16, 4]:
                for what in options.only or PROGRAMS:
                    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
                    for _ in range(options.repetitions):
                        for way in WAYS:
                            runs[way].append(run(places, folder, fs, what, way, ranks))
                    seconds = {
                        way: statistics.median(each["calls_s"] + each["close_s"] for each in all_of)
                        for way, all_of in runs.items()
                    }
                    writes = [f"{statistics.median(each['writes'] for each in runs[way]):,.0f}" for way in WAYS]
                    less = 1 - seconds[MERGED] / seconds[UNMERGED]
                    wanted = PROGRAMS[what][2]
                    print(
                        f"| {what} | {ranks} | " + " | ".join(f"{seconds[way]:.3f} s" for way in WAYS),
                        f"| {less:.0%} | ≥ {wanted:.0%}, {'met' if less >= wanted else 'missed'} "
                        f"| {' / '.join(writes)} |",
                        flush=True,
                    )
    print(f"took {time.perf_counter() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
