#!/bin/bash
# Does what is missing on this machine, one line a step. Called by bazelw, under its lock.
#   usage: set_up.sh VERSION KIND PATH STAMP     (what choose_bazel.sh found)
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
# shellcheck source=tools/bazel/choose_bazel.sh
source "$MUSTER_ROOT/tools/bazel/choose_bazel.sh"
# shellcheck source=tools/bazel/packages.sh
source "$MUSTER_ROOT/tools/bazel/packages.sh"
bazel_version=$1 bazel_kind=$2 bazel_path=$3 stamp=$4

# Everything that apt installs, in one go, so that somebody without root sees one line to run.
install_packages() {
  local -a packages
  mapfile -t packages < <(packages_for "$bazel_kind" "$bazel_version" "$offline")
  command -v apt-get > /dev/null || [ "$bazel_kind" != path ] || return 0  # not Debian: the user's
  apt_install "Bazel $bazel_version and the build" "${packages[@]}"
}

# 1 where the archives of third_party/deps.bzl cannot be reached.
is_offline() {
  case ${MUSTER_OFFLINE:-} in
    0 | 1) echo "$MUSTER_OFFLINE" && return ;;
    "") ;;
    *) fail "MUSTER_OFFLINE is '$MUSTER_OFFLINE'" "MUSTER_OFFLINE=0, MUSTER_OFFLINE=1 or unset" ;;
  esac
  local url
  url=$(grep -o 'https://[^"]*/gloo/archive/[^"]*' "$MUSTER_ROOT/third_party/deps.bzl")
  if reachable "$url"; then echo 0; else echo 1; fi
}

reachable() {
  if command -v curl > /dev/null; then
    curl -sfIL -o /dev/null --connect-timeout 5 --max-time 15 "$1"
  elif command -v wget > /dev/null; then
    wget -q --spider --tries=1 --timeout=10 "$1"
  else  # a bare machine: whether somebody answers there
    local host=${1#https://}
    timeout 5 bash -c ": < /dev/tcp/${host%%/*}/443" 2> /dev/null
  fi
}

write_stamp() {
  local file needed
  file=$(stamp_file "$stamp")
  mkdir -p "${file%/*}"
  {
    echo "$bazel_path"
    echo /usr/include/openssl/evp.h
    [ ! -f "$MUSTER_ROOT/user.bazelrc" ] || {
      echo "$MUSTER_ROOT/user.bazelrc"
      sed -n "s/.*--override_[a-z]*=[^=]*=\([^\"]*\)\"*$/\1/p" "$MUSTER_ROOT/user.bazelrc"
    }
  } | while IFS= read -r needed; do [ ! -e "$needed" ] || echo "$needed"; done > "$file.new"
  mv "$file.new" "$file"
}

# Another process may have done it while this one waited for the lock.
! set_up_is_current "$stamp" || exit 0
offline=$(is_offline)
say "setting up for Bazel $bazel_version: the archives of third_party/deps.bzl $(
  [ "$offline" = 1 ] && echo "cannot be reached, laying the sources out" || echo "can be reached")"
install_packages
if [ "$bazel_kind" = unpacked7 ] || { [ "$bazel_version" = 7 ] && [ "$offline" = 1 ]; }; then
  "$MUSTER_ROOT/tools/bazel/install_bazel7.sh" "$(bazel7_folder)"
fi
if [ "$offline" = 1 ]; then
  "$MUSTER_ROOT/tools/bazel/lay_out_sources.sh"
else
  "$MUSTER_ROOT/tools/bazel/lay_out_sources.sh" --remove
fi
write_stamp
say "ready"
