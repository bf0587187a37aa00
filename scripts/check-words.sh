#!/usr/bin/env bash
# Fails where a retired identifier or phrase is used: each line of scripts/retired-words.txt is an extended regular
# expression that no source, header, shader, test, script or page may match.
#   usage: scripts/check-words.sh
set -euo pipefail
cd "$(dirname "$0")/.."

expressions=$(mktemp)
trap 'rm "$expressions"' EXIT
grep -vE '^(#|$)' scripts/retired-words.txt >"$expressions"
# What was measured and generated keeps the words of its time.
if git grep -nE -f "$expressions" -- source include shaders tests bench scripts docs examples cmake '*.md' '*.txt' \
  ':!CHANGELOG.md' ':!scripts/retired-words.txt' ':!bench/results' ':!tests/golden/*.glsl' ':!tests/golden/*.json'; then
  echo "These words are retired (scripts/retired-words.txt)." && exit 1
fi
echo "words: none of $(wc -l <"$expressions") retired ones"
