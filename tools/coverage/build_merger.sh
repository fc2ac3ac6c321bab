#!/bin/bash
# Bazel's own lcov merger, which `bazel coverage` downloads as @remote_coverage_tools: compiled from
# Debian's package of Bazel's sources into a folder that lay_out_sources.sh lets override it.
#   usage: build_merger.sh FOLDER
set -euo pipefail
MUSTER_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
# shellcheck source=tools/bazel/lib.sh
source "$MUSTER_ROOT/tools/bazel/lib.sh"
folder=${1:?usage: build_merger.sh FOLDER}
jars=/usr/share/java

# Compile and run time; the annotation processor is needed for the first only.
RUN_TIME=(guava gson jcommander)
COMPILE_TIME=(auto-value-annotations jsr305)
PROCESSOR=(auto-value auto-common guava auto-value-annotations escapevelocity javapoet auto-service)

class_path() { printf ":$jars/%s.jar" "$@" | cut -c2-; }

compile() {
  local package=com/google/devtools/coverageoutputgenerator
  local source=$work/x/usr/src/bazel-bootstrap/tools/test/CoverageOutputGenerator/java/$package
  (cd "$work" && quietly apt-get -q -o APT::Sandbox::User=root download bazel-bootstrap-source) ||
    fail "could not download bazel-bootstrap-source" "check apt's configuration"
  (cd "$work" && dpkg-deb -x bazel-bootstrap-source_*.deb x)
  # Debian's jcommander 1.71 has no such attribute, and needs none.
  sed -i 's/, optionPrefixes = "--"//' "$source/LcovMergerFlags.java"
  quietly javac -nowarn -Xlint:none -d "$work/done/classes" \
    -cp "$(class_path "${RUN_TIME[@]}" "${COMPILE_TIME[@]}")" \
    -processorpath "$(class_path "${PROCESSOR[@]}")" \
    -processor com.google.auto.value.processor.AutoValueProcessor "$source"/*.java ||
    fail "Bazel's coverage merger does not compile" "see above"
}

# With its jars, as the unpacked Bazel 7 shows others under /usr/share/java.
write_repository() {
  local jar name
  for jar in "${RUN_TIME[@]}"; do cp "$jars/$jar.jar" "$work/done/"; done
  printf '#!/bin/sh\nexec java -cp "%s/classes:%s/*" %s "$@"\n' "$folder" "$folder" \
    com.google.devtools.coverageoutputgenerator.Main > "$work/done/main.sh"
  chmod +x "$work/done/main.sh"
  echo 'workspace(name = "remote_coverage_tools")' > "$work/done/WORKSPACE"
  {
    echo 'package(default_visibility = ["//visibility:public"])'
    for name in Main coverage_report_generator lcov_merger; do
      printf 'sh_binary(name = "%s", srcs = ["main.sh"])\n' "$name"
    done
  } > "$work/done/BUILD.bazel"
}

[ ! -f "$folder/BUILD.bazel" ] || exit 0
apt_install "bazel coverage" bazel-bootstrap default-jdk-headless libjcommander-java
say "compiling Bazel's coverage merger"
mkdir -p "${folder%/*}"
work=$(mktemp -d "${folder%/*}/coverage.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/done/classes"
compile
write_repository
rm -rf "$folder"
mv "$work/done" "$folder"
