#!/bin/bash
# third_party/deps.bzl (WORKSPACE) and MODULE.bazel say the same: the same repositories, under the
# same names and in the same versions.
set -euo pipefail
deps=$1 module=$2

# "name version" of each bazel_dep, by the name that our BUILD files use. ".bcr.N" is the registry's
# own count of changes to its BUILD files.
bazel_deps() {
  sed -n 's/^bazel_dep(\(.*\))$/\1/p' "$module" | while IFS= read -r line; do
    name=$(sed -n 's/.*repo_name = "\([^"]*\)".*/\1/p' <<< "$line")
    [ -n "$name" ] || name=$(sed -n 's/^name = "\([^"]*\)".*/\1/p' <<< "$line")
    echo "$name $(sed -n 's/.* version = "\([^"]*\)".*/\1/p' <<< "$line" | sed 's/\.bcr\.[0-9]*$//')"
  done | sort
}

# The text of one function of deps.bzl.
function_body() { awk -v name="$1" '/^def /{on = index($0, "def " name "(") == 1} on' "$deps"; }

# "name url" of what that function declares with http_archive.
archives() {
  function_body "$1" | awk -F'"' '/^ *name = /{name = $2} /^ *urls = /{print name, $2}' | sort
}

# The names of everything that a function declares.
declared() { function_body "$1" | sed -n 's/.*[ (]name = "\([^"]*\)".*/\1/p' | sort; }

used_from_extension() {
  awk '/^use_repo\(/{on = 1} on' "$module" | sed -n 's/^    "\([^"]*\)",$/\1/p' | sort
}

rc=0
differ() {
  echo "$1: < third_party/deps.bzl, > MODULE.bazel"
  diff "$2" "$3" || rc=1
}

tmp=$TEST_TMPDIR
bazel_deps > "$tmp/module"
archives _registry_dependencies > "$tmp/archives"
if ! [ -s "$tmp/module" ] || ! [ -s "$tmp/archives" ]; then echo "found no dependencies" && exit 1; fi

cut -d' ' -f1 "$tmp/archives" > "$tmp/archive_names"
cut -d' ' -f1 "$tmp/module" > "$tmp/module_names"
differ "from the registry" "$tmp/archive_names" "$tmp/module_names"

# Versions: the archive's address has the module's version ("1.28.2" or "1-28-2") in it.
while read -r name version; do
  url=$(sed -n "s/^$name //p" "$tmp/archives")
  case $url in
    *"$version"* | *"${version//./-}"*) ;;
    *) echo "$name: MODULE.bazel says $version, third_party/deps.bzl $url" && rc=1 ;;
  esac
done < "$tmp/module"

declared _other_dependencies > "$tmp/other"
used_from_extension > "$tmp/used"
differ "from elsewhere" "$tmp/other" "$tmp/used"
exit "$rc"
