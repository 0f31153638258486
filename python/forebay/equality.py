"""Compares two HDF5 files: every group, dataset and attribute, by type, shape, layout and value."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

COMPARE_BYTES = 8 << 20


@dataclass
class Comparison:
    """The compared objects, and every difference found, one line each."""

    datasets: int = 0
    attributes: int = 0
    value_bytes: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """True if both files have the same content."""
        return not self.differences

    def expect(self, same: bool, difference: str) -> None:
        """Adds the difference if `same` is False."""
        if not same:
            self.differences.append(difference)


def compare_files(left: Path, right: Path) -> Comparison:
    """Compares two files object by object. Raises OSError if a file is unreadable."""
    result = Comparison()
    with h5py.File(left, "r") as a, h5py.File(right, "r") as b:
        _compare_attributes(a, b, "/", result)
        objects_a, objects_b = dict(_objects(a)), dict(_objects(b))
        for name in sorted(objects_a.keys() ^ objects_b.keys()):
            result.differences.append(f"{name}: only in {left if name in objects_a else right}")
        for name in sorted(objects_a.keys() & objects_b.keys()):
            one, other = objects_a[name], objects_b[name]
            if type(one) is not type(other):
                result.differences.append(f"{name}: not the same kind of object")
                continue
            _compare_attributes(one, other, name, result)
            if isinstance(one, h5py.Dataset):
                _compare_dataset(one, other, name, result)
    return result


def _objects(file: h5py.File) -> Iterator[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    file.visititems(lambda name, item: found.append(("/" + name, item)))
    return iter(found)


def _compare_attributes(one: Any, other: Any, name: str, result: Comparison) -> None:
    for key in sorted(set(one.attrs) | set(other.attrs)):
        if key not in one.attrs or key not in other.attrs:
            result.differences.append(f"{name}@{key}: only in one file")
            continue
        result.attributes += 1
        same_type = one.attrs.get_id(key).dtype == other.attrs.get_id(key).dtype
        result.expect(same_type and _same(one.attrs[key], other.attrs[key]), f"{name}@{key}: not the same")


def _compare_dataset(one: h5py.Dataset, other: h5py.Dataset, name: str, result: Comparison) -> None:
    result.datasets += 1
    layouts = [(d.shape, d.dtype, d.maxshape, d.chunks, d.compression, d.shuffle, d.fletcher32) for d in (one, other)]
    if layouts[0] != layouts[1]:
        result.differences.append(f"{name}: not the same type, shape or layout: {layouts[0]} and {layouts[1]}")
        return
    result.value_bytes += one.nbytes
    result.expect(_same(one[()], other[()]), f"{name}: not the same values")


def _same(one: Any, other: Any) -> bool:
    # NaN counts as equal to itself here; only floating types have it.
    inexact = np.issubdtype(np.asarray(one).dtype, np.inexact)
    return bool(np.array_equal(one, other, equal_nan=inexact))


def same_bytes(left: Path, right: Path) -> bool:
    """Returns True if two files are identical byte for byte, metadata included."""
    if left.stat().st_size != right.stat().st_size:
        return False
    with left.open("rb") as a, right.open("rb") as b:
        while True:
            one, other = a.read(COMPARE_BYTES), b.read(COMPARE_BYTES)
            if one != other:
                return False
            if not one:
                return True


def h5diff(left: Path, right: Path, environment: dict[str, str]) -> tuple[bool | None, str]:
    """Returns the verdict of HDF5's own h5diff (None: it failed), and a phrase for people."""
    program = shutil.which("h5diff", path=environment.get("PATH"))
    if program is None:
        return None, "not installed"
    ended = subprocess.run(
        [program, str(left), str(right)], env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if ended.returncode in (0, 1):
        return ended.returncode == 0, "differences" if ended.returncode else "no differences"
    said = (ended.stderr or ended.stdout).strip().splitlines()
    return None, f"failed: {said[0] if said else f'exit code {ended.returncode}'}"
