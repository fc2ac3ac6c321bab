#!/bin/bash
# bazelw --doctor: what is there and what is not. Changes nothing and needs no network.
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
# shellcheck source=tools/bazel/choose_bazel.sh
source "$MUSTER_ROOT/tools/bazel/choose_bazel.sh"
# shellcheck source=tools/bazel/packages.sh
source "$MUSTER_ROOT/tools/bazel/packages.sh"

row() { printf '%-14s %s\n' "$1" "$2"; }

# In a subshell each: a failure is an answer here.
answer() { ("$@" 2>&1) || true; }

system() { . /etc/os-release 2> /dev/null && echo "${PRETTY_NAME:-unknown}, $(uname -m), $(nproc) cores"; }

rights() {
  if [ "$(id -u)" = 0 ]; then echo "root"; elif as_root > /dev/null; then echo "sudo"; else
    echo "neither root nor sudo: packages cannot be installed"
  fi
}

chosen() {
  choose_bazel
  local state=installed
  [ -x "$bazel_path" ] || state="not installed yet"
  echo "Bazel $bazel_version: $bazel_path ($state)"
}

packages() {
  (choose_bazel) > /dev/null 2>&1 || { echo "depends on the Bazel" && return; }
  choose_bazel 2> /dev/null
  local -a missing
  local -a wanted
  mapfile -t wanted < <(packages_for "$bazel_kind" "$bazel_version" 1)
  mapfile -t missing < <(missing_packages "${wanted[@]}" | sort -u)
  if [ ${#missing[@]} = 0 ]; then echo "all there"; else
    echo "missing: ${missing[*]} (sudo apt-get install -y --no-install-recommends ${missing[*]})"
  fi
}

jdk() { find_jdk || echo "none of 21 or later: Bazel 7 brings one along"; }

sources() {
  if grep -q '>>> written by bazelw' "$MUSTER_ROOT/user.bazelrc" 2> /dev/null; then
    echo "laid out in $(muster_cache)/sources, overridden by user.bazelrc"
  else
    echo "from the archives of third_party/deps.bzl (no overrides in user.bazelrc)"
  fi
}

up_to_date() {
  choose_bazel 2> /dev/null
  if set_up_is_current "$(set_up_stamp)"; then echo "done"; else echo "to do: ./bazelw --setup"; fi
}

row checkout "$MUSTER_ROOT"
row system "$(answer system)"
row rights "$(answer rights)"
row cache "$(answer muster_cache)"
row MUSTER_BAZEL "${MUSTER_BAZEL:-not set: 7 where it can be had, else 4}"
row bazel "$(answer chosen)"
row packages "$(answer packages)"
row JDK "$(answer jdk)"
row compiler "$( (g++ --version 2> /dev/null || echo "no g++") | head -n 1)"
row libcrypto "$([ -f /usr/include/openssl/evp.h ] && echo "headers there" || echo "no headers: libssl-dev")"
row mirror "$(answer debian_mirror)"
row sources "$(answer sources)"
row set-up "$(answer up_to_date)"
