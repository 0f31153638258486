"""Programs that read around HDF5: they ask it where their data are, and read the file by its path.

Each program runs natively and staged; what it prints is what it found there.
"""

import os
import shutil
from pathlib import Path

import pytest
from connector_environment import bytes_staged, hdf5_prefix, native, reasons, run, run_python, staged, statistics

pytestmark = pytest.mark.slow

BEGIN = """
import h5py, numpy as np, os
f = h5py.File("x.h5", "w", libver="latest")
f["before"] = np.arange(100)
def at(offset, size, path="x.h5"):
    with open(path, "rb") as plain:
        plain.seek(offset)
        return plain.read(size)
def value(offset, path="x.h5"):
    return np.frombuffer(at(offset, 8, path), "i8").tolist()
def unstaged_parent():
    p = h5py.File("parent.h5", "w", driver="stdio")
    p["link"] = h5py.ExternalLink("x.h5", "/x")
    p.create_group("at")
    return p
def unstaged_list():
    files = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    files.set_fclose_degree(h5py.h5f.CLOSE_WEAK)
    files.set_fapl_stdio()
    return files
def linked(p):
    files, links = h5py.h5p.create(h5py.h5p.FILE_ACCESS), h5py.h5p.create(h5py.h5p.LINK_ACCESS)
    files.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    files.set_fapl_sec2()   # HDF5 would open the file with the parent's driver
    links.set_elink_fapl(files)
    return h5py.Dataset(h5py.h5o.open(p.id, b"link", lapl=links))
"""

# Each has staged something before it asks, and asks before it flushes.
PROGRAMS = {
    "offset_behind_a_link_of_an_unstaged_file": """
f.create_dataset("x", data=np.full(20000, 7, "i8"))
p = unstaged_parent()
d = linked(p)
where = d.id.get_offset()
print(value(where), value(where + 8 * 19999))
d[:] = 4
print(value(where), value(where + 8 * 19999))
""",
    "chunk_info_behind_a_link_of_an_unstaged_file": """
f.create_dataset("x", data=np.arange(4000).reshape(4, 1000), chunks=(1, 1000))
other = h5py.File("other.h5", "w")
other["y"] = np.arange(1000)
p = unstaged_parent()
d = linked(p)
d.id.chunk_iter(lambda chunk: print(chunk.chunk_offset, value(chunk.byte_offset)))
info = d.id.get_chunk_info_by_coord((3, 0))
print(value(info.byte_offset), value(d.id.get_chunk_info(2).byte_offset))
""",
    "offset_behind_a_mount_of_an_unstaged_file": """
f.create_dataset("x", data=np.full(20000, 7, "i8"))
p = unstaged_parent()
h5py.h5f.mount(p.id, b"at", f.id)
where = p["at/x"].id.get_offset()
print(value(where), value(where + 8 * 19999))
h5py.h5f.unmount(p.id, b"at")
""",
    "offset_in_an_unstaged_file_that_the_last_dataset_closes": """
f.create_dataset("x", data=np.full(20000, 7, "i8"))
print(value(f["x"].id.get_offset()))
p = h5py.h5f.create(b"own.h5", fapl=unstaged_list())
d = h5py.h5d.create(p, b"own", h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((1000,)))
d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.full(1000, 9, "i8"))
where = d.get_offset()
p.close()
print(where == d.get_offset())
d.close()
print(value(where, "own.h5"), os.path.getsize("own.h5"), h5py.File("own.h5")["own"][999])
""",
    "handle_behind_a_link_of_an_unstaged_file": """
f.create_dataset("x", data=np.full(20000, 7, "i8"))
p = unstaged_parent()
d = linked(p)
handle = d.file.id.get_vfd_handle()
content = os.pread(handle, os.fstat(handle).st_size, 0)
where = d.id.get_offset()
print(np.frombuffer(content[where : where + 8], "i8"))
""",
    "offset_of_contiguous_data": """
d = f.create_dataset("x", data=np.full(20000, 7, "i8"))
where = d.id.get_offset()
print(value(where), value(where + 8 * 19999))
""",
    "written_after_the_answer": """
d = f.create_dataset("x", (20000,), "i8")
d[:] = 3
where = d.id.get_offset()
d[:] = 4
print(value(where), value(where + 8 * 19999))
d[100:4000] = 5
print(value(where + 8 * 99), value(where + 8 * 100), value(where + 8 * 3999))
""",
    "another_dataset_after_the_answer": """
d = f.create_dataset("x", data=np.full(20000, 7, "i8"))
d.id.get_offset()
e = f.create_dataset("y", data=np.full(20000, 8, "i8"))
print(value(e.id.get_offset()))
""",
    "memory_map": """
d = f.create_dataset("x", data=np.arange(20000))
m = np.memmap("x.h5", mode="r", shape=d.shape, offset=d.id.get_offset(), dtype=d.dtype)
print(int(m.sum()))
d[:] = 1
print(int(m.sum()))
""",
    "memory_map_that_writes": """
d = f.create_dataset("x", data=np.arange(20000))
m = np.memmap("x.h5", mode="r+", shape=d.shape, offset=d.id.get_offset(), dtype=d.dtype)
m[10] = 99
m.flush()
print(d[10], int(d[:].sum()))
""",
    "chunk_info_by_number": """
d = f.create_dataset("x", data=np.arange(4000).reshape(4, 1000), chunks=(1, 1000))
for i in range(d.id.get_num_chunks()):
    info = d.id.get_chunk_info(i)
    print(info.chunk_offset, info.size, value(info.byte_offset))
d[2] = -1
print([value(d.id.get_chunk_info(i).byte_offset) for i in range(4)])
""",
    "chunk_info_by_coordinates": """
d = f.create_dataset("x", data=np.arange(4000).reshape(4, 1000), chunks=(1, 1000))
info = d.id.get_chunk_info_by_coord((3, 0))
print(value(info.byte_offset))
d.id.write_direct_chunk((3, 0), np.full(1000, 5).tobytes())
print(value(info.byte_offset))
""",
    "chunk_iteration": """
d = f.create_dataset("x", data=np.arange(4000).reshape(4, 1000), chunks=(1, 1000))
d.id.chunk_iter(lambda chunk: print(chunk.chunk_offset, value(chunk.byte_offset)))
""",
    "filtered_chunks": """
import zlib
d = f.create_dataset("x", data=np.arange(4000).reshape(4, 1000), chunks=(1, 1000), compression="gzip")
def show():
    for i in range(d.id.get_num_chunks()):
        info = d.id.get_chunk_info(i)
        print(np.frombuffer(zlib.decompress(at(info.byte_offset, info.size)), "i8").sum())
show()
d[1] = np.random.default_rng(1).integers(0, 1 << 60, 1000)
show()
""",
    "direct_chunks": """
d = f.create_dataset("x", (4, 1000), "i8", chunks=(1, 1000))
for i in range(4):
    d.id.write_direct_chunk((i, 0), np.full(1000, i).tobytes())
    print(value(d.id.get_chunk_info_by_coord((i, 0)).byte_offset))
""",
    "opened_again_after_the_answer": """
d = f.create_dataset("x", data=np.full(20000, 7, "i8"))
where = d.id.get_offset()
f.close()
f = h5py.File("x.h5", "r+")
f["x"][:] = 6
print(value(where))
""",
    "asked_while_it_was_read_only": """
f["x"] = np.full(20000, 7, "i8")
f.close()
f = h5py.File("x.h5", "r")
where = f["x"].id.get_offset()
print(value(where))
f.close()
f = h5py.File("x.h5", "r+")
f["x"][:] = 6
print(value(where))
""",
    "behind_an_external_link": """
with h5py.File("other.h5", "w") as other:
    other["x"] = np.zeros(20000, "i8")
f["link"] = h5py.ExternalLink("other.h5", "/x")
d = f["link"]
d[:] = 9
where = d.id.get_offset()
print(value(where, "other.h5"))
d[:] = 10
print(value(where, "other.h5"))
""",
    "with_a_user_block": """
f.close()
f = h5py.File("x.h5", "w", userblock_size=512)
d = f.create_dataset("x", data=np.full(20000, 7, "i8"))
print(value(d.id.get_offset()))
""",
    "references_to_chunks": """
index = {}
for name in ("a", "b"):
    d = f.create_dataset(name, data=np.arange(3000) + len(index), chunks=(1000,))
    index[name] = [(d.id.get_chunk_info(i).byte_offset, d.id.get_chunk_info(i).size) for i in range(3)]
for step in range(3):
    for name in index:
        f[name][:] = step
        f[name].id.flush()
    f["a"].resize((3000,)) if f["a"].maxshape[0] is None else None
    for name in index:
        print([int(np.frombuffer(at(*where), "i8").sum()) for where in index[name]])
""",
}
LEFT_STAGED = {
    "no_address": """
d = f.create_dataset("x", (20000,), "i8", maxshape=(None,), chunks=(1000,))
print(d.id.get_num_chunks(), d.id.get_offset(), d.id.get_storage_size())
d.id.chunk_iter(lambda chunk: print("a chunk"))
d[:] = 1
print(d.id.get_num_chunks(), d.id.get_storage_size(), h5py.h5o.get_info(d.id).type)
"""
}
END = """
f.close()
import hashlib
print(hashlib.sha256(open("x.h5", "rb").read()).hexdigest())
"""


@pytest.mark.check
@pytest.mark.parametrize("name", PROGRAMS)
def test_whoever_is_handed_an_address_finds_the_bytes_there(name, tmp_path):
    code = BEGIN + PROGRAMS[name] + END
    plain = run_python(code, native(), tmp_path / "native")
    assert run_python(code, staged(tmp_path), tmp_path / "through") == plain
    assert "address_given" in reasons(tmp_path)
    assert bytes_staged(tmp_path) > 0


@pytest.mark.parametrize("name", LEFT_STAGED)
def test_a_file_of_which_no_address_is_handed_out_stays_staged(name, tmp_path):
    code = BEGIN + LEFT_STAGED[name] + END
    plain = run_python(code, native(), tmp_path / "native")
    assert run_python(code, staged(tmp_path), tmp_path / "through") == plain
    assert reasons(tmp_path) == set()
    assert bytes_staged(tmp_path) > 0


def test_a_file_made_anew_is_staged_again(tmp_path):
    code = (
        BEGIN
        + """
f["x"] = np.full(20000, 7, "i8")
f["x"].id.get_offset()
f.close()
f = h5py.File("x.h5", "w")
f["x"] = np.full(30000, 7, "i8")
f.close()
"""
    )
    run_python(code, staged(tmp_path), tmp_path / "through")
    first, second = statistics(tmp_path)
    assert first["reasons"] == ["address_given"]
    assert second["reasons"] == [] and second["staged"] > 240000


C_PROGRAM = r"""
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void show(const char *what, haddr_t at) {
    long long value = -1;
    int plain = open("c.h5", O_RDONLY);
    ssize_t got = pread(plain, &value, sizeof value, (off_t)at);
    close(plain);
    printf("%s %zd %lld\n", what, got, value);
}
static int each(const hsize_t *offset, unsigned mask, haddr_t at, hsize_t size, void *data) {
    (void)mask;
    (void)size;
    show(data, at);
    printf("chunk %llu\n", (unsigned long long)offset[0]);
    return offset[0] == 2 ? 5 : 0;
}
int main(int argc, char **argv) {
    (void)argc;
    hsize_t size[2] = {4, 5000}, chunk[2] = {1, 5000}, at[2] = {1, 0}, where[2], bytes;
    long long *data = malloc(20000 * sizeof *data);
    for (int i = 0; i < 20000; ++i) data[i] = i;
    unsigned mask;
    haddr_t address = HADDR_UNDEF;
    hid_t f = H5Fcreate("c.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), s = H5Screate_simple(2, size, NULL);
    hid_t p = H5Pcreate(H5P_DATASET_CREATE), q;
    H5Pset_obj_track_times(p, 0);
    q = H5Pcopy(p);
    H5Pset_chunk(p, 2, chunk);
    hid_t d = H5Dcreate2(f, "x", H5T_NATIVE_LLONG, s, H5P_DEFAULT, p, H5P_DEFAULT);
    hid_t c = H5Dcreate2(f, "c", H5T_NATIVE_LLONG, s, H5P_DEFAULT, q, H5P_DEFAULT);
    H5Dwrite(d, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dwrite(c, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    if (!strcmp(argv[1], "iter")) {
        printf("iter %d\n", H5Dchunk_iter(d, H5P_DEFAULT, each, "iter"));
    } else if (!strcmp(argv[1], "coord")) {
        printf("coord %d\n", H5Dget_chunk_info_by_coord(d, at, &mask, &address, &bytes));
        show("coord", address);
    } else if (!strcmp(argv[1], "index")) {
        printf("index %d\n", H5Dget_chunk_info(d, H5S_ALL, 3, where, &mask, &address, &bytes));
        show("index", address);
        printf("no address wanted %d\n", H5Dget_chunk_info(d, H5S_ALL, 3, where, &mask, NULL, &bytes));
    } else if (!strcmp(argv[1], "offset")) {
        show("offset", address = H5Dget_offset(c));
    } else {
        int *descriptor;
        long long value = -1;
        printf("handle %d\n", H5Fget_vfd_handle(f, H5P_DEFAULT, (void **)&descriptor));
        pread(*descriptor, &value, sizeof value, (off_t)H5Dget_offset(c) + 8);
        printf("%lld\n", value);
    }
    for (int i = 0; i < 20000; ++i) data[i] = 2 * i + 1;
    H5Dwrite(d, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dwrite(c, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    show("contiguous", H5Dget_offset(c));
    H5Dclose(d), H5Dclose(c), H5Pclose(p), H5Pclose(q), H5Sclose(s);
    printf("close %d\n", H5Fclose(f));
    return 0;
}
"""


@pytest.fixture(scope="module")
def c_program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    return compile_c(C_PROGRAM, folder / "addresses")


def compile_c(text: str, program: Path) -> Path:
    compiler, prefix = shutil.which("gcc") or shutil.which("cc"), hdf5_prefix()
    if compiler is None or not (prefix / "lib").exists():
        pytest.skip("there is no C compiler, or no HDF5 to compile with")
    source = program.with_suffix(".c")
    source.write_text(text)
    mpi = os.environ.get("FOREBAY_HDF5_MPI", "mpich")
    command = [
        compiler,
        "-O1",
        f"-I{prefix / 'include'}",
        *include_of(mpi),
        source,
        f"-L{prefix / 'lib'}",
        f"-Wl,-rpath,{prefix / 'lib'}",
        "-lhdf5",
        "-o",
        program,
    ]
    done = run(command, native(), program.parent)
    assert done.returncode == 0, done.stderr
    return program


def include_of(mpi: str) -> list[str]:
    wrapper = shutil.which(f"mpicc.{mpi}") or shutil.which("mpicc")
    if wrapper is None:
        return []
    shown = run([wrapper, "-show"], native(), Path("/tmp")).stdout.split()
    return [word for word in shown if word.startswith("-I")]


@pytest.mark.parametrize("way", ["iter", "coord", "index", "offset", "handle"])
def test_a_c_program_finds_the_bytes_at_their_addresses(way, c_program, tmp_path):
    outputs = []
    for environment, folder in ((native(), "native"), (staged(tmp_path), "through")):
        done = run([c_program, way], environment, tmp_path / folder)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert (tmp_path / "native/c.h5").read_bytes() == (tmp_path / "through/c.h5").read_bytes()
    assert "address_given" in reasons(tmp_path) and bytes_staged(tmp_path) > 0


SIZES = """
import h5py, numpy as np, os, sys
def size(): print(os.stat("s.h5").st_size)
f = h5py.File("s.h5", "w"); f.flush(); size()
f["x"] = np.arange(1000); f.flush(); size()
g = f.create_group("g")
for i in range(200): g.attrs[f"a{i}"] = np.arange(i)
f.flush(); size()
d = f.create_dataset("early", (300000,), "f8"); d[0] = 1; f.flush(); size()
e = f.create_dataset("chunks", (100, 100), "i4", chunks=(10, 10), maxshape=(None, None)); e[...] = 1; f.flush(); size()
e.resize((10, 10)); f.flush(); size()
del f["early"]; f.flush(); size()
del f["chunks"]; f.flush(); size()
d = f.create_dataset("big", data=np.ones(1 << 19)); f.flush(); size()
d[:] = 2; f.flush(); size()
f.close(); size()
f = h5py.File("s.h5", "r+"); f["more"] = np.arange(77777); f.flush(); size()
del f["big"], f["more"]; f.flush(); size()
f.close(); size()
"""


@pytest.mark.parametrize("options", ["", "flush=drain", "durability=node"])
def test_after_a_flush_the_file_has_the_size_that_it_has_natively(options, tmp_path):
    plain = run_python(SIZES, native(), tmp_path / "native")
    assert run_python(SIZES, staged(tmp_path, options), tmp_path / "through") == plain
    assert reasons(tmp_path) == set() and bytes_staged(tmp_path) > 0
