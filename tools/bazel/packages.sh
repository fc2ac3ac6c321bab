#!/bin/bash
# What apt installs, and where a JDK is. Sourced.

# bazel-bootstrap alone brings none of the rule sets.
BAZEL4_PACKAGES=(bazel-bootstrap bazel-rules-cc bazel-rules-java bazel-rules-proto bazel-skylib
  bazel-platforms)

# packages_for KIND VERSION OFFLINE: one a line.
packages_for() {
  printf '%s\n' g++ libc6-dev libssl-dev
  # Bazel's own wrapper of a test packs what the test leaves in TEST_UNDECLARED_OUTPUTS_DIR; without
  # these the test fails after it has passed.
  printf '%s\n' file zip
  if [ "$1" = unpacked7 ] || { [ "$2" = 7 ] && [ "$3" = 1 ]; }; then
    printf '%s\n' bubblewrap patchelf xz-utils
  fi
  if [ "$1" = debian4 ] || { [ "$2" = 4 ] && [ "$3" = 1 ]; }; then
    printf '%s\n' "${BAZEL4_PACKAGES[@]}"
  fi
  [ "$3" = 0 ] || printf '%s\n' patch xz-utils bzip2
}

# Prints the home of a JDK of 21 or later on this machine (Bazel 7 refuses 17).
find_jdk() {
  local home version
  for home in "${JAVA_HOME:-}" /usr/lib/jvm/*; do
    if ! [ -f "$home/release" ] || ! [ -x "$home/bin/java" ]; then continue; fi
    version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
    if [ "${version:-0}" -ge 21 ]; then readlink -f "$home" && return; fi
  done
  return 1
}
