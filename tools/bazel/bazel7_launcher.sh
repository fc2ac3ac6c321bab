#!/bin/bash
# Runs the unpacked Bazel 7 in a mount namespace of its own: the host's root, with the development
# release's C library, C++ runtime (both backward compatible) and Bazel files over the host's.
# Compilers, headers and CUDA are the host's. Tests run inside this namespace too.
#   bazel7 ARGUMENTS...       bazel7 --shell COMMAND...: that command inside
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
arch=@ARCH@
jdk=@JDK@
libraries=/usr/lib/$arch
binds=()
for file in ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libpthread.so.0 \
  libdl.so.2 librt.so.1 libresolv.so.2 libmvec.so.1 libutil.so.1 libnss_files.so.2 \
  libnss_dns.so.2 libanl.so.1 libthread_db.so.1 libstdc++.so.6 libgcc_s.so.1; do
  if [ -e "$here/root$libraries/$file" ] && [ -e "$libraries/$file" ]; then
    binds+=(--ro-bind "$(readlink -f "$here/root$libraries/$file")" "$(readlink -f "$libraries/$file")")
  fi
done
for folder in /usr/share/bazel /usr/share/java "/usr/libexec/$arch/bazel" "$libraries/bazel"; do
  if [ -d "$here/root$folder" ] && [ -d "$folder" ]; then
    binds+=(--ro-bind "$here/root$folder" "$folder")
  fi
done
# The sandbox that Bazel makes inside needs the rights to; a user namespace gives them otherwise.
[ "$(id -u)" != 0 ] || binds+=(--cap-add ALL)
if [ "${1:-}" = --shell ]; then
  shift
  command=("$@")
else
  # A server lives on in the namespace that it was started in. Another launcher has another property
  # here, so its client starts another server.
  command=("$here/bazel.bin" --install_base=/usr/share/bazel --trust_install_base
    "--host_jvm_args=-Dmuster.bazel7=$here" "$@")
  # Bazel would look for it inside itself, where Debian's has nothing.
  if [ "${1:-}" = --version ]; then echo "bazel $(cat "$here/root/usr/share/bazel/build-label.txt")" && exit; fi
fi
# On a machine that has Bazel 4 too, these are 4's flags.
[ ! -e /etc/bazel/bazelrc ] || binds+=(--ro-bind "$here/no.bazelrc" /etc/bazel/bazelrc)
exec bwrap --dev-bind / / "${binds[@]}" --setenv JAVA_HOME "${BAZEL7_JAVA_HOME:-$jdk}" "${command[@]}"
