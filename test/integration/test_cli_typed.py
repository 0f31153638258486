"""The command line as a person types it: help, mistakes, values."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import BUILD, FOREBAY, ROOT, binary, call, clean_environment, environment_of, nls  # noqa: F401 (fixtures)

COMMANDS = [
    ["run"],
    ["env"],
    ["doctor"],
    ["status"],
    ["recover"],
    ["verify"],
    ["discard"],
    ["wait"],
    ["drain"],
    ["cache"],
    ["cache", "list"],
    ["cache", "prefetch"],
    ["cache", "evict"],
    ["cache", "pin"],
    ["cache", "unpin"],
    ["cache", "verify"],
    ["torture"],
    ["options"],
]


def refused(*arguments, **environment):
    """What is said of a mistake: one line, then where to read on."""
    done = call(*arguments, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    complaint, pointer = done.stderr.splitlines()
    assert pointer.endswith("--help` explains the command.")
    return complaint


def test_the_command_that_was_meant_is_named():
    assert refused("stauts") == "forebay: there is no command stauts; did you mean status?"
    assert refused("help", "stauts") == "forebay: there is no command stauts; did you mean status?"
    assert refused("cache", "lst") == "forebay cache: there is no command lst; did you mean list?"
    assert refused("swim") == "forebay: there is no command swim"


def test_an_option_that_was_typed_as_a_command_is_named():
    assert refused("version") == "forebay: there is no command version; did you mean --version?"


def test_nothing_behind_two_dashes_is_a_missing_program():
    assert refused("run", "--") == refused("run") == "forebay run: PROGRAM is missing"


def test_an_option_that_was_meant_is_named():
    assert refused("status", "--wach") == "forebay status: unexpected: --wach; did you mean --watch?"
    assert refused("wait", "x", "--timeuot=3").endswith("did you mean --timeout?")


def test_what_is_unexpected_is_listed_as_it_was_typed():
    assert refused("env", "one", "two", "three") == "forebay env: unexpected: one two three"
    assert refused("--first", "--second") == "forebay: unexpected: --first --second"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_found_in_each_way_and_fits_a_screen(command):
    help_ = call(*command, "--help")
    assert help_.returncode == 0 and help_.stdout.split("Usage: ")[1].startswith("forebay " + " ".join(command))
    assert max(map(len, help_.stdout.splitlines())) <= 100
    if command != ["torture"]:  # which is another program
        assert call("help", *command).stdout == help_.stdout


@pytest.mark.parametrize("command", [*COMMANDS, ["torture"], ["serve"], ["follow"], ["estimate"]], ids=" ".join)
def test_help_names_values_in_the_words_of_the_product(command):
    said = call(*command, "--help").stdout
    assert re.findall(r"\b(?:TEXT|U?INT|FLOAT|POSITIVE)\b", said) == []


@pytest.mark.parametrize("value", ["0", "-1", "abc", ""])
def test_a_count_is_told_in_plain_words(value):
    assert refused("follow", "--count", value, "x.h5") == f"forebay follow: --count: {value} is not a positive number"


def test_nothing_typed_is_a_question_for_help():
    overview = call("--help")
    assert overview.returncode == 0
    for arguments in ([], ["help"], ["-h"]):
        done = call(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, overview.stdout, "")
    assert (call("cache").returncode, call("cache").stdout) == (0, call("cache", "--help").stdout)


def test_the_version_has_a_short_option():
    assert call("-V").stdout == call("--version").stdout != ""


@pytest.mark.parametrize("value", ["abc", "-1", "nan", "inf", "5 parsecs", "1e400", ""])
def test_a_bad_time_is_told_with_option_and_what_is_allowed(value):
    said = refused("wait", "/dev/null", f"--timeout={value}")
    assert said.startswith("forebay wait: --timeout") and len(said) < 100
    assert value == "" or said.endswith(f"{value} is not a duration; examples: 30, 30s, 5m, 2h, 7d")


@pytest.mark.parametrize("value", ["0", "30", "0.5", "30s", "5m", "2h", "1d"])
def test_a_time_has_a_unit_or_is_in_seconds(value, tmp_path, nls):  # noqa: F811
    (tmp_path / "x.h5").touch()
    assert call("wait", "--nls", nls, "--timeout", value, tmp_path / "x.h5").returncode == 0


def test_a_missing_value_is_told_in_plain_words():
    assert refused("run") == "forebay run: PROGRAM is missing"
    assert refused("wait") == "forebay wait: FILE is missing"
    assert refused("run", "-o") == "forebay run: --option needs a value"
    assert "do not go together" in refused("status", "--check", "--watch")
    assert refused("torture", "--minutes", "abc") == "forebay torture: --minutes: abc is not a number"


NAMING_FILES = [
    ["status"],
    ["recover"],
    ["verify"],
    ["discard"],
    ["wait"],
    ["cache", "list"],
    ["cache", "prefetch"],
    ["cache", "evict"],
    ["cache", "pin"],
    ["cache", "verify"],
]


@pytest.mark.parametrize("command", NAMING_FILES, ids=" ".join)
def test_a_file_that_does_not_exist_has_one_exit_status(command, tmp_path, nls):  # noqa: F811
    done = call(*command, "--nls", nls, tmp_path / "none.h5")
    assert done.returncode == 2
    assert done.stderr == f"forebay {' '.join(command)}: {tmp_path / 'none.h5'}: no such file or directory\n"


@pytest.mark.parametrize("command", [["status"], ["recover"], ["verify"], ["cache", "list"]], ids=" ".join)
def test_so_has_a_staging_area_that_does_not_exist(command, tmp_path):
    done = call(*command, "--nls", tmp_path / "none")
    assert done.returncode == 2 and done.stderr.endswith(f"the staging area {tmp_path / 'none'} does not exist\n")


@pytest.mark.parametrize("option", ["stats", "trace"])
@pytest.mark.parametrize("value", ["1", "on", "TRUE", "off", "0"])
def test_a_switch_is_no_file(option, value, tmp_path, binary):  # noqa: F811
    done = call("run", "-o", f"{option}={value}", "--", "touch", tmp_path / "ran", binary=binary)
    assert done.returncode == 2
    assert "on and off are not paths" in call("status", **{f"FOREBAY_{option.upper()}": value}).stderr
    assert not (tmp_path / "ran").exists()


def test_run_env_and_doctor_take_the_staging_area_by_its_own_option(binary, nls):  # noqa: F811
    assert environment_of(binary, "--nls", nls)["FOREBAY_NLS"] == str(nls)
    assert environment_of(binary, "-o", "size=64MiB", "--nls", nls)["FOREBAY_SIZE"] == "64MiB"
    assert f"export FOREBAY_NLS='{nls}';" in call("env", "--nls", nls, binary=binary).stdout
    assert f"{nls} (chosen by: -o)" in call("doctor", "--nls", nls).stdout


def test_options_fit_a_screen_and_name_each_value_of_a_choice():
    lines = call("options", "--all").stdout.splitlines()
    assert max(map(len, lines)) <= 100
    words = [line.strip() for line in lines]
    assert any(word.startswith("through: ") for word in words) and any(word.startswith("lfu: ") for word in words)


def test_env_off_takes_back_what_env_set(binary, nls):  # noqa: F811
    script = (
        'eval "$("$0" env --nls "$1")" && test "$HDF5_VOL_CONNECTOR" = forebay && eval "$("$0" env --off)" && '
        'echo "<${HDF5_VOL_CONNECTOR-unset}> <${HDF5_PLUGIN_PATH-unset}>"'
    )

    def off(**variables):
        done = subprocess.run(
            ["sh", "-c", script, binary, nls],
            env=clean_environment(**variables),
            text=True,
            capture_output=True,
            timeout=60,
        )
        return done.stdout

    filters = Path("/usr/local/hdf5/lib/plugin")  # where HDF5 looks by itself
    assert off() == f"<unset> <{filters if filters.is_dir() else 'unset'}>\n"
    assert off(HDF5_PLUGIN_PATH="/it's/filters:/more") == "<unset> </it's/filters:/more>\n"
    assert call("env", "--off", "--csh", binary=binary, HDF5_VOL_CONNECTOR="forebay").stdout == (
        "unsetenv HDF5_VOL_CONNECTOR;\n"
    )
    assert call("env", "--off", binary=binary, HDF5_VOL_CONNECTOR="async").stdout == "", (
        "another connector is left alone"
    )


def test_what_went_well_is_said_in_one_line(tmp_path, nls):  # noqa: F811
    for name in ("a.h5", "b.h5"):
        (tmp_path / name).touch()
    one = call("wait", "--nls", nls, tmp_path / "a.h5")
    assert (one.stdout, one.stderr) == (f"{tmp_path / 'a.h5'} holds everything that was staged, on the device.\n", "")
    two = call("wait", "--no-sync", "--nls", nls, tmp_path / "a.h5", tmp_path / "b.h5")
    assert two.stdout == "2 files hold everything that was staged.\n"
    assert call("wait", "-q", "--nls", nls, tmp_path / "a.h5").stdout == ""
    assert call("verify", "--nls", nls).stdout.splitlines()[-1] == "Verdict: there are no logs of dead processes."


def test_an_installed_command_has_no_debug_information(tmp_path):
    if not (BUILD / "cmake_install.cmake").exists() or shutil.which("strip") is None:
        pytest.skip("this is no build folder, or there is no strip")
    assert '"--strip"' in (ROOT / "packaging" / "install").read_text()
    stripped = tmp_path / "forebay"
    subprocess.run(["strip", "-o", stripped, FOREBAY], check=True)
    assert stripped.stat().st_size < FOREBAY.stat().st_size / 3
    assert call("--version", binary=stripped).stdout == call("--version").stdout


def test_doctor_tries_the_libhdf5_that_a_program_loads(tmp_path, nls):  # noqa: F811
    code = (
        "import h5py; maps = [line.split()[-1] for line in open('/proc/self/maps')]; "
        "print(next(path for path in maps if '/libhdf5' in path and '_hl' not in path))"
    )
    done = call("doctor", "--nls", nls, "--", sys.executable, "-c", code)
    loaded, report = done.stdout.split("\n", 1)
    (library,) = [line.split(None, 1)[1] for line in report.splitlines() if line.startswith("  library")]
    assert Path(library).resolve() == Path(loaded).resolve()
    none = call("doctor", "--nls", nls, "--", "true")
    assert none.returncode == 1 and "true loaded no libhdf5" in none.stderr
    assert call("doctor", "--nls", nls, "--", tmp_path / "none").returncode == 2


# An HDF5 that refuses the plugin as one does that wants signatures: H5Eprint2 prints what that one says.
DEMANDS_SIGNATURES = """
#include <stdbool.h>
#include <stdio.h>
int H5get_libversion(unsigned *major, unsigned *minor, unsigned *release) {
    *major = 2, *minor = 1, *release = 0;
    return 0;
}
int H5is_library_threadsafe(bool *answer) { return *answer = false; }
int H5Eset_auto2(long stack, void *function, void *data) { return 0; }
long H5VLregister_connector_by_name(const char *name, long list) { return -1; }
int H5Eprint2(long stack, FILE *stream) {
    return fprintf(stream, "H5PL__open(): plugin signature verification failed for: libforebay_vol.so\\n") < 0;
}
"""


def test_doctor_names_an_hdf5_that_demands_signed_plugins_and_says_what_to_do(tmp_path, nls):  # noqa: F811
    library = tmp_path / "libhdf5.so"
    compiler = ["cc", "-shared", "-fPIC", "-o", library, "-x", "c", "-"]
    subprocess.run(compiler, input=DEMANDS_SIGNATURES, text=True, check=True)
    done = call("doctor", "--nls", nls, "--library", library)
    (problem,) = [line for line in done.stdout.splitlines() if "signed" in line]
    assert done.returncode == 1 and problem.startswith(f"problem: {library} loads only signed plugins")
    assert "h5sign" in problem and "HDF5_PLUGIN_KEYSTORE" in problem
    told = json.loads(call("doctor", "--nls", nls, "--json", "--library", library).stdout)
    assert told["hdf5"]["demands_signed_plugins"] and not told["plugin"]["loads"]
    assert not json.loads(call("doctor", "--nls", nls, "--json").stdout)["hdf5"]["demands_signed_plugins"]


def test_doctor_shows_the_options_that_somebody_has_set(nls):  # noqa: F811
    told = call("doctor", "--nls", nls, "-o", "read_cache_size=1GiB").stdout
    names = [line.split()[0] for line in told.partition("options\n")[2].splitlines() if line.startswith("  ")]
    assert {"nls", "read_cache_size"} < set(names) and names[-1] == "others"
    assert "drain_threads" not in told


def test_estimate_runs_the_module_beside_the_command_and_none_of_the_working_directory(tmp_path):
    for module in ("json", "forebay", "argparse"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('the working directory was searched')\n")
    words = [FOREBAY, "estimate", "--preset", "summit", "--bytes", "1MiB", "--json"]
    done = subprocess.run(words, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout)["machine"] == "summit", done.stderr
    assert refused("estimate", "--bytes", "much").startswith("forebay estimate: --bytes: 'much' is not a size")
