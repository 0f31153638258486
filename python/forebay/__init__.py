"""forebay: node-local staging and a read cache in front of a slow file system, for unmodified HDF5 programs.

Programs need only ``HDF5_VOL_CONNECTOR=forebay`` in their environment. A program that wants more control calls
`enable`, and announces its reads to the cache with `prefetch`, `follow`, and for PyTorch
`forebay.torch.FollowingSampler`. `stats` returns counters, and `wait` blocks until files have all staged bytes. See
docs/python.md.

The package also holds the demo, its plots, and the slow file system of the measurements.
"""

from __future__ import annotations

from forebay import torch
from forebay.byte_ranges import ByteRanges
from forebay.enabling import enable, is_enabled, staging
from forebay.following import epoch_order, follow
from forebay.hdf5_library import CannotEnable
from forebay.installation import NotInstalled, plugin_path
from forebay.loading import HDF5Rows, batches
from forebay.option_values import WrongOption
from forebay.options import Options
from forebay.pausing import pause, paused, resume
from forebay.plugin import ForebayError, NotEnabled
from forebay.prefetching import Prefetch, prefetch
from forebay.statistics import Statistics, stats
from forebay.waiting import WaitFailed, wait

__version__ = "0.1.0"

PLUGIN_PATH = plugin_path()  # the folder with the plugin, for HDF5_PLUGIN_PATH

# `torch` is missing here, because a star import would hide PyTorch.
__all__ = [
    "ByteRanges",
    "CannotEnable",
    "ForebayError",
    "HDF5Rows",
    "NotEnabled",
    "NotInstalled",
    "Options",
    "PLUGIN_PATH",
    "Prefetch",
    "Statistics",
    "WaitFailed",
    "WrongOption",
    "__version__",
    "batches",
    "enable",
    "epoch_order",
    "follow",
    "is_enabled",
    "pause",
    "paused",
    "prefetch",
    "resume",
    "staging",
    "stats",
    "wait",
]
