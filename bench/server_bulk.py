#!/usr/bin/env python3
"""Times writes of 1 MiB to a staging server on another machine, through the connection and through libfabric.

    tools/env bench/server_bulk.py --mib 256 --repetitions 5

The machines are two network namespaces of this one, with MUNGE: root only, and no network with RDMA. Both ways write
the same rows of a dataset, flush, and read them back, in turns. The server's last words have to say that the bytes went
as they should. Prints the medians, and the ratio of the two.
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "test" / "integration"
sys.path[:0] = [str(TESTS), str(TESTS.parent / "conformance" / "differential")]

from forebay.slowfs import SlowFS  # noqa: E402
from server_environment import Client, Server, through  # noqa: E402
from two_machines import Machines  # noqa: E402

OPEN = ("f = h5py.File('x.h5', 'w')", "d = f.create_dataset('d', ({mib}, 1 << 20), 'u1')", "import time, os")
# What the first 4 MiB cost, and what it costs to set up the other way, is not timed.
WARM = ("rows = np.frombuffer(os.urandom(4 << 20), 'u1').reshape(4, 1 << 20)",) + ("d[:5] = d[:5]",) * 2
WRITE = "t = time.perf_counter()\nfor i in range({mib}): d[i] = rows[i % 4]\nf.flush()"
READ = "t = time.perf_counter()\nfor i in range({mib}): assert d[i, 7] == rows[i % 4, 7] and d[i].size"
TOOK = "raise Exception(time.perf_counter() - t)"


def run(folder: Path, machines: Machines, bulk: str, mib: int) -> tuple[float, float]:
    with Server(
        Path(tempfile.mkdtemp(dir=folder)),
        f"{machines.address}:0",
        *("--size", "8GiB", "-o", f"server_bulk={bulk}"),
        on=machines.first,
    ) as server:
        environment = through(server.address, folder, f"server_bulk={bulk}")
        with Client(folder / "target", environment, on=machines.second) as program:
            program.must(*(line.format(mib=mib) for line in OPEN + WARM))
            seconds = []
            for what in (WRITE, READ):
                program.must(f"exec({what.format(mib=mib)!r})")
                seconds.append(float(program.do(TOOK).removeprefix("error ")))
            program.must("f.close()")
            if said := program.end():
                raise SystemExit(said)
        moved = re.search(r"came [\d.]+ [MG]iB and went [\d.]+ [MG]iB; 0 clients", server.end())
        if (moved is not None) != (bulk == "fabric"):
            raise SystemExit(f"{bulk}: the bytes went another way")
    return seconds[0], seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    begin = time.perf_counter()
    seconds: dict[str, list[tuple[float, float]]] = {"socket": [], "fabric": []}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        for each in ("backing", "target"):
            (folder / each).mkdir()
        with SlowFS(folder / "backing", folder / "target"), Machines(folder) as machines:
            for _ in range(options.repetitions):
                for bulk, all_seconds in seconds.items():
                    all_seconds.append(run(folder, machines, bulk, options.mib))
    for number, what in enumerate(("written", "read")):
        rates = {bulk: options.mib / statistics.median(each[number] for each in took) for bulk, took in seconds.items()}
        print(
            f"{what}: socket {rates['socket']:.0f} MiB/s, fabric {rates['fabric']:.0f} MiB/s, "
            f"ratio {rates['fabric'] / rates['socket']:.2f}"
        )
    print(f"took {time.perf_counter() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
