#!/usr/bin/env python3
"""Counts what makes code hard to read, against scripts/counts.json: a count may only fall.

  usage: scripts/check-counts.py [--list COUNT | --update]

--list prints what a count is of; --update writes the counts of today, where none is higher than before. Functions are
measured with lizard (https://github.com/terryyin/lizard), over source and include; columns over all code.
"""
import argparse
import importlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = ROOT / "scripts" / "counts.json"
LIZARD = "1.24.3"
NO_MEMBER = "using friend static typedef struct class enum return explicit template".split()
MEMBER = re.compile(r"^\s*(?!(?:" + "|".join(NO_MEMBER) + r")\b)"
                    r"[\w:<>,&*\s\[\]\"]+?[\s&*>](\w+)\s*(?:=[^;]*|\{[^;]*\})?(?:,\s*\w+[^;]*)?;", re.M)


def lizard():
    """The library; where there is none, it is installed below build/. None where that is not possible."""
    folder = ROOT / "build" / "lizard"
    sys.path.insert(0, str(folder))
    try:
        import lizard as found
    except ImportError:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                   "--root-user-action", "ignore", "--target", str(folder), f"lizard=={LIZARD}"]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
            return None
        importlib.invalidate_caches()
        import lizard as found
    return found


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split()


def structs(path):
    """Name and number of data members of every struct and class of a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    for found in re.finditer(r"(?<!enum )\b(?:struct|class)\s+(\w+)[^;{(]*\{", text):
        depth, at = 1, found.end()
        body = []
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 1 and text[at] not in "{}":
                body.append(text[at])
            elif depth == 2 and text[at] == "{":
                body.append("{}")
            at += 1
        members = 0
        for statement in "".join(body).split(";"):
            statement = re.sub(r"\b(public|private|protected):", "", statement).strip().replace("\n", " ")
            before = re.split(r"=|\{", statement)[0]
            if before and "(" not in before and MEMBER.match(statement + ";"):
                others = re.findall(r",\s*\w+\s*(?==|,|$|\{)", re.sub(r"<[^<>]*>", "", statement))
                members += 1 + len(others)
        yield found.group(1), members


def counts():
    functions = lizard()
    of_functions = ("complexity_over_15", "lines_of_code_over_40", "parameters_over_5")
    found = {name: [] for name in (*(of_functions if functions else ()), "fields_over_20", "columns_over_120")}
    if functions is None:
        print(f"counts: lizard {LIZARD} cannot be installed here, so functions are not counted")
    for path in tracked("source", "include"):
        if not path.endswith((".cpp", ".hpp", ".h")):
            continue
        for function in functions.analyze_file(str(ROOT / path)).function_list if functions else ():
            where = f"{path}:{function.start_line} {function.name}"
            measured = (function.cyclomatic_complexity, function.nloc, function.parameter_count)
            for name, value, most in zip(of_functions, measured, (15, 40, 5)):
                if value > most:
                    found[name].append((value, where))
        found["fields_over_20"] += [(members, f"{path} {name}") for name, members in structs(path) if members > 20]
    code = "*.cpp *.hpp *.h *.c *.glsl *.py *.sh *.cmake *CMakeLists.txt *.in *.html".split()
    for path in tracked(*code):
        if path.startswith(("bench/results/", "tests/golden/")):
            continue
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > 120:
                found["columns_over_120"].append((len(line), f"{path}:{number}"))
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--list")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    found = counts()
    if options.list:
        for value, where in sorted(found[options.list], reverse=True):
            print(value, where)
        return 0
    now = {name: len(all_of) for name, all_of in found.items()}
    most = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else now
    risen = [name for name in now if now[name] > most[name]]
    for name in risen:
        print(f"counts: {name} has risen from {most[name]} to {now[name]}; scripts/check-counts.py --list {name}")
    if risen:
        return 1
    if options.update and len(now) == len(most):
        COUNTS.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    elif any(now[name] != most[name] for name in now):
        print("counts: lower than scripts/counts.json says: scripts/check-counts.py --update")
        return 1
    print("counts: " + ", ".join(f"{name} {count}" for name, count in now.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
