#!/bin/bash
# Which Bazel, what it needs, and how it is run. Sourced by bazelw, after lib.sh.
#
# choose_bazel sets  bazel_version (4 or 7, the line of flags),  bazel_kind (debian4, unpacked7,
# path)  and  bazel_path.

bazelw_help() {
  cat << 'H'
./bazelw ARGUMENTS...   sets this machine up where something is missing, then runs Bazel
./bazelw --setup        sets up only
./bazelw --doctor       says what is there and what is not; changes nothing

MUSTER_BAZEL=7|4|/path  which Bazel (default: 7 where it can be had, else 4)
MUSTER_OFFLINE=1|0      lay the dependencies out from the distribution's packages, or have Bazel
                        download them (default: try whether the archives can be reached)
MUSTER_DEBIAN_MIRROR    a Debian mirror (default: the one that apt is configured with)
XDG_CACHE_HOME          what is installed goes to $XDG_CACHE_HOME/muster (default: ~/.cache/muster)
H
}

# The line of flags for a Bazel binary: 4 or 7. Debian's 4.2.3 says "no_version".
flags_of() {
  local version
  version=$("$1" --version 2> /dev/null < /dev/null) || return 1
  case $version in
    "bazel no_version" | "bazel 4."* | "bazel 5."*) echo 4 ;;
    "bazel "[6-9]* | "bazel "[1-9][0-9]*) echo 7 ;;
    *) return 1 ;;
  esac
}

choose_bazel() {
  case ${MUSTER_BAZEL:-} in
    "") choose_default ;;
    4) choose_4 ;;
    7) choose_7 || fail "Bazel 7 cannot be had here: $why_not_7" "set MUSTER_BAZEL=4" ;;
    /*) choose_path "$MUSTER_BAZEL" ;;
    *) fail "MUSTER_BAZEL is '$MUSTER_BAZEL': neither 7, nor 4, nor an absolute path" \
      "MUSTER_BAZEL=7, MUSTER_BAZEL=4 or MUSTER_BAZEL=/path/to/bazel" ;;
  esac
}

choose_path() {
  if ! [ -f "$1" ] || ! [ -x "$1" ]; then
    fail "MUSTER_BAZEL is '$1': no such program" "give the path of a Bazel binary, or 7, or 4"
  fi
  bazel_version=$(flags_of "$1") || fail "'$1 --version' does not say which Bazel it is" \
    "give the path of a Bazel binary, or 7, or 4"
  bazel_kind=path bazel_path=$1
}

choose_default() {
  choose_7 && return
  say "no Bazel 7 here ($why_not_7): using 4; MUSTER_BAZEL=4 says so for good"
  choose_4
}

choose_4() {
  bazel_version=4 bazel_kind=debian4 bazel_path=/usr/bin/bazel-4
}

# A Bazel 7 or later of the user's own comes first.
choose_7() {
  local found
  found=$(command -v bazel || command -v bazelisk || true)
  if [[ -n $found && $(readlink -f "$found") != /usr/bin/bazel && $(flags_of "$found") == 7 ]]; then
    bazel_version=7 bazel_kind=path bazel_path=$found
    return
  fi
  bazel_version=7 bazel_kind=unpacked7 bazel_path=$(bazel7_folder)/bazel7
  [ ! -x "$bazel_path" ] || return 0
  why_not_7=$(obstacle_to_7)
  [ -z "$why_not_7" ]
}

# Why Debian's Bazel 7 cannot be unpacked here, or nothing.
obstacle_to_7() {
  if ! command -v apt-get > /dev/null || ! command -v dpkg-deb > /dev/null; then
    echo "this is no Debian"
  elif [ -n "$(missing_packages bubblewrap patchelf)" ] && ! as_root > /dev/null; then
    echo "it needs bubblewrap and patchelf, and there is neither root nor sudo"
  elif [ -n "$(missing_mount_points)" ] && ! as_root > /dev/null; then
    echo "it needs the empty folders $(missing_mount_points | xargs), and there is neither root nor sudo"
  elif ! bwrap_works; then
    echo "bubblewrap cannot make a mount namespace here"
  fi
}

# True as long as bwrap is not installed: then nothing is known.
bwrap_works() {
  ! command -v bwrap > /dev/null || bwrap --dev-bind / / true 2> /dev/null
}

set_up() {
  choose_bazel
  local stamp
  stamp=$(set_up_stamp)
  set_up_is_current "$stamp" || with_lock "$MUSTER_ROOT/tools/bazel/set_up.sh" \
    "$bazel_version" "$bazel_kind" "$bazel_path" "$stamp"
}

# What the result depends on: the scripts, the BUILD files and patches of third_party.
set_up_stamp() {
  {
    echo "$bazel_version $bazel_kind ${MUSTER_OFFLINE:-probe} ${MUSTER_DEBIAN_MIRROR:-}"
    (cd "$MUSTER_ROOT" && find third_party tools/bazel -type f \
      \( -name '*.sh' -o -name '*.BUILD' -o -name '*.patch' -o -name 'patches.bzl' \) \
      -exec sha256sum {} + | LC_ALL=C sort)
  } | sha256sum | cut -c1-16
}

# The stamp file names what must be there as well: a cache that was emptied is laid out anew.
set_up_is_current() {
  local stamp_file needed
  stamp_file=$(stamp_file "$1")
  [ -f "$stamp_file" ] || return 1
  while IFS= read -r needed; do [ -e "$needed" ] || return 1; done < "$stamp_file"
}

# One for each checkout, version and state of the sources.
stamp_file() {
  local checkout
  checkout=$(echo "$MUSTER_ROOT" | sha256sum | cut -c1-8)
  echo "$(muster_cache)/stamps/$checkout-$1"
}

# forget_other_outputs ROOT: removes the convenience symlinks that the other version left in this
# workspace. Bazel leaves out its own when it expands //..., and would search another's.
forget_other_outputs() {
  local link target
  for link in bazel-*; do
    [ -L "$link" ] || continue
    target=$(readlink "$link")
    case $target in
      "$1"/*) ;;
      */execroot/*) rm -f "$link" ;;
    esac
  done
}

# run_bazel ARGUMENTS...: in this process.
run_bazel() {
  local output_root
  output_root=$(muster_cache)/out$bazel_version
  local -a command=("$bazel_path" "--output_user_root=$output_root")
  workspace_root > /dev/null || cd "$MUSTER_ROOT" || exit
  (cd "$(workspace_root)" && forget_other_outputs "$output_root")
  # The line of flags; .bazelrc of whatever workspace this is comes before it.
  command+=("--bazelrc=$MUSTER_ROOT/tools/bazel/bazel$bazel_version.rc")
  # A wrapper that finds a .bazelversion refuses every version but that one: the binary itself.
  [ "$bazel_kind" = path ] || unset USE_BAZEL_VERSION
  exec "${command[@]}" "$@"
}

# Prints the folder of the workspace that is here or above: this checkout, or one that imports it.
# Fails where there is none.
workspace_root() {
  local folder=$PWD
  while [ "$folder" != / ]; do
    if [ -e "$folder/MODULE.bazel" ] || [ -e "$folder/WORKSPACE" ] || [ -e "$folder/WORKSPACE.bazel" ]; then
      echo "$folder"
      return 0
    fi
    folder=$(dirname "$folder")
  done
  return 1
}
