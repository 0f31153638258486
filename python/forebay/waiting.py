"""``forebay.wait``: until files hold everything that was staged of them."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from forebay.file_operations import call_for_file
from forebay.installation import command
from forebay.plugin import ForebayError

_FILE_WAIT_DURABLE = "forebay.file.wait_durable"  # include/forebay/operations.h


class WaitFailed(ForebayError):
    """A file does not hold everything, and waiting will not change that; the message says why."""


def wait(*files: Any, timeout: float | None = None, sync: bool = True) -> bool:
    """Waits until the files hold all that was staged of them so far, at most `timeout` seconds (None: for ever).

    A file is a path, whichever process of this node wrote it, or an open h5py.File. Of a file that is open here all
    written bytes are flushed first. `sync` says whether the files are then also synced to their device; an open one
    always is, and no timeout holds for it: h5py makes no other call meanwhile.

    Returns whether they do: False when the time is up. Raises WaitFailed when a process died and left something behind,
    when one cannot write, or when nobody can tell; FileNotFoundError for a path that is not there; NotInstalled without
    the command `forebay`; OSError when an open file's drain failed.
    """
    paths = []
    for file in files:
        if isinstance(file, (str, bytes, os.PathLike)):
            paths.append(os.path.abspath(os.fsdecode(file)))
            os.stat(paths[-1])
        else:
            file.flush()
            call_for_file(_FILE_WAIT_DURABLE, file, None)
    return _wait_for(paths, timeout, sync) if paths else True


def _wait_for(paths: list[str], timeout: float | None, sync: bool) -> bool:
    arguments = [str(command()), "wait", "--quiet", *([] if sync else ["--no-sync"]), "--", *paths]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode != 0:
        raise WaitFailed(done.stderr.strip() or f"forebay wait ended with status {done.returncode}")
    return True
