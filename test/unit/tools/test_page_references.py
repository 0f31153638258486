"""Comments that name a page, or a section of one: they exist."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("src", "include", "python", "test", "bench", "examples")
NAMED = re.compile(r'docs/((?:decisions/|tutorials/)?[a-z-]+\.md)(?:,\s*"([^"]+)")?')


def sections(page):
    return {line.lstrip("#").strip().replace("`", "") for line in page.read_text().splitlines() if line.startswith("#")}


def test_every_page_and_section_that_a_comment_names_exists():
    files = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found, wrong = 0, []
    for name in files.split():
        path = ROOT / name
        if (
            path.suffix not in (".cc", ".h", ".py", ".c", ".txt")
            or name.startswith("test/unit/tools/test_check_")
            or not path.is_file()
        ):
            continue
        for match in NAMED.finditer(re.sub(r"\n\s*(//|#)\s?", " ", path.read_text())):
            page = ROOT / "docs" / match[1]
            found += 1
            if not page.is_file() or (match[2] and match[2] not in sections(page)):
                wrong.append(f"{name}: {match[0]}")
    assert not wrong, "\n".join(wrong)
    assert found > 50
