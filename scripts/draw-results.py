#!/usr/bin/env python3
"""Draws the rows of a vkfuse-bench JSON file as bars against the device's own copy speed.
usage: scripts/draw-results.py bench/results/h200-chain.json > docs/chain-h200.svg"""
import json
import sys

LEFT, WIDTH, BAR, GAP, TOP = 170, 520, 13, 14, 64


def bar(y, percent, colour, label):
    length = WIDTH * min(percent, 115) / 115
    return (f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
            f'<text x="{LEFT + length + 5:.1f}" y="{y + BAR - 2}" class="small">{label}</text>')


def main():
    result = json.load(open(sys.argv[1]))
    rows, parts, y = result["rows"], [], TOP
    for row in rows:
        copy = row["copy_us"]
        fused, unfused = 100 * copy / row["fused_us"], 100 * copy / row["unfused_us"]
        parts.append(f'<text x="{LEFT - 8}" y="{y + BAR + 3}" text-anchor="end">{row["name"]}</text>')
        parts.append(bar(y, fused, "#2a78d6", f'{fused:.0f} %  {row["kernels_fused"]} kernel{"s" if row["kernels_fused"] > 1 else ""}'))
        parts.append(bar(y + BAR + 2, unfused, "#9aa4b2", f'{unfused:.0f} %  {row["kernels_unfused"]} kernels'))
        y += 2 * BAR + 2 + GAP
    line = LEFT + WIDTH * 100 / 115
    device = f'{result["environment"]["device"]}, {result["environment"]["driver"]}'
    print(f'''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {y + 8}" font-family="sans-serif" font-size="13">
<style>text {{ fill: #1c2430 }} .small {{ font-size: 11px }}</style>
<rect width="800" height="{y + 8}" fill="#ffffff"/>
<text x="16" y="24" font-size="15" font-weight="bold">Speed relative to copying the same bytes: {device}</text>
<rect x="16" y="36" width="11" height="11" fill="#2a78d6"/><text x="32" y="46" class="small">fused</text>
<rect x="82" y="36" width="11" height="11" fill="#9aa4b2"/><text x="98" y="46" class="small">one kernel per op</text>
<line x1="{line:.1f}" y1="{TOP - 8}" x2="{line:.1f}" y2="{y - 4}" stroke="#1c2430" stroke-dasharray="3 3"/>
<text x="{line:.1f}" y="{TOP - 12}" text-anchor="middle" class="small">copy</text>
{chr(10).join(parts)}
</svg>''')


main()
