"""``forebay estimate``: how long a program waits for its file, natively and with forebay, on this or another machine.

    forebay estimate --preset summit --nodes 256 --ranks 16 --bytes 256MiB --compute 20

It needs nothing beyond the standard library; ``--plot`` needs matplotlib. docs/performance.md says how well it agrees
with measurements.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from forebay.estimate_machines import PRESETS
from forebay.estimate_model import (
    CannotEstimate,
    Machine,
    Reading,
    Writing,
    cached_reading,
    compute_needed,
    crossing_nodes,
    drain_rate,
    native_reading,
    native_writing,
    nodes_drained,
    room_needed,
    served_writing,
    servers_needed,
    staged_writing,
)
from forebay.estimate_shown import draw_scales, reading_text, writing_text
from forebay.estimate_sources import MeasuredRun, read_doctor, read_run

_UNITS = "kmgt"
# Options that replace a figure of the machine, with their help.
_RATES = {
    "local_write": "node-local storage of a node, writes",
    "local_read": "node-local storage of a node, reads",
    "fs_node": "file system, as one node gets it",
    "fs_total": "file system, as all nodes together get it into one file",
    "network": "network of a node",
    "memory": "memory copies of a node",
    "server": "bytes that one staging server takes in; default: 2GiB/s",
}
_SECONDS = {
    "local_latency_s": ("local-latency", "of a write to node-local storage"),
    "fs_latency_s": ("fs-latency", "of a request to the file system"),
}
_FACTORS = {
    "load": "times as long that the file system takes because of other jobs",
    "contention": "staging and draining at once each take 1 + this times as long",
    "compute_slowdown": "times as long that computing takes while the drain runs",
}
_PLOTTED_NODES_MAX = 4096
_EXIT_USAGE = 2
_CAPACITY = 8 * 1024.0**3  # defaults of options size and read_cache_size
# Options of only one kind of program. None or False: not given.
_OF_WRITERS = ("run", "servers", "plot", "flush", "writes", "size", "close")
_OF_READERS = ("cache", "page_cache", "in_order")
_NOT_STORED = "The first epoch is without the time to store the bytes on the node: --local-write is unknown."
_LOWER_BOUND = (
    "The file system may be faster: the run's writes to it overlapped. --fs-node, or a report, tells its rate."
)


@dataclass(frozen=True)
class Estimate:
    """All answers about one program on one machine, in seconds and bytes. `answers` is what ``--json`` prints."""

    answers: dict[str, Any]
    text: str


def quantity(text: str) -> float:
    """Returns the bytes, or bytes per second, of words such as 64MiB, 2.5G/s or 2.1e9. Units are powers of 1024."""
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*(?:([kmgt])(?:i?b)?|b)?(?:/s)?", text.strip().lower())
    try:
        number = float(found[1]) if found else math.nan
    except ValueError:
        number = math.nan
    size = number * 1024.0 ** (_UNITS.index(found[2]) + 1 if found and found[2] else 0)
    if not 0 < size < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size, such as 64MiB, 2.5GiB/s or 2.1e9")
    return size


def _capacity(text: str) -> float:
    """Returns the bytes of an option of forebay, which has these limits."""
    size = quantity(text)
    if not 1024.0**2 <= size <= 1024.0**5:
        raise argparse.ArgumentTypeError(f"'{text}' is not from 1 MiB to 1 PiB")
    return size


def _at_least(low: float, kind: type) -> Any:
    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value < math.inf:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least {low:g}")
        return value

    return number


def estimate_writing(machine: Machine, writing: Writing, servers: int = 0, notes: Sequence[str] = ()) -> Estimate:
    """Returns the answers for a program that writes. With `servers` it also stages through that many servers.

    `notes` go into the answers, which leave out numbers that depend on an unknown total of the file system.
    """
    native, staged = native_writing(machine, writing), staged_writing(machine, writing)
    ways = {"native": native, "forebay": staged}
    if servers:
        ways[f"{servers} servers"] = served_writing(machine, writing, servers).waits
    answers = {
        "machine": machine.name,
        "ways": {
            name: {
                "step_s": sum(waits.steps_s) / len(waits.steps_s),
                "step_s_max": max(waits.steps_s),
                "close_s": waits.close_s,
                "wait_s": waits.wait_s,
                "compute_s": waits.compute_s,
                "total_s": waits.total_s,
                "drains_after_close_s": waits.left_s,
                "observed_bytes_per_s": writing.nodes * writing.node_bytes * writing.steps / max(waits.wait_s, 1e-9),
            }
            for name, waits in ways.items()
        },
        "size_needed_bytes": room_needed(machine, writing),
        "compute_needed_s": compute_needed(machine, writing),
        "drain_bytes_per_s": drain_rate(machine, writing),
        **_scales(machine, writing),
        "servers_needed": servers_needed(machine, writing),
        "notes": list(notes),
    }
    return Estimate(answers, writing_text(machine, writing, answers))


def _scales(machine: Machine, writing: Writing) -> dict[str, float]:
    """Returns the numbers of nodes at which something changes, as far as the machine's figures tell them."""
    crossing = crossing_nodes(machine, writing)
    scales = {"drain_keeps_up_to_nodes": nodes_drained(machine, writing)} if machine.total_known else {}
    return {**scales, "faster_from_nodes": crossing} if machine.total_known or crossing <= 1 else scales


def estimate_reading(machine: Machine, reading: Reading) -> Estimate:
    """Returns the answers for a program that reads its data once in each epoch."""
    ways = {"native": native_reading(machine, reading), "forebay": cached_reading(machine, reading)}
    answers = {
        "machine": machine.name,
        "ways": {
            name: {
                "first_epoch_s": epochs.epochs_s[0],
                "later_epoch_s": epochs.epochs_s[-1] if reading.epochs > 1 else None,
                "wait_s": epochs.wait_s,
                "total_s": epochs.total_s,
            }
            for name, epochs in ways.items()
        },
        "hits": ways["forebay"].hits,
        "cache_needed_bytes": reading.data_bytes / reading.nodes,
        "notes": [] if machine.local_write > 0 else [_NOT_STORED],
    }
    return Estimate(answers, reading_text(machine, reading, answers))


class _HelpFormatter(argparse.HelpFormatter):
    def _format_action_invocation(self, action: argparse.Action) -> str:
        return super()._format_action_invocation(action).replace(", ", ",", 1)


class _Parser(argparse.ArgumentParser):
    """Prints help and mistakes as the other commands of forebay do."""

    def format_help(self) -> str:
        usage, rest = super().format_help().removeprefix("usage: ").split("\n\n", 1)
        description, rest = rest.split("\n\n", 1)
        return f"{description}\n\nUsage: {usage}\n\n{rest}"

    def error(self, message: str) -> NoReturn:
        _refuse(re.sub(r"argument ([^:]*?)(?:/[^:]*)?: ", r"\1: ", message))
        sys.exit(_EXIT_USAGE)


def _refuse(message: str) -> None:
    print(f"forebay estimate: {message}\n`forebay estimate --help` explains the command.", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="forebay estimate",
        usage="forebay estimate [OPTIONS]",
        formatter_class=lambda prog: _HelpFormatter(prog, max_help_position=28, width=100),
        description="Estimates how long a program waits for its file, natively and with forebay",
        epilog="Each node writes, then computes, in each step, and the file is closed after the last one. Sizes are "
        "powers of 1024: 64MiB, 2.5GiB/s; 2.1e9 is a number of bytes.",
        add_help=False,
    )
    options = parser.add_argument_group("Options")
    options.add_argument("-h", "--help", action="help", help="Print this help message and exit")
    machine = parser.add_argument_group("Machine")
    machine.add_argument("--preset", choices=sorted(PRESETS), help="figures of this machine, as published")
    machine.add_argument("--measured", type=Path, metavar="FILE", help="output of forebay doctor --json --target DIR")
    for name, about in _RATES.items():
        machine.add_argument(f"--{name.replace('_', '-')}", type=quantity, metavar="RATE", help=about)
    for name, (option, about) in _SECONDS.items():
        machine.add_argument(
            f"--{option}", dest=name, type=_at_least(0, float), metavar="SECONDS", help=f"latency {about}"
        )
    machine.add_argument("--fs-request", type=quantity, metavar="SIZE", help="largest request of the file system")
    for name, about in _FACTORS.items():
        machine.add_argument(
            f"--{name.replace('_', '-')}",
            type=_at_least(0 if name == "contention" else 1, float),
            metavar="FACTOR",
            help=about,
        )
    program = parser.add_argument_group("Program")
    program.add_argument(
        "--from", dest="run", type=Path, metavar="FILE", help="report, statistics or JSON of a run on one node"
    )
    program.add_argument("--nodes", type=_at_least(1, int), default=1, metavar="N")
    program.add_argument("--ranks", type=_at_least(1, int), metavar="N", help="of a node; default: 1")
    program.add_argument("--bytes", type=quantity, metavar="SIZE", help="of a rank and step, written or read")
    program.add_argument("--steps", type=_at_least(1, int), metavar="N", help="of a program or epoch; default: 10")
    program.add_argument("--compute", type=_at_least(0, float), metavar="SECONDS", help="of a step; default: 0")
    program.add_argument("--writes", type=_at_least(1, int), metavar="N", help="calls of a rank and step; default: 1")
    program.add_argument("--size", type=_capacity, metavar="SIZE", help="option size; default: 8GiB")
    program.add_argument("--close", choices=["wait", "deferred"], help="option close; default: wait")
    program.add_argument("--flush", action="store_true", help="each step flushes, and the flush drains, as with MPI")
    program.add_argument("--servers", type=_at_least(1, int), metavar="N", help="also stage through this many servers")
    reads = parser.add_argument_group("Program that reads")
    reads.add_argument("--epochs", type=_at_least(1, int), metavar="N", help="reads all data this many times")
    reads.add_argument("--cache", type=_capacity, metavar="SIZE", help="read_cache_size; default: 8GiB")
    reads.add_argument("--page-cache", type=quantity, metavar="SIZE", help="memory of a node for file pages")
    reads.add_argument("--in-order", action="store_true", help="each rank reads the same data in every epoch")
    output = parser.add_argument_group("Output")
    output.add_argument("--json", action="store_true", help="as one JSON object")
    output.add_argument("--plot", type=Path, metavar="FILE", help="also draw 1 to 4,096 nodes, as PNG, SVG or PDF")
    output.add_argument("--sources", action="store_true", help="also say where the preset's figures are from")
    return parser


def _machine(given: argparse.Namespace, run: MeasuredRun | None) -> Machine:
    base = PRESETS[given.preset] if given.preset else Machine("this machine", 0.0, 0.0, 0.0, 0.0)
    found: dict[str, Any] = read_doctor(given.measured) if given.measured else {}
    if run:
        measured = {"local_write": run.staging_rate, "fs_node": run.target_rate}
        found.update({name: rate for name, rate in measured.items() if rate and not given.preset})
    names = (*_RATES, *_SECONDS, *_FACTORS, "fs_request")
    found.update({name: getattr(given, name) for name in names if getattr(given, name) is not None})
    sources = {name: source for name, source in base.sources.items() if name not in found}
    machine = replace(base, **found, sources=sources)
    if machine.fs_total > 0 or machine.fs_node <= 0:
        return machine
    if given.nodes > 1 or (given.servers or 0) > 1 or given.plot:
        raise CannotEstimate("--fs-total: one node does not tell how fast the file system is for several")
    return replace(machine, fs_total=machine.fs_node, total_known=False)


def _writing(given: argparse.Namespace, run: MeasuredRun | None) -> Writing:
    ranks, bytes_per_rank, compute_s, steps = given.ranks, given.bytes, given.compute, given.steps
    writes = given.writes or 1
    if run:
        steps = steps or run.commits
        ranks = ranks or run.ranks
        bytes_per_rank = bytes_per_rank or run.bytes_per_rank / steps
        if compute_s is None and run.compute_s is None:
            raise CannotEstimate(f"--compute SECONDS, of a step, is missing: {given.run} does not tell it")
        compute_s = (run.compute_s or 0.0) / steps if compute_s is None else compute_s
        writes = given.writes or max(1, round(bytes_per_rank / run.write_bytes))
    if not bytes_per_rank:
        raise CannotEstimate("--bytes SIZE, of a rank and step, is missing; --from FILE takes it from a run")
    return Writing(
        given.nodes,
        ranks or 1,
        bytes_per_rank,
        steps or 10,
        compute_s or 0.0,
        writes,
        given.size or _CAPACITY,
        given.close != "deferred",
        given.flush,
    )


def _reading(given: argparse.Namespace) -> Reading:
    if not given.bytes:
        raise CannotEstimate("--bytes SIZE, of a rank and step, is missing")
    ranks, steps = given.ranks or 1, given.steps or 10
    return Reading(
        given.nodes,
        ranks,
        given.nodes * ranks * given.bytes * steps,
        given.epochs,
        (given.compute or 0.0) * steps,
        given.bytes,
        given.cache or _CAPACITY,
        given.page_cache or 0.0,
        not given.in_order,
    )


def _refuse_options_of_others(given: argparse.Namespace) -> None:
    for name in _OF_WRITERS if given.epochs else _OF_READERS:
        if getattr(given, name):
            option = "from" if name == "run" else name.replace("_", "-")
            why = "is for a program that writes" if given.epochs else "needs --epochs: it is for a program that reads"
            raise CannotEstimate(f"--{option} {why}")


def main(words: Sequence[str] | None = None) -> int:
    """Reads the command line, prints the estimate and returns the exit status."""
    parser = _parser()
    given = parser.parse_args(words)
    try:
        _refuse_options_of_others(given)
        run = read_run(given.run) if given.run else None
        machine = _machine(given, run)
        if given.epochs:
            result = estimate_reading(machine, _reading(given))
        else:
            writing = _writing(given, run)
            is_bound = run is not None and run.overlaps and given.fs_node is None and not given.preset
            result = estimate_writing(machine, writing, given.servers or 0, [_LOWER_BOUND] if is_bound else [])
            if given.plot:
                draw_scales(machine, writing, given.plot, _PLOTTED_NODES_MAX)
    except CannotEstimate as reason:
        _refuse(str(reason))
        return _EXIT_USAGE
    except OSError as error:
        print(f"forebay estimate: write {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    if given.json:
        answers = result.answers | ({"sources": machine.sources} if given.sources else {})
        print(json.dumps(_finite(answers), indent=2))
    else:
        print(result.text)
        if given.sources:
            print("".join(f"\n  {name}: {source}" for name, source in machine.sources.items()))
    return 0


def _finite(value: Any) -> Any:
    """Returns the value with null in the place of infinity, which JSON lacks."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value


if __name__ == "__main__":
    sys.exit(main())
