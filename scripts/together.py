#!/usr/bin/env python3
"""Which sources a compiler may read as one text: those of a folder that define no name twice, eight at most.

Headers are most of what a compiler reads, so that eight sources read as one take a third of the time (cmake/Together.cmake, scripts/check-clang.py).

  usage: scripts/together.py FILE...      prints a line "GROUP FILE" for each that is not read by itself
"""
import os
import re
import sys

MOST_SOURCES = 8  # of one text
# What a text of several would change: a local name that is one of another source's, an overload that another source's headers bring, a member whose
# type has no name outside of its source.
APART = """source/onnx/packed_integers tests/unit/runtime/store_test tests/unit/runtime/submission_test tests/unit/runtime/figures_test
    bench/bench_row""".split()


def names_of(path):
    """What a source defines outside of all braces but those of namespaces, where nothing is indented."""
    names = set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            if re.match(r"[A-Za-z_]", line) and not line.startswith(("namespace", "using", "template", "TEST", "INSTANTIATE_")):
                names.update(re.findall(r"(\w+)\s*(?:[({=;\[]|$)", line)[:1])
    return names


def plants(path):
    """Whether a known fault may be planted in it: such a source is compiled twice, and nothing else with it (tests/CMakeLists.txt)."""
    with open(path, encoding="utf-8") as file:
        return "base/mutations.hpp" in file.read()


def texts(sources):
    """Lists of sources that may be one text each."""
    made = []
    for path in sources:
        alone = any(path.endswith(name + ".cpp") for name in APART)
        kind, names = (path if alone else os.path.dirname(path), plants(path)), names_of(path)
        for text in made:
            if text["kind"] == kind and len(text["sources"]) < MOST_SOURCES and not names & text["names"]:
                text["sources"].append(path)
                text["names"].update(names)
                break
        else:
            made.append({"kind": kind, "sources": [path], "names": names})
    return [text["sources"] for text in made]


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for text in texts(sys.argv[1:]):
        if len(text) == 1:
            continue
        # By its first source, so that a file that comes or goes elsewhere changes no other name.
        name = re.sub(r"\W", "_", os.path.relpath(os.path.splitext(text[0])[0], root))
        for path in text:
            print(name, path)


if __name__ == "__main__":
    main()
