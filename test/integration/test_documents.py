"""Every block of commands in the documents is run here, or says in the page why not.

A page is one session: its blocks of shell and Python run in their order, in one folder, against this build. A block
with a title is a file of that name. A block `output` is what the commands before it print; figures may differ. A line
`<!-- not run: WHY -->` before a block, which readers do not see, leaves it out. Blocks without a language are diagrams.

`documents/any` and `documents/PAGE` hold the programs that pages take for granted.
"""

import ast
import functools
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from connector_environment import ROOT, hdf5_prefix, native
from seeds import SEED

from forebay.slowfs import SlowFS, available

BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
FOREBAY = BUILD / "bin" / "forebay"
STAND_INS = Path(__file__).parent / "documents"
FOLDERS = ("docs", "examples", "bench", "evaluation", "packaging", "tools")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
TUTORIALS = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.name != "README.md")

BLOCK = re.compile(
    r'^(?:<!-- not run: ([^\n]+) -->\n)?```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL
)
INDENTED = re.compile(r"(?<=\n\n) {4}\S.*", re.MULTILINE)
TYPED = re.compile(r"^\s*(?:\$ |forebay |make |pip |export |eval |cc |python |mpiexec |tools/|cmake )", re.MULTILINE)
LANGUAGES = {"sh", "python", "c", "output", "json", "ini", ""}
PARALLEL = "/parallel/"
# Folders that pages name; each is one of the session's own.
SAMPLES = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as file:
    file["labels"], file["images"] = np.arange(64) % 10, np.zeros((64, 8, 8, 3), "f4")
"""
NAMED_FOLDERS = re.compile(r"(?<![\w.}/])/(local|parallel|run/user/1000|var/lib/node_exporter)(?=/)")
# Modules that are imported by a name in a string.
ALSO_NEEDS = {"xarray": "netCDF4"}
MORE_PYTHONS = ("FOREBAY_HDF5_EXAMPLES_PYTHON", "FOREBAY_HDF5_SUITES_PYTHON", "FOREBAY_HDF5_KERAS_PYTHON")


@dataclass
class Block:
    not_run: str | None
    language: str
    title: str | None
    text: str

    @property
    def runs(self):
        return self.not_run is None and self.title is None and self.language in ("sh", "python")


def blocks(page):
    return [Block(why or None, language, title or None, text) for why, language, title, text in BLOCK.findall(page)]


def name(page):
    return str(page.relative_to(ROOT).with_suffix(""))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_block_is_run_or_says_why_not(page):
    text = page.read_text()
    found = blocks(text)
    assert text.count("```") == 2 * len(found), "a block that does not begin and end as the others"
    prose = BLOCK.sub("", text)
    assert "\n<!-- not run:" not in prose, "a reason without a block"
    indented = [line for line in INDENTED.findall(prose) if not re.match(r" +(?:[-*+]|\d+\.) ", line)]
    assert not indented, f"blocks are fenced, and have a language: {indented}"
    for block in found:
        assert block.language in LANGUAGES, block
        assert block.not_run is None or len(block.not_run.split()) >= 3, block
        if block.language == "sh":
            done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, timeout=60)
            assert done.returncode == 0, (block.text, done.stderr)
        elif block.language == "python":
            compile(block.text, page.name, "exec")
        elif block.language == "":
            assert not TYPED.search(block.text), f"somebody would copy this: {block.text}"


def test_most_blocks_are_run():
    found = [block for page in PAGES for block in blocks(page.read_text()) if block.language in ("sh", "python")]
    run, not_run = sum(block.not_run is None for block in found), sum(block.not_run is not None for block in found)
    print(f"{run} blocks are run, {not_run} say why not")
    assert run > not_run


def test_all_tutorials_are_listed():
    listed = re.findall(r"\]\((\w+\.md)\)", (ROOT / "docs" / "tutorials" / "README.md").read_text())
    assert sorted(listed) == [path.name for path in TUTORIALS]


@functools.cache
def help_of(*words):
    done = subprocess.run([FOREBAY, *words, "--help"], capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else None


def faults_of_a_command(command):
    """What is wrong with the names in a command line of forebay, as pages show it."""
    words = shlex.split(command.replace("…", " "), comments=True)[1:]
    words = words[: words.index("--")] if "--" in words else words
    if not words or "=" in words[0] or not re.fullmatch(r"[a-z]+", words[0]):
        return
    depth = 2 if words[0] == "cache" and len(words) > 1 and words[1].isalpha() else 1
    shown = help_of(*(words[1:2] if words[0] == "help" else words[:depth]))
    if shown is None:
        yield f"{command}: there is no such command"
        return
    for word in words:
        if re.match(r"--?[a-z]", word) and not re.search(rf"(?<![\w-]){word.split('=')[0]}(?![\w-])", shown):
            yield f"{command}: there is no {word}"


def test_each_command_and_target_that_a_page_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    faults, named = [], 0
    for page in PAGES:
        text = page.read_text()
        code = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", BLOCK.sub("", text))]
        lines = [line for block in blocks(text) if block.language == "sh" for line in block.text.splitlines()]
        for line in [*code, *(line.strip() for line in lines)]:
            if line.startswith("forebay "):
                named += 1
                faults += [f"{name(page)}: {fault}" for fault in faults_of_a_command(line)]
            made = re.match(r"make ([a-z-]+)", line)
            if made and made[1] not in targets:
                faults.append(f"{name(page)}: {line}: there is no such target")
    assert named > 100
    assert not faults, "\n".join(faults)


def keys(value):
    """Of all objects in it. Those whose keys are data, such as reasons, have a name of their own in the page."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in ("aside", "at_once", "waited_closes"):
                yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def test_each_key_of_the_statistics_is_in_their_reference(tmp_path):
    (tmp_path / "nls").mkdir()
    environment = native(FOREBAY_STATS=str(tmp_path / "stats.jsonl"), FOREBAY_TRACE=str(tmp_path / "trace.jsonl"))
    writes = (
        "import h5py\nh5py.File('x.h5', 'w')['x'] = range(9)\nh5py.File('x.h5')['x'][:]\nf = h5py.File('y.h5', 'w')\n"
    )
    asks = f"{writes}f['y'] = 1\nimport subprocess\nprint(subprocess.run({[str(FOREBAY), 'status', '--json']!r}))"
    options = ["--nls", "nls", "--json", "summary.json", "-o", "read_cache=on"]
    command = [FOREBAY, "run", *options, "--", sys.executable, "-c", asks]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=60, check=True
    )
    found = set(keys(json.loads(done.stdout[: done.stdout.rindex("}") + 1])))
    found.update(keys(json.loads((tmp_path / "summary.json").read_text())))
    for log in ("stats.jsonl", "trace.jsonl"):
        found.update(key for line in (tmp_path / log).read_text().splitlines() for key in keys(json.loads(line)))
    assert {"files_staged", "segments_free", "hit_bytes", "not_drained", "begin_ns"} < found
    page = (ROOT / "docs" / "statistics.md").read_text()
    assert sorted(key for key in found if not re.search(rf"[`\"]{key}[`\"]", page)) == []


def modules(text):
    """The top-level names that a program imports, without those of the standard library."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    found.update(ALSO_NEEDS[module] for module in found & ALSO_NEEDS.keys())
    return found - sys.stdlib_module_names - {"forebay"}


def python_with(wanted):
    """An interpreter that has all these modules, or None."""
    has = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    for python in (sys.executable, *filter(None, map(os.environ.get, MORE_PYTHONS))):
        if subprocess.run([python, "-c", has, *wanted], env=native(), timeout=60).returncode == 0:
            return python
    return None


@functools.cache
def prefix():
    """An installation of this build, where the pages say PREFIX."""
    folder = Path(tempfile.mkdtemp(prefix="fb-prefix-"))
    command = ["cmake", "--install", BUILD, "--prefix", folder]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module", autouse=True)
def no_prefix_is_left():
    yield
    if prefix.cache_info().currsize:
        shutil.rmtree(prefix())


def needs(page, found):
    """What a page wants of the machine and has not, in words."""
    text = "".join(block.text for block in found if block.runs)
    for program in ("h5cc", "h5pcc", "h5dump"):
        if re.search(rf"\b{program}\b", text) and not (hdf5_prefix() / "bin" / program).exists():
            return f"the HDF5 in use has no {program}"
    if "mpiexec" in text and shutil.which("mpiexec") is None:
        return "there is no mpiexec"
    if "--all-users" in text and os.geteuid() != 0:
        return "only root sees the staging areas of all users"
    return None if available()[0] or "slowfs" not in text and PARALLEL not in text else available()[1]


class Session:
    """A folder with what a page takes for granted, and the environment of a user's shell."""

    def __init__(self, folder, page, python):
        self.folder, self.work = folder, folder / "work"
        programs = folder / "bin"
        for made in (programs, self.work / "nls", self.work / "build"):
            made.mkdir(parents=True)
        for named in ("local/scratch", "local/nvme", "local/ssd", "parallel", "run/user/1000", "var/lib/node_exporter"):
            (folder / named).mkdir(parents=True)
        (self.work / "build" / "release").symlink_to(BUILD)
        writes, reads = (STAND_INS / "any" / f"{does}.py" for does in ("writes", "reads"))
        for program in ("simulate.py", "simulation.py", "your_script.py"):
            shutil.copy(writes, self.work / program)
        shutil.copy(reads, self.work / "train.py")
        for program in ("simulation", "your_program"):
            self.script(self.work / program, f"exec {python} {writes}")
        for own in (STAND_INS / page.stem).glob("*"):
            shutil.copy(own, self.work)
        subprocess.run([python, "-c", SAMPLES, self.work / "train.h5"], check=True, env=native(), timeout=60)
        self.script(programs / "python", f'exec {python} "$@"')
        mpi = os.environ.get("FOREBAY_HDF5_MPI")
        self.script(programs / "cc", f'exec {shutil.which(f"mpicc.{mpi}") or shutil.which("mpicc") or "gcc"} "$@"')
        library = str(hdf5_prefix() / "lib")
        self.statistics = folder / "statistics.jsonl"
        self.environment = native(
            PATH=":".join(map(str, [programs, FOREBAY.parent, hdf5_prefix() / "bin", os.environ["PATH"]])),
            PYTHONPATH=str(ROOT / "python"),
            TMPDIR=str(folder),
            CPATH=os.environ.get("FOREBAY_HDF5_INCLUDE_DIR", str(hdf5_prefix() / "include")),
            LIBRARY_PATH=library,
            FOREBAY_STATS=str(self.statistics),
            KERAS_BACKEND="jax",  # which tools/setup keras installs
        )
        if page.parent.name == "tutorials":  # they begin with what README says, and need no more
            own = {str(FOREBAY.parent), str(hdf5_prefix() / "bin")}
            path = [str(programs), *(folder for folder in os.environ["PATH"].split(":") if folder not in own)]
            self.environment |= {"PATH": ":".join(path), "CPATH": "", "LIBRARY_PATH": ""}
            return
        # A wheel's h5py brings its own libhdf5. What is compiled here uses the tests' one.
        if re.search(r"^(?:cc|h5p?cc) ", page.read_text(), re.MULTILINE):
            self.environment["LD_LIBRARY_PATH"] = library

    def parallel(self):
        """A file system that is worth caching, with a file that is old enough to be."""
        backing = self.folder / "backing"
        backing.mkdir()
        shutil.copy(self.work / "train.h5", backing)
        return SlowFS(backing, self.folder / "parallel", latency={"read": "0.2ms"}, clock_behind=3600)

    @staticmethod
    def script(path, line):
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def here(self, text):
        """The text with the session's folders in place of those that the page names."""
        text = NAMED_FOLDERS.sub(lambda found: f"{self.folder}/{found[1]}", text)
        return text.replace("PREFIX/", f"{prefix()}/") if "PREFIX/" in text else text

    def staged_or_cached(self):
        lines = [json.loads(line) for line in self.statistics.read_text().splitlines()]
        return any(line.get("file", {}).get("staged") or line.get("process", {}).get("cache") for line in lines)


def shown_as(line):
    """A pattern for a line that a page shows: figures and their units may differ, and `…` is anything."""
    pattern = re.escape(line.strip()).replace("…", ".*")
    pattern = re.sub(r"(?:\\ )+", r"\\s+", pattern)
    return re.sub(
        r"\d+(?:\\\.\d+)?(\\s\+[KMGT]?i?B\b)?", lambda found: r"[\d.]+" + (r" \w+" if found[1] else ""), pattern
    )


def check_output(shown, said):
    for line in filter(str.strip, shown.splitlines()):
        assert re.search(rf"^\s*{shown_as(line)}\s*$", said, re.MULTILINE), f"not said: {line}\n{said}"


def unmount(folder):
    """What the commands of a page have left mounted below a folder, as they failed."""
    for mount in re.findall(
        rf"^slowfs ({re.escape(folder)}/work/\S+) ", Path("/proc/mounts").read_text(), re.MULTILINE
    ):
        subprocess.run(["fusermount3", "-u", "-z", mount], check=False, timeout=60)


def of_this_run(page):
    """One of each two pages has to wait for `make test-long`; which of them differs from commit to commit."""
    here = random.Random(f"{SEED} {page.name}").random() < 0.5
    return page if here else pytest.param(page, marks=pytest.mark.long)


RUN_PAGES = [page for page in PAGES if any(b.runs for b in blocks(page.read_text()))]


@pytest.mark.slow
@pytest.mark.parametrize("page", map(of_this_run, RUN_PAGES), ids=name)
def test_the_commands_of_a_page_do_what_it_says(page):
    found = blocks(page.read_text())
    lacking = needs(page, found)
    if lacking:
        pytest.skip(lacking)
    files = [block for block in found if block.title]
    python = python_with({"h5py"}.union(*(modules(block.text) for block in files if block.language == "python")))
    if python is None:
        pytest.skip("no Python here has all the modules of the page")
    left_out = []
    with tempfile.TemporaryDirectory(prefix="fb-") as scratch:  # short: sockets have names of 107 bytes
        session = Session(Path(scratch), page, python)
        for block in files:
            (session.work / block.title).write_text(session.here(block.text))
        script = "set -e\n"
        if page.parent.name == "tutorials" and page.name != "README.md":
            first = blocks((page.parent / "README.md").read_text())
            script += "".join(block.text for block in first if block.runs)
        for number, block in enumerate(found):
            script += f"echo; echo 'block {number}:'\n"
            if block.runs and block.language == "sh":
                script += session.here(block.text)
            elif block.runs:
                own = python_with({"h5py", *modules(block.text)})
                if own is None:
                    left_out.append(", ".join(sorted(modules(block.text))))
                    continue
                given = "def train(*batch): pass\n" if "train(" in block.text else ""
                (session.work / f"block_{number}.py").write_text(given + session.here(block.text))
                script += f"{own} block_{number}.py\n"
        with ExitStack() as mounts:
            if any(block.runs and PARALLEL in block.text for block in found):
                mounts.enter_context(session.parallel())
            mounts.callback(unmount, scratch)
            done = subprocess.run(
                ["bash", "-c", script],
                env=session.environment,
                cwd=session.work,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
            )
        said = re.split(r"^block \d+:\n", done.stdout, flags=re.MULTILINE)[1:]
        assert done.returncode == 0, f"{found[len(said) - 1].text}\n{done.stdout[-4000:]}"
        for number, block in enumerate(found):
            if block.language == "output" and block.not_run is None:
                check_output(session.here(block.text), said[number - 1])
        if re.search(r"forebay (?:run|env) |HDF5_VOL_CONNECTOR|forebay\.enable", script):
            assert session.staged_or_cached(), done.stdout
    if left_out:
        pytest.skip(f"all but the blocks that import {'; '.join(left_out)}: no Python here has them")
