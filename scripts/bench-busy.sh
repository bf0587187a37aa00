#!/usr/bin/env bash
# Runs the quick suite twice while a process of another session keeps one core busy, and says by how much what fusing
# gains differs between the two. Exit status 1: a row differs by more than a quarter. The driver is whatever
# VK_ICD_FILENAMES says.
#   usage: scripts/bench-busy.sh [vkfuse-bench [folder for the two results]]
set -euo pipefail
program=${1:-build/release/vkfuse-bench}
files=${2:-$(mktemp -d)}
mkdir -p "$files"
setsid bash -c 'while :; do :; done' &
neighbour=$!
trap 'kill $neighbour' EXIT
for run in 1 2; do "$program" --suite quick --json "$files/busy-$run.json" > "$files/busy-$run.txt"; done
python3 - "$files/busy-1.json" "$files/busy-2.json" <<'COMPARE'
import json, sys
def measured(path):
    return {row["case"]: row for row in json.load(open(path))["rows"] if row["outcome"] == "measured"}
one, two = map(measured, sys.argv[1:])
worst = []
for case in one.keys() & two.keys():
    for over in ("unfused", "framework"):
        a, b = (rows[case].get(f"gain_over_{over}") for rows in (one, two))
        if a and b: worst.append((max(a / b, b / a), case, over, a, b))
worst.sort(reverse=True)
for ratio, case, over, a, b in worst[:8]:
    print(f"{case:<32} over {over:<9} {a:7.2f} {b:7.2f}  {100 * ratio - 100:4.0f} %")
far = len({case for ratio, case, *_ in worst if ratio > 1.25})
median = worst[len(worst) // 2][0]
print(f"{len(one)} rows, {far} of them more than 25 % apart; "
      f"half of the {len(worst)} ratios less than {100 * median - 100:.1f} %")
sys.exit(far > 0)
COMPARE
