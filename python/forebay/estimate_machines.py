"""Machines that ``forebay estimate --preset`` knows, each figure with its source.

A source that begins with "fitted" is a figure of this model, made to reproduce one published number; an estimate must
not be compared with that number again. "bound" is a limit that is surely not exceeded, in place of a figure that was
not found. A figure without a source is not known, and is 0.

[CCGrid] is "HDF5 Cache VOL: Efficient and Scalable Parallel I/O through Caching Data on Node-local Storage", CCGrid
2022. [OLCF] and [ALCF] are the facilities' user guides, docs.olcf.ornl.gov and docs.alcf.anl.gov.
"""

from __future__ import annotations

from forebay.estimate_model import MIB, Machine

GB = 1e9
TB = 1e12

# [CCGrid], table II: 8 nodes write 128 processes x 8 x 16 MiB, 32 times, in 112.35 s.
_THETA_NODE = 524_288 * MIB / 112.35 / 8
# [CCGrid], table III, third iteration, 4 nodes: (c) in order; (b) in order; (b) at random.
_THETA_LOCAL_READ = 7341.70 * MIB / 4
_THETA_MEMORY = 95_646.93 * MIB / 4
_THETA_AT_RANDOM = 13_588.03 * MIB / 4
# At random a node copies a quarter of the data from its memory, and gets three quarters over the network.
_THETA_NETWORK = 0.75 / (1 / _THETA_AT_RANDOM - 0.25 / _THETA_MEMORY)

_MACHINES = (
    Machine(
        "summit",
        local_write=2.1 * GB,
        local_read=5.5 * GB,
        fs_node=12 * GB,
        fs_total=256 * GB,
        network=23 * GB,
        sources={
            "local_write": "[OLCF] systems/summit_user_guide: NVMe, peak of a node",
            "local_read": "[OLCF] systems/summit_user_guide: NVMe, peak of a node",
            "fs_node": "[CCGrid] V.B: 12 GB/s of GPFS per node",
            "fs_total": "fitted to the crossing of [CCGrid] figure 4(a), 128 nodes x 2 GB/s; GPFS in all has 2.5 TB/s",
            "network": "[OLCF] systems/summit_user_guide: injection of a node",
        },
    ),
    Machine(
        "theta",
        local_write=4420 * MIB / 8,
        local_read=_THETA_LOCAL_READ,
        fs_node=_THETA_NODE,
        fs_total=100 * GB,
        network=_THETA_NETWORK,
        memory=_THETA_MEMORY,
        contention=0.49,
        sources={
            "local_write": "[CCGrid] table II: 4420 MiB/s of 8 nodes",
            "local_read": "fitted to [CCGrid] table III (c), in order, iteration 3",
            "fs_node": "[CCGrid] table II: 112.35 s without the connector",
            "fs_total": "[CCGrid] V.B: the baseline saturates at about 100 GB/s; Lustre in all has 650 GB/s",
            "network": "fitted to [CCGrid] table III (b), at random, iteration 3",
            "memory": "fitted to [CCGrid] table III (b), in order, iteration 3",
            "contention": "fitted to [CCGrid] table II, compute time 0",
        },
    ),
    Machine(
        "thetagpu",
        local_write=0.0,
        local_read=3287.66 * MIB,
        fs_node=1873.59 * MIB,
        fs_total=650 * GB,
        sources={
            "local_read": "fitted to [CCGrid] table III (a), in order, iteration 3",
            "fs_node": "[CCGrid] table III (a), baseline in order, iteration 4",
            "fs_total": "[CCGrid] IV: Eagle, aggregate",
        },
    ),
    Machine(
        "frontier",
        local_write=4.0 * GB,
        local_read=7.6 * GB,
        fs_node=25 * GB,
        fs_total=4.6 * TB,
        network=100 * GB,
        sources={
            "local_write": "[OLCF] systems/frontier_user_guide: two drives of 2000 MB/s",
            "local_read": "OLCF's announcement of Orion, May 2021: 75 TB/s of all nodes, by the 9,856 of [OLCF]",
            "fs_node": "bound: one of four Slingshot ports, [OLCF] systems/frontier_user_guide",
            "fs_total": "[OLCF] data/index: Orion's hard-disk tier, write; one shared file may get less",
            "network": "[OLCF] systems/frontier_user_guide: injection of a node",
        },
    ),
    Machine(
        "polaris",
        local_write=6.6 * GB,
        local_read=6.6 * GB,
        fs_node=25 * GB,
        fs_total=650 * GB,
        network=50 * GB,
        sources={
            "local_write": "[ALCF] filesystem-and-storage, polaris: two drives of 3300 MB/s as RAID 0",
            "local_read": "[ALCF] filesystem-and-storage, polaris: two drives of 3300 MB/s as RAID 0",
            "fs_node": "bound: one of two Slingshot 11 ports of 25 GB/s",
            "fs_total": "[ALCF] filesystem-and-storage: Eagle; one shared file may get less",
            "network": "bound: two Slingshot 11 ports of 25 GB/s",
        },
    ),
    # 1.6 TB of NVMe for 16 nodes ([CCGrid] table I), 87 GiB of it for each node (RIKEN's user guide). Public pages give
    # the bandwidth of neither layer.
    Machine(
        "fugaku",
        local_write=0.0,
        local_read=0.0,
        fs_node=0.0,
        fs_total=0.0,
        network=7.0 * GB,
        sources={"network": "RIKEN, About Fugaku: one Tofu port, 28 Gbit/s x 2 lanes"},
    ),
)

PRESETS = {machine.name: machine for machine in _MACHINES}
