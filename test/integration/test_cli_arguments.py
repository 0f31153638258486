"""Arguments that cannot be right, and output that cannot be written: each command says so, and does nothing else."""

import os
import subprocess

import pytest
from test_cli import FOREBAY, call, clean_environment

COMMANDS = ["options", "--help", "--version", "env", "help run", "status", "cache list"]


def run(*arguments, **how):
    return subprocess.run(
        [FOREBAY, *arguments], env=clean_environment(), capture_output=True, text=True, timeout=60, **how
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "--report", "--", "true"], "--report"),
        (["run", "--json", "--", "true"], "--json"),
        (["run", "--nls", "--", "true"], "--nls"),
        (["run", "--report", "", "true"], "--report"),
        (["run", "--json", "", "true"], "--json"),
        (["run", "--json", "{tmp}/none/run.json", "touch", "{tmp}/ran"], "--json"),
        (["run", "--json", "{tmp}", "touch", "{tmp}/ran"], "--json"),
        (["run", "--report", "{tmp}/file", "touch", "{tmp}/ran"], "--report"),
        (["run", "--report", "{tmp}/file/below", "touch", "{tmp}/ran"], "--report"),
        (["run", "--nls", "{tmp}/none", "touch", "{tmp}/ran"], "--nls"),
        (["run", "--nls", "{tmp}/file", "touch", "{tmp}/ran"], "--nls"),
        (["run", "--compare", "--nls", "{tmp}/none", "touch", "{tmp}/ran"], "--nls"),
        (["env", "--nls", "{tmp}/none"], "--nls"),
        (["env", "--nls", "--off"], "--nls"),
        (["cache", "list", ""], "WHAT"),
        (["cache", "evict", ""], "WHAT"),
        (["cache", "pin", ""], "FILE"),
        (["cache", "prefetch", ""], "FILE"),
        (["cache", "verify", ""], ""),
        (["cache", "list", "--nls", ""], "--nls"),
        (["status", ""], "WHAT"),
        (["status", "--nls", "--json"], "--nls"),
        (["recover", ""], ""),
        (["verify", ""], ""),
        (["discard", ""], ""),
        (["drain", ""], ""),
        (["wait", ""], ""),
        (["wait", "--timeout", "--", "{tmp}/file"], "--timeout"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_a_usage_error_that_names_the_argument(tmp_path, arguments, named):
    (tmp_path / "file").write_text("of the user")
    before = sorted(os.listdir(tmp_path))
    done = run(*(word.replace("{tmp}", str(tmp_path)) for word in arguments), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert named in done.stderr
    assert sorted(os.listdir(tmp_path)) == before and (tmp_path / "file").read_text() == "of the user"


def test_a_staging_area_that_is_not_there_is_gone_without_where_that_is_asked_for(tmp_path):
    done = run("run", "-o", f"nls={tmp_path}/none", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_an_empty_argument_of_a_program_is_its_own():
    assert run("run", "-q", "--", "printf", "<%s>", "", "--report").stdout == "<><--report>"


def test_a_program_that_cannot_be_started_leaves_no_summary(tmp_path):
    assert run("run", "--json", str(tmp_path / "run.json"), "--", "/none/such").returncode == 127
    assert os.listdir(tmp_path) == []


def test_the_run_says_where_its_page_is(tmp_path):
    done = run("run", "--report", "report", "--", "true", cwd=tmp_path)
    assert f"report: {tmp_path}/report/report.html" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("output", ["full", "closed"])
def test_output_that_cannot_be_written_is_an_error(command, output):
    words = " ".join([str(FOREBAY), command])
    done = subprocess.run(
        ["sh", "-c", words + (" >/dev/full" if output == "full" else " >&-")],
        env=clean_environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert "write to standard output" in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_summary_is_not_written_into_a_file_of_the_run_when_errors_are_closed(tmp_path):
    words = f"{FOREBAY} run --json {tmp_path}/run.json -- sh -c 'echo of the program; ls {tmp_path}' 2>&- <&-"
    done = subprocess.run(["sh", "-c", words], env=clean_environment(), stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("of the program\n")
    assert (tmp_path / "run.json").read_text().startswith("{")


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
@pytest.mark.parametrize("command", ["--help", "run --help", "cache evict --help", "status --help", "options"])
def test_help_fits_into_columns(command, columns):
    text = call(*command.split(), COLUMNS=str(columns)).stdout
    # A word that is longer than the line cannot be broken.
    wide = [line for line in text.splitlines() if len(line) > columns and " " in line.strip()[:-1].split("  ")[-1]]
    assert wide == []
    if columns == 100:
        assert text == call(*command.split(), COLUMNS="1000").stdout == call(*command.split(), COLUMNS="wide").stdout


def test_env_off_restores_each_variable_as_it_was(tmp_path):
    script = """
before=$(env | sort | grep -v '^_=')
eval "$("$0" env --nls "$1" -o size=1GiB)"; eval "$("$0" env -o read_cache=on)"
test "$FOREBAY_SIZE" = 1GiB && test "$FOREBAY_READ_CACHE" = on || exit 1
eval "$("$0" env --off)"
test "$before" = "$(env | sort | grep -v '^_=')"
"""
    for variables in (
        {},
        {"HDF5_PLUGIN_PATH": "/it's/filters:/more", "FOREBAY_SIZE": "2GiB"},
        {"HDF5_PLUGIN_PATH": ""},
        {"HDF5_VOL_CONNECTOR": "forebay nls=/tmp;size=3GiB"},
    ):
        done = subprocess.run(
            ["bash", "-c", script, FOREBAY, tmp_path],
            env=clean_environment(**variables),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (variables, done.stderr, done.stdout)


def test_env_off_leaves_alone_what_was_changed_since(tmp_path):
    script = """
eval "$("$0" env --nls "$1")"
export FOREBAY_NLS=/mine HDF5_PLUGIN_PATH="/added:$HDF5_PLUGIN_PATH"
eval "$("$0" env --off)"
echo "$FOREBAY_NLS $HDF5_PLUGIN_PATH <${HDF5_VOL_CONNECTOR-unset}>"
"""
    variables = clean_environment(HDF5_PLUGIN_PATH="/filters")
    done = subprocess.run(["bash", "-c", script, FOREBAY, tmp_path], env=variables, capture_output=True, text=True)
    assert done.stdout == "/mine /added:/filters <unset>\n"


def test_prefetch_goes_on_behind_a_file_that_is_missing(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    (tmp_path / "area").mkdir()
    done = run("cache", "prefetch", "--nls", "area", "a", "missing", "area", cwd=tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == str(tmp_path / "a")
    assert lines[lines.index("missing") + 1] == "  NOT CACHED: no such file or directory"
    assert "there is no file in the directory" in done.stdout


@pytest.mark.parametrize("command", ["status", "recover", "verify", "cache list"])
def test_a_folder_that_is_no_staging_area_is_said_to_be_none(tmp_path, command):
    (tmp_path / "data").mkdir()
    done = run(*command.split(), str(tmp_path / "data"))
    assert f"{tmp_path}/data is not a staging area" in done.stderr
    (tmp_path / "data" / f"forebay-{os.getuid()}").mkdir(mode=0o700)
    assert "not a staging area" not in run(*command.split(), str(tmp_path / "data")).stderr
