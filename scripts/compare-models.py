#!/usr/bin/env python3
"""How fast whole models are beside torch.compile, on one GPU: one replay of `vkfuse run MODEL.onnx` on random data
beside the faster of torch.compile's modes `default` and `reduce-overhead`, as a table and as JSON.
usage: scripts/compare-models.py [options] VKFUSE EXPORTER OUT.json
           EXPORTER is a script that, called as EXPORTER FOLDER NAME, prints a line of JSON with compile_us (and
           eager_us) and writes FOLDER/NAME.onnx with weights as inputs; its function build(NAME) returns the module and
           its inputs, on the GPU. What OUT.json has is not measured again: call it again to go on.
  --models A,B     these alone, of those below
  --budget S       seconds after which no further step of a model begins (540)
  --limit S        seconds that a step may take (240)
  --work FOLDER    where the .onnx files are (beside OUT.json)
  --python PROGRAM the interpreter that has torch (this one)
  --options TEXT   further options of `vkfuse run`, as "--tune 20000"
  --table          nothing is measured: the table of OUT.json alone
The exit status is 1 if a step failed, and 3 if the budget ended before all models were measured."""

import argparse
import ast
import json
import math
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
import types

MODELS = """resnet50_b32 gpt2_medium_b4_s1024 bert_large_b8_s512 vit_l16_b32 llama8b_2l_b1_s2048 convnext_base_b32
    efficientnet_b4_b16 swin_base_b16 whisper_large_enc_b4 t5_large_enc_b8_s512 qwen3_2l_b1_s4096""".split()
CAP = 1.1  # how much a model that is faster may make up for one that is slower
REPLAY = re.compile(r"^One replay of the program: ([0-9.]+) device us$", re.MULTILINE)
DEVICE = re.compile(r"^.* on (.*): [0-9]+ kernels?$", re.MULTILINE)


def arguments():
    parser = argparse.ArgumentParser(add_help=False, usage=__doc__.split("usage: ")[1].split("\n  --")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--budget", type=float, default=540)
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--options", default="")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("vkfuse")
    parser.add_argument("exporter", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    asked = parser.parse_args()
    asked.models = asked.models.split(",")
    asked.work = asked.work or asked.out.parent
    return asked


def output_of(command, limit):
    """What a command prints, and an error in one line. It and what it started are ended after `limit` seconds."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )
    try:
        text, problem = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, problem = process.communicate()
        return text, f"It took more than {limit:g} s."
    if process.returncode == 0:
        return text, None
    last = (problem.strip() or text.strip() or "no words").splitlines()[-1]
    return text, f"Exit status {process.returncode}: {last[-300:]}"


def json_lines(text):
    """The objects among the lines of a text."""
    found = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            pass
    return [one for one in found if isinstance(one, dict)]


# --- the steps of a model: each returns what it adds to the model's entry, and an error or None ----------


def export(asked, name):
    text, problem = output_of([asked.python, str(asked.exporter), str(asked.work), name], asked.limit)
    row = next((row for row in json_lines(text) if row.get("name") == name), {})
    found = {key: row[key] for key in ("eager_us", "compile_us") if key in row}
    if not (asked.work / f"{name}.onnx").is_file():
        failed = next((line for line in text.splitlines() if "FAILED" in line), "")
        return found, problem or failed[-300:] or "It wrote no .onnx file."
    return found, None  # a mode of torch that fails is not ours to mend: the other one counts


def replay(asked, name):
    command = [asked.vkfuse, "run", str(asked.work / f"{name}.onnx"), "--profile", "--top", "0"]
    text, problem = output_of(command + shlex.split(asked.options), asked.limit)
    found = REPLAY.search(text)
    if problem or not found:
        return {}, problem or "It printed no time of a replay."
    device = DEVICE.search(text)
    return {"replay_us": float(found[1]), "device": device[1] if device else "unknown"}, None


def reduce_overhead(asked, name):
    text, problem = output_of([asked.python, __file__, "--time-torch", str(asked.exporter), name], asked.limit)
    row = next((row for row in json_lines(text) if row.get("name") == name), None)
    if row is None or "reduce_overhead_us" not in row:
        return {}, problem or "It printed no time."
    return {"reduce_overhead_us": row["reduce_overhead_us"]}, None


STEPS = {"export": export, "replay": replay, "reduce_overhead": reduce_overhead}


def build_function(exporter):
    """The exporter's `build`, without its loop over models."""
    source = ast.parse(exporter.read_text(), str(exporter))
    source.body = [one for one in source.body if not isinstance(one, (ast.For, ast.While))]
    module = types.ModuleType("exporter")
    sys.modules["exporter"] = module  # torch.compile looks for the module of what it compiles
    sys.argv = [str(exporter), ".", ""]
    exec(compile(source, str(exporter), "exec"), module.__dict__)
    return module.build


def time_torch(exporter, name):
    """In a separate process: torch.compile's mode reduce-overhead, in microseconds."""
    build = build_function(pathlib.Path(exporter))
    import torch
    from triton.testing import do_bench

    torch.set_grad_enabled(False)
    module, inputs = build(name)
    compiled = torch.compile(module, mode="reduce-overhead", dynamic=False)
    for _ in range(4):  # compiles, warms up, records, replays
        compiled(*inputs)
    torch.cuda.synchronize()
    us = 1e3 * do_bench(lambda: compiled(*inputs), warmup=50, rep=300, return_mode="median")
    print(json.dumps({"name": name, "reduce_overhead_us": us}), flush=True)


# --- the table -------------------------------------------------------------------------------------------


def theirs(entry):
    """The faster mode of torch.compile, and its time."""
    times = {"default": entry.get("compile_us"), "reduce-overhead": entry.get("reduce_overhead_us")}
    known = {mode: us for mode, us in times.items() if us}
    return min(known.items(), key=lambda one: one[1]) if known else (None, None)


def ratio_of(entry):
    """How many times as fast as torch.compile a model is, or None."""
    us = theirs(entry)[1]
    return us / entry["replay_us"] if us and entry.get("replay_us") else None


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def summary_of(entries):
    ratios = {name: ratio for name, entry in entries.items() if (ratio := ratio_of(entry)) is not None}
    if not ratios:
        return {}
    return {
        "models": len(ratios),
        "geometric_mean_capped": geometric_mean([min(CAP, ratio) for ratio in ratios.values()]),
        "geometric_mean": geometric_mean(list(ratios.values())),
        "least": min(ratios.values()),
        "cap": CAP,
    }


def table_of(report):
    def cell(value, digits=0):
        return "-" if value is None else f"{value:,.{digits}f}"

    heads = ["model", "replay us", "torch.compile us", "mode", "ratio", "capped"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, entry in report["models"].items():
        mode, us = theirs(entry)
        ratio = ratio_of(entry)
        cells = [cell(entry.get("replay_us")), cell(us), mode or "-", cell(ratio, 2)]
        lines.append(f"| {name} | {' | '.join(cells)} | {cell(min(CAP, ratio) if ratio else None, 2)} |")
    summary = report["summary"]
    if summary:
        lines += [
            "",
            f"{summary['models']} models: geometric mean {summary['geometric_mean_capped']:.3f} with ratios up to "
            f"{CAP}, {summary['geometric_mean']:.3f} as they are; the least is {summary['least']:.2f}.",
        ]
    for name, entry in report["models"].items():
        lines += [f"{name}, {step}: {problem}" for step, problem in entry.get("failed", {}).items()]
    return "\n".join(lines)


# --- the run ---------------------------------------------------------------------------------------------


def report_before(out):
    """What an earlier call has written."""
    if not out.is_file():
        return {"models": {}, "summary": {}}
    report = json.loads(out.read_text())
    if not isinstance(report, dict) or not isinstance(report.get("models"), dict):
        sys.exit(f"The file '{out}' is no report of this script.")
    return report


def steps_left(asked, name, entry):
    """A replay needs the file of an export, which a fresh machine has not."""
    left = [step for step in STEPS if step not in entry.get("done", [])]
    if "replay" in left and "export" not in left and not (asked.work / f"{name}.onnx").is_file():
        left.insert(0, "export")
    return left


def write(asked, report):
    report["summary"] = summary_of(report["models"])
    asked.out.with_suffix(".new").write_text(json.dumps(report, indent=1) + "\n")
    asked.out.with_suffix(".new").replace(asked.out)


def measure(asked, report):
    """Whether all models were measured before the budget ended."""
    start = time.monotonic()
    for name in asked.models:
        entry = report["models"].setdefault(name, {})
        entry["failed"] = {}  # what failed before is tried again
        for step in steps_left(asked, name, entry):
            if time.monotonic() - start > asked.budget:
                return False
            if step == "replay" and "export" in entry["failed"]:
                continue
            began = time.monotonic()
            found, problem = STEPS[step](asked, name)
            seconds = time.monotonic() - began
            entry.update(found)
            if problem:
                entry["failed"][step] = problem
            else:
                entry["done"] = sorted({*entry.get("done", []), step})
            entry.setdefault("seconds", {})[step] = round(seconds, 1)
            write(asked, report)
            print(f"{name:<24} {step:<16} {seconds:6.1f} s  {problem or found}", flush=True)
    return True


def main():
    if sys.argv[1:2] == ["--time-torch"]:
        return time_torch(*sys.argv[2:])
    asked = arguments()
    report = report_before(asked.out)
    complete = True
    if not asked.table:
        asked.work.mkdir(parents=True, exist_ok=True)
        complete = measure(asked, report)
        write(asked, report)
    print(table_of(report))
    failed = any(entry.get("failed") for entry in report["models"].values())
    return 1 if failed else 0 if complete else 3


if __name__ == "__main__":
    sys.exit(main())
