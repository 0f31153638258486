"""What becomes of programs and their staging server when the network or a disk between them fails, or many come.

The machines are network namespaces with one wire between them; the files are on a slowfs mount that both have.
"""

import re
import resource
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from forebay.slowfs import SlowFS, available
from mounts import unmount
from server_environment import Client, Server, client_reasons, natively, through
from test_staging_server import FLUSHED, MANY_KINDS
from two_machines import Machines

pytestmark = pytest.mark.slow

_usable, _reason = available()
needs_slowfs = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")
HELLO = bytes.fromhex("46425750020001000800000000000000010000000000000025196ac077a5aaa10200020007000000")


def wire(machines: Machines, state: str) -> None:
    """Cuts the wire at the program's end, or mends it."""
    subprocess.run([*machines.second, "ip", "link", "set", "wire", state], check=True)


WRITTEN = (*FLUSHED, "f['y'] = np.ones(50_000)", "f.flush()", "f['x'][...] = 7", "f.close()")


def written_natively(folder: Path) -> bytes:
    natively(folder, *WRITTEN)
    return (folder / "x.h5").read_bytes()


@needs_slowfs
def test_a_wire_that_is_cut_for_a_moment_is_not_noticed(machines, server, target, tmp_path):
    with Client(target, through(server.address, tmp_path / "client"), on=machines.second) as program:
        program.must(*FLUSHED)
        wire(machines, "down")
        program.begin("f['y'] = np.ones(50_000); f.flush()")
        with pytest.raises(subprocess.TimeoutExpired):
            program.process.wait(timeout=1)  # neither side has given up
        wire(machines, "up")
        assert program.reply() == "ok"
        program.must("f['x'][...] = 7", "f.close()")
        assert program.end() == ""
    assert (target / "x.h5").read_bytes() == written_natively(tmp_path / "native")
    assert client_reasons(tmp_path / "client") == {"forwarded": 1}


@needs_slowfs
def test_a_server_that_dies_behind_a_cut_wire_is_found_out_and_its_successor_goes_on(
    machines, server, target, tmp_path
):
    """The program's end of the connection is half open: nobody tells it that the other one is gone."""
    with Client(target, through(server.address, tmp_path / "client"), on=machines.second) as program:
        program.must(*FLUSHED, "f['y'] = np.ones(50_000)")
        wire(machines, "down")
        server.end(9)
        server.listen = server.address
        server.start()
        wire(machines, "up")
        program.must("f.flush()", "f['x'][...] = 7", "f.close()")
        assert program.end() == ""
    assert (target / "x.h5").read_bytes() == written_natively(tmp_path / "native")


@needs_slowfs
@pytest.mark.slow
def test_a_wire_that_stays_cut_is_told_on_both_sides(machines, server, target, tmp_path):
    """The server brings the file to its last flush, and the program is not told that anything else had been kept."""
    with Client(target, through(server.address, tmp_path / "client", "patience=1;"), on=machines.second) as program:
        program.must(*FLUSHED, "f['x'][...] = 7")
        wire(machines, "down")
        program.begin("f.flush()")
        assert "its client ended without closing it" in server.report("x.h5")
        said = program.reply()
        assert said.startswith("error ") and "does not answer any more" in said and str(server.area) in said, said
        wire(machines, "up")
        assert program.do("f['x'][...] = 8; f.flush()").startswith("error ")
        program.kill()
    natively(tmp_path, f"f = h5py.File('{target}/x.h5', 'r')", "assert (f['x'][...] == np.arange(100_000)).all()")
    with Client(target, through(server.address, tmp_path / "client"), on=machines.second) as program:
        program.must("f = h5py.File('x.h5', 'r+')", "f['x'][...] = 9", "f.close()")
        assert program.end() == ""
    assert server.left() == []


# ---- many, and slow ones ------------------------------------------------------------------------------


def resident_bytes(process: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())[1]) * 1024


def files_may_be_open(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"a process may not have {count} files open here (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


@pytest.mark.slow
def test_two_thousand_sessions_take_little_and_a_program_goes_on_among_them(tmp_path):
    """Half of them say nothing, half of them greet; each claims the longest frame that there is."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    files_may_be_open(2_500)
    longest = bytes.fromhex("4642575001000300")  # an OPEN, as its header would begin
    try:
        with ExitStack() as sessions, Server(tmp_path, None, "--clients-max", "1100") as server:
            before = resident_bytes(server.process.pid)
            for number in range(2_000):
                one = sessions.enter_context(socket.socket(socket.AF_UNIX))
                one.connect(server.address.removeprefix("unix:"))
                one.sendall(HELLO + longest if number % 2 else b"")
            here = tmp_path / "here"
            here.mkdir()
            with Client(here, through(server.address, here)) as program:
                program.must(*WRITTEN)
                assert program.end() == ""
            taken = resident_bytes(server.process.pid) - before
            assert taken < 512 << 20, taken  # 2,000 of the longest frames would be more than 2 GiB
            assert (here / "x.h5").read_bytes() == written_natively(tmp_path / "native")
            assert client_reasons(here) == {"forwarded": 1}
            sessions.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_reader_that_stops_in_the_midst_of_its_reading_holds_up_nobody(tmp_path):
    with Server(tmp_path) as server, Client(tmp_path, through(server.address, tmp_path)) as writer:
        writer.must(*FLUSHED)
        variables = through(server.address, tmp_path)
        with Client(tmp_path, variables) as stopped, Client(tmp_path, variables) as reader:
            for one in (stopped, reader):
                one.must("f = h5py.File('x.h5', 'r')", "assert (f['x'][...] == np.arange(100_000)).all()")
            stopped.begin("while True: f['x'][...]")
            stopped.process.send_signal(signal.SIGSTOP)
            writer.must("f['y'] = np.ones(50_000)", "f.flush()", "f['x'][...] = 7", "f.close()")
            assert writer.end() == ""
            reader.must("assert (f['x'][...] == np.arange(100_000)).all()", "f.close()")
            assert reader.end() == ""
            stopped.kill()
    assert (tmp_path / "x.h5").read_bytes() == written_natively(tmp_path / "native")


# ---- disks --------------------------------------------------------------------------------------------


def test_a_staging_area_without_room_slows_a_program_and_loses_nothing(tmp_path):
    area = tmp_path / "server-area"
    area.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(area)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        (area / "of-somebody-else").write_bytes(bytes(52 << 20))
        natively(tmp_path / "native", *MANY_KINDS)
        with Server(tmp_path, None, "--size", "64MiB", "--clients-max", "1") as server:
            here = tmp_path / "here"
            here.mkdir()
            with Client(here, through(server.address, here)) as program:
                program.must(*MANY_KINDS)
                assert program.end() == ""
            server.end()
            assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
            assert all(file["staged"] > 0 for file in server.files()) and server.files()
    finally:
        unmount(area)


@needs_slowfs
def test_a_file_system_that_fails_is_told_at_the_close_and_what_was_flushed_stays_in_the_log(tmp_path):
    for folder in ("backing", "target", "client"):
        (tmp_path / folder).mkdir()
    with SlowFS(tmp_path / "backing", tmp_path / "target") as fs, Server(tmp_path, None) as server:
        with Client(tmp_path / "target", through(server.address, tmp_path / "client")) as program:
            program.must("f = h5py.File('x.h5', 'w')")
            fs.fault("op=write,errno=EIO")
            program.must("f['x'] = np.arange(100_000)")
            said = [program.do("f.flush()"), program.do("f.close()")]
            assert any(each.startswith("error ") and "Input/output error" in each for each in said), said
            program.kill()
        assert server.left() != []
        fs.clear()
        server.end(9)
        server.start()  # it brings home what its predecessor has left
        server.end()
        assert server.left() == []
    natively(tmp_path, f"f = h5py.File('{tmp_path}/backing/x.h5', 'r')", "assert f['x'][99_999] == 99_999")
