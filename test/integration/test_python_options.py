"""The options that `forebay.enable` takes: those of the command, checked at once, with types."""

import os
import subprocess
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
        ({"size": "banana"}, "option size=banana: not a number of this kind; allowed: 1 MiB to 1 PiB"),
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
