"""The sections of the page, in its order."""

from __future__ import annotations

from collections.abc import Callable

import kernel_cases
from cases import Setting
from cells import Section
from conformance import conformance
from from_bench import bench_section, dlio, patterns
from growth import growth
from layouts import layouts
from reading_sections import alexnet, cosmoflow, streaming
from writing_sections import amrex, compute_sweep, e3sm, hacc, qmcpack, write_rate

# Each takes the setting, and whether sizes are to be small.
SECTIONS: dict[str, Callable[[Setting, bool], Section]] = {
    "layouts": layouts,
    "hacc": hacc,
    "qmcpack": qmcpack,
    "amrex": amrex,
    "e3sm": e3sm,
    "compute_sweep": compute_sweep,
    "write_rate": write_rate,
    "vpic_io": bench_section(
        kernel_cases.vpic_io,
        "After figure 4 of the Cache VOL paper: eight properties of each particle, computing after each step.",
    ),
    "streaming": streaming,
    "alexnet": alexnet,
    "cosmoflow": cosmoflow,
    "ffbench": bench_section(
        kernel_cases.ffbench,
        "After the Compactor paper: time (figure 9) and writes (10) of collective buffering, morphing (11), "
        "stealing (12) and its shares of time (13).",
    ),
    "flash_io": bench_section(
        kernel_cases.flash_io,
        "After the Compactor paper: checkpoint (figure 14) and its writes (15), plot files with corners (16) and "
        "without (17).",
    ),
    "interleaved": bench_section(
        kernel_cases.interleaved,
        "After figure 6 of the Compactor paper: pieces of all ranks in turns, independently and collectively.",
    ),
    "patterns": patterns,
    "growth": growth,
    "dlio": dlio,
    "conformance": conformance,
}
