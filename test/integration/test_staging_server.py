"""Files that a staging server stages (`forebay serve`, option server) equal those that HDF5 writes natively."""

import contextlib
import random
import signal
import socket
import subprocess

import pytest
from connector_environment import native
from seeds import seeds
from server_environment import Client, Server, client_reasons, command, natively, tcp_address, through

pytestmark = pytest.mark.slow

MANY_KINDS = (
    "f = h5py.File('x.h5', 'w')",
    "rows = np.arange(3_000_000, dtype='f8').reshape(3000, 1000)",
    "f['contiguous'] = rows",
    "c = f.create_dataset('chunked', (3000, 1000), 'f8', chunks=(100, 100), compression='gzip', compression_opts=1)",
    "c[:500] = rows[:500]",
    "f.flush()",
    "f['contiguous'][100:200] = -1",
    "assert (f['contiguous'][90:110, 0] == np.r_[rows[90:100, 0], np.full(10, -1)]).all()",
    "g = f.create_dataset('grows', (0,), 'i4', maxshape=(None,), chunks=(1000,))",
    "for i in range(200): g.resize((i * 50 + 50,)); g[i * 50:] = i",
    "for i in range(300): f.create_group(f'group{i}').attrs['number'] = i",
    "del f['chunked']",
    "f.close()",
)
AGAIN = ("f = h5py.File('x.h5', 'r+')", "f['late'] = np.ones(100_000)", "f['contiguous'][0] = 7", "f.close()")


@pytest.fixture(params=["unix", "tcp"])
def server(request, tmp_path):
    with Server(tmp_path, tcp_address() if request.param == "tcp" else None) as running:
        yield running


def write_through(server, folder, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    with Client(folder, through(server.address, folder)) as program:
        program.must(*lines)
        assert program.end() == ""


@pytest.mark.check
def test_what_is_written_through_a_server_equals_native(tmp_path, server):
    natively(tmp_path / "native", *MANY_KINDS)
    write_through(server, tmp_path / "here", *MANY_KINDS)
    assert (tmp_path / "here/x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    natively(tmp_path / "native", *AGAIN)
    write_through(server, tmp_path / "here", *AGAIN)
    assert (tmp_path / "here/x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    # The server has staged and drained it, and the program nothing. Large writes to a fast target may bypass its log.
    assert len(server.files()) == 2
    for file in server.files():
        assert file["staged"] > 0 and file["drained"] > 0 and file["commits"] > 0 and file["reasons"] == [], file
    assert sum(file["staged"] + file["through"] for file in server.files()) > 24_000_000
    assert client_reasons(tmp_path / "here") == {"forwarded": 2}
    assert not (tmp_path / "here/there-is-none").exists()
    server.end()
    assert server.left() == []


def test_two_programs_write_files_of_their_own(tmp_path, server):
    lines = [line.replace("x.h5", "y.h5") for line in MANY_KINDS]
    natively(tmp_path / "native", *MANY_KINDS, *lines)
    here = tmp_path / "here"
    here.mkdir()
    variables = through(server.address, here)
    with Client(here, variables) as one, Client(here, variables) as other:
        for first, second in zip(MANY_KINDS, lines, strict=True):
            one.begin(first)
            other.begin(second)
            assert (one.reply(), other.reply()) == ("ok", "ok"), first
        assert one.end() == other.end() == ""
    for name in ("x.h5", "y.h5"):
        assert (here / name).read_bytes() == (tmp_path / "native" / name).read_bytes()
    assert all(file["staged"] > 0 for file in server.files()) and len(server.files()) == 2


FLUSHED = ("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(100_000)", "f.flush()")
UNFLUSHED = ("f['x'][:] = 5", "f['y'] = np.ones(1000)", "f.id.get_filesize()")


def committed_bytes(tmp_path):
    """A copy of the file as it is natively after the flush, with the mark of HDF5's that it is open, if any."""
    natively(tmp_path / "native", *FLUSHED, "import shutil; shutil.copy('x.h5', 'flushed.h5')", "f.close()")
    return (tmp_path / "native/flushed.h5").read_bytes()


def test_a_client_that_dies_leaves_its_last_flush(tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as program:
        program.must(*FLUSHED, *UNFLUSHED)
        program.kill()
    assert "its client ended without closing it" in server.report("x.h5")
    assert (here / "x.h5").read_bytes() == committed_bytes(tmp_path)
    # The next one goes on with it.
    write_through(server, here, "f = h5py.File('x.h5', 'r+')", "f['z'] = 3", "assert 'y' not in f", "f.close()")
    server.end()
    assert server.left() == []


def test_a_client_that_dies_before_any_flush_leaves_the_file_as_it_was(tmp_path, server):
    here = tmp_path / "here"
    natively(here, "f = h5py.File('x.h5', 'w')", "f['old'] = 1", "f.close()")
    before = (here / "x.h5").read_bytes()
    with Client(here, through(server.address, here)) as program:
        program.must("f = h5py.File('x.h5', 'r+')", "f['new'] = np.arange(1_000_000)", "del f['old']")
        program.kill()
    server.report("x.h5")
    after = (here / "x.h5").read_bytes()
    assert after[:20] + after[21:] == before[:20] + before[21:], "all but HDF5's mark that it was open for writing"


TOO_MUCH = "f['much'] = np.ones(5_000_000)"  # 40 MB: more than is kept for another server


def test_a_program_goes_on_with_the_successor_of_a_killed_server(tmp_path, server):
    natively(tmp_path / "native", *MANY_KINDS)
    here = tmp_path / "here"
    here.mkdir()
    server.listen = server.address
    with Client(here, through(server.address, here)) as program:
        for line in MANY_KINDS:
            server.end(signal.SIGKILL)
            program.begin(line)
            server.start()
            assert program.reply() == "ok", line
        assert program.end() == ""
    assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    server.end()
    assert server.left() == []


def test_a_killed_server_is_an_error_when_too_much_was_lost_and_its_successor_recovers(tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as program:
        program.must(*FLUSHED, *UNFLUSHED, TOO_MUCH)
        assert len(server.left()) == 1
        server.end(signal.SIGKILL)
        assert "does not answer any more" in program.do("f['w'] = np.ones(1_000_000); f.flush()")
        assert program.do("f['x'][0]").startswith("error"), "old bytes of the file"
        program.do("f.close()")
        # An existing file is not opened without its server.
        assert "may have bytes" in program.do("h5py.File('x.h5', 'r+')")
        program.end()
    server.listen = server.address
    server.start()
    assert (here / "x.h5").read_bytes() == committed_bytes(tmp_path)
    write_through(server, here, "f = h5py.File('x.h5', 'r+')", "f['z'] = 3", "assert 'y' not in f", "f.close()")


def test_forebay_recover_does_without_a_server(tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as program:
        program.must(*FLUSHED, *UNFLUSHED)
        assert len(server.left()) == 1
        server.end(signal.SIGKILL)
        program.kill()
    done = subprocess.run([command(), "recover", "--nls", server.area], env=native(), capture_output=True, text=True)
    assert done.returncode == 0, done
    assert (here / "x.h5").read_bytes() == committed_bytes(tmp_path)


def test_a_new_file_is_written_natively_when_no_server_answers(tmp_path):
    lines = ("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(100_000)", "f.close()")
    natively(tmp_path / "native", *lines)
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(f"unix:{tmp_path}/nobody", here)) as program:
        program.must(*lines)
        assert "files are written directly, unstaged" in program.end()
    assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    assert client_reasons(here) == {"server": 1}
    with Client(here, through(f"unix:{tmp_path}/nobody", here, "strict=on")) as program:
        assert "unix:" in program.do("h5py.File('y.h5', 'w')")


def test_the_end_waits_for_files_that_are_open(tmp_path, server):
    natively(tmp_path / "native", *MANY_KINDS)
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as program:
        program.must(*MANY_KINDS[:3])
        server.process.send_signal(signal.SIGTERM)
        server.report("ending")
        program.must(*MANY_KINDS[3:])
        assert program.end() == ""
    server.process.communicate(timeout=120)
    assert server.process.returncode == 0
    assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()


def test_a_client_more_than_there_is_room_for_is_told(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path, None, "--clients-max", "1") as server:
        with Client(here, through(server.address, here)) as program:
            program.must("f = h5py.File('x.h5', 'w')", "g = h5py.File('y.h5', 'w')", "g['y'] = 2", "f['x'] = 1")
            program.must("g.close()", "f.close()")
            assert "--clients-max" in program.end()
        assert [file["path"] for file in server.files()] == [f"{here}/x.h5"]
    assert client_reasons(here) == {"forwarded": 1, "server": 1}


def test_a_program_that_asks_for_addresses_finds_its_bytes_there(tmp_path, server):
    write_through(
        server,
        tmp_path / "here",
        "f = h5py.File('x.h5', 'w')",
        "d = f.create_dataset('x', data=np.arange(100_000))",
        "at = d.id.get_offset()",
        "there = lambda: np.fromfile('x.h5', 'i8', 100_000, offset=at)",
        "assert (there() == np.arange(100_000)).all()",
        "d[:] = 7",
        "assert (there() == 7).all()",
        "f.close()",
    )


def test_a_report_that_cannot_be_written_ends_nothing(tmp_path):
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(
            [command(), "serve", "--listen", f"unix:{tmp_path}/socket", "--nls", tmp_path],
            env=native(),
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
        )
    try:
        address = process.stdout.readline().split()[-1]
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as garbage:
                garbage.connect(f"{tmp_path}/socket")
                garbage.sendall(b"x" * 100)
                assert garbage.recv(100) == b""
        with Client(tmp_path, through(address, tmp_path)) as program:
            program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
            assert program.end() == ""
        assert client_reasons(tmp_path) == {"forwarded": 1}
    finally:
        process.terminate()
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n" * 4, b"\0" * 64, b"FBWP" + b"\xff" * 60])
def test_garbage_ends_its_session_and_no_other(tmp_path, server, first):
    host, port = server.address.rsplit(":", 1)
    unix = server.address.startswith("unix:")
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as garbage:
        garbage.connect(server.address[5:] if unix else (host, int(port)))
        garbage.sendall(first)
        with contextlib.suppress(ConnectionResetError):
            assert garbage.recv(100) == b""
    write_through(server, tmp_path / "here", "f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
    assert len(server.files()) == 1


def test_what_is_no_address_is_not_listened_at(tmp_path):
    for address in ("nonsense", "unix:relative", ":5000", "127.0.0.1:", "127.0.0.1:70000"):
        ran = subprocess.run(
            [command(), "serve", "--listen", address, "--nls", tmp_path], env=native(), capture_output=True, text=True
        )
        assert ran.returncode == 2 and address in ran.stderr, ran


def test_a_program_goes_on_without_a_server_that_does_not_come_back(tmp_path, server):
    natively(tmp_path / "native", *MANY_KINDS, *AGAIN)
    for at in (0, 1, 4, 6, 9, len(MANY_KINDS) - 1):
        here = tmp_path / f"here{at}"
        here.mkdir()
        with Client(here, through(server.address, here, "patience=1")) as program:
            program.must(*MANY_KINDS[:at])
            server.end(signal.SIGKILL)
            program.must(*MANY_KINDS[at:], "f = None")
            errors = program.end()
        # Before the first line nothing was there to be brought home, and after the last one nothing is open.
        assert ("is written directly from now on" in errors) == (0 < at), errors
        assert ("files are written directly, unstaged" in errors) == (at == 0), errors
        assert server.left() == []
        server.listen = server.address
        server.start()
        # The next program, through the next server.
        write_through(server, here, *AGAIN)
        assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes(), at


def test_a_server_is_killed_again_and_again_at_any_instant(tmp_path, server):
    """Its successor goes on, or none comes and the program does."""
    natively(tmp_path / "native", *MANY_KINDS)
    server.listen = server.address
    for seed in seeds("server killed", 4):
        chance = random.Random(seed)
        here = tmp_path / f"here{seed}"
        here.mkdir()
        comes_back = chance.random() < 0.7
        with Client(here, through(server.address, here, "patience=600" if comes_back else "patience=1")) as program:
            program.must(MANY_KINDS[0])
            for line in MANY_KINDS[1:]:
                program.begin(line)
                if server.process.poll() is None and chance.random() < 0.6:
                    for _ in range(chance.randrange(200_000)):  # some time, which nothing depends on
                        pass
                    server.end(signal.SIGKILL)
                    if comes_back:
                        server.start()
                assert program.reply() == "ok", (seed, line)
            program.end()
        assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes(), seed
        if server.process.poll() is not None:
            server.start()
    server.end()
    assert server.left() == []


# Ends the connections of the program, whatever the other side does.
CUT = """
import contextlib, os, socket
for number in os.listdir("/proc/self/fd"):
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
            socket.socket(fileno=os.dup(int(number))).shutdown(socket.SHUT_RDWR)
"""


def test_a_server_that_is_stopped_is_not_written_around(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path) as server, Client(here, through(server.address, here, "patience=1")) as program:
        program.must(*FLUSHED, "f['x'][:] = 5", "f.id.get_filesize()")
        # It may go on at any time, and drain what it has. Nobody finds it any more, and the connection breaks.
        server.process.send_signal(signal.SIGSTOP)
        (tmp_path / "socket").rename(tmp_path / "elsewhere")
        program.must(f"exec({CUT!r})")
        said = program.do("f['y'] = np.ones(1_000_000); f.flush()")
        assert "its process is still alive" in said, said
        program.do("f.close()")
        program.end()
        server.process.send_signal(signal.SIGCONT)
        server.report("x.h5")
        assert (here / "x.h5").read_bytes() == committed_bytes(tmp_path)


def test_a_server_that_has_let_go_of_the_file_is_not_missed(tmp_path):
    lines = (*FLUSHED, "f['y'] = np.ones(1_000_000)", "f.flush()", "f.close()")
    natively(tmp_path / "native", *lines)
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path) as server, Client(here, through(server.address, here, "patience=1")) as program:
        program.must(*FLUSHED)
        (tmp_path / "socket").rename(tmp_path / "elsewhere")
        program.must(f"exec({CUT!r})")
        server.report("x.h5")
        program.must(*lines[len(FLUSHED) :])
        assert "is written directly from now on" in program.end()
        assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()


def test_a_program_that_comes_back_to_a_server_without_room_does_without_at_once(tmp_path):
    """Whatever its patience: that server has brought the file to its last flush, and leaves it to the program."""
    lines = (*FLUSHED, "f['y'] = np.ones(1_000_000); f.flush()", "f.close()")
    natively(tmp_path / "native", *lines)
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path, None, "--clients-max", "1") as server:
        variables = through(server.address, here, "patience=0")  # without end
        with Client(here, variables) as program, Client(here, variables) as other:
            program.must(*FLUSHED)
            server.end(signal.SIGKILL)
            server.start()
            other.must("f = h5py.File('other.h5', 'w')")
            program.begin(lines[-2])
            assert not program.waits(60) and program.reply() == "ok"
            program.must(lines[-1])
            said = program.end()
            other.must("f.close()")
    assert "--clients-max" in said and "is written directly from now on" in said
    assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    assert server.left() == []


def test_a_server_with_another_staging_area_is_no_successor(tmp_path):
    natively(tmp_path / "native", *MANY_KINDS)
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path) as server, Client(here, through(server.address, here)) as program:
        program.must(*MANY_KINDS[:6])
        server.end(signal.SIGKILL)
        server.area = tmp_path / "another-area"
        server.area.mkdir()
        server.start()
        program.must(*MANY_KINDS[6:])
        assert "is written directly from now on" in program.end()
    assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()


def test_a_log_whose_file_system_is_gone_has_not_been_brought_home(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path) as server, Client(here, through(server.address, here, "patience=1")) as program:
        program.must(*FLUSHED, *UNFLUSHED)
        assert len(server.left()) == 1
        server.end(signal.SIGKILL)
        server.area.rename(tmp_path / "unmounted")
        said = program.do("f['z'] = np.ones(1_000_000); f.flush()")
        assert "does not exist any more" in said, said
        program.do("f.close()")
        program.end()
        (tmp_path / "unmounted").rename(server.area)
    done = subprocess.run([command(), "recover", "--nls", server.area], env=native(), capture_output=True, text=True)
    assert done.returncode == 0, done
    assert (here / "x.h5").read_bytes() == committed_bytes(tmp_path)


def test_a_log_that_cannot_be_read_has_not_been_brought_home(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    with Server(tmp_path) as server, Client(here, through(server.address, here, "patience=1")) as program:
        program.must(*FLUSHED, *UNFLUSHED)
        (log,) = server.left()
        server.end(signal.SIGKILL)
        for entry in (next(server.area.glob("forebay-*")) / log).iterdir():
            if entry.is_file() and entry.name != "alive":
                entry.write_bytes(b"\xff" * entry.stat().st_size)
        said = program.do("f['z'] = np.ones(1_000_000); f.flush()")
        assert "cannot be written without its server" in said, said
        program.do("f.close()")
        program.end()


def test_files_have_one_of_several_servers_and_those_of_others_go_on_when_one_dies(tmp_path):
    count = 24
    names = [f"x{i}.h5" for i in range(count)]  # so many that each server has some, whatever their numbers
    begin = [f"f{i} = h5py.File('{name}', 'w')" for i, name in enumerate(names)]
    write = [f"f{i}['x'] = np.arange({i + 1}000)" for i in range(count)] + [f"f{i}.flush()" for i in range(count)]
    rest = [f"f{i}['y'] = np.ones({i + 1}000)" for i in range(count)] + [f"f{i}.close()" for i in range(count)]
    natively(tmp_path / "native", *begin, *write, *rest)
    here = tmp_path / "here"
    here.mkdir()
    room = ("--clients-max", str(count))
    with Server(tmp_path / "a", None, *room) as one, Server(tmp_path / "b", None, *room) as other:
        # Whoever names the same servers finds the same one, in whatever order.
        variables = through(f"{one.address},{other.address}", here, "patience=1")
        reading = through(f"{other.address},{one.address}", here)
        with Client(here, variables) as program, Client(here, reading) as reader:
            program.must(*begin, *write)
            for i, name in enumerate(names):
                reader.must(f"f = h5py.File('{name}', 'r')", f"assert len(f['x']) == {i + 1}000", "f.close()")
            assert reader.end() == ""
            mine, gone = len(other.left()), len(one.left())
            assert mine + gone == count and mine > 0 and gone > 0, (mine, gone)
            one.end(signal.SIGKILL)
            program.must(*rest)
            program.end()
        assert len(other.files()) == mine and all(file["commits"] > 0 for file in other.files())
        assert one.left() == other.left() == []
    for name in names:
        assert (here / name).read_bytes() == (tmp_path / "native" / name).read_bytes(), name
    assert client_reasons(here) == {"forwarded": 2 * count}
