#!/bin/bash
# Builds and tests the repositories here, which import Muster, against this checkout: `workspace`
# with Bazel 4, `bzlmod` with Bazel 7. Offline, they take what bazelw laid out.
#   usage: testing/importers/run.sh [workspace] [bzlmod]     (default: both)
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
bazelw=$here/../../bazelw

say() { echo "importers: $*"; }
die() {
  say "error: $*" >&2
  exit 1
}

bazel() { "$bazelw" "$@"; }

# one_of NAME SUFFIX: among all that the test links there is one target with that end.
one_of() {
  local found
  found=$(bazel query --noshow_progress --noimplicit_deps \
    "filter('$2\$', deps(//app:mean_test_gloo_2ranks))")
  [ "$(wc -w <<< "$found")" = 1 ] ||
    die "$mode: expected one $1 in //app:mean_test_gloo_2ranks, found: $(xargs <<< "$found")"
  say "$mode: one $1: $found"
}

stays_private() {
  local said
  if said=$(bazel build --nobuild --noshow_progress //app:reaches_inside 2>&1); then
    die "$mode: //app:reaches_inside builds, though it depends on what is private in Muster"
  fi
  grep -q 'is not visible from' <<< "$said" ||
    die "$mode: //app:reaches_inside fails, but not for its visibility: $said"
  say "$mode: what is private in Muster is not visible"
}

prints_the_mean() {
  bazel build --noshow_progress --symlink_prefix=/ //app:print_mean //app:start_ranks \
    @muster//tools:muster
  local bin
  bin=$(bazel info --noshow_progress bazel-bin)
  two_means_of "muster run" "$(muster_in "$bin")" run -n 2 -- "$bin/app/print_mean" 1 3
  two_means_of start_ranks "$bin/app/start_ranks" 2 "$bin/app/print_mean" 1 3
  # As docs/start.md says: an alias of it would not do.
  two_means_of "bazel run --run_under" bazel run --noshow_progress --symlink_prefix=/ \
    --run_under="@muster//tools/muster:muster run -n 2 --" //app:print_mean -- 1 3
}

# two_means_of NAME COMMAND...: it starts print_mean as two ranks.
two_means_of() {
  local said name=$1
  shift
  said=$("$@") || die "$mode: $name failed: $said"
  [ "$(grep -c 'mean: 2$' <<< "$said")" = 2 ] ||
    die "$mode: expected a mean of 2 from each rank of $name, got: $said"
  say "$mode: print_mean ran on two ranks of $name"
}

# The folder of the repository has another name in each mode.
muster_in() {
  local -a found=("$1"/external/muster*/tools/muster/muster)
  [ -x "${found[0]}" ] || die "$mode: no muster in $1/external"
  echo "${found[0]}"
}

try_mode() {
  mode=$1
  cd "$here/$mode"
  say "$mode: Bazel $MUSTER_BAZEL"
  one_of abseil '//absl/strings:strings'
  one_of GoogleTest '//:gtest'
  bazel test --noshow_progress --symlink_prefix=/ //app:mean_test
  prints_the_mean
  stays_private
  bazel shutdown
}

[ $# != 0 ] || set -- workspace bzlmod
for argument in "$@"; do
  case $argument in
    workspace) MUSTER_BAZEL=4 ;;
    bzlmod) MUSTER_BAZEL=7 ;;
    *) die "unknown argument '$argument': expected workspace or bzlmod" ;;
  esac
  export MUSTER_BAZEL
  try_mode "$argument"
done
say "passed: $*"
