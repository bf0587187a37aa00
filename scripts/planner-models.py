#!/usr/bin/env python3
"""What each planner makes of ONNX models: kernels, bytes, modelled and measured time, as JSON.
usage: scripts/planner-models.py VKFUSE OUT.json MODEL_FOLDER...    each folder holds a model.onnx"""
import json
import os
import pathlib
import subprocess
import sys

PLANNERS = ["bytes", "store-all", "recompute-all", "greedy-io"]


def plan(command, model, *options):
    return json.loads(subprocess.run([command, "plan", str(model), "--format", "json", "--profile", *options], check=True, capture_output=True, text=True).stdout)


def main(command, out, *folders):
    report = {"models": []}
    for folder in map(pathlib.Path, folders):
        one = {"name": folder.name, "planners": []}
        for planner in PLANNERS:
            made = plan(command, folder / "model.onnx", "--planner", planner)
            report["device"] = made["device"]
            one["planners"].append({"planner": planner, "kernels": made["kernels"], "bytes": made["bytes_fused"], "modelled_us": made["modelled_us_fused"],
                                    "us": made["measured_us_fused"]})
            if planner == "bytes":
                one["none"] = {"kernels": made["launches_unfused"], "bytes": made["bytes_unfused"], "modelled_us": made["modelled_us_unfused"], "us": made["measured_us_unfused"]}
        report["models"].append(one)
        report["load"] = os.getloadavg()[0]
        pathlib.Path(out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
