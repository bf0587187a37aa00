#!/usr/bin/env bash
# Mechanisms of the planner that are switched off, and other planners, as a user names them.
#   usage: switches.sh VKFUSE
set -euo pipefail
vkfuse=$1
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; exit 1; }

# t3 = sum(t1 * t2), t4 = sum(t2 * t3), t5 = t4 + t1 * t2, where t1 and t2 are made of one input; the product is written twice.
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
  [ "$(kernels --planner $planner)" = 1 ] || fail "By the planner $planner the program is $(kernels --planner $planner) kernels."
done
[ "$(kernels --planner store-all)" -gt 1 ] || fail "Storing all that several ops read leaves one kernel."
[ "$(kernels --without fusion)" = 7 ] || fail "Without fusion the program is $(kernels --without fusion) kernels instead of 7."
for name in identities reorder triples siblings horizontal moves exact recompute memo; do
  [ "$(kernels --without $name)" = 1 ] || fail "Without $name the program is $(kernels --without $name) kernels."
done
[ "$(kernels --without vertical,triples,siblings,horizontal,moves,exact,recompute)" = 7 ] || fail "Without all that merges, something is merged."
"$vkfuse" plan "$files/seed.vkf" --without magic 2> "$files/error" && fail "An unknown mechanism is no error."
grep -q "'magic' is no mechanism to do without; there are: fusion, identities, reorder, vertical, " "$files/error" || fail "It says: $(cat "$files/error")"
"$vkfuse" plan "$files/seed.vkf" --planner magic 2> "$files/error" && fail "An unknown planner is no error."
grep -q "There is no planner 'magic'; there are: bytes, store-all, recompute-all, greedy-io." "$files/error" || fail "It says: $(cat "$files/error")"
for planner in bytes store-all recompute-all greedy-io; do
  "$vkfuse" run "$files/seed.vkf" --planner $planner > "$files/out" || fail "What the planner $planner makes does not run."
done
