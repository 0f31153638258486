"""``forebay.pause`` and ``forebay.resume``: leave the files that are opened in between to native HDF5."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from forebay.plugin import ForebayError, Plugin, loaded_plugins, require_plugins


def pause() -> None:
    """Leaves the files that the process opens from now on to native HDF5: they are neither staged nor cached.

    Open files keep their mode, also if they are opened again. Pauses nest: each needs one `resume`. All threads share
    them. The statistics count such files with the reason ``paused``.

    Imports h5py, unless an HDF5 has loaded the plugin already. Raises NotEnabled without the plugin.
    """
    for plugin in _plugins():
        plugin.pause()


def resume() -> None:
    """Ends one `pause`. Raises ForebayError if forebay is not paused, NotEnabled without the plugin."""
    if all([plugin.resume() for plugin in _plugins()]):
        raise ForebayError("forebay is not paused in this process")


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """``with forebay.paused():`` calls `pause` before the block, and `resume` after it."""
    pause()
    try:
        yield
    finally:
        resume()


def _plugins() -> list[Plugin]:
    if not loaded_plugins():
        with contextlib.suppress(ImportError):
            import h5py  # noqa: F401  # HDF5 starts, and loads the plugin that the environment names
    return [plugin for plugin in require_plugins() if not plugin.is_copy]
