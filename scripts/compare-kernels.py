#!/usr/bin/env python3
"""Compares two folders that vkfuse-kernels wrote, of two versions of the sources: plans, launches and SPIR-V.

    compare-kernels.py BEFORE AFTER [--list N]     N differences are printed (20)

Modules are equal if they are without names, debug information and the order of ids: spirv-opt --strip-debug
--strip-nonsemantic --compact-ids, then spirv-dis --raw-id --no-header. Ends with 1 where anything differs.
"""

import argparse, difflib, functools, json, os, subprocess, sys


def lines_of(folder):
    with open(os.path.join(folder, "kernels.jsonl")) as file:
        return {(line["graph"], line["target"]): line for line in map(json.loads, file)}


def path_of(folder, name):
    for end in ("spv", "glsl"):
        path = os.path.join(folder, "spirv", f"{name}.{end}")
        if os.path.exists(path):
            return path
    sys.exit(f"'{folder}' has no module '{name}'.")


def read(path):
    with open(path, "rb") as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def assembly(path):
    """The text of a module without what does not count; of a kernel that was not compiled, lines without comments."""
    if path.endswith(".glsl"):
        code = (line.split("//")[0].rstrip() for line in read(path).decode().splitlines())
        return tuple(line for line in code if line)
    plain = subprocess.run(
        ["spirv-opt", "--strip-debug", "--strip-nonsemantic", "--compact-ids", path, "-o", "-"],
        check=True,
        capture_output=True,
    ).stdout
    disassemble = ["spirv-dis", "--raw-id", "--no-header", "-"]
    text = subprocess.run(disassemble, input=plain, check=True, capture_output=True).stdout
    return tuple(text.decode().splitlines())


@functools.lru_cache(maxsize=None)
def first_difference(before, after):
    """One line of each module, or nothing where they are equal."""
    if read(before) == read(after):
        return None
    old, new = assembly(before), assembly(after)
    if old == new:
        return None
    changes = [
        line
        for line in difflib.unified_diff(old, new, lineterm="", n=0)
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    return f"{len(changes)} lines of SPIR-V, first {changes[0]}"


def differences(before, after, old, new):
    """What differs between two lines, in words."""
    if old.get("refused") != new.get("refused"):
        yield f"refused: {old.get('refused')!r} before, {new.get('refused')!r} after"
    if "steps" not in old or "steps" not in new:
        return
    if len(old["steps"]) != len(new["steps"]):
        yield f"{len(old['steps'])} kernels before, {len(new['steps'])} after"
        return
    for number, (one, other) in enumerate(zip(old["steps"], new["steps"])):
        for key in sorted((set(one) | set(other)) - {"dispatches"}):
            if one.get(key) != other.get(key):
                yield f"kernel {number}: {key} is {other.get(key)}, and was {one.get(key)}"
        launches, others = one.get("dispatches", []), other.get("dispatches", [])
        if len(launches) != len(others):
            yield f"kernel {number}: {len(launches)} dispatches before, {len(others)} after"
            continue
        for launch, changed in zip(launches, others):
            for key in sorted((set(launch) | set(changed)) - {"spirv"}):
                if launch.get(key) != changed.get(key):
                    yield f"kernel {number}: {key} is {changed.get(key)}, and was {launch.get(key)}"
            difference = first_difference(path_of(before, launch["spirv"]), path_of(after, changed["spirv"]))
            if difference:
                yield f"kernel {number}: {difference}"


def main():
    parser = argparse.ArgumentParser(description="Compares two folders that vkfuse-kernels wrote.")
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--list", type=int, default=20, metavar="N", help="how many differences are printed")
    options = parser.parse_args()
    old, new = lines_of(options.before), lines_of(options.after)
    found = [
        f"{graph} on {target}: only {'before' if (graph, target) in old else 'after'}"
        for graph, target in sorted(set(old) ^ set(new))
    ]
    changed = 0
    for key in old:
        if key not in new:
            continue
        own = [
            f"{key[0]} on {key[1]}: {text}" for text in differences(options.before, options.after, old[key], new[key])
        ]
        changed += 1 if own else 0
        found += own
    for text in found[: options.list]:
        print(text)
    kernels = sum(len(step.get("dispatches", [])) for line in new.values() for step in line.get("steps", []))
    print(f"{len(new)} graphs on targets, {kernels} kernels: {changed} graphs differ, {len(found)} differences")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
