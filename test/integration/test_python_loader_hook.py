"""DataLoaders of programs that know nothing of forebay: they are followed, and observe nothing of it.

What is prefetched is recorded by the stand-in of the plugin (test/support/plugin_stand_in.c). The program is
loader_program.py. A Python with PyTorch runs it: FOREBAY_HDF5_EXAMPLES_PYTHON, or the one that runs the tests.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import CLOCK_BEHIND_S, ROOT, native, run, statistics_file
from pairwise import LONG, some_of

from forebay.slowfs import SlowFS, available

STARTUP = ROOT / "python" / "forebay" / "startup"
PROGRAM = Path(__file__).with_name("loader_program.py")
STAND_IN = ROOT / "test" / "support" / "plugin_stand_in.c"
# A row is larger than HDF5's sieve buffer, so it is asked for alone.
LENGTH, WIDTH, SIZE = 300, 70000, 8
LATE = SIZE * 4  # items of the batches that are under way while two workers learn the rule

KINDS = [
    "sequential", "random", "last dropped", "own generator", "replacement", "replacement, global", "many rounds",
    "subset", "weighted", "weighted once", "distributed", "distributed, in order", "batch sampler", "single",
    "of the program",
]  # fmt: skip
FEW = ["random", "distributed", "batch sampler"]  # each worker that is spawned imports PyTorch

h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def python():
    found = os.environ.get("FOREBAY_HDF5_EXAMPLES_PYTHON")
    if found:
        return found
    if importlib.util.find_spec("torch") is None:
        pytest.skip("there is no Python with PyTorch here: tools/setup examples")
    return sys.executable


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    path = tmp_path_factory.mktemp("stand-in") / "libforebay_stand_in.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, STAND_IN], check=True)
    return path


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The file, and where in it the rows of x begin."""
    path = tmp_path_factory.mktemp("rows") / "rows.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.random.default_rng(2).integers(0, 255, (LENGTH, WIDTH), dtype=np.uint8)
        file["y"] = np.arange(LENGTH)
        return path, file["x"].id.get_offset()


def observed(python, environment, folder, path, workers, method, kinds):
    done = run([python, PROGRAM, path, str(workers), method, *kinds], environment, folder, seconds_max=500)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, counts = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(lines), counts, done.stderr


def followed(folder, stand_in, **more):
    """The environment of a program that `forebay run` starts, with the stand-in in the place of the plugin."""
    records = {"STAND_IN": str(stand_in), "STAND_IN_RECORDS": str(folder / "records")}
    return native(PYTHONPATH=str(STARTUP), **records, **more)


def rows_asked_for(folder, begin):
    """The rows of x that were asked for, in order."""
    asked = []
    for line in (folder / "records").read_text().splitlines():
        for place in line.split()[2:]:
            offset, length = map(int, place.split("+"))
            if begin <= offset < begin + LENGTH * WIDTH:
                asked += range((offset - begin) // WIDTH, (offset + length - begin - 1) // WIDTH + 1)
    return asked


MATRIX = [
    pytest.param(0, "fork", some_of("kinds", KINDS, 7), id="none"),
    pytest.param(2, "fork", some_of("kinds, forked", KINDS, 5), id="fork", marks=pytest.mark.slow),
    pytest.param(2, "forkserver", some_of("kinds, served", FEW), id="forkserver", marks=pytest.mark.slow),
    pytest.param(2, "spawn", some_of("kinds, spawned", FEW), id="spawn", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def natively(python, rows, tmp_path_factory):
    """What a training observes without the hook, by its workers and its kind. How workers start makes no difference."""
    folder, plain = tmp_path_factory.mktemp("natively"), {}

    def of(workers, kinds):
        missing = [kind for kind in kinds if (workers, kind) not in plain]
        if missing:
            found, none, _ = observed(python, native(), folder, rows[0], workers, "fork", missing)
            assert none == {}
            plain.update(((workers, kind), found[kind]) for kind in missing)
        return {kind: plain[workers, kind] for kind in kinds}

    of(
        2,
        list(dict.fromkeys(kind for workers, _, kinds in (one.values for one in MATRIX) if workers for kind in kinds)),
    )
    return of


@pytest.mark.parametrize(("workers", "method", "kinds"), MATRIX)
def test_a_training_observes_the_same_with_following_and_without(
    workers, method, kinds, python, stand_in, rows, natively, tmp_path
):
    path, begin = rows
    with_it, counts, errors = observed(python, followed(tmp_path, stand_in), tmp_path, path, workers, method, kinds)
    assert with_it == natively(workers, kinds)
    assert "forebay" not in errors, "PyTorch itself complains of iterators that are forked"
    known = [kind for kind in kinds if kind != "of the program"]
    assert counts["epochs"] == 4 * len(known), "three epochs, and the one that fails"
    assert not [name for name in counts if name.startswith("ended") or name == "errors"], counts
    # Workers persist, so the rule is learned once, from the batches that are under way then.
    read_later = {row for kind in known for order in (with_it[kind][1], with_it[kind][3]) for row in order[0][LATE:]}
    assert read_later and read_later <= set(rows_asked_for(tmp_path, begin))


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_asked_for_is_what_the_epoch_reads_next(workers, python, stand_in, rows, tmp_path):
    path, begin = rows
    environment = followed(tmp_path, stand_in, FOREBAY_FOLLOW="40")
    seen, _, _ = observed(python, environment, tmp_path, path, workers, "fork", ["distributed, in order"])
    order = seen["distributed, in order"][1][0]
    asked = rows_asked_for(tmp_path, begin)
    # Items of the batches that are read while the rule is learned are read by the program alone.
    late = SIZE * (2 if workers == 0 else 2 * workers)
    assert set(order[late:]) <= set(asked) <= set(order)
    if workers == 0:
        first = asked[: len(order) - SIZE]
        assert first == order[SIZE : SIZE + len(first)]


def test_following_is_switched_off_by_its_variable(python, stand_in, rows, tmp_path):
    environment = followed(tmp_path, stand_in, FOREBAY_FOLLOW="off")
    _, counts, _ = observed(python, environment, tmp_path, rows[0], 0, "fork", ["sequential"])
    assert counts == {} and not (tmp_path / "records").exists()


@pytest.mark.parametrize("method", ["forkserver", *(["spawn"] if LONG else [])])
def test_a_worker_without_the_hook_gets_plain_batches(method, python, stand_in, rows, natively, tmp_path):
    """Its environment was cleared, so it has nothing of forebay, nor of what its parent sends along."""
    cleared = followed(tmp_path, stand_in, CLEARED="1")
    seen, counts, errors = observed(python, cleared, tmp_path, rows[0], 2, method, ["random"])
    assert seen == natively(2, ["random"]) and counts["epochs"] == 4 and "forebay" not in errors
    assert not (tmp_path / "records").exists()


LOADER = """
import ctypes, json, os, sys, h5py, numpy as np, torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, random_split
ctypes.CDLL(os.environ["STAND_IN"])
hook = sys.modules["forebay.loader_hook"]
path, begin = sys.argv[1], int(sys.argv[2])
class Data(Dataset):
    def __init__(self, read, length, path=path):
        self.read, self.length, self.file = read, length, h5py.File(path)
    def __len__(self): return self.length
    def __getitem__(self, i): return self.read(self.file, i)
def epoch(data, **more):
    hook.counts.clear()
    for batch in DataLoader(data, **{"batch_size": 8, **more}): pass
    return dict(hook.counts)
"""


def loads(python, stand_in, rows, folder, code):
    path, begin = rows
    environment = followed(folder, stand_in, FOREBAY_FOLLOW="64")
    done = run([python, "-c", LOADER + code, path, str(begin)], environment, folder, seconds_max=200)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return rows_asked_for(folder, begin) if (folder / "records").exists() else []


def test_rules_of_several_kinds_are_learned(python, stand_in, rows, tmp_path):
    import shutil

    shutil.copy(rows[0], tmp_path / "other.h5")
    asked = loads(python, stand_in, rows, tmp_path, """
torch.manual_seed(1)
windows = epoch(Data(lambda f, i: f["x"][3 * i : 3 * i + 3], 100), shuffle=True)
assert windows == {"epochs": 1, "items": 92}, windows
behind = epoch(Data(lambda f, i: (f["x"][i + 7, 10:20], f["y"][np.int64(i) + 7]), 200))
assert behind == {"epochs": 1, "items": 192}, behind
part = epoch(Subset(Data(lambda f, i: f["x"][i], 300), torch.randperm(300)[:99].tolist()), shuffle=True)
assert part == {"epochs": 1, "items": 91}, part
files = ConcatDataset([Data(lambda f, i: f["x"][i], 300), Data(lambda f, i: f["x"][i], 300, "other.h5")])
both = epoch(files, shuffle=True)
assert both == {"epochs": 1, "items": 592}, both
split, _ = random_split(files, [500, 100])
assert epoch(split, shuffle=True) == {"epochs": 1, "items": 492}, hook.counts
split, _ = random_split(split, [400, 100])
# Where a Subset hands batches on (from PyTorch 2 on), it is not seen which item has read what.
assert epoch(split, shuffle=True) in ({"epochs": 1, "items": 392}, {"epochs": 1, "ended: misfit": 1}), hook.counts
class Together(Data):
    def __getitems__(self, items):
        rising = sorted(items)
        found = self.file["x"][rising]
        return [found[rising.index(i)] for i in items]
together = epoch(Together(None, 300), shuffle=True)
assert together == {"epochs": 1, "items": 292}, together
""")  # fmt: skip
    assert set(asked) == set(range(LENGTH))


def test_a_read_that_does_not_fit_ends_the_following_silently(python, stand_in, rows, tmp_path):
    asked = loads(python, stand_in, rows, tmp_path, """
def jumps(f, i): return f["x"][i if i < 100 else 299 - i]
late = epoch(Data(jumps, 300))
assert late.pop("ended: misfit") == 1 and late["items"] < 200, late
shuffled = epoch(Data(lambda f, i: f["x"][i * i % 300], 300))
assert shuffled == {"epochs": 1, "ended: misfit": 1}, shuffled
in_memory = epoch(Data(lambda f, i: i, 300))
assert in_memory == {"epochs": 1, "ended: misfit": 1}, in_memory
fancy = epoch(Data(lambda f, i: f["x"][np.arange(300) == i], 300))
assert fancy == {"epochs": 1, "ended: misfit": 1}, fancy
again = DataLoader(Data(jumps, 300), batch_size=8)
hook.counts.clear()
for _ in range(3): list(again)
assert hook.counts["ended: misfit"] == 1 and hook.counts["epochs"] == 1, hook.counts
""")  # fmt: skip
    assert set(asked) <= set(range(170))


def test_files_that_are_opened_for_each_item_and_refused_ones_do_no_harm(python, stand_in, rows, tmp_path):
    import shutil

    for name in ("uncached.h5", "busy.h5", "refused.h5"):
        shutil.copy(rows[0], tmp_path / name)
    loads(python, stand_in, rows, tmp_path, """
def opened(f, i):
    with h5py.File(path) as file: return file["x"][i]
assert epoch(Data(opened, 300)) == {"epochs": 1}, hook.counts
def of(name): return epoch(Data(lambda f, i: f["x"][i], 300, name))
assert of("uncached.h5") == {"epochs": 1, "ended: not cached": 1}, hook.counts
labels = h5py.File("uncached.h5")
beside = epoch(Data(lambda f, i: (labels["y"][i], f["x"][i]), 300), shuffle=True)
assert beside == {"epochs": 1, "items": 292}, beside
assert of("busy.h5") == {"epochs": 1}, hook.counts
assert of("refused.h5") == {"epochs": 1, "ended: refused": 1}, hook.counts
""")  # fmt: skip


def test_errors_of_the_hook_never_reach_the_program(python, stand_in, rows, tmp_path):
    loads(python, stand_in, rows, tmp_path, """
from forebay import loader_watch, sampler_order
def fails(*arguments): raise RuntimeError("of the hook")
whole = lambda: epoch(Data(lambda f, i: f["x"][i], 300))
for module, name in ((loader_watch, "read_of"), (loader_watch, "_layout"), (loader_watch, "ask"),
                     (loader_watch, "inner_item"), (loader_watch, "_reads_singly"), (loader_watch, "watch_reads"),
                     (hook, "begin"), (sampler_order, "_sequential")):
    right = getattr(module, name)
    if name == "_sequential": module._MAKERS["SequentialSampler"] = fails
    setattr(module, name, fails)
    counted = whole()
    assert counted.get("errors") == 1 or counted.get("ended: error") == 1, (name, counted)
    setattr(module, name, right)
""")  # fmt: skip


def test_of_small_rows_what_hdf5_reads_at_once_is_asked_for(python, stand_in, rows, tmp_path):
    loads(python, stand_in, rows, tmp_path, """
whole = epoch(Data(lambda f, i: f["y"][i], 300))
assert whole == {"epochs": 1, "items": 292}, whole
with h5py.File(path) as f: begin = f["y"].id.get_offset()
words = [word for line in open(os.environ["STAND_IN_RECORDS"]) for word in line.split()[2:]]
assert words == [f"{begin + 8 * i}+{8 * (300 - i)}" for i in range(8, 300)], words[:3]
with h5py.File("wide.h5", "w") as f: f["wide"] = np.zeros((100, 5000), np.uint8)
os.remove(os.environ["STAND_IN_RECORDS"])
class Wide(Data):
    def __init__(self): super().__init__(lambda f, i: f["wide"][i], 100, "wide.h5")
epoch(Wide())
with h5py.File("wide.h5") as f: begin = f["wide"].id.get_offset()
words = [word for line in open(os.environ["STAND_IN_RECORDS"]) for word in line.split()[2:]]
assert words == [f"{begin + 5000 * i}+{min(65536, 5000 * (100 - i))}" for i in range(8, 100)], words[:3]
""")  # fmt: skip


def test_where_the_node_has_everything_the_asking_rests_longer_and_longer():
    from forebay.loader_watch import _Supply

    class Plugin:
        fetched, left = 0, 0

        def statistics(self):
            return {"cache": {"fetched_bytes": self.fetched}}

        def prefetch_left(self, path):
            return self.left

    plugin, supply = Plugin(), _Supply()

    def asks_until_rest(most=100):
        """Fetches that are left alone behind the next asks."""
        for _ in range(most):
            supply.judge([plugin], [b"x.h5"])
            left_alone = 0
            while supply.rests():
                left_alone += 1
            if left_alone:
                return left_alone
        return 0

    assert [asks_until_rest() for _ in range(9)] == [7, 15, 31, 63, 127, 255, 511, 1023, 1023]
    plugin.fetched += 4096
    assert asks_until_rest(1) == 0, "something had to be fetched"
    plugin.left = 4096
    assert asks_until_rest() == 0, "what was asked for is on its way"
    plugin.left = 0
    assert asks_until_rest() == 7
    plugin.statistics = dict
    assert asks_until_rest() == 0, "a plugin that does not tell"


def test_a_loader_with_a_locality_sampler_is_followed(python, stand_in, rows, tmp_path):
    loads(python, stand_in, rows, tmp_path, """
from forebay.torch import LocalitySampler
from torch.utils.data import DistributedSampler
data = Data(lambda f, i: f["x"][i], 300)
ours = [LocalitySampler(data, 4, rank, seed=3, batch_size=8) for rank in range(4)]
theirs = [DistributedSampler(data, 4, rank, seed=3) for rank in range(4)]
for sampler in ours + theirs: sampler.set_epoch(2)
global_batches = lambda all: [sorted(sum((list(one)[at : at + 8] for one in all), [])) for at in range(0, 75, 8)]
assert global_batches(ours) == global_batches(theirs)
assert epoch(data, sampler=ours[1]) == {"epochs": 1, "items": 67}
""")  # fmt: skip


# --- the start of Python ---


def test_a_sitecustomize_of_the_user_runs_and_nothing_of_ours_is_left(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.of_the_user = __name__, __file__\n")
    show = "import sys; print(getattr(sys, 'of_the_user', None), 'sitecustomize' in sys.modules, sys.path)"
    for folders in ([tmp_path], []):
        with_ours = os.pathsep.join(map(str, [STARTUP, *folders]))
        plain = run([sys.executable, "-c", show], native(PYTHONPATH=os.pathsep.join(map(str, folders))), tmp_path)
        ours = run([sys.executable, "-c", show], native(PYTHONPATH=with_ours), tmp_path)
        assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)
    failing = "raise RuntimeError('of the user')"
    (tmp_path / "sitecustomize.py").write_text(failing)
    done = run([sys.executable, "-c", "print(1)"], native(PYTHONPATH=f"{STARTUP}:{tmp_path}"), tmp_path)
    assert done.stdout == "1\n" and "of the user" in done.stderr


def test_neither_torch_nor_forebay_is_imported_before_the_program_does(tmp_path):
    code = "import sys; print({'torch', 'forebay', 'numpy', 'h5py'} & set(sys.modules))"
    done = run([sys.executable, "-c", code], native(PYTHONPATH=str(STARTUP)), tmp_path)
    assert done.stdout == "set()\n"


def test_run_starts_a_script_as_python_does_and_follows(tmp_path):
    from forebay.__main__ import with_interpreter

    script = tmp_path / "train.py"
    script.write_text("import os, sys\nprint(__name__, sys.argv, sys.path[0], os.environ.get('PYTHONPATH'))\n")
    base = [sys.executable, "-m", "forebay"]
    environment = native(PYTHONPATH=str(ROOT / "python"))
    options = ["run", "-q", "-o", f"nls={tmp_path}"]
    expected = f"__main__ ['{script}', '-x', 'run'] {tmp_path}"
    for words in ([script, "-x", "run"], ["--", script, "-x", "run"], ["--", sys.executable, script, "-x", "run"]):
        done = run([*base, *options, *words], environment, tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == f"{expected} {STARTUP}:{ROOT / 'python'}"
    off = run([*base, *options, script, "-x", "run"], {**environment, "FOREBAY_FOLLOW": "off"}, tmp_path)
    assert off.stdout.strip() == f"{expected} {ROOT / 'python'}" and off.stderr == ""
    for words in (["run", "--nls", "x.py", "ls"], ["run", "none.py"], ["run"], ["status", str(script)], []):
        assert with_interpreter(words) == words


# --- against the plugin itself ---

TRAIN = """
import os, sys, time, h5py, numpy as np, torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

class Rows(Dataset):
    file, seen = None, 0
    def __len__(self): return 2000
    def __getitem__(self, i):
        if self.file is None: self.file = h5py.File("target/rows.h5")
        self.seen += 1
        if self.seen > 8 and "forebay.loader_hook" in sys.modules:   # what was asked for may come as slowly as it likes
            from forebay.plugin import left_of
            end = time.monotonic() + 60
            while left_of(os.path.abspath(self.file.filename).encode()) and time.monotonic() < end: time.sleep(0.002)
        return int(self.file["x"][i].sum(dtype=np.int64))

if __name__ == "__main__":
    rows = Rows()
    # A twentieth of the rows: too few for the cache to read the rest ahead by itself.
    loader = DataLoader(rows, batch_size=8, sampler=DistributedSampler(rows, 20, 3), num_workers=int(sys.argv[1]))
    print(*(number for batch in loader for number in batch.tolist()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", some_of("workers that read ahead", ["0", "2"]))
def test_the_first_epoch_is_read_from_the_node(workers, python, tmp_path):
    usable, reason = available()
    if not usable:
        pytest.skip(f"slowfs cannot be used: {reason}")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "backing").mkdir()
    with h5py.File(tmp_path / "backing" / "rows.h5", "w") as file:
        file["x"] = np.random.default_rng(3).integers(0, 256, (2000, 16384), dtype=np.uint8)
    missed, printed = {}, {}
    with SlowFS(tmp_path / "backing", tmp_path / "target", latency={"read": "2ms"}, clock_behind=CLOCK_BEHIND_S):
        for follow in ("off", "100"):
            here = tmp_path / follow
            (here / "area").mkdir(parents=True)
            environment = native(
                PYTHONPATH=str(ROOT / "python"), FOREBAY_FOLLOW=follow, FOREBAY_STATS=str(statistics_file(here))
            )
            options = ["-q", "-o", f"nls={here / 'area'}", "-o", "read_cache=on"]
            done = run([python, "-m", "forebay", "run", *options, "train.py", workers], environment, tmp_path)
            assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
            printed[follow] = done.stdout
            lines = [json.loads(line) for line in statistics_file(here).read_text().splitlines()]
            caches = [line["process"]["cache"] for line in lines if "cache" in line.get("process", {})]
            assert sum(cache["hit_bytes"] + cache["missed_bytes"] for cache in caches) >= 100 * 16384
            missed[follow] = sum(cache["missed_bytes"] for cache in caches)
    assert printed["100"] == printed["off"]
    assert missed["off"] >= 90 * 16384
    assert missed["100"] <= missed["off"] / 2, missed
