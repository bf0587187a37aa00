#!/usr/bin/env python3
"""ONNX's own cases (package libonnx-testdata) through `vkfuse validate`, on the device that the environment names: none
may fail but those whose files ONNX has mended since, and as many as said must pass.

    conformance.py VKFUSE FOLDER LEAST      77 where the folder does not exist
"""

import json, os, subprocess, sys, tempfile

# Cases whose files later releases correct.
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/onnx/mended_cases.txt")
with open(LIST, encoding="utf-8") as lines:
    MENDED = {line.split(":")[0] for line in lines if not line.startswith("#")}


def main():
    vkfuse, folder, least = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if not os.path.isdir(folder):
        print(f"There is no folder {folder}: install libonnx-testdata.")
        return 77
    with tempfile.TemporaryDirectory() as files:
        report = os.path.join(files, "cases.json")
        command = [vkfuse, "validate", folder, "--cache", "off", "--json", report]
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if ran.returncode not in (0, 1):  # 1: a case failed
            print(ran.stdout[-4000:], ran.stderr[-4000:], f"It ended with {ran.returncode}.", sep="\n")
            return 1
        with open(report, encoding="utf-8") as file:
            cases = json.load(file)
    failed = [case for case in cases if case["verdict"] == "failed" and case["name"] not in MENDED]
    passed = sum(case["verdict"] == "passed" for case in cases)
    for case in failed:
        print(f"{case['name']}: {case['detail']}")
    print(f"{len(cases)} cases, {passed} passed, {len(failed)} failed, {least} have to pass.")
    return 1 if failed or passed < least else 0


sys.exit(main())
