"""One staging server of root for users of other machines: each is served by a process with that user's rights.

The machines are network namespaces; the files are on a slowfs mount that both have, as a parallel file system is.
"""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import test_staging_server_drain as drain
import test_staging_server_fabric as fabric
from connector_environment import native
from forebay.slowfs import SlowFS, available
from server_environment import Client, Server, client_reasons, command, natively, through
from test_staging_server import FLUSHED, MANY_KINDS
from test_staging_server_users import USERS, as_user, children, number, owners_of_areas, place  # noqa: F401
from two_machines import Machines

_usable, _reason = available()
pytestmark = pytest.mark.skipif(not _usable, reason=f"slowfs cannot be used: {_reason}")

IDENTIFIER = 65534


@pytest.fixture
def target(place):
    """What all machines see, with a folder of each user's."""
    with SlowFS(place / "backing", place / "target", allow_other=True):
        for user in (*USERS, "daemon", "root"):
            (place / user).mkdir(exist_ok=True)
            os.chown(place / user, number(user), -1)
            (place / "target" / user).mkdir()
            os.chown(place / "target" / user, number(user), -1)
            (place / "target" / user).chmod(0o700)
        yield place / "target"


@pytest.fixture
def machines(place, target):
    with Machines(place) as two:
        yield two


@contextmanager
def serving(machines, place, users, *more):
    with Server(place, f"{machines.address}:0", "--users", users, *more, on=machines.first) as running:
        yield running


@pytest.fixture
def server(machines, place):
    with serving(machines, place, ",".join(USERS)) as running:
        yield running


def client(machines, server: Server, target: Path, user: str, more: str = "") -> Client:
    program = Client(target / user, through(server.address, target.parent / user, more), on=machines.second)
    program.must(as_user(user))
    return program


def status_of(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: words.split() for name, _, words in (line.partition(":") for line in lines)}


def test_each_user_of_another_machine_is_served_by_a_process_with_that_user_s_rights(place, machines, server, target):
    natively(place / "native", *MANY_KINDS)
    expected = (place / "native/x.h5").read_bytes()
    with client(machines, server, target, USERS[0]) as one, client(machines, server, target, USERS[1]) as other:
        for line in MANY_KINDS:
            one.begin(line)
            other.begin(line)
            assert (one.reply(), other.reply()) == ("ok", "ok"), line
        processes = [status_of(child) for child in children(server)]
        assert one.end() == other.end() == ""
    users = sorted([IDENTIFIER, *map(number, USERS)])
    assert sorted(int(process["Uid"][0]) for process in processes) == users
    for process in processes:
        assert len(set(process["Uid"])) == len(set(process["Gid"])) == 1 and "0" not in process["Gid"]
        assert int(process["CapEff"][0], 16) == int(process["CapPrm"][0], 16) == 0
    for user in USERS:
        file = target / user / "x.h5"
        assert file.read_bytes() == expected and file.stat().st_uid == number(user)
        assert client_reasons(place / user) == {"forwarded": 1}
    assert owners_of_areas(server) == {f"forebay-{number(user)}": number(user) for user in USERS}
    assert "ending" in server.end()
    assert server.left() == []


def test_large_requests_of_a_user_go_through_libfabric(place, machines, target):
    program = fabric.BEGIN + fabric.ROWS + fabric.END
    with serving(machines, place, ",".join(USERS), *fabric.SETTING) as server:
        with client(machines, server, target, USERS[0], "server_bulk=fabric") as one:
            one.must(*program)
            said = one.end()
        fabric.skip_without_libfabric(said)
        assert said == ""
        came, _, refused = fabric.moved(server.end())
        assert 27 <= came <= 29 and refused == 0
    natively(place / "native", *program)
    assert (target / USERS[0] / "x.h5").read_bytes() == (place / "native/x.h5").read_bytes()


def test_a_user_s_program_that_stages_its_files_itself_drains_through_that_user_s_process(
    place, machines, server, target
):
    folder = place / USERS[0]
    variables = drain.draining(server.address, folder)
    os.chown(folder / "area", number(USERS[0]), -1)
    with Client(target / USERS[0], variables, on=machines.second) as program:
        program.must(as_user(USERS[0]), *MANY_KINDS)
        assert program.end() == ""
    natively(place / "native", *MANY_KINDS)
    assert (target / USERS[0] / "x.h5").read_bytes() == (place / "native/x.h5").read_bytes()
    assert sum(file["served"] for file in drain.counted(folder)) > 0
    assert "have had" in server.end()


def test_root_s_process_has_nothing_that_reads_what_strangers_send(machines, server):
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "libmunge" not in maps and "libsodium" not in maps
    (identifier,) = children(server)
    assert status_of(identifier)["NoNewPrivs"] == ["1"]
    assert "libmunge" in Path(f"/proc/{identifier}/maps").read_text()


def test_nobody_comes_to_another_user_s_file_by_the_server(place, machines, server, target):
    """The program may write all files of its machine. The server's process may not, whatever the program has open."""
    with client(machines, server, target, USERS[0]) as owner:
        owner.must(*FLUSHED, "f.close()")
        assert owner.end() == ""
    rights = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    ids = [f"--reuid={number(USERS[1])}", f"--regid={number(USERS[1])}", "--clear-groups"]
    variables = through(server.address, place / USERS[1])
    with Client(target / USERS[0], variables, on=[*machines.second, "setpriv", *ids, *rights]) as other:
        other.must(f"import os; assert os.getuid() == {number(USERS[1])}")
        other.must("f = h5py.File('x.h5', 'r+')", "f.attrs['mine'] = 1", "f.close()")
        assert "Permission denied" in other.end()
    assert client_reasons(place / USERS[1]) == {"server": 1}
    assert client_reasons(place / USERS[0]) == {"forwarded": 1}


def test_a_user_who_is_not_named_is_refused_with_words(place, machines, server, target):
    with client(machines, server, target, "daemon") as program:
        program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
        assert f"user {number('daemon')} is not admitted" in program.end()
    assert f"user {number('daemon')} is not admitted" in server.report("not admitted")
    assert owners_of_areas(server) == {}
    assert len(children(server)) == 1


def test_a_user_whom_the_server_s_machine_does_not_know_is_refused_with_words(place, machines, target):
    unknown = 54321
    for folder in (place / "unknown", target / "unknown"):
        folder.mkdir()
        os.chown(folder, unknown, -1)
    with serving(machines, place, "all") as server:
        variables = through(server.address, place / "unknown")
        with Client(target / "unknown", variables, on=machines.second) as program:
            program.must(f"import os; os.setgroups([]); os.setgid({unknown}); os.setuid({unknown})")
            program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
            assert f"this machine knows no user {unknown}" in program.end()
        assert f"this machine knows no user {unknown}" in server.report("not admitted")


def test_root_of_another_machine_is_not_among_all_and_may_be_named(place, machines, target):
    with serving(machines, place, "all") as server:
        with client(machines, server, target, "root") as program:
            program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.close()")
            assert "root of another machine is not admitted" in program.end()
        with client(machines, server, target, USERS[0]) as program:
            program.must(*FLUSHED, "f.close()")
            assert program.end() == ""
    assert client_reasons(place / "root") == {"server": 1}
    with serving(machines, place, f"{USERS[0]},root") as server:
        with client(machines, server, target, "root") as program:
            program.must(*FLUSHED, "f.close()")
            assert program.end() == ""
    assert client_reasons(place / "root") == {"server": 1, "forwarded": 1}


def test_a_process_that_is_killed_is_replaced_and_others_go_on(place, machines, server, target):
    with client(machines, server, target, USERS[1]) as other:
        other.must(*FLUSHED)
        (identifier,) = (pid for pid in children(server) if is_identifier(pid))
        os.kill(identifier, signal.SIGKILL)
        with client(machines, server, target, USERS[0]) as program:
            program.must(*FLUSHED, "f.close()")
            assert program.end() == ""
        other.must("f['y'] = np.ones(9)", "f.close()")
        assert other.end() == ""
    for user in USERS:
        assert client_reasons(place / user) == {"forwarded": 1}


def is_identifier(pid: int) -> bool:
    return status_of(pid)["NoNewPrivs"] == ["1"]


SILENT = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
half = bytes.fromhex("46425750010019000800000000000000")  # an IDENTIFY begins so
held = []
for number in range(1000):
    held.append(socket.create_connection((sys.argv[1], int(sys.argv[2]))))
    held[-1].sendall(half if number % 2 else b"")
print("connected", flush=True)
sys.stdin.read()
"""


def test_a_thousand_that_say_nothing_hold_up_nobody(place, machines, server, target):
    host, port = server.address.split(":")
    silent = subprocess.Popen(
        [*machines.second, sys.executable, "-c", SILENT, host, port],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert silent.stdout.readline() == "connected\n"
        with client(machines, server, target, USERS[0]) as program:
            program.must(*FLUSHED, "f.close()")
            assert program.end() == ""
        (identifier,) = (pid for pid in children(server) if is_identifier(pid))
        assert len(list(Path(f"/proc/{identifier}/fd").iterdir())) < 300
        assert len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) < 50
    finally:
        silent.communicate(timeout=60)
    assert client_reasons(place / USERS[0]) == {"forwarded": 1}
    assert children(server, number(USERS[0])) and len(children(server)) == 2


# ---- what somebody sends who has listened ---------------------------------------------------------------

LISTEN = """
import socket, struct, sys
with socket.create_server((sys.argv[1], 0)) as server:
    print(server.getsockname()[1], flush=True)
    one, _ = server.accept()
    with one, one.makefile("rb") as frames:
        for _ in range(2):
            header = frames.read(32)
            print((header + frames.read(struct.unpack_from("<I", header, 8)[0])).hex(), flush=True)
"""

SAY = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as server:
    server.sendall(bytes.fromhex(sys.argv[3]))
    if len(sys.argv) > 4:
        server.shutdown(socket.SHUT_WR)
    answer = b""
    while more := server.recv(10_000):
        answer += more
    print(answer.hex())
"""


def overheard(machines, target: Path, user: str) -> list[str]:
    """The IDENTIFY and the PROVE of a program, which were never read."""
    listener = subprocess.Popen(
        [*machines.first, sys.executable, "-c", LISTEN, machines.address], stdout=subprocess.PIPE, text=True
    )
    port = int(listener.stdout.readline())
    variables = through(f"{machines.address}:{port}", target.parent / user)
    with Client(target / user, variables, on=machines.second) as program:
        program.must(as_user(user), "h5py.File('overheard.h5', 'w').close()")
    frames, _ = listener.communicate(timeout=60)
    return frames.split()


def answer_to(machines, server: Server, sent: str, *more: str) -> tuple[int, bytes]:
    """Type and payload of the first frame that comes back; type 0: none does."""
    said = subprocess.run(
        [*machines.second, sys.executable, "-c", SAY, *server.address.split(":"), sent, *more],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer = bytes.fromhex(said.stdout.strip())
    return (int.from_bytes(answer[6:8], "little"), answer[32:]) if answer else (0, b"")


FAILED, PROVE = 15, 18


def test_what_was_overheard_opens_nothing(machines, server, target):
    name, proof = overheard(machines, target, USERS[0])
    other_name, other_proof = overheard(machines, target, USERS[1])
    # Who says to be one user and proves to be the other.
    kind, words = answer_to(machines, server, name + other_proof)
    assert kind in (0, FAILED)  # the credential is for processes of the other user alone
    assert "a session ended: MUNGE: Unauthorized credential" in server.report("a session ended")
    # An IDENTIFY that was sent before.
    kind, words = answer_to(machines, server, name + proof)
    assert kind == FAILED and b"Replayed credential" in words
    assert "Replayed" in server.report("not admitted")
    # A proof alone.
    kind, words = answer_to(machines, server, proof)
    assert kind == FAILED and b"does not say who it is" in words
    # The whole, once: the server's answer is for the program alone, and whoever is there cannot go on.
    kind, answer = answer_to(machines, server, other_name + other_proof, "and no more")
    assert kind == PROVE and re.fullmatch(rb"MUNGE:[^:]*:", answer)
    with client(machines, server, target, USERS[1]) as program:
        program.must(*FLUSHED, "f.close()")
        assert program.end() == ""


@pytest.mark.parametrize("bytes_sent", [1, 31, 32, 40])
def test_a_proof_that_is_cut_off_is_told_of(machines, server, target, bytes_sent):
    name, _ = overheard(machines, target, USERS[0])
    assert answer_to(machines, server, name[: 2 * bytes_sent], "and no more") == (0, b"")
    assert "has closed the connection" in server.report("not admitted")


def test_without_munge_it_does_not_begin(place, machines, target):
    machines.without_munge()
    refused = subprocess.run(
        [*machines.first, command(), "serve", "--listen", f"{machines.address}:0", "--nls", str(place)]
        + ["--users", "all"],
        env=native(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 1 and "MUNGE" in refused.stderr and refused.stdout == ""


def test_munge_that_goes_away_and_comes_back_is_told_and_used_again(place, machines, server, target):
    machines.without_munge()
    with client(machines, server, target, USERS[0]) as program:
        program.must(*FLUSHED, "f.close()")
        assert "MUNGE" in program.end()
    machines.with_munge()
    with client(machines, server, target, USERS[0]) as program:
        program.must(*FLUSHED, "f.close()")
        assert program.end() == ""
    assert client_reasons(place / USERS[0]) == {"server": 1, "forwarded": 1}
