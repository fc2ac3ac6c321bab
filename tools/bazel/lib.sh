#!/bin/bash
# What the set-up scripts share. Sourced, with MUSTER_ROOT set to the checkout.

# Everything that the set-up makes outside the checkout; several checkouts share it.
muster_cache() {
  local base=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
  [[ $base == /* ]] || fail "neither XDG_CACHE_HOME nor HOME is an absolute path" \
    "set HOME to a folder that you may write to"
  echo "$base/muster"
}

say() { echo "bazelw: $*" >&2; }

# fail WHAT WHAT_TO_DO
fail() {
  echo "bazelw: error: $1" >&2
  echo "bazelw: to go on: $2" >&2
  exit 1
}

# Runs a command, quietly; shows what it printed only if it fails.
quietly() {
  local log rc=0
  log=$(mktemp)
  "$@" > "$log" 2>&1 < /dev/null || rc=$?
  [ "$rc" = 0 ] || tail -n 20 "$log" >&2
  rm -f "$log"
  return "$rc"
}

# The words that make a command run as root, or nothing and false where that cannot be.
as_root() {
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo > /dev/null || return 1
  if sudo -n true 2> /dev/null || { [ -t 0 ] && [ -t 2 ]; }; then echo sudo; else return 1; fi
}

package_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]
}

# Prints those of the packages given that are not installed.
missing_packages() {
  local package
  for package in "$@"; do package_installed "$package" || echo "$package"; done
}

# apt_install WHY PACKAGE...: installs what is missing, or says which line to run.
apt_install() {
  local why=$1 sudo
  shift
  local -a missing
  mapfile -t missing < <(missing_packages "$@" | sort -u)
  [ ${#missing[@]} != 0 ] || return 0
  local line="apt-get install -y --no-install-recommends ${missing[*]}"
  command -v apt-get > /dev/null || fail "$why needs ${missing[*]}, and this is no Debian" \
    "install Bazel by hand (bazelisk), or set MUSTER_BAZEL=/path/to/bazel"
  sudo=$(as_root) || fail "$why needs packages, and there is neither root nor sudo" \
    "have somebody run: sudo $line"
  say "installing ${#missing[@]} packages for $why: ${missing[*]}"
  apt_get_as_root "$sudo" || {
    say "refreshing apt's lists"
    # shellcheck disable=SC2086  # $sudo is one word or none
    quietly $sudo apt-get -q -o DPkg::Lock::Timeout=600 update || true
    apt_get_as_root "$sudo"
  } || fail "apt-get could not install ${missing[*]}" "see above; then run: sudo $line"
}

# Uses `missing` of apt_install.
apt_get_as_root() {
  # shellcheck disable=SC2086  # $1 is one word or none
  quietly $1 env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 \
    install --no-install-recommends "${missing[@]}"
}

# A private view of apt: Debian's later releases, without touching the system's lists.
#   private_apt FOLDER LINE_TYPES RELEASE...    LINE_TYPES: "deb", "deb-src" or both
# Leaves the command in the array `apt`.
private_apt() {
  local folder=$1 types=$2 mirror release type
  shift 2
  mirror=$(debian_mirror)
  local key=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -f "$key" ] || fail "no $key" "sudo apt-get install debian-archive-keyring"
  mkdir -p "$folder"/{lists/partial,cache/archives/partial}
  : > "$folder/status"
  for release in "$@"; do
    for type in $types; do echo "$type [signed-by=$key] $mirror $release main"; done
  done > "$folder/sources.list"
  apt=(apt-get -q -y -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$folder/lists" -o "Dir::State::status=$folder/status"
    -o "Dir::Cache=$folder/cache")
  [ "$(id -u)" != 0 ] || apt+=(-o APT::Sandbox::User=root)
  quietly "${apt[@]}" update || fail "apt could not read the releases $* of the mirror in use" \
    "check the network, or set MUSTER_DEBIAN_MIRROR to a Debian mirror"
}

# The mirror that apt is configured with (one with Debian's own releases, not the security one).
debian_mirror() {
  local mirror=${MUSTER_DEBIAN_MIRROR:-}
  # shellcheck disable=SC2016  # apt's variables, not the shell's
  [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(ORIGIN)' \
    'Created-By: Packages' 2> /dev/null | awk '$2 !~ /-/ && $3 == "Debian" {print $1; exit}')
  [ -n "$mirror" ] || fail "no Debian mirror in apt's configuration" \
    "set MUSTER_DEBIAN_MIRROR to one, or install Bazel by hand and set MUSTER_BAZEL to its path"
  echo "$mirror"
}

# write_launcher FOLDER JDK: Bazel 7's, with the place of the JDK (any path) written into it.
write_launcher() {
  sed -e "s|@JDK@|$(word_for_sed "$2")|" -e "s|@ARCH@|$(word_for_sed "$(multiarch)")|" \
    "$MUSTER_ROOT/tools/bazel/bazel7_launcher.sh" > "$1/bazel7"
  chmod +x "$1/bazel7"
  : > "$1/no.bazelrc"
}

# One word of the shell, in the right half of s|||.
word_for_sed() { printf '%q' "$1" | sed 's/[\\&|]/\\&/g'; }

# Named after what makes it: checkouts that want another one do not disturb each other.
bazel7_folder() {
  local made_by
  made_by=$(cat "$MUSTER_ROOT"/tools/bazel/{install_bazel7.sh,bazel7_launcher.sh} | sha256sum)
  echo "$(muster_cache)/bazel7-${made_by:0:12}"
}

# Bazel 7's files are bound over these folders; bwrap needs them to be there.
missing_mount_points() {
  local point
  for point in /usr/share/bazel /usr/share/java "/usr/libexec/$(multiarch)/bazel" \
    "/usr/lib/$(multiarch)/bazel"; do
    [ -d "$point" ] || echo "$point"
  done
}

multiarch() { echo "$(uname -m)-linux-gnu"; }

# with_lock COMMAND...: one at a time in all checkouts of this user; the second one waits.
with_lock() {
  local lock rc=0
  lock=$(muster_cache)/lock
  mkdir -p "${lock%/*}" || fail "cannot write to ${lock%/*}" "set XDG_CACHE_HOME to a folder that you may write to"
  exec 9> "$lock"
  flock -n 9 || { say "waiting for another set-up to end"; flock 9; }
  # Closed for the command: a server that it starts must not keep the lock.
  "$@" 9>&- || rc=$?
  exec 9>&-
  return "$rc"
}
