"""Runs parts of parallel_calls, many in one launch, and says what came of each."""

import re
from dataclasses import dataclass
from pathlib import Path

from parallel_environment import Launch, launch, node_names, program

SECONDS_MAX = 480  # of all parts, on a busy machine
# HDF5 leaves some bytes of its blocks as malloc has given them.
SAME_MEMORY = {"MALLOC_PERTURB_": "165"}
# The names of the files that each part makes. The first part needs memory that nothing has used yet. After the last one
# the process counts anew.
FILES = {
    "strategies": r"(fsm|page|aggregated|none)(-kept)?-\d\.h5",
    "multi": r"(multi|calls)\.h5",
    "nested": r"nested\.h5",
    "rejected": r"right\.h5",
    "external": r"(target|leading)\.h5",
    "alone": r"(alone|calls)\.h5",
    "bad-space": r"bad\.h5",
    "closed": r"closed2?\.h5",
}
BAD_SPACE = "bad-space"  # hangs natively
PARTS = tuple(part for part in FILES if part != BAD_SPACE)


@dataclass(frozen=True)
class Parts:
    """What came of a launch of several parts."""

    done: Launch
    folder: Path  # of its files

    def lines(self, part: str) -> list[str]:
        """What a part has said; all of them have ended well."""
        assert self.done.hung is None and self.done.returncode == 0, self.done.told()
        pieces = re.split(r"^part (\S+)\n", self.done.stdout, flags=re.MULTILINE)
        said = dict(zip(pieces[1::2], pieces[2::2], strict=True))
        assert said.get(part), self.done.told()
        return said[part].splitlines()

    def names(self, part: str) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.h5") if re.fullmatch(FILES[part], path.name))


def files_of(part: str, files: list[dict]) -> list[dict]:
    """Those of the statistics that a part has made."""
    return [entry for entry in files if re.fullmatch(FILES[part], Path(entry["path"]).name)]


def run_parts(parts, environment: dict[str, str], folder: Path, ranks: int, nodes: int = 1) -> Parts:
    command = [program("parallel_calls"), *parts]
    environment = {**environment, **SAME_MEMORY}
    return Parts(launch(command, environment, folder, ranks, SECONDS_MAX, node_names(ranks, nodes)), folder)


def assert_same_part(part: str, through: Parts, plain: Parts) -> None:
    """The calls have returned the same, and left files of the same names; those of one part are the same bytes."""
    assert through.lines(part) == plain.lines(part), through.done.told()
    names = plain.names(part)
    assert through.names(part) == names != []
    if part == "strategies":
        assert len(names) == 24
        different = [
            name for name in names if (plain.folder / name).read_bytes() != (through.folder / name).read_bytes()
        ]
        assert different == []
