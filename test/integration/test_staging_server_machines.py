"""A staging server on another machine: programs prove that they have its key, and all their frames are sealed.

The machines are network namespaces; the files are on a slowfs mount that both have, as a parallel file system is.
"""

import socket
import subprocess

import pytest
from connector_environment import native
from forebay.slowfs import SlowFS, available
from server_environment import Client, client_reasons, command, natively, through
from test_staging_server import AGAIN, MANY_KINDS

_usable, _reason = available()
pytestmark = [pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}"), pytest.mark.slow]


@pytest.fixture
def target(tmp_path):
    for folder in ("backing", "target", "client", "other-backing", "other"):
        (tmp_path / folder).mkdir()
    with SlowFS(tmp_path / "backing", tmp_path / "target"), SlowFS(tmp_path / "other-backing", tmp_path / "other"):
        yield tmp_path / "target"


def run_through(machines, server, target, folder, *lines):
    with Client(target, through(server.address, folder), on=machines.second) as program:
        program.must(*lines)
        return program.end()


@pytest.mark.check
def test_stages_what_a_program_on_another_machine_writes(machines, server, target, tmp_path):
    for lines in (MANY_KINDS, AGAIN):
        natively(tmp_path / "native", *lines)
        assert run_through(machines, server, target, tmp_path / "client", *lines) == ""
        assert (target / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    assert client_reasons(tmp_path / "client") == {"forwarded": 2}
    assert len(server.files()) == 2
    for file in server.files():
        assert file["staged"] > 0 and file["commits"] > 0 and file["reasons"] == [], file
    server.end()
    assert server.left() == []


def test_a_program_that_is_killed_leaves_its_last_flush(machines, server, target, tmp_path):
    with Client(target, through(server.address, tmp_path / "client"), on=machines.second) as program:
        program.must(
            "f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(100_000)", "f.flush()", "f['x'][...] = 1", "f['y'] = 2"
        )
        program.kill()
    assert "its client ended without closing it" in server.report("x.h5")
    natively(tmp_path, f"f = h5py.File('{target}/x.h5', 'r')", "assert (f['x'][...] == np.arange(100_000)).all()")


def test_a_restarted_server_takes_the_program_back(machines, server, target, tmp_path):
    with Client(target, through(server.address, tmp_path / "client"), on=machines.second) as program:
        program.must("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(100_000)", "f.flush()", "f['y'] = np.ones(9)")
        server.end(9)
        server.listen = server.address
        server.start()
        program.must("f['z'] = np.arange(50_000.0)", "f.close()")
        assert program.end() == ""
    natively(
        tmp_path / "native",
        *("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(100_000)", "f.flush()", "f['y'] = np.ones(9)"),
        *("f['z'] = np.arange(50_000.0)", "f.close()"),
    )
    assert (target / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()


def test_a_server_with_an_emptied_staging_area_does_not_take_the_program_back(machines, server, target, tmp_path):
    with Client(target, through(server.address, tmp_path / "client"), on=machines.second) as program:
        program.must("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(100_000)", "f.flush()")
        server.end(9)
        server.area.rename(tmp_path / "lost")
        server.area.mkdir()
        server.listen = server.address
        server.start()
        said = program.do("f['y'] = np.ones(9); f.flush()")
        assert "may be elsewhere" in said and "forebay recover" in said, said
        assert program.do("f.close()").startswith("error")
        program.end()
    subprocess.run([command(), "recover", "--nls", str(tmp_path / "lost")], env=native(), check=True)
    natively(tmp_path, f"f = h5py.File('{target}/x.h5', 'r')", "assert (f['x'][...] == np.arange(100_000)).all()")


def test_without_a_proof_nobody_gets_in(machines, server, target):
    """A host without the key sends garbage, or a HELLO as on one machine."""
    port = int(server.address.rpartition(":")[2])
    talk = f"""
import socket, sys
with socket.create_connection(("{machines.address}", {port})) as server:
    server.sendall(bytes.fromhex(sys.argv[1]))
    print(server.recv(1000).hex())
"""
    hello = "46425750020001000800000000000000010000000000000025196ac077a5aaa10200020007000000"
    for sent in ("00" * 32, hello):
        answer = subprocess.run(
            [*machines.second, "python3", "-c", talk, sent], capture_output=True, text=True, check=True
        )
        assert answer.stdout == "\n"
        assert "a session ended" in server.report("session")


def test_a_file_on_the_program_s_own_machine_is_left_to_it(machines, server, tmp_path):
    folder = tmp_path / "local"
    folder.mkdir()
    said = run_through(machines, server, folder, tmp_path / "client", *MANY_KINDS)
    assert "it lies on this machine, and the server is another one" in said
    natively(tmp_path / "native", *MANY_KINDS)
    assert (folder / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    assert client_reasons(tmp_path / "client") == {"server": 1}
    assert server.files() == []


def test_another_file_of_that_name_is_not_taken_for_the_program_s(machines, server, target, tmp_path):
    """Another mount of the same name, which only the program's machine has."""
    natively(target, "h5py.File('x.h5', 'w').close()")
    before = (target / "x.h5").read_bytes()
    mount = ["unshare", "--mount", "sh", "-c", f'mount --bind {tmp_path}/other {target} && exec "$@"', "sh"]
    with Client(target, through(server.address, tmp_path / "client"), on=[*machines.second, *mount]) as program:
        program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
        assert "the server finds another file there" in program.end()
    assert (target / "x.h5").read_bytes() == before
    natively(tmp_path, f"assert h5py.File('{tmp_path}/other/x.h5', 'r')['x'][()] == 1")
    assert server.files() == []


@pytest.mark.parametrize("key", ["another", "none", "readable by all"])
def test_without_the_key_new_files_are_written_natively_and_old_ones_are_not(machines, server, target, tmp_path, key):
    natively(target, "h5py.File('old.h5', 'w').close()")
    path = tmp_path / "other.key"
    if key != "none":
        path.write_text("0" * 64 + "\n")
        path.chmod(0o644 if key == "readable by all" else 0o600)
    said = {"another": "its key differs from that of this program", "none": str(path), "readable by all": "chmod 600"}[
        key
    ]
    variables = through(server.address, tmp_path / "client", f"server_key={path};")
    with Client(target, variables, on=machines.second) as program:
        program.must(*MANY_KINDS)
        refused = program.do("h5py.File('old.h5', 'r+')")
        assert said in refused and "end the server and run `forebay recover` there" in refused
        assert said in program.end()
    natively(tmp_path / "native", *MANY_KINDS)
    assert (target / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
    assert run_through(machines, server, target, tmp_path / "client", *AGAIN) == ""


def test_the_server_makes_the_key_and_keeps_it_to_its_user(machines, server, tmp_path):
    key = tmp_path / "server.key"
    made = key.read_text()
    assert key.stat().st_mode & 0o777 == 0o600 and len(bytes.fromhex(made)) == 32
    server.end()
    server.listen = server.address
    server.start()
    assert key.read_text() == made


def test_a_server_with_a_key_that_is_none_does_not_begin(machines, tmp_path):
    (tmp_path / "server.key").write_text("secret\n")
    (tmp_path / "server.key").chmod(0o600)
    refused = subprocess.run(
        [*machines.first, command(), "serve", "--listen", f"{machines.address}:0", "--nls", str(tmp_path)],
        env=native(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode != 0 and "64 hexadecimal digits" in refused.stderr and refused.stdout == ""


def test_a_name_that_nobody_has_is_told(tmp_path):
    unknown = "no-such-host.invalid:5000"
    with pytest.raises(OSError):
        socket.getaddrinfo("no-such-host.invalid", 5000)
    refused = subprocess.run(
        [command(), "serve", "--listen", unknown, "--nls", str(tmp_path)],
        env=native(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert refused.returncode != 0 and unknown in refused.stderr and "no host of this name" in refused.stderr
