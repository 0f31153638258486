#!/usr/bin/env python3
"""Runs DLIO, the benchmark of MLPerf Storage, over HDF5 files on a slow file system: how busy is the accelerator?

Three sides in one run: native; forebay, with read_cache=on; and `memory`, native, with the files in memory, where DLIO
waits for no file system. DLIO computes by sleeping. Its shapes are scaled down:

    tools/env bench/dlio.py                    both shapes
    tools/env bench/dlio.py --shapes unet3d    a sample of about 17 MiB in each of 40 files, batches of 4
    tools/env bench/dlio.py --computing 2      computes twice as long, where a few processors are all there is
    tools/env bench/dlio.py --python PYTHON    of a Python with PyTorch and h5py; FOREBAY_HDF5_EXAMPLES_PYTHON is usual

Prints the accelerator utilisation (AU) of the epochs from the second on, medians over epochs and repetitions, with the
lowest (bar for forebay: 98 %); the processor time of a run with its start; and the bytes that the file system
delivered. The first run installs DLIO below build/dlio (python/requirements-dlio.txt). Its tracer is replaced by one
that records nothing, and TensorFlow, which it imports and does not use, by an empty module.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from forebay.slowfs import SlowFS
from reading import CLOCK_BEHIND, environment_of

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "python" / "requirements-dlio.txt"
SIDES = ("native", "forebay", "memory")
BAR = 98.0
# The differences to DLIO's own shapes for a V100, which are those of MLPerf Storage. unet3d has an eighth of the bytes
# and of the computing time.
SHAPES = {
    "unet3d": {
        "dataset.num_files_train": 40,
        "dataset.record_length": 146600628 // 8,
        "dataset.record_length_stdev": 68341808 // 8,
        "dataset.record_length_resize": 2097152 // 8,
        "train.computation_time": 1.3604 / 8,
    },
    "cosmoflow": {"dataset.num_files_train": 128, "train.computation_time": 0.00936},
}
COMMON = {
    "framework": "pytorch",
    "dataset.format": "hdf5",
    "dataset.generation_buffer_size": 1,  # one sample
    "reader.data_loader": "pytorch",
    "workflow.checkpoint": False,
}
RUN = "from dlio_benchmark.main import main; main()"
TRACER = '''
"""In the place of DLIO's tracer: records nothing."""
DFTRACER_ENABLE = False
class dft_fn:
    def __init__(self, *_, **__): pass
    def log(self, function): return function
    log_init = log_static = log
    def iter(self, values, *_, **__): return values
    def update(self, *_, **__): pass
    flush = reset = update
    def __enter__(self): return self
    def __exit__(self, *_): pass
class dftracer: pass
'''


def installed(python: str) -> Path:
    """Returns a Python with DLIO and the packages of the given one. The first call makes it."""
    code = "import json, sysconfig, torch, h5py; print(json.dumps([sysconfig.get_path('purelib'), torch.__version__]))"
    beside, version = json.loads(subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True).stdout)
    venv, recipe = ROOT / "build" / "dlio" / version, REQUIREMENTS.read_text() + beside
    complete = venv / "complete"
    if not complete.exists() or complete.read_text() != recipe:
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([python, "-m", "venv", "--system-site-packages", venv], check=True)
        (packages,) = venv.glob("lib/python*/site-packages")
        (packages / "beside.pth").write_text(f"{beside}\n")
        pip = [venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "-r", REQUIREMENTS], check=True, stdout=sys.stderr)
        for name, text in {"dftracer/__init__": "", "dftracer/logger": TRACER, "tensorflow/__init__": ""}.items():
            (packages / name).parent.mkdir(exist_ok=True)
            (packages / f"{name}.py").write_text(text)
        complete.write_text(recipe)
    return venv / "bin" / "python"


def dlio(
    python: Path, shape: str, data: Path, output: Path, settings: dict, environment: dict[str, str]
) -> list[float]:
    """Runs DLIO. Returns the AU of each epoch in percent."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    settings = settings | {"dataset.data_folder": data, "output.folder": output}
    words = [f"++workload.{name}={value}" for name, value in settings.items()]
    done = subprocess.run(
        [python, "-c", RUN, f"workload={shape}_v100", f"hydra.run.dir={output}", *words],
        env=environment | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=output,
    )
    if done.returncode:
        sys.exit(f"DLIO ended with {done.returncode}:\n{done.stdout[-3000:]}")
    summary = output / "summary.json"
    return json.loads(summary.read_text())["metric"]["train_au_percentage"] if summary.exists() else []


def processor_s() -> float:
    """Returns the processor time of ended child programs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(shape: str, options: argparse.Namespace, folder: Path) -> None:
    settings = COMMON | SHAPES[shape] | {"reader.read_threads": options.workers, "train.epochs": options.epochs}
    settings["train.computation_time"] *= options.computing
    backing, output, area = folder / "backing" / shape, folder / "output", folder / "area"
    make = {"workflow.generate_data": True, "workflow.train": False}
    dlio(options.python, shape, backing, output, settings | make, environment_of("native", area))
    train = settings | {"workflow.generate_data": False, "workflow.train": True}
    files = list(backing.rglob("*.hdf5"))
    data_bytes = sum(path.stat().st_size for path in files)
    print(f"{shape}: {len(files)} files, {data_bytes / (1 << 20):.0f} MiB, {options.workers} workers", flush=True)
    au: dict[str, list[float]] = {side: [] for side in SIDES}
    seen: dict[str, list[float]] = {side: [] for side in SIDES}
    busy: dict[str, list[float]] = {side: [] for side in SIDES}
    with SlowFS(
        folder / "backing",
        folder / "mount",
        bandwidth=options.bandwidth,
        latency=options.latency,
        clock_behind=CLOCK_BEHIND,
    ) as file_system:
        for pair in range(options.pairs):
            for side in SIDES if pair % 2 == 0 else reversed(SIDES):
                shutil.rmtree(area, ignore_errors=True)
                area.mkdir()
                before = file_system.stats()["operations"]["read"]["bytes"]
                busy_before = processor_s()
                data = backing if side == "memory" else file_system / shape
                au[side] += dlio(options.python, shape, data, output, train, environment_of(side, area))[1:]
                busy[side].append(processor_s() - busy_before)
                seen[side].append((file_system.stats()["operations"]["read"]["bytes"] - before) / data_bytes)
    for side in SIDES:
        middle = statistics.median(au[side])
        line = f"    {side:8} AU {middle:5.1f} %, lowest {min(au[side]):5.1f} %"
        line += f"; {statistics.median(busy[side]):.1f} s of a processor"
        if side != "memory":
            line += f"; the file system delivered {statistics.median(seen[side]):.2f} x the data"
        if side == "forebay":
            line += f"; bar {BAR:.0f} %: {'met' if middle >= BAR else 'missed'}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--computing", type=float, default=1, help="times as long")
    parser.add_argument("--bandwidth", default="200MiB/s")
    parser.add_argument("--latency", default="0.5ms")
    parser.add_argument("--python", default=os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON", sys.executable))
    options = parser.parse_args()
    options.python = installed(options.python)
    folder = Path(tempfile.mkdtemp(prefix="forebay-dlio-", dir="/dev/shm"))
    try:
        for shape in options.shapes:
            measure(shape, options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
