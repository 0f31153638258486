# Common functions of the set-up scripts: places, steps, and messages about failures. Source this file; do not run it.
# The sourcing script sets `set -euo pipefail` first.

# die MESSAGE: prints one line on stderr, and exits.
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

if [ -z "${FOREBAY_CACHE:-}${XDG_CACHE_HOME:-}${HOME:-}" ]; then
  die "HOME is not set: set FOREBAY_CACHE to a directory of yours"
fi
forebay_cache="${FOREBAY_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/forebay}"
forebay_logs="$forebay_cache/logs"

# step TITLE COMMAND...: announces the step, runs it with its output in a log, and prints its duration. A failing
# command ends the script with one line that names the log, whose name starts with $log_prefix if that is set.
step() {
  local title="$1" log started status=0
  shift
  mkdir -p "$forebay_logs" 2>/dev/null ||
    die "cannot create $forebay_logs: set FOREBAY_CACHE to a directory that can be written"
  log="$forebay_logs/${log_prefix:-}$(printf '%s' "${1##*/}" | tr -c 'A-Za-z0-9_.-' '-').log"
  printf '==> %s … ' "$title"
  started=$SECONDS
  # `if "$@"` would switch `set -e` off inside a function that is a step.
  set +e
  (set -e; "$@") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if [ "$status" -ne 0 ]; then
    printf 'failed after %d s\n' $((SECONDS - started))
    die "$title: $(failure_reason "$log") (log: $log)"
  fi
  printf 'done in %d s\n' $((SECONDS - started))
}

# Prints the last line that a step wrote for people (`reason: …`), or else its last error, or else its last line.
failure_reason() {
  local line
  line=$(sed -n 's/^reason: //p' "$1" | tail -n 1)
  [ -n "$line" ] || line=$(grep -E '(^|[^a-zA-Z])(error|ERROR|Error|FAILED|E:)' "$1" | tail -n 1 || true)
  [ -n "$line" ] || line=$(tail -n 1 "$1")
  printf '%s' "${line:-it wrote nothing}" | cut -c1-300
}

# because TEXT: sets, inside a step, the line that step() will show.
because() {
  printf 'reason: %s\n' "$*"
  exit 1
}

# Runs a command as root: directly, or through sudo.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo -n "$@" || because "'sudo $1' failed: run 'sudo -v' first, or ask an administrator to run: sudo $*"
  else
    because "this needs root and there is no sudo: ask an administrator to run: $*"
  fi
}

# lock NAME: lets only one process at a time build NAME. The script holds the lock until it ends.
lock() {
  mkdir -p "$forebay_cache" 2>/dev/null ||
    die "cannot create $forebay_cache: set FOREBAY_CACHE to a directory that can be written"
  { exec 9>"$forebay_cache/.$1.lock"; } 2>/dev/null ||
    die "cannot write to $forebay_cache: set FOREBAY_CACHE to a directory that can be written"
  if ! flock -n 9; then
    printf '==> waiting for another process that is preparing %s\n' "$1"
    flock 9
  fi
}
