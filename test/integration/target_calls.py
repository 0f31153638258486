"""What a program tells the file system of its target file besides data, by strace: natively and staged.

A file system may do much for a call that changes nothing. If a file was cut to size 0 before, ext4 writes all of it
back when it is closed, empty or not. A parallel file system asks a server.
"""

import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

STRACE = shutil.which("strace")

# Calls that change a file or its name, or want it on the device, and are no writing of data.
CHANGING = (
    "creat,truncate,ftruncate,fallocate,fsync,fdatasync,sync,syncfs,sync_file_range,msync,unlink,unlinkat,rename,"
    "renameat,renameat2,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,utimensat,"
    "utime,utimes,futimesat,setxattr,lsetxattr,fsetxattr,removexattr,fremovexattr,copy_file_range,ioctl"
).split(",")
WRITING = "write,pwrite64,writev,pwritev,pwritev2".split(",")
LOOKING = (
    "stat,lstat,fstat,newfstatat,statx,statfs,fstatfs,access,faccessat,faccessat2,readlink,readlinkat,"
    "getxattr,fgetxattr,lgetxattr"
).split(",")
OPENING = ["open", "openat"]

_LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
_UNFINISHED = re.compile(r"^(\d+) +(\w+\(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")


def tracing(into: Path) -> list[str]:
    """What to put before a command: all its processes are followed."""
    calls = [*OPENING, *CHANGING, *WRITING, *LOOKING, "lseek", "close"]
    return [
        STRACE,
        "-f",
        "-y",
        "--seccomp-bpf",
        "-s",
        "0",
        "-o",
        str(into),
        "-e",
        "trace=" + ",".join(f"?{call}" for call in calls),
    ]


@dataclass
class Told:
    """The calls on one file, of all processes."""

    changes: Counter = field(default_factory=Counter)  # by what they say
    looks: Counter = field(default_factory=Counter)  # by name
    opens: int = 0
    needless: list[str] = field(default_factory=list)  # sizes that were set and that the file had
    size: int = 0
    writes: int = 0
    reached: Counter = field(
        default_factory=Counter
    )  # sizes that the file had because of a write at its end, as in `changes`

    def look_count(self) -> int:
        return self.looks.total()


def _calls(trace: Path):
    """Name, arguments and result, in the order in which they ended."""
    begun: dict[str, str] = {}
    for line in trace.read_text(errors="replace").splitlines():
        if unfinished := _UNFINISHED.match(line):
            begun[unfinished[1]] = unfinished[2]
            continue
        if resumed := _RESUMED.match(line):
            line = f"{resumed[1]} {begun.pop(resumed[1], '')}{resumed[2]}"
        if call := _LINE.match(line):
            yield call[2], call[3], int(call[4])


def told_of(trace: Path, name: str, size: int = 0) -> Told:
    """What was said of the file whose last part is `name`, which has `size` bytes when the program begins."""
    told = Told(size=size)
    about = re.compile(rf'(?:"|/){re.escape(name)}(?:"|>)')
    for call, arguments, result in _calls(trace):
        if not about.search(arguments):
            continue
        if result < 0:
            if call in CHANGING:
                told.changes[f"{call}, which failed"] += 1
            continue
        numbers = [int(word) for word in re.findall(r", (\d+)(?=,|$)", arguments)]
        if call in OPENING:
            told.opens += 1
            if "O_TRUNC" in arguments:
                told.changes["size 0"] += 1
                told.size = 0
        elif call in ("truncate", "ftruncate"):
            told.changes[f"size {numbers[-1]}"] += 1
            if numbers[-1] == told.size:
                told.needless.append(f"{call} to {told.size}")
            told.size = numbers[-1]
        elif call == "ioctl" and "FS_IOC_GETVERSION" in arguments:
            told.looks[call] += 1
        elif call in CHANGING:
            told.changes[call] += 1
        elif call in LOOKING or (call == "lseek" and "SEEK_END" in arguments):
            told.looks[call] += 1
        elif call in ("pwrite64", "pwritev", "pwritev2"):
            told.writes += 1
            end = (numbers[-1] if call != "pwritev2" else numbers[-2]) + result
            if end > told.size:
                told.size = end
                told.reached[f"size {end}"] += 1
    return told


def assert_no_more_said(staged: Told, native: Told, opens_by_rank: int, ranks: int = 1) -> None:
    """The staged program changes and syncs nothing that the native one does not. Opening a file includes looking at it.

    After a flush a staged file needs the size that a native one has got by writes. Its bytes may come later.
    """
    more = staged.changes - native.changes - native.reached
    assert not more, f"staged: {staged.changes}, natively: {native.changes}"
    assert staged.needless == [], staged.needless
    # Recovery has to know what the target was when it last came to rest. A change of size looks first, so that it does
    # not cut off what another program has appended.
    at_rest = min(staged.looks["statx"], staged.writes)
    sized = sum(count for change, count in staged.changes.items() if change.startswith("size "))
    most = native.look_count() + at_rest + sized + 10 * opens_by_rank * ranks
    assert staged.look_count() <= most, (
        f"staged: {staged.looks} and {staged.writes} writes, natively: {native.looks}, at most {most}"
    )
    assert staged.opens <= native.opens + opens_by_rank * ranks, f"{staged.opens} opens, natively {native.opens}"
