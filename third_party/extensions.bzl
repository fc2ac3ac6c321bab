"""bzlmod: the dependencies that the Bazel Central Registry does not have, as a module extension."""

load("//third_party:deps.bzl", "muster_extension_dependencies")

def _impl(_ctx):
    muster_extension_dependencies()

muster_deps = module_extension(implementation = _impl)
