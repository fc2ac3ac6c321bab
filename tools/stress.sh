#!/bin/bash
# Runs tests many times, then again under each sanitizer.
#   usage: tools/stress.sh [OPTIONS] LABEL... RUNS [-- BAZEL_FLAGS...]
#     RUNS                       of each test in the default configuration
#     --sanitizers=asan,tsan     which ones, in that order; default asan,ubsan,tsan; empty: none
#     --sanitizer-runs=N         default: RUNS, but 20 at most (they are five times as slow)
#   e.g. tools/stress.sh //... 10
#        tools/stress.sh --sanitizers= //core/group:group_test 1000 -- --test_filter=Group.Close
# Every run is made even after a failure; the last lines say what failed in which configuration.
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
readonly USAGE="tools/stress.sh [--sanitizers=...] [--sanitizer-runs=N] LABEL... RUNS [-- FLAGS...]"

sanitizers=asan,ubsan,tsan sanitizer_runs='' labels=() flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --sanitizers=*) sanitizers=${1#*=} ;;
    --sanitizer-runs=*) sanitizer_runs=${1#*=} ;;
    --) shift && flags=("$@") && break ;;
    --*) fail "unknown option '$1'" "$USAGE" ;;
    *) labels+=("$1") ;;
  esac
  shift
done
[ ${#labels[@]} -ge 2 ] || fail "labels and a number of runs are needed" "$USAGE"
runs=${labels[-1]}
unset 'labels[-1]'
[[ $runs =~ ^[1-9][0-9]*$ ]] || fail "the number of runs is '$runs'" "$USAGE"
[ -n "$sanitizer_runs" ] || sanitizer_runs=$((runs < 20 ? runs : 20))
[[ $sanitizer_runs =~ ^[1-9][0-9]*$ ]] || fail "--sanitizer-runs is '$sanitizer_runs'" "$USAGE"
cd "$MUSTER_ROOT"

summary=()
# stress NAME RUNS FLAGS...
stress() {
  local name=$1 count=$2 rc=0
  shift 2
  echo "stress: $name, $count runs of each test"
  ./bazelw test --keep_going --runs_per_test="$count" --cache_test_results=no \
    --test_output=errors "$@" "${flags[@]}" -- "${labels[@]}" || rc=$?
  if [ "$rc" = 0 ]; then summary+=("stress: $name x $count: passed"); else
    summary+=("stress: $name x $count: FAILED (bazel exited $rc)")
  fi
}

stress default "$runs"
for sanitizer in ${sanitizers//,/ }; do
  stress "$sanitizer" "$sanitizer_runs" --config="$sanitizer"
done
printf '%s\n' "${summary[@]}"
! printf '%s\n' "${summary[@]}" | grep -q FAILED
