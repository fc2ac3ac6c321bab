"""What Muster needs from elsewhere. A WORKSPACE file that imports Muster says

    load("@muster//third_party:deps.bzl", "muster_dependencies")
    muster_dependencies()

A repository that the importer defined before wins. MODULE.bazel is the same list for bzlmod
(//third_party:dependency_lists_test compares them). The sums are those of the Bazel Central
Registry's source.json files where the registry has the archive.
"""

load("@bazel_tools//tools/build_defs/repo:http.bzl", "http_archive")
load("//third_party/cuda:cuda_configure.bzl", "cuda_configure")
load("//third_party/fashion_mnist:fashion_mnist.bzl", "fashion_mnist_repository")
load("//third_party/gloo:patches.bzl", "GLOO_PATCHES")
load("//third_party/libcrypto:system_libcrypto.bzl", "system_libcrypto")

def _maybe(rule, name, **kwargs):
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

def _always(rule, name, **kwargs):
    rule(name = name, **kwargs)

def muster_dependencies():
    """Declares every repository that Muster uses (for WORKSPACE files)."""
    _registry_dependencies()
    _other_dependencies(_maybe)

def muster_extension_dependencies():
    """Declares what MODULE.bazel cannot have from the registry (for the module extension)."""

    # A module extension has no native.existing_rule(), and needs none: its names are its own.
    _other_dependencies(_always)

def _registry_dependencies():
    """What MODULE.bazel declares with bazel_dep."""
    _maybe(
        http_archive,
        name = "platforms",
        sha256 = "218efe8ee736d26a3572663b374a253c012b716d8af0c07e842e82f238a0a7ee",
        urls = ["https://github.com/bazelbuild/platforms/releases/download/0.0.10/platforms-0.0.10.tar.gz"],
    )
    _maybe(
        http_archive,
        name = "bazel_skylib",
        sha256 = "66ffd9315665bfaafc96b52278f57c7e2dd09f5ede279ea6d39b2be471e7e3aa",
        urls = ["https://github.com/bazelbuild/bazel-skylib/releases/download/1.4.2/bazel-skylib-1.4.2.tar.gz"],
    )
    _maybe(
        http_archive,
        name = "rules_cc",
        sha256 = "2037875b9a4456dce4a79d112a8ae885bbc4aad968e6587dca6e64f3a0900cdf",
        strip_prefix = "rules_cc-0.0.9",
        urls = ["https://github.com/bazelbuild/rules_cc/releases/download/0.0.9/rules_cc-0.0.9.tar.gz"],
    )
    _maybe(
        http_archive,
        name = "com_google_absl",
        sha256 = "f50e5ac311a81382da7fa75b97310e4b9006474f9560ac46f54a9967f07d4ae3",
        strip_prefix = "abseil-cpp-20240722.0",
        urls = ["https://github.com/abseil/abseil-cpp/releases/download/20240722.0/abseil-cpp-20240722.0.tar.gz"],
    )
    _maybe(
        http_archive,
        name = "com_google_googletest",
        # Ours: upstream's BUILD file needs more repositories than gtest itself.
        build_file = Label("//third_party/googletest:googletest.BUILD"),
        sha256 = "78c676fc63881529bf97bf9d45948d905a66833fbfa5318ea2cd7478cb98f399",
        strip_prefix = "googletest-1.16.0",
        urls = ["https://github.com/google/googletest/releases/download/v1.16.0/googletest-1.16.0.tar.gz"],
    )
    _maybe(
        http_archive,
        name = "asio",
        build_file = Label("//third_party/asio:asio.BUILD"),
        sha256 = "417536ed4d31645b550d6c475a952544d1aab30a04d7228e6ce6ca935bf2dc1b",
        strip_prefix = "asio-asio-1-28-2/asio/include",
        urls = ["https://github.com/chriskohlhoff/asio/archive/refs/tags/asio-1-28-2.zip"],
    )
    _maybe(
        http_archive,
        name = "eigen",
        build_file = Label("//third_party/eigen:eigen.BUILD"),
        sha256 = "6ea6a434ba063a0275dbe1a1dcef5c26fe2626d7cf8e9de7a948b5cf81382684",
        strip_prefix = "eigen-3.4.0",
        urls = ["https://github.com/eigen-mirror/eigen/archive/refs/tags/3.4.0.zip"],
    )
    _maybe(
        http_archive,
        name = "nlohmann_json",
        build_file = Label("//third_party/nlohmann_json:nlohmann_json.BUILD"),
        sha256 = "a22461d13119ac5c78f205d3df1db13403e58ce1bb1794edc9313677313f4a9d",
        urls = ["https://github.com/nlohmann/json/releases/download/v3.11.3/include.zip"],
    )
    _maybe(
        http_archive,
        name = "zlib",
        build_file = Label("//third_party/zlib:zlib.BUILD"),
        sha256 = "9a93b2b7dfdac77ceba5a558a580e74667dd6fede4585b91eefb60f03b72df23",
        strip_prefix = "zlib-1.3.1",
        urls = ["https://github.com/madler/zlib/releases/download/v1.3.1/zlib-1.3.1.tar.gz"],
    )

def _other_dependencies(maybe):
    """What the registry does not have, or not at a commit that serves."""
    maybe(
        http_archive,
        name = "gloo",
        build_file = Label("//third_party/gloo:gloo.BUILD"),
        patch_args = ["-p1"],
        patches = [Label("//third_party/gloo:patches/" + p) for p in GLOO_PATCHES],
        # Computed from a git directory (git archive | gzip -n), not published by upstream.
        sha256 = "3ebb0ca27223e6a4cd58976a22462558e25a5d1fd5a92744f8e18dc2cf36f542",
        strip_prefix = "gloo-d97133adbf6f9987b03c051c8f97e8df6e8adb6b",
        urls = ["https://github.com/pytorch/gloo/archive/d97133adbf6f9987b03c051c8f97e8df6e8adb6b.tar.gz"],
    )

    # Headers only: nccl.h is made from src/nccl.h.in. The library is opened at run time.
    maybe(
        http_archive,
        name = "nccl",
        build_file = Label("//third_party/nccl:nccl.BUILD"),
        # Computed like gloo's.
        sha256 = "f349860336c6b7fb97b22bed9c729142f3531a0e82826c1204d01e44af8b9cb9",
        strip_prefix = "nccl-2.28.9-1",
        urls = ["https://github.com/NVIDIA/nccl/archive/refs/tags/v2.28.9-1.tar.gz"],
    )
    maybe(fashion_mnist_repository, name = "fashion_mnist")
    maybe(cuda_configure, name = "local_cuda")
    maybe(system_libcrypto, name = "system_libcrypto")
