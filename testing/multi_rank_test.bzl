"""multi_rank_test: one GoogleTest source, one test for each backend and number of ranks.

    load("@muster//testing:multi_rank_test.bzl", "multi_rank_test")

    multi_rank_test(
        name = "all_reduce_test",  # :all_reduce_test_gloo_2ranks, ..._4ranks and a test_suite
        srcs = ["all_reduce_test.cc"],
        backends = ["gloo"],
        ranks = [2, 4],
        deps = ["//app:all_reduce"],
    )

The sources have no main() and include "muster/testing/multi_rank_test.h". The main() that the macro
brings initialises GoogleTest and abseil's log: a call of absl::InitializeLog() in the sources would be
the second one in the process, which abseil ends.
"""

load("//tools/bazel:cc.bzl", "muster_cc_library", "muster_cc_test")

# Label(): of this repository, whoever loads the macro.
_BACKENDS = {
    "gloo": Label("//backends:gloo"),
    "reference": Label("//backends:reference"),
}
_MAIN = Label("//testing:multi_rank_main")
_FIXTURE = Label("//testing:multi_rank_test")

def multi_rank_test(
        name,
        srcs,
        deps = [],
        ranks = [2, 4],
        backends = ["gloo"],
        size = "small",
        tags = [],
        args = [],
        copts = [],
        defines = [],
        local_defines = [],
        includes = [],
        features = [],
        target_compatible_with = [],
        visibility = None,
        **kwargs):
    """Makes tests NAME_<backend>_<n>ranks and a test_suite NAME of them.

    The sources are compiled once, in a library NAME_cases that all the tests link.

    Args:
      name: of the suite.
      srcs: GoogleTest sources without a main().
      deps: of the sources; the fixture is there already, and brings GoogleTest (which may stand here
        too).
      ranks: numbers of processes, a test for each.
      backends: names of Muster's backends, or a dict from a backend's name to the label of its
        library (one of your own: {"mine": "//app:mine_backend"}).
      size: of each test.
      tags: of each test and the suite.
      args: for each rank.
      copts: of the sources.
      defines: of the sources.
      local_defines: of the sources.
      includes: of the sources.
      features: of the sources and each test.
      target_compatible_with: of the sources and each test.
      visibility: of each test and the suite.
      **kwargs: of each test: env, data, shard_count, flaky, timeout, linkopts, ...
    """
    if not ranks or not backends:
        fail("multi_rank_test %s: ranks and backends must not be empty" % name)
    libraries = {}
    if type(backends) == type({}):
        libraries = backends
    else:
        for backend in backends:
            if backend not in _BACKENDS:
                fail("multi_rank_test %s: unknown backend %r: expected one of %s, or a dict {name: label}" % (
                    name,
                    backend,
                    ", ".join(sorted(_BACKENDS)),
                ))
            libraries[backend] = _BACKENDS[backend]

    muster_cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = srcs,
        copts = copts,
        defines = defines,
        local_defines = local_defines,
        includes = includes,
        features = features,
        target_compatible_with = target_compatible_with,
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = deps + [_FIXTURE],
        alwayslink = True,
    )
    tests = []
    for backend in sorted(libraries):
        for count in ranks:
            test = "%s_%s_%dranks" % (name, backend, count)
            tests.append(test)
            muster_cc_test(
                name = test,
                size = size,
                args = ["--muster_ranks=%d" % count, "--muster_backend=" + backend] + args,
                main = False,
                # What the scheduler should set aside: tests with more ranks than cores wait for each
                # other otherwise.
                tags = tags + ["cpu:%d" % min(count, 4)],
                features = features,
                target_compatible_with = target_compatible_with,
                visibility = visibility,
                deps = [":" + name + "_cases", _MAIN, libraries[backend]],
                **kwargs
            )
    native.test_suite(
        name = name,
        tags = tags,
        tests = tests,
        visibility = visibility,
    )
