"""The HDF5 library of an imported h5py, called through ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

from forebay.plugin import ForebayError

ALTERNATIVES = "start the program with 'forebay run -- python …', or call forebay.enable() before 'import h5py'"
_OLDEST = (1, 14, 0)


class CannotEnable(ForebayError):
    """forebay cannot be switched on in this process. The message tells the user what to do."""


class HDF5Library:
    """Calls functions of HDF5 that h5py does not offer. Any thread may call it; it holds h5py's own lock meanwhile."""

    def __init__(self, h5py: Any) -> None:
        """Raises CannotEnable for an HDF5 before 1.14.0."""
        self.h5py = h5py
        version = h5py.version.hdf5_version_tuple
        if tuple(version) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise CannotEnable(f"this h5py has HDF5 {h5py.version.hdf5_version}; forebay needs {oldest} or later")
        # The look-up includes the libraries that this module is linked with: h5py's own HDF5, and no other.
        self._library = ctypes.CDLL(h5py.h5p.__file__)

    def call(self, name: str, *arguments: Any, result: Any = ctypes.c_int64) -> Any:
        """Returns the function's result, as this type of ctypes. Raises CannotEnable if HDF5 does not export it."""
        try:
            function = self._library[name]
        except AttributeError:
            raise CannotEnable(f"the HDF5 of this h5py does not export {name}: {ALTERNATIVES}") from None
        function.restype = result
        with self.h5py._objects.phil:  # h5py's own lock around every call of HDF5
            return function(*arguments)

    def default_connector_is(self, name: str) -> bool:
        """Returns True if HDF5 opens files with this connector by default."""
        registered = self.call("H5VLis_connector_registered_by_name", name.encode(), result=ctypes.c_int)
        if registered <= 0:
            return False
        access = self.h5py.h5p.create(self.h5py.h5p.FILE_ACCESS)
        default = ctypes.c_int64(-1)
        wanted = self.call("H5VLget_connector_id_by_name", name.encode())
        self.call("H5Pget_vol_id", ctypes.c_int64(access.id), ctypes.byref(default), result=ctypes.c_int)
        difference = ctypes.c_int(-1)
        ids = (ctypes.c_int64(wanted), default)
        compared = self.call("H5VLcmp_connector_cls", ctypes.byref(difference), *ids, result=ctypes.c_int)
        for one in ids:
            self.call("H5VLclose", one, result=ctypes.c_int)
        return compared >= 0 and difference.value == 0
