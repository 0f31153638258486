"""tools/site: the pages of the documentation site, and that each document has its place in it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOREBAY = ROOT / "build" / "release" / "bin" / "forebay"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    if not FOREBAY.exists():
        pytest.skip("the command is not built")
    folder = tmp_path_factory.mktemp("site") / "pages"
    command = [sys.executable, ROOT / "tools" / "site", "--pages", folder, "--forebay", FOREBAY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def listed():
    return re.findall(r"([\w./-]+\.md)$", (ROOT / "docs" / "mkdocs.yml").read_text(), re.MULTILINE)


def test_each_document_is_listed_once_and_each_that_is_listed_exists(pages):
    names = listed()
    assert len(set(names)) == len(names)
    assert [name for name in names if not (pages / name).exists()] == []
    documents = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    # Decisions are reached from their own list.
    missing = [name for name in documents if name not in names and not name.startswith("docs/decisions/")]
    assert missing == []


def test_the_reference_of_the_command_has_every_command(pages):
    text = (pages / "docs" / "reference" / "command.md").read_text()
    said = subprocess.run([FOREBAY, "help"], capture_output=True, text=True, timeout=60).stdout
    commands = re.findall(r"^  (\w+)  ", said.split("Subcommands:")[1].split("\n\n")[0], re.MULTILINE)
    assert len(commands) > 8
    for command in set(commands) - {"help"}:
        assert f"\n## forebay {command}\n" in text
    assert "### forebay cache prefetch" in text


def test_the_reference_of_python_has_every_public_name(pages):
    text = (pages / "docs" / "reference" / "python.md").read_text()
    source = (ROOT / "python" / "forebay" / "__init__.py").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", source, re.DOTALL)[1])
    modules = {path.stem for path in (ROOT / "python" / "forebay").glob("*.py")}
    assert len(names) > 5
    constants = {"PLUGIN_PATH", "__version__"}
    assert [name for name in names if name not in modules | constants and f"\n## {name}\n" not in text] == []
    assert "\n## torch.FollowingSampler\n" in text and "class HDF5Rows(path: " in text


def test_the_reference_of_c_has_every_function(pages):
    text = (pages / "docs" / "reference" / "c.md").read_text()
    header = (ROOT / "include" / "forebay" / "forebay.h").read_text()
    functions = re.findall(r"\b(forebay_\w+)\(", header)
    assert len(functions) > 5 and all(name in text for name in functions)


@pytest.mark.skipif(shutil.which("mkdocs") is None, reason="mkdocs is not installed (tools/setup site)")
def test_no_link_of_the_site_leads_nowhere(pages, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    text = (ROOT / "docs" / "mkdocs.yml").read_text()
    text = text.replace("../build/site-pages", str(pages)).replace("../build/site", str(tmp_path / "site"))
    (folder / "mkdocs.yml").write_text(text)
    command = ["mkdocs", "build", "--strict", "--quiet", "-f", str(folder / "mkdocs.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").exists()
