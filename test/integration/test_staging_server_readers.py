"""A program reads what another one writes through a staging server, flush by flush, while that one goes on."""

import json
import random
import signal
import subprocess

import pytest
from connector_environment import native
from seeds import seeds
from server_environment import Client, Server, client_reasons, command, natively, tcp_address, through

pytestmark = pytest.mark.slow

# What each flush finds. The last lines of a step come after its flush, and no reader sees them.
STEPS = (
    (
        "f = h5py.File('x.h5', 'w', libver=libver)",
        "rows = np.arange(600_000, dtype='f8').reshape(600, 1000)",
        "f['contiguous'] = rows",
        "c = f.create_dataset('chunked', (600, 1000), 'f8', chunks=(50, 100), compression='gzip', compression_opts=1)",
        "c[:300] = rows[:300]",
        "for i in range(100): f.create_group(f'group{i}').attrs['number'] = i",
    ),
    (
        "f['contiguous'][100:200] = -1",
        "c[:] = 7",
        "del f['group3']",
        "g = f.create_dataset('grows', (0,), 'i4', maxshape=(None,), chunks=(1000,))",
        "for i in range(100): g.resize((i * 50 + 50,)); g[i * 50:] = i",
    ),
    ("del f['contiguous']", "f['late'] = np.ones(100_000)", "g.resize((10,))"),
)
UNFLUSHED = ("f['late' if 'late' in f else 'contiguous'][:10] = 99", "f['more'] = np.zeros(1000)", "del f['more']")
SEEN = "open('seen', 'wb').write(f.id.get_file_image())"


@pytest.fixture(params=["unix", "tcp"])
def server(request, tmp_path):
    with Server(tmp_path, tcp_address() if request.param == "tcp" else None) as running:
        yield running


def flushed_natively(folder, libver):
    """The file as it is natively at each flush, and at last when it is closed."""
    states = []
    folder.mkdir()
    with Client(folder, native()) as program:
        program.must(f"libver = {libver!r}")
        for step in STEPS:
            program.must(*step, "f.flush()")
            states.append(unmarked((folder / "x.h5").read_bytes()))
            program.must(*UNFLUSHED)
        program.must("f.close()")
    return [*states, (folder / "x.h5").read_bytes()]


def unmarked(image: bytes) -> bytes:
    """Without HDF5's mark that the file is open for writing and, from superblock 2 on, the checksum over it."""
    return (
        image[:20] + b"\0" + image[21:] if image[8] < 2 else image[:11] + b"\0" + image[12:44] + bytes(4) + image[48:]
    )


@pytest.mark.check
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_reader_sees_the_last_flush_and_the_next_one_when_it_opens_the_file_again(tmp_path, server, libver):
    states = flushed_natively(tmp_path / "native", libver)
    here = tmp_path / "here"
    here.mkdir()
    variables = through(server.address, here)

    def seen() -> bytes:
        return unmarked((here / "seen").read_bytes())

    with Client(here, variables) as writer, Client(here, variables) as reader, Client(here, variables) as steady:
        writer.must(f"libver = {libver!r}")
        for number, step in enumerate(STEPS):
            writer.must(*step, "f.flush()", *UNFLUSHED, "f.id.get_filesize()")
            reader.must("f = h5py.File('x.h5', 'r')", SEEN)
            assert seen() == unmarked(states[number]), number
            reader.must("assert f['chunked'][0, 0] in (0, 7)")
            if number == 0:
                steady.must("f = h5py.File('x.h5', 'r')")
            steady.must(SEEN)
            assert seen() == unmarked(states[0]), number
            assert reader.do("f.create_group('a')").startswith("error")
            reader.must("f.close()")
        writer.must("f.close()")
        steady.must(SEEN)
        assert seen() == unmarked(states[0])
        reader.must("f = h5py.File('x.h5', 'r')", SEEN, "f.close()")
        steady.must("f.close()")
        assert writer.end() == reader.end() == steady.end() == ""
    assert (here / "x.h5").read_bytes() == states[-1]
    assert unmarked((here / "seen").read_bytes()) == unmarked(states[-1])
    # The writer's file, the steady reader's, and one for each flush. What is closed already is opened natively.
    assert client_reasons(here) == {"forwarded": 2 + len(STEPS), "read_only": 1}
    assert [file["commits"] >= len(STEPS) for file in server.files()] == [True]
    server.end()
    assert server.left() == []
    assert [entry.name for folder in server.area.glob("forebay-*") for entry in folder.glob("snapshot*")] == []


def test_no_reader_ever_sees_a_part_of_a_flush(tmp_path, server):
    """The writer changes everything between two flushes; readers come at any time."""
    here = tmp_path / "here"
    here.mkdir()
    variables = through(server.address, here)
    random_source = random.Random(seeds("server readers", 1)[0])
    begin = (
        "f = h5py.File('x.h5', 'w')",
        "names = [f'd{i}' for i in range(40)]",
        "for n in names: f.create_dataset(n, (5000,), 'i8', chunks=(1000,), fillvalue=0, maxshape=(None,))",
        "f.attrs['step'] = 0",
        "f.flush()",
    )
    change = "for n in names: f[n].resize((5000 + 10 * {k},)); f[n][:] = {k}"
    read = (
        "f = h5py.File('x.h5', 'r')",
        "step = int(f.attrs['step'])",
        "assert step >= last, (step, last)",
        "assert all(len(d) == 5000 + 10 * step and (d[:] == step).all() for d in f.values())",
        "assert len(f) == 40 and ('odd' in f.attrs) == (step % 2 == 1)",
        "last = step",
        "f.close()",
    )
    with Client(here, variables) as writer, Client(here, variables) as reader:
        writer.must(*begin)
        reader.must("last = 0")
        for k in range(1, 25):
            lines = [
                change.format(k=k),
                "f.attrs['odd'] = 1" if k % 2 else "del f.attrs['odd']",
                f"f.attrs['step'] = {k}",
                "f.flush()",
            ]
            for line in lines:
                writer.begin(line)
                if random_source.random() < 0.5:
                    reader.must(*read)
                assert writer.reply() == "ok", line
        reader.must(*read, "assert last == 24")
        writer.must("f.close()")
        assert writer.end() == reader.end() == ""
    assert set(client_reasons(here)) == {"forwarded"}


def test_a_file_that_nobody_writes_is_read_natively(tmp_path, server):
    here = tmp_path / "here"
    natively(here, "f = h5py.File('x.h5', 'w')", "f['x'] = 5", "f.close()")
    with Client(here, through(server.address, here)) as reader:
        reader.must("f = h5py.File('x.h5', 'r')", "assert f['x'][()] == 5")
        assert reader.end() == ""
    assert client_reasons(here) == {"read_only": 1}


def test_a_program_sees_what_it_writes_itself(tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as program:
        program.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.flush()", "f['x'][()] = 2")
        program.must("g = h5py.File('x.h5', 'r')", "assert g['x'][()] == 2", "g.close()", "f.close()")
        assert program.end() == ""


def test_a_reader_without_its_server_is_told(tmp_path, server):
    here = tmp_path / "here"
    natively(here, "f = h5py.File('y.h5', 'w')", "f['y'] = 5", "f.close()")
    variables = through(server.address, here)
    with Client(here, variables) as writer, Client(here, variables) as reader:
        writer.must("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(1_000_000)", "f.flush()")
        reader.must("f = h5py.File('x.h5', 'r')", "assert f['x'][5] == 5")
        server.process.kill()
        server.process.communicate(timeout=120)
        assert "staging server" in reader.do("f['x'][500_000:]")
        reader.must("f.close()")
        reader.must("g = h5py.File('y.h5', 'r')", "assert g['y'][()] == 5")
        assert "files are read as they are" in reader.end()
        writer.kill()


def test_a_file_that_was_not_flushed_yet_is_no_file(tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    variables = through(server.address, here)
    with Client(here, variables) as writer, Client(here, variables) as reader:
        writer.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1")
        assert reader.do("h5py.File('x.h5', 'r')").startswith("error")
        writer.must("f.flush()")
        reader.must("f = h5py.File('x.h5', 'r')", "assert f['x'][()] == 1", "f.close()")
        writer.must("f.close()")


# ---- forebay follow ----------------------------------------------------------------------------------


class Follow:
    """`forebay follow --json`, line by line."""

    def __init__(self, server, path, *more):
        self.process = subprocess.Popen(
            [command(), "follow", str(path), "--server", server.address, "--json", *more],
            env=native(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> dict:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def until(self, bytes_min: int) -> dict:
        while (line := self.line())["bytes"] < bytes_min:
            pass
        return line

    def end(self) -> tuple[int, str, str]:
        rest, errors = self.process.communicate(timeout=120)
        return self.process.returncode, rest, errors


def test_each_flush_is_told_as_it_comes_and_the_close_ends_it(tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as writer:
        writer.must("f = h5py.File('x.h5', 'w')", "f['x'] = np.arange(100_000)", "f.flush()")
        following, late = Follow(server, here / "x.h5"), Follow(server, here / "x.h5", "--count", "2")
        # HDF5 may have flushed once as it made the file.
        first = following.until(800_000)
        base = first["commit"]
        assert base in (1, 2) and first["size"] >= 800_000, first
        writer.must("f.flush()", "f['y'] = np.ones(1000)", "f.flush()", "f.flush()")
        second = following.line()
        assert second["commit"] == base + 1 and 8000 <= second["bytes"] < 100_000, "a flush of nothing is none"
        assert second["time_ns"] > first["time_ns"]
        assert [late.line()["commit"] for _ in range(2)] == [1, 2]
        assert late.end() == (0, "", "")
        for _ in range(30):
            writer.must("f['x'][:] += 1", "f.flush()")
        assert [following.line()["commit"] for _ in range(30)] == list(range(base + 2, base + 32))
        writer.must("f['z'] = 1", "f.close()")
        assert following.line()["commit"] == base + 32, "the close commits"
        assert following.end() == (0, "", "")
    (file,) = server.files()
    assert file["commits"] == base + 32


def test_a_follower_tells_of_an_end_that_is_none(tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as writer:
        writer.must("f = h5py.File('x.h5', 'w')", "f['x'] = np.ones(1000)", "f.flush()")
        interrupted, following = Follow(server, here / "x.h5"), Follow(server, here / "x.h5")
        assert interrupted.until(8000) == following.until(8000)
        interrupted.process.send_signal(signal.SIGINT)
        assert interrupted.end() == (0, "", "")
        writer.kill()
    status, rest, errors = following.end()
    assert (status, rest) == (1, "") and "without closing it" in errors
    server.report("without closing it")
    # Nobody writes it any more; there is no such file; no server.
    status, _, errors = Follow(server, here / "x.h5").end()
    assert status == 1 and "no client of this server writes it" in errors
    assert Follow(server, here / "none.h5").end()[0] == 2
    server.end()
    status, _, errors = Follow(server, here / "x.h5").end()
    assert status == 1 and "connect to" in errors


def test_commits_for_people_have_a_line_each(tmp_path, server):
    here = tmp_path / "here"
    here.mkdir()
    with Client(here, through(server.address, here)) as writer:
        writer.must("f = h5py.File('x.h5', 'w')", "f['x'] = 1", "f.flush()")
        told = subprocess.run(
            [command(), "follow", "x.h5", "--count", "1"],
            cwd=here,
            env=native(FOREBAY_SERVER=server.address),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert told.returncode == 0 and told.stdout.split()[0] == "1" and told.stdout.count("\n") == 1, told
    none = subprocess.run([command(), "follow", "x.h5"], cwd=here, env=native(), capture_output=True, text=True)
    assert none.returncode == 2 and "--server" in none.stderr
