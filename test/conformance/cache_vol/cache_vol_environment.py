"""Runs programs with forebay in the place of Cache VOL: its plugin folder, its connector string, its variables."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integration"))

from connector_environment import ROOT, native, plugin_folder, statistics_file

STACK = "under_vol=512;under_info={under_vol=0;under_info={}}"  # Cache VOL on Async VOL on HDF5's own


def program(name: str) -> Path:
    """One of the programs beside this file."""
    build = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
    return build / "test" / f"cache_vol_{name}"


def cache_vol_plugin_folder() -> Path:
    return plugin_folder().with_name(plugin_folder().name + "-cache_ext")


def configuration(folder: Path, separator: str = ": ", **keys: str) -> Path:
    """A configuration file whose storage is a folder beside it."""
    storage = folder / "local-storage"
    storage.mkdir(parents=True, exist_ok=True)
    pairs = {
        "HDF5_CACHE_STORAGE_PATH": str(storage),
        "HDF5_CACHE_STORAGE_SIZE": "137438953472",
        "HDF5_CACHE_STORAGE_TYPE": "SSD",
        "HDF5_CACHE_STORAGE_SCOPE": "LOCAL",
        "HDF5_CACHE_WRITE_BUFFER_SIZE": "102457690",
        "HDF5_CACHE_REPLACEMENT_POLICY": "LRU",
        **keys,
    }
    path = folder / "SSD.cfg"
    path.write_text("".join(f"{key}{separator}{value}\n" for key, value in pairs.items()))
    return path


def with_cache_vol(folder: Path, text: str | None = None, **more: str) -> dict[str, str]:
    """The environment of a job script for Cache VOL; `text` is its connector string."""
    if text is None:
        text = f"config={configuration(folder)};{STACK}"
    return native(
        **{
            "HDF5_PLUGIN_PATH": str(cache_vol_plugin_folder()),
            "HDF5_VOL_CONNECTOR": f"cache_ext {text}",
            "FOREBAY_STATS": str(statistics_file(folder)),
            **more,
        }
    )
