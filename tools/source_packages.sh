# Upstream sources from the machine's own package mirror. Sourced after steps.sh, never run. The sourcing script says
# in `instead_of_download` what a person can do when that fails.

# derived_sources FOLDER SUITE: writes the machine's own source entries for its own release to the folder, rewritten to
# ask for the sources of that suite.
derived_sources() {
  local codename suite=$2
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  [ -n "$codename" ] ||
    because "/etc/os-release names no release: set HDF5_ROOT to an HDF5 of 1.14.0 or later," \
      "or FOREBAY_HDF5_SOURCE to its source"
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -r "$file" ] || continue
    awk -v from="$codename" -v to="$suite" '
      $1 == "deb" {
        options = ""; i = 2
        if ($2 ~ /^\[/) {
          while (i <= NF) {
            word = $i; gsub(/[][]/, "", word)
            if (word ~ /^(signed-by|trusted)=/) options = options " " word
            if ($(i++) ~ /\]$/) break
          }
          if (options != "") options = " [" options " ]"
        }
        if ($(i + 1) == from && !seen[$i]++) print "deb-src" options, $i, to, "main"
      }' "$file"
  done >"$1/derived.list"
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -r "$file" ] || continue
    sed '/^#/d' "$file" | awk -v from="$codename" -v to="$suite" '
      BEGIN { RS = ""; FS = "\n" }
      {
        kept = ""; key = ""; mine = 0; binary = 0; off = 0
        for (i = 1; i <= NF; i++) {
          if ($i !~ /^[ \t]/) { key = tolower($i); sub(/:.*/, "", key) }
          value = $i; sub(/^[^:]*:/, "", value)
          if (key == "types" && value ~ /(^|[ \t])deb([ \t]|$)/) binary = 1
          if (key == "enabled" && value ~ /no/) off = 1
          if (key == "suites") {
            n = split(value, words, /[ \t]+/)
            for (j = 1; j <= n; j++) if (words[j] == from) mine = 1
          }
          if (key == "uris" || key == "signed-by" || key == "trusted") kept = kept $i "\n"
        }
        if (mine && binary && !off) printf "Types: deb-src\n%sSuites: %s\nComponents: main\n\n", kept, to
      }'
  done >"$1/derived.sources"
  [ -s "$1/derived.list" ] || [ -s "$1/derived.sources" ] ||
    because "no package source of this machine serves release '$codename':" \
      "set HDF5_ROOT to an HDF5 of 1.14.0 or later, or FOREBAY_HDF5_SOURCE to its source"
}

# download_sources SUITE FOLDER PACKAGE=VERSION…: puts the upstream archives of these source packages into the folder.
# The state of apt is private, so the machine's own configuration stays as it is, and nobody has to be root. In a step
# only.
download_sources() {
  local suite=$1 folder=$2 wanted found
  shift 2
  apt=$(mktemp -d) # not local: the trap outlives this function
  trap 'rm -rf "$apt"' EXIT
  mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial" "$folder"
  derived_sources "$apt/parts" "$suite"
  local options=(
    -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$apt/parts"
    -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache"
    -o "APT::Sandbox::User=" -o "Acquire::Retries=2" -o "Acquire::http::Timeout=30" -o "Acquire::https::Timeout=30"
    -o "APT::Update::Error-Mode=any" # otherwise an unreachable mirror is only a warning
  )
  timeout 300 apt-get "${options[@]}" update ||
    because "the package mirror gave no source list for release '$suite': check the network, or $instead_of_download"
  for wanted in "$@"; do
    found=$(apt-cache "${options[@]}" showsrc "${wanted%%=*}" |
      awk -v v="${wanted#*=}" '$1 == "Version:" && index($2, v) == 1 { print $2; exit }' || true)
    [ -n "$found" ] ||
      because "release '$suite' on the package mirror holds no ${wanted%%=*} ${wanted#*=}: $instead_of_download"
    (cd "$folder" && timeout 900 apt-get "${options[@]}" source --download-only --tar-only "${wanted%%=*}=$found") ||
      because "downloading the source package ${wanted%%=*} $found failed: check the network, or $instead_of_download"
  done
}
