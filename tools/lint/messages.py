"""Checks that docs/troubleshooting.md explains messages that exist.

usage: messages.py DOCUMENT SOURCE...
Each fixed part of a documented message must stand in a string of a source file. Messages are put
together from a subject and what is wrong with it, so parts end where those meet; parts of under
MIN_PART characters say nothing and are not looked for.
"""

import re
import sys

MIN_PART = 8
SEAM = re.compile('…|: | is "')
SECTION_OF_OTHERS = "Of Bazel, the compiler and abseil:"


def strings_of(path):
    """The text of a source file with its adjacent literals joined and its escapes undone."""
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    text = re.sub(r'"\s*\n\s*"', "", text)
    return text.replace('\\"', '"')


def documented_parts(path):
    with open(path, encoding="utf-8") as stream:
        text = stream.read().split(SECTION_OF_OTHERS)[0]
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("| `"):
            continue
        message = line[3 : line.index("` |")].replace("\\|", "|")
        for part in SEAM.split(message):
            part = part.strip(" :,")
            if len(part) >= MIN_PART:
                yield number, part


def main():
    document, *sources = sys.argv[1:]
    code = "\n".join(strings_of(source) for source in sources)
    unknown = [(n, part) for n, part in documented_parts(document) if part not in code]
    for number, part in unknown:
        print(f"{document}:{number}: no source says '{part}'")
    return 1 if unknown else 0


sys.exit(main())
