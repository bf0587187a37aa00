#!/usr/bin/env bash
# What the benchmark's command line does with files and signals.
#   usage: command.sh VKFUSE_BENCH resume|interrupt|compare|report|case|store|planners|terminal|limits|devices|
#                               peak|submit|models
set -euo pipefail
program=$1
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; exit 1; }
json() { python3 -c "import json,sys; d=json.load(open(sys.argv[1])); print($2)" "$1"; }
holds() { json "$1" "1 / ($2)" > /dev/null; }
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
    [ "$(status "$program" --suite full --filter '^law unary 1 small' --resume "$files/a.json")" = 2 ] ||
      fail "A report of another suite is resumed." ;;
  interrupt)
    "$program" --suite full --filter "^law" --json "$files/a.json" --csv "$files/a.csv" > "$files/out" &
    process=$!
    for _ in $(seq 300); do [ -s "$files/a.json" ] && break; sleep 0.1; done
    kill -INT $process
    code=0; wait $process || code=$?
    [ $code = 130 ] || fail "An interrupted run ends with status $code."
    [ "$(json "$files/a.json" "d['complete']")" = False ] || fail "An interrupted report says that it is complete."
    rows=$(json "$files/a.json" "len(d['rows'])")
    [ "$rows" -ge 1 ] && [ "$(grep -c : "$files/a.csv")" = "$rows" ] ||
      fail "$rows rows in the JSON, and the CSV has others."
    holds "$files/a.json" "all(r['outcome'] == 'measured' and r['n'] >= r['visits'] >= 1 for r in d['rows'])" ||
      fail "A row was cut short."
    # What is in the file is in the table, and what has not had all its visits says so and is measured again.
    for case in $(json "$files/a.json" "' '.join(r['case'] for r in d['rows'])"); do
      grep -q "^$case " "$files/out" || fail "The table of an interrupted run lacks $case: $(cat "$files/out")"
    done
    first=$(json "$files/a.json" "d['rows'][0]['name']")
    [ "$(json "$files/a.json" "d['rows'][0]['unfinished']")" = True ] ||
      fail "A row that was left after one visit does not say so."
    "$program" --suite full --filter "^$first\$" --resume "$files/a.json" > "$files/out"
    ! grep -q 'was measured before' "$files/out" || fail "A row that was left after one visit is not measured again."
    finished="d['complete'] and 'unfinished' not in d['rows'][0] and d['rows'][0]['visits'] > 1"
    [ "$(json "$files/a.json" "$finished")" = True ] ||
      fail "A resumed row is still unfinished." ;;
  compare)
    "$program" --filter '^law unary [12] small' --json "$files/a.json" > /dev/null
    # Samples within 2 % of what was measured, so that a busy machine decides nothing; and one row a tenth slower.
    python3 - "$files" <<'PLANT'
import json, sys
report = json.load(open(sys.argv[1] + "/a.json"))
for row in report["rows"]:
    row["samples"]["fused"] = [row["fused_us"] * (0.98 + 0.01 * (i % 5)) for i in range(len(row["samples"]["fused"]))]
json.dump(report, open(sys.argv[1] + "/a.json", "w"))
row = report["rows"][1]
row["fused_us"] *= 1.1
row["samples"]["fused"] = [us * 1.1 for us in row["samples"]["fused"]]
json.dump(report, open(sys.argv[1] + "/b.json", "w"))
PLANT
    [ "$(status "$program" compare "$files/a.json" "$files/a.json")" = 0 ] || fail "A report is slower than itself."
    [ "$(status "$program" compare "$files/a.json" "$files/b.json" --threshold 20)" = 0 ] ||
      fail "10 % are beyond a threshold of 20 %."
    [ "$(status "$program" compare "$files/a.json" "$files/b.json" --threshold 5)" = 1 ] ||
      fail "A slowdown of 10 % is not found: $(cat "$files/out")"
    grep -q 'law_unary_2_small:f32:65536 .*SLOWER' "$files/out" || fail "Another row is called slower."
    [ "$(status "$program" compare "$files/a.json" "$files/none.json")" = 2 ] ||
      fail "A missing file has not status 2." ;;
  terminal)
    # What a terminal of so many columns shows of a run: lines as they stay.
    shown() {
      python3 - "$1" "${@:2}" <<'TERMINAL'
import fcntl, os, pty, re, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
text = b""
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:
        break
    if not more: break
    text += more
for line in text.decode().replace("\r\n", "\n").split("\n"): print(line.split("\r")[-1])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
TERMINAL
    }
    shown 80 "$program" --filter '^law unary 2 small' > "$files/out" ||
      fail "A run on a terminal fails: $(cat "$files/out")"
    [ "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' "$files/out")" = 80 ] ||
      fail "A terminal of 80 columns has other lines: $(cat "$files/out")"
    grep -q '^case  *kernels fused us op by op per node copy peak$' "$files/out" ||
      fail "The head is another: $(cat "$files/out")"
    grep -q '^law_unary_2_small:f32:65536  *1/2/2 ' "$files/out" || fail "The row is not shown: $(cat "$files/out")"
    shown 95 "$program" --filter '^law unary 2 small' > "$files/out"
    grep -q ' per node copy peak GB/s error$' "$files/out" ||
      fail "95 columns do not show bytes a second, and the error."
    shown 80 "$program" --wide --filter '^law unary 2 small' > "$files/out"
    grep -q ' cold ms warm ms$' "$files/out" || fail "--wide does not show all columns." ;;
  limits)
    least=(--limit max_invocations=128 --limit max_workgroup_x=128 --limit shared_memory_bytes=16KiB
      --limit storage_buffers=4 --limit storage_range=128MiB)
    "$program" "${least[@]}" --disable T1 --filter '^(softmax f16|sums of four|law unary 2 small)' --check \
      --json "$files/a.json" > "$files/out" ||
      fail "A row is wrong on a device with less: $(cat "$files/out")"
    holds "$files/a.json" "len(d['rows']) >= 3 and all(r['outcome'] == 'checked' for r in d['rows'])" ||
      fail "A row was not checked: $(cat "$files/out")"
    limits="d['environment']['limits']"
    holds "$files/a.json" "$limits['max_invocations'] == 128 and $limits['storage_buffers'] == 4" ||
      fail "The report has other limits."
    [ "$(json "$files/a.json" "d['environment']['feature_tiers']['T1'] == 'yes'")" = False ] ||
      fail "T1 was to be done without."
    "$program" "${least[@]}" --case softmax:f16:8x512 > "$files/out" && grep -q '^softmax:f16:8x512 ' "$files/out" ||
      fail "Nothing is timed on a device with less: $(cat "$files/out")"
    [ "$(status "$program" --limit storage_bufers=4 --list)" = 0 ] &&
      [ "$(status "$program" --limit storage_bufers=4 --check --case softmax:f32:8x512)" = 2 ] ||
      fail "A limit that is none is taken." ;;
  devices)
    "$program" --device all --filter '^law unary [12] small' \
      --json "$files/a.json" --csv "$files/a.csv" --html "$files/a.html" > "$files/out"
    devices=$(json "$files/a.json" "len(d['devices'])")
    two_rows="all(len(one['rows']) == 2 and one['environment']['device'] for one in d['devices'])"
    [ "$(json "$files/a.json" "$two_rows")" = True ] ||
      fail "A device has not two rows."
    [ "$(wc -l < "$files/a.csv")" = $((1 + 2 * devices)) ] &&
      [ "$(grep -c '^law_unary_1_small:' "$files/out")" = "$devices" ] ||
      fail "$devices devices, and the CSV or the table have others."
    "$program" --device all --filter '^law unary [123] small' --resume "$files/a.json" > "$files/out"
    [ "$(grep -c 'was measured before' "$files/out")" = $((2 * devices)) ] ||
      fail "What every device has is measured again: $(cat "$files/out")"
    [ "$(status "$program" --device nobodys)" = 2 ] && grep -q nobodys "$files/err" ||
      fail "A device that is not there has not status 2." ;;
  planners)
    "$program" --planners --filter '^(sums of four|law unary 2 small)' --json "$files/a.json" > "$files/out" ||
      fail "Another planner is better: $(cat "$files/out")"
    planners=$(json "$files/a.json" "[p['planner'] for p in d['rows'][0]['planners']]")
    [ "$planners" = "['bytes', 'store-all', 'recompute-all', 'greedy-io']" ] ||
      fail "The planners are others: $(cat "$files/out")"
    figures="p['kernels'] > 0 and p['bytes'] > 0 and p['modelled_us'] > 0 and p['us']['n'] > 4"
    holds "$files/a.json" "all($figures for r in d['rows'] for p in r['planners'])" ||
      fail "A planner has no figures: $(cat "$files/out")"
    # By name, and not by the order of rows.
    more="r['planners'][1]['bytes'] > r['planners'][0]['bytes']"
    holds "$files/a.json" "all($more for r in d['rows'] if r['name'].startswith('sums'))" ||
      fail "Storing everything moves no more bytes: $(cat "$files/out")"
    chains="r for r in d['rows'] if r['name'].startswith('law')"
    holds "$files/a.json" "all(p.get('same_as') == 'bytes' for r in [$chains] for p in r['planners'][1:])" ||
      fail "Planners make different kernels of a chain: $(cat "$files/out")" ;;
  report)
    "$program" --filter '^(law unary 2 small|arithmetic)' \
      --json "$files/a.json" --csv "$files/a.csv" --html "$files/a.html" > /dev/null
    "$program" report "$files/a.json" "$files/a.json" -o "$files/b.html"
    [ "$(wc -l < "$files/a.csv")" = 3 ] || fail "The CSV has not a head and two lines."
    grep -q 'arithmetic:f32' "$files/a.html" || fail "The page lacks a row."
    [ "$(grep -o '"case":"law_unary_2_small:f32:65536"' "$files/b.html" | wc -l)" = 2 ] ||
      fail "Two files are not two devices on the page." ;;
  store)
    # Cold, every kernel is compiled; warm, none is; and nothing is left behind, nor in the user's own store.
    mkdir "$files/temporary" "$files/home"
    export TMPDIR=$files/temporary VKFUSE_CACHE=$files/home
    "$program" --filter '^law unary [12] small' \
      --json "$files/a.json" --csv "$files/a.csv" --html "$files/a.html" > "$files/out"
    [ "$(json "$files/a.json" "all(r['compiler_calls_fused'] == r['kernels_fused'] for r in d['rows'])")" = True ] ||
      fail "A cold start did not compile."
    [ "$(json "$files/a.json" "[r['compiler_calls_fused_warm'] for r in d['rows']]")" = "[0, 0]" ] ||
      fail "A warm start called the compiler."
    for what in compile pipeline create first_run; do
      [ "$(json "$files/a.json" "all(r['${what}_ms_fused_warm'] > 0 for r in d['rows'])")" = True ] ||
        fail "There is no warm ${what}_ms."
      head -1 "$files/a.csv" | grep -q ",${what}_ms_fused_warm," || fail "The CSV has no warm ${what}_ms."
      grep -q "row.${what}_ms_fused_warm" "$files/a.html" || fail "The page has no warm ${what}_ms."
    done
    grep -q 'cold ms warm ms$' "$files/out" || fail "The table has no columns for both starts."
    grep -qE '^law_unary_1_small:[^ ]* .* [0-9.]+ +[0-9.]+$' "$files/out" ||
      fail "A line has not both starts: $(cat "$files/out")"
    [ -z "$(ls "$TMPDIR" "$VKFUSE_CACHE" | grep -v :)" ] || fail "Files are left: $(ls "$TMPDIR" "$VKFUSE_CACHE")"
    "$program" --check --filter '^law unary 1 small' --json "$files/b.json" > /dev/null
    [ "$(json "$files/b.json" "'compile_ms_fused_warm' in d['rows'][0]")" = False ] || fail "--check starts twice." ;;
  models)
    # A part of a network is checked, and a replay of it is timed: a run's time, in every file and on the page.
    "$program" --case encoder_197:f16:1x65x1 --case matmul_m129:f16:65x64x32 --json "$files/a.json" \
      --csv "$files/a.csv" --html "$files/a.html" > "$files/out" || fail "A row is wrong: $(cat "$files/out")"
    row="d['rows'][0]"
    holds "$files/a.json" "$row['fused_replay_n'] > 0 and 0.1 < $row['fused_replay_us'] / $row['fused_us'] < 10" ||
      fail "The time of a replay is not that of a run: $(cat "$files/out")"
    grep -q ',fused_replay_us,' "$files/a.csv" && grep -q 'row.fused_replay_us' "$files/a.html" ||
      fail "A replay is missing in a file."
    row="d['rows'][1]"
    speed="$row['operations'] / $row['fused_us'] / (2 * 128 * 64 * 32 / $row['beside_us'])"
    holds "$files/a.json" "$row['beside'] == 'matmul_m129:f16:128x64x32 128s' and 'fused_replay_us' not in $row" ||
      fail "An odd size is beside another: $(cat "$files/out")"
    holds "$files/a.json" "abs(100 * $speed / $row['beside_percent'] - 1) < 1e-3" ||
      fail "The speed beside is another: $(cat "$files/out")"
    # What the device computes from other data than the reference is wrong, though one kernel per op is as wrong.
    for row in 'encoder 197 f16' 'vision 197 f16'; do
      out=$(VKFUSE_BENCH_SPOIL=$row "$program" --check --filter "^$row$") && fail "A spoiled '$row' is right: $out"
      echo "$out" | grep -q 'WRONG: .*With one kernel per op' || fail "A spoiled '$row' is not wrong: $out"
    done
    # What no tile divides is no power of two where less of it is run, either.
    "$program" --check --filter '^attention 4097 by 64 ' > "$files/out" &&
      grep -qE '^attention_4097_by_64:f16:[0-9]+x[0-9]+x[0-9]*[13579]x64 ' "$files/out" ||
      fail "An odd size has become even: $(cat "$files/out")"
    # What only its name asks for is part of no suite.
    "$program" --list > "$files/list"
    grep -q '^encoder 4097 f16 *models *named ' "$files/list" || fail "A row that is named is not marked."
    ! grep -q '^encoder 577 f16 *models *named ' "$files/list" || fail "A row of the full suite is named." ;;
  peak)
    # What the device has is measured, what it lacks has a reason, and both are in the table.
    "$program" --filter peak --json "$files/a.json" > "$files/out"
    holds "$files/a.json" "len(d['peaks']) == 8 and d['rows'] == []" ||
      fail "There are not eight peaks: $(cat "$files/out")"
    for name in 'fma f32' 'mad i32'; do
      holds "$files/a.json" "any(p['instruction'] == '$name' and p['gops'] > 0.1 for p in d['peaks'])" ||
        fail "Every device has $name: $(cat "$files/out")"
    done
    fine="p['outcome'] == 'measured' and p['peak_n'] > 4 or p['outcome'] == 'skipped' and p['detail']"
    holds "$files/a.json" "all($fine for p in d['peaks'])" ||
      fail "A peak is neither measured nor skipped with a reason: $(cat "$files/out")"
    [ "$(grep -cE '^peak .*( [0-9.]+ Gop/s| skipped: .+)$' "$files/out")" = 8 ] ||
      fail "The table has not eight lines of peaks: $(cat "$files/out")"
    rate="p['operations'] / p['peak_us'] / 1e3 / p['gops']"
    holds "$files/a.json" "all(abs($rate - 1) < 1e-3 for p in d['peaks'] if p['outcome'] == 'measured')" ||
      fail "A rate is not its operations over its time."
    # A kernel that makes fewer products than are counted is found, and has no rate.
    for name in 'fma f32' 'mad i32'; do
      [ "$(VKFUSE_BENCH_SPOIL=$name status "$program" --filter "^peak $name" --json "$files/b.json")" = 1 ] &&
        grep -q "^peak $name *WRONG: .* stored [0-9]* instead of [0-9]*" "$files/out" ||
        fail "Products of $name that were not made are not missed: $(cat "$files/out")"
      holds "$files/b.json" "'gops' not in d['peaks'][0]" || fail "A wrong peak has a rate."
    done
    # A row is put beside the peak of what it is made of, which is measured with it.
    "$program" --case softmax:f32:128x1024 --json "$files/b.json" --csv "$files/b.csv" > "$files/out"
    holds "$files/b.json" "[p['instruction'] for p in d['peaks']] == ['fma f32']" ||
      fail "A row of f32 is put beside other peaks: $(cat "$files/out")"
    # Long enough for the clock of a busy machine, which told of 0 us for a shorter one.
    share="r['peak_percent'] * r['fused_us'] * 1e3 * d['peaks'][0]['gops']"
    holds "$files/b.json" "all(abs($share - 100 * r['operations']) <= 0.1 * r['operations'] for r in d['rows'])" ||
      fail "The share of the peak is another: $(cat "$files/b.json")"
    limit="r['peak_of'] == 'fma f32' and r['limit'] in ('memory', 'arithmetic')"
    holds "$files/b.json" "all($limit for r in d['rows'])" || fail "The row does not say what bounds it."
    columns=,copy_percent,peak_percent,peak_of,beside,beside_us,beside_percent,limit,
    head -1 "$files/b.csv" | grep -q "$columns" || fail "The CSV has no peaks."
    # Going on with a report takes its peaks over, and a check times nothing.
    "$program" --case softmax:f32:8x512 --resume "$files/b.json" > "$files/out"
    grep -q '^peak fma f32 .* Gop/s, as before$' "$files/out" || fail "A peak is measured again: $(cat "$files/out")"
    "$program" --check --filter '^peak fma f32' --json "$files/c.json" > "$files/out"
    holds "$files/c.json" "d['peaks'][0]['outcome'] == 'checked' and 'gops' not in d['peaks'][0]" ||
      fail "A check times a peak: $(cat "$files/out")"
    "$program" --list --filter '^peak' | grep -q '^peak matrix bf16 *peak ' || fail "--list shows no peaks."
    # What the program is, and what it can read of the device.
    facts="d['environment']['build']['compiler'] and d['environment']['shaderc']['identity']"
    holds "$files/a.json" "bool($facts)" || fail "The report does not say what was built."
    for key in core_mhz memory_mhz celsius watts; do
      holds "$files/a.json" "'$key' in d['environment']['sensors_before']" ||
        fail "The report has no $key, not even null."
    done ;;
  submit)
    "$program" --filter '^law unary [12] small' --json "$files/a.json" > /dev/null
    (cd "$files" && "$program" submit a.json > out)
    name=$(sed 's/:.*//' "$files/out")
    [[ $name =~ ^submission-[a-z0-9-]+\.json$ ]] || fail "The submission is called '$name'."
    [ "$(wc -c < "$files/$name")" -lt 20000 ] || fail "A submission of two rows has $(wc -c < "$files/$name") bytes."
    one="d['runs'][0]"
    holds "$files/$name" "d['format'] == 'vkfuse-bench submission' and d['version'] == 1" ||
      fail "The format is another."
    holds "$files/$name" "len($one['rows']) == 2 and all(r['us'] > 0 for r in $one['rows'])" || fail "Rows are missing."
    holds "$files/$name" "$one['peaks'][0]['gops'] > 0 and bool($one['device']['name'])" || fail "The peak is missing."
    # The scoreboard reads it.
    mkdir "$files/in" && cp "$files/$name" "$files/in"
    python3 -B "$(dirname "$0")/../../scripts/scoreboard.py" "$files/in" "$files/board" > "$files/out" ||
      fail "The scoreboard does not take a submission: $(cat "$files/out")"
    grep -q 'law_unary_2_small:f32:65536' "$files"/board/[!i]*.html || fail "The scoreboard lacks a row."
    # Without a file it makes a run, with the options that measure.
    [ "$(status "$program" submit --filter '^law unary 1 small' -o "$files/b.json")" = 0 ] ||
      fail "A submission without a file fails: $(cat "$files/err")"
    holds "$files/b.json" "len($one['rows']) == 1" || fail "It has other rows than were asked for."
    # What cannot be submitted is refused with one sentence.
    "$program" --check --filter '^law unary 1 small' --json "$files/c.json" > /dev/null
    sed 's/"fused_us": .*/"fused_us": 0,/' "$files/a.json" > "$files/d.json"
    for file in c d none; do
      [ "$(status "$program" submit "$files/$file.json" -o "$files/e.json")" = 2 ] && [ ! -e "$files/e.json" ] &&
        [ "$(wc -l < "$files/err")" = 1 ] && grep -q "$file.json" "$files/err" ||
        fail "$file.json is not refused with one sentence: $(cat "$files/err")"
    done
    [ "$(status "$program" submit "$files/a.json" -o "$files/a.json")" = 2 ] || fail "A report is written over." ;;
  case)
    "$program" --case softmax:f32:8x512 > "$files/out"
    grep -q '^softmax:f32:8x512 ' "$files/out" || fail "The case that was asked for did not run."
    "$program" --filter softmax:f32:8x512 | grep -q '^softmax:f32:8x512 ' || fail "A case as a filter did not run."
    [ "$(status "$program" --case softmax:f32:8)" = 2 ] || fail "A case with too few sizes has not status 2."
    [ "$(status "$program" --case softmax:f32:1099511627776x4)" = 0 ] || fail "A case that does not fit is no skip."
    grep -q 'skipped: The case' "$files/out" || fail "A case that does not fit has no reason." ;;
esac
