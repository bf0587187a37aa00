#!/usr/bin/env bash
# One command, every driver of the machine: each case on each, as a page and as JSON.
#   usage: validate.sh VKFUSE GRAPHS DRIVERS      GRAPHS: a folder; DRIVERS: how many there are
set -euo pipefail
vkfuse=$1 graphs=$2 drivers=$3
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; cat "$files/printed" >&2; exit 1; }
count() { grep -o -- "$1" "$2" | wc -l; }

# An odd length: its last vector is one of a part.
cat > "$files/odd.vkf" <<'GRAPH'
graph "odd" {
  %0 = input "x" : f32[7, 33]
  %1 = exp %0 : f32[7, 33]
  %2 = reduce_sum axes=[0] %1 : f32[33]
  output "y" = %1
  output "sums" = %2
}
GRAPH
"$vkfuse" validate --device all "$graphs/bias_gelu.vkf" "$files/odd.vkf" \
  --report "$files/page.html" --json "$files/results.json" > "$files/printed" ||
  fail "It ended with $?."
grep -qx "$((2 * drivers)) passed, 0 failed, 0 skipped" "$files/printed" ||
  fail "Not every case passed on every driver."
[ "$(count '<h2>' "$files/page.html")" = "$drivers" ] || fail "The page has $(count '<h2>' "$files/page.html") devices."
[ "$(count '"verdict": "passed"' "$files/results.json")" = $((2 * drivers)) ] || fail "The JSON has other verdicts."
[ "$(grep -o '"uuid": "[0-9a-f]*"' "$files/results.json" | sort -u | wc -l)" = "$drivers" ] ||
  fail "The JSON has other devices."

"$vkfuse" validate --device all --report /nowhere/page.html "$files/odd.vkf" > "$files/printed" 2>&1 &&
  fail "A page that cannot be written is no error."
grep -q '/nowhere/page.html' "$files/printed" || fail "The error does not name the file."

# ONNX's own data, and a file of it that is wrong: the last element of an output is 9.
case=/usr/share/libonnx-testdata/data/node/test_exp
if [ -d "$case" ]; then
  cp -r "$case" "$files/exp" && chmod -R u+w "$files/exp"
  "$vkfuse" validate "$files/exp" --json "$files/results.json" > "$files/printed" ||
    fail "A case of ONNX ended with $?."
  tr -s '\n ' ' ' < "$files/printed" | grep -q 'error / tolerance of files [0-9]' ||
    fail "The line does not say how far the output is from its file."
  output=$files/exp/test_data_set_0/output_0.pb
  printf '\x00\x00\x10\x41' | dd of="$output" bs=1 seek=$(($(stat -c %s "$output") - 4)) conv=notrunc status=none
  "$vkfuse" validate "$files/exp" --report "$files/page.html" --json "$files/results.json" > "$files/printed" &&
    fail "A file that is wrong is not seen."
  tr -s '\n ' ' ' < "$files/printed" | grep -q 'but the file says 9\.' ||
    fail "The line does not say what the file says."
  [ "$(grep -c '^    \.*[1-9#]$' "$files/printed")" = 1 ] || fail "The map does not show the last element."
  grep -q 'background:rgba(214,0,40' "$files/page.html" || fail "The page has no map."
  grep -q '"max_error_over_tolerance": [0-9]' "$files/results.json" || fail "The JSON does not say how far it is off."
fi
