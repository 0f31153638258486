"""The options that `forebay.enable` takes: those of the command, checked at once, with types."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from connector_environment import ROOT, native, plugin_folder, run

import forebay
from forebay.option_values import texts_of
from forebay.options import ALLOWED


@pytest.mark.parametrize(
    "options, said",
    [
        ({"nsl": "/local"}, "option nsl: no such option; did you mean nls?"),
        ({"banana": 1}, "option banana: no such option"),
        ({"size": "banana"}, "option size=banana: not a size; allowed: 1 MiB to 1 PiB"),
        ({"size": 1}, "option size=1: too small"),
        ({"size": True}, "option size=on: "),
        ({"size": None}, "option size=None: a NoneType is no value"),
        ({"drain_threads": 2.5}, "option drain_threads=2.5: a float is no value"),
        ({"close": "defered"}, "option close=defered: unknown choice; allowed: wait or deferred or auto or linger"),
        ({"stage": "maybe"}, "option stage=maybe: neither on nor off"),
        ({"read_cache": "maybe"}, "option read_cache=maybe: unknown choice; allowed: off or auto or on"),
        ({"deadline": "soon"}, "option deadline=soon: neither a duration nor a time"),
        ({"nls": "missing"}, "missing does not exist"),
        ({"nls": Path("missing/area")}, "option nls=missing/area: "),
        ({"nls": "file"}, "file is not a directory"),
        ({"nls": "link"}, "a symbolic link to"),
        ({"nls": ""}, "option nls=: empty"),
        ({"stats": "missing/stats.jsonl"}, "option stats=missing/stats.jsonl: "),
        ({"trace": "on"}, "option trace=on: "),
        ({"registry": "missing"}, "option registry=missing: "),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_used_is_refused_at_once(options, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    before = dict(os.environ)
    for call in (forebay.enable, lambda **more: forebay.staging(**more).__enter__()):
        with pytest.raises(forebay.WrongOption) as refused:
            call(**options)
        assert said in str(refused.value) and isinstance(refused.value, (ValueError, forebay.CannotEnable))
    assert os.environ == before, "nothing was set"


def test_options_and_their_types_are_those_of_the_command():
    command = [ROOT / "tools" / "python-options", plugin_folder().parent / "bin" / "forebay"]
    made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert (ROOT / "python" / "forebay" / "options.py").read_text() == made, "tools/python-options makes it anew"


VALUES = [
    "", " ", "on", "OFF", "yes", "0", "1", "2", "-1", "+1", "1.5", "4096", "64k", "64 KiB", "1MiB", "1 mib ", "1PiB",
    "1024T", "1025T", "8Gb", "8g b", "99999999999999999999", "31536000", "31536001", "256", "wait", "Deferred", "auto",
    "lru", "node", "open", "always", "consistent", "{a", "}{", "a}b{", "{a}", "110m", "1.5h", ".5h", "1.h", "9e9",
    "5min", "2025-06-30T17:00", "2025-06-30T17:00:30Z", "2025-13-30T17:00", "2025-06-30T17", "10000000000d", "off ",
    "8\tMiB",
]  # fmt: skip


def test_a_value_is_refused_where_the_command_refuses_it():
    names = [name for name, allowed in ALLOWED.items() if allowed != "a path"]
    differing = []
    for value in VALUES:
        given = {f"FOREBAY_{name.upper()}": value for name in names}
        told = run([plugin_folder().parent / "bin" / "forebay", "options"], native(**given), ROOT).stderr
        for name in names if value else []:  # an empty variable counts as unset
            try:
                texts_of({name: value})
                refused = False
            except forebay.WrongOption:
                refused = True
            if refused != (f"option {name}=" in told):
                differing.append((name, value, refused))
    assert not differing


# ---- three ways to switch it on ----

# What a program gets: the options as the command reads them, and the variables that name the connector.
TELL = """
import json, os, subprocess
shown = subprocess.run([os.environ["COMMAND"], "doctor", "--json"], capture_output=True, text=True).stdout
options = {name: option["value"] for name, option in json.loads(shown)["options"].items()}
if options["stats"] == os.environ.get("FOREBAY_RUN"): options["stats"] = ""  # the record for the summary of the run
print(json.dumps([options, [os.environ.get(name) for name in ("HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH")]]))
"""
ENABLE = "import json, sys, forebay\nforebay.enable(**json.loads(sys.argv[1]))" + TELL


def told_in_each_way(options, environment, folder):
    command = plugin_folder().parent / "bin" / "forebay"
    ours = {"COMMAND": str(command), "TELL": TELL, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "python")}
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    evaluate = 'eval "$("$COMMAND" env "$@")" && exec "$PYTHON" -c "$TELL"'
    staging = ENABLE.replace("forebay.enable(", "block = forebay.staging(") + "\n"
    ways = {
        "forebay run": [command, "run", "-q", *flags, "--", sys.executable, "-c", TELL],
        "forebay env": ["sh", "-c", evaluate, "sh", *flags],
        "enable": [sys.executable, "-c", ENABLE, json.dumps(options)],
        "enable after h5py": [sys.executable, "-c", f"import h5py\n{ENABLE}", json.dumps(options)],
        "staging": [sys.executable, "-c", staging.replace(TELL, f"\nblock.__enter__(){TELL}"), json.dumps(options)],
    }
    told = {}
    for way, words in ways.items():
        done = run(words, native(**ours, **environment), folder)
        assert done.returncode == 0, (way, done.stderr)
        told[way] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("options", [{}, {"size": "1GiB", "close": "deferred", "read_cache": "on", "stripe": "64k"}])
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"FOREBAY_READ_CACHE": "off", "FOREBAY_SIZE": "3GiB", "HDF5_PLUGIN_PATH": "/filters"},
        {"HDF5_VOL_CONNECTOR": "forebay size=2GiB;prefetch=open"},
        {"FOREBAY_CONFIG": "forebay.toml", "FOREBAY_STRIPE": "2MiB"},
    ],
    ids=["nothing is set", "variables", "a connector string", "a file"],
)
def test_options_are_the_same_whichever_way_forebay_is_switched_on(environment, options, tmp_path):
    (tmp_path / "forebay.toml").write_text('size = "5GiB"\nclose = "auto"\n')
    told = told_in_each_way(options, environment, tmp_path)
    assert told.pop("forebay run") == told["enable"]
    assert all(one == told["enable"] for one in told.values()), told
    for name, value in options.items():
        assert told["enable"][0][name].lower().replace(" ", "").removesuffix("ib") == value.lower().removesuffix("ib")


def test_nothing_but_what_is_asked_for_differs_from_the_defaults(tmp_path):
    table = (ROOT / "docs" / "options.md").read_text()
    defaults = dict(re.findall(r"^\| `(\w+)` \| `\w+` \| `?([^|`]*)`? \|", table, re.MULTILINE))
    found, _ = told_in_each_way({}, {}, tmp_path)["enable"]
    set_by_the_machine = {"nls", "size", "deadline", "registry"}  # and by this test
    assert {name: value for name, value in found.items() if name not in set_by_the_machine} == {
        name: value.strip() for name, value in defaults.items() if name not in set_by_the_machine
    }
