#!/usr/bin/env python3
"""ONNX's own cases (package libonnx-testdata) through `vkfuse validate`, on the device that the environment names: none
may fail but those whose files ONNX has mended since, and as many as said must pass.

    conformance.py VKFUSE FOLDER LEAST      77 where the folder does not exist
"""

import json, os, subprocess, sys, tempfile

# Files of releases 1.12 and 1.17 that later ones correct, and what was wrong with them.
MENDED = {
    "test_adam_multiple": "computed with an epsilon that its model does not state",
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True": "counts what lies behind the edge",
    "test_cast_FLOAT16_to_FLOAT8E5M2": "has another NaN",
    "test_cast_FLOAT_to_FLOAT8E5M2": "has another NaN",
    "test_cast_no_saturate_FLOAT16_to_FLOAT8E5M2": "has another NaN",
    "test_cast_no_saturate_FLOAT_to_FLOAT8E5M2": "has another NaN",
    "test_cast_FLOAT16_to_INT4": "saturates where ONNX says since that high bits are dropped",
    "test_cast_FLOAT16_to_UINT4": "saturates where ONNX says since that high bits are dropped",
    "test_cast_FLOAT_to_INT4": "saturates where ONNX says since that high bits are dropped",
    "test_cast_FLOAT_to_UINT4": "saturates where ONNX says since that high bits are dropped",
    "test_castlike_FLOAT_to_FLOAT8E5M2": "has another NaN",
    "test_castlike_FLOAT_to_FLOAT8E5M2_expanded": "has another NaN",
    "test_qlinearmatmul_2D_int8_float16": "wraps where the operator saturates",
    "test_qlinearmatmul_2D_int8_float32": "wraps where the operator saturates",
    "test_qlinearmatmul_3D_int8_float16": "wraps where the operator saturates",
    "test_qlinearmatmul_3D_int8_float32": "wraps where the operator saturates",
}


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
