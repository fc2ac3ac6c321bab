"""@system_libcrypto//:crypto: the system's libcrypto (OpenSSL), which the distribution keeps safe.

Where its headers are not installed the repository is still there, and only what needs it fails to
build, with a message that says what to install.
"""

_PRESENT = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "crypto",
    hdrs = glob(["include/openssl/*.h"]),
    includes = ["include"],
    linkopts = ["-lcrypto"],
    visibility = ["//visibility:public"],
)
"""

# A header that cannot be made stops its users before the compiler says "no such file".
_ABSENT = """
load("@rules_cc//cc:defs.bzl", "cc_library")

genrule(
    name = "missing",
    outs = ["include/openssl/evp.h"],
    cmd = "echo 'libcrypto: no openssl/evp.h in /usr/include: apt-get install libssl-dev, then bazel shutdown' >&2; exit 1",
)

cc_library(
    name = "crypto",
    hdrs = ["include/openssl/evp.h"],
    includes = ["include"],
    visibility = ["//visibility:public"],
)
"""

def _header_folders(ctx):
    """/usr/include/openssl, and the multiarch folder where Debian keeps the configuration."""
    parents = [ctx.path("/usr/include")]
    parents += [p for p in ctx.path("/usr/include").readdir() if p.basename.endswith("-linux-gnu")]
    return [p.get_child("openssl") for p in parents if p.get_child("openssl").exists]

def _impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"system_libcrypto\")\n", executable = False)
    headers = {}
    if ctx.path("/usr/include").exists:
        for folder in _header_folders(ctx):
            for header in folder.readdir():
                headers[header.basename] = header
    if "evp.h" not in headers:
        ctx.file("BUILD.bazel", _ABSENT, executable = False)
        return
    for name, header in headers.items():
        ctx.symlink(header, "include/openssl/" + name)
    ctx.file("BUILD.bazel", _PRESENT, executable = False)

system_libcrypto = repository_rule(
    implementation = _impl,
    configure = True,
    local = True,  # looks again with each new server: the package may have been installed since
    doc = "Finds the system's libcrypto.",
)
