"""Files that programs stage themselves and a staging server writes (server_mode=drain) equal those that HDF5 writes
natively, whatever becomes of the server.
"""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import native, plugin_folder, staged
from server_environment import Client, LastWrite, Server, client_reasons, command, natively, through
from test_staging_server import AGAIN, FLUSHED, MANY_KINDS, UNFLUSHED, committed_bytes

from forebay.slowfs import SlowFS, available

SMALL_LOG = "size=4MiB;segment=256KiB;reserve=0;"  # so that it drains before the close


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path) as running:
        yield running


def draining(address: str, folder: Path, info: str = "", **more: str) -> dict[str, str]:
    """The environment of a program that stages its files, and has the server write them."""
    (folder / "area").mkdir(parents=True, exist_ok=True)
    return native(
        HDF5_VOL_CONNECTOR=f"forebay server={address};server_mode=drain;nls={folder}/area;"
        f"stats={folder}/client.jsonl;{info}",
        HDF5_PLUGIN_PATH=str(plugin_folder()),
        **more,
    )


def counted(folder: Path) -> list[dict]:
    lines = (folder / "client.jsonl").read_text().splitlines()
    return [line["file"] for line in map(json.loads, lines) if "file" in line]


def left(folder: Path) -> list[str]:
    return [entry.name for entry in (folder / "area").glob("forebay-*/*") if entry.name.count("-") == 2]


def assert_same(tmp_path: Path, *names: str) -> None:
    for name in names or ("x.h5",):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "native" / name).read_bytes(), name


def assert_all_served(folder: Path, files: int) -> None:
    """Every byte that has reached the files came by the server, and was staged here before."""
    found = counted(folder)
    assert len(found) == files
    for file in found:
        assert file["staged"] > 0 and file["reasons"] == [], file
        assert file["served"] >= file["drained"] > 0, file
        # What is overwritten in the log while the server writes it is superseded, and not drained.
        assert file["served"] <= file["drained"] + file["superseded"] + file["through"] + 1, file


def write(server_or_address, tmp_path: Path, *lines: str, info: str = "") -> str:
    """What the program has said on standard error."""
    here = tmp_path / "here"
    here.mkdir(exist_ok=True)
    address = getattr(server_or_address, "address", server_or_address)
    with Client(here, draining(address, here, info)) as program:
        program.must(*lines)
        return program.end()


@pytest.mark.parametrize("info", ["", SMALL_LOG, "durability=node;", "flush=drain;"])
def test_what_a_program_stages_and_a_server_writes_equals_native(info, tmp_path, server):
    for lines in (MANY_KINDS, AGAIN):
        natively(tmp_path / "native", *lines)
        assert write(server, tmp_path, *lines, info=info) == ""
        assert_same(tmp_path)
    assert_all_served(tmp_path / "here", 2)
    assert client_reasons(tmp_path / "here") == {}
    report = server.end()
    assert "programs that stage their files themselves have had" in report, report
    assert server.left() == left(tmp_path / "here") == [] and server.files() == []


def test_over_tcp(tmp_path):
    with Server(tmp_path, "127.0.0.1:0") as server:
        natively(tmp_path / "native", *MANY_KINDS)
        assert write(server, tmp_path, *MANY_KINDS) == ""
    assert_same(tmp_path)
    assert_all_served(tmp_path / "here", 1)


def test_two_programs_write_files_of_their_own(tmp_path, server):
    lines = [line.replace("x.h5", "y.h5") for line in MANY_KINDS]
    natively(tmp_path / "native", *MANY_KINDS, *lines)
    here = tmp_path / "here"
    here.mkdir()
    variables = draining(server.address, here, SMALL_LOG)
    with Client(here, variables) as one, Client(here, variables) as other:
        for first, second in zip(MANY_KINDS, lines, strict=True):
            one.begin(first)
            other.begin(second)
            assert (one.reply(), other.reply()) == ("ok", "ok"), first
        assert one.end() == other.end() == ""
    assert_same(tmp_path, "x.h5", "y.h5")
    assert_all_served(here, 2)


def test_files_that_are_only_read_ask_no_server(tmp_path):
    natively(tmp_path / "here", *MANY_KINDS)
    reading = ("f = h5py.File('x.h5', 'r')", "assert f['group7'].attrs['number'] == 7", "f.close()")
    assert write(f"unix:{tmp_path}/nobody", tmp_path, *reading) == ""


def test_without_a_server_files_are_staged_and_written_natively(tmp_path):
    natively(tmp_path / "native", *MANY_KINDS)
    said = write(f"unix:{tmp_path}/nobody", tmp_path, *MANY_KINDS)
    assert said.count("\n") == 1 and "files are staged here, and written without it" in said
    assert_same(tmp_path)
    (file,) = counted(tmp_path / "here")
    assert file["staged"] > 0 and file["drained"] > 0 and file["served"] == 0
    assert client_reasons(tmp_path / "here") == {"server": 1}
    with Client(tmp_path / "here", draining(f"unix:{tmp_path}/nobody", tmp_path / "here", "strict=on")) as program:
        assert program.do("f = h5py.File('z.h5', 'w')").startswith("error")
        program.end()
    assert not (tmp_path / "here/z.h5").exists()


def test_a_server_that_has_no_room_is_done_without(tmp_path):
    here = tmp_path / "here"
    natively(tmp_path / "native", *MANY_KINDS)
    here.mkdir()
    with Server(tmp_path, None, "--clients-max", "1") as server:
        with Client(here, draining(server.address, here)) as other:
            other.must("f = h5py.File('other.h5', 'w')")
            said = write(server, tmp_path, *MANY_KINDS)
            assert "--clients-max" in said and said.count("\n") == 1
            other.must("f.close()")
            other.end()
    assert_same(tmp_path)


@pytest.mark.parametrize("again", [False, True])
def test_a_server_that_is_killed_is_replaced_or_done_without(again, tmp_path, server):
    natively(tmp_path / "native", *MANY_KINDS)
    here = tmp_path / "here"
    here.mkdir()
    # After such a flush nothing drains, until the next server is there.
    with Client(here, draining(server.address, here, SMALL_LOG + "flush=drain;" * again)) as program:
        program.must(*MANY_KINDS[:5], "f.flush()")
        server.end(signal.SIGKILL)
        if again:
            server.start()
        program.must(*MANY_KINDS[5:])
        said = program.end()
    assert_same(tmp_path)
    (file,) = counted(here)
    assert file["staged"] > 0 and file["served"] > 0
    if again:
        assert said == ""
        assert file["served"] >= file["drained"]
    else:
        assert said.count("\n") == 1 and "is written directly from now on" in said
        assert file["served"] < file["drained"]
    assert left(here) == []


def test_a_server_that_stands_still_is_waited_for(tmp_path, server):
    natively(tmp_path / "native", *MANY_KINDS)
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, draining(server.address, here)) as program:
        program.must(*MANY_KINDS[:4])
        server.process.send_signal(signal.SIGSTOP)
        program.must(*MANY_KINDS[4:-1])  # all of it is in the log
        program.begin(MANY_KINDS[-1])
        assert not (here / "client.jsonl").exists()
        server.process.send_signal(signal.SIGCONT)
        assert program.reply() == "ok"
        assert program.end() == ""
    assert_same(tmp_path)
    assert_all_served(here, 1)


def test_a_server_that_stands_still_for_too_long_leaves_all_in_the_log(tmp_path, server):
    here = tmp_path / "here"
    natively(tmp_path / "native", *FLUSHED, "f.close()")
    here.mkdir()
    with Client(here, draining(server.address, here, "patience=1")) as program:
        program.must(FLUSHED[0])
        server.process.send_signal(signal.SIGSTOP)
        program.must(*FLUSHED[1:])
        said = program.do("f.close()")
        assert said.startswith("error") and left(here) != [], said
        program.end()
    # What the server has got is in the file once it goes on, and recovery waits for that.
    server.process.send_signal(signal.SIGCONT)
    done = recover(here)
    assert done.returncode == 0, done
    assert_same(tmp_path)


def recover(here: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [command(), "recover", "--nls", here / "area"], env=native(), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("how", ["recover", "next open"])
def test_a_program_that_dies_leaves_its_last_flush(how, tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, draining(server.address, here)) as program:
        program.must(*FLUSHED, *UNFLUSHED)
        program.kill()
    if how == "recover":
        done = recover(here)
        assert done.returncode == 0, done
        assert (here / "x.h5").read_bytes() == committed_bytes(tmp_path)
    else:
        write(server, tmp_path, "f = h5py.File('x.h5', 'r+')", "f['z'] = 3", "assert 'y' not in f", "f.close()")
    assert left(here) == []


# Rewrites one place after the other, and flushes each time: what the server is at when the program dies is older than
# what recovery writes.
REWRITES = """
f = h5py.File('x.h5', 'w'); f['x'] = np.zeros(200_000); f.flush(); print('begins', flush=True)
for i in range(1, 100_000):
    f['x'][:] = i; f.flush(); print(i, flush=True)
"""


def test_a_program_killed_at_any_instant_is_recovered(tmp_path, server):
    here = tmp_path / "here"
    for turn in range(8):
        here.mkdir(exist_ok=True)
        with Client(here, draining(server.address, here, "size=8MiB;segment=256KiB;reserve=0;")) as program:
            program.begin("exec(" + repr(REWRITES) + ")")
            assert program.reply() == "begins"
            flushed = [program.reply() for _ in range(1 + 5 * turn)][-1]
            program.process.kill()
            rest = program.process.stdout.read()
            flushed = int((rest.split() or [flushed])[-1])
        done = recover(here)
        assert done.returncode == 0, done
        code = (
            "import h5py; v = h5py.File('x.h5')['x'][:]; "
            f"assert len(set(v)) == 1 and v[0] in ({flushed}, {flushed + 1}), (set(v), {flushed})"
        )
        checked = subprocess.run([sys.executable, "-c", code], cwd=here, env=native(), capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr


_usable, _reason = available()


@pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
@pytest.mark.parametrize("cause", ["ENOSPC", "EIO"])
def test_a_target_that_fails_behind_the_server_reaches_the_program(cause, tmp_path, server):
    here = tmp_path / "here"
    (here / "target").mkdir(parents=True)
    natively(tmp_path / "native", *(line.replace("target/", "") for line in MANY_KINDS))
    lines = [line.replace("x.h5", "target/x.h5") for line in MANY_KINDS]
    (tmp_path / "backing").mkdir()
    with SlowFS(tmp_path / "backing", here / "target") as fs, Client(here, draining(server.address, here)) as program:
        program.must(*lines[:3])
        fs.fault(f"op=write,errno={cause},offset=1000000..")
        said = [program.do(line) for line in lines[3:]]
        assert any(line.startswith("error") for line in said) and left(here) != [], said
        program.end()
        fs.clear()
        done = recover(here)
        assert done.returncode == 0, done
    assert left(here) == []


def test_what_a_dead_server_has_left_comes_first(tmp_path):
    """A file that was forwarded to it, and is drained through its successor."""
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path) as server:
        with Client(here, through(server.address, here, "patience=1")) as program:
            program.must(*FLUSHED)
            server.end(signal.SIGKILL)
            program.kill()
        server.start()
        write(server, tmp_path, "f = h5py.File('x.h5', 'r+')", "assert f['x'][99_999] == 99_999", "f.close()")


@pytest.mark.parametrize("mode", ["none", "drain", "forward"])
def test_who_empties_a_file_waits_for_a_server_that_still_writes_it(mode, tmp_path):
    """For a client that has died; this program reaches no server."""
    here, nobody = tmp_path / "here", f"unix:{tmp_path}/nobody"
    natively(here, *MANY_KINDS[:3], "f.close()")
    natively(tmp_path / "native", *MANY_KINDS)
    variables = through(nobody, here) if mode == "forward" else draining(nobody, here)
    if mode == "none":
        variables = staged(here)
    writing = LastWrite(here / "x.h5")
    with Client(here, variables) as program:
        program.must("pass")  # it has started
        program.begin(MANY_KINDS[0])
        waited = program.waits()
        writing.end()
        assert program.reply() == "ok"
        program.must(*MANY_KINDS[1:])
        program.end()
    assert waited
    assert_same(tmp_path)


def test_a_file_that_a_server_goes_on_writing_is_not_emptied(tmp_path, server):
    here = tmp_path / "here"
    natively(here, *MANY_KINDS[:3], "f.close()")
    before = (here / "x.h5").read_bytes()
    writing = LastWrite(here / "x.h5")
    with Client(here, draining(server.address, here)) as program:
        said = program.do(MANY_KINDS[0])
        assert said.startswith("error") and "a staging server still writes it" in said, said
        assert (here / "x.h5").read_bytes() == before
        writing.end()
        program.must(*MANY_KINDS)
        assert program.end() == ""
    natively(tmp_path / "native", *MANY_KINDS)
    assert_same(tmp_path)


# It outlives its parent, and has of it what it can have.
FORKS = """
import time
child = os.fork()
if child == 0:
    for number in range(3): os.close(number)
    time.sleep(30)
    open("child has ended", "w").close()
    os._exit(0)
"""


@pytest.mark.parametrize("listen", ["unix", "tcp"])
@pytest.mark.parametrize("mode", ["drain", "forward"])
def test_a_forked_child_does_not_keep_its_parents_file(mode, listen, tmp_path):
    """The server learns of the parent's death, ends what it has of it, and brings its file to the last flush."""
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path, "127.0.0.1:0" if listen == "tcp" else None) as server:
        variables = draining(server.address, here) if mode == "drain" else through(server.address, here)
        with Client(here, variables) as program:
            program.must("import os", FLUSHED[0], "exec(" + repr(FORKS) + ")", *FLUSHED[1:], *UNFLUSHED)
            program.must("open('child', 'w').write(str(child))")
            program.kill()
        child = int((here / "child").read_text())
        if mode == "drain":
            LastWrite.await_end(here / "x.h5")
        else:
            server.report("its client ended without closing it")
        assert not (here / "child has ended").exists()
        ended = os.pidfd_open(child)
        os.kill(child, signal.SIGKILL)
        select.select([ended], [], [], 60)
        os.close(ended)
        if mode == "drain":  # it had its parent's lock of the file, as natively
            done = recover(here)
            assert done.returncode == 0, done
    assert (here / "x.h5").read_bytes() == committed_bytes(tmp_path)
