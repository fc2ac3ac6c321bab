#!/bin/bash
# lint.sh, coverage.sh, fuzz.sh and .ci/run in a checkout of their own, with fakes for all that they call:
# whatever does not run, does not build or is no option must not pass for success.
# shellcheck disable=SC2016  # the fakes expand, not this
set -uo pipefail
checkout=$TEST_TMPDIR/checkout
failures=0

wrong() {
  printf 'FAILED %s\n%s\n\n' "$1" "$2"
  failures=$((failures + 1))
}

# program PATH LINES: an executable script.
program() {
  mkdir -p "${1%/*}"
  printf '#!/bin/bash\n%s\n' "$2" > "$1"
  chmod +x "$1"
}

# expect NAME STATUS PATTERN... -- COMMAND...: its status, and a line for each pattern in its output.
expect() {
  local name=$1 status=$2 patterns=() output rc=0 pattern
  shift 2
  while [ "$1" != -- ]; do patterns+=("$1") && shift; done
  shift
  output=$("$@" 2>&1 < /dev/null) || rc=$?
  [ "$rc" = "$status" ] || wrong "$name: status $rc instead of $status" "$output"
  for pattern in "${patterns[@]}"; do
    grep -qE -- "$pattern" <<< "$output" || wrong "$name: no line like '$pattern'" "$output"
  done
}

mkdir -p "$checkout/.ci" "$TEST_TMPDIR/bin"
cp -RL tools "$checkout/"
cp -L .ci/run "$checkout/.ci/"
cd "$checkout" || exit 1
export HOME=$TEST_TMPDIR PATH=$TEST_TMPDIR/bin:$PATH
unset XDG_CACHE_HOME

# --- lint.sh
lint=$TEST_TMPDIR/lint/bin
program "$checkout/tools/lint/install_tools.sh" "echo $TEST_TMPDIR/lint"
program "$TEST_TMPDIR/bin/git" '[ "$1" = ls-files ] && echo a.cc'
program "$TEST_TMPDIR/bin/shellcheck" ':'
program "$lint/buildifier" ':'
program "$TEST_TMPDIR/bin/python3" ':'
touch a.cc
program "$lint/clang-format" ':'
expect "what is clean" 0 "lint: clean" -- tools/lint.sh --no-tidy
program "$lint/clang-format" 'echo "a.cc:1:2: error: code should be clang-formatted [-Wclang-format-violations]"; exit 1'
expect "what is not formatted" 1 "a.cc: not formatted" -- tools/lint.sh --no-tidy
program "$lint/clang-format" 'echo "cannot open shared object"; kill -SEGV $$'
expect "a clang-format that crashes" 1 "did not run \(status 139\)" "shared object" -- tools/lint.sh --no-tidy
expect "one that crashes while it fixes" 1 -- tools/lint.sh --no-tidy --fix
rm "$lint/clang-format"
expect "a clang-format that is not there" 1 "did not run \(status 127\)" -- tools/lint.sh --no-tidy
expect "an argument that is none" 1 "unknown argument '--all-of-it'" -- tools/lint.sh --all-of-it
expect "a commit that is none" 1 "--since=orgin/main: git knows no such commit" -- tools/lint.sh --since=orgin/main

# --- coverage.sh
mkdir -p out/_coverage tools/coverage
program "$checkout/bazelw" "case \$1 in info) echo $checkout/out ;; --setup) ;; *) echo \"bazel \$*\"; exit 1 ;; esac"
program "$TEST_TMPDIR/bin/python3" 'echo "a summary of ${*: -1}"'
echo old > out/_coverage/_coverage_report.dat
expect "help" 0 "^usage: tools/coverage.sh" -- tools/coverage.sh --help
expect "an option that is none" 1 "unknown option '--config=dbg'" -- tools/coverage.sh --config=dbg
[ -s out/_coverage/_coverage_report.dat ] || wrong "a usage error touches nothing" ""
program "$checkout/bazelw" '[ "$1" != info ]'
expect "a Bazel that does not start" 1 "bazel info failed" -- tools/coverage.sh
program "$checkout/bazelw" "case \$1 in info) echo $checkout/out ;; --setup) ;; *) echo \"bazel \$*\"; exit 1 ;; esac"
expect "a build that fails has no report" 1 "^bazel coverage .*//core:all" "no coverage report" -- \
  tools/coverage.sh //core:all
program "$checkout/bazelw" "case \$1 in info) echo $checkout/out ;; coverage) echo new > out/_coverage/_coverage_report.dat; exit 3 ;; esac"
expect "tests that fail have one" 3 "a summary of .*/_coverage_report.dat" -- tools/coverage.sh

# --- fuzz.sh
program "$TEST_TMPDIR/bin/clang-14" "echo $TEST_TMPDIR/clang"
mkdir -p "$TEST_TMPDIR/clang/lib/linux"
touch "$TEST_TMPDIR/clang/lib/linux/libclang_rt.fuzzer-x86_64.a"
program "$checkout/bazelw" ':'
mkdir -p bazel-bin/core/store/fuzz
program "$checkout/bazel-bin/core/store/fuzz/wire_fuzz" 'echo "wire $*"'
program "$checkout/bazel-bin/core/store/fuzz/server_fuzz" 'exit 77'
expect "a time that is none" 1 "the number of seconds is 'ten'" -- tools/fuzz.sh ten
expect "a target that is none" 1 "//core/store:wire is no fuzz target" -- tools/fuzz.sh 5 //core/store:wire
expect "a target in which nothing is found" 0 "^wire .*-max_total_time=5 .*/corpus .*/found$" "wire_fuzz: passed" -- \
  tools/fuzz.sh 5 //core/store/fuzz:wire_fuzz
expect "a find does not keep others from running" 1 "wire_fuzz: passed" "server_fuzz: run again: " \
  "server_fuzz: FAILED" -- tools/fuzz.sh 5
program "$checkout/bazelw" '[ "$1" = run ]'
expect "a target that does not build" 1 "wire_fuzz: FAILED" -- tools/fuzz.sh 5 //core/store/fuzz:wire_fuzz
rm -r bazel-bin

# --- .ci/run
fake_events='for argument in "$@"; do case $argument in --build_event_json_file=*) file=${argument#*=} ;; esac; done
[ "$1" = test ] || exit 0
cat > "$file" << "EVENTS"
{"id":{"targetConfigured":{"label":"//a:good_test"}},"children":[],"configured":{"targetKind":"cc_test rule","testSize":"SMALL"}}
{"id":{"targetConfigured":{"label":"//a:bad_test"}},"children":[],"configured":{"targetKind":"cc_test rule","testSize":"SMALL"}}
{"id":{"targetConfigured":{"label":"//a:unbuilt_test"}},"children":[],"configured":{"targetKind":"cc_test rule","testSize":"SMALL"}}
{"id":{"targetConfigured":{"label":"//a:orphan_test"}},"children":[],"configured":{"targetKind":"cc_test rule","testSize":"SMALL"}}
{"id":{"targetConfigured":{"label":"//a:gpu_test"}},"children":[],"configured":{"targetKind":"cc_test rule","testSize":"SMALL"}}
{"id":{"targetConfigured":{"label":"//a:library"}},"children":[],"configured":{"targetKind":"cc_library rule"}}
{"id":{"targetCompleted":{"label":"//a:good_test","configuration":{"id":"1"}}},"children":[],"completed":{"success":true}}
{"id":{"targetCompleted":{"label":"//a:bad_test","configuration":{"id":"1"}}},"children":[],"completed":{"success":true}}
{"id":{"targetCompleted":{"label":"//a:unbuilt_test","configuration":{"id":"1"}}},"children":[],"completed":{"failureDetail":{}}}
{"id":{"targetCompleted":{"label":"//a:orphan_test","configuration":{"id":"1"}}},"aborted":{"reason":"INCOMPLETE"}}
{"id":{"targetCompleted":{"label":"//a:gpu_test","configuration":{"id":"1"}}},"aborted":{"reason":"SKIPPED"}}
{"id":{"targetCompleted":{"label":"//a:library","configuration":{"id":"1"}}},"children":[],"completed":{}}
{"id":{"testSummary":{"label":"//a:good_test","configuration":{"id":"1"}}},"testSummary":{"overallStatus":"PASSED"}}
{"id":{"testSummary":{"label":"//a:bad_test","configuration":{"id":"1"}}},"testSummary":{"overallStatus":"FAILED"}}
EVENTS
exit 3'
program "$checkout/bazelw" "$fake_events"
program "$checkout/tools/lint.sh" ':'
expect "tests that fail and tests that do not build" 1 "=== default: 1 passed, 3 not" "^2 passed, 6 failed$" -- .ci/run

[ "$failures" = 0 ]
