#!/usr/bin/env python3
"""What each planner makes of ONNX models: kernels, bytes, modelled and measured time, as JSON. The planners take turns,
so that what a machine does meanwhile falls on all of them; a time is the device's, the sum over the kernels of medians,
and the shortest of the rounds.
usage: scripts/planner-models.py [options] VKFUSE OUT.json MODEL...
           a model is an .onnx file, or a folder that holds a model.onnx
  --rounds N     how often each planner of a model is measured (3)
  --dtype TYPE   f16 or bf16: the models' floats become those
  --limit S      seconds that one call of VKFUSE may take (120): what takes longer, or fails, stands in OUT.json as its
                 "error"
  --segments     every kernel, too, of the round that was shortest
Compiled kernels are kept in $VKFUSE_CACHE, or in a folder for this run alone."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PLANNERS = ["bytes", "store-all", "recompute-all", "greedy-io"]
OF_SEGMENT = ["kind", "loops", "ops", "bytes_read", "bytes_written"]
OF_SEGMENT += ["workgroup", "workgroups", "modelled_us", "measured_us"]


def arguments():
    parser = argparse.ArgumentParser(add_help=False, usage=__doc__.split("usage: ")[1].split("\n  --")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", choices=["f16", "bf16"])
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--segments", action="store_true")
    parser.add_argument("vkfuse")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    return parser.parse_args()


def measured(asked, model, planner):
    """The plan as `vkfuse plan --profile` gives it, or the sentence that says why there is none."""
    file = model / "model.onnx" if model.is_dir() else model
    command = [asked.vkfuse, "plan", str(file), "--format", "json", "--profile", "--planner", planner]
    try:
        done = subprocess.run(
            command + (["--dtype", asked.dtype] if asked.dtype else []),
            capture_output=True,
            text=True,
            timeout=asked.limit,
        )
    except subprocess.TimeoutExpired:
        return f"It took more than {asked.limit:g} s."
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()[-500:]


def of_planner(planner, plans, segments):
    """One entry of the report, from the plans of all rounds, of which some may be sentences."""
    made = [plan for plan in plans if isinstance(plan, dict)]
    if not made:
        return {"planner": planner, "error": plans[-1]}
    best = min(made, key=lambda plan: plan["measured_us_fused"])
    one = {
        "planner": planner,
        "kernels": best["kernels"],
        "bytes": best["bytes_fused"],
        "modelled_us": best["modelled_us_fused"],
        "us": best["measured_us_fused"],
        "rounds_us": [plan["measured_us_fused"] for plan in made],
    }
    if segments:
        one["segments"] = [{key: segment[key] for key in OF_SEGMENT if key in segment} for segment in best["segments"]]
    return one


def of_model(asked, model):
    plans = {planner: [] for planner in PLANNERS}
    for _ in range(asked.rounds):
        for planner in PLANNERS:
            if not any(isinstance(plan, str) for plan in plans[planner]):  # what failed or took too long would again
                plans[planner].append(measured(asked, model, planner))
    one = {
        "name": model.stem if model.suffix == ".onnx" else model.name,
        "planners": [of_planner(planner, plans[planner], asked.segments) for planner in PLANNERS],
    }
    whole = [plan for planner in PLANNERS for plan in plans[planner] if isinstance(plan, dict)]
    if whole:
        none = min(whole, key=lambda plan: plan["measured_us_unfused"])
        one["none"] = {
            "kernels": none["launches_unfused"],
            "bytes": none["bytes_unfused"],
            "modelled_us": none["modelled_us_unfused"],
            "us": none["measured_us_unfused"],
        }
    return one, (whole[0]["device"] if whole else None)


def verdict(one):
    """How `bytes` does beside the fastest of the others, and beside the one with the fewest bytes."""
    ours, *others = one["planners"]
    others = [other for other in others if "us" in other]
    if "us" not in ours or not others:
        return "bytes cannot be compared"
    fastest, least = min(others, key=lambda other: other["us"]), min(others, key=lambda other: other["bytes"])
    return (
        f'bytes takes {ours["us"] / fastest["us"]:.2f} of the time of {fastest["planner"]}, '
        f'and moves {ours["bytes"] / least["bytes"]:.3f} of the bytes of '
        f'{least["planner"]} in {ours["us"] / least["us"]:.2f} of its time'
    )


def main():
    asked = arguments()
    report = {
        "device": None,
        "dtype": asked.dtype or "as the models say",
        "rounds": asked.rounds,
        "load": 0.0,
        "models": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("VKFUSE_CACHE", folder)
        for model in asked.models:
            one, device = of_model(asked, model)
            report["device"] = report["device"] or device
            report["models"].append(one)
            report["load"] = max(report["load"], os.getloadavg()[0])
            asked.out.write_text(json.dumps(report, indent=1) + "\n")  # what is known so far stays if this is stopped
            for planner in one["planners"]:
                print(
                    f'{one["name"]:<22} {planner["planner"]:<14}',
                    planner.get("error")
                    or "{kernels} kernels, {bytes} bytes, modelled {modelled_us:.0f} us, {us:.1f} us".format(**planner),
                    flush=True,
                )
            print(f'{one["name"]:<22} {verdict(one)}', flush=True)
    sys.exit(any("error" in planner for model in report["models"] for planner in model["planners"]))


if __name__ == "__main__":
    main()
