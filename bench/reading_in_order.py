#!/usr/bin/env python3
"""Measures a cache that is smaller than the data, with an order of reads that is known ahead (forebay.follow).

    tools/env bench/reading_in_order.py                       4,096 rows of 64 KiB, batches of 64
    tools/env bench/reading_in_order.py --only sampler --row-bytes 262144 --rows 1024

Two parts:

- Shuffled epochs, and a cache of half the data. Each batch is read and then computed on: the program sleeps. Of the
  epochs from the second on it prints the time against the larger one of two times: that of computing, and that of half
  the data at the file system's rate. The bar is 0.95. It prints the share of hits, too; at best they are a half.
- A weighted sampler with replacement, and a cache of a quarter of the data. It prints the share of rows that the file
  system did not deliver, and the share that Belady's replacement has for the same order with room for as many rows.

The data are compared with the native side. The program reads one row at a time, so an epoch takes at least the time
of computing and of reading its rows from the node: on a busy machine, or with small rows, that is more than the bar.
"""

import argparse
import bisect
import heapq
import itertools
import json
import random
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from forebay.slowfs import SlowFS
from reading import CLOCK_BEHIND, environment_of, make_rows, told_by

READ = """
import json, os, sys, time, zlib, h5py, numpy as np
path, follows, ahead, batch, compute = sys.argv[1], sys.argv[2] == "1", *map(int, sys.argv[3:5]), float(sys.argv[5])
with open(sys.argv[6]) as file:
    epochs = json.load(file)
told = {"epochs": [], "cache": [], "sum": 0}
def counted():
    if not follows:
        return {}
    from forebay.plugin import loaded_plugins
    return loaded_plugins()[0].statistics()["cache"]
with h5py.File(path) as f:
    rows = f["rows"]
    buffer = np.empty((batch, rows.shape[1]), dtype=np.uint8)
    if follows:
        import forebay
    for order in epochs:
        start = time.monotonic()
        coming = iter(forebay.follow(order, rows, ahead) if follows else order)
        for at in range(0, len(order), batch):
            for place, row in enumerate(order[at : at + batch]):
                rows.read_direct(buffer, np.s_[next(coming)], np.s_[place])
            told["sum"] = zlib.crc32(buffer[:, :: 509].tobytes(), told["sum"])
            time.sleep(compute / len(order) * batch)
        told["epochs"].append(time.monotonic() - start)
        told["cache"].append(counted())
print(json.dumps(told))
"""


def hits_of_belady(order: list[int], room: int) -> int:
    """Returns the maximum number of hits for this order. The row with the latest next use is replaced, even the newest
    one."""
    following: dict[int, int] = {}
    after = [0] * len(order)
    for at in range(len(order) - 1, -1, -1):
        after[at] = following.get(order[at], len(order))
        following[order[at]] = at
    stored: dict[int, int] = {}
    last: list[tuple[int, int]] = []
    hits = 0
    for at, row in enumerate(order):
        hits += row in stored
        stored[row] = after[at]
        heapq.heappush(last, (-after[at], row))
        while len(stored) > room:
            when, one = heapq.heappop(last)
            if stored.get(one) == -when:
                del stored[one]
    return hits


def weighted(rows: int, reads: int) -> list[int]:
    """Returns the draws of a weighted sampler with replacement: the weight of row i is 1 / sqrt(1 + i)."""
    draws = random.Random(1)
    sums = list(itertools.accumulate((1 + row) ** -0.5 for row in range(rows)))
    places = list(range(rows))
    draws.shuffle(places)
    return [places[bisect.bisect_left(sums, draws.random() * sums[-1])] for _ in range(reads)]


class Bench:
    def __init__(self, folder: Path, file_system: SlowFS, options: argparse.Namespace) -> None:
        self.area, self.orders = folder / "area", folder / "orders"
        self.file_system, self.path, self.options = file_system, file_system / "data.h5", options

    def run(self, side: str, epochs: list[list[int]], cache: int, ahead: int, compute: float) -> tuple[dict, int]:
        """Returns the program's output, and the bytes that the file system delivered."""
        shutil.rmtree(self.area, ignore_errors=True)
        self.area.mkdir()
        self.orders.write_text(json.dumps(epochs))
        before = self.file_system.stats()["operations"]["read"]["bytes"]
        words = [self.path, int(side == "forebay"), ahead, self.options.batch, compute, self.orders]
        told = told_by(READ, words, environment_of(side, self.area, f"{cache >> 10}KiB"))
        return told, self.file_system.stats()["operations"]["read"]["bytes"] - before

    def shuffled(self) -> None:
        options = self.options
        data_bytes = options.rows * options.row_bytes
        epochs = [random.Random(epoch).sample(range(options.rows), options.rows) for epoch in range(options.epochs)]
        half_s = data_bytes / 2 / options.bandwidth
        native, _ = self.run("native", epochs, 0, 1, 0)
        print(
            f"natively, without computing: {2 * half_s / statistics.median(native['epochs']):.3f} of the file system's"
            " rate"
        )
        for share in options.compute:
            compute = share * half_s
            ratios, hits, ahead, seen = [], [], [], []
            for _ in range(options.repetitions):
                told, saw = self.run("forebay", epochs, data_bytes // 2, options.ahead, compute)
                if told["sum"] != native["sum"]:
                    sys.exit("the two sides have read different bytes")
                before, after = told["cache"][0], told["cache"][-1]
                missed, came = (after[name] - before[name] for name in ("missed_bytes", "ahead_bytes"))
                ahead.append(came / missed)
                ratios += [max(compute, half_s) / took for took in told["epochs"][1:]]
                for before, after in itertools.pairwise(told["cache"]):
                    hit, missed = (after[name] - before[name] for name in ("hit_bytes", "missed_bytes"))
                    hits.append(hit / (hit + missed))
                seen.append(saw / data_bytes)
            print(
                f"shuffled, a cache of half the data, computing {compute:.2f} s an epoch, half the data {half_s:.2f} s:"
                f"\n  epochs from the second on: {statistics.median(ratios):.3f} of the best time"
                f" ({min(ratios):.3f} to {max(ratios):.3f}); bar 0.95"
                f"\n  hits {statistics.median(hits):.3f}; of the other bytes {statistics.median(ahead):.3f} came ahead"
                f"\n  the file system saw {statistics.median(seen):.3f} x the data in {options.epochs} epochs,"
                f" at best {(options.epochs + 1) / 2:.3f}",
                flush=True,
            )

    def sampler(self) -> None:
        options = self.options
        order = weighted(options.rows, options.draws * options.rows)
        data_bytes, room = options.rows * options.row_bytes, options.rows // 4
        native = self.run("native", [order], 0, 1, 0)[0]["sum"]
        best = hits_of_belady(order, room) / len(order)
        for ahead in (options.ahead, len(order)):
            told, seen = self.run("forebay", [order], data_bytes // 4, ahead, 0)
            if told["sum"] != native:
                sys.exit("the two sides have read different bytes")
            hits = 1 - seen / (len(order) * options.row_bytes)
            print(
                f"sampler with replacement, a cache of a quarter, {len(order)} reads, {ahead} known ahead:"
                f" hits {hits:.3f}, Belady's {best:.3f}, ratio {hits / best:.3f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--row-bytes", type=int, default=64 << 10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--ahead", type=int, default=256, help="rows that are known ahead")
    parser.add_argument("--compute", type=float, nargs="*", default=[0.0, 1.0, 2.0], help="x the time of half the data")
    parser.add_argument("--draws", type=int, default=8, help="of the sampler, for each row")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", choices=["shuffled", "sampler"])
    parser.add_argument("--bandwidth", type=int, default=200 << 20, help="bytes in a second")
    parser.add_argument("--latency", default="0.5ms")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-order-", dir="/dev/shm"))
    try:
        with SlowFS(
            folder / "backing",
            folder / "mount",
            bandwidth=f"{options.bandwidth}B/s",
            latency=options.latency,
            clock_behind=CLOCK_BEHIND,
        ) as file_system:
            make_rows(folder / "backing" / "data.h5", options.rows, options.row_bytes)
            bench = Bench(folder, file_system, options)
            if options.only != "sampler":
                bench.shuffled()
            if options.only != "shuffled":
                bench.sampler()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
