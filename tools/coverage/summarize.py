"""Prints the line coverage in an lcov file by folder.

usage: summarize.py [--files] REPORT

A header reached through include_prefix stands in the report under the folder of links that Bazel
made for its library (bazel-out/.../_virtual_includes/NAME/muster/core/group/x.h), once for each
path: they are mapped back to core/group/x.h and added up. Tests are left out.
"""

import collections
import os
import re
import sys

VIRTUAL = re.compile(r"^.*/_virtual_includes/.*?/muster/")
OURS = re.compile(r"^(core|backends|trainer|testing|tools)/")


def source_path(path):
    return VIRTUAL.sub("", path)


def read(report):
    """{source path: {line: times executed}}, of our own code."""
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    current = None
    with open(report, encoding="utf-8") as stream:
        for record in stream:
            if record.startswith("SF:"):
                path = source_path(record[3:].strip())
                ours = OURS.match(path) and not path.endswith("_test.cc")
                current = lines[path] if ours else None
            elif record.startswith("DA:") and current is not None:
                line, count = record[3:].split(",")[:2]
                current[int(line)] += int(count)
    return lines


# An inline function of a header that is reached through include_prefix, and its caller.
CANARY = "tools/bazel/include_prefix/answer"


def check_headers(lines):
    """Where the caller is in the report, the header must be."""
    if CANARY + ".cc" in lines and not any(lines[CANARY + ".h"].values()):
        sys.exit(f"error: {CANARY}.cc is in the report and {CANARY}.h is not: headers are not counted")


def print_row(name, covered, total):
    percent = 100.0 * covered / total if total else 100.0
    print(f"{percent:6.1f} %  {covered:6d} of {total:6d}  {name}")


def main():
    arguments = sys.argv[1:]
    each_file = "--files" in arguments
    (report,) = [a for a in arguments if a != "--files"]
    lines = read(report)
    check_headers(lines)
    folders = collections.defaultdict(lambda: [0, 0])
    for path, counts in sorted(lines.items()):
        covered = sum(1 for count in counts.values() if count)
        if each_file:
            print_row(path, covered, len(counts))
        for name in (os.path.dirname(path), "all"):
            folders[name][0] += covered
            folders[name][1] += len(counts)
    print("line coverage by folder:")
    for name in sorted(folders, key=lambda n: (n == "all", n)):
        print_row(name, *folders[name])


main()
