"""``forebay.enable``: switches forebay on for this process and for those that it starts.

HDF5 reads HDF5_VOL_CONNECTOR once, at its start, which is at ``import h5py``. Before that, environment variables are
enough. Later HDF5 has no call that changes its default connector. Then `enable` registers forebay with h5py's HDF5, and
adds it to the file access list of every file that `h5py.File` opens from then on.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebay.hdf5_library import ALTERNATIVES, CannotEnable, HDF5Library
from forebay.installation import has_plugin, plugin_places
from forebay.option_values import texts_of
from forebay.options import AnyPath, Options
from forebay.plugin import NotEnabled, loaded_plugins

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of typing since Python 3.11

CONNECTOR = "forebay"
CONNECTOR_VARIABLE, PLUGIN_VARIABLE = "HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH"
_HDF5_OWN_FOLDER = "/usr/local/hdf5/lib/plugin"  # HDF5's default folder; the variable replaces it


def is_enabled() -> bool:
    """Returns True if forebay's plugin is loaded in this process."""
    return bool(loaded_plugins())


def enable(nls: AnyPath | None = None, **options: Unpack[Options]) -> None:
    """Switches forebay on for this process and for the processes that it starts.

    `nls` is a directory on node-local storage, or several, as in the option of that name; with None forebay chooses. A
    path object is one directory. The other options are those of docs/options.md, without their prefix:
    ``enable("/local", read_cache_size="64GiB")``. Sizes are strings with a unit, or numbers of bytes. Options take
    effect at the first file that the process opens through forebay.

    Call it before the first ``import h5py``. A later call affects only files that `h5py.File` opens from then on. Open
    files stay native, and so do the files of other loaded HDF5 libraries, such as that of PyTables.

    Raises WrongOption, a ValueError, for an unknown option, an invalid value, or a missing directory; then it changes
    nothing. Raises CannotEnable if another connector is set, the plugin is missing, h5py has an HDF5 before 1.14.0, or
    options come too late.
    """
    values = texts_of(options if nls is None else {**options, "nls": nls})
    connector = os.environ.get(CONNECTOR_VARIABLE) or CONNECTOR
    name, _, info = connector.partition(" ")
    if name != CONNECTOR:
        raise CannotEnable(f"{CONNECTOR_VARIABLE} names another connector, '{name}': unset it first")
    folder = plugin_folder()
    h5py = sys.modules.get("h5py")
    library = HDF5Library(h5py) if h5py is not None else None
    is_default = library is not None and library.default_connector_is(CONNECTOR)
    if any(_given.get(option) != value for option, value in values.items()):
        _check_that_options_still_count()
    _given.update(values)

    given_info = info.strip()
    if given_info:  # it beats the environment, so the new options must be in it as well
        given_info = ";".join([given_info, *(f"{option}={_quoted(value)}" for option, value in values.items())])
    if library is not None and (not is_default or given_info != info.strip()):
        _use_for_files(library, given_info, folder)
    os.environ.update({_variable(option): value for option, value in values.items()})
    os.environ[CONNECTOR_VARIABLE] = f"{CONNECTOR} {given_info}".strip()
    os.environ[PLUGIN_VARIABLE] = _plugin_path(folder)


@contextlib.contextmanager
def staging(nls: AnyPath | None = None, **options: Unpack[Options]) -> Iterator[None]:
    """Switches forebay on for a block: ``with forebay.staging("/local"):``.

    It affects files that `h5py.File` opens in the block, and processes that start in it. Files of other libraries stay
    native. Arguments and errors are those of `enable`.

    The program closes its files itself, in the block or later. After the close the bytes are in the file, unless an
    option defers that. If forebay is on already, it stays on after the block. All threads share the switch.
    """
    import h5py  # noqa: F401  # HDF5 starts natively, so files outside of the block stay native

    names = {CONNECTOR_VARIABLE, PLUGIN_VARIABLE, *map(_variable, (*options, "nls"))}
    environment, late_info = {name: os.environ.get(name) for name in names}, dict(_late_info)
    try:
        enable(nls, **options)
        yield
    finally:
        _late_info.clear()
        _late_info.update(late_info)
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def plugin_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder with forebay's plugin. Raises CannotEnable if there is none.

    The candidates are the folders of HDF5_PLUGIN_PATH, this package's own, the build beside it, and that of the
    ``forebay`` command on the PATH.
    """
    places = [Path(folder) for folder in environment.get(PLUGIN_VARIABLE, "").split(":") if folder]
    places += plugin_places(environment)
    command = shutil.which("forebay", path=environment.get("PATH"))
    if command is not None:
        prefix = Path(command).resolve().parent.parent
        places += [prefix / "plugins", *prefix.glob("lib/**/hdf5/plugin"), *prefix.glob("lib64/hdf5/plugin")]
    for place in places:
        if has_plugin(place):
            return place.absolute()
    looked = ", ".join(map(str, dict.fromkeys(places)))
    raise CannotEnable(f"forebay's plugin is in none of {looked}: build it with 'make build', or install forebay")


def _check_that_options_still_count() -> None:
    try:
        opened = sum(plugin.statistics().get("files_opened", 0) for plugin in loaded_plugins())
    except NotEnabled:
        return  # the plugin does not tell
    if opened:
        raise CannotEnable(
            f"the process has already opened {opened} file{'s' if opened > 1 else ''} through forebay, and the "
            f"options of "
            "the first file hold for all: give options before that"
        )


def _variable(option: str) -> str:
    return f"FOREBAY_{option.upper()}"


def _quoted(value: str) -> str:
    return f"{{{value}}}" if any(mark in value for mark in ";{}") or value != value.strip() else value


def _plugin_path(folder: Path) -> str:
    """Returns the path with this folder first, as `forebay run` sets it."""
    present = os.environ.get(PLUGIN_VARIABLE) or (_HDF5_OWN_FOLDER if os.path.isdir(_HDF5_OWN_FOLDER) else "")
    if f"{present}:".startswith(f"{folder}:"):
        return present
    return f"{folder}:{present}" if present else str(folder)


# The connector and info that the wrapped `make_fapl` sets; empty: none.
_late_info: dict[str, Any] = {}
_given: dict[str, str] = {}  # all options that `enable` received so far


def _use_for_files(library: HDF5Library, info: str, folder: Path) -> None:
    """Makes h5py.File open files with forebay from now on."""
    files: Any = sys.modules.get("h5py._hl.files")
    if not hasattr(files, "make_fapl"):
        raise CannotEnable(f"this h5py creates file access lists in an unknown way: {ALTERNATIVES}")
    library.h5py.h5pl.prepend(os.fsencode(folder))
    connector = library.call("H5VLregister_connector_by_name", CONNECTOR.encode(), ctypes.c_int64(0))
    if connector < 0:
        raise CannotEnable(f"HDF5 does not load the plugin in {folder}: {ALTERNATIVES}")
    value = ctypes.c_void_p()
    made = library.call(
        "H5VLconnector_str_to_info", info.encode(), ctypes.c_int64(connector), ctypes.byref(value), result=ctypes.c_int
    )
    if made < 0:
        raise CannotEnable(f"forebay does not understand its connector string '{info}'")
    _late_info.update(connector=connector, value=value)
    if not hasattr(files.make_fapl, "__wrapped__"):
        _wrap(library, files)


def _wrap(library: HDF5Library, files: Any) -> None:
    make = files.make_fapl

    @functools.wraps(make)
    def make_fapl(*arguments: Any, **named: Any) -> Any:
        access = make(*arguments, **named)
        if _late_info:
            connector, value = ctypes.c_int64(_late_info["connector"]), _late_info["value"]
            if library.call("H5Pset_vol", ctypes.c_int64(access.id), connector, value, result=ctypes.c_int) < 0:
                raise CannotEnable(f"HDF5 cannot set forebay in a file access list: {ALTERNATIVES}")
        return access

    files.make_fapl = make_fapl
