"""Files that are read by a lease while something fails, is paused, or gets their number: docs/read-cache.md."""

import os

import h5py
import pytest
from connector_environment import asides
from test_read_cache_leases import (  # noqa: F401 (fixtures)
    VALUES,
    asked,
    change,
    files,
    leased,
    mounted,
    program,
    pytestmark,
    requests,
    told,
)


def run(reader, code):
    """Executes statements in the program, whose expressions then know them."""
    return reader(f"exec({code!r}, globals())")


def test_an_open_by_lease_neither_waits_nor_fails_where_the_file_system_does(mounted, tmp_path):  # noqa: F811
    folder, fs = mounted
    with program(leased(tmp_path), folder) as reader:
        expected = reader("epoch()")
        reader('keep("target/7.h5")')
        first = reader('read("target/7.h5")')
        for rule in ("op=*,hang,path=*.h5", "op=*,errno=EIO,path=*.h5"):
            fs.fault(rule)
            assert reader("epoch()") == expected
            assert reader('read("target/7.h5")') == first
            assert fs.stats()["hanging"] == 0
            fs.clear()


def test_while_forebay_is_paused_no_lease_is_used(mounted, tmp_path):  # noqa: F811
    folder, fs = mounted
    with program(leased(tmp_path), folder) as reader:
        first = reader('label("target/7.h5")')
        before = requests(fs)
        assert reader('label("target/7.h5")') == first
        assert asked(fs, before) == {}
        reader('__import__("forebay").pause()')
        assert reader('label("target/7.h5")') == first
        seen = asked(fs, before)
        assert seen["open"] == 1 and seen["read"] > 0, seen
        change(folder / "backing" / "7.h5", "replaced")
        assert reader('label("target/7.h5")') == (201, -3), "as natively"
        reader('__import__("forebay").resume()')
    assert asides(tmp_path) == {"paused": 2}


def test_a_comparison_without_a_descriptor_changes_nothing(mounted, tmp_path):  # noqa: F811
    folder, _ = mounted
    with program(leased(tmp_path, 1), folder) as reader:
        reader('label("target/7.h5")')
        reader('keep("target/7.h5")')
        first = reader('read("target/7.h5")')
        run(
            reader,
            """
import resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
def read_until(seconds):
    end, seen = time.monotonic() + seconds, set()
    while time.monotonic() < end:
        seen.add(read("target/7.h5"))
    return seen
""",
        )
        assert reader("read_until(1.5)") == {first}, "natively it is open, and does not mind"
        run(reader, "for number in taken: os.close(number)")
        assert reader('label("target/7.h5")')[0] == first


@pytest.mark.parametrize("how", ["r", "w"])
def test_another_file_with_the_number_of_one_that_is_open_is_another_file(mounted, tmp_path, how):  # noqa: F811
    folder, fs = mounted
    backing = folder / "backing"
    with program(leased(tmp_path), folder) as reader:
        first = reader('label("target/7.h5")')
        reader('keep("target/7.h5")')
        number = (backing / "7.h5").stat().st_ino
        # Natively the number would stay that of the open file.
        reader('os.remove("target/7.h5")')
        fs.stats()
        for attempt in range(50):
            other = backing / f"other{attempt}.h5"
            with h5py.File(other, "w") as f:
                f["sample"] = [201] * VALUES
                f.attrs["label"] = -3
            if other.stat().st_ino == number:
                break
        else:
            pytest.skip("the file system does not give numbers again")
        if how == "r":
            for _ in range(2):
                assert reader(f'label("target/{other.name}")') == (201, -3)
        else:
            run(reader, f'with h5py.File("target/{other.name}", "w") as f: f["made"] = 5')
            assert reader('read("target/7.h5")') == first[0]
        reader(f'write("target/{other.name}", 202)' if how == "r" else "0")
        assert reader('read("target/7.h5")') == first[0]
        assert reader('close("target/7.h5")') is None
    with h5py.File(other) as f:
        assert f["sample"][0] == 202 if how == "r" else f["made"][()] == 5


def test_a_ring_that_is_overwritten_while_it_is_used_costs_its_copies_only(mounted, tmp_path):  # noqa: F811
    folder, fs = mounted
    with program(leased(tmp_path), folder) as reader:
        expected = reader("epoch()")
        assert reader("epoch()") == expected
        (index,) = tmp_path.glob("staging-area/*/cache/0-0/index")
        for damage in (bytes(index.stat().st_size), os.urandom(index.stat().st_size)):
            overwrite(index, damage)
            before = requests(fs)
            assert reader("epoch()") == expected
            assert asked(fs, before)["read"] > 0
            assert reader("epoch()") == expected
    assert told(tmp_path)["hit_bytes"] > 0


def overwrite(path, content):
    with open(path, "r+b") as f:
        f.write(content)
