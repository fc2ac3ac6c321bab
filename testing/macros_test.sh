#!/bin/bash
# What the macros of this folder pass on to Bazel, by its own queries: macros_test in BUILD.bazel.
set -uo pipefail
failed=0

# expect QUERY LABEL...: the answer is these, and nothing else.
expect() {
  local query=$1 answer
  shift
  answer=$(LC_ALL=C sort "testing/$query" | xargs)
  [ "$answer" = "$*" ] && return
  echo "FAILED: $query is: $answer"
  echo "         expected: $*"
  failed=1
}

# The cases are the macro's own; what a user typed, and the tests that it says are made, are not.
expect macros_visible_to_another_package \
  //testing:conformance_macro_test //testing:conformance_macro_test_1ranks \
  //testing:multi_rank_macro_test //testing:multi_rank_macro_test_reference_1ranks
expect macros_with_a_platform \
  //testing:conformance_macro_test_1ranks \
  //testing:multi_rank_macro_test_cases //testing:multi_rank_macro_test_reference_1ranks
exit "$failed"
