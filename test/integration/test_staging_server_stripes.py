"""Files that programs stage themselves and several staging servers write, each its own stripes (server_mode=drain),
equal those that HDF5 writes natively, whatever becomes of the servers.
"""

import re
import signal
from contextlib import ExitStack

import pytest
from server_environment import Client, Server, client_reasons, natively, through
from test_staging_server import AGAIN, FLUSHED, MANY_KINDS, UNFLUSHED, committed_bytes
from test_staging_server_drain import SMALL_LOG, assert_all_served, assert_same, counted, draining, left, recover, write

SERVERS = 3
# Which server has a stripe depends on the file's inode. Of 16 some are another one's.
LARGE = "f['large'] = np.arange(8_000_000, dtype='f8')"
SPREAD = (*MANY_KINDS[:-1], LARGE, "f.close()")


@pytest.fixture
def servers(tmp_path):
    with ExitStack() as stack:
        yield [stack.enter_context(Server(tmp_path / f"server{number}")) for number in range(SERVERS)]


def addresses(servers, turned: bool = False) -> str:
    """In whatever order they are named, each stripe has the same one."""
    return ",".join(server.address for server in (reversed(servers) if turned else servers))


def requests(report: str) -> int:
    """How many a server has carried out for programs that stage their files themselves."""
    return int(re.search(r"have had (\d+)", report)[1]) if "have had" in report else 0


@pytest.mark.parametrize("info", ["", SMALL_LOG, "durability=node;"])
def test_what_several_servers_write_equals_native(info, tmp_path, servers):
    for turned, lines in enumerate((SPREAD, AGAIN)):
        natively(tmp_path / "native", *lines)
        assert write(addresses(servers, bool(turned)), tmp_path, *lines, info=info) == ""
        assert_same(tmp_path)
    assert_all_served(tmp_path / "here", 2)
    assert client_reasons(tmp_path / "here") == {}
    carried_out = [requests(server.end()) for server in servers]
    assert sum(count > 0 for count in carried_out) >= 2, carried_out
    assert left(tmp_path / "here") == []


def test_a_server_that_is_killed_takes_only_its_own_stripes(tmp_path, servers):
    natively(tmp_path / "native", *SPREAD)
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, draining(addresses(servers), here, SMALL_LOG)) as program:
        program.must(*SPREAD[:5], "f.flush()")
        for server in servers[:-1]:
            server.end(signal.SIGKILL)
        program.must(*SPREAD[5:])
        said = program.end()
    assert_same(tmp_path)
    (file,) = counted(here)
    assert file["staged"] > 0 and 0 < file["served"] < file["drained"] + file["through"], file
    # Whoever had nothing to write any more has not asked.
    assert said.count("is written directly from now on") == said.count("\n") <= SERVERS - 1, said
    assert left(here) == []


def test_a_server_that_is_not_there_is_done_without(tmp_path, servers):
    natively(tmp_path / "native", *MANY_KINDS)
    named = f"{addresses(servers)},unix:{tmp_path}/nobody"
    said = write(named, tmp_path, *MANY_KINDS)
    assert said.count("\n") == 1 and f"unix:{tmp_path}/nobody" in said and "written without it" in said, said
    assert_same(tmp_path)
    (file,) = counted(tmp_path / "here")
    assert file["staged"] > 0 and file["served"] > 0, file
    assert client_reasons(tmp_path / "here") == {"server": 1}
    with Client(tmp_path / "here", draining(named, tmp_path / "here", "strict=on")) as program:
        assert program.do("f = h5py.File('z.h5', 'w')").startswith("error")
        program.end()
    assert not (tmp_path / "here/z.h5").exists()


def test_none_of_them_is_there(tmp_path):
    natively(tmp_path / "native", *MANY_KINDS)
    said = write(f"unix:{tmp_path}/nobody,unix:{tmp_path}/neither", tmp_path, *MANY_KINDS)
    assert said.count("\n") == 1 and "files are staged here, and written without it" in said, said
    assert_same(tmp_path)
    (file,) = counted(tmp_path / "here")
    assert file["staged"] > 0 and file["served"] == 0, file


@pytest.mark.parametrize("wrong", ["unix:/a,unix:/a", "unix:/a,,unix:/b", ",".join(f"unix:/{i}" for i in range(65))])
def test_servers_that_cannot_be_meant_are_refused(wrong, tmp_path):
    (tmp_path / "here").mkdir()
    with Client(tmp_path / "here", draining(wrong, tmp_path / "here")) as program:
        said = program.do("f = h5py.File('x.h5', 'w')")
        assert said.startswith("error") and "option server" in said, said
        program.end()


def test_a_file_is_spread_or_forwarded(tmp_path, servers):
    here = tmp_path / "here"
    here.mkdir()
    variables = draining(addresses(servers), here)
    with Client(here, through(addresses(servers), here, HDF5_USE_FILE_LOCKING="FALSE")) as forwarding:
        forwarding.must("f = h5py.File('x.h5', 'w')")
        with Client(here, variables | {"HDF5_USE_FILE_LOCKING": "FALSE"}) as program:
            said = program.do("f = h5py.File('x.h5', 'r+')")
            assert said.startswith("error") and "another client writes it" in said, said
            program.end()
        forwarding.must("f.close()")
        forwarding.end()


def test_a_program_that_dies_leaves_its_last_flush(tmp_path, servers):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, draining(addresses(servers), here)) as program:
        program.must(*FLUSHED, *UNFLUSHED)
        program.kill()
    done = recover(here)
    assert done.returncode == 0, done
    assert (here / "x.h5").read_bytes() == committed_bytes(tmp_path)
    assert left(here) == []


def test_servers_on_another_machine_write_and_read_their_stripes(machines, target, tmp_path):
    """What the program reads, and sizes, come from the servers there."""
    reads = ("assert (f['large'][...] == np.arange(8_000_000)).all()", "f['late'] = f['large'][::100_000]")
    lines = (*SPREAD[:-1], "f.flush()", *reads, "f.close()")
    natively(tmp_path / "native", *lines)
    client = tmp_path / "client"
    with ExitStack() as stack:
        servers = [
            stack.enter_context(Server(tmp_path / f"server{number}", f"{machines.address}:0", on=machines.first))
            for number in range(SERVERS)
        ]
        with Client(target, draining(addresses(servers), client, SMALL_LOG), on=machines.second) as program:
            program.must(*lines)
            assert program.end() == ""
        assert_all_served(client, 1)
        carried_out = [requests(server.end()) for server in servers]
    assert sum(count > 0 for count in carried_out) >= 2, carried_out
    assert (target / "x.h5").read_bytes() == (tmp_path / "native/x.h5").read_bytes()
