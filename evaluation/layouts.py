"""HDF5-IOTEST: 192 layouts of the same arrays, each a cell of its own, as a heat map of times and file sizes."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path

from cases import MIB, Setting
from cells import Outcome, Section
from plots import pyplot
from runs import FOREBAY, NATIVE, BenchError, Places, Run, SlowTarget, WrongData, run, slow_target

LAYOUTS = 192
TOGETHER = 32  # in one start of the program
RANKS = 2
LATENCY = "0.5ms"
AFTER = (
    "After section 3 of the HDF5 VOL Status Report (figures 2 to 9): rank of the dataset, slowest dimension, "
    "alignment, layout, fill values, format and transfer mode. Every element of the set is a cell."
)
# Digits of a layout's number, the last one first.
_DIGITS = (
    ("independent", "collective"),
    ("earliest", "latest"),
    ("no fill", "fill"),
    ("contiguous", "chunked"),
    ("unaligned", "aligned"),
    ("array slowest", "step slowest"),
)
_COLUMNS = 16  # layouts that differ in transfer mode, format, fill and layout


def layout_name(number: int) -> str:
    """Returns the parameters of a layout."""
    return ", ".join([f"rank {2 + (number >> 6)}", *(_DIGITS[i][number >> i & 1] for i in reversed(range(6)))])


def layouts(setting: Setting, quick: bool) -> Section:
    """Runs all layouts, with the metadata block of the report; the whole run adds a large one."""
    section = Section("layouts", "HDF5-IOTEST: 192 layouts", AFTER)
    sizes = (2, 2, 8, 64 << 10) if quick else (4, 4, 32, 1 << 20)
    with slow_target(setting.places, latency=LATENCY) as slow:
        for metadata_block in (2048,) if quick else (2048, MIB):
            found = _outcomes(setting, slow, sizes, metadata_block)
            section.outcomes += [outcome for outcome, _ in found]
            section.tables += [_sizes_table(found, metadata_block)]
            section.pictures += _heat_map(setting.figures / f"layouts-{metadata_block}.png", found, metadata_block)
    section.notes.append(
        "{} ranks, {} steps of {} arrays, tiles of {} x {} words, aligned to {:,} bytes, {} per operation".format(
            RANKS, *sizes[:2], sizes[2], sizes[2], sizes[3], LATENCY
        )
    )
    return section


def _outcomes(
    setting: Setting, where: SlowTarget, sizes: Sequence[int], metadata_block: int
) -> list[tuple[Outcome, dict[str, int]]]:
    """Returns for each layout its outcome and the file sizes by mode."""
    steps, arrays, edge, alignment = sizes
    words = {"steps": steps, "arrays": arrays, "rows": edge, "columns": edge, "alignment": alignment}
    words["metadata-block"] = metadata_block
    arguments = [text for name, value in words.items() for text in (f"--{name}", str(value))]
    payload = RANKS * steps * arrays * edge * edge * 8
    found = [(Outcome(f"{layout_name(i)}, metadata block {metadata_block:,}"), {}) for i in range(LAYOUTS)]
    for first in range(0, LAYOUTS, TOGETHER):
        setting.progress(f"layouts {first} to {first + TOGETHER - 1}")
        chunk = found[first : first + TOGETHER]
        for mode in (NATIVE, FOREBAY) if first // TOGETHER % 2 == 0 else (FOREBAY, NATIVE):
            folder = where.backing / f"layouts-{first}-{mode}"
            folder.mkdir()
            try:
                _run_chunk(
                    setting.places, mode, arguments, (where.mounted / folder.name, folder), first, chunk, payload
                )
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return found


def _run_chunk(
    places: Places,
    mode: str,
    arguments: list[str],
    folders: tuple[Path, Path],
    first: int,
    chunk: list[tuple[Outcome, dict[str, int]]],
    payload: int,
) -> None:
    """Writes and reads the layouts from `first` on in one mode. Where that fails, tries each of them alone."""
    command, part = [places.program("layouts"), *arguments], ["--first", str(first), "--count", str(len(chunk))]
    files = [str(folder / "data") for folder in folders]
    try:
        one = run(places, mode, [*command, *part, "--file", files[0]], ranks=RANKS, timeout_s=1800)
        checked = run(places, NATIVE, [*command, *part, "--file", files[1], "--verify"], ranks=RANKS, timeout_s=600)
    except BenchError as error:
        _each_alone(places, mode, command, folders, first, chunk)
        if not any(outcome.failures for outcome, _ in chunk):  # they fail together only
            _count_failure(chunk[0][0], error, mode)
        return
    for i, (outcome, file_sizes) in enumerate(chunk):
        _count(outcome, file_sizes, mode, one, first + i, one.figures["layouts"][i], payload)
        outcome.compared_bytes += checked.figures["compared"] // len(chunk)


def _count(
    outcome: Outcome, file_sizes: dict[str, int], mode: str, one: Run, number: int, figures: dict, payload: int
) -> None:
    outcome.count(figures)
    outcome.seconds[mode].append(figures["write_s"] + figures["read_s"])
    outcome.runs[mode].append(Run(figures, 0, 0, ""))
    file_sizes[mode] = figures["size"]
    if mode == FOREBAY:
        staged = one.staged_of_file.get(f"data.{number:03}", 0)
        outcome.proof = f"{staged / 1024:,.0f} KiB staged"
        if staged < payload:
            outcome.failures.append(f"only {staged} of {payload} bytes were staged ({one.counters.get('reasons')})")


def _each_alone(
    places: Places,
    mode: str,
    command: list[str],
    folders: tuple[Path, Path],
    first: int,
    chunk: list[tuple[Outcome, dict[str, int]]],
) -> None:
    """Runs the layouts one by one in fresh files, to learn which of them fail."""
    files = [str(folder / "alone") for folder in folders]
    for i, (outcome, _) in enumerate(chunk):
        alone = ["--first", str(first + i), "--count", "1"]
        try:
            outcome.count(run(places, mode, [*command, "--file", files[0], *alone], ranks=RANKS).figures)
            outcome.count(run(places, NATIVE, [*command, "--file", files[1], "--verify", *alone], ranks=RANKS).figures)
        except BenchError as error:
            _count_failure(outcome, error, mode)


def _count_failure(outcome: Outcome, error: BenchError, mode: str) -> None:
    if isinstance(error, WrongData):
        outcome.count_wrong(error, mode)
    else:
        outcome.failures.append(str(error))


def _sizes_table(found: list[tuple[Outcome, dict[str, int]]], metadata_block: int) -> list[Sequence[str]]:
    """Compares the sizes of the files, and the spread of the times."""
    sizes = [file_sizes for _, file_sizes in found if len(file_sizes) == 2]
    rows: list[Sequence[str]] = [["over the layouts", "native", "forebay"]]
    if not sizes:
        return rows
    for what, pick in (("smallest file", min), ("largest file", max)):
        rows.append([what, *(f"{pick(one[mode] for one in sizes):,} bytes" for mode in (NATIVE, FOREBAY))])
    equal = sum(one[NATIVE] == one[FOREBAY] for one in sizes)
    rows.append(["files of the native size", str(len(sizes)), str(equal)])
    for what, pick in (("fastest", min), ("median", statistics.median), ("slowest", max)):
        times = [pick(value for one, _ in found for value in one.seconds[mode]) for mode in (NATIVE, FOREBAY)]
        rows.append([f"{what} layout, write and read", *(f"{value:.4f} s" for value in times)])
    rows[0][0] += f", metadata block {metadata_block:,}"
    return rows


def _heat_map(path: Path, found: list[tuple[Outcome, dict[str, int]]], metadata_block: int) -> list[Path]:
    """Draws native times, forebay's times, and file sizes, a square per layout."""
    plt = pyplot()
    if plt is None or not all(one.medians[0] and one.medians[1] for one, _ in found):
        return []
    from matplotlib.colors import LogNorm

    times = [[1000 * one.medians[side] for one, _ in found] for side in (0, 1)]
    sizes = [[file_sizes[mode] / 1024 for _, file_sizes in found] for mode in (NATIVE, FOREBAY)]
    figure, axes = plt.subplots(2, 2, figsize=(13, 9), layout="constrained", sharex=True, sharey=True)
    for row, (values, unit) in enumerate(((times, "ms, write and read"), (sizes, "KiB of the file"))):
        least, most = min(map(min, values)), max(map(max, values))
        for column, side in enumerate((NATIVE, FOREBAY)):
            grid = [values[column][at : at + _COLUMNS] for at in range(0, LAYOUTS, _COLUMNS)]
            norm = LogNorm(least, most * 1.001)
            shown = axes[row][column].imshow(grid, norm=norm, cmap="viridis", aspect="auto")
            axes[row][column].set_title(f"{side}: {unit}", fontsize=10)
        figure.colorbar(shown, ax=list(axes[row]), shrink=0.8)
    for axis in axes.flat:
        axis.set_yticks(range(LAYOUTS // _COLUMNS), [_row_label(at) for at in range(0, LAYOUTS, _COLUMNS)], fontsize=7)
        axis.set_xticks(range(_COLUMNS), map(_column_label, range(_COLUMNS)), fontsize=7, rotation=90)
    figure.suptitle(
        f"192 layouts, metadata block {metadata_block:,} bytes: equal colours mean equal values", fontsize=11
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]


def _row_label(number: int) -> str:
    return ", ".join([f"rank {2 + (number >> 6)}", _DIGITS[5][number >> 5 & 1], _DIGITS[4][number >> 4 & 1]])


def _column_label(number: int) -> str:
    return ", ".join(_DIGITS[i][number >> i & 1] for i in (3, 2, 1, 0))
