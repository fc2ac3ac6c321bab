#!/bin/bash
# Fuzzes what reads bytes from strangers, each target for some time, with clang's libFuzzer and
# AddressSanitizer. Installs clang where it is missing.
#   usage: tools/fuzz.sh SECONDS [LABEL...]     default: all targets
#   e.g. tools/fuzz.sh 300
#        tools/fuzz.sh 3600 //core/store/fuzz:wire_fuzz
# What an input has reached is kept in the cache and is where the next run begins. An input that
# breaks something is kept there, too, and every later run begins with it: the last lines say where,
# and how to run it again.
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
readonly USAGE="tools/fuzz.sh SECONDS [LABEL...]"
cd "$MUSTER_ROOT"

seconds=${1:-}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "the number of seconds is '$seconds'" "$USAGE"
shift
targets=("$@")
[ ${#targets[@]} != 0 ] || targets=(
  //core/store/fuzz:wire_fuzz //core/store/fuzz:server_fuzz //core/store/fuzz:client_fuzz
)

# The compiler may be there without its runtime libraries, which are a package of their own.
has_fuzzer() {
  local resources
  resources=$(clang-14 -print-resource-dir 2> /dev/null) || return 1
  compgen -G "$resources/lib/*/libclang_rt.fuzzer*.a" > /dev/null
}
has_fuzzer || apt_install "fuzzing" clang-14 libclang-rt-14-dev

# fuzz LABEL: for that time.
fuzz() {
  local label=$1 name corpus found rc=0
  name=${label##*:}
  [[ $name == *_fuzz ]] || fail "$label is no fuzz target" "name one that ends with _fuzz"
  corpus=$(muster_cache)/fuzz/$name/corpus
  found=$(muster_cache)/fuzz/$name/found
  mkdir -p "$corpus" "$found"
  # In the ordinary configuration, which is built already.
  ./bazelw run "${label%_fuzz}_seeds" -- "$corpus" || return 1
  ./bazelw build --config=fuzz "$label" || return 1
  local path=${label#//}
  "bazel-bin/${path/://}" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -max_len=4096 \
    -print_final_stats=1 -artifact_prefix="$found/" "$corpus" "$found" || rc=$?
  [ "$rc" = 0 ] || echo "fuzz: $label: run again: bazel-bin/${path/://} $found/..."
  return "$rc"
}

summary=()
for target in "${targets[@]}"; do
  echo "fuzz: $target, $seconds s"
  if fuzz "$target"; then summary+=("fuzz: $target: passed"); else summary+=("fuzz: $target: FAILED"); fi
done
printf '%s\n' "${summary[@]}"
! printf '%s\n' "${summary[@]}" | grep -q FAILED
