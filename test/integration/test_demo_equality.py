"""The demo's judge: it finds every kind of difference between two HDF5 files, and none where there is none."""

import h5py
import numpy as np
import pytest

from forebay.equality import compare_files, same_bytes


def write(path, change=lambda file: None):
    with h5py.File(path, "w") as file:
        file.attrs["equation"] = "u_tt"
        group = file.create_group("a/b")
        group.attrs["time"] = 0.25
        group.create_dataset("field", data=np.arange(60.0).reshape(3, 4, 5))
        group.create_dataset("holes", data=np.array([1.0, np.nan]))
        group.create_dataset("names", data=["one", "two"], dtype=h5py.string_dtype())
        group["field"].attrs["unit"] = "m"
        change(file)
    return path


def replace(file, name, **arguments):
    del file[name]
    file.create_dataset(name, **arguments)


CHANGES = {
    "a value": lambda file: file["a/b/field"].__setitem__((2, 3, 4), 1.0),
    "a string": lambda file: file["a/b/names"].__setitem__(1, "three"),
    "a missing dataset": lambda file: file.__delitem__("a/b/names"),
    "one dataset more": lambda file: file.create_dataset("extra", data=1),
    "an attribute of a group": lambda file: file["a/b"].attrs.__setitem__("time", 0.5),
    "an attribute of a dataset": lambda file: file["a/b/field"].attrs.__setitem__("unit", "s"),
    "an attribute of the file": lambda file: file.attrs.__delitem__("equation"),
    "the type of an attribute": lambda file: file["a/b"].attrs.create("time", 0.25, dtype="f4"),
    "the type": lambda file: replace(file, "a/b/holes", data=np.array([1.0, np.nan], dtype="f4")),
    "the layout": lambda file: replace(file, "a/b/holes", data=np.array([1.0, np.nan]), chunks=(1,)),
    "the kind of object": lambda file: (file.__delitem__("a/b/holes"), file.create_group("a/b/holes")),
}


def test_files_written_alike_are_equal_also_where_they_hold_nan(tmp_path):
    left, right = write(tmp_path / "left.h5"), write(tmp_path / "right.h5")
    result = compare_files(left, right)
    assert result.equal, result.differences
    assert result.datasets == 3
    assert result.attributes == 3
    assert same_bytes(left, right)


@pytest.mark.parametrize("what", CHANGES)
def test_a_difference_is_found_in(tmp_path, what):
    left, right = write(tmp_path / "left.h5"), write(tmp_path / "right.h5", CHANGES[what])
    assert len(compare_files(left, right).differences) >= 1
    assert len(compare_files(right, left).differences) >= 1
    assert not same_bytes(left, right)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "torn.h5").write_bytes(b"not HDF5")
    with pytest.raises(OSError):
        compare_files(write(tmp_path / "left.h5"), tmp_path / "torn.h5")
