"""muster_cc_library, muster_cc_binary, muster_cc_test: the C++ rules of this repository.

    load("//tools/bazel:cc.bzl", "muster_cc_library", "muster_cc_test")

    muster_cc_library(
        name = "status",
        srcs = ["status.cc"],
        hdrs = ["status.h"],   # #include "muster/core/group/status.h" from package core/group
        deps = [...],
    )

    muster_cc_test(
        name = "status_test",  # size small, main() from GoogleTest
        srcs = ["status_test.cc"],
        deps = [":status"],
    )

Strings passed in are labels of the calling package; the labels of this file are Label()s, so that
the macros mean the same when another repository loads them.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

_GTEST = Label("@com_google_googletest//:gtest")
_GTEST_MAIN = Label("@com_google_googletest//:gtest_main")

def muster_cc_library(name, **kwargs):
    """A cc_library whose headers are included as "muster/<path from the root>".

    Args:
      name: of the library.
      **kwargs: of cc_library.
    """
    cc_library(
        name = name,
        include_prefix = "muster/" + native.package_name(),
        **kwargs
    )

def muster_cc_binary(name, **kwargs):
    """A cc_binary. It exists so that one place can change them all.

    Args:
      name: of the binary.
      **kwargs: of cc_binary.
    """
    cc_binary(name = name, **kwargs)

def muster_cc_test(name, deps = [], size = "small", main = True, **kwargs):
    """A cc_test with GoogleTest.

    Args:
      name: of the test.
      deps: of the test, without GoogleTest.
      size: small (60 s) unless said otherwise.
      main: False where the sources bring their own main(): then only :gtest is linked.
      **kwargs: of cc_test.
    """
    cc_test(
        name = name,
        size = size,
        deps = deps + [_GTEST_MAIN if main else _GTEST],
        **kwargs
    )
