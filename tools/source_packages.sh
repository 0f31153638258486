# Upstream sources from the machine's own package mirror. Source this after steps.sh; do not run it. The sourcing script
# sets `instead_of_download` to advice for a failed download.

# derived_sources FOLDER SUITE KIND: writes the machine's own package sources for its own release to the folder,
# rewritten to ask for that suite. KIND is deb-src for sources, deb for binary packages.
derived_sources() {
  local codename suite=$2 kind=$3
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  [ -n "$codename" ] ||
    because "/etc/os-release names no release: set HDF5_ROOT to an HDF5 of 1.14.0 or later," \
      "or FOREBAY_HDF5_SOURCE to its source"
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -r "$file" ] || continue
    awk -v from="$codename" -v to="$suite" -v kind="$kind" '
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
        if ($(i + 1) == from && !seen[$i]++) print kind options, $i, to, "main"
      }' "$file"
  done >"$1/derived.list"
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -r "$file" ] || continue
    sed '/^#/d' "$file" | awk -v from="$codename" -v to="$suite" -v kind="$kind" '
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
        if (mine && binary && !off) printf "Types: %s\n%sSuites: %s\nComponents: main\n\n", kind, kept, to
      }'
  done >"$1/derived.sources"
  [ -s "$1/derived.list" ] || [ -s "$1/derived.sources" ] ||
    because "no package source of this machine serves release '$codename':" \
      "set HDF5_ROOT to an HDF5 of 1.14.0 or later, or FOREBAY_HDF5_SOURCE to its source"
}

# private_apt SUITE KIND: sets `apt` to a folder and `options` to the options that make apt-get work there, with lists
# of its own. So the machine's configuration stays unchanged, and root is not needed. In a step only.
private_apt() {
  apt=$(mktemp -d) # not local: the trap outlives this function
  trap 'rm -rf "$apt"' EXIT
  mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
  derived_sources "$apt/parts" "$1" "$2"
  options=(
    -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$apt/parts"
    -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache"
    -o "APT::Sandbox::User=" -o "Acquire::Retries=2" -o "Acquire::http::Timeout=30" -o "Acquire::https::Timeout=30"
    -o "APT::Update::Error-Mode=any" # otherwise an unreachable mirror is only a warning
  )
  timeout 300 apt-get "${options[@]}" update ||
    because "the package mirror gave no package list for release '$1': check the network, or $instead_of_download"
}

# download_sources SUITE FOLDER PACKAGE=VERSION…: puts the upstream archives of these source packages into the folder.
# In a step only.
download_sources() {
  local suite=$1 folder=$2 wanted found options
  shift 2
  mkdir -p "$folder"
  private_apt "$suite" deb-src
  for wanted in "$@"; do
    found=$(apt-cache "${options[@]}" showsrc "${wanted%%=*}" |
      awk -v v="${wanted#*=}" '$1 == "Version:" && index($2, v) == 1 { print $2; exit }' || true)
    [ -n "$found" ] ||
      because "release '$suite' on the package mirror holds no ${wanted%%=*} ${wanted#*=}: $instead_of_download"
    (cd "$folder" && timeout 900 apt-get "${options[@]}" source --download-only --tar-only "${wanted%%=*}=$found") ||
      because "downloading the source package ${wanted%%=*} $found failed: check the network, or $instead_of_download"
  done
}

# download_package SUITE FOLDER PACKAGE: puts this binary package into the folder. In a step only.
download_package() {
  local options
  mkdir -p "$2"
  private_apt "$1" deb
  (cd "$2" && timeout 300 apt-get "${options[@]}" download "$3") ||
    because "downloading the package $3 failed: check the network, or $instead_of_download"
}
