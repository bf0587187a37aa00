#!/usr/bin/env bash
# The command of Windows under Wine: names in UTF-8, what it prints and writes byte by byte, long paths, and names that
# Windows has for devices.
#   usage: windows.sh VKFUSE GRAPHS      VKFUSE: a script that runs vkfuse.exe
set -euo pipefail
vkfuse=$1 graphs=$2
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; exit 1; }
# refused SENTENCE ARGUMENT...: it ends with 2 and says so.
refused() {
  local code=0
  "$vkfuse" "${@:2}" > "$files/out" 2> "$files/err" || code=$?
  [ $code = 2 ] || fail "'${*:2}' ends with $code and not 2."
  grep -qF -- "$1" "$files/err" || fail "It says: $(cat "$files/err")"
}

"$vkfuse" devices > "$files/devices" || fail "Devices are not listed."
grep -q llvmpipe "$files/devices" || fail "lavapipe is not listed: $(cat "$files/devices")"
"$vkfuse" devices --json | python3 -c 'import json, sys; sys.exit(not json.load(sys.stdin))' || fail "That is no JSON."

# Names that are no ASCII, with blanks and more characters than the limit of old programs, 260.
folder="$files/größe & 模型"
for part in 1 2 3 4; do folder+="/$(printf '%080d' $part)"; done
mkdir -p "$folder"
cp "$graphs/bias_gelu.vkf" "$folder/größe.vkf"
"$vkfuse" run "$graphs/bias_gelu.vkf" --output-dir "$files/plain" > "$files/out" || fail "It does not run."
"$vkfuse" run "$folder/größe.vkf" --output-dir "$folder/größe" > "$files/out" || fail "A long name does not run."
[ -n "$(ls "$files/plain")" ] || fail "Nothing is written."
diff -r "$files/plain" "$folder/größe" || fail "Another name computes something else."
windows_path="Z:${folder//\//\\}\\größe.vkf"
"$vkfuse" plan "$windows_path" > "$files/printed" || fail "A path with a drive is not read."
"$vkfuse" plan "$folder/größe.vkf" -o "$folder/Größe.txt" > "$files/out" || fail "A plan is not written."
cmp "$files/printed" "$folder/Größe.txt" || fail "What is printed and what is written differ."
! grep -q $'\r' "$files/printed" || fail "Lines end in a carriage return."
refused "There is no file 'größe 模.vkf'." plan "größe 模.vkf"
refused "name one file" plan "$folder/größe.vkf" --save "$files/One" -o "$files/oNE"
refused "name one file" plan "$windows_path" -o "$folder/größe.vkf"

# NUL takes what is written, and no file of that name appears.
"$vkfuse" plan "$graphs/bias_gelu.vkf" -o NUL > "$files/out" || fail "NUL cannot be written."
[ ! -e NUL ] || fail "NUL became a file."
refused "'NUL' is not a regular file." run "$graphs/bias_gelu.vkf" --input x=NUL
cat > "$files/devices.vkf" <<'GRAPH'
graph "devices" {
  %0 = input "x" : f32[4]
  %1 = exp %0 : f32[4]
  output "nul" = %1
}
GRAPH
"$vkfuse" run "$files/devices.vkf" --output-dir "$files/outputs" > "$files/out" || fail "An output 'nul' is lost."
[ -s "$files/outputs/nul_.npy" ] || fail "There is $(ls "$files/outputs") and no nul_.npy."

# Status and standard output of a pipe that closes.
{ "$vkfuse" plan "$graphs/bias_gelu.vkf" 2> "$files/err" && echo 0 > "$files/code" || echo $? > "$files/code"; } | true
[ "$(cat "$files/code")" = 1 ] || fail "A closed pipe ends the command with $(cat "$files/code")."
grep -q "Standard output could not be written" "$files/err" || fail "It says: $(cat "$files/err")"
