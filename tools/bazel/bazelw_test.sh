#!/bin/bash
# bazelw in a copy of the checkout, with an empty home and without a network: what it says about
# arguments that make no sense, and what it hands to Bazel. Checkout and home have a space in their
# names.
set -uo pipefail
checkout="$TEST_TMPDIR/a checkout"
failures=0

# The files come as links into the real checkout, which no test may touch.
copy_checkout() {
  mkdir -p "$checkout"
  cp -RL bazelw tools third_party "$checkout/"
  touch "$checkout/WORKSPACE"
  export HOME="$TEST_TMPDIR/a home" PATH=$TEST_TMPDIR/bin:$PATH
  unset XDG_CACHE_HOME MUSTER_BAZEL MUSTER_OFFLINE
  mkdir -p "$HOME" "$TEST_TMPDIR/bin"
  # Whatever is asked for is installed: nothing here may call apt.
  fake dpkg-query 'echo installed'
  # shellcheck disable=SC2016  # likewise
  fake apt-get 'echo "apt-get was called: $*" >&2; exit 1'
  # shellcheck disable=SC2016  # for the fake to expand
  fake fakebazel 'if [ "$1" = --version ]; then echo "bazel ${FAKE_VERSION:-7.7.1}"; exit; fi
pwd; printf "[%s]\n" "$@"'
}

fake() {
  printf '#!/bin/bash\n%s\n' "$2" > "$TEST_TMPDIR/bin/$1"
  chmod +x "$TEST_TMPDIR/bin/$1"
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

wrong() {
  printf 'FAILED %s\n%s\n\n' "$1" "$2"
  failures=$((failures + 1))
}

copy_checkout
fakebazel=$TEST_TMPDIR/bin/fakebazel
cd "$checkout" || exit 1

expect "a version that is none" 1 "MUSTER_BAZEL is '9'" "to go on: MUSTER_BAZEL=7" -- \
  env MUSTER_BAZEL=9 ./bazelw test //...
expect "a path where nothing is" 1 "MUSTER_BAZEL is '/nonexistent': no such program" "to go on:" -- \
  env MUSTER_BAZEL=/nonexistent ./bazelw test //...
expect "a program that is no Bazel" 1 "does not say which Bazel" -- \
  env MUSTER_BAZEL=/bin/true ./bazelw test //...
expect "an odd MUSTER_OFFLINE" 1 "MUSTER_OFFLINE is 'maybe'" -- \
  env MUSTER_BAZEL="$fakebazel" MUSTER_OFFLINE=maybe ./bazelw test //...
[ "$(MUSTER_BAZEL=$fakebazel MUSTER_OFFLINE=maybe ./bazelw --setup 2>&1 | grep -c error:)" = 1 ] ||
  wrong "a set-up that fails is tried once" ""
expect "no home" 1 "neither XDG_CACHE_HOME nor HOME" "set HOME" -- \
  env -u HOME MUSTER_BAZEL="$fakebazel" ./bazelw test //...
expect "help" 0 "MUSTER_BAZEL=7\|4\|/path" "--doctor" -- ./bazelw --help
expect "doctor" 0 "^checkout +.*/a checkout$" "^bazel +Bazel 7: .*fakebazel" "^set-up +to do" -- \
  env MUSTER_BAZEL="$fakebazel" ./bazelw --doctor
expect "doctor says what is wrong" 0 "MUSTER_BAZEL is '9'" -- env MUSTER_BAZEL=9 ./bazelw --doctor

export MUSTER_OFFLINE=0
expect "arguments pass through" 0 "^\[run\]$" "^\[//x\]$" "^\[--\]$" "^\[an argument\]$" "^\[\]$" \
  "^\[--output_user_root=.*/muster/out7\]$" "^\[--bazelrc=.*/a checkout/tools/bazel/bazel7.rc\]$" -- \
  env MUSTER_BAZEL="$fakebazel" ./bazelw run //x -- "an argument" ""
expect "another output root and flags for 4" 0 "^\[--output_user_root=.*/muster/out4\]$" \
  "^\[--bazelrc=.*/bazel4.rc\]$" -- \
  env MUSTER_BAZEL="$fakebazel" FAKE_VERSION=4.2.3 ./bazelw build //x
ln -s "$(dirname "$TEST_TMPDIR")/other/execroot/muster" bazel-other
ln -s /nowhere/at/all bazel-mine
expect "the other version's outputs are forgotten" 0 "^\[build\]$" -- \
  env MUSTER_BAZEL="$fakebazel" ./bazelw build //x
[ ! -L bazel-other ] || wrong "a link to another output root would be searched by //..." ""
[ -L bazel-mine ] || wrong "a link that is not Bazel's is not ours to remove" ""
mkdir -p core/group
expect "from a folder of the checkout" 0 "/a checkout/core/group$" -- \
  env -C core/group MUSTER_BAZEL="$fakebazel" "$checkout/bazelw" build :x
expect "from elsewhere" 0 "^$checkout$" -- \
  env -C / MUSTER_BAZEL="$fakebazel" "$checkout/bazelw" build //x
ln -s "$checkout/bazelw" "$TEST_TMPDIR/bin/bazelw"
expect "through a link" 0 "^\[build\]$" -- env MUSTER_BAZEL="$fakebazel" bazelw build //x
expect "nothing left to do the second time" 0 "^\[build\]$" -- \
  env MUSTER_BAZEL="$fakebazel" ./bazelw build //x
[ "$(MUSTER_BAZEL=$fakebazel ./bazelw build //x 2>&1 > /dev/null)" = "" ] ||
  wrong "it is quiet when nothing is to do" ""

# What the set-up writes with the cache's path in it: Bazel reads each line as one flag, and the
# launcher of Bazel 7 has a JDK wherever it was found.
mkdir -p "$(MUSTER_ROOT=$checkout bash -c 'source tools/bazel/lib.sh; bazel7_folder')/root"
lines=$(tools/bazel/lay_out_sources.sh --print) || wrong "the overrides" "$lines"
grep -q '"--override_module=googletest=.*/a home/.*"$' <<< "$lines" || wrong "no override of a module" "$lines"
! grep -vE '^common(:bazel7)? "--override_(repository|module)=[^="]+=/[^"]*"$' <<< "$lines" ||
  wrong "an override that is no single word" "$lines"
fake bwrap 'printf "[%s]\n" "$@"'
# shellcheck disable=SC2016  # a name
jdk='/opt/a jdk/17 & $HOME|"'
mkdir -p "$TEST_TMPDIR/a launcher"
(MUSTER_ROOT=$checkout && source tools/bazel/lib.sh && write_launcher "$TEST_TMPDIR/a launcher" "$jdk")
output=$("$TEST_TMPDIR/a launcher/bazel7" --shell a "b c" 2>&1) || wrong "the launcher of Bazel 7" "$output"
for word in "$jdk" a "b c"; do
  grep -qxF "[$word]" <<< "$output" || wrong "the launcher does not hand on '$word'" "$output"
done

[ "$failures" = 0 ]
