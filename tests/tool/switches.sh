#!/usr/bin/env bash
# Mechanisms of the planner that are switched off, and other planners, as a user names them.
#   usage: switches.sh VKFUSE
set -euo pipefail
vkfuse=$1
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; exit 1; }

# t3 = sum(t1 * t2), t4 = sum(t2 * t3), t5 = t4 + t1 * t2, where t1 and t2 are made of one input; the product is written
# twice.
cat > "$files/seed.vkf" <<'GRAPH'
graph "seed" {
  %0 = input "x" : f32[256, 512]
  %1 = tanh %0 : f32[256, 512]
  %2 = relu %0 : f32[256, 512]
  %3 = mul %1 %2 : f32[256, 512]
  %4 = reduce_sum axes=[1] %3 : f32[256]
  %5 = reshape %4 : f32[256, 1]
  %6 = mul %2 %5 : f32[256, 512]
  %7 = reduce_sum axes=[1] %6 : f32[256]
  %8 = reshape %7 : f32[256, 1]
  %9 = mul %2 %1 : f32[256, 512]
  %10 = add %9 %8 : f32[256, 512]
  output "y" = %10
}
GRAPH
# kernels OPTIONS...
kernels() { "$vkfuse" plan "$files/seed.vkf" --format json "$@" | sed -n 's/^  "kernels": \([0-9]*\),/\1/p'; }

[ "$(kernels)" = 1 ] || fail "The program is $(kernels) kernels instead of 1."
for planner in bytes recompute-all; do
  [ "$(kernels --planner $planner)" = 1 ] ||
    fail "By the planner $planner the program is $(kernels --planner $planner) kernels."
done
[ "$(kernels --planner store-all)" -gt 1 ] || fail "Storing all that several ops read leaves one kernel."
[ "$(kernels --without fusion)" = 7 ] ||
  fail "Without fusion the program is $(kernels --without fusion) kernels instead of 7."
one_by_one=(identities reorder triples siblings horizontal moves local-search exhaustive min-cut channels-last
  merged-matmuls partial-statistics recomputed-products padded-rows rematerialization memo)
for name in "${one_by_one[@]}"; do
  [ "$(kernels --without $name)" = 1 ] || fail "Without $name the program is $(kernels --without $name) kernels."
done
merging=vertical,triples,siblings,horizontal,moves,local-search,exhaustive,min-cut,rematerialization
[ "$(kernels --without $merging)" = 7 ] ||
  fail "Without all that merges, something is merged."
# Names of version 0.1.
[ "$(kernels --without vertical,triples,siblings,horizontal,moves,windows,exact,cut,recompute)" = 7 ] ||
  fail "Old names of planner passes are not read."
for name in joined statistics; do [ "$(kernels --without $name)" = 1 ] || fail "The old name $name is not read."; done
"$vkfuse" plan "$files/seed.vkf" --half-sums --limit lane_registers=64 > "$files/out" ||
  fail "Old names of options are not read."
"$vkfuse" plan "$files/seed.vkf" --without magic 2> "$files/error" && fail "An unknown mechanism is no error."
grep -q "'magic' is no planner pass to do without; there are: fusion, identities, reorder, vertical, " "$files/error" ||
  fail "It says: $(cat "$files/error")"
# What there is to do without, this page tries: but for fusion and vertical, which are above and below, each by itself.
for name in $(sed "s/.*there are: //; s/[.,]//g" "$files/error" | head -1); do
  [[ " fusion vertical ${one_by_one[*]} " == *" $name "* ]] || fail "Nothing tries to do without $name."
done
"$vkfuse" plan "$files/seed.vkf" --planner magic 2> "$files/error" && fail "An unknown planner is no error."
grep -q "There is no planner 'magic'; there are: bytes, store-all, recompute-all, greedy-io." "$files/error" ||
  fail "It says: $(cat "$files/error")"

# A memory budget: what is read at the end is computed again, and the arena is not larger.
{
  echo 'graph "chain" {'
  echo '  %0 = input "x" : f32[64, 64]'
  for i in $(seq 1 2 15); do
    echo "  %$i = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %$((i - 1)) %0 : f32[64, 64]"
    echo "  %$((i + 1)) = tanh %$i : f32[64, 64]"
  done
  for i in $(seq 17 30); do
    [ $((i % 2)) = 1 ] && echo "  %$i = mul %$((i - 1)) %$((32 - i - 1)) : f32[64, 64]" && continue
    echo "  %$i = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %$((i - 1)) %0 : f32[64, 64]"
  done
  echo '  output "y" = %30'
  echo '}'
} > "$files/chain.vkf"
# arena OPTIONS...
arena() { "$vkfuse" plan "$files/chain.vkf" --format json "$@" | sed -n 's/^  "arena_bytes_fused": \([0-9]*\),/\1/p'; }
half=$(($(arena) / 2))
[ "$(arena --memory-budget $half)" -le "$half" ] || fail "The arena is larger than its budget of $half bytes."
"$vkfuse" plan "$files/chain.vkf" --memory-budget $half --save "$files/plan.json" > "$files/saved.txt"
grep -q "^memory budget: $half bytes" "$files/saved.txt" && grep -q " again: segment " "$files/saved.txt" ||
  fail "The plan does not say what is computed again."
"$vkfuse" plan "$files/chain.vkf" --plan "$files/plan.json" > "$files/loaded.txt"
cmp "$files/saved.txt" "$files/loaded.txt" || fail "A plan under a budget that is read is not the one that was saved."
"$vkfuse" validate "$files/chain.vkf" --memory-budget $half > "$files/out" || fail "Within a budget results are wrong."
"$vkfuse" plan "$files/chain.vkf" --memory-budget 1KiB 2> "$files/error" && fail "A budget of 1 KiB is met."
grep -q "in the smallest plan that was found, and the memory budget is 1024 bytes.$" "$files/error" ||
  fail "It says: $(cat "$files/error")"
for budget in -5 0 much 1.5; do
  "$vkfuse" plan "$files/chain.vkf" "--memory-budget=$budget" 2> "$files/error" && fail "A budget of $budget is taken."
  grep -q "'--memory-budget $budget' is no number of bytes, as 4096 or 512MiB are.$" "$files/error" ||
    fail "It says: $(cat "$files/error")"
done

# A plan goes to a file and comes back: kernels are those of the planner that made it, and not of the one here.
"$vkfuse" plan "$files/seed.vkf" --planner store-all --save "$files/plan.json" > "$files/saved.txt"
"$vkfuse" plan "$files/seed.vkf" --plan "$files/plan.json" > "$files/loaded.txt"
cmp "$files/saved.txt" "$files/loaded.txt" || fail "The plan that is read is not the one that was saved."
"$vkfuse" run "$files/seed.vkf" --plan "$files/plan.json" > "$files/out" || fail "The plan that was saved does not run."
grep -q ": $(kernels --planner store-all) kernels" "$files/out" ||
  fail "It runs otherwise than planned: $(head -1 "$files/out")"
"$vkfuse" run "$files/seed.vkf" > "$files/planned"
[ "$(tail -n +2 "$files/out")" = "$(tail -n +2 "$files/planned")" ] ||
  fail "By the plan that was saved, other numbers come out: $(diff "$files/out" "$files/planned")"
# refused WHAT SENTENCE: the file is one sentence about it, and nothing runs.
refused() {
  "$vkfuse" run "$files/seed.vkf" --plan "$files/bad.json" > "$files/out" 2> "$files/error" &&
    fail "A plan that is $1 runs."
  [ "$(wc -l < "$files/error")" -le 3 ] && grep -q "$2" "$files/error" ||
    fail "Of a plan that is $1 it says: $(cat "$files/error")"
}
sed 's/"workgroup": [0-9]*/"workgroup": 1/' "$files/plan.json" > "$files/bad.json"
refused changed "The plan was changed after it was saved"
head -c 300 "$files/plan.json" > "$files/bad.json"
refused "cut off" "This is not a plan that vkfuse has saved: it is not JSON."
: > "$files/bad.json"
refused empty "is an empty file."
rm "$files/bad.json"
refused missing "There is no file"
sed 's/tanh/sin/' "$files/seed.vkf" > "$files/other.vkf"
"$vkfuse" plan "$files/other.vkf" --save "$files/bad.json" > "$files/out"
refused "of another graph" "The plan is of the graph 'seed'"
"$vkfuse" plan "$files/seed.vkf" --limit max_invocations=64 --save "$files/bad.json" > "$files/out"
refused "of another device" "The plan is for the device"

# Code of one's own in a file: it runs, is not validated, and is a sentence where it is wrong.
cat > "$files/own.vkf" <<'GRAPH'
graph "own" {
  %0 = input "x" : f32[8, 64]
  %1 = custom name="swish" code="x0 / (1.0 + exp(-x0))" ulps=16 cost=8 %0 : f32[8, 64]
  %2 = relu %1 : f32[8, 64]
  output "y" = %2
}
GRAPH
only_allowed="Line 3: the op 'custom' holds code of the text's own, which runs only where the caller allows it"
for command in run plan glsl; do
  "$vkfuse" $command "$files/own.vkf" 2> "$files/error" > "$files/out" &&
    fail "Code that a file brings along is taken by $command without being allowed."
  grep -q "$only_allowed" "$files/error" ||
    fail "It says: $(cat "$files/error")"
done
"$vkfuse" run "$files/own.vkf" --allow-custom > "$files/out" && grep -q ': 1 kernel$' "$files/out" ||
  fail "Code of one's own does not run in one kernel: $(cat "$files/out")"
"$vkfuse" validate "$files/own.vkf" > "$files/out" &&
  fail "Code that a file brings along is validated without being allowed."
grep -q "^skipped own.vkf: Line 3: the op 'custom' holds code" "$files/out" || fail "It says: $(cat "$files/out")"
"$vkfuse" validate "$files/own.vkf" --allow-custom > "$files/out" && fail "What nothing is known of is validated."
grep -q "^skipped own.vkf: The custom op 'swish' has no host function" "$files/out" ||
  fail "It says: $(cat "$files/out")"
sed -i 's/exp(-x0)/expp(-x0)/' "$files/own.vkf"
"$vkfuse" run "$files/own.vkf" --allow-custom 2> "$files/error" && fail "Code that does not compile runs."
grep -q "The code of the custom op 'swish' does not compile: line 1, 'x0 / (1.0 + expp(-x0))': 'expp'" "$files/error" ||
  fail "It says: $(cat "$files/error")"

for planner in bytes store-all recompute-all greedy-io; do
  "$vkfuse" run "$files/seed.vkf" --planner $planner > "$files/out" ||
    fail "What the planner $planner makes does not run."
done
