#!/bin/bash
# For a machine that reaches its distribution's packages and not the archives of
# third_party/deps.bzl: lays the same sources out in the cache and writes user.bazelrc, which
# overrides the repositories. deps.bzl, WORKSPACE and MODULE.bazel know nothing of it.
#   usage: lay_out_sources.sh            (run by bazelw, under its lock)
#          lay_out_sources.sh --remove   take the overrides out of user.bazelrc
#          lay_out_sources.sh --print    only print what would stand there
#
# A laid-out tree is named after everything that it is made of, so that checkouts that want
# different ones live side by side, and a change of a BUILD file or of a patch makes a new tree.
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
third_party=$MUSTER_ROOT/third_party
sources=$(muster_cache)/sources
user_rc=$MUSTER_ROOT/user.bazelrc
bazel7_root=$(bazel7_folder)/root
readonly BEGIN='# >>> written by bazelw: sources laid out on this machine'
readonly END='# <<< written by bazelw'

# --- The recipes. Each fills $tree (and may use $tmp). Pristine upstream sources, with none of
# Debian's patches; header-only libraries from the binary packages, which are the same headers.

recipe_com_google_absl() {
  from_source abseil 20240722.0-4
  # Debian's platforms 0.0.2 (with Bazel 4.2.3) lacks these values; one that no platform has does.
  find "$tree/absl" -name BUILD.bazel -exec sed -i -E \
    's#"@platforms//(cpu:wasm32|cpu:wasm64|os:fuchsia|os:emscripten|os:wasi)"#"//absl:never"#' {} +
  printf '%s\n' 'constraint_setting(name = "never_setting")' \
    'constraint_value(' '    name = "never",' '    constraint_setting = ":never_setting",' \
    '    visibility = ["//visibility:public"],' ')' >> "$tree/absl/BUILD.bazel"
  write_module abseil-cpp platforms bazel_skylib googletest=com_google_googletest
}

recipe_com_google_googletest() {
  from_source googletest 1.16.0-1
  use_build_file googletest
  write_module googletest rules_cc
}

recipe_gloo() {
  from_source gloo '0.0~git20250912.d97133a-2'
  apply_patches gloo
  use_build_file gloo
  rm -f "$tree/MODULE.bazel"  # an overriding repository of an extension is no module
}

recipe_asio() {
  from_binary libasio-dev '1:1.30.2-1'
  mv "$tmp/root"/usr/include/* "$tree/"
  use_build_file asio
  write_module asio rules_cc
}

recipe_eigen() {
  from_binary libeigen3-dev 3.4.0-4
  mv "$tmp/root"/usr/include/eigen3/* "$tree/"
  use_build_file eigen
  write_module eigen rules_cc
}

recipe_nlohmann_json() {
  from_binary nlohmann-json3-dev 3.11.3-2.1
  mv "$tmp/root/usr/include" "$tree/"
  use_build_file nlohmann_json
  write_module nlohmann_json rules_cc
}

recipe_zlib() {
  from_source zlib '1:1.3.dfsg+really1.3.1-1'
  use_build_file zlib
  write_module zlib rules_cc
}

recipe_fashion_mnist() {
  # The same images and labels as upstream's; the gzip headers differ.
  from_binary dataset-fashion-mnist '0.0~git20200523.55506a9-1'
  mv "$tmp/root"/usr/share/datasets/fashion-mnist/* "$tree/"
  use_build_file fashion_mnist
}

# Debian's rules_cc 0.0.4 loads a symbol that the bazel_tools of its own Bazel 4.2.3 lacks.
recipe_rules_cc() {
  cp -RL --no-preserve=all /usr/share/bazel/rules/cc/. "$tree/"
  sed -i -e 's/"find_cpp_toolchain", "use_cpp_toolchain")/"find_cpp_toolchain")/' \
    -e 's#use_cpp_toolchain()#["@bazel_tools//tools/cpp:toolchain_type"]#' \
    "$tree"/cc/private/rules_impl/{cc_flags_supplier,compiler_flag}.bzl
}

# What 4.2.3 fetches for every test, and nothing but `bazel coverage` runs (tools/coverage.sh
# brings the real one).
recipe_remote_coverage_tools() {
  printf '#!/bin/sh\nexit 0\n' > "$tree/main.sh"
  chmod +x "$tree/main.sh"
  {
    echo 'package(default_visibility = ["//visibility:public"])'
    for name in Main coverage_report_generator lcov_merger; do
      printf 'sh_binary(name = "%s", srcs = ["main.sh"])\n' "$name"
    done
  } > "$tree/BUILD.bazel"
}

# Modules that Bazel 7's own bazel_tools names and that no build here uses: empty.
recipe_stub_modules() {
  local module
  for module in apple_support buildozer protobuf; do
    mkdir "$tree/$module"
    echo "module(name = \"$module\")" > "$tree/$module/MODULE.bazel"
    : > "$tree/$module/BUILD.bazel"
  done
  cat > "$tree/buildozer/buildozer_binary.bzl" << 'B'
def _repo_impl(ctx):
    ctx.file("BUILD.bazel", "")

_repo = repository_rule(_repo_impl)

def _impl(_ctx):
    _repo(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _impl, tag_classes = {"buildozer": tag_class(attrs = {
    "sha256": attr.string_dict(),
    "version": attr.string(),
})})
B
}

# --- What the recipes are made of

# from_source PACKAGE VERSION: the pristine upstream tree of a Debian source package.
from_source() {
  say "laying out $1 $2"
  (cd "$tmp" && quietly "${apt[@]}" source --download-only "$1=$2") || no_package "$1" "$2"
  tar -xf "$tmp/$1"_*.orig.tar.* -C "$tree" --strip-components=1
}

# from_binary PACKAGE VERSION: unpacked in $tmp/root.
from_binary() {
  say "laying out $1 $2"
  (cd "$tmp" && quietly "${apt[@]}" download "$1=$2" && dpkg-deb -x "$1"_*.deb root) ||
    no_package "$1" "$2"
}

no_package() {
  fail "the mirror in use does not have $1 $2" \
    "use a machine that reaches the archives of third_party/deps.bzl, or another mirror (MUSTER_DEBIAN_MIRROR)"
}

# Copied, not linked: another checkout may have another one.
use_build_file() {
  rm -f "$tree/BUILD" "$tree/BUILD.bazel"
  cp "$third_party/$1/$1.BUILD" "$tree/BUILD.bazel"
}

patches_of() { sed -n 's/^ *"\(.*\.patch\)",.*/\1/p' "$third_party/$1/patches.bzl"; }

apply_patches() {
  local patch
  for patch in $(patches_of "$1"); do
    quietly patch -d "$tree" -p1 --no-backup-if-mismatch -i "$third_party/$1/patches/$patch" ||
      fail "third_party/$1/patches/$patch does not apply" "make it anew against the sources laid out"
  done
}

# write_module NAME [DEPENDENCY[=REPO_NAME]]...
write_module() {
  local dependency
  {
    echo "module(name = \"$1\")"
    shift
    for dependency in "$@"; do
      case $dependency in
        *=*) echo "bazel_dep(name = \"${dependency%=*}\", repo_name = \"${dependency#*=}\")" ;;
        *) echo "bazel_dep(name = \"$dependency\")" ;;
      esac
    done
  } > "$tree/MODULE.bazel"
}

# --- The machinery

# Everything that the tree of a repository is made of.
ingredients() {
  declare -f "recipe_$1" from_source from_binary use_build_file apply_patches write_module lay_out
  cat "$third_party/${1#com_google_}/${1#com_google_}.BUILD" "$third_party/$1"/patches{.bzl,/*} \
    2> /dev/null || true
}

tree_of() { echo "$sources/$1-$(ingredients "$1" | sha256sum | cut -c1-12)"; }

# lay_out REPOSITORY: into its tree, all or nothing.
lay_out() {
  local final
  final=$(tree_of "$1")
  [ ! -d "$final" ] || return 0
  view
  rm -rf "$work/one"
  mkdir -p "$work/one/tree"
  tmp=$work/one tree=$work/one/tree
  "recipe_$1"
  [ -e "$tree/WORKSPACE" ] || echo "workspace(name = \"$1\")" > "$tree/WORKSPACE"
  mv -T "$tree" "$final"
}

# The private view of apt, once it is needed.
view() {
  [ ${#apt[@]} = 0 ] || return 0
  private_apt "$work/apt" "deb deb-src" bookworm trixie sid
}

LIBRARIES=(com_google_absl com_google_googletest asio eigen nlohmann_json zlib)
EXTENSION=(gloo fashion_mnist)

# override COMMAND KIND NAME FOLDER: a line of user.bazelrc. The folder may have any name.
override() {
  local folder
  folder=$(printf '%s' "$4" | sed 's/[\\"]/\\&/g')
  printf '%s "--override_%s=%s=%s"\n' "$1" "$2" "$3" "$folder"
}

overrides_4() {
  [ -d /usr/share/bazel/rules/cc ] || return 0
  local repository pair
  for repository in "${LIBRARIES[@]}" "${EXTENSION[@]}" rules_cc; do
    override common repository "$repository" "$(tree_of "$repository")"
  done
  for pair in rules_java=rules/java rules_proto=rules/proto bazel_skylib=tools/skylib \
    platforms=tools/platforms; do
    override common repository "${pair%=*}" "/usr/share/bazel/${pair#*=}"
  done
  override common repository remote_coverage_tools "$(coverage_tools)"
}

# Debian's rule sets for Bazel 7 come with it.
overrides_7() {
  [ -d "$bazel7_root" ] || return 0
  local repository pair module name
  for pair in rules_cc=rules/cc rules_java=rules/java rules_proto=rules/proto \
    rules_python=rules/python rules_license=rules/license bazel_skylib=tools/skylib \
    platforms=tools/platforms bazel_features=tools/features; do
    override common:bazel7 module "${pair%=*}" "$bazel7_root/usr/share/bazel/${pair#*=}"
  done
  for module in apple_support buildozer protobuf; do
    override common:bazel7 module "$module" "$(tree_of stub_modules)/$module"
  done
  for repository in "${LIBRARIES[@]}"; do
    module=${repository#com_google_}
    override common:bazel7 module "${module/#absl/abseil-cpp}" "$(tree_of "$repository")"
  done
  # This repository as the root module, and as a dependency.
  for name in _main muster~; do
    for repository in "${EXTENSION[@]}"; do
      override common:bazel7 repository "$name~muster_deps~$repository" "$(tree_of "$repository")"
    done
  done
  name=bazel_tools~remote_coverage_tools_extension~remote_coverage_tools
  override common:bazel7 repository "$name" "$(coverage_tools)"
}

# The real ones where tools/coverage.sh made them.
coverage_tools() {
  local real
  real=$(muster_cache)/coverage_tools
  if [ -f "$real/BUILD.bazel" ]; then echo "$real"; else tree_of remote_coverage_tools; fi
}

# write_user_rc [LINES]: our part of user.bazelrc; what else stands there is the user's.
write_user_rc() {
  local theirs=
  [ ! -f "$user_rc" ] || theirs=$(sed "/^$BEGIN/,/^$END/d" "$user_rc")
  [ -n "$theirs$*" ] || { rm -f "$user_rc" && return; }
  {
    [ $# = 0 ] || printf '%s\n' "$BEGIN" "$@" "$END"
    [ -z "$theirs" ] || printf '%s\n' "$theirs"
  } > "$user_rc.new"
  mv "$user_rc.new" "$user_rc"
}

case ${1:-} in
  --remove)
    write_user_rc
    exit
    ;;
  --print)
    overrides_4
    overrides_7
    exit
    ;;
esac
mkdir -p "$sources"
work=$(mktemp -d "$sources/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT
apt=()
for repository in "${LIBRARIES[@]}" "${EXTENSION[@]}" remote_coverage_tools stub_modules; do
  lay_out "$repository"
done
[ ! -d /usr/share/bazel/rules/cc ] || lay_out rules_cc
lines=$(overrides_4 && overrides_7)
write_user_rc "$lines"
