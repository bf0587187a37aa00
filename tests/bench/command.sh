#!/usr/bin/env bash
# What the benchmark's command line does with files and signals.
#   usage: command.sh VKFUSE_BENCH resume|interrupt|compare|report|case|store|planners
set -euo pipefail
program=$1
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; exit 1; }
json() { python3 -c "import json,sys; d=json.load(open(sys.argv[1])); print($2)" "$1"; }
status() { local code=0; "$@" > "$files/out" 2> "$files/err" || code=$?; echo $code; }

case $2 in
  resume)
    "$program" --filter '^law unary [12] small' --json "$files/a.json" > /dev/null
    before=$(json "$files/a.json" "d['rows'][0]['fused_us']")
    "$program" --filter '^law unary [123] small' --resume "$files/a.json" > "$files/out"
    [ "$(grep -c 'was measured before' "$files/out")" = 2 ] || fail "Two rows were there and are measured again."
    [ "$(json "$files/a.json" "len(d['rows'])")" = 3 ] || fail "The resumed report has not three rows."
    [ "$(json "$files/a.json" "d['rows'][0]['fused_us']")" = "$before" ] || fail "A resumed row has another time."
    "$program" --filter '^law unary 3 small' --resume "$files/a.json" > /dev/null
    [ "$(json "$files/a.json" "len(d['rows'])")" = 3 ] || fail "Rows that were not asked for are lost."
    [ "$(status "$program" --suite full --filter '^law unary 1 small' --resume "$files/a.json")" = 2 ] || fail "A report of another suite is resumed." ;;
  interrupt)
    "$program" --suite full --json "$files/a.json" --csv "$files/a.csv" > "$files/out" &
    process=$!
    for _ in $(seq 300); do [ -s "$files/a.json" ] && break; sleep 0.1; done
    kill -INT $process
    code=0; wait $process || code=$?
    [ $code = 130 ] || fail "An interrupted run ends with status $code."
    [ "$(json "$files/a.json" "d['complete']")" = False ] || fail "An interrupted report says that it is complete."
    rows=$(json "$files/a.json" "len(d['rows'])")
    [ "$rows" -ge 1 ] && [ "$(grep -c : "$files/a.csv")" = "$rows" ] || fail "$rows rows in the JSON, and the CSV has others."
    json "$files/a.json" "1 / all(r['outcome'] == 'measured' and r['n'] > 4 for r in d['rows'])" > /dev/null || fail "A row was cut short." ;;
  compare)
    "$program" --filter '^law unary [12] small' --json "$files/a.json" > /dev/null
    # The same samples, so that a busy machine decides nothing; one row a tenth slower.
    python3 - "$files" <<'PLANT'
import json, sys
report = json.load(open(sys.argv[1] + "/a.json"))
row = report["rows"][1]
row["fused_us"] *= 1.1
row["samples"]["fused"] = [us * 1.1 for us in row["samples"]["fused"]]
json.dump(report, open(sys.argv[1] + "/b.json", "w"))
PLANT
    [ "$(status "$program" compare "$files/a.json" "$files/a.json")" = 0 ] || fail "A report is slower than itself."
    [ "$(status "$program" compare "$files/a.json" "$files/b.json" --threshold 20)" = 0 ] || fail "10 % are beyond a threshold of 20 %."
    # The interval of two real sets of samples may be wide: the threshold is the half of what was planted.
    spread=$(json "$files/a.json" "d['rows'][1]['fused_p90'] / d['rows'][1]['fused_p10']")
    code=$(status "$program" compare "$files/a.json" "$files/b.json" --threshold 5)
    if [ "$code" != 1 ]; then
      python3 -c "import sys; sys.exit(0 if $spread > 1.2 else 1)" || fail "A slowdown of 10 % is not found: $(cat "$files/out")"
      echo "The machine is too busy to see 10 %: p90 / p10 is $spread."; exit 77
    fi
    grep -q 'law_unary_2_small:f32:65536 .*SLOWER' "$files/out" || fail "Another row is called slower."
    [ "$(status "$program" compare "$files/a.json" "$files/none.json")" = 2 ] || fail "A missing file has not status 2." ;;
  planners)
    "$program" --planners --filter '^(sums of four|law unary 2 small)' --json "$files/a.json" > "$files/out" || fail "Another planner is better: $(cat "$files/out")"
    [ "$(json "$files/a.json" "[p['planner'] for p in d['rows'][0]['planners']]")" = "['bytes', 'store-all', 'recompute-all', 'greedy-io']" ] || fail "The planners are others: $(cat "$files/out")"
    json "$files/a.json" "1 / all(p['kernels'] > 0 and p['bytes'] > 0 and p['modelled_us'] > 0 and p['us']['n'] > 4 for r in d['rows'] for p in r['planners'])" > /dev/null || fail "A planner has no figures: $(cat "$files/out")"
    # By name, and not by the order of rows.
    json "$files/a.json" "1 / all(r['planners'][1]['bytes'] > r['planners'][0]['bytes'] for r in d['rows'] if r['name'].startswith('sums'))" > /dev/null || fail "Storing everything moves no more bytes: $(cat "$files/out")"
    json "$files/a.json" "1 / all(p.get('same_as') == 'bytes' for r in d['rows'] if r['name'].startswith('law') for p in r['planners'][1:])" > /dev/null || fail "Planners make different kernels of a chain: $(cat "$files/out")" ;;
  report)
    "$program" --filter '^(law unary 2 small|arithmetic)' --json "$files/a.json" --csv "$files/a.csv" --html "$files/a.html" > /dev/null
    "$program" report "$files/a.json" "$files/a.json" -o "$files/b.html"
    [ "$(wc -l < "$files/a.csv")" = 3 ] || fail "The CSV has not a head and two lines."
    grep -q 'arithmetic:f32' "$files/a.html" || fail "The page lacks a row."
    [ "$(grep -o '"case":"law_unary_2_small:f32:65536"' "$files/b.html" | wc -l)" = 2 ] || fail "Two files are not two devices on the page." ;;
  store)
    # Cold, every kernel is compiled; warm, none is; and nothing is left behind, nor in the user's own store.
    mkdir "$files/temporary" "$files/home"
    export TMPDIR=$files/temporary VKFUSE_CACHE=$files/home
    "$program" --filter '^law unary [12] small' --json "$files/a.json" --csv "$files/a.csv" --html "$files/a.html" > "$files/out"
    [ "$(json "$files/a.json" "all(r['compiler_calls_fused'] == r['kernels_fused'] for r in d['rows'])")" = True ] || fail "A cold start did not compile."
    [ "$(json "$files/a.json" "[r['compiler_calls_fused_warm'] for r in d['rows']]")" = "[0, 0]" ] || fail "A warm start called the compiler."
    for what in compile pipeline create first_run; do
      [ "$(json "$files/a.json" "all(r['${what}_ms_fused_warm'] > 0 for r in d['rows'])")" = True ] || fail "There is no warm ${what}_ms."
      head -1 "$files/a.csv" | grep -q ",${what}_ms_fused_warm," || fail "The CSV has no warm ${what}_ms."
      grep -q "row.${what}_ms_fused_warm" "$files/a.html" || fail "The page has no warm ${what}_ms."
    done
    grep -q 'cold ms warm ms$' "$files/out" || fail "The table has no columns for both starts."
    grep -qE '^law_unary_1_small:[^ ]* .* [0-9.]+ +[0-9.]+$' "$files/out" || fail "A line has not both starts: $(cat "$files/out")"
    [ -z "$(ls "$TMPDIR" "$VKFUSE_CACHE" | grep -v :)" ] || fail "Files are left: $(ls "$TMPDIR" "$VKFUSE_CACHE")"
    "$program" --check --filter '^law unary 1 small' --json "$files/b.json" > /dev/null
    [ "$(json "$files/b.json" "'compile_ms_fused_warm' in d['rows'][0]")" = False ] || fail "--check starts twice." ;;
  case)
    "$program" --case softmax:f32:8x512 > "$files/out"
    grep -q '^softmax:f32:8x512 ' "$files/out" || fail "The case that was asked for did not run."
    "$program" --filter softmax:f32:8x512 | grep -q '^softmax:f32:8x512 ' || fail "A case as a filter did not run."
    [ "$(status "$program" --case softmax:f32:8)" = 2 ] || fail "A case with too few sizes has not status 2."
    [ "$(status "$program" --case softmax:f32:1099511627776x4)" = 0 ] || fail "A case that does not fit is no skip."
    grep -q 'skipped: The case' "$files/out" || fail "A case that does not fit has no reason." ;;
esac
