"""A staging server whose client ends while the file system is slow or fails.

Nothing flushed is lost, nobody else gets at the file meanwhile, and nobody waits for a stranger.
"""

import fcntl
import os
import signal
import subprocess
import sys

import pytest
from connector_environment import native
from server_environment import Client, Server, command, natively, tcp_address, through

from forebay.slowfs import SlowFS, available

pytestmark = pytest.mark.slow

_usable, _reason = available()
needs_slowfs = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

WRITE = (
    "f = h5py.File('x.h5', 'w')",
    "for i in range(20): f[f'd{i}'] = np.zeros(100_000)",
    "f.close(); f = h5py.File('x.h5', 'r+')",
    "for i in range(20): f[f'd{i}'][:] = i + 1",
    "f.flush()",
)
CHECK = "with h5py.File('x.h5', 'r') as f: assert [f[f'd{i}'][0] for i in range(20)] == list(range(1, 21))"
LOCKED = "unable to lock file"

# A reader may have the file open natively, and keeps the writer out as ever.
WRITE_AGAIN = """
def write_again(i):
    while True:
        try:
            f = h5py.File("x.h5", "r+")
            break
        except OSError as error:
            assert "unable to lock file" in str(error), error
    f["x"][:] = i
    f.flush()
    f.close()
"""


@pytest.fixture(params=["unix", "tcp"])
def server(request, tmp_path):
    with Server(tmp_path, tcp_address() if request.param == "tcp" else None) as running:
        yield running


@pytest.fixture
def slow(tmp_path):
    (tmp_path / "back").mkdir()
    (tmp_path / "slow").mkdir()
    with SlowFS(tmp_path / "back", tmp_path / "slow", bandwidth="20MiB/s", latency={"write": "300ms"}) as mounted:
        yield mounted


@pytest.mark.check
@needs_slowfs
def test_a_client_that_dies_keeps_others_out_until_the_file_is_at_its_last_flush(tmp_path, server, slow):
    here = slow.mount_point
    with Client(here, through(server.address, tmp_path)) as program:
        program.must(*WRITE)
        program.must("f['d3'][:] = 77", "f.id.get_filesize()")
        program.kill()
    # Natively at once. By TCP there is a moment in which the server does not know yet that its client is gone.
    if server.address.startswith("unix:"):
        with Client(here, native()) as other:
            assert LOCKED in other.do("h5py.File('x.h5', 'r+')")
    # Through the server it waits for that.
    with Client(here, through(server.address, tmp_path)) as next_one:
        next_one.must(CHECK)
        assert "patience" not in next_one.end()
    natively(here, CHECK)
    server.end()
    assert server.left() == []


@needs_slowfs
def test_a_file_system_that_fails_is_reported_and_what_it_has_not_taken_is_brought_home_later(tmp_path, server, slow):
    here = slow.mount_point
    with Client(here, through(server.address, tmp_path)) as program:
        program.must("f = h5py.File('x.h5', 'w')")
        slow.fault("op=write,errno=EIO")
        program.do("f['x'] = np.arange(1_000_000)")
        program.do("f.flush()")
        assert "error" in program.do("import time; time.sleep(2); f.flush()")
        program.must("assert (f['x'][:] == np.arange(1_000_000)).all()", "f['y'] = np.ones(1000)")
        program.must("assert f['y'][999] == 1")
        assert "error" in program.do("f.close()")
        # As a file that the program has staged itself: it can read it, and nobody else can write it.
        program.must("with h5py.File('x.h5', 'r') as g: assert g['y'][0] == 1 and g['x'][999_999] == 999_999")
        with Client(here, native()) as other:
            assert LOCKED in other.do("h5py.File('x.h5', 'r+')")
        slow.clear()
        program.end()
    server.end()
    natively(here, "f = h5py.File('x.h5', 'r')", "assert (f['x'][:] == np.arange(1_000_000)).all() and f['y'][0] == 1")
    assert server.left() == []


def test_a_reader_that_comes_as_the_writer_closes_is_not_refused(tmp_path, server):
    natively(tmp_path, "with h5py.File('x.h5', 'w') as f: f['x'] = np.zeros(1000)")
    variables = through(server.address, tmp_path)
    with Client(tmp_path, variables) as writer, Client(tmp_path, variables) as reader:
        writer.must(f"exec({WRITE_AGAIN!r})")
        writer.begin("for i in range(40): write_again(i)")
        reader.begin("for i in range(200): h5py.File('x.h5', 'r').close()")
        assert (reader.reply(), writer.reply()) == ("ok", "ok")


FLUSHED = ("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(1_000_000)", "f.flush()")


def test_after_a_restart_no_reader_gets_a_file_that_could_not_be_recovered(tmp_path, server):
    with Client(tmp_path, through(server.address, tmp_path)) as program:
        program.must(*FLUSHED)
        server.end(signal.SIGKILL)
        program.kill()
    # HDF5 would read a copy natively. It is in the place of the file.
    natively(tmp_path, "with h5py.File('copy.h5', 'w') as f: f['x'] = np.zeros(10)")
    (tmp_path / "x.h5").write_bytes((tmp_path / "copy.h5").read_bytes())
    server.listen = server.address
    server.start()
    assert "x.h5" in server.report("an earlier process staged it")
    with Client(tmp_path, through(server.address, tmp_path)) as reader:
        said = reader.do("h5py.File('x.h5', 'r')")
        assert "cannot be recovered" in said, said
        discard = [command(), "discard", "-y", "--nls", str(server.area), str(tmp_path / "x.h5")]
        subprocess.run(discard, env=native(), check=True)
        reader.must("with h5py.File('x.h5', 'r') as f: assert len(f['x']) == 10")


def killed_with_its_program(tmp_path, server):
    """The server is killed, and its log has what the program has flushed. Its next start is at the same address."""
    with Client(tmp_path, through(server.address, tmp_path)) as program:
        program.must(*FLUSHED, "f['x'][:] = 5", "f.id.get_filesize()")
        server.end(signal.SIGKILL)
        program.kill()
    assert len(server.left()) == 1
    server.listen = server.address


def locked(path):
    """As HDF5 locks a file that it writes; until this is closed."""
    file = path.open("r+b")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def test_bytes_that_a_server_could_not_recover_show_in_its_exit_status(tmp_path, server):
    killed_with_its_program(tmp_path, server)
    (tmp_path / "x.h5").write_bytes(b"of another program")
    server.start()
    said = server.end(status=1)
    assert (
        "x.h5: its log was left in the staging area" in said and "may have bytes that are not in their files" in said
    ), said
    # Another process removes the log while the server runs.
    server.start()
    discard = [command(), "discard", "-y", "--nls", str(server.area), str(tmp_path / "x.h5")]
    subprocess.run(discard, env=native(), check=True)
    assert "bytes that are not in their files" not in server.end()


def damage_log(server):
    (name,) = server.left()
    for entry in (next(server.area.glob("forebay-*")) / name).iterdir():
        with entry.open("r+b") as file:
            file.write(b"\xff" * entry.stat().st_size)
    return name


def test_a_log_that_a_server_cannot_read_shows_in_its_exit_status(tmp_path, server):
    killed_with_its_program(tmp_path, server)
    name = damage_log(server)
    server.start()
    said = server.end(status=1)
    assert f"{name}: left alone" in said and "may have bytes that are not in their files" in said, said


def test_a_file_that_could_be_recovered_only_later_is_recovered_at_the_end(tmp_path, server):
    killed_with_its_program(tmp_path, server)
    with locked(tmp_path / "x.h5"):
        server.start()
    assert len(server.left()) == 1
    assert "it is at its last flush" in server.end()
    assert server.left() == []
    natively(tmp_path, "f = h5py.File('x.h5', 'r')", "assert (f['x'][:] == np.arange(1_000_000)).all()")


def test_a_file_that_another_process_has_locked_at_the_end_shows_in_the_exit_status(tmp_path, server):
    variables = through(server.address, tmp_path, HDF5_USE_FILE_LOCKING="FALSE")
    with Client(tmp_path, variables) as program:
        program.must(*FLUSHED, "f['x'][:] = 5", "f.id.get_filesize()")
        with locked(tmp_path / "x.h5"):
            program.kill()
            server.report("another process has it locked")
            said = server.end(status=1)
    assert "x.h5" in said and "may have bytes that are not in their files" in said, said
    assert len(server.left()) == 1


def test_a_program_does_not_go_on_alone_after_another_one_has_written_the_file(tmp_path, server):
    server.listen = server.address
    variables = through(server.address, tmp_path, "patience=1", HDF5_USE_FILE_LOCKING="FALSE")
    with Client(tmp_path, variables) as program, Client(tmp_path, variables) as other:
        program.must(*FLUSHED)
        server.end(signal.SIGKILL)
        server.start()
        other.must("f = h5py.File('x.h5', 'r+')", "f['x'][:] = 7", "f.close()")
        server.end(signal.SIGKILL)
        said = program.do("f['x'][:] = 8; f.flush()")
        assert "wrote it last" in said, said
        assert program.do("f.close()").startswith("error")
    natively(tmp_path, "f = h5py.File('x.h5', 'r')", "assert (f['x'][:] == 7).all()")


def test_what_recovery_says_at_an_open_is_reported(tmp_path, server):
    server.listen = server.address
    with Client(tmp_path, through(server.address, tmp_path)) as program:
        program.must(*FLUSHED)
        server.end(signal.SIGKILL)
        server.start()
        program.must("f['y'] = 1", "f.close()")
    assert "x.h5: a process that died had staged bytes of it; it is at its last flush now" in server.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("address", ["unix", "tcp"])
def test_a_stranger_at_the_servers_address_is_not_waited_for(tmp_path, address):
    """He has taken it, and says nothing."""
    squatter = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, socket, sys, time\n"
            "if sys.argv[1] == 'tcp': os.setuid(65534)\n"
            "s = socket.socket(socket.AF_UNIX if sys.argv[1] == 'unix' else socket.AF_INET)\n"
            "s.bind(sys.argv[2] if sys.argv[1] == 'unix' else ('127.0.0.1', 0))\n"
            "if sys.argv[1] == 'unix': os.setuid(65534)\n"
            "s.listen(5)\n"
            "print(s.getsockname()[1] if sys.argv[1] == 'tcp' else '', flush=True); time.sleep(600)",
            address,
            str(tmp_path / "socket"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = squatter.stdout.readline().strip()
        where = f"unix:{tmp_path}/socket" if address == "unix" else f"127.0.0.1:{port}"
        with Client(tmp_path, through(where, tmp_path, "patience=600")) as program:
            program.begin("h5py.File('x.h5', 'w').close()")
            assert not program.waits(60) and program.reply() == "ok"
            assert "belongs to user 65534" in program.end()
    finally:
        squatter.kill()
        squatter.wait()
