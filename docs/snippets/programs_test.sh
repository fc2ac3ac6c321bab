#!/bin/bash
# The programs of docs/start.md do on one rank and on two what it says.
set -euo pipefail
muster=$1 first_group=$2 first_trainer=$3

# expect COUNT LINE OUTPUT
expect() {
  [ "$(grep -cF -- "$2" <<< "$3")" = "$1" ] || {
    printf 'expected %s times "%s" in:\n%s\n' "$1" "$2" "$3"
    exit 1
  }
}

expect 1 'average: 1, 2' "$("$first_group")"
expect 2 'average: 1, 2' "$("$muster" run -n 2 -- "$first_group")"
line='y = 3.00 x + 1.00, 1 group'
expect 1 "$line" "$("$first_trainer")"
said=$("$muster" run -n 2 -- "$first_trainer")
expect 2 "$line" "$said"
expect 3 '[0] fit ' "$said"
expect 1 '[0] validate: loss 0.0000, 100 samples' "$said"
echo "as docs/start.md says"
