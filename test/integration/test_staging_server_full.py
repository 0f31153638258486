"""A staging server whose device is full: it comes back, and leaves files to their programs until there is room."""

import contextlib
import errno
import signal
import subprocess

import pytest
from mounts import unmount
from server_environment import Client, Server, client_reasons, natively, tcp_address, through

pytestmark = pytest.mark.slow

FLUSHED = ("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(1_000_000)", "f.flush()")
UNFLUSHED = ("f['x'][:] = 5", "f.id.get_filesize()")


class Device:
    """A small one for the server's staging area, which another program fills."""

    def __init__(self, folder):
        self.area = folder / "server-area"
        self.area.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.area)]
        if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            pytest.skip("no file system can be mounted here")

    def fill(self):
        with (self.area / "of-another-program").open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass
            with pytest.raises(OSError) as full:
                file.write(b"x" * 4096)
            assert full.value.errno == errno.ENOSPC

    def empty(self):
        (self.area / "of-another-program").unlink()


@pytest.fixture
def device(tmp_path):
    made = Device(tmp_path)
    yield made
    unmount(made.area)


@pytest.fixture(params=["unix", "tcp"])
def server(request, tmp_path, device):
    address = tcp_address() if request.param == "tcp" else None
    with Server(tmp_path, address, "--size", "64MiB", "--clients-max", "2") as running:
        running.listen = running.address
        yield running


def test_a_server_whose_predecessor_has_filled_the_device_recovers_and_serves(tmp_path, device, server):
    with Client(tmp_path, through(server.address, tmp_path)) as program:
        program.must(*FLUSHED, *UNFLUSHED)
        server.end(signal.SIGKILL)
        program.kill()
    device.fill()
    server.start()
    assert "it is at its last flush" in server.report("x.h5")
    assert server.left() == []
    with Client(tmp_path, through(server.address, tmp_path)) as program:
        program.must("f = h5py.File('x.h5', 'r+')", "assert f['x'][999_999] == 999_999", "f['y'] = 1", "f.close()")
        assert program.end() == ""


def test_a_program_goes_on_with_the_successor_of_a_server_that_had_filled_the_device(tmp_path, device, server):
    rest = ("f['y'] = np.ones(1000)", "f.flush()", "f['x'][:10] = 7", "f.close()")
    natively(tmp_path / "native", *FLUSHED, *UNFLUSHED, *rest)
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as program:
        program.must(*FLUSHED, *UNFLUSHED)
        server.end(signal.SIGKILL)
        device.fill()
        server.start()
        program.must(*rest)
        assert program.end() == ""
    assert (here / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    server.end()
    assert server.left() == []


def test_files_are_written_natively_while_the_device_of_a_server_is_full(tmp_path, device, server):
    natively(tmp_path, *FLUSHED, "f.close()")
    device.fill()
    for restarts in (False, True):
        if restarts:
            server.end()
            server.start()
            server.report("until there is room")
        with Client(tmp_path, through(server.address, tmp_path)) as program:
            program.must("f = h5py.File('x.h5', 'r+')", "f['x'][:] += 1", "f.close()")
            program.must("f = h5py.File('new.h5', 'w')", "f['x'] = 1", "f.close()")
            said = program.end()
            assert "two segments" in said and "files are written directly, unstaged" in said, said
        with Client(tmp_path, through(server.address, tmp_path, "strict=on")) as program:
            assert "two segments" in program.do("h5py.File('x.h5', 'r+')")
    assert server.files() == []
    assert client_reasons(tmp_path) == {"server": 4}
    device.empty()
    with Client(tmp_path, through(server.address, tmp_path)) as program:
        program.must("f = h5py.File('x.h5', 'r+')", "assert f['x'][0] == 2", "f.close()")
        assert program.end() == ""
    assert client_reasons(tmp_path) == {"server": 4, "forwarded": 1}
