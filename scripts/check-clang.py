#!/usr/bin/env python3
"""Reads every source with clang++, without making code: what it warns of or refuses and g++ does not.

Include paths and macros are those of a build (build/release). To cost a minute and not four, headers are read once, and
the sources of a group of its unity build (cmake/UnityBuild.cmake) are read as one text; where clang++ has something to
say of a group, each of its sources is read again. An error is reported only for a source that is read by itself.

  usage: scripts/check-clang.py [--build FOLDER] [FILE...]      FILE: these alone, each by itself
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

WARNINGS = """-Wall -Wextra -Werror -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
    -Wextra-semi -Wimplicit-fallthrough -Wnon-virtual-dtor -Woverloaded-virtual -Wrange-loop-analysis""".split()
STANDARD = """algorithm array atomic bit charconv chrono cmath condition_variable cstdint cstdio cstdlib cstring deque
    filesystem fstream functional limits map memory mutex numeric optional set span sstream string string_view thread
    unordered_map utility variant vector
    fmt/format.h fmt/ranges.h gtest/gtest.h nlohmann/json.hpp vulkan/vulkan.h""".split()
APART = ["onnx/host_tensor.hpp"]  # hides a name of an outer namespace from sources that do not include it
OTHER_SYSTEMS = re.compile(r"(^|/|_)(windows|macos)(_test)?\.[ch]pp$")


def commands_of(build):
    """How the build compiles its C++ sources; those that end in .cxx are of a unity build, and include others."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        return [entry for entry in json.load(file) if entry["file"].endswith((".cpp", ".cxx"))]


def flags_of(commands):
    """The macros and include paths of all C++ sources, which do not contradict each other."""
    flags = {}
    for entry in commands:
        words = shlex.split(entry["command"])
        pairs = [(word, words[i + 1]) if word == "-isystem" else (word,) for i, word in enumerate(words)]
        for flag in (pair for pair in pairs if re.match(r"-D.|-I.|-isystem$", pair[0])):
            flags.setdefault(flag)
    # Formats are checked by g++; doing so again takes a fifth of the time.
    return [word for flag in flags for word in flag] + ["-DFMT_CONSTEVAL="]


def groups_of(commands, files):
    """The files in the groups of the unity build; a file of none, or all where there is no such build, by itself."""
    left = dict.fromkeys(files)
    groups = []
    for entry in commands:
        if entry["file"].endswith(".cxx") and os.path.exists(entry["file"]):
            with open(entry["file"], encoding="utf-8") as file:
                included = re.findall(r'#include "(.*)"', file.read())
            group = [name for name in map(os.path.relpath, included) if name in left]
            for name in group:
                del left[name]
            if group:
                groups.append(group)
    return groups + [[name] for name in left]


def headers():
    own = [os.path.relpath(name, "source") for name in sorted(glob.glob("source/**/*.hpp", recursive=True))]
    public = [os.path.relpath(name, "include") for name in sorted(glob.glob("include/vkfuse/*.hpp"))]
    shared = [os.path.relpath(name, "tests") for name in sorted(glob.glob("tests/support/*.hpp"))]
    of_project = [name for name in own + public + shared if name not in APART and not OTHER_SYSTEMS.search(name)]
    return [f"#include <{name}>" for name in STANDARD] + [f'#include "{name}"' for name in of_project]


class Check:
    def __init__(self, flags, folder):
        self.command = ["clang++", "-std=c++20", "-O1", *flags, *WARNINGS]
        self.folder = folder

    def precompile(self):
        header = os.path.join(self.folder, "all.hpp")
        with open(header, "w", encoding="utf-8") as file:
            file.write("\n".join(headers()) + "\n")
        precompiled = header + ".pch"
        how = ["-fpch-instantiate-templates", "-x", "c++-header", header, "-o", precompiled]
        subprocess.run([*self.command, *how], check=True)
        self.command += ["-include-pch", precompiled, "-fsyntax-only"]

    def one_text(self, group):
        """A file of these sources: included, they would be headers to clang++, of which it warns less."""
        descriptor, text = tempfile.mkstemp(suffix=".cpp", dir=self.folder)
        with open(descriptor, "w", encoding="utf-8") as file:
            for path in group:
                with open(path, encoding="utf-8") as source:
                    file.write(f'#line 1 "{path}"\n{source.read()}\n')
        return text

    def read(self, group):
        """What clang++ says of these sources, each of which is sound to it if nothing is returned."""
        text = group[0] if len(group) == 1 else self.one_text(group)
        command = [*self.command, "-I", os.path.dirname(group[0]), text]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return []
        if len(group) == 1:
            return [done.stderr]
        return [fault for path in group for fault in self.read([path])]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--build", default="build/release")
    arguments.add_argument("file", nargs="*")
    options = arguments.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = [os.path.relpath(name, root) for name in options.file]
    os.chdir(root)
    if not files:
        for folder in ("source", "bench", "examples", "tests"):
            files += sorted(glob.glob(folder + "/**/*.cpp", recursive=True))
        files = [name for name in files if not OTHER_SYSTEMS.search(name)]
    commands = commands_of(options.build)
    work = [[name] for name in files] if options.file else groups_of(commands, files)
    with tempfile.TemporaryDirectory() as folder:
        check = Check(flags_of(commands), folder)
        check.precompile()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            faults = [fault for faults in pool.map(check.read, sorted(work, key=len, reverse=True)) for fault in faults]
    print("".join(faults), end="")
    print(f"clang++ reads {len(files)} sources: {len(faults)} with errors.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
