"""The command `forebay`: run, env, doctor, options."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FOREBAY_BUILD_DIR", ROOT / "build" / "release"))
FOREBAY = BUILD / "bin" / "forebay"
EXIT_NOT_DRAINED = 74


def clean_environment(**changes):
    """This environment without anything that concerns HDF5 plugins or forebay, and with these changes."""
    kept = {k: v for k, v in os.environ.items() if k == "FOREBAY_REGISTRY" or not k.startswith(("FOREBAY_", "HDF5_"))}
    return {**kept, **{k: str(v) for k, v in changes.items()}}


def call(*arguments, binary=FOREBAY, **environment):
    return subprocess.run(
        [str(binary), *map(str, arguments)],
        env=clean_environment(**environment),
        text=True,
        capture_output=True,
        timeout=60,
    )


@pytest.fixture
def binary(tmp_path):
    """The command beside a folder that it takes for the plugin's: running programs without HDF5 needs no more."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "libforebay_vol.so").touch()
    return Path(shutil.copy2(FOREBAY, tmp_path / "bin"))


@pytest.fixture
def nls(tmp_path):
    folder = tmp_path / "staging area"
    folder.mkdir()
    return folder


def file_line(**counters):
    return json.dumps({"file": {"path": "/scratch/a.h5", "staged": 100, "drained": 100, **counters}})


def program_that_writes_statistics(*lines, status=0):
    return [
        sys.executable,
        "-c",
        f"import os\nopen(os.environ['FOREBAY_STATS'], 'a').write({chr(10).join([*lines, ''])!r})\n"
        f"raise SystemExit({status})",
    ]


# ---- run: the program's own business ----


@pytest.mark.parametrize("status", [0, 1, 2, 42, 255])
def test_run_passes_the_exit_status_on(binary, status):
    assert call("run", "--", "sh", "-c", f"exit {status}", binary=binary).returncode == status


def test_run_turns_a_fatal_signal_into_the_shells_exit_status(binary):
    assert call("run", "--", "sh", "-c", "kill -SEGV $$", binary=binary).returncode == 128 + signal.SIGSEGV


def test_run_tells_a_missing_program_from_one_that_cannot_be_executed(binary, tmp_path):
    missing = call("run", "--", tmp_path / "none", binary=binary)
    assert missing.returncode == 127 and "No such file" in missing.stderr
    (tmp_path / "data").touch(mode=0o644)
    forbidden = call("run", "--", tmp_path / "data", binary=binary)
    assert forbidden.returncode == 126 and "Permission denied" in forbidden.stderr


def test_run_leaves_the_programs_arguments_and_streams_alone(binary):
    done = call("run", "-q", "--", "printf", "%s|", "-o", "a=b", "--", "--json", "", binary=binary)
    assert (done.stdout, done.stderr) == ("-o|a=b|--|--json||", "")
    assert call("run", "-q", "printf", "%s|", "-q", "--help", binary=binary).stdout == "-q|--help|"
    echoed = subprocess.run(
        [binary, "run", "-q", "cat"], input="words", env=clean_environment(), text=True, capture_output=True, timeout=60
    )
    assert echoed.stdout == "words"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH"])
def test_run_forwards_signals(binary, name):
    number = getattr(signal, name)
    program = (
        f"import signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])\n"
        f"print('ready', flush=True)\nassert signal.sigwait([{int(number)}]) == {int(number)}\nsys.exit(40)"
    )
    with subprocess.Popen(
        [binary, "run", "-q", "--", sys.executable, "-c", program],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout.readline() == "ready\n"
        run.send_signal(number)
        assert run.wait(timeout=300) == 40


def test_run_does_not_send_the_terminals_interrupt_a_second_time(binary):
    program = (
        "import signal, time\ncount = 0\n"
        "def on_interrupt(*_):\n    global count\n    count += 1\n"
        "signal.signal(signal.SIGINT, on_interrupt)\nprint('ready', flush=True)\n"
        "while count == 0: time.sleep(0.01)\n"
        "end = time.monotonic() + 1\n"
        "while time.monotonic() < end: time.sleep(0.1)\n"
        "print('interrupts:', count, flush=True)"
    )
    try:
        child, terminal = pty.fork()
    except OSError as error:  # a container without devpts
        pytest.skip(f"this system gives no pseudo-terminal: {error}")
    if child == 0:
        os.execve(binary, [str(binary), "run", "-q", "--", sys.executable, "-c", program], clean_environment())
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    try:
        while True:
            seen += os.read(terminal, 1024)
    except OSError:  # the terminal's other end is closed
        pass
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0
    assert b"interrupts: 1" in seen


def test_run_gives_the_program_the_signal_mask_that_it_had_itself(binary):
    program = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    assert call("run", "-q", "--", sys.executable, "-c", program, binary=binary).stdout == "set()\n"


# ---- run: the environment ----


def environment_of(binary, *arguments, **environment):
    done = call("run", "-q", *arguments, "--", "env", "-0", binary=binary, **environment)
    assert done.returncode == 0, done.stderr
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


def test_run_sets_connector_plugin_folder_and_options(binary, tmp_path, nls):
    seen = environment_of(binary, "-o", f"nls={nls}", "-o", "drain_threads=2")
    assert seen["HDF5_VOL_CONNECTOR"] == "forebay"
    assert seen["HDF5_PLUGIN_PATH"].split(":")[0] == str(tmp_path / "plugins")
    assert seen["FOREBAY_NLS"] == str(nls)
    assert seen["FOREBAY_DRAIN_THREADS"] == "2"


def test_run_puts_the_plugin_before_what_is_in_the_plugin_path(binary, tmp_path):
    folder = str(tmp_path / "plugins")
    assert environment_of(binary, HDF5_PLUGIN_PATH="/filters")["HDF5_PLUGIN_PATH"] == f"{folder}:/filters"
    assert environment_of(binary, HDF5_PLUGIN_PATH=f"{folder}:/filters")["HDF5_PLUGIN_PATH"] == f"{folder}:/filters"


def test_run_makes_relative_paths_absolute(binary):
    assert environment_of(binary, "-o", "nls=here")["FOREBAY_NLS"] == str(Path.cwd() / "here")


def test_an_option_of_run_beats_a_connector_string(binary):
    seen = environment_of(binary, "-o", "size=1GiB", HDF5_VOL_CONNECTOR="forebay size=3GiB;stripe=2MiB")
    assert seen["HDF5_VOL_CONNECTOR"] == "forebay size=3GiB;stripe=2MiB;size=1GiB"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("size=12x", "option size=12x (-o): not a size"),
        ("size=4k", "too small; allowed: 1 MiB to 1 PiB"),
        ("zize=1GiB", "did you mean size?"),
        ("full=never", "wait or through"),
        ("fast", "expected key=value"),
    ],
)
def test_run_refuses_a_bad_option_before_anything_runs(binary, tmp_path, setting, words):
    done = call("run", "-o", setting, "--", "touch", tmp_path / "ran", binary=binary)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "ran").exists()


def test_run_refuses_to_replace_another_connector(binary):
    done = call("run", "true", binary=binary, HDF5_VOL_CONNECTOR="async under_vol=0;under_info={}")
    assert done.returncode == 2 and "another connector" in done.stderr


def test_run_points_out_bad_variables(binary):
    assert "FOREBAY_SISE is not an option" in call("run", "true", binary=binary, FOREBAY_SISE="1").stderr


def test_run_without_a_plugin_says_where_it_looked(binary, tmp_path):
    (tmp_path / "plugins" / "libforebay_vol.so").unlink()
    done = call("run", "true", binary=binary)
    assert done.returncode == 1 and str(tmp_path / "plugins") in done.stderr


# ---- run: the summary ----


def test_run_sums_up_what_was_staged(binary, tmp_path):
    lines = [
        file_line(
            staged=3 << 20,
            drained=2 << 20,
            superseded=1 << 20,
            through=5,
            requests=7,
            target_writes=2,
            stage_ns=1_500_000_000,
        ),
        file_line(path="/scratch/b.h5", staged=1 << 20, drained=1 << 20),
        json.dumps({"process": {"pid": 1, "files_opened": 4, "aside": {"mpi": 2}}}),
    ]
    report = tmp_path / "report.json"
    done = call("run", "--json", report, "--", *program_that_writes_statistics(*lines), binary=binary)
    assert done.returncode == 0
    assert "2 files: 4 MiB staged, 3 MiB drained, 1 MiB superseded, 5 B written through" in done.stderr
    assert "7 writes of the program became 2 writes to the files" in done.stderr
    assert "time in staged writes 1.50 s" in done.stderr
    assert "stepped aside, files by reason: mpi 2" in done.stderr
    told = json.loads(report.read_text())
    assert told["totals"]["staged"] == 4 << 20
    assert told["aside"] == {"mpi": 2}
    assert (told["exit_status"], told["program_exit_status"], told["program_signal"]) == (0, 0, None)
    assert [file["path"] for file in told["files"]] == ["/scratch/a.h5", "/scratch/b.h5"]


def test_run_takes_its_statistics_file_away(binary, tmp_path):
    seen = call("run", "-q", "--", "sh", "-c", "echo $FOREBAY_STATS", binary=binary, TMPDIR=tmp_path).stdout.strip()
    assert Path(seen).parent.parent == tmp_path
    assert not Path(seen).exists()


def test_run_keeps_the_users_statistics_file_and_reads_only_what_its_program_tells(binary, tmp_path):
    stats = tmp_path / "stats"
    stats.write_text(file_line(staged=1 << 30, pending=5) + "\n")
    tell = "import os; open(os.environ['FOREBAY_RUN'], 'a').write(%r)" % (file_line() + "\n")
    add = "open(os.environ['FOREBAY_STATS'], 'a').write(%r)" % (file_line(pending=7) + "\n")
    done = call("run", "-o", f"stats={stats}", "--", sys.executable, "-c", f"{tell}; {add}", binary=binary)
    assert done.returncode == 0
    assert "1 file: 100 B staged" in done.stderr
    assert len(stats.read_text().splitlines()) == 2


def test_run_says_when_nothing_went_through_forebay(binary):
    assert "no HDF5 file went through forebay" in call("run", "true", binary=binary).stderr


@pytest.mark.parametrize("counters", [{"pending": 4096}, {"error": 28}])
def test_run_fails_when_bytes_did_not_reach_the_file(binary, counters):
    done = call("run", "-q", "--", *program_that_writes_statistics(file_line(**counters)), binary=binary)
    assert done.returncode == EXIT_NOT_DRAINED
    assert "NOT DRAINED: /scratch/a.h5" in done.stderr
    assert ("No space left" in done.stderr) == ("error" in counters)


def test_a_failed_programs_own_status_comes_first(binary):
    done = call("run", "--", *program_that_writes_statistics(file_line(pending=1), status=3), binary=binary)
    assert done.returncode == 3 and "NOT DRAINED" in done.stderr


def test_run_survives_torn_and_foreign_lines(binary):
    lines = ["{", "[]", '{"later": 1}', '{"file": {"staged": -1, "path": 3}}', file_line()]
    done = call("run", "--", *program_that_writes_statistics(*lines), binary=binary)
    assert done.returncode == 0 and "2 lines of the statistics are not readable" in done.stderr


# ---- env ----


def test_env_can_be_evaluated_whatever_a_path_contains(binary, tmp_path):
    odd = tmp_path / 'it\'s $HOME `x` \\ "q" ;'
    script = 'eval "$("$0" env -o "nls=$1")" && printf "%s\\n" "$HDF5_VOL_CONNECTOR" "$HDF5_PLUGIN_PATH" "$FOREBAY_NLS"'
    for shell in ("sh", "bash"):
        done = subprocess.run(
            [shell, "-c", script, binary, odd], env=clean_environment(), text=True, capture_output=True, timeout=60
        )
        connector, plugins, nls = done.stdout.splitlines()
        assert (connector, plugins.split(":")[0], nls) == ("forebay", str(tmp_path / "plugins"), str(odd))


def test_env_survives_a_shell_that_joins_its_lines(binary):
    done = subprocess.run(
        ["sh", "-c", "eval `$0 env` && echo $HDF5_VOL_CONNECTOR", binary],
        env=clean_environment(),
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == "forebay\n"


def test_env_for_csh_protects_exclamation_marks(binary):
    lines = call("env", "--csh", "-o", "nls=/it's!", binary=binary).stdout.splitlines()
    assert "setenv FOREBAY_NLS '/it'\\''s\\!';" in lines
    assert "setenv HDF5_VOL_CONNECTOR 'forebay';" in lines


def test_env_refuses_a_bad_option(binary):
    done = call("env", "-o", "size=many", binary=binary)
    assert done.returncode == 2 and done.stdout == ""


# ---- doctor ----


def examine(*arguments, **environment):
    done = call("doctor", "--json", *arguments, **environment)
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["problems"] else 0)
    return report


def staging_problem(nls, *arguments, source="FOREBAY_NLS"):
    """The one message about this staging area, which doctor gives as a problem too."""
    report = examine(*arguments, FOREBAY_NLS=nls)
    assert report["staging"]["usable"] is False
    assert report["staging"]["message"] in report["problems"]
    assert f"({source})" in report["staging"]["message"]
    return report["staging"]["message"]


def test_doctor_names_library_plugin_and_staging_area(nls):
    report = examine(FOREBAY_NLS=nls)
    assert report["problems"] == []
    assert {"prefix", "version", "parallel"} <= report["hdf5"].keys()
    assert report["plugin_path"] == str(BUILD / "plugins")
    assert report["plugin"]["registered"] is True
    staging = report["staging"]
    assert (staging["nls"], staging["source"], staging["usable"]) == (str(nls), "FOREBAY_NLS", True)
    assert staging["root"] == str(nls / f"forebay-{os.geteuid()}")
    assert staging["free_bytes"] > 0 and staging["write_bytes_per_s"] > 0
    assert report["options"]["size"] == {"value": "8GiB", "source": "default"}
    assert oct(Path(staging["root"]).stat().st_mode & 0o7777) == "0o700"
    assert not list(Path(staging["root"]).iterdir())


def test_doctor_speaks_to_people_too(nls):
    done = call("doctor", FOREBAY_NLS=nls)
    assert done.returncode == 0
    assert f"{nls} (chosen by: FOREBAY_NLS)" in done.stdout
    assert "All is well" in done.stdout


def test_doctor_measures_the_target(nls, tmp_path):
    target = examine("--target", tmp_path, FOREBAY_NLS=nls)["target"]
    assert target["directory"] == str(tmp_path)
    assert target["write_bytes_per_s"] > 0 and target["staging_ratio"] > 0
    assert [entry.name for entry in tmp_path.iterdir()] == [nls.name]


def test_doctor_says_why_a_plugin_does_not_load(binary, nls):
    done = call("doctor", "--json", binary=binary, FOREBAY_NLS=nls)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["plugin"]["loads"] is False
    assert "file too short" in report["plugin"]["message"]


def test_doctor_tries_the_plugin_without_a_library_that_is_missing(nls):
    report = examine("--library", "/none/lib/libhdf5.so", FOREBAY_NLS=nls)
    assert (
        report["hdf5"]["loads"] is False
        and report["plugin"]["loads"] is True
        and report["plugin"]["registered"] is False
    )
    assert any("/none/lib/libhdf5.so" in problem for problem in report["problems"])
    assert call("doctor", "--library", "/none/lib/libhdf5.so", FOREBAY_NLS=nls).returncode == 1


@pytest.mark.parametrize("target, words", [("none", "No such file"), ("file", "not a directory")])
def test_a_target_that_is_none_is_a_problem(nls, tmp_path, target, words):
    (tmp_path / "file").touch()
    done = call("doctor", "--target", tmp_path / target, FOREBAY_NLS=nls)
    assert done.returncode == 1 and words in done.stdout and str(tmp_path / target) in done.stdout
    assert "All is well" not in done.stdout


def test_doctor_says_what_is_wrong_with_the_plugin_path(nls, tmp_path):
    """As a script leaves it that sets HDF5_PLUGIN_PATH anew."""
    here = call("doctor", "--json", FOREBAY_NLS=nls)
    folder = json.loads(here.stdout)["plugin_path"]
    (tmp_path / "other").mkdir()
    (tmp_path / "another forebay").mkdir()
    (tmp_path / "another forebay" / "libforebay_vol.so").touch()

    def problems(**variables):
        done = call("doctor", "--json", FOREBAY_NLS=nls, **variables)
        told = json.loads(done.stdout)
        assert (done.returncode == 0) == (told["problems"] == [])
        return "\n".join(told["problems"])

    assert problems() == ""
    assert problems(HDF5_VOL_CONNECTOR="forebay", HDF5_PLUGIN_PATH=f"{tmp_path / 'other'}:{folder}") == ""
    assert "do not find the plugin" in problems(HDF5_VOL_CONNECTOR="forebay")
    assert "do not find the plugin" in problems(
        HDF5_VOL_CONNECTOR="forebay strict=on", HDF5_PLUGIN_PATH=tmp_path / "other"
    )
    assert "another forebay first" not in problems(
        HDF5_VOL_CONNECTOR="forebay", HDF5_PLUGIN_PATH=f"{folder}:{tmp_path / 'another forebay'}"
    )
    assert "first, not that of this command" in problems(
        HDF5_VOL_CONNECTOR="forebay", HDF5_PLUGIN_PATH=f"{tmp_path / 'another forebay'}:{folder}"
    )


def test_a_missing_staging_area_is_a_problem(tmp_path):
    assert f"staging area {tmp_path / 'none'} does not exist: create it" in staging_problem(tmp_path / "none")


def test_a_file_is_no_staging_area(tmp_path):
    (tmp_path / "file").touch()
    assert "is not a directory" in staging_problem(tmp_path / "file")


@pytest.mark.parametrize("end", ["", "/"])
def test_a_symbolic_link_is_no_staging_area(tmp_path, nls, end):
    (tmp_path / "link").symlink_to(nls)
    assert f"is a symbolic link to {nls}" in staging_problem(f"{tmp_path}/link{end}")
    assert not list(nls.iterdir())


def test_a_staging_folder_that_is_a_symbolic_link_is_a_problem(tmp_path, nls):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (nls / f"forebay-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in staging_problem(nls)


def test_a_staging_folder_open_to_others_is_a_problem(nls):
    folder = nls / f"forebay-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert "is accessible to other users (mode 0777)" in staging_problem(nls)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away takes root")
def test_a_staging_folder_of_another_user_is_a_problem(nls):
    folder = nls / f"forebay-{os.geteuid()}"
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    assert "belongs to user 65534" in staging_problem(nls)


def test_a_file_system_that_cannot_be_written_is_a_problem():
    staging_problem("/proc")


def test_a_size_that_the_device_cannot_hold_is_a_problem(nls):
    message = staging_problem(nls, "-o", "size=1024T", source="-o")
    assert "option size=1PiB" in message or "option size=1024TiB" in message
    assert str(nls) in message


def test_doctor_reports_every_bad_option_with_its_source(nls, tmp_path):
    config = tmp_path / "forebay.toml"
    config.write_text('stripe = "2MiB"\nflush = "never"\n')
    report = examine(FOREBAY_NLS=nls, FOREBAY_SIZE="12x", FOREBAY_CONFIG=config)
    assert report["options"]["stripe"] == {"value": "2MiB", "source": f"{config}:1"}
    assert [problem.split(":")[0] for problem in report["problems"]] == [
        f"option flush=never ({config}",
        "option size=12x (FOREBAY_SIZE)",
    ]


def test_doctor_says_that_staging_is_switched_off(nls):
    assert examine("-o", "stage=off", FOREBAY_NLS=nls)["problems"] == ["option stage=off (-o): forebay stages no file"]


# ---- options, version, help ----


def test_the_page_of_options_is_what_the_command_prints():
    assert (ROOT / "docs" / "options.md").read_text() == call("options", "--markdown").stdout


def test_options_lists_every_option():
    page = (ROOT / "docs" / "options.md").read_text()
    every = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    shown = {
        how: {line.split()[0] for line in call("options", *how).stdout.splitlines() if line and line[0] != " "}
        for how in ((), ("--all",))
    }
    assert every <= shown["--all",]
    common = every & shown[()]
    assert {"stage", "nls", "size", "close", "read_cache"} <= common and len(common) <= 14
    assert f"There are {len(every) - len(common)} more" in call("options").stdout


def test_version_and_help_are_no_errors():
    assert call("--version").stdout.startswith("forebay ")
    for command in ([], ["run"], ["env"], ["doctor"], ["status"], ["options"]):
        done = call(*command, "--help")
        assert done.returncode == 0 and "Usage: forebay" in done.stdout
        assert "probe" not in done.stdout


@pytest.mark.parametrize("arguments", [["swim"], ["doctor", "--deep"], ["run"]])
def test_a_wrong_command_line_is_status_2(arguments):
    done = call(*arguments)
    assert done.returncode == 2 and done.stderr
