"""Each kernel of the evaluation finds a single wrong byte, and one runs from end to end onto a page."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import ROOT, native
from parallel_environment import BUILD, launch

from forebay.slowfs import available

sys.path[:0] = [str(ROOT / "evaluation"), str(ROOT / "bench")]
import growth
import page
from cases import Setting
from runs import Places

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("FOREBAY_HDF5_PARALLEL") != "ON", reason="this HDF5 is not parallel"),
]

RANKS = 2
SECONDS_MAX = 120
# A kernel with small sizes, the suffix of its first file, and a contiguous dataset in it.
KERNELS = {
    "amrex_io": (["--dumps", "1", "--cells", "4", "--boxes", "2"], ".00000", "level_0/data:datatype=0"),
    "e3sm_io": (["--cells", "64", "--levels", "3", "--flat", "2", "--deep", "2"], "", "variable003"),
    "ffbench": (["--rows", "4", "--columns", "512"], "", "matrix"),
    "flash_io": (["--blocks", "2"], "", "un23"),
    "hacc_io": (["--particles", "100", "--empty", "0"], "", "variables/vy"),
    "interleaved": (["--cells", "4"], "", "cells"),
    "layouts": (["--count", "1"], ".000", "array_1/part_1"),
    "qmcpack_restart": (["--walkers", "2", "--electrons", "4"], "", "state_0/walkers"),
    "vpic_io": (["--particles", "100", "--steps", "1"], "", "Timestep_0/id2"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_finds_one_wrong_byte(name, tmp_path):
    import h5py

    arguments, suffix, dataset = KERNELS[name]
    command = [BUILD / "bench" / name, "--file", tmp_path / "data.h5", *arguments]

    def verify() -> tuple[int, dict]:
        done = launch([*command, "--verify"], native(), tmp_path, RANKS, SECONDS_MAX)
        return done.returncode, json.loads(done.stdout.splitlines()[0])

    done = launch(command, native(), tmp_path, RANKS, SECONDS_MAX)
    assert done.returncode == 0, done.told()
    code, told = verify()
    assert code == 0 and told["wrong"] == 0 and told["compared"] > 0
    path = tmp_path / f"data.h5{suffix}"
    with h5py.File(path) as file:
        at = file[dataset].id.get_offset() + file[dataset].id.get_storage_size() - 1
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    code, told = verify()
    assert code != 0 and told["wrong"] == 1


def test_the_smallest_kernel_runs_from_end_to_end(tmp_path):
    usable, reason = available()
    if not usable:
        pytest.skip(f"slowfs cannot be used: {reason}")
    command = [ROOT / "evaluation" / "run", "--quick", "--only", "hacc", "--output", tmp_path / "page"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("hacc: 0 wrong bytes, 3 cells, 0 failed")
    text = (tmp_path / "page" / "index.md").read_text()
    assert text.startswith("# Evaluation\n\n**0 wrong bytes**")
    assert text.count("MiB staged") == 3


def test_growth_is_measured_along_each_axis(tmp_path):
    folders = {name: tmp_path / name for name in ("target", "staging")}
    for folder in folders.values():
        folder.mkdir()
    places = Places(BUILD / "bench", Path(os.environ["FOREBAY_PLUGIN_DIR"]), None, **folders)
    sizes = {name: (70, 140) if name == "extents in the index" else (2, 4) for name in growth.AXES}
    sizes |= {"replicas": (100, 110), "units of a replica": (4, 8)}
    section = growth.growth(Setting(places, 1, 0, 0, lambda text: None, tmp_path / "page"), True, sizes)
    assert [one.failures for one in section.failed] == []
    named = [table[0][0] for table in section.tables]
    reasons = [note.split(":")[0] for note in section.notes]  # of axes that this machine cannot measure
    assert sorted([*named, *reasons]) == sorted(growth.AXES) and "files, one at a time" in named
    for table in section.tables:
        assert len(table) > 2 and all(len(row) == len(table[0]) for row in table)
    compared = {one.name: one.compared_bytes for one in section.outcomes}
    assert compared["files, one at a time"] == 2 * (2 + 4) * 4096 and compared["scattered writes"] == 2 * (2 + 4) * 64
    assert not any(folders["staging"].iterdir()) and not any(folders["target"].iterdir())
    assert "÷ native" in page.markdown(tmp_path / "page", "run", {}, [section])
