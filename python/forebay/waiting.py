"""``forebay.wait``: blocks until files have all their staged bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from forebay.file_operations import call_for_file
from forebay.installation import command
from forebay.plugin import ForebayError

_FILE_WAIT_DURABLE = "forebay.file.wait_durable"  # include/forebay/operations.h


class WaitFailed(ForebayError):
    """A file lacks bytes, and waiting does not help. The message gives the reason."""


def wait(*files: Any, timeout: float | None = None, sync: bool = True) -> bool:
    """Waits until the files have all bytes that were staged so far, at most `timeout` seconds (None: no limit).

    Each argument is an open h5py.File, which `wait` first flushes, or a path. With `sync` it then also syncs the files
    to their device. An open file is always synced, and ignores the timeout: h5py makes no other call meanwhile.

    Returns False if the time is up. Raises WaitFailed if a process died and left bytes behind, if one cannot write, if
    the state is unknown, or for the path of a file that h5py has open for writing here: only a flush or a close drains
    its last bytes. Also raises FileNotFoundError for a path that does not exist; NotInstalled without the command
    `forebay`; NotEnabled for an open file without the plugin; OSError if an open file's drain failed.
    """
    paths = []
    for file in files:
        if isinstance(file, (str, bytes, os.PathLike)):
            paths.append(os.path.abspath(os.fsdecode(file)))
            if _is_written_here(os.stat(paths[-1])):
                raise WaitFailed(f"{paths[-1]} is open for writing in this process: pass the h5py.File, or close it")
        else:
            file.flush()
            call_for_file(_FILE_WAIT_DURABLE, file, None)
    return _wait_for(paths, timeout, sync) if paths else True


def _is_written_here(file: os.stat_result) -> bool:
    """Returns True if h5py has this file open for writing in this process."""
    h5f: Any = sys.modules.get("h5py.h5f")
    for one in [] if h5f is None else h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE):
        try:
            writes = one.get_intent() & h5f.ACC_RDWR
            if writes and os.path.samestat(os.stat(h5f.get_name(one)), file):
                return True
        except OSError:  # the name belongs to no file any more
            continue
    return False


def _wait_for(paths: list[str], timeout: float | None, sync: bool) -> bool:
    arguments = [str(command()), "wait", "--quiet", *([] if sync else ["--no-sync"]), "--", *paths]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode != 0:
        raise WaitFailed(done.stderr.strip() or f"forebay wait ended with status {done.returncode}")
    return True
