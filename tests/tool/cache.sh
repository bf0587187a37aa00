#!/usr/bin/env bash
# The store of compiled kernels as processes of a user see it.
#   usage: cache.sh VKFUSE GRAPHS
set -euo pipefail
program=$1 graphs=$2
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
export VKFUSE_CACHE=$files/store
fail() { echo "$1" >&2; exit 1; }
run() {
  "$program" run "$graphs/$1.vkf" --profile "${@:2}" > "$files/out" || fail "$1 does not run: $(cat "$files/out")"
}
says() { grep -q "$1" "$files/out" || fail "There is no '$1' in: $(cat "$files/out")"; }

# A second process compiles nothing, and computes the same.
run mixed --output-dir "$files/cold"
says 'Shaders compiled: [1-9]'
run mixed --output-dir "$files/warm"
says "Shaders compiled: 0. [1-9][0-9]* loaded from $files/store, 0 saved there."
for output in "$files"/cold/*.npy; do
  cmp "$output" "$files/warm/${output##*/}" || fail "A warm start computes something else."
done

# The command shows it and clears it.
[ "$("$program" cache path)" = "$files/store" ] || fail "The path is another one."
[ "$("$program" cache entries)" = "$(ls "$files/store" | wc -l)" ] || fail "The count of entries is wrong."
[ "$("$program" cache size)" = "$(cat "$files/store"/* | wc -c)" ] || fail "The size is wrong."
"$program" cache | grep -q "^path *$files/store" || fail "The summary has no path."
touch "$files/store/notes.txt"
"$program" cache clear | grep -q '^[1-9][0-9]* entries, [1-9][0-9]* bytes removed$' || fail "Nothing was removed."
[ "$(ls "$files/store")" = notes.txt ] || fail "Clearing leaves $(ls "$files/store")."
rm "$files/store/notes.txt"

# Options and the environment.
run mixed --cache "$files/other"
[ -n "$(ls "$files/other")" ] && [ -z "$(ls "$files/store")" ] || fail "--cache names another folder."
run mixed --cache off
says 'Shaders compiled: [1-9][0-9]*. The kernel store is switched off by an option.'
VKFUSE_CACHE=off run mixed
says 'The kernel store is switched off by VKFUSE_CACHE.'
[ -z "$(ls "$files/store")" ] || fail "A store that is off was written."
code=0; "$program" cache --cache off 2> "$files/err" || code=$?
[ $code = 2 ] && grep -q 'switched off by an option' "$files/err" || fail "A store that is off has status $code."

# A store that cannot be written, and one that others may write, are no error.
touch "$files/file"
run mixed --cache "$files/file/store"
says "The folder '$files/file/store' could not be"
mkdir -m 777 "$files/shared"
run mixed --cache "$files/shared"
says 'others than its owner may write to it.'

# Eight processes at once on an empty store, then one more that finds everything whole.
processes=()
for i in 1 2 3 4 5 6 7 8; do
  graph=mixed; [ $((i % 2)) = 0 ] || graph=bias_gelu
  "$program" run "$graphs/$graph.vkf" --output-dir "$files/$i" > /dev/null & processes+=($!)
done
for process in "${processes[@]}"; do wait "$process" || fail "One of eight processes failed."; done
for i in 1 2 3 4 5 6; do
  for output in "$files/$i"/*.npy; do
    cmp "$output" "$files/$((i + 2))/${output##*/}" || fail "Two of eight processes differ."
  done
done
for graph in mixed bias_gelu; do run $graph; says 'Shaders compiled: 0\.'; done
! ls "$files/store" | grep -vqE '^[0-9a-f]{16}\.(spirv|pipeline|probe|plan|passed)$' ||
  fail "Something else lies in the store: $(ls "$files/store")."
