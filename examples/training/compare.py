#!/usr/bin/env python3
"""Runs train.py natively and with forebay on a slow file system, and compares the epochs.

    tools/env examples/training/compare.py                        images in one file, volumes in many
    tools/env examples/training/compare.py --all                  both models in both layouts
    tools/env examples/training/compare.py --only volume-many --edge 128 --volumes 16

Each case is a model, a layout, and the processes that read: one, two and four workers of a DataLoader, two MPI ranks.
The program is the same on both sides; forebay is in the environment of the second one only, with an empty cache.
Prints a table, and writes it with all figures to OUTPUT/training.json, and a figure to OUTPUT/training.png.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from rich import box
from rich.console import Console
from rich.table import Table

from forebay.program import cached_environment, native_environment
from forebay.slowfs import SlowFS, SlowFSError, available

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SIDES = ("native", "forebay")
COLOURS = {"native": "#D55E00", "forebay": "#0072B2"}
WAYS = {"1 process": (0, 1), "2 workers": (2, 1), "4 workers": (4, 1), "2 MPI ranks": (0, 2)}  # workers, ranks
LAYOUTS = ("image-one", "volume-many", "image-many", "volume-one")
USUAL_LAYOUTS = LAYOUTS[:2]
IMAGES_PER_FILE = 16
YOUNG_S = 4  # a file that changed later than so long ago is not cached
MIB = float(1 << 20)


class CannotRun(Exception):
    """What keeps the example from its work."""


@dataclass
class Case:
    """One way to read one data set, and what came of it on each side."""

    layout: str
    way: str
    data_bytes: int
    epochs: dict[str, list[dict]] = field(default_factory=dict)
    seen_bytes: dict[str, int] = field(default_factory=dict)
    seen_reads: dict[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        model, files = self.layout.split("-")
        return f"{model}s, {files} file{'s' if files == 'many' else ''}, {self.way}"


def training_python() -> str:
    """The Python with PyTorch that tools/setup examples makes."""
    found = os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON")
    if not found:
        raise CannotRun("there is no Python with PyTorch: run tools/setup examples, and this through tools/env")
    return found


def make_data(options: argparse.Namespace, layouts: list[str], folder: Path) -> dict[str, int]:
    """Makes the data sets; returns the bytes of the samples of each."""
    sizes = {}
    for layout in layouts:
        model, files = layout.split("-")
        samples = options.images if model == "image" else options.volumes
        words = ["--model", model, "--samples", samples, "--edge", options.edge, "--out", folder / data_name(layout)]
        if files == "many":
            words += ["--files", samples if model == "volume" else max(1, samples // IMAGES_PER_FILE)]
        subprocess.run([sys.executable, HERE / "make_data.py", *map(str, words)], env=native_environment(), check=True)
        sizes[layout] = samples * (224 * 224 * 3 if model == "image" else options.edge**3 * 4 * 2)
    return sizes


def data_name(layout: str) -> str:
    return layout if layout.endswith("many") else f"{layout}.h5"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def train(case: Case, side: str, data: Path, area: Path, options: argparse.Namespace, console: Console) -> None:
    """Runs the training once and keeps what it told of its epochs."""
    workers, ranks = WAYS[case.way]
    environment = native_environment()
    if side == "forebay":
        environment = cached_environment(plugins(), area, area / "statistics.jsonl")
    command = [training_python(), HERE / "train.py", "--model", case.layout.split("-")[0], "--data", data]
    command += ["--epochs", options.epochs, "--workers", workers]
    if ranks > 1:
        launcher = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
        if launcher is None:
            raise CannotRun("there is no mpiexec")
        command = [launcher, "-n", ranks, *command]
        environment["MASTER_PORT"] = str(free_port())
    told = case.epochs.setdefault(side, [])
    with subprocess.Popen(
        list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                told.append(json.loads(line))
                show_epoch(case, side, told[-1], console)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode != 0 or len(told) != options.epochs:
        raise CannotRun(f"the training ended with {process.returncode}: {case.title}, {side}")


def show_epoch(case: Case, side: str, epoch: dict, console: Console) -> None:
    console.print(
        f"{case.title:>34}, {side:>7}, epoch {epoch['epoch']}: {epoch['seconds']:6.2f} s, "
        f"{epoch['samples'] / epoch['seconds']:6.1f} samples/s, of that {epoch['waited_s']:6.2f} s waiting for data",
        highlight=False,
    )


def plugins() -> Path:
    build = Path(os.environ.get("FOREBAY_BUILD_DIR") or ROOT / "build" / "release")
    if not list((build / "plugins").glob("libforebay*.so*")):
        raise CannotRun(f"there is no forebay plugin in {build / 'plugins'}: build it with 'make build'")
    return build / "plugins"


def run_cases(options: argparse.Namespace, layouts: list[str], scratch: Path, console: Console) -> list[Case]:
    """All cases, native first, on one mount."""
    cases = []
    slow = SlowFS(scratch / "backing", scratch / "slow", bandwidth=options.bandwidth, latency=options.latency)
    (scratch / "backing").mkdir()
    console.print(f"Making the data: {', '.join(layouts)} …")
    sizes = make_data(options, layouts, scratch / "backing")
    time.sleep(YOUNG_S)
    with slow:
        for layout in layouts:
            for way in options.ways:
                case = Case(layout, way, sizes[layout])
                for side in SIDES:
                    area = scratch / "staging"
                    shutil.rmtree(area, ignore_errors=True)
                    area.mkdir()
                    slow.reset()
                    train(case, side, slow / data_name(layout), area, options, console)
                    read = slow.stats()["operations"]["read"]
                    case.seen_bytes[side], case.seen_reads[side] = read["bytes"], read["count"]
                values = [[epoch["values"] for epoch in case.epochs[side]] for side in SIDES]
                if values[0] != values[1]:
                    raise CannotRun(f"the two sides have read different samples: {case.title}")
                cases.append(case)
    return cases


def later_s(case: Case, side: str) -> float:
    """Median of the seconds of all epochs but the first; of the first if there is no other."""
    seconds = [epoch["seconds"] for epoch in case.epochs[side]]
    return statistics.median(seconds[1:] or seconds)


def print_table(cases: list[Case], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("what runs", no_wrap=True)
    table.add_column("")
    for column in ("epoch 1, s", "samples/s", "later epochs, s", "samples/s", "waiting, s", "file system"):
        table.add_column(column, justify="right")
    for case in cases:
        for side in SIDES:
            first, samples = case.epochs[side][0], case.epochs[side][0]["samples"]
            waited = statistics.median([epoch["waited_s"] for epoch in case.epochs[side]][1:] or [first["waited_s"]])
            table.add_row(
                case.title if side == "native" else "",
                side,
                f"{first['seconds']:.2f}",
                f"{samples / first['seconds']:.0f}",
                f"{later_s(case, side):.2f}",
                f"{samples / later_s(case, side):.0f}",
                f"{waited:.2f}",
                f"{case.seen_bytes[side] / case.data_bytes:.2f} ×",
            )
    console.print(table)
    console.print(
        "Later epochs, and waiting for data: medians of all epochs but the first. Single runs. File system: what it "
        "delivered, as a multiple of the data set.",
        highlight=False,
    )


def draw(cases: list[Case], options: argparse.Namespace, path: Path) -> None:
    """The seconds of each epoch, one panel for each case."""
    columns = len(options.ways)
    rows = -(-len(cases) // columns)
    with plt.rc_context({"font.family": "DejaVu Sans", "font.size": 9}):
        figure, panels = plt.subplots(
            rows, columns, figsize=(2.9 * columns + 0.4, 2.3 * rows + 1.0), squeeze=False, sharey="row"
        )
        for panel, case in zip(panels.flat, cases, strict=False):
            for number, side in enumerate(SIDES):
                places = [epoch["epoch"] + (number - 0.5) * 0.4 for epoch in case.epochs[side]]
                bars = {"width": 0.38, "color": COLOURS[side]}
                panel.bar(places, [epoch["seconds"] for epoch in case.epochs[side]], alpha=0.45, **bars)
                panel.bar(places, [epoch["waited_s"] for epoch in case.epochs[side]], label=side, **bars)
            panel.set_title(case.title, fontsize=9)
            panel.set_xticks(range(1, options.epochs + 1))
            for edge in ("top", "right"):
                panel.spines[edge].set_visible(False)
        for row in panels:
            row[0].set_ylabel("seconds of an epoch")
            row[0].set_ylim(top=1.2 * row[0].get_ylim()[1])  # room for the legend
        for panel in panels[-1]:
            panel.set_xlabel("epoch")
        panels[0][0].legend(frameon=False, loc="upper right", ncols=2)
        figure.suptitle(
            f"The same PyTorch training, natively and with forebay (dark: waiting for data); file system of "
            f"{options.bandwidth}, {options.latency} per operation",
            fontsize=10,
        )
        figure.tight_layout()
        figure.savefig(path, dpi=130)
        plt.close(figure)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--volumes", type=int, default=96)
    parser.add_argument("--edge", type=int, default=64, help="of a volume; CosmoFlow's have 128")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--all", action="store_true", help="both models in both layouts")
    parser.add_argument("--only", choices=LAYOUTS, action="append", help="only this; may be given several times")
    parser.add_argument("--ways", choices=list(WAYS), nargs="*", default=list(WAYS), help="which processes read")
    parser.add_argument("--bandwidth", default="200MiB/s", help="of the slow file system")
    parser.add_argument("--latency", default="0.5ms", help="of each of its operations")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "examples")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    layouts = options.only or list(LAYOUTS if options.all else USUAL_LAYOUTS)
    console = Console() if sys.stdout.isatty() else Console(width=130)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    scratch = Path(tempfile.mkdtemp(prefix="forebay-examples-"))
    try:
        usable, reason = available()
        if not usable:
            raise CannotRun(f"the slow file system cannot be used: {reason}")
        training_python()
        plugins()
        cases = run_cases(options, layouts, scratch, console)
    except (CannotRun, SlowFSError, subprocess.CalledProcessError, OSError) as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    options.output.mkdir(parents=True, exist_ok=True)
    print_table(cases, console)
    facts = {"bandwidth": options.bandwidth, "latency": options.latency, "processors": os.cpu_count()}
    result = facts | {"cases": [vars(case) for case in cases]}
    (options.output / "training.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(cases, options, options.output / "training.png")
    console.print(f"Figure: {options.output / 'training.png'}   All figures: {options.output / 'training.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
