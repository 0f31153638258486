"""`forebay run --compare`: natively and with forebay in fresh copies of a folder, and what it says of the results."""

import json
import subprocess
import sys

import pytest
from connector_environment import native
from test_cli import FOREBAY

pytest.importorskip("h5py")

WRITE = """
import h5py, numpy as np
with h5py.File("out.h5", "w") as f:
    f["x"] = np.arange(100000) * {factor}
open("done.txt", "w").write("done")
"""
SEES_FOREBAY = "import os\nwith_forebay = bool(os.environ.get('HDF5_VOL_CONNECTOR'))\n"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "job"
    path.mkdir()
    (path / "input.txt").write_text("input")
    (path / "link").symlink_to("input.txt")
    return path


def compare(folder, code, *options, **variables):
    """What the command ended with, and what it found."""
    found = folder.parent / "found.json"
    area = folder.parent / "area"
    area.mkdir(exist_ok=True)
    done = subprocess.run(
        [FOREBAY, "run", "--compare", "-o", f"nls={area}", "--json", found, *options, "--", sys.executable, "-c", code],
        env=native(**variables),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done, json.loads(found.read_text()) if found.exists() else None


def left_beside(folder):
    return sorted(path.name for path in folder.parent.glob("job.*"))


def test_equal_results_are_called_equal_and_the_folder_is_as_it_was(folder):
    done, found = compare(folder, WRITE.format(factor=1), "--runs", "2")
    assert done.returncode == 0 and "equal, byte for byte" in done.stderr, done.stderr
    assert found["equal"] and not found["differences"] and found["files"] == 3
    assert len(found["native_s"]) == len(found["forebay_s"]) == 2
    assert found["run"]["totals"]["staged"] > 800000, "forebay was on"
    assert sorted(path.name for path in folder.iterdir()) == ["input.txt", "link"] and left_beside(folder) == []


def test_a_result_that_differs_with_forebay_is_told_and_both_are_kept(folder):
    done, found = compare(folder, SEES_FOREBAY + WRITE.format(factor="(2 if with_forebay else 1)"))
    assert done.returncode == 1 and "DIFFERENT: out.h5 differs from byte" in done.stderr, done.stderr
    (difference,) = found["differences"]
    assert difference["path"] == "out.h5" and not difference["equal_by_h5diff"] and not difference["differs_natively"]
    assert [name.split("-")[0] for name in left_beside(folder)] == ["job.forebay", "job.native"]
    assert sorted(found["kept"]) == [str(folder.parent / name) for name in left_beside(folder)]


@pytest.mark.parametrize(
    "code, told",
    [
        (SEES_FOREBAY + "open('with' if with_forebay else 'without', 'w')", "exists only in"),
        (SEES_FOREBAY + "import os; os.chmod('input.txt', 0o600 if with_forebay else 0o640)", "permissions"),
        (SEES_FOREBAY + "import os\nif with_forebay: os.remove('link'); open('link', 'w')", "kind"),
        (SEES_FOREBAY + "import sys; sys.exit(5 if with_forebay else 0)", "exit status 5"),
    ],
    ids=["names", "permissions", "kinds", "exit"],
)
def test_other_differences_are_told_too(folder, code, told):
    done, found = compare(folder, code)
    assert done.returncode == 1 and not found["equal"], done.stderr
    assert "DIFFERENT: " in done.stderr and told in done.stderr, done.stderr


def test_a_program_that_never_writes_the_same_twice_is_not_blamed_on_forebay(folder):
    code = "import uuid\nopen('id.txt', 'w').write(str(uuid.uuid4()))"
    done, found = compare(folder, code, "--runs", "2")
    assert done.returncode == 0 and "id.txt also differs between two native runs" in done.stderr, done.stderr
    assert [one["differs_natively"] for one in found["differences"]] == [True]
    assert left_beside(folder) == []


def test_a_program_that_writes_into_the_folder_itself_is_caught(folder):
    code = f"open({str(folder / 'result')!r}, 'a').write('x')"
    done, found = compare(folder, code)
    assert done.returncode == 1 and found["written_outside"] == ["result"], done.stderr
    assert "NOT COMPARED: the program changed result" in done.stderr


def test_a_program_that_fails_natively_fails_so(folder):
    done, _ = compare(folder, "import sys; sys.exit(3)")
    assert done.returncode == 3 and "DIFFERENT" not in done.stderr, done.stderr


@pytest.mark.parametrize("how", ["option", "variable", "connector"])
def test_a_program_that_would_leave_its_drain_to_another_process_ends_with_complete_files(folder, how):
    options = ("-o", "close=linger") if how == "option" else ()
    variables = {
        "variable": {"FOREBAY_CLOSE": "linger"},
        "connector": {"HDF5_VOL_CONNECTOR": "forebay close=linger"},
    }.get(how, {})
    done, found = compare(folder, WRITE.format(factor=1), *options, **variables)
    assert done.returncode == 0 and found["equal"], done.stderr
    assert "close=deferred" in done.stderr
    assert found["run"]["totals"]["staged"] > 0


def test_what_cannot_be_compared_is_refused(folder):
    done, found = compare(folder, "pass", "--copies", "missing")
    assert done.returncode == 2 and "--copies missing: the folder does not exist" in done.stderr, done.stderr
    done, found = compare(folder, "pass", "--copies", folder)
    assert done.returncode == 2 and "--copies" in done.stderr and found is None, done.stderr
    done, found = compare(folder, "pass", "--folder", folder / "missing")
    assert done.returncode == 2 and "the folder does not exist" in done.stderr and found is None, done.stderr
    done = subprocess.run([FOREBAY, "run", "--keep", "--", "true"], env=native(), capture_output=True, text=True)
    assert done.returncode == 2 and "--compare" in done.stderr, done.stderr


def test_copies_may_go_to_a_relative_folder(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    done, found = compare(folder, WRITE.format(factor=1), "--copies", "../elsewhere", "--keep")
    assert done.returncode == 0 and len(list((tmp_path / "elsewhere").iterdir())) == len(found["kept"]) > 0, done.stderr


def test_copies_go_where_they_are_told_and_stay_when_asked(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done, found = compare(folder, WRITE.format(factor=1), "--copies", elsewhere, "--keep")
    assert done.returncode == 0 and len(found["kept"]) == 2, done.stderr
    one, other = (elsewhere / path.name for path in elsewhere.iterdir())
    assert (one / "out.h5").read_bytes() == (other / "out.h5").read_bytes() and (one / "link").is_symlink()
