#!/usr/bin/env bash
# Every way out of a process: while kernels are measured in the background, with work on the device, from a forked
# child; and of the commands, whatever standard output, a file or a model is.
#   usage: exits.sh EXITS VKFUSE VKFUSE_BENCH [ROUNDS]      ROUNDS: how often each way is tried, at other times (1)
set -euo pipefail
exits=$1 vkfuse=$2 bench=$3 rounds=${4:-1}
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; [ ! -s "$files/err" ] || cat "$files/err" >&2; exit 1; }
# status STATUS COMMAND...: it ends with this status within 20 seconds; what it says is in $files/out and $files/err.
status() {
  local wanted=$1 code=0
  shift
  timeout 20 "$@" > "$files/out" 2> "$files/err" || code=$?
  [ "$code" = "$wanted" ] || fail "'$*' ends with $code and not $wanted."
}
# says TEXT: the last command's error is one sentence, with this in it.
says() {
  grep -qF -- "$1" "$files/err" || fail "The error does not say '$1'."
  [ "$(grep -vc '^  while ' "$files/err")" = 1 ] || fail "The error is not one sentence."
}

# --- threads, statics, children ---
seed=1
for way in return exit static leak several thread callback quick submitted child tuning-child; do
  for _ in $(seq "$rounds"); do
    seed=$((seed * 1103515245 % 2147483648 + 12345))
    status 0 "$exits" "$way" $((seed % 300000))
  done
done

# --- standard output ---
cat > "$files/small.vkf" <<'GRAPH'
graph "small" {
  %0 = input "x" : f32[4]
  %1 = exp %0 : f32[4]
  output "y" = %1
}
GRAPH
for command in "run $files/small.vkf" "plan $files/small.vkf" "glsl $files/small.vkf" "devices" \
  "--help" "--version" "run --help"; do
  code=0
  # shellcheck disable=SC2086
  timeout 60 "$vkfuse" $command > /dev/full 2> "$files/err" || code=$?
  [ $code = 1 ] || fail "'vkfuse $command > /dev/full' ends with $code."
  says "Standard output could not be written"
  code=0
  # shellcheck disable=SC2086
  timeout 60 "$vkfuse" $command >&- 2> "$files/err" || code=$?
  [ $code = 1 ] || fail "'vkfuse $command >&-' ends with $code."
done
code=0
timeout 60 "$bench" --list > /dev/full 2> "$files/err" || code=$?
[ $code = 1 ] || fail "'vkfuse-bench --list > /dev/full' ends with $code."
{
  sleep 0.2
  code=0
  timeout 60 "$vkfuse" plan "$files/small.vkf" 2> "$files/err" || code=$?
  echo $code > "$files/code"
} | true
[ "$(cat "$files/code")" = 1 ] || fail "A closed pipe ends the command with $(cat "$files/code")."
says "Standard output could not be written: Broken pipe."

# --- what is no file, or no model ---
mkfifo "$files/pipe.vkf" "$files/pipe.onnx" "$files/pipe.npy" "$files/pipe.json"
mkdir "$files/folder.vkf"
ln -s /dev/zero "$files/zero.vkf"
for file in "$files/folder.vkf" "$files/zero.vkf"; do
  status 2 "$vkfuse" run "$file"
  says "is not a regular file."
done
status 2 "$vkfuse" run "$files/pipe.vkf"; says "is not a regular file."
status 2 "$vkfuse" run "$files/pipe.onnx"; says "is not a regular file."
status 2 "$vkfuse" run "$files/small.vkf" --input "x=$files/pipe.npy"; says "is not a regular file."
status 2 "$vkfuse" run "$files/small.vkf" --plan "$files/pipe.json"; says "is not a regular file."
status 2 "$vkfuse" run "$files/small.vkf" --input x=/proc/self/maps; says "the kernel makes it"
status 2 "$bench" compare "$files/pipe.json" "$files/pipe.json"; says "is not a regular file."
status 2 "$bench" report /proc/self/maps -o "$files/page.html"; says "the kernel makes it"
reports=(
  '[]'
  '{}'
  '{"devices": []}'
  '{"devices": 3}'
  '{"environment": {"device": 3}}'
  '{"environment": {"device": "d"}, "rows": [3]}'
  '{"environment": {"device": "d"}, "rows": [{"case": 3}]}'
  '{"environment": {"device": "d"}, "rows": [{"case": "c", "fused_us": 1, "samples": {"fused": ["1"]}}]}'
  '{"environment": {"device": "d"}, "rows": [{"case": "c", "fused_us": 1, "samples": {"fused": []}}]}'
  '{"environment": {"device": "d"}, "rows": [{"case": "c", "fused_us": "1"}]}'
  '{"environment": {"device": "d"}, "rows": [{"case": "c", "fused_us": 1, "fused_n": 1e300}]}'
)
for report in "${reports[@]}"; do
  echo "$report" > "$files/report.json"
  for command in "compare $files/report.json $files/report.json" "report $files/report.json -o $files/page.html" \
    "--filter none --resume $files/report.json"; do
    # shellcheck disable=SC2086
    status 2 "$bench" $command
    says "vkfuse-bench: "
  done
done

# --- outputs ---
cat > "$files/two.vkf" <<'GRAPH'
graph "two" {
  %0 = input "x" : f32[4]
  %1 = exp %0 : f32[4]
  %2 = neg %0 : f32[4]
  output "a.b" = %1
  output "a_b" = %2
}
GRAPH
status 0 "$vkfuse" run "$files/two.vkf" --output-dir "$files/outputs"
[ "$(find "$files/outputs" -name '*.npy' | wc -l)" = 2 ] || fail "Two outputs share a file."
grep -q 'a.b is in a_b_2.npy' "$files/out" || fail "Nothing says where an output is."
status 2 "$vkfuse" plan "$files/two.vkf" -o "$files/one" --save "$files/One"; says "name one file"
status 2 "$vkfuse" plan "$files/two.vkf" -o "$files/two.vkf"; says "name one file"
status 2 "$vkfuse" validate "$files/two.vkf" --json "$files/one" --report "$files/./one"; says "name one file"
status 2 "$bench" --filter none --json "$files/one" --csv "$files/one"; says "are one"
status 2 "$vkfuse" plan "$files/two.vkf" -o /dev/full; says "No space left on device"
grep -q 'graph "two"' "$files/two.vkf" || fail "The model is written over."
[ -z "$(find "$files" -name '.vkfuse-*')" ] || fail "A file that is half-written is left."

# --- a model's own control characters ---
python3 - "$files" <<'MODEL'
import sys
def field(number, payload):
    def varint(n):
        out = b""
        while True:
            out += bytes([n & 127 | (128 if n > 127 else 0)])
            n >>= 7
            if n == 0: return out
    if isinstance(payload, int): return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload
def value(name): return field(1, name) + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 4)))))
evil = b"y\x1b]0;owned\x07\x1b[2J\xc2\x9b31m\x7f"
node = field(1, b"x") + field(2, evil) + field(4, b"Exp")
graph = field(1, node) + field(2, b"g\x1b[31m") + field(11, value(b"x")) + field(12, value(evil))
open(sys.argv[1] + "/evil.onnx", "wb").write(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
MODEL
for command in run plan glsl validate; do
  status 0 "$vkfuse" $command "$files/evil.onnx"
  cat "$files/out" "$files/err" > "$files/all"
  ! LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' "$files/all" ||
    fail "'vkfuse $command' writes control characters of a model."
  ! LC_ALL=C grep -q $'\xc2\x9b' "$files/all" || fail "'vkfuse $command' writes control characters of two bytes."
done
status 0 "$vkfuse" run "$files/evil.onnx"
grep -qF '\x1b]0;owned\x07' "$files/out" || fail "The name of the output is not shown."
