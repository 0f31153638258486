#!/usr/bin/env python3
"""Times how soon a reader sees what a writer has flushed, both through one staging server.

    tools/env bench/reader_beside_writer.py                   100 flushes of 32 MiB, in memory
    tools/env bench/reader_beside_writer.py --folder /scratch  the file and the staging area there

The writer overwrites a dataset, notes the number of the flush in an attribute, and flushes. Then the reader opens the
file, and reads the attribute. The time is that of the open and the reading. Each must see the newest flush. The target
is at most 50 ms. A native reader of the final file, without a writer, measures the cost of the open itself.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET_MS = 50
WRITER = """
import sys
import h5py, numpy
with h5py.File("run.h5", "w") as file:
    values = file.create_dataset("x", (int(sys.argv[1]) << 20,), "u1")
    for line in sys.stdin:
        values[...] = int(line) % 256
        file.attrs["flush"] = int(line)
        file.flush()
        print("flushed", flush=True)
"""
READER = """
import sys, time
import h5py
for line in sys.stdin:
    begin = time.perf_counter()
    with h5py.File("run.h5", "r") as file:
        seen = int(file.attrs["flush"])
    print(time.perf_counter() - begin, seen, flush=True)
"""


def start(folder: Path, code: str, environment: dict[str, str], *arguments: object) -> subprocess.Popen[str]:
    """Starts a program that answers each line with one line."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(program: subprocess.Popen[str], line: object) -> str:
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write(f"{line}\n")
    program.stdin.flush()
    return program.stdout.readline()


def end(program: subprocess.Popen[str]) -> None:
    program.communicate(timeout=120)
    if program.returncode != 0:
        raise SystemExit("a program has failed")


def measure(folder: Path, flushes: int, mib: int) -> dict[str, list[float]]:
    command = Path(os.environ["FOREBAY_BUILD_DIR"]) / "bin" / "forebay"
    native = {name: value for name, value in os.environ.items() if not name.startswith("HDF5_VOL")}
    (folder / "area").mkdir()
    server = subprocess.Popen(
        [command, "serve", "--listen", f"unix:{folder}/socket", "--nls", folder / "area", "--size", "16GiB"],
        env=native,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    if not server.stdout.readline().startswith("forebay serve: ready"):
        raise SystemExit("the server does not begin")
    through = {
        **native,
        "HDF5_VOL_CONNECTOR": f"forebay server=unix:{folder}/socket;stats={folder}/stats",
        "HDF5_PLUGIN_PATH": os.environ["FOREBAY_PLUGIN_DIR"],
    }
    writer, reader = start(folder, WRITER, through, mib), start(folder, READER, through)
    seconds: dict[str, list[float]] = {"beside a writer": [], "natively, alone": []}
    for number in range(flushes):
        ask(writer, number)
        took, seen = ask(reader, "").split()
        if int(seen) != number:
            raise SystemExit(f"the reader has seen flush {seen} after flush {number}")
        seconds["beside a writer"].append(float(took))
    end(writer)
    end(reader)
    server.terminate()
    if server.wait(timeout=120) != 0:
        raise SystemExit("the server has failed")
    lines = [json.loads(line) for line in (folder / "stats").read_text().splitlines()]
    forwarded = sum(line.get("process", {}).get("aside", {}).get("forwarded", 0) for line in lines)
    if forwarded != flushes + 1:
        raise SystemExit(f"only {forwarded} opens went through the server")
    reader = start(folder, READER, native)
    for _ in range(flushes):
        seconds["natively, alone"].append(float(ask(reader, "").split()[0]))
    end(reader)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--flushes", type=int, default=100)
    parser.add_argument("--mib", type=int, default=32)
    options = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        seconds = measure(Path(folder), options.flushes, options.mib)
    for what, took in seconds.items():
        ordered = sorted(1000 * each for each in took)
        late = ordered[int(0.95 * (len(ordered) - 1))]
        print(f"{what}: median {statistics.median(ordered):.1f} ms, 95 % {late:.1f} ms, longest {ordered[-1]:.1f} ms")
    longest = 1000 * max(seconds["beside a writer"])
    print(f"target {TARGET_MS} ms: {'met' if longest <= TARGET_MS else 'missed by the longest'}")
    print(f"took {time.perf_counter() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
