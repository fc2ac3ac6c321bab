#!/bin/bash
# Installs the pinned lint tools under the cache and prints the folder that has them in bin/.
# Sourced scripts of tools/bazel say each step on standard error.
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"

CLANG_FORMAT=clang-format==19.1.7
CLANG_TIDY=clang-tidy==19.1.0
BUILDIFIER=@bazel/buildifier@8.2.1

folder=$(muster_cache)/lint-$(echo "$CLANG_FORMAT $CLANG_TIDY $BUILDIFIER" | sha256sum | cut -c1-8)

install_python_tools() {
  python3 -c 'import ensurepip, venv' 2> /dev/null || apt_install "the lint tools" python3-venv
  say "installing $CLANG_FORMAT and $CLANG_TIDY"
  quietly python3 -m venv "$1/python"
  quietly "$1/python/bin/pip" install --disable-pip-version-check "$CLANG_FORMAT" "$CLANG_TIDY" ||
    fail "pip could not install $CLANG_FORMAT and $CLANG_TIDY" "see above; then run this again"
}

install_buildifier() {
  command -v npm > /dev/null || apt_install "buildifier" npm
  say "installing $BUILDIFIER"
  quietly npm install --no-audit --no-fund --prefix "$1/node" "$BUILDIFIER" ||
    fail "npm could not install $BUILDIFIER" "see above; then run this again"
}

link_tools() {
  local machine
  case $(uname -m) in aarch64) machine=arm64 ;; *) machine=amd64 ;; esac
  mkdir -p "$1/bin"
  ln -sf "$folder/python/bin/clang-format" "$folder/python/bin/clang-tidy" "$1/bin/"
  ln -sf "$folder/node/node_modules/@bazel/buildifier/buildifier-linux_$machine" "$1/bin/buildifier"
}

# In a folder of its own until all is there. (A Python venv has its path written into it, so the
# place is the final one from the start, and the file `ready` says that it is whole.)
install_all() {
  [ ! -e "$folder/ready" ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  install_python_tools "$folder"
  install_buildifier "$folder"
  link_tools "$folder"
  : > "$folder/ready"
}

command -v shellcheck > /dev/null || apt_install "the lint tools" shellcheck
with_lock install_all
echo "$folder"
