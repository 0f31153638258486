"""One rule for an option that cannot be used, wherever it is given.

A command ends with an error that names the option; a program writes natively.
"""

import json
import os
import subprocess
import sys

import pytest
from connector_environment import asides, bytes_staged, native, run, staged
from test_cli import binary, call, environment_of, nls  # noqa: F401 (fixtures)

pytestmark = pytest.mark.slow

# The option as it is given, and what is said of it.
BAD = {
    "no size": ("size", "12x", "option size=12x"),
    "too small": ("size", "1k", "option size=1k"),
    "no choice": ("full", "perhaps", "option full=perhaps"),
    "no number": ("drain_threads", "many", "option drain_threads=many"),
    "neither on nor off": ("strict", "maybe", "option strict=maybe"),
    "relative": ("nls", "here", "option nls=here"),
    "unknown": ("colour", "red", "colour"),
    "misspelt": ("sise", "8GiB", "did you mean"),
}
COMMANDS = [
    ["run", "-q", "true"],
    ["env"],
    ["options"],
    ["doctor"],
    ["status"],
    ["recover"],
    ["verify"],
    ["wait", "/dev/null"],
    ["discard", "/none"],
    ["cache", "list"],
    ["cache", "prefetch", "/dev/null"],
    ["cache", "evict", "--all"],
]


def given(place, name, value, folder):
    """The variables that give the option there, and how messages call that place."""
    if place == "connector string":
        return {"HDF5_VOL_CONNECTOR": f"forebay {name}={value}"}, "connector string"
    if place == "environment":
        return {f"FOREBAY_{name.upper()}": value}, f"FOREBAY_{name.upper()}"
    config = folder / "forebay.toml"
    config.write_text(f'{name} = "{value}"\n')
    return {"FOREBAY_CONFIG": str(config)}, f"{config}:1"


@pytest.mark.parametrize("place", ["connector string", "environment", "TOML file"])
@pytest.mark.parametrize("bad", BAD)
def test_a_command_refuses_it_and_says_where_it_was_given(place, bad, binary, tmp_path):  # noqa: F811
    name, value, said = BAD[bad]
    variables, source = given(place, name, value, tmp_path)
    for command in COMMANDS:
        done = call(*command, binary=binary, **variables)
        assert done.returncode == (1 if command == ["doctor"] else 2), (command, done.stdout, done.stderr)
        told = (done.stdout + done.stderr).lower()
        assert said in told and source.lower() in told, (command, told)


@pytest.mark.parametrize("bad", [bad for bad in BAD if bad != "relative"])  # which -o makes absolute
@pytest.mark.parametrize(
    "connector", [{}, {"HDF5_VOL_CONNECTOR": "forebay flush=drain"}], ids=["variable", "connector string"]
)
def test_the_same_with_the_option_of_a_command(bad, connector, binary):  # noqa: F811
    name, value, said = BAD[bad]
    for command, status in (
        (["run", "-o", f"{name}={value}", "true"], 2),
        (["env", "-o", f"{name}={value}"], 2),
        (["doctor", "-o", f"{name}={value}"], 1),
    ):
        done = call(*command, binary=binary, **connector)
        assert (
            done.returncode == status and said in done.stdout + done.stderr and "(-o)" in done.stdout + done.stderr
        ), (command, done.stderr)


WRITE = """
import h5py
with h5py.File("x.h5", "w") as f:
    f["x"] = range(1000)
print("written")
"""


@pytest.mark.parametrize("place", ["connector string", "environment", "TOML file"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_program_opens_natively_after_one_warning_or_not_at_all(place, strict, tmp_path):
    variables, source = given(place, "size", "12x", tmp_path)
    environment = {**staged(tmp_path), **variables, **({"FOREBAY_STRICT": "on"} if strict else {})}
    done = run([sys.executable, "-c", WRITE], environment, tmp_path)
    assert "option size=12x" in done.stderr and source in done.stderr
    assert (done.returncode == 0, done.stdout) == ((False, "") if strict else (True, "written\n"))
    assert strict or (len(done.stderr.splitlines()) == 1 and asides(tmp_path) == {"bad_option": 1})


@pytest.mark.parametrize(
    "connector", [{}, {"HDF5_VOL_CONNECTOR": "forebay flush=drain"}], ids=["variable", "connector string"]
)
def test_what_run_was_given_is_told_of_as_such_by_the_program(connector, binary, nls):  # noqa: F811
    told = json.loads(call("doctor", "--json", "-o", f"nls={nls}", "-o", "size=64MiB", **connector).stdout)["options"]
    assert (told["nls"]["source"], told["size"]["source"], told["stripe"]["source"]) == ("-o", "-o", "default")
    done = call(
        "run",
        "-q",
        "-o",
        "nls=/no/such",
        "--",
        sys.executable,
        "-c",
        "import h5py, sys; h5py.File(sys.argv[1], 'w').close()",
        nls / "x.h5",
        **connector,
    )
    assert "option nls=/no/such (-o)" in done.stderr
    # What the program sets itself is its own.
    code = (
        "import os, sys; os.environ['FOREBAY_NLS'] = '/nor/this'; os.environ.pop('HDF5_VOL_CONNECTOR'); "
        "os.environ['HDF5_VOL_CONNECTOR'] = 'forebay'; import h5py; h5py.File(sys.argv[1], 'w').close()"
    )
    assert (
        "option nls=/nor/this (FOREBAY_NLS)"
        in call("run", "-q", "-o", "nls=/no/such", "--", sys.executable, "-c", code, nls / "y.h5", **connector).stderr
    )
    assert "FOREBAY_RUN_OPTIONS" not in call("env", "-o", f"nls={nls}", binary=binary).stdout
    assert "FOREBAY_RUN_OPTIONS" in environment_of(binary, "-o", f"nls={nls}")


def test_a_default_size_shrinks_on_a_small_area_and_one_that_was_set_is_refused(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m,mode=1777", "none", small], check=False, capture_output=True
        ).returncode
        != 0
    ):
        pytest.skip("mounting takes root")
    try:
        told = json.loads(call("doctor", "--json", FOREBAY_NLS=small).stdout)
        assert told["options"]["size"] == {"value": "60MiB", "source": "default, made to fit the staging area"}
        assert told["staging"]["usable"]
        # More than the area holds.
        code = "import h5py, numpy, sys\nwith h5py.File(sys.argv[1], 'w') as f:\n    f['x'] = numpy.arange(20_000_000)"
        path = tmp_path / "x.h5"
        done = run([sys.executable, "-c", code, str(path)], {**staged(tmp_path), "FOREBAY_NLS": str(small)}, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert bytes_staged(tmp_path) > 0 and asides(tmp_path) == {}
        expected = tmp_path / "native.h5"
        run([sys.executable, "-c", code, str(expected)], native(), tmp_path)
        assert path.read_bytes() == expected.read_bytes()
        refused = call("doctor", FOREBAY_NLS=small, FOREBAY_SIZE="1GiB")
        assert refused.returncode == 1 and "option size=1GiB (FOREBAY_SIZE): more than the 64 MiB" in refused.stdout
    finally:
        subprocess.run(["umount", "-l", small], check=False)
