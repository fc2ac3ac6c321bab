"""backend_conformance_test: does a backend keep the contract of core/collective/communicator.h?

    load("@muster//testing:backend_conformance_test.bzl", "backend_conformance_test")

    backend_conformance_test(
        name = "mine_conformance",   # :mine_conformance_1ranks, ..._4ranks, and a test_suite of that name
        backend = ":mine",           # the cc_library with MUSTER_REGISTER_BACKEND and alwayslink
        ranks = [1, 2, 4],
    )
"""

load("//tools/bazel:cc.bzl", "muster_cc_test")

_MAIN = Label("//testing:backend_conformance_main")

def backend_conformance_test(
        name,
        backend,
        ranks = [1, 2, 4],
        backend_name = "",
        options = {},
        size = "medium",
        tags = [],
        **kwargs):
    """One test for each number of ranks, which are threads of one process, and a test_suite.

    Args:
      name: of the suite.
      backend: label of the library that registers the backend.
      ranks: numbers of ranks to test with.
      backend_name: the registered name; needed only when the library brings several backends.
      options: GroupSpec::backend_options to connect with.
      size: of each test.
      tags: of each test.
      **kwargs: of each test.
    """
    tests = []
    for n in ranks:
        test = "%s_%dranks" % (name, n)
        muster_cc_test(
            name = test,
            args = ["--ranks=%d" % n] +
                   (["--backend=" + backend_name] if backend_name else []) +
                   ["--option=%s=%s" % (k, options[k]) for k in sorted(options)],
            deps = [
                backend,
                _MAIN,
            ],
            main = False,
            size = size,
            tags = tags,
            **kwargs
        )
        tests.append(test)
    native.test_suite(
        name = name,
        tests = tests,
    )
