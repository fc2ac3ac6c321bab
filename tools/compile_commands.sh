#!/bin/bash
# Writes compile_commands.json (git-ignored) for clang-tidy and editors from Bazel's own compile
# actions. Works with Bazel 4.2.3 and 7.
#   usage: tools/compile_commands.sh [TARGETS...]      (default: //...)
# Build the targets first: some headers are generated.
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
cd "$MUSTER_ROOT"

if [ $# -gt 0 ]; then
  targets=$(printf ' + %s' "$@")
  targets=${targets# + }
else
  targets=//...
fi

# "muster/..." is the checkout itself, then what Bazel has generated: instead of Bazel's folder of
# links for each library (_virtual_includes), two links. So a header has one path, and an editor
# opens the right file.
include=$(muster_cache)/include/$(echo "$MUSTER_ROOT" | sha256sum | cut -c1-8)
mkdir -p "$include/generated"
ln -sfn "$MUSTER_ROOT" "$include/muster"

actions=$(mktemp)
trap 'rm -f "$actions"' EXIT
quietly ./bazelw --setup
execution_root=$(./bazelw info execution_root 2> /dev/null) ||
  fail "bazel info failed" "./bazelw info, and see what it says"
generated=$(./bazelw info bazel-bin 2> /dev/null) || fail "bazel info failed" "./bazelw info, and see what it says"
ln -sfn "$generated" "$include/generated/muster"
./bazelw aquery --output=jsonproto "mnemonic(\"CppCompile\", $targets)" > "$actions" 2> /dev/null ||
  fail "bazel aquery failed for $targets" "./bazelw build $targets, and see what it says"
python3 tools/lint/compile_commands.py "$actions" "$execution_root" "$MUSTER_ROOT" "$include" \
  > compile_commands.json
say "compile_commands.json: $(grep -c '"file":' compile_commands.json) files"
