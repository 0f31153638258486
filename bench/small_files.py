#!/usr/bin/env python3
"""Times 1,000 small files that are made, closed, opened for writing again and closed, natively and with forebay.

    tools/env bench/small_files.py                     seven repetitions, in turns
    tools/env bench/small_files.py --folder /scratch   the files there, instead of in memory

Everything is as by default, but for the place of the staging area. Prints the medians and their ratio; the target is at
most 1.2 x native. The files are compared, and the counters must show that all of them were staged.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(os.environ["FOREBAY_BUILD_DIR"]) / "bench" / "small_files"
TARGET_RATIO = 1.2


def run(side: str, folder: Path, files: int) -> dict[str, float]:
    """Returns the seconds of one run in fresh folders."""
    data, area, stats = folder / "data", folder / "area", folder / "stats.jsonl"
    for fresh in (data, area):
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HDF5_VOL")}
    if side == "forebay":
        environment |= {
            "HDF5_VOL_CONNECTOR": "forebay",
            "HDF5_PLUGIN_PATH": os.environ["FOREBAY_PLUGIN_DIR"],
            "FOREBAY_NLS": str(area),
            "FOREBAY_STATS": str(stats),
        }
    done = subprocess.run(
        [PROGRAM, "--folder", data, "--files", str(files)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{side}: {done.returncode} {done.stderr}")
    if side == "forebay":
        lines = [json.loads(line) for line in stats.read_text().splitlines()]
        stats.unlink()
        written = [line["file"] for line in lines if "file" in line and line["file"]["staged"] > 0]
        made = {one["path"] for one in written}
        if len(made) != files + 1 or any(one["pending"] for one in written):
            sys.exit(f"not all files were staged and drained: {len(made)} of {files + 1}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--folder", default="/dev/shm")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-small-files-", dir=os.path.abspath(options.folder)))
    samples: dict[str, list[dict[str, float]]] = {"native": [], "forebay": []}
    try:
        for repetition in range(options.repetitions):
            for side in ("native", "forebay") if repetition % 2 == 0 else ("forebay", "native"):
                samples[side].append(run(side, folder, options.files))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for what, keys in (("made", ("make_s",)), ("opened again", ("open_s",)), ("both", ("make_s", "open_s"))):
        native, mine = (
            statistics.median(sum(one[key] for key in keys) for one in samples[side]) for side in ("native", "forebay")
        )
        verdict = f"target {TARGET_RATIO}: {'met' if mine / native <= TARGET_RATIO else 'missed'}"
        print(f"{what}: native {native:.4f} s, forebay {mine:.4f} s: {mine / native:.2f} x native; {verdict}")


if __name__ == "__main__":
    main()
