#!/bin/bash
# Runs the tests with coverage and prints the line coverage of our own code by folder.
#   usage: tools/coverage.sh [--files] [TARGETS...]      (default: //...)
#     --files    each file too
# The lcov file stays at bazel-out/_coverage/_coverage_report.dat; a process that is killed
# (SIGKILL) counts nothing, as gcov writes at exit.
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
cd "$MUSTER_ROOT"

readonly USAGE="tools/coverage.sh [--files] [TARGETS...]"
options=() targets=()
for argument in "$@"; do
  case $argument in
    --files) options+=(--files) ;;
    -h | --help) echo "usage: $USAGE" && exit ;;
    -*) fail "unknown option '$argument'" "$USAGE" ;;
    *) targets+=("$argument") ;;
  esac
done
[ ${#targets[@]} != 0 ] || targets=(//...)

./bazelw --setup
command -v python3 > /dev/null || apt_install "the summary" python3
# Where Bazel cannot download its merger, ours takes its place.
if grep -q remote_coverage_tools user.bazelrc 2> /dev/null; then
  with_lock tools/coverage/build_merger.sh "$(muster_cache)/coverage_tools"
  with_lock tools/bazel/lay_out_sources.sh
fi
output_path=$(./bazelw info output_path 2> /dev/null) ||
  fail "bazel info failed" "./bazelw info, and see what it says"
report=$output_path/_coverage/_coverage_report.dat
rm -f "$report"  # of an earlier run: a build that fails makes none
rc=0
./bazelw coverage --config=coverage "${targets[@]}" || rc=$?
[ -s "$report" ] || fail "no coverage report" "see what bazel coverage printed above"
python3 tools/coverage/summarize.py "${options[@]}" "$report"
exit "$rc"
