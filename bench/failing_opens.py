#!/usr/bin/env python3
"""Times opens that fail, of a program that has not asked for forebay.

HDF5 then asks each connector on its plugin path about the file. Sides: `native`, an empty path; `plain`, a connector
that knows no file; `forebay`, the plugin and nothing else of forebay. All have to fail.

    tools/env bench/failing_opens.py [--turns 7] [--opens 5000]

Prints the medians of all turns, in microseconds; for a file that is not there and for one that is not HDF5's.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path


def told(program: Path, path: Path, opens: int, folder: Path) -> dict:
    """Returns the program's output with this folder as the plugin path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_", "HDF5_"))}
    done = subprocess.run(
        [program, path, str(opens)], env=kept | {"HDF5_PLUGIN_PATH": str(folder)}, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--opens", type=int, default=5000)
    options = parser.parse_args()
    build = Path(os.environ["FOREBAY_BUILD_DIR"])
    with tempfile.TemporaryDirectory(prefix="failing-opens-") as name:
        empty, text = Path(name) / "empty", Path(name) / "text.h5"
        empty.mkdir()
        text.write_text("this is no HDF5 file\n")
        sides = {"native": empty, "plain": build / "bench" / "plain_connector", "forebay": build / "plugins"}
        for what, path in (("not there", Path(name) / "missing.h5"), ("not HDF5", text)):
            runs = [
                {side: told(build / "bench" / "failing_opens", path, options.opens, at) for side, at in sides.items()}
                for _ in range(options.turns)
            ]
            for figure in ("first_us", "median_us"):
                medians = {side: statistics.median(run[side][figure] for run in runs) for side in sides}
                print(f"{what}, {figure}:", ", ".join(f"{side} {value:.1f}" for side, value in medians.items()))
    print("load average:", os.getloadavg()[0])


if __name__ == "__main__":
    main()
