"""One staging server of root for several users: each is served with its own rights, and by nobody else's process."""

import os
import pwd
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from server_environment import Client, Server, client_reasons, natively, through
from test_staging_server import FLUSHED, MANY_KINDS

USERS = ("nobody", "games")


@pytest.fixture
def place():
    """A folder that users can reach, with one of each user in it."""
    if os.getuid() != 0:
        pytest.skip("only root can serve other users")
    with tempfile.TemporaryDirectory(prefix="fb-users-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for user in USERS:
            (folder / user).mkdir()
            os.chown(folder / user, number(user), -1)
            (folder / user).chmod(0o700)
        yield folder


@pytest.fixture
def server(place):
    with Server(place, None, "--users", ",".join(USERS)) as running:
        yield running


def number(user: str) -> int:
    return pwd.getpwnam(user).pw_uid


def as_user(user: str) -> str:
    """For a program that is loaded: what it is loaded from may be root's only."""
    return f"import os; os.setgroups([]); os.setgid({pwd.getpwnam(user).pw_gid}); os.setuid({number(user)})"


def client(server: Server, place: Path, user: str) -> Client:
    program = Client(place / user, through(server.address, place / user))
    program.must(as_user(user))
    return program


def children(server: Server, of_user: int | None = None) -> list[int]:
    """Its processes."""
    process = server.process.pid
    all_ = map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
    return [pid for pid in all_ if of_user is None or Path(f"/proc/{pid}").stat().st_uid == of_user]


def owners_of_areas(server: Server) -> dict[str, int]:
    return {entry.name: entry.stat().st_uid for entry in server.area.iterdir()}


def test_each_user_s_files_are_staged_with_that_user_s_rights(place, server):
    natively(place / "native", *MANY_KINDS)
    expected = (place / "native/x.h5").read_bytes()
    with client(server, place, USERS[0]) as one, client(server, place, USERS[1]) as other:
        for line in MANY_KINDS:
            one.begin(line)
            other.begin(line)
            assert (one.reply(), other.reply()) == ("ok", "ok"), line
        assert one.end() == other.end() == ""
    for user in USERS:
        assert (place / user / "x.h5").read_bytes() == expected
        assert (place / user / "x.h5").stat().st_uid == number(user)
        assert client_reasons(place / user) == {"forwarded": 1}
    assert owners_of_areas(server) == {f"forebay-{number(user)}": number(user) for user in USERS}
    server.end()
    assert server.left() == []


def test_nobody_comes_to_another_user_s_file_by_the_server(place, server):
    """The path is one that only its owner may enter: the server of another user cannot either."""
    secret = place / USERS[0] / "x.h5"
    with client(server, place, USERS[0]) as owner:
        owner.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.flush()")
        with client(server, place, USERS[1]) as other:
            assert other.do(f"h5py.File('{secret}', 'r')").startswith("error ")
            assert other.do(f"h5py.File('{secret}', 'a')").startswith("error ")
        owner.must("f.close()")


def test_a_user_who_is_not_named_is_not_admitted(place, server):
    user = "daemon"
    (place / user).mkdir()
    os.chown(place / user, number(user), -1)
    with client(server, place, user) as program:
        program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
        # As if no server answered.
        said = program.do("f = h5py.File('x.h5', 'r+')")
        assert said.startswith("error ") and f"user {number(user)} is not admitted" in said, said
        said = program.end()
        assert "files are written directly, unstaged" in said
        assert f"user {number(user)} is not admitted" in said
    assert f"user {number(user)} is not admitted" in server.report("not admitted")
    assert f"forebay-{number(user)}" not in owners_of_areas(server)


def test_a_user_s_process_that_is_killed_is_replaced_and_nobody_else_notices(place, server):
    with client(server, place, USERS[0]) as one, client(server, place, USERS[1]) as other:
        for program in (one, other):
            program.must(*FLUSHED, "f['y'] = np.ones(1000)")
        assert len(children(server)) == len(USERS)
        (victim,) = children(server, number(USERS[0]))
        os.kill(victim, signal.SIGKILL)
        for program in (one, other):
            program.must("f.flush()", "f['x'][...] = 7", "f.close()")
            assert program.end() == ""
    natively(place / "native", *FLUSHED, "f['y'] = np.ones(1000)", "f.flush()", "f['x'][...] = 7", "f.close()")
    for user in USERS:
        assert (place / user / "x.h5").read_bytes() == (place / "native/x.h5").read_bytes()
    server.end()
    assert server.left() == []


def test_a_user_s_process_that_ends_has_no_other_beside_it(place, server):
    """Two of them would know nothing of each other's files."""
    user = USERS[1]
    folder = place / user
    with client(server, place, user) as one, Client(folder, through(server.address, folder, "strict=on")) as other:
        other.must(as_user(user))
        one.must(*FLUSHED)
        (ending,) = children(server, number(user))
        os.kill(ending, signal.SIGTERM)
        # It serves until it has seen the signal, and cuts a client off that comes in that instant. Then clients are
        # refused in words.
        while "is about to end" not in (said := other.do("f = h5py.File('y.h5', 'w'); f.close()")):
            assert said == "ok" or "Connection reset" in said or "Broken pipe" in said, said
        assert children(server, number(user)) == [ending]
        one.must("f.close()")
        assert one.end() == ""
        while other.do("f = h5py.File('y.h5', 'w'); f.close()") != "ok":
            pass
        assert ending not in children(server, number(user))
        other.end()
    natively(place / "native", *FLUSHED, "f.close()")
    assert (folder / "x.h5").read_bytes() == (place / "native/x.h5").read_bytes()


CONNECTS = """
import socket, sys, time
held = []
for _ in range(600):
    one = socket.socket(socket.AF_UNIX)
    one.connect(sys.argv[1])
    held.append(one)
print("connected", flush=True)
sys.stdin.read()
"""


def test_a_user_who_stops_a_process_and_comes_again_and_again_holds_up_nobody_else(place, server):
    with client(server, place, USERS[0]) as program:
        program.must(*FLUSHED, "f.close()")
        assert program.end() == ""
    (child,) = children(server)
    os.kill(child, signal.SIGSTOP)
    group = pwd.getpwnam(USERS[0]).pw_gid
    command = ["setpriv", f"--reuid={number(USERS[0])}", f"--regid={group}", "--clear-groups", "/usr/bin/python3"]
    attack = subprocess.Popen(
        [*command, "-c", CONNECTS, server.address.removeprefix("unix:")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert attack.stdout.readline() == "connected\n"
        with client(server, place, USERS[1]) as program:
            program.must(*FLUSHED, "f.close()")
            assert program.end() == ""
        assert client_reasons(place / USERS[1]) == {"forwarded": 1}
    finally:
        os.kill(child, signal.SIGCONT)
        attack.communicate(timeout=60)


def test_the_loopback_interface_serves_several_users_too(place):
    natively(place / "native", *MANY_KINDS)
    with Server(place, "127.0.0.1:0", "--users", "all") as server:
        for user in USERS:
            with client(server, place, user) as program:
                program.must(*MANY_KINDS)
                assert program.end() == ""
            assert (place / user / "x.h5").read_bytes() == (place / "native/x.h5").read_bytes()
            assert client_reasons(place / user) == {"forwarded": 1}
        assert owners_of_areas(server) == {f"forebay-{number(user)}": number(user) for user in USERS}


def test_a_user_s_process_that_cannot_begin_says_why(place, server):
    """Its staging area is there, and belongs to somebody else."""
    area = server.area / f"forebay-{number(USERS[0])}"
    area.mkdir()
    for _ in range(2):
        with client(server, place, USERS[0]) as program:
            program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
            assert str(area) in program.end()
        assert str(area) in server.report("forebay-")
    area.rmdir()
    with client(server, place, USERS[0]) as program:
        program.must(*FLUSHED, "f.close()")
        assert program.end() == ""
    assert client_reasons(place / USERS[0]) == {"server": 2, "forwarded": 1}


def test_a_staging_area_that_root_cannot_make_is_told_to_the_program(place, server):
    server.area.rename(place / "away")
    with client(server, place, USERS[0]) as program:
        program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
        assert f"make {server.area}" in program.end()
    (place / "away").rename(server.area)


@pytest.mark.parametrize(
    ("users", "said"),
    [("nobody,no-such-user", "no user 'no-such-user'"), ("nobody,", "no user ''"), ("", "needs a value")],
)
def test_what_cannot_be_served_is_told(place, users, said):
    with pytest.raises(AssertionError, match=said):
        Server(place, None, "--users", users)
