#!/bin/bash
# The sha256 of https://github.com/OWNER/NAME/archive/COMMIT.tar.gz, computed without a network from a
# git directory that has the commit. (It gave the two published sums of pytorch/gloo that it was
# checked against, at 54cbae0 and 5354032.)
#   usage: tools/github_sha256.sh GIT_DIRECTORY NAME COMMIT_OR_TAG [PREFIX]
set -euo pipefail
[ $# -ge 3 ] || { echo "usage: tools/github_sha256.sh GIT_DIRECTORY NAME COMMIT_OR_TAG [PREFIX]" >&2 && exit 2; }
git --git-dir="$1" archive --format=tar --prefix="${4:-$2-$3}/" "$3" | gzip -n | sha256sum | cut -d' ' -f1
