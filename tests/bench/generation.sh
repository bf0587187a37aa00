#!/usr/bin/env bash
# The suite of generation: a dense model and a mixture of experts read prompts and generate, a model that is made wrong
# is found, and what cannot be run is one sentence.
#   usage: generation.sh VKFUSE_BENCH lavapipe|swiftshader
set -euo pipefail
program=$1
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; cat "$files/out" "$files/err" >&2; exit 1; }
suite() { "$program" --suite generation --tokens 4 --prompt 32 "$@" > "$files/out" 2> "$files/err"; }
status() { local code=0; suite "$@" || code=$?; echo $code; }

case $2 in
  lavapipe) rows=(--model qwen3-4b,qwen3-30b-a3b --weights float8,mxfp4) ;;
  swiftshader) rows=(--model gemma2-9b --weights int8) ;;
esac
[ "$(status "${rows[@]}" --prompt 48 --json "$files/a.json")" = 0 ] || fail "A model is wrong."
python3 - "$files/a.json" "$2" <<'CHECK' || fail "The report is not as it should be."
import json, sys
rows = json.load(open(sys.argv[1]))["models"]
assert len(rows) == (8 if sys.argv[2] == "lavapipe" else 2), len(rows)
for row in rows:
    assert row["right"] and row["prompt"] in (32, 48) and row["tokens"] == 4, row
    assert row["token_ms"] > 0 and row["prompt_s"] > 0 and 0 < row["of_bytes"], row
    assert row["kernels"] > row["kernels_a_layer"] > 3 and row["bytes_a_token"] > 0.3 * row["weight_bytes"], row
CHECK
awk 'length > 80 { exit 1 }' "$files/out" || fail "A line is longer than 80 characters."
[ "$2" = lavapipe ] || exit 0
code=$(VKFUSE_BENCH_SPOIL=qwen3-4b status --model qwen3-4b --weights f16)
[ "$code" = 1 ] && grep -q 'WRONG: steps and prompts differ' "$files/out" || fail "A spoiled model is right."
[ "$(status --model llama-8b --shrink 1 --layers 999)" = 2 ] && grep -q 'layers fit\.$' "$files/err" ||
  fail "A model that does not fit is not refused."
[ "$(status --model llama-8b --prompt 33)" = 2 ] && grep -q 'chunks have 16 or more\.$' "$files/err" ||
  fail "Prompts without a common chunk are read."
[ "$(status --model llama-9b)" = 2 ] && grep -q 'llama-9b not in' "$files/err" || fail "An unknown model is run."
