#!/bin/bash
# Runs the set-up test with its roll-back switched off, by the fault point that is there for
# it: the test must fail, and say what was left.
set -uo pipefail
test_binary=$1
output=$TEST_TMPDIR/output
# Bazel's files are this test's, not those of the one that fails inside.
env -u XML_OUTPUT_FILE -u TEST_PREMATURE_EXIT_FILE -u TEST_SHARD_STATUS_FILE \
  -u TEST_UNDECLARED_OUTPUTS_DIR -u TEST_WARNINGS_OUTPUT_FILE -u TESTBRIDGE_TEST_ONLY -u TEST_TARGET \
  MUSTER_FAULTS='pool.rollback=fail(rank=1)' "$test_binary" \
  --muster_ranks=2 --muster_backend=reference \
  --gtest_filter='*AnExceptionInOneRanksSetUpReachesAllAndLeavesNothing' > "$output" 2>&1
code=$?
if [ "$code" = 0 ]; then
  cat "$output"
  echo "FAILED: the test passed although nothing was rolled back"
  exit 1
fi
left='^  rank 1  .*AnExceptionInOneRanksSetUp.* Which is: "[0-9]+ fds.*l7_set_up_test.cc:'
if ! grep -Eq "$left" "$output"; then
  cat "$output"
  echo "FAILED: the test failed (exit code $code), but not for the file descriptors that were left"
  exit 1
fi
echo "the test failed as it should (exit code $code)"
