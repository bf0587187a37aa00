#!/usr/bin/env python3
"""What README.md, docs/results.md and the chart beside them show of the H200, of both software drivers, and of planners
there and of models on lavapipe, from the files in bench/results.
usage: scripts/draw-results.py            rewrites what stands between the markers <!-- results: NAME --> and
                                          <!-- end -->, and the chart
       scripts/draw-results.py --check    writes nothing; exit status 1 if something would change"""

import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
LEFT, WIDTH, BAR, GAP, TOP = 170, 520, 13, 14, 64

# What a row is called where people read it. A row's opponent in PyTorch is a case of the same sizes and ops.
CHAINS = {
    "textbook f32": "scale, relu, add, 2^28 f32",
    "textbook f16": "the same, f16",
    "bias+gelu tanh f16": "bias + GELU (tanh), f16 [16384,8192]",
    "bias+gelu erf f16": "bias + GELU (erf), f16 [16384,8192]",
    "swiglu f16": "SwiGLU, f16 [8192,14336]",
    "dropout+add f16": "dropout + residual, f16 [16384,8192]",
    "adamw f32": "AdamW, 64 x 7.8 M f32",
    "25 small ops f32": "25 small ops, 65536 f32",
}
ROWS = {
    "transpose+add f32": "transpose * 2 + b, f32 [8192,8192]",
    "rotary f16": "rotary embedding, f16 [8,32,4096,128]",
    "softmax f32": "softmax, f32 [16384,4096]",
    "softmax f16": "softmax, f16 [16384,4096]",
    "softmax long f16": "softmax, f16 [1024,131072]",
    "layernorm 4096 f16": "layer norm, f16 [16384,4096]",
    "add+rmsnorm f16": "residual + RMS norm, two outputs, f16 [16384,4096]",
    "groupnorm+silu f16": "group norm + SiLU, f16 [16,320,64,64]",
    "squares rows f32": "sum of squares by rows, f32 [16384,4096]",
    "squares columns f32": "sum of squares by columns, f32 [16384,4096]",
    "squares all f32": "sum of all squares, f32 [2^26]",
    "cross-entropy f16": "cross-entropy, f16 [8192,32000]",
}
CONTRACTIONS = {
    "matmul 4096 f32": "matmul, f32 [4096,4096,4096]",
    "matmul 8192 f32": "matmul, f32 [8192,8192,8192]",
    "matmul 4096 f16": "matmul, f16 [4096,4096,4096]",
    "matmul 8192 f16": "matmul, f16 [8192,8192,8192]",
    "matmul+bias+gelu f16": "matmul + bias + GELU, f16 [8192,4096,16384]",
    "matmul bf16": "matmul, bf16 [4096,4096,4096]",
    "matmul int8": "int8 matmul with a scale for each row and column [4096,4096,4096]",
    "norm+matmul f16": "RMS norm, matmul, f16 [8192,4096,4096]",
    "gated mlp f16": "gated pair of matmuls, f16 [8192,4096,14336]",
    "attention f16": "attention, f16 [2,32,4096,128]",
    "attention causal f16": "the same, causal",
    "attention softcap f16": "the same, softcap",
    "int8 matmul f16": "int8 weights in groups of 128, f16 [512,4096] x [14336,4096] transposed",
    "conv 3x3 f16": "convolution 3 x 3 + bias + ReLU, f16 [64,128,56,56]",
    "conv 3x3 strided f16": "the same in steps of two",
    "conv 1x1 residual f16": "convolution 1 x 1 + bias + residual + ReLU, f16 [64,64,56,56] to 256 channels",
}
MATVECS = {
    "matvec f16": "matvec, f16 [1,8192] x [8192,28672]",
    "matvec transposed f16": "matvec, f16 [1,8192] x [28672,8192] transposed",
    "int8 matvec f16": "int8 weights in groups of 128, f16 [1,4096] x [14336,4096] transposed",
    "int4 matvec f16": "int4 weights in groups of 128, f16 [1,4096] x [14336,4096] transposed",
    "int4 matvec large f16": "int4 weights in groups of 128, f16 [1,8192] x [28672,8192] transposed",
    "conv depthwise f16": "depthwise convolution 3 x 3 + hard swish, f16 [64,128,56,56]",
}
OPPONENTS = {
    "textbook f32": "chain/scale_relu_add_f32",
    "textbook f16": "chain/scale_relu_add_f16",
    "bias+gelu tanh f16": "chain/gelu_tanh_bias_f16",
    "swiglu f16": "chain/swiglu_f16",
    "transpose+add f32": "view/transpose_add_f32",
    "rotary f16": "view/rope_f16",
    "softmax f32": "reduce/softmax_f32",
    "softmax f16": "reduce/softmax_f16",
    "softmax long f16": "reduce/softmax_f16_wide",
    "layernorm 4096 f16": "reduce/layernorm_f16",
    "add+rmsnorm f16": "reduce/residual_rmsnorm_f16",
    "groupnorm+silu f16": "reduce/groupnorm_silu_f16",
    "squares rows f32": "reduce/sum_rows_f32",
    "squares columns f32": "reduce/sum_cols_f32",
    "squares all f32": "reduce/sum_all_f32",
    "cross-entropy f16": "reduce/cross_entropy_f16",
}


def rows_of(name):
    return {row["name"]: row for row in json.loads((RESULTS / name).read_text())["rows"]}


def best_times(*names):
    best = {}
    for name in names:
        for line in (RESULTS / name).read_text().splitlines():
            case = json.loads(line)
            best[case["name"]] = min(best.get(case["name"], math.inf), case["us"])
    return best


def time(us):
    return "" if us is None else f"{us:.1f} us" if us < 1000 else f"{us:.0f} us"


def table(head, lines):
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def kernels(row):
    counts = [row["kernels_fused"], row["kernels_framework"], row["kernels_unfused"]]
    return " / ".join("-" if count is None else str(count) for count in counts)


def memory_bound(rows, opponents, names):
    # 25 small ops are bound by launches, not by memory.
    return table(
        [
            "graph",
            "kernels: fused / op by op / per node",
            "fused",
            "op by op",
            "per node",
            "of copy speed",
            "best of others",
        ],
        [
            [
                label,
                kernels(rows[name]),
                time(rows[name]["fused_us"]),
                time(rows[name]["framework_us"]),
                time(rows[name]["unfused_us"]),
                "" if name == "25 small ops f32" else f'{rows[name]["copy_percent"]:.0f} %',
                time(opponents.get(OPPONENTS.get(name))),
            ]
            for name, label in names.items()
        ],
    )


def reached(row, name):
    return (
        f'{row["copy_percent"]:.0f} % of copy speed'
        if name in MATVECS
        else f'{row["operations"] / row["fused_us"] / 1e6:.1f} TFLOP/s'
    )


def contractions(rows):
    return table(
        ["graph", "kernels: fused / op by op / per node", "fused", "reached", "op by op", "per node"],
        [
            [
                label,
                kernels(rows[name]),
                time(rows[name]["fused_us"]),
                reached(rows[name], name),
                time(rows[name]["framework_us"]),
                time(rows[name]["unfused_us"]),
            ]
            for name, label in {**CONTRACTIONS, **MATVECS}.items()
        ],
    )


# What the README shows of the tables above.
SUMMARY = ["textbook f32", "bias+gelu tanh f16", "softmax f16", "add+rmsnorm f16", "cross-entropy f16",
           "matmul 8192 f16", "attention causal f16", "int4 matvec large f16"]


def summary(rows, opponents):
    labels = {**CHAINS, **ROWS, **CONTRACTIONS, **MATVECS}
    labels["attention causal f16"] = "attention, causal, f16 [2,32,4096,128]"

    def line(name, row):
        counts = f'{row["kernels_fused"]} / {row["kernels_framework"]}'
        of_copy = f'{row["copy_percent"]:.0f} % of copy speed'
        speed = reached(row, name) if name in CONTRACTIONS or name in MATVECS else of_copy
        others = time(opponents.get(OPPONENTS.get(name)))
        return [labels[name], counts, time(row["fused_us"]), time(row["framework_us"]), speed, others]

    return table(["graph", "kernels: fused / op by op", "fused", "op by op", "reached", "best of others"],
                 [line(name, rows[name]) for name in SUMMARY])


def against(rows, opponents):
    ratios = {name: opponents[case] / rows[name]["fused_us"] for name, case in OPPONENTS.items()}
    mean = math.exp(sum(math.log(ratio) for ratio in ratios.values()) / len(ratios))
    least, most = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    return (
        f"The best of the others' times over the fused one, {len(ratios)} memory-bound rows: "
        f"geometric mean {mean:.2f}, least {ratios[least]:.2f} ({least}), most {ratios[most]:.2f} ({most})."
    )


PLANNERS = ["bytes", "store-all", "recompute-all", "greedy-io"]


def of_planner(one):
    """Kernels, bytes, modelled and, where there is one, measured time."""
    us = one.get("us")
    us = us["p10"] if isinstance(us, dict) else us
    measured = "" if us is None else f" / {us:.0f}"
    return f'{one["kernels"]} / {one["bytes"] / 1e6:.2f} / {one["modelled_us"]:.0f}{measured}'


def planners(rows):
    differ = [row for row in rows if any("same_as" not in one for one in row["planners"][1:])]
    lines = [
        [row["case"]] + ["=" if one.get("same_as") == "bytes" else of_planner(one) for one in row["planners"]]
        for row in differ
    ]
    others = f"In the other {len(rows) - len(differ)} of {len(rows)} rows all four make the same kernels."
    return table(["row", *PLANNERS], lines) + "\n\n" + others


def planners_of_models(models):
    lines = [
        [model["name"]]
        + [one.get("error") or of_planner(one) for one in model["planners"]]
        + [of_planner(model["none"])]
        for model in models
    ]
    return table(["model", *PLANNERS, "one kernel per node"], lines)


def software(lavapipe, swiftshader):
    lines = []
    for name, second in swiftshader.items():
        first = lavapipe[name]
        times = [f"{row[f'{way}_us']:.0f}" for row in (first, second) for way in ("fused", "framework", "unfused")]
        lines.append(
            [
                name,
                kernels(first),
                *times[:3],
                f"{first['copy_percent']:.0f} %",
                *times[3:],
                f"{second['copy_percent']:.0f} %",
            ]
        )
    times_of_driver = ["op by op", "per node", "of copy"]
    head = ["row", "lavapipe: kernels", "fused us", *times_of_driver, "SwiftShader: fused us", *times_of_driver]
    return table(head, lines)


def bar(y, percent, colour, label):
    length = WIDTH * min(percent, 115) / 115
    return (f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
            f'<text x="{LEFT + length + 5:.1f}" y="{y + BAR - 2}" class="small">{label}</text>')


def chart(environment, rows):
    parts, y = [], TOP
    for row in rows:
        copy = row["copy_us"]
        fused, unfused = 100 * copy / row["fused_us"], 100 * copy / row["unfused_us"]
        parts.append(f'<text x="{LEFT - 8}" y="{y + BAR + 3}" text-anchor="end">{row["name"]}</text>')
        plural = "s" if row["kernels_fused"] > 1 else ""
        parts.append(bar(y, fused, "#2a78d6", f'{fused:.0f} %  {row["kernels_fused"]} kernel{plural}'))
        parts.append(bar(y + BAR + 2, unfused, "#9aa4b2", f'{unfused:.0f} %  {row["kernels_unfused"]} kernels'))
        y += 2 * BAR + 2 + GAP
    line = LEFT + WIDTH * 100 / 115
    device = f'{environment["device"]}, {environment["driver"]}'
    view = f'viewBox="0 0 800 {y + 8}" font-family="sans-serif" font-size="13"'
    return f'''<svg xmlns="http://www.w3.org/2000/svg" {view}>
<style>text {{ fill: #1c2430 }} .small {{ font-size: 11px }}</style>
<rect width="800" height="{y + 8}" fill="#ffffff"/>
<text x="16" y="24" font-size="15" font-weight="bold">Speed relative to copying the same bytes: {device}</text>
<rect x="16" y="36" width="11" height="11" fill="#2a78d6"/><text x="32" y="46" class="small">fused</text>
<rect x="82" y="36" width="11" height="11" fill="#9aa4b2"/><text x="98" y="46" class="small">one kernel per node</text>
<line x1="{line:.1f}" y1="{TOP - 8}" x2="{line:.1f}" y2="{y - 4}" stroke="#1c2430" stroke-dasharray="3 3"/>
<text x="{line:.1f}" y="{TOP - 12}" text-anchor="middle" class="small">copy</text>
{chr(10).join(parts)}
</svg>
'''


def filled(path, parts):
    text = path.read_text()
    for name in re.findall(r"<!-- results: (\w+) -->", text):
        text = re.sub(
            rf"(<!-- results: {name} -->\n).*?(<!-- end -->)",
            lambda found: f"{found[1]}{parts[name]}\n{found[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    rows, opponents = rows_of("h200-full.json"), best_times("h200-pytorch-full.jsonl", "h200-xla-full.jsonl")
    environment = json.loads((RESULTS / "h200-full.json").read_text())["environment"]
    latest = {**rows, **rows_of("h200-contractions.json")}
    parts = {
        "chains": memory_bound(rows, opponents, CHAINS),
        "rows": memory_bound(rows, opponents, ROWS),
        "contractions": contractions(latest),
        "summary": summary(latest, opponents),
        "against": against(rows, opponents),
        "planners": planners(json.loads((RESULTS / "h200-planners.json").read_text())["rows"]),
        "software": software(rows_of("lavapipe-quick.json"), rows_of("swiftshader-quick.json")),
        "models": planners_of_models(json.loads((RESULTS / "lavapipe-planners-models.json").read_text())["models"]),
    }
    on_card = RESULTS / "h200-planners-models.json"
    if on_card.exists():
        parts["models_h200"] = planners_of_models(json.loads(on_card.read_text())["models"])
    wanted = {ROOT / name: filled(ROOT / name, parts) for name in ("README.md", "docs/results.md")}
    wanted[ROOT / "docs/chain-h200.svg"] = chart(environment, [rows[name] for name in CHAINS])
    shown = {name for path in wanted for name in re.findall(r"<!-- results: (\w+) -->", wanted[path])}
    if shown != set(parts):
        sys.exit(f"Nothing shows {', '.join(sorted(set(parts) - shown))}.")
    stale = [path for path in wanted if path.read_text() != wanted[path]]
    for path in stale:
        state = "is not what bench/results says; scripts/draw-results.py writes it" if check else "written"
        print(f"{path.relative_to(ROOT)} {state}.")
        if not check:
            path.write_text(wanted[path])
    sys.exit(1 if check and stale else 0)


main()
