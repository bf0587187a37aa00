#!/usr/bin/env bash
# The example that generates tokens: twice the same ones, in chunks of any length, other ones of another seed, and what
# it refuses.
#   usage: generate.sh PROGRAM
set -euo pipefail
program=$1
small=(--width 64 --inner 96 --vocabulary 256 --capacity 64 --prompt 21 --tokens 12)
tokens() { "$program" "${small[@]}" "$@" | sed -n 's/^tokens: //p'; }

first=$(tokens)
[ "$(wc -w <<<"$first")" = 12 ] || { echo "'$first' is not 12 tokens." >&2 && exit 1; }
[ "$(tokens)" = "$first" ] || { echo "Another run has other tokens." >&2 && exit 1; }
[ "$(tokens --chunk 5)" = "$first" ] || { echo "Chunks of 5 give other tokens than chunks of 16." >&2 && exit 1; }
[ "$(tokens --seed 2)" != "$first" ] || { echo "Another seed has the same tokens." >&2 && exit 1; }

sampled=$(tokens --temperature 1.2 --top-k 50 --top-p 0.95 --min-p 0.01 --penalty 1.1)
[ "$(wc -w <<<"$sampled")" = 12 ] || { echo "'$sampled' is not 12 tokens." >&2 && exit 1; }
again=$(tokens --temperature 1.2 --top-k 50 --top-p 0.95 --min-p 0.01 --penalty 1.1)
[ "$again" = "$sampled" ] || { echo "The same seed draws other tokens." >&2 && exit 1; }

refused() {
  local words=$1
  shift
  if "$program" "${small[@]}" "$@" >/dev/null 2>"${TMPDIR:-/tmp}/generate.$$"; then
    echo "Not refused: $*" >&2 && exit 1
  fi
  local said
  said=$(cat "${TMPDIR:-/tmp}/generate.$$")
  rm -f "${TMPDIR:-/tmp}/generate.$$"
  [[ $said == *"$words"* ]] || { echo "It says '$said', and not '$words'." >&2 && exit 1; }
}
refused "The prompt has 60 tokens and 12 are to follow, but the cache holds 64 positions." --prompt 60
refused "positions fit." --layers 4000 --width 8192 --heads 8 --key-heads 8 --capacity 60000000
refused "There is no option '--tempo'." --tempo 1
