#!/bin/bash
# Format and lint of everything: C++ (clang-format, clang-tidy), Bazel files (buildifier), shell
# scripts (shellcheck), the messages of docs/troubleshooting.md. Installs its own pinned tools.
#   usage: tools/lint.sh [--fix] [--all] [--no-tidy] [--since=COMMIT]
#     --fix            rewrite what can be rewritten instead of complaining
#     --all            clang-tidy on every source file; otherwise on those changed since COMMIT
#     --since=COMMIT   default: where this branch left origin/main; on main itself the last commit
#     --no-tidy        leave clang-tidy out: a second instead of minutes
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
cd "$MUSTER_ROOT"

fix=0 tidy=changed since=
for argument in "$@"; do
  case $argument in
    --fix) fix=1 ;;
    --all) tidy=all ;;
    --no-tidy) tidy=none ;;
    --since=*) since=${argument#*=} ;;
    *) fail "unknown argument '$argument'" "tools/lint.sh [--fix] [--all] [--no-tidy] [--since=COMMIT]" ;;
  esac
done

if [ -n "$since" ]; then
  git rev-parse --verify -q "$since^{commit}" > /dev/null ||
    fail "--since=$since: git knows no such commit" "git log, and name one that is there"
fi

tools=$("$MUSTER_ROOT/tools/lint/install_tools.sh")
failures=0

# complain WHAT: remembers that there was something.
complain() {
  printf '%s\n' "$*" | sed 's/^/lint: /' >&2
  failures=$((failures + 1))
}

# files PATTERN...: what git knows or would know.
files() { git ls-files --cached --others --exclude-standard --deduplicate -- "$@" | existing; }
existing() { while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done; }

format_cc() {
  local -a sources
  mapfile -t sources < <(files '*.cc' '*.h' '*.cu')
  [ ${#sources[@]} != 0 ] || return 0
  # clang-format leaves comments alone: it would reflow the code in them.
  local long
  long=$(awk 'length > 100 && $1 == "//" && !/:\/\// {print FILENAME ":" FNR ": over 100 columns"}' \
    "${sources[@]}")
  [ -z "$long" ] || complain "$long"
  if [ "$fix" = 1 ]; then
    "$tools/bin/clang-format" -i --style=file "${sources[@]}" || complain "clang-format"
  else
    # One line a file: what is wrong with it, --fix knows.
    local output rc=0 unformatted
    output=$("$tools/bin/clang-format" --dry-run -Werror --style=file "${sources[@]}" 2>&1) || rc=$?
    [ "$rc" != 0 ] || return 0
    unformatted=$(sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1: not formatted/p' <<< "$output" | sort -u)
    [ -n "$unformatted" ] || unformatted="clang-format did not run (status $rc)"$'\n'"$output"
    complain "$unformatted"$'\n'"clang-format: tools/lint.sh --fix"
  fi
}

# Off: native-* asks for loads of symbols that Bazel 4.2.3 has only as globals.
readonly BUILDIFIER_WARNINGS=-native-cc-common,-native-cc-info,-native-sh-binary,-native-sh-test,-native-sh-library,-module-docstring

format_bazel() {
  local -a sources
  mapfile -t sources < <(files '*BUILD.bazel' '*.BUILD' '*.bzl' WORKSPACE MODULE.bazel \
    '*/WORKSPACE' '*/MODULE.bazel')
  local mode=(-mode=check -lint=warn)
  [ "$fix" = 0 ] || mode=(-mode=fix -lint=fix)
  "$tools/bin/buildifier" "${mode[@]}" -warnings="$BUILDIFIER_WARNINGS" "${sources[@]}" ||
    complain "buildifier: tools/lint.sh --fix, then what is left by hand"
}

# What docs/troubleshooting.md explains must be what the code says.
check_messages() {
  local -a sources
  mapfile -t sources < <(files '*.cc' '*.h' '*.bzl' '*.sh' bazelw | grep -v '_test\.cc$')
  python3 tools/lint/messages.py docs/troubleshooting.md "${sources[@]}" ||
    complain "docs/troubleshooting.md: a message has changed, or was never there"
}

check_shell() {
  local -a scripts
  mapfile -t scripts < <(files '*.sh' bazelw .ci/run)
  shellcheck -x "${scripts[@]}" || complain "shellcheck"
}

default_base() {
  local base
  base=$(git merge-base HEAD origin/main 2> /dev/null) || base=$(git rev-parse HEAD)
  if [ "$base" = "$(git rev-parse HEAD)" ] && [ -z "$(git status --porcelain)" ]; then
    base=$(git rev-parse --verify -q HEAD~1) || base=HEAD
  fi
  echo "$base"
}

# The sources that clang-tidy is to read: all, or those that changed, themselves or their header.
tidy_sources() {
  if [ "$tidy" = all ]; then files '*.cc' && return; fi
  local base=${since:-$(default_base)}
  {
    git diff --name-only "$base" -- '*.cc' '*.h'
    git ls-files --others --exclude-standard -- '*.cc' '*.h'
  } | sed -E 's/\.h$/.cc/; p; s/\.cc$/_test.cc/' | sort -u | existing
}

check_tidy() {
  local -a sources
  mapfile -t sources < <(tidy_sources | known_sources)
  [ ${#sources[@]} != 0 ] || { say "clang-tidy: no changed sources" && return; }
  say "clang-tidy: ${#sources[@]} files"
  local log
  log=$(mktemp)
  # Four at a time for each process: more start-up would cost more than it evens out.
  printf '%s\0' "${sources[@]}" | xargs -0 -n 4 -P "$(nproc)" \
    "$tools/bin/clang-tidy" -quiet -p . > "$log" 2> "$log.stderr" || complain "clang-tidy"
  # A header of ours was found through the link; say its place in the checkout.
  sed "s|$(muster_cache)/include/[0-9a-f]*/muster/||; s|^$MUSTER_ROOT/||" "$log"
  grep -E 'error: |Error' "$log.stderr" || true
  rm -f "$log" "$log.stderr"
}

# Of the paths read, those that Bazel compiles.
known_sources() {
  while IFS= read -r file; do
    ! grep -qF "\"file\": \"$MUSTER_ROOT/$file\"" compile_commands.json || echo "$file"
  done
}

format_cc
format_bazel
check_shell
check_messages
if [ "$tidy" != none ] && [ -n "$(tidy_sources)" ]; then
  # Only what the compiler reads: repositories and generated headers. Nothing is compiled.
  quietly ./bazelw build --output_groups=compilation_prerequisites_INTERNAL_ //... ||
    complain "bazel could not prepare the sources: ./bazelw build //..."
  tools/compile_commands.sh
  check_tidy
fi
[ "$failures" = 0 ] || exit 1
say "lint: clean"
