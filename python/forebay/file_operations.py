"""Calls forebay's operations on one open file. forebay registers them with HDF5, by name.

HDF5 passes such a call to the connector of the file, so it reaches the right copy of the plugin. Names and arguments
are those of include/forebay/operations.h.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from forebay.hdf5_library import HDF5Library
from forebay.plugin import NotEnabled

_SUBCLASS_FILE = 6  # H5VL_SUBCLS_FILE in H5VLpublic.h
_DEFAULT_LIST, _NO_EVENT_SET = 0, 0  # H5P_DEFAULT, H5ES_NONE
_STATUS = ctypes.c_int  # herr_t


class Text(ctypes.Structure):
    """``struct forebay_text``: the buffer for a text."""

    _fields_ = (("into", ctypes.c_char_p), ("size", ctypes.c_uint64), ("length", ctypes.POINTER(ctypes.c_uint64)))


class _Call(ctypes.Structure):
    """``H5VL_optional_args_t``."""

    _fields_ = (("op_type", ctypes.c_int), ("args", ctypes.c_void_p))


def call_for_file(name: str, file: Any, arguments: ctypes.Structure | None) -> None:
    """Calls an operation of an open h5py.File. Blocks as the operation does, and holds h5py's lock meanwhile.

    Raises NotEnabled if the process lacks forebay or opened the file without it, OSError if the operation fails.
    """
    library = HDF5Library(sys.modules["h5py"])
    value = ctypes.c_int(-1)
    if library.call("H5VLfind_opt_operation", _SUBCLASS_FILE, name.encode(), ctypes.byref(value), result=_STATUS) < 0:
        raise NotEnabled("forebay is not switched on in this process")
    call = _Call(value.value, None if arguments is None else ctypes.addressof(arguments))
    place = (__file__.encode(), b"call_for_file", 0)  # for HDF5's error stack
    defaults = (ctypes.c_int64(_DEFAULT_LIST), ctypes.c_int64(_NO_EVENT_SET))
    identifier = ctypes.c_int64(file.id.id)
    if library.call("H5VLfile_optional_op", *place, identifier, ctypes.byref(call), *defaults, result=_STATUS) < 0:
        raise OSError(
            f"forebay cannot do '{name}' for {file.filename}: the file was not opened with forebay, or its drain failed"
        )
