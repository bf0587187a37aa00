#!/usr/bin/env python3
"""A scoreboard as static pages: of a folder of submissions (vkfuse-bench submit) and of reports (vkfuse-bench --json).
usage: scripts/scoreboard.py FOLDER OUT [--title TEXT]

Writes OUT/index.html, devices by groups of rows, and a page for each device. The pages ask no other machine for
anything and run no script. A file that is neither a submission nor a report, or that has no times, is left out with a
sentence; one that is malformed makes the exit status 1, one that cannot be written or a folder without times 2."""

import argparse
import html
import json
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scoreboard_data import Malformed, NoTimes, geometric_mean, read_runs  # noqa: E402

# Groups as the board shows them. Those of the last line measure launches and arithmetic, and are on pages of devices.
GROUPS = ["chain", "view", "norm", "reduce", "scan", "gather", "planner", "matmul", "attention", "conv"]
GROUPS += ["odd", "epilogue", "models"]
ASIDE = ["law", "limit"]
TYPES = {"cpu": "software", "discrete": "discrete", "integrated": "integrated", "virtual": "virtual"}

STYLE = """
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --ink: #17202b; --soft: #5a6675; --line: #dde2e9; --track: #edf0f4; --copy: #2f7fd8;
  --copy-bar: #cfe3fa; --peak: #b8610b; --peak-bar: #fbe0c2; --gain: #16835d; --gain-bar: #cdeedd; --alarm: #b3261e; }
@media (prefers-color-scheme: dark) { :root {
  --page: #11151b; --card: #191f28; --ink: #e7ebf1; --soft: #9aa6b5; --line: #2d3642; --track: #232b36; --copy: #6cb0fa;
  --copy-bar: #1f3f63; --peak: #f3a55a; --peak-bar: #573714; --gain: #57c797; --gain-bar: #17442f; --alarm: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 20px 16px 40px; }
h1 { font-size: 25px; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 2px; }
p { margin: 2px 0 10px; color: var(--soft); max-width: 92ch; }
a { color: inherit; text-decoration-color: var(--copy); text-underline-offset: 3px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
section { padding: 14px 16px; margin: 14px 0; }
.scroll { overflow-x: auto; }
.board { font-variant-numeric: tabular-nums; display: flex; flex-direction: column; }
.line { display: grid; grid-template-columns: var(--columns); border-top: 1px solid var(--line); }
.line.head { border-top: 0; order: -1; color: var(--soft); font-size: 13px; }
.line > * { padding: 5px 8px; text-align: right; }
.line > :first-child { text-align: left; }
.line.head > * { padding: 2px 8px 4px; align-self: end; }
label { cursor: pointer; font-weight: 600; }
label:hover { text-decoration: underline; }
input.sort { position: absolute; opacity: 0; pointer-events: none; }
.cell { position: relative; margin: 2px; border-radius: 4px; background: var(--track); padding: 3px 7px !important; }
.cell { min-width: 62px; }
.cell b { position: absolute; inset: 0 auto 0 0; border-radius: 4px; }
.cell span { position: relative; font-weight: 600; }
.cell small { position: relative; display: block; font-size: 11px; line-height: 1.2; color: var(--soft); }
.copy b { background: var(--copy-bar); }
.peak b { background: var(--peak-bar); } .gain b { background: var(--gain-bar); }
.none { color: var(--soft); }
.device { font-weight: 600; overflow-wrap: anywhere; }
.device small, small.under { display: block; color: var(--soft); font-weight: 400; font-size: 12px; }
.device small, small.under { overflow-wrap: anywhere; }
.badge { font-size: 11px; font-weight: 600; border: 1px solid var(--line); border-radius: 9px; padding: 1px 7px; }
.badge { color: var(--soft); white-space: nowrap; }
.badge.software { border-style: dashed; }
.alarm { color: var(--alarm); font-weight: 600; }
code { font: 12px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; color: var(--soft); }
pre { overflow-x: auto; background: var(--track); border-radius: 6px; padding: 8px 10px; margin: 6px 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 6px 0 0; font-size: 13.5px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 14px; }
.two section { margin: 0; } .stack { display: grid; gap: 14px; align-content: start; }
svg { width: 100%; min-width: 620px; height: auto; display: block; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg .roof { stroke: var(--ink); fill: none; stroke-width: 1.5; }
svg .memory { fill: var(--copy); } svg .arithmetic { fill: var(--peak); } svg .launch { fill: var(--soft); }
svg circle { fill-opacity: .75; stroke: var(--card); }
.key { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px; color: var(--soft); }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 6px; margin-right: 6px; }
"""


def escape(text):
    """Names and texts are what strangers wrote."""
    return html.escape(str(text), quote=True)


def percent(value):
    return "" if value is None else f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def times(value):
    return "" if value is None else f"{value:.2f}x" if value < 9.95 else f"{value:.0f}x"


def quantity(value):
    """Three digits that count."""
    if value is None:
        return ""
    if value >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def rate(gops):
    """Operations a second; `gops` in 10^9."""
    if gops is None:
        return ""
    return f"{quantity(gops / 1000)} T" if gops >= 1000 else f"{quantity(gops)} G"


def counted(number, word):
    return f"{number} {word}{'' if number == 1 else 's'}"


class Measure:
    """A figure of a row, of which a board shows the geometric means."""

    def __init__(self, name, title, text, of, show, full):
        self.name, self.title, self.text, self.of, self.show, self.full = name, title, text, of, show, full


MEASURES = [
    Measure(
        "copy",
        "Rows that memory bounds: share of the device's own copy",
        "Bytes of the row's inputs and outputs a second, over what a copy of as many bytes moves on the same device in "
        "the same turns. 100 % is as fast as copying.",
        lambda row: row.copy_percent if row.limit == "memory" else None,
        percent,
        100,
    ),
    Measure(
        "peak",
        "Rows that arithmetic bounds: share of the device's own instruction peak",
        "Operations of the row a second, over what the fastest instruction for its products makes in registers, "
        "measured in the same run. No number: the run has measured no peaks, or no row of the group is bound by "
        "arithmetic there.",
        lambda row: row.peak_percent if row.limit == "arithmetic" else None,
        percent,
        100,
    ),
    Measure(
        "gain",
        "What fusing gains over one kernel for each op of a framework",
        "The time of one kernel for each op of a framework, where softmax, a norm or GELU is one op, over the fused "
        "time.",
        lambda row: row.gain_over_framework,
        times,
        8,
    ),
]


def mean_of(rows, measure):
    """The geometric mean, and of how many rows."""
    values = [value for value in map(measure.of, rows) if value is not None]
    return geometric_mean(values), len(values)


def cell(kind, value, text, below="", full=100.0, title=""):
    if value is None:
        return f'<div class="cell none" title="{escape(title)}">–</div>'
    width = min(100.0, 100.0 * value / full)
    small = f"<small>{escape(below)}</small>" if below else ""
    return (
        f'<div class="cell {kind}" title="{escape(title)}"><b style="width:{width:.1f}%"></b>'
        f"<span>{escape(text)}</span>{small}</div>"
    )


class Board:
    """Lines under a head whose columns sort them: with radio buttons and `order`, without a script."""

    def __init__(self, name, columns, widths):
        """`widths`: of each column, the least in pixels, and its share of what is left."""
        self.name, self.columns, self.lines = name, columns, []
        tracks = " ".join(f"minmax({least}px,{share}fr)" for least, share in widths)
        self.style = f"--columns:{tracks};min-width:{sum(least for least, _ in widths)}px"

    def add(self, cells, keys):
        """A key is a number, the largest first; a text, from a on; or None, which comes last."""
        self.lines.append((cells, keys))

    def ranks(self, column):
        """The place of each line where that column sorts."""

        def key(index):
            value = self.lines[index][1][column]
            if value is None:
                return (1, 0, "", index)
            return (0, 0, value, index) if isinstance(value, str) else (0, -value, "", index)

        order = sorted(range(len(self.lines)), key=key)
        return {index: rank for rank, index in enumerate(order)}

    def html(self):
        ranks = [self.ranks(column) for column in range(len(self.columns))]
        inputs, rules, heads = [], [], []
        for column, (text, title) in enumerate(self.columns):
            name = f"{self.name}-{column}"
            inputs.append(f'<input class="sort" type="radio" name="{self.name}" id="{name}">')
            rules.append(
                f"#{name}:checked ~ .scroll .line:not(.head) {{ order: var(--o{column}); }} "
                f"#{name}:checked ~ .scroll [for={name}] {{ color: var(--ink); text-decoration: underline; }}"
            )
            heads.append(f'<label for="{name}" title="{escape(title)}">{escape(text)}</label>')
        lines = []
        for index, (cells, _) in enumerate(self.lines):
            places = ";".join(f"--o{column}:{rank[index]}" for column, rank in enumerate(ranks))
            lines.append(f'<div class="line" style="{places}">{"".join(cells)}</div>')
        return (
            f"<style>{' '.join(rules)}</style>{''.join(inputs)}"
            f'<div class="scroll"><div class="board" style="{self.style}">'
            f'<div class="line head">{"".join(heads)}</div>{"".join(lines)}</div></div>'
        )


def badge(device):
    kind = TYPES.get(device.type, device.type)
    return f'<span class="badge {"software" if device.type == "cpu" else ""}">{escape(kind)}</span>'


def device_cell(device, link=True):
    name = escape(device.name)
    shown = f'<a href="{escape(device.file)}">{name}</a>' if link else name
    return f'<div class="device">{shown} {badge(device)}<small>{escape(device.run.driver)}</small></div>'


def board_of(devices, measure, groups):
    columns = [("device", "Sort by name"), ("all", "Sort by the mean of all rows")]
    columns += [(group, f"Sort by the group {group}") for group in groups]
    board = Board(measure.name, columns, [(230, 3)] + [(72, 1)] * (len(groups) + 1))
    for device in devices:
        cells, keys = [device_cell(device)], [device.name.lower()]
        for group in [None, *groups]:
            rows = [row for row in device.run.timed if row.group in ([group] if group else GROUPS)]
            value, count = mean_of(rows, measure)
            title = f"{device.name}, {group or 'all groups'}: geometric mean of {counted(count, 'row')}"
            cells.append(cell(measure.name, value, measure.show(value), counted(count, "row"), measure.full, title))
            keys.append(value)
        board.add(cells, keys)
    return board.html()


def overview(devices):
    """What each device is, and how fast it copies and multiplies."""
    instructions = ["fma f32", "fma f16x2", "matrix f16", "matrix bf16", "matrix i8", "dot i8x4"]
    known = [name for name in instructions if any(name in device.run.peaks for device in devices)]
    columns = [("device", "Sort by name"), ("copy GB/s", "Read and written together")]
    columns += [(name, f"Operations a second of {name}") for name in known]
    columns += [("rows", "Rows with a time"), ("suite", ""), ("vkfuse", ""), ("measured", "Day of the run")]
    board = Board("devices", columns, [(230, 3)] + [(78, 1)] * (len(columns) - 1))
    for device in devices:
        run = device.run
        wrong = f'<small class="under alarm">{len(run.wrong)} wrong</small>' if run.wrong else ""
        cells = [device_cell(device), f"<div>{quantity(run.copy_gb_s)}</div>"]
        cells += [f"<div>{rate(run.peaks.get(name)) or '–'}</div>" for name in known]
        commit = f'<small class="under">{escape(run.commit)}</small>' if run.commit else ""
        cells += [
            f"<div>{len(run.timed)}{wrong}</div>",
            f"<div>{escape(run.suite)}</div>",
            f"<div>{escape(run.vkfuse)}{commit}</div>",
            f"<div>{escape(run.day) or '–'}</div>",
        ]
        keys = [device.name.lower(), run.copy_gb_s, *[run.peaks.get(name) for name in known]]
        board.add(cells, [*keys, float(len(run.timed)), run.suite, run.vkfuse, run.day or None])
    return board.html()


def page(title, body):
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def index_page(title, devices, left_out):
    used = [group for group in GROUPS if any(row.group == group for device in devices for row in device.run.timed)]
    software = sum(device.type == "cpu" for device in devices)
    rows = sum(len(device.run.timed) for device in devices)
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{counted(len(devices), 'device')}, {software} of them software, {counted(rows, 'row')} with times. Every "
        "output was compared with a reference before it was timed. Numbers are geometric means of the rows of a group; "
        "a head sorts by its column. Rows shrink on smaller devices, so compare shares, not times.</p>",
    ]
    for measure in MEASURES:
        groups = [group for group in used if any(mean_of(device.run.of(group), measure)[1] for device in devices)]
        if groups:
            body.append(
                f"<section><h2>{escape(measure.title)}</h2><p>{escape(measure.text)}</p>"
                f"{board_of(devices, measure, groups)}</section>"
            )
    body.append(
        "<section><h2>Devices</h2><p>What they copy and multiply in a second, measured in the same run: products and "
        "additions in registers, two operations each.</p>" + overview(devices) + "</section>"
    )
    body.append(
        "<section><h2>Add a device</h2><p>Nothing is installed and nothing is sent; the second command writes a small "
        "file to be attached to an issue.</p><pre><code>./vkfuse-bench --suite full --json result.json\n"
        "./vkfuse-bench submit result.json</code></pre></section>"
    )
    if left_out:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in left_out)
        body.append(f"<details><summary>{counted(len(left_out), 'file')} left out</summary><ul>{items}</ul></details>")
    return page(title, "\n".join(body))


def facts(device):
    """Of the run, as terms and descriptions."""
    run = device.run
    pairs = [
        ("device", f"{device.name}, {TYPES.get(device.type, device.type)}"),
        ("driver", run.driver),
        ("Vulkan", run.api),
        ("vkfuse", " ".join(filter(None, [run.vkfuse, run.commit and f"commit {run.commit}"]))),
        ("built by", run.compiler),
        ("shaderc", run.shaderc),
        ("host", run.host),
        ("clocks, power", run.sensors),
        ("measured", " ".join(filter(None, [run.time, f"suite {run.suite}"]))),
        ("command", run.command),
        ("file", run.file),
    ]
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(text)}</dd>" for key, text in pairs if text)
    return f"<section><h2>Run</h2><dl>{items}</dl></section>"


def peaks_section(run):
    if not run.peaks:
        return (
            "<section><h2>Instruction peaks</h2><p>This run has measured none: it is of vkfuse-bench before they were "
            "there.</p></section>"
        )
    most = max(run.peaks.values())
    lines = "".join(
        f'<div class="line"><div>{escape(name)}</div>{cell("peak", gops, rate(gops) + "op/s", "", most)}</div>'
        for name, gops in sorted(run.peaks.items(), key=lambda item: -item[1])
    )
    missing = "".join(f"<p>{escape(name)}: {escape(reason)}</p>" for name, reason in run.peaks_missing.items())
    return (
        "<section><h2>Instruction peaks</h2><p>Independent chains of products in registers; what they store is "
        "compared with their count.</p>"
        f'<div class="board" style="--columns:minmax(120px,1fr) 3fr">{lines}</div>{missing}</section>'
    )


class Scale:
    """Logarithmic, from an interval to pixels."""

    def __init__(self, low, high, start, end):
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value):
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + (self.end - self.start) * part

    def ticks(self):
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        return [10.0**power for power in range(first, last + 1)]


def axes(x, y):
    parts = []
    for value in x.ticks():
        parts.append(f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{y.end}" y2="{y.start}"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{y.start + 16}" text-anchor="middle">{value:g}</text>')
    for value in y.ticks():
        parts.append(f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text x="{x.start - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{rate(value)}</text>')
    middle = (x.start + x.end) / 2
    parts.append(f'<text x="{middle}" y="{y.start + 34}" text-anchor="middle">operations per byte</text>')
    return "".join(parts)


def levels(run, x, y):
    """A line for each peak. Names of lines that are close to each other are side by side."""
    parts, labels = [], []
    for name, gops in sorted(run.peaks.items(), key=lambda item: item[1]):
        left = max(x.low, gops / run.copy_gb_s)
        if left >= x.high:
            continue
        height = y(gops)
        parts.append(f'<path class="roof" d="M{x(left):.1f},{height:.1f}H{x.end}"/>')
        if labels and labels[-1][0] - height < 13:
            labels[-1] = (height, f"{labels[-1][1]}; {name}")
        else:
            labels.append((height, name))
    for height, text in labels:
        parts.append(f'<text x="{x.end}" y="{height - 4:.1f}" text-anchor="end">{escape(text)}</text>')
    return "".join(parts)


def roofline(run):
    """Rows by what they compute for each byte, under what the device copies and multiplies."""
    rows = [row for row in run.timed if row.operations and row.bytes and row.group != "law"]
    if len(rows) < 2 or not run.copy_gb_s:
        return ""
    points = [(row, row.operations / row.bytes, row.operations / row.us * 1e-3) for row in rows]
    low, high = min(point[1] for point in points) / 1.6, max(point[1] for point in points) * 1.6
    top = max([*run.peaks.values(), *(point[2] for point in points)]) * 1.8
    bottom = min(min(point[2] for point in points), run.copy_gb_s * low) / 1.6
    x, y = Scale(low, high, 62, 1090), Scale(bottom, top, 330, 14)
    parts = [axes(x, y)]
    parts.append(levels(run, x, y))
    ridge = min(high, top / run.copy_gb_s)
    start, end = y(run.copy_gb_s * low), y(run.copy_gb_s * ridge)
    parts.append(f'<path class="roof" d="M{x(low):.1f},{start:.1f}L{x(ridge):.1f},{end:.1f}"/>')
    for row, per_byte, gops in points:
        title = f"{row.case}: {rate(gops)}op/s, {per_byte:.3g} operations per byte"
        parts.append(
            f'<circle class="{row.limit}" cx="{x(per_byte):.1f}" cy="{y(gops):.1f}" r="4.5">'
            f"<title>{escape(title)}</title></circle>"
        )
    return (
        "<section><h2>Roofline</h2>"
        '<div class="key"><span><i style="background:var(--copy)"></i>memory bounds it</span>'
        '<span><i style="background:var(--peak)"></i>arithmetic bounds it</span>'
        '<span><i style="background:var(--soft)"></i>launching bounds it</span></div>'
        f'<div class="scroll"><svg viewBox="0 0 1100 370" role="img" aria-label="roofline">{"".join(parts)}</svg></div>'
        "</section>"
    )


def row_line(board, position, row, run):
    below = f'<small class="under"><code>{escape(run.command_of(row))}</code></small>'
    if row.us is None:
        alarm = "alarm" if row.outcome in ("wrong", "failed") else "none"
        text = f"{escape(row.outcome)}: {escape(row.detail)}"
        rest = f'<div class="{alarm}" style="grid-column:2/-1;text-align:left">{text}</div>'
        board.add([f"<div>{escape(row.case)}{below}</div>", rest], [row.case, row.group, *[None] * 5])
        return
    spread = f"{quantity(row.p10)} to {quantity(row.p90)}" if row.p10 and row.p90 else ""
    limit = {"memory": "copy", "arithmetic": "peak"}.get(row.limit)
    cells = [
        f"<div>{escape(row.case)}{below}</div>",
        f"<div>{escape(row.group)}</div>",
        f'<div>{quantity(row.us)}<small class="under">{spread}</small></div>',
        cell("copy" if limit == "copy" else "", row.copy_percent, percent(row.copy_percent), "copy"),
        cell("peak" if limit == "peak" else "", row.peak_percent, percent(row.peak_percent), row.peak_of or ""),
        cell("gain", row.gain_over_framework, times(row.gain_over_framework), "ops", 8),
        cell("gain", row.gain_over_unfused, times(row.gain_over_unfused), "nodes", 8),
    ]
    keys = [row.case, f"{GROUPS.index(row.group) if row.group in GROUPS else 99:02}{position:04}", -row.us]
    board.add(cells, [*keys, row.copy_percent, row.peak_percent, row.gain_over_framework, row.gain_over_unfused])


def rows_section(run):
    columns = [
        ("case", "Sort by name"),
        ("group", "Sort by group, as the program has them"),
        ("us", "The median, and from the 10th to the 90th of 100; the fastest first"),
        ("of copy", "Share of the device's own copy; coloured where memory bounds the row"),
        ("of peak", "Share of the fastest instruction's peak; coloured where arithmetic bounds the row"),
        ("over ops", "Gain over one kernel for each op of a framework"),
        ("over nodes", "Gain over one kernel for each node of the graph"),
    ]
    board = Board("rows", columns, [(300, 4), (84, 1), (112, 1), *[(88, 1)] * 4])
    for position, row in enumerate(run.rows):
        row_line(board, position, row, run)
    return (
        "<section><h2>Rows</h2><p>Times of one run by the device's clock, in microseconds. Below a case is the command "
        f"that measures it alone.</p>{board.html()}</section>"
    )


def runs_section(device):
    if len(device.runs) < 2:
        return ""
    columns = [(name, "") for name in ("file", "measured", "vkfuse", "suite", "rows")]
    columns += [(one.name, one.title) for one in MEASURES]
    board = Board("runs", columns, [(220, 2), *[(84, 1)] * 7])
    for run in device.runs:
        means = [mean_of([row for row in run.timed if row.group in GROUPS], measure)[0] for measure in MEASURES]
        cells = [f"<div>{escape(run.file)}{' (shown above)' if run is device.run else ''}</div>"]
        cells += [f"<div>{escape(text) or '–'}</div>" for text in (run.day, run.vkfuse, run.suite, len(run.timed))]
        cells += [cell(one.name, mean, one.show(mean), "", one.full) for one, mean in zip(MEASURES, means)]
        board.add(cells, [run.file, run.day or None, run.vkfuse, run.suite, float(len(run.timed)), *means])
    return (
        "<section><h2>All runs of this device</h2><p>Shown above is the one with the most rows, and of those the "
        f"latest. Means of different rows do not compare.</p>{board.html()}</section>"
    )


def device_page(title, device):
    run = device.run
    board = Board(
        "groups",
        [("group", ""), *[(measure.name, measure.title) for measure in MEASURES], ("rows", "")],
        [(96, 1), *[(76, 1)] * 3, (52, 0.5)],
    )
    for group in GROUPS + ASIDE:
        rows = run.of(group)
        if rows:
            means = [mean_of(rows, measure)[0] for measure in MEASURES]
            cells = [f"<div>{escape(group)}</div>"]
            cells += [cell(one.name, mean, one.show(mean), "", one.full) for one, mean in zip(MEASURES, means)]
            board.add([*cells, f"<div>{len(rows)}</div>"], [group, *means, float(len(rows))])
    body = [
        f'<p><a href="index.html">{escape(title)}</a></p><h1>{escape(device.name)} {badge(device)}</h1>',
        f"<p>{escape(run.driver)}</p>",
        f'<div class="two"><section><h2>By group</h2><p>Geometric means.</p>{board.html()}</section>'
        f'<div class="stack">{peaks_section(run)}{facts(device)}</div></div>',
        roofline(run),
        rows_section(run),
        runs_section(device),
    ]
    return page(f"{device.name} – {title}", "\n".join(body))


class DeviceEntry:
    """All runs of one device, and the one that is shown: the one with the most rows, of those the latest."""

    def __init__(self, name, kind):
        self.name, self.type, self.runs, self.file = name, kind, [], ""

    @property
    def run(self):
        return max(self.runs, key=lambda run: (len(run.timed), run.time, run.file))


def devices_of(runs):
    """Hardware first, then by name of what leads the first board."""
    devices = {}
    for run in runs:
        devices.setdefault((run.device, run.type), DeviceEntry(run.device, run.type)).runs.append(run)
    taken = {"index"}
    for device in devices.values():
        stem = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")[:60] or "device"
        name, number = stem, 2
        while name in taken:
            name, number = f"{stem}-{number}", number + 1
        taken.add(name)
        device.file = f"{name}.html"

    def rank(device):
        mean = mean_of([row for row in device.run.timed if row.group in GROUPS], MEASURES[0])[0]
        return (device.type == "cpu", -(mean or 0), device.name)

    return sorted(devices.values(), key=rank)


def read_folder(folder):
    """Runs, and two lists of sentences: about files without times, and about malformed ones."""
    runs, without, malformed = [], [], []
    for path in sorted(folder.glob("*.json")):
        try:
            runs += read_runs(path)
        except NoTimes as reason:
            without.append(str(reason))
        except Malformed as reason:
            malformed.append(str(reason))
    return runs, without, malformed


def main():
    parser = argparse.ArgumentParser(description="Static pages of submissions and reports of vkfuse-bench.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--title", default="vkfuse scoreboard")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        sys.exit(f"scoreboard.py: '{arguments.folder}' is no folder.")
    runs, without, malformed = read_folder(arguments.folder)
    for sentence in without + malformed:
        print(f"scoreboard.py: {sentence}", file=sys.stderr)
    if not runs:
        print(f"scoreboard.py: The folder '{arguments.folder}' holds no run with times.", file=sys.stderr)
        return 2
    devices = devices_of(runs)
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "index.html").write_text(index_page(arguments.title, devices, without + malformed), "utf-8")
        for device in devices:
            (arguments.out / device.file).write_text(device_page(arguments.title, device), "utf-8")
    except OSError as error:
        print(f"scoreboard.py: The pages cannot be written to '{arguments.out}': {error.strerror}.", file=sys.stderr)
        return 2
    print(f"{arguments.out / 'index.html'}: {counted(len(devices), 'device')}, {counted(len(runs), 'run')}")
    return 1 if malformed else 0


if __name__ == "__main__":
    sys.exit(main())
