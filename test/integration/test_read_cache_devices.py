"""A read cache on several devices: `nls` names more than one directory (docs/read-cache.md, "Several devices").

Programs that set the option, and read a file of a slowfs mount again and again.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import forebay
import pytest
from connector_environment import _lines, native, run, slow_files, staged
from forebay.option_values import texts_of
from forebay.slowfs import available
from test_cli import FOREBAY
from test_read_cache import DATA_BYTES, MAKE, READ, prefetch
from test_read_cache_unasked import READ as READ_FORKED

h5py = pytest.importorskip("h5py")
numpy = pytest.importorskip("numpy")

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]

MIB = 1 << 20
USER = f"forebay-{os.getuid()}"


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    with slow_files(folder, MAKE) as fs:
        yield folder, fs


def three(folder):
    devices = [folder / name for name in ("a", "b", "c")]
    for device in devices:
        device.mkdir()
    return devices


def environment_of(where, value, cache="on", **more):
    """Of a program whose statistics are in `where`."""
    environment = staged(where, FOREBAY_READ_CACHE=cache, FOREBAY_READ_CACHE_SIZE="1GiB", **more)
    return {**environment, "FOREBAY_NLS": value}


def read(environment, folder, epochs=2):
    done = run([sys.executable, "-c", READ, str(epochs)], environment, folder)
    assert done.returncode == 0, done.stderr
    return done


def read_bytes(fs):
    return fs.stats()["operations"]["read"]["bytes"]


def cache_of(where):
    """The counters of the last process."""
    return [line["process"]["cache"] for line in _lines(where) if "process" in line][-1]


def bytes_on(device):
    """What the files of the read cache with bytes of sources take there."""
    files = [path for path in (device / USER / "cache").rglob("*") if path.is_file()]
    kept = [path for path in files if path.name == "replica" or path.parent.name.startswith("parts-")]
    return sum(path.stat().st_blocks * 512 for path in kept if path.name not in ("account", "home"))


def parts_on(device):
    return [path for path in (device / USER / "cache").glob("parts-*/*") if path.name not in ("account", "home")]


def command(*words, environment=None):
    return subprocess.run(
        [FOREBAY, *words], env=environment or native(), capture_output=True, text=True, timeout=120, check=False
    )


def test_what_is_read_again_comes_from_all_devices(mounted, tmp_path):
    folder, fs = mounted
    expected = read(native(), folder).stdout
    a, b, c = three(tmp_path)
    environment = environment_of(tmp_path, f"{a}=8MiB:{b}=12MiB:{c}=1GiB")
    first = read(environment, folder)
    assert first.stdout == expected and not first.stderr
    prefetch(environment, folder)
    before = read_bytes(fs)
    assert read(environment, folder).stdout == expected
    assert cache_of(tmp_path)["hit_bytes"] >= 2 * DATA_BYTES, "another process has all of it from the devices"
    assert read_bytes(fs) - before < DATA_BYTES // 20
    on = [bytes_on(device) for device in (a, b, c)]
    assert all(on) and on[0] <= 8 * MIB and on[1] <= 13 * MIB and sum(on) >= DATA_BYTES

    shown = json.loads(command("cache", "list", "--json", str(a)).stdout)["caches"][0]
    assert [device["path"].startswith(str(path)) for device, path in zip(shown["further_devices"], (b, c), strict=True)]
    assert all(device["stored_bytes"] > 0 and not device["message"] for device in shown["further_devices"])
    assert [device["capacity_bytes"] for device in shown["further_devices"]] == [12 * MIB, 1 << 30]
    (file,) = shown["files"]
    assert file["stored_bytes"] == file["size"]
    assert 0 <= sum(device["stored_bytes"] for device in file["devices"]) - file["size"] < 4096, "whole blocks"
    text = command("cache", "list", str(a)).stdout
    assert f"device {b}/{USER}/cache/parts-" in text and "of 12 MiB" in text
    status = command("status", str(a)).stdout
    assert f"device {c}/{USER}/cache/parts-" in status
    assert command("cache", "verify", str(a)).returncode == 0

    assert command("cache", "evict", "--all", str(a)).returncode == 0, "a command needs to know the first one only"
    assert not parts_on(b) and not parts_on(c) and not any(bytes_on(device) for device in (a, b, c))


def test_nobody_asked_and_nothing_is_left(mounted, tmp_path):
    folder, _ = mounted
    expected = read(native(), folder, 3).stdout
    a, b, c = three(tmp_path)
    assert read(environment_of(tmp_path, f"{a}=8MiB:{b}=8MiB:{c}=64MiB", "auto"), folder, 3).stdout == expected
    assert cache_of(tmp_path)["hit_bytes"] > 0
    accounts = [path for device in (b, c) for path in (device / USER / "cache").glob("parts-*/account")]
    assert len(accounts) == 2, "both took part"
    assert not parts_on(b) and not parts_on(c) and not bytes_on(a)


def test_a_device_that_cannot_be_used_is_left_out_and_told(mounted, tmp_path):
    folder, _ = mounted
    expected = read(native(), folder).stdout
    a, _, c = three(tmp_path)
    value = f"{a}:{tmp_path / 'missing'}:{c}"
    done = read(environment_of(tmp_path, value), folder)
    assert done.stdout == expected
    prefetch(environment_of(tmp_path, value), folder)
    assert "missing does not exist" in done.stderr and "the read cache goes on without it" in done.stderr
    assert bytes_on(a) and bytes_on(c)
    report = command("doctor", "--json", "-o", f"nls={a}=1GiB:{tmp_path / 'missing'}:{c}=2GiB")
    found = json.loads(report.stdout)
    assert found["staging"]["nls"] == str(a) and found["staging"]["usable"]
    missing, last = found["staging"]["further_devices"]
    assert not missing["usable"] and "does not exist" in missing["message"]
    assert last["usable"] and last["size"] == 2 << 30 and last["free_bytes"] > 0
    assert f"{c}, at most 2 GiB" in command("doctor", "-o", f"nls={a}:{c}=2GiB").stdout


def test_a_part_that_is_lost_takes_only_its_own_units_along(mounted, tmp_path):
    folder, fs = mounted
    a, b, c = three(tmp_path)
    environment = environment_of(tmp_path, f"{a}=8MiB:{b}=12MiB:{c}=1GiB")
    expected = read(native(), folder).stdout
    prefetch(environment, folder)
    lost = bytes_on(b)
    assert lost > 0
    for part in parts_on(b):
        part.unlink()
    before = read_bytes(fs)
    assert read(environment, folder).stdout == expected
    hit = cache_of(tmp_path)["hit_bytes"]
    assert hit >= 2 * (DATA_BYTES - lost), "the other devices' units go on being hits"
    assert read_bytes(fs) - before >= lost, "and those of the lost part are read from the file"
    prefetch(environment, folder)
    assert bytes_on(b) > 0, "the device is used again"


def test_parts_of_a_cache_that_is_gone_are_removed_by_a_command(mounted, tmp_path):
    folder, _ = mounted
    a, b, c = three(tmp_path)
    for first in (a, c):
        prefetch(environment_of(tmp_path, f"{first}=8MiB:{b}"), folder)
    shutil.rmtree(a / USER)
    assert len(parts_on(b)) == 2
    assert "Removed 1 " in command("cache", "evict", "--all", str(b)).stdout
    assert len(parts_on(b)) == 1, "the other first device's cache is there"
    assert command("cache", "verify", str(c)).returncode == 0


def test_memory_at_the_front_is_filled_first(mounted, tmp_path):
    folder, _ = mounted
    a, b, _ = three(tmp_path)
    memory = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="forebay-test-"))
    try:
        environment = environment_of(tmp_path, f"{memory}=8MiB:{a}=8GiB:{b}=8GiB")
        expected = read(native(), folder).stdout
        prefetch(environment, folder)
        assert read(environment, folder).stdout == expected
        assert cache_of(tmp_path)["hit_bytes"] >= 2 * DATA_BYTES
        assert 6 * MIB <= bytes_on(memory) <= 8 * MIB
    finally:
        shutil.rmtree(memory)


def test_programs_with_different_lists_read_at_once(mounted, tmp_path):
    folder, _ = mounted
    expected = read(native(), folder, 4).stdout
    a, b, c = three(tmp_path)
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", READ, "4"],
            env=environment_of(tmp_path, value),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for value in (f"{a}=8MiB:{b}", f"{a}=8MiB", f"{a}=8MiB:{c}=4MiB", f"{a}=8MiB:{b}=4MiB:{c}")
    ]
    for program in programs:
        out, error = program.communicate(timeout=120)
        assert program.returncode == 0 and out == expected and not error, error
    everything = environment_of(tmp_path, f"{a}=8MiB:{b}:{c}")
    assert read(everything, folder, 4).stdout == expected
    assert command("cache", "verify", str(a)).returncode == 0
    stored = json.loads(command("cache", "list", "--json", str(a)).stdout)["caches"][0]
    counted = stored["stored_bytes"] + sum(device["stored_bytes"] for device in stored["further_devices"])
    (file,) = stored["files"]
    assert counted == sum(device["stored_bytes"] for device in file["devices"]) + file["map_bytes"]


def test_forked_workers_share_what_lies_on_all_devices(mounted, tmp_path):
    folder, _ = mounted
    words = [sys.executable, "-c", READ_FORKED, "3", "shuffled", "3"]
    expected = run(words, native(), folder).stdout
    a, b, c = three(tmp_path)
    done = run(words, environment_of(tmp_path, f"{a}=8MiB:{b}=8MiB:{c}"), folder)
    assert done.returncode == 0 and done.stdout == expected and not done.stderr
    assert all(bytes_on(device) for device in (a, b, c))


@pytest.mark.parametrize(
    "value, said",
    [("{a}=much", "'much' after {a} is not a size"), ("{a}:{a}", "is named twice"), ("{a}=1k:{b}", "is not a size")],
)
def test_a_list_that_cannot_be_used_is_refused_by_name(value, said, tmp_path):
    a, b, _ = three(tmp_path)
    value, said = value.format(a=a, b=b), said.format(a=a)
    for words in (["run", "-o", f"nls={value}", "--", "true"], ["env", "-o", f"nls={value}"]):
        done = command(*words)
        assert done.returncode == 2 and f"option nls={value} (-o)" in done.stderr and said in done.stderr
    with pytest.raises(forebay.WrongOption, match="option nls"):
        texts_of({"nls": value})


def test_commands_and_the_package_make_each_path_absolute(tmp_path, monkeypatch):
    a, b, _ = three(tmp_path)
    odd = tmp_path / "k=v"
    odd.mkdir()
    monkeypatch.chdir(tmp_path)
    assert texts_of({"nls": f"a=2GiB:{b}"}) == {"nls": f"{a}=2GiB:{b}"}
    assert texts_of({"nls": r"k\=v"}) == {"nls": rf"{tmp_path}/k\=v"}
    printed = command("env", "--nls", f"a=2GiB:{b}").stdout
    assert f"FOREBAY_NLS='{a}=2GiB:{b}'" in printed or f"FOREBAY_NLS={a}=2GiB:{b}" in printed
    refused = command("env", "--nls", f"{a}:{tmp_path}/none")
    assert refused.returncode != 0 and "has the program run without that device" in refused.stderr
