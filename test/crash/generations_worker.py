"""Forks a child for each command: one that writes until it is killed, or one that opens a file and tells what it has.

HDF5 is loaded once, with the connector; the children are the first to use it. Commands come as lines of JSON.
"""

import json
import os
import signal
import sys
import threading

import h5py
import numpy


def write(path, kill_after_s):
    """Writes each number everywhere, flushes, and tells so; the last one is not told any more."""
    with h5py.File(path, "r+") as file:
        number = int(file["x"][0, 0])
        said, deadline = 0, None
        while True:
            number += 1
            file["x"][...] = number
            file.flush()
            os.write(1, f"{number}\n".encode())  # at once, or not at all
            said += 1
            if said == 2:
                deadline = threading.Timer(kill_after_s, os.kill, (os.getpid(), signal.SIGKILL))
                deadline.start()


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
            write(command["path"], command["kill_after_s"])
        else:
            look(command["path"])
        os._exit(0)
    os.waitpid(child, 0)
    print("end", flush=True)
