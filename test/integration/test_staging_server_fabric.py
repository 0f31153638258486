"""Large requests that go through libfabric to a staging server on another machine.

The machines are network namespaces, so the provider is one over TCP. The server counts what came and went that way.
"""

import os
import re
import signal

import pytest
from forebay.slowfs import available
from server_environment import Client, Server, natively, through

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

SETTING = ("-o", "server_bulk=fabric")
MIB = 1 << 20
# 32 rows of 1 MiB; the first 3 to 4 go through the connection.
BEGIN = ("f = h5py.File('x.h5', 'w')", "d = f.create_dataset('d', (64, 131072), 'f8')", "f.flush()")
ROWS = ("for i in range(32): d[i] = np.arange(131072) * i + i",)
FEW = ("for i in range(8): d[i] = np.arange(131072) - i",)
MORE = ("for i in range(16, 48): d[i] = np.arange(131072) + i",)
END = ("d[3, 5:9] = 1", "f.close()")


@pytest.fixture
def server(machines, tmp_path):
    with Server(tmp_path / "server", f"{machines.address}:0", *SETTING, on=machines.first) as running:
        yield running


def client(machines, server, target, info="server_bulk=fabric"):
    return Client(target, through(server.address, target.parent / "client", info), on=machines.second)


def moved(report: str) -> tuple[int, int, int]:
    """MiB that came, MiB that went, and clients that could not, of the server's last words."""
    words = r"through libfabric came ([\d.]+) (\w+) and went ([\d.]+) (\w+); (\d+) clients"
    came, came_unit, went, went_unit, refused = re.search(words, report).groups()
    units = {"B": 0, "KiB": 0, "MiB": 1, "GiB": 1024}
    return int(float(came) * units[came_unit]), int(float(went) * units[went_unit]), int(refused)


def skip_without_libfabric(said: str) -> None:
    for reason in ("libfabric.so.1 is needed", "this build has no libfabric", "no provider fits"):
        if reason in said:
            pytest.skip(said.strip())


def is_as_native(target, folder, *lines):
    natively(folder / "native", *lines)
    assert (target / "x.h5").read_bytes() == (folder / "native/x.h5").read_bytes()


def test_rows_of_a_file_go_and_come_through_libfabric(machines, server, target, tmp_path):
    with client(machines, server, target) as program:
        program.must(*BEGIN, *ROWS, "assert (d[31] == np.arange(131072) * 31 + 31).all()", *END)
        program.must("g = h5py.File('x.h5', 'r')", "assert (g['d'][7] == np.arange(131072) * 7 + 7).all()")
        said = program.end()
    skip_without_libfabric(said)
    assert said == ""
    is_as_native(target, tmp_path, *BEGIN, *ROWS, *END)
    came, went, refused = moved(server.end())
    assert 27 <= came <= 29 and went == 1 and refused == 0


def test_a_reader_beside_the_writer_reads_through_libfabric(machines, server, target):
    with client(machines, server, target) as writer, client(machines, server, target) as reader:
        writer.must(*BEGIN, *ROWS, "f.flush()")
        reader.must("g = h5py.File('x.h5', 'r')")
        writer.must(*MORE)
        reader.must("for i in range(32): assert (g['d'][i] == np.arange(131072) * i + i).all()")
        writer.must(*END)
        said = reader.end() + writer.end()
    skip_without_libfabric(said)
    assert said == ""
    came, went, refused = moved(server.end())
    assert came >= 58 and 27 <= went <= 29 and refused == 0


def test_a_server_without_the_option_is_written_to_through_the_connection(machines, target, tmp_path):
    with Server(tmp_path / "server", f"{machines.address}:0", on=machines.first) as server:
        with client(machines, server, target) as program:
            program.must(*BEGIN, *ROWS, *END)
            said = program.end()
        skip_without_libfabric(said)
        assert said.count("large requests go through the connection") == 1 and said.count("\n") == 1
        is_as_native(target, tmp_path, *BEGIN, *ROWS, *END)
        assert "libfabric" not in server.end()


def test_a_program_without_the_option_never_loads_it(machines, server, target):
    with client(machines, server, target, "") as program:
        program.must(*BEGIN, *ROWS, *END, "assert 'libfabric' not in open('/proc/self/maps').read()")
        assert program.end() == ""
    assert "libfabric" not in server.end()


def test_libfabric_does_not_take_the_program_s_signals(machines, server, target):
    interrupted = r"exec('try:\n os.kill(os.getpid(), 2)\n time.sleep(60)\nexcept KeyboardInterrupt:\n caught = True')"
    with client(machines, server, target) as program:
        # Where SIGINT is ignored, as in a shell's background, Python leaves it so.
        program.must("import os, signal, time", "_ = signal.signal(signal.SIGINT, signal.default_int_handler)")
        program.must(*BEGIN, *ROWS)
        program.must("in_use = 'libfabric' in open('/proc/self/maps').read()", interrupted, "assert caught")
        program.must(*END)
        skip_without_libfabric(program.end())
    assert moved(server.end())[0] >= 27


def test_a_restarted_server_is_written_to_through_libfabric_again(machines, server, target, tmp_path):
    with client(machines, server, target) as program:
        program.must(*BEGIN, *ROWS, "f.flush()", *FEW)
        server.end(signal.SIGKILL)
        server.listen = server.address
        server.start()
        program.must("f.flush()", *MORE, *END)
        said = program.end()
    skip_without_libfabric(said)
    is_as_native(target, tmp_path, *BEGIN, *ROWS, "f.flush()", *FEW, "f.flush()", *MORE, *END)
    came, _, refused = moved(server.end())
    assert 27 <= came <= 29 and refused == 0


@pytest.mark.parametrize("stopped", [False, True])
def test_a_program_that_is_killed_while_it_is_read_from_leaves_its_last_flush(machines, server, target, stopped):
    """Stopped first: its end of libfabric does not answer, and the server waits for it until it dies."""
    with client(machines, server, target) as other, client(machines, server, target) as program:
        program.must(*BEGIN, *ROWS, "f.flush()", "import os")
        # `Client` knows the command that starts it on its machine, and not the program's process.
        pid = int(program.do("raise Exception(os.getpid())").removeprefix("error "))
        program.begin("while True: d[0] = np.ones(131072)")
        other.must("f = h5py.File('y.h5', 'w')", "d = f.create_dataset('d', (64, 131072), 'f8')", *ROWS)
        os.kill(pid, signal.SIGSTOP if stopped else signal.SIGKILL)
        if stopped:
            other.must(*MORE)
            os.kill(pid, signal.SIGKILL)
        assert "its client ended without closing it" in server.report("x.h5")
        other.must(*MORE, *END)
        skip_without_libfabric(other.end())
    natively(
        target.parent,
        f"d = h5py.File('{target}/x.h5', 'r')['d']",
        "for i in range(32): assert (d[i] == np.arange(131072) * i + i).all()",
        f"d = h5py.File('{target}/y.h5', 'r')['d']",
        "for i in range(16, 48): assert (d[i] == np.arange(131072) + i).all()",
    )
    assert moved(server.end())[0] >= 27 + 28 + 32


# As a daemon does, or a launcher: and what it opens next gets the numbers.
CLOSES = """
import os, socket, stat
os.closerange(3, 4096)
taken = [socket.socketpair() for i in range(50)]
def facts(number): return os.fstat(number).st_ino, os.get_blocking(number)
ours = {one.fileno(): facts(one.fileno()) for pair in taken for one in pair}
def harmed():
    found = []
    for number, was in ours.items():
        try:
            if facts(number) != was: found.append((number, 'another one'))
            else: found.append((number, socket.socket(fileno=os.dup(number)).recv(100, socket.MSG_DONTWAIT)))
        except BlockingIOError: pass
        except OSError as error: found.append((number, error))
    return found
"""


def test_a_program_that_closes_descriptors_it_does_not_know_keeps_its_own(machines, server, target, tmp_path):
    closes = "exec(" + repr(CLOSES) + ")"
    with client(machines, server, target) as program:
        program.must(*BEGIN, *ROWS, "f.flush()", closes, *FEW, "f.flush()", *END)
        unharmed = program.do("assert not harmed(), harmed()")
        said = program.end()
    skip_without_libfabric(said)
    assert unharmed == "ok"
    is_as_native(target, tmp_path, *BEGIN, *ROWS, "f.flush()", *FEW, "f.flush()", *END)
    assert moved(server.end())[0] >= 27
