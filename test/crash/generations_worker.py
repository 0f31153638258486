"""Forks a child for each command: one that writes until it is killed, or one that opens a file and tells what it has.

HDF5 is loaded once, with the connector; the children are the first to use it. Commands come as lines of JSON.
"""

import itertools
import json
import os
import signal
import sys
import threading

import h5py
import numpy


def write(path, flushes, where, kill_after_s):
    """Writes each number everywhere, flushes, and tells so; the last one is not told any more.

    It is killed once it has told of so many: `half_way` through the next number, after it has `written` all of it, or
    when that is `flushed`. With `any_time` so many seconds later, wherever it is.
    """
    with h5py.File(path, "r+") as file:
        data = file["x"]
        number, half = int(data[0, 0]), len(data) // 2
        for said in itertools.count():
            last = said >= flushes
            if last and where == "any_time" and said == flushes:
                threading.Timer(kill_after_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
            number += 1
            data[:half] = number
            if last and where == "half_way":
                os.kill(os.getpid(), signal.SIGKILL)
            data[half:] = number
            if last and where == "written":
                os.kill(os.getpid(), signal.SIGKILL)
            file.flush()
            if last and where == "flushed":
                os.kill(os.getpid(), signal.SIGKILL)
            os.write(1, f"{number}\n".encode())  # at once, or not at all


def look(path):
    try:
        with h5py.File(path, "r+") as file:
            print(json.dumps({"values": numpy.unique(file["x"][...]).tolist()}), flush=True)
    except OSError as error:
        print(json.dumps({"error": str(error)}), flush=True)


for line in sys.stdin:
    command = json.loads(line)
    child = os.fork()
    if child == 0:
        if command["do"] == "write":
            write(*(command[name] for name in ("path", "flushes", "where", "kill_after_s")))
        else:
            look(command["path"])
        os._exit(0)
    os.waitpid(child, 0)
    print("end", flush=True)
