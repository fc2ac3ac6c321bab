#!/bin/bash
# Bazel 7 for Debian 12: unpacks the packages of Debian's development release into a folder (no
# maintainer script runs, the system's packages stay as they are) and writes a launcher for it.
#   usage: install_bazel7.sh FOLDER     then: FOLDER/bazel7 test //...
# Needs bubblewrap and patchelf. Brings a JDK along where there is none of 21 or later.
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
# shellcheck source=tools/bazel/packages.sh
source "$MUSTER_ROOT/tools/bazel/packages.sh"
folder=${1:?usage: install_bazel7.sh FOLDER}
arch=$(multiarch)

# The version that was tried; a later 7 where the mirror has it no more.
WANTED='7.7.1+ds-8+b1'

# Packages of the closure that the host has anyway or that Bazel never runs.
UNNEEDED='^(gcc|g\+\+|cpp|openjdk|default-jre|default-jdk|binutils|perl|python3|libpython3'
UNNEEDED+='|libgcc-[0-9]|libstdc\+\+-[0-9]|linux-libc|dpkg-dev|make|patch|libclang|libllvm|libc6-dev'
UNNEEDED+='|libc-dev|coreutils|systemd|util-linux|fonts|ca-certificates|openssl-provider|libasan'
UNNEEDED+='|libtsan|libhwasan|libitm|liblsan|libubsan|liblzma-dev|mawk|tar_|tzdata|media-types|bash'
UNNEEDED+='|dash|debianutils|sed_|grep_|gzip_|debconf|junit|libproguard|velocity)'

# Prints the package file names (as the archive has them) that make up Bazel 7.
closure() {
  local wanted=bazel-bootstrap=$WANTED
  "${apt[@]}" --print-uris --no-install-recommends install "$wanted" > /dev/null 2>&1 ||
    wanted=bazel-bootstrap
  "${apt[@]}" --print-uris --no-install-recommends install "$wanted" bazel-rules-shell \
    libstdc++6 libgcc-s1 libc6 | awk '/^\x27/ {print $2}'
}

download_and_unpack() {
  local tmp=$1 jdk=$2
  closure > "$tmp/all"
  grep -vE "$UNNEEDED" "$tmp/all" | sed 's/_.*//' > "$tmp/wanted"
  grep -q '^bazel-bootstrap_7\.' "$tmp/all" || fail "the mirror in use has no Bazel 7" "MUSTER_BAZEL=4"
  [ -n "$jdk" ] || jdk_package >> "$tmp/wanted"
  local -a wanted
  mapfile -t wanted < "$tmp/wanted"
  (cd "$tmp/cache/archives" && quietly "${apt[@]}" download "${wanted[@]}") ||
    fail "could not download Bazel 7's packages" "run it again, or MUSTER_BAZEL=4"
  local deb
  for deb in "$tmp"/cache/archives/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
}

# The JDK that the closure names, without the desktop.
jdk_package() {
  sed -n 's/^\(openjdk-[0-9]*-jdk-headless\)_.*/\1/p; s/^\(openjdk-[0-9]*-jre-headless\)_.*/\1/p' \
    "$tmp/all" | sort -u
}

# An unpacked JDK has links into /etc, where nothing of it was unpacked.
relink_jdk() {
  local link target
  [ -d "$1/usr/lib/jvm" ] || return 0
  find "$1/usr/lib/jvm" -type l -lname '/etc/*' | while IFS= read -r link; do
    target=$(readlink "$link")
    [ ! -e "$1$target" ] || ln -sfn "$2$target" "$link"
  done
}

# Bazel and its helpers (process-wrapper, linux-sandbox) need libraries that the host may not have.
use_own_libraries() {
  local binary
  for binary in "$@"; do
    patchelf --force-rpath --set-rpath "$folder/root/usr/lib/$arch" "$binary"
  done
}

make_mount_points() {
  local sudo points
  mapfile -t points < <(missing_mount_points)
  [ ${#points[@]} != 0 ] || return 0
  sudo=$(as_root) || sudo=
  # shellcheck disable=SC2086  # $sudo is one word or none
  $sudo mkdir -p "${points[@]}" 2> /dev/null ||
    fail "Bazel 7 needs the (empty) folders ${points[*]}" "sudo mkdir -p ${points[*]}, or MUSTER_BAZEL=4"
}

make_mount_points
[ ! -x "$folder/bazel7" ] || exit 0
say "unpacking Bazel 7 (half a minute)"
mkdir -p "${folder%/*}"
tmp=$(mktemp -d "${folder%/*}/bazel7.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
private_apt "$tmp" deb sid
jdk=$(find_jdk) || jdk=
download_and_unpack "$tmp" "$jdk"
mkdir "$tmp/done"
mv "$tmp/root" "$tmp/done/root"
relink_jdk "$tmp/done/root" "$folder/root"
[ -n "$jdk" ] || jdk=$folder/root$(cd "$tmp/done/root" && printf '/%s\n' usr/lib/jvm/java-*-openjdk-* | head -n 1)
cp "$tmp/done/root/usr/bin/bazel" "$tmp/done/bazel.bin"
use_own_libraries "$tmp/done/bazel.bin" "$tmp/done/root/usr/libexec/$arch/bazel"/*
write_launcher "$tmp/done" "$jdk"
rm -rf "$folder"
mv "$tmp/done" "$folder"
quietly "$folder/bazel7" --output_user_root="$tmp/try" --batch help || {
  rm -rf "$folder"
  fail "the unpacked Bazel 7 does not start" "see above; MUSTER_BAZEL=4 does without it"
}
