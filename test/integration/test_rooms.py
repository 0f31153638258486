"""The include path of a room has that room and those below it (src/CMakeLists.txt)."""

import json
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_compiler_sees_no_room_above_the_one_that_it_compiles():
    rooms = re.findall(r"^forebay_room\((\w+)", (ROOT / "src" / "CMakeLists.txt").read_text(), re.M)
    assert rooms[0] == "base" and "stage" in rooms
    compiled = set()
    for command in json.loads((Path(os.environ["FOREBAY_BUILD_DIR"]) / "compile_commands.json").read_text()):
        found = re.search(r"forebay_(\w+)\.dir/", command["command"])
        if not found or found.group(1) not in rooms:
            continue
        room = found.group(1)
        seen = re.findall(r"/rooms/(\w+)(?:\s|$)", command["command"])
        assert room in seen and f"-I{ROOT}/src " not in command["command"]
        assert all(rooms.index(each) <= rooms.index(room) for each in seen), (room, seen)
        compiled.add(room)
    assert compiled == {room for room in rooms if any((ROOT / "src" / room).glob("*.cc"))}
