"""backend_conformance_test: does a backend keep the contract of core/collective/communicator.h?

    load("@muster//testing:backend_conformance_test.bzl", "backend_conformance_test")

    backend_conformance_test(
        name = "mine_conformance",   # :mine_conformance_1ranks, ..._4ranks, and a test_suite of that name
        backend = ":mine",           # the cc_library with MUSTER_REGISTER_BACKEND and alwayslink
        ranks = [1, 2, 4],
        capabilities = ["all_reduce", "barrier"],
    )

A check of what the backend does not offer is skipped, with the reason: `capabilities` says what it is
meant to offer, so that one that is lost by mistake fails.
"""

load("//tools/bazel:cc.bzl", "muster_cc_test")

_MAIN = Label("//testing:backend_conformance_main")

def _word(argument):
    """One word of the shell that Bazel reads `args` as."""
    return "'" + argument.replace("'", "'\\''") + "'"

def backend_conformance_test(
        name,
        backend,
        ranks = [1, 2, 4],
        backend_name = "",
        options = {},
        capabilities = None,
        size = "medium",
        tags = [],
        visibility = None,
        **kwargs):
    """One test for each number of ranks, which are threads of one process, and a test_suite.

    Args:
      name: of the suite.
      backend: label of the library that registers the backend.
      ranks: numbers of ranks to test with.
      backend_name: the registered name; needed only when the library brings several backends.
      options: GroupSpec::backend_options to connect with; any text, in which $ is written as $$.
      capabilities: what the backend is expected to offer, no less and no more, in the words of
        core/collective/communicator.h ("all_reduce"); None: not checked.
      size: of each test.
      tags: of each test and of the suite.
      visibility: of each test and of the suite.
      **kwargs: of each test.
    """
    tests = []
    for n in ranks:
        arguments = ["--ranks=%d" % n]
        if backend_name:
            arguments.append("--backend=" + backend_name)
        if capabilities != None:
            arguments.append("--capabilities=" + ",".join(capabilities))
        arguments += ["--option=%s=%s" % (k, options[k]) for k in sorted(options)]
        test = "%s_%dranks" % (name, n)
        muster_cc_test(
            name = test,
            args = [_word(argument) for argument in arguments],
            deps = [
                backend,
                _MAIN,
            ],
            main = False,
            size = size,
            tags = tags,
            visibility = visibility,
            **kwargs
        )
        tests.append(test)
    native.test_suite(
        name = name,
        tags = tags,
        tests = tests,
        visibility = visibility,
    )
