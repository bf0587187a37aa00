#!/usr/bin/env python3
"""Reads every source with clang++, without making code: what it warns of or refuses and g++ does not.

Include paths and macros are those of a build (build/release). To cost a minute and not four, headers are read once, and several sources of
a folder are read as one text (scripts/together.py); where two sources of a text get into each other's way all the same, its halves
are read. An error is reported only for a source that is read by itself.

  usage: scripts/check-clang.py [--build FOLDER] [FILE...]      FILE: these alone, each by itself
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from together import texts

WARNINGS = """-Wall -Wextra -Werror -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
    -Wextra-semi -Wimplicit-fallthrough -Wnon-virtual-dtor -Woverloaded-virtual -Wrange-loop-analysis""".split()
STANDARD = """algorithm array atomic bit charconv chrono cmath condition_variable cstdint cstdio cstdlib cstring deque filesystem fstream functional limits
    map memory mutex numeric optional set span sstream string string_view thread unordered_map utility variant vector
    fmt/format.h fmt/ranges.h gtest/gtest.h nlohmann/json.hpp vulkan/vulkan.h""".split()
APART = ["onnx/host_tensor.hpp"]  # hides a name of an outer namespace from sources that do not include it


def flags_of(build):
    """The macros and include paths of all C++ sources, which do not contradict each other."""
    flags = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            if entry["file"].endswith((".cpp", ".cxx")):  # the second are texts of several (cmake/Together.cmake)
                for flag in re.findall(r"-D\S+|-I\S+|-isystem \S+", entry["command"]):
                    flags.setdefault(flag.replace("\\", ""))
    # Formats are checked by g++; doing so again takes a fifth of the time.
    return [word for flag in flags for word in flag.split()] + ["-DFMT_CONSTEVAL="]


def headers():
    own = [os.path.relpath(name, "source") for name in sorted(glob.glob("source/**/*.hpp", recursive=True))]
    public = [os.path.relpath(name, "include") for name in sorted(glob.glob("include/vkfuse/*.hpp"))]
    shared = [os.path.relpath(name, "tests") for name in sorted(glob.glob("tests/support/*.hpp"))]
    return [f"#include <{name}>" for name in STANDARD] + [f'#include "{name}"' for name in own + public + shared if name not in APART]


class Check:
    def __init__(self, build, folder):
        self.command = ["clang++", "-std=c++20", "-O1", *flags_of(build), *WARNINGS]
        self.folder = folder

    def precompile(self):
        header = os.path.join(self.folder, "all.hpp")
        with open(header, "w", encoding="utf-8") as file:
            file.write("\n".join(headers()) + "\n")
        subprocess.run([*self.command, "-fpch-instantiate-templates", "-x", "c++-header", header, "-o", header + ".pch"], check=True)
        self.command += ["-include-pch", header + ".pch", "-fsyntax-only"]

    def read(self, text):
        """What clang++ says of these sources, each of which is sound to it if nothing is returned."""
        if len(text) == 1:
            whole = text[0]
        else:
            with tempfile.NamedTemporaryFile("w", suffix=".cpp", dir=self.folder, delete=False, encoding="utf-8") as file:
                for path in text:
                    with open(path, encoding="utf-8") as source:
                        file.write(f'#line 1 "{path}"\n{source.read()}\n')
                whole = file.name
        done = subprocess.run([*self.command, "-I", os.path.dirname(text[0]), whole], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return []
        if len(text) == 1:
            return [done.stderr]
        half = len(text) // 2
        return self.read(text[:half]) + self.read(text[half:])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--build", default="build/release")
    arguments.add_argument("file", nargs="*")
    options = arguments.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = [os.path.relpath(name, root) for name in options.file]
    os.chdir(root)
    if not files:
        files = [name for folder in ("source", "bench", "examples", "tests") for name in sorted(glob.glob(folder + "/**/*.cpp", recursive=True))]
    work = [[name] for name in files] if options.file else texts(files)
    with tempfile.TemporaryDirectory() as folder:
        check = Check(options.build, folder)
        check.precompile()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            faults = [fault for faults in pool.map(check.read, sorted(work, key=len, reverse=True)) for fault in faults]
    print("".join(faults), end="")
    print(f"clang++ reads {len(files)} sources: {len(faults)} with errors.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
