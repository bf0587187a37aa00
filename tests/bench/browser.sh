#!/usr/bin/env bash
# The report page in headless Chromium: its script runs to the end, and what it draws is there. Exit status 77: no
# browser.
#   usage: browser.sh VKFUSE_BENCH REPORT.json...
set -euo pipefail
program=$1; shift
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then echo "There is no Chromium on this machine, so the page is not drawn."; exit 77; fi
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; exit 1; }

"$program" report "$@" -o "$files/page.html"
timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$files/profile" \
  --enable-logging=stderr --dump-dom "file://$files/page.html" > "$files/dom.html" 2> "$files/log" ||
    fail "The browser failed: $(tail -3 "$files/log")"
grep -q 'data-drawn="yes"' "$files/dom.html" ||
  fail "The script of the page did not end: $(grep -i 'console' "$files/log" | head -3)"
count() { grep -o "$1" "$files/dom.html" | wc -l; }
[ "$(count 'class="tile"')" = $# ] || fail "There are $(count 'class="tile"') tiles for $# reports."
[ "$(count 'class="bar main"')" -ge 10 ] || fail "Only $(count 'class="bar main"') bars of fused rows are drawn."
[ "$(count '<circle')" -ge 10 ] || fail "Only $(count '<circle') points are drawn."
! grep -q 'undefined\|NaN' <(sed '/<script>/,/<\/script>/d' "$files/dom.html") ||
  fail "The page shows a value that is none."
