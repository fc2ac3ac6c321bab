"""Turns the output of `bazel aquery --output=jsonproto` into compile_commands.json.

usage: compile_commands.py ACTIONS EXECUTION_ROOT WORKSPACE INCLUDE
INCLUDE is a folder with a link "muster" to WORKSPACE, and "generated/muster" to Bazel's outputs.
"""

import json
import os
import re
import sys

# Options of gcc that clang does not know.
GCC_ONLY = {
    "-fno-canonical-system-headers",
    "-Wno-free-nonheap-object",
    "-Wunused-but-set-parameter",
    "-Wno-error=maybe-uninitialized",
}
VIRTUAL = re.compile(r"(-I|-isystem|-iquote)?bazel-out/.*/_virtual_includes/.*")


def compile_arguments(arguments, include):
    """The arguments of one action, for clang, with the include folders of INCLUDE for all of Muster."""
    result = []
    after_flag = False
    for argument in arguments:
        if argument in GCC_ONLY:
            continue
        # "-isystem" and its folder may be two arguments.
        if VIRTUAL.fullmatch(argument):
            if after_flag:
                result.pop()
            after_flag = False
            if "-I" + include not in result:
                result += ["-I" + include, "-I" + include + "/generated"]
            continue
        # The headers of others are not ours to mend.
        if argument.startswith("external/") and after_flag:
            result[-1] = "-isystem"
        after_flag = argument in ("-I", "-isystem", "-iquote")
        result.append(argument)
    return result


def main():
    actions_file, execution_root, workspace, include = sys.argv[1:]
    with open(actions_file, encoding="utf-8") as stream:
        actions = json.load(stream).get("actions", [])
    commands = {}
    for action in actions:
        arguments = action["arguments"]
        if "-c" not in arguments:
            continue
        source = arguments[arguments.index("-c") + 1]
        if source.startswith(("external/", "bazel-out/")) or source in commands:
            continue
        commands[source] = {
            "directory": execution_root,
            "file": os.path.join(workspace, source),
            "arguments": compile_arguments(arguments, include),
        }
    json.dump(list(commands.values()), sys.stdout, indent=1)
    print()


main()
