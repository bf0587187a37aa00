#!/usr/bin/env bash
# The page of a plan in headless Chromium: its script runs to the end, what it draws is there, a click opens a segment,
# and it needs no network. Exit status 77: no browser.
#   usage: page.sh VKFUSE GRAPHS
set -euo pipefail
vkfuse=$1; graphs=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then echo "There is no Chromium on this machine, so the page is not drawn."; exit 77; fi
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; exit 1; }

# A thousand nodes: columns are summed, what is left is added to all of them, and so on.
{
  echo 'graph "a thousand </script> nodes" {'
  echo '  %0 = input "x" : f32[256, 64]'
  last=0; next=1
  for ((i = 0; i < 200; ++i)); do
    a=$next
    echo "  %$a = relu %$last : f32[256, 64]"
    echo "  %$((a + 1)) = reduce_max axes=[$((i % 2))] %$a : f32[$((i % 2 == 0 ? 64 : 256))]"
    echo "  %$((a + 2)) = reshape %$((a + 1)) : f32[$((i % 2 == 0 ? 1 : 256)), $((i % 2 == 0 ? 64 : 1))]"
    echo "  %$((a + 3)) = sub %$last %$((a + 2)) : f32[256, 64]"
    echo "  %$((a + 4)) = tanh %$((a + 3)) : f32[256, 64]"
    last=$((a + 4)); next=$((a + 5))
  done
  echo "  %$next = reduce_sum axes=[0] %$last : f32[64]"
  echo "  %$((next + 1)) = reduce_max axes=[0] %$next : f32[]"
  echo "  output \"y\" = %$last"
  echo "  output \"z\" = %$((next + 1))"
  echo '}'
} > "$files/large.vkf"

# draw NAME HASH SCRIPT: the page after the script, as $files/NAME.dom.
draw() {
  sed "s|</body>|<script>$3</script></body>|" "$files/$1.html" > "$files/drawn.html"
  timeout 100 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$files/profile" \
    --enable-logging=stderr --dump-dom "file://$files/drawn.html#$2" > "$files/$1.dom" 2> "$files/log" ||
      fail "The browser failed: $(tail -3 "$files/log")"
  grep -q 'data-drawn="yes"' "$files/$1.dom" ||
    fail "The script of the page of $1 did not end: $(grep -i 'console' "$files/log" | head -3)"
}
count() { grep -o "$2" "$files/$1.dom" | wc -l; }

for graph in "$graphs"/*.vkf "$files/large.vkf"; do
  name=$(basename "$graph" .vkf)
  "$vkfuse" plan "$graph" --format html -o "$files/$name.html"
  "$vkfuse" plan "$graph" --format json -o "$files/$name.json"
  # The namespace of SVG is a name and no address.
  ! grep -v 'http://www.w3.org/2000/svg' "$files/$name.html" | grep -q 'https\?://\|<link\|src=' ||
    fail "The page of $name asks for something else."
  draw "$name" "" ""
  wanted=$(grep -c '"kind": "\(pointwise\|reduction\|sort\|matmul\|attention\|tiled\|alias\)"' "$files/$name.json")
  [ "$(count "$name" 'data-segment="[0-9]*"')" = "$wanted" ] ||
    fail "$name has $wanted segments, and $(count "$name" 'data-segment="[0-9]*"') boxes."
  # Not in the script, nor in shaders, which speak of NaN.
  ! perl -0pe 's/<(script|pre)>.*?<\/\1>//gs' "$files/$name.dom" | grep -q 'undefined\|NaN' ||
    fail "The page of $name shows a value that is none."
done

# Measured times, of a graph that takes no time to run: in the totals, on every box, and in the panel.
"$vkfuse" plan "$graphs/bias_gelu.vkf" --format html -o "$files/timed.html" --profile --cache off
draw timed "" ""
for what in '<th>measured</th>' 'class="share measured"' 'class="share modelled"' \
  '<li>measured [0-9.]* [um]s, [0-9]'; do
  grep -q "$what" "$files/timed.dom" || fail "The page with --profile shows no $what."
done
[ "$(count timed 'class="share measured"')" = "$(count timed 'data-segment="[0-9]*"')" ] ||
  fail "Not every kernel has a measured time."
time='[0-9.]* [um]s</td></tr>'
grep -o '<tbody>.*</tbody>' "$files/timed.dom" | head -1 |
  grep -q "fused</th>.*$time<tr><th>one kernel per op</th>.*$time" ||
  fail "The totals have no measured times."
grep -q 'class="share measured"\|<th>measured</th>' "$files/large.dom" &&
  fail "A page without --profile shows measured times."
"$vkfuse" plan "$graphs/bias_gelu.vkf" --profile --cache off > "$files/timed.txt"
grep -q '^  measured us  *[0-9.]*  *[0-9.]*$' "$files/timed.txt" ||
  fail "The text with --profile shows no measured times: $(head -12 "$files/timed.txt")"

# The rewrites of a graph that were weighed, as the JSON has them; where none applies there is no table.
cat > "$files/rewrites.vkf" <<'END'
graph "rewrites" {
  %0 = input "x" : f32[384, 768]
  %1 = input "a" : f32[768, 768]
  %2 = input "b" : f32[768, 768]
  %3 = input "c" : f32[768, 256]
  %4 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f32[384, 768]
  %5 = reduce_mean axes=[1] %4 : f32[384]
  %6 = reshape %5 : f32[384, 1]
  %7 = sub %4 %6 : f32[384, 768]
  %8 = mul %7 %7 : f32[384, 768]
  %9 = reduce_mean axes=[1] %8 : f32[384]
  %10 = reshape %9 : f32[384, 1]
  %11 = sqrt %10 : f32[384, 1]
  %12 = div %7 %11 : f32[384, 768]
  %13 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %12 %2 : f32[384, 768]
  %14 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %12 %3 : f32[384, 256]
  output "y" = %13
  output "z" = %14
}
END
"$vkfuse" plan "$files/rewrites.vkf" --format html -o "$files/rewrites.html"
"$vkfuse" plan "$files/rewrites.vkf" --format json -o "$files/rewrites.json"
draw rewrites "" ""
table=$(perl -0ne 'print $1 if /<table id="rewrites">(.*?)<\/table>/s' "$files/rewrites.dom")
for rewrite in merged-matmuls partial-statistics; do
  grep -q "\"planner_pass\": \"$rewrite\"" "$files/rewrites.json" ||
    fail "The rewrite $rewrite was not weighed, so this shows nothing."
  words=$(perl -0ne '
    my ($taken) = /"planner_pass": "'$rewrite'".*?"taken": (\w+)/s;
    print $taken eq "true" ? "taken" : "not taken"' "$files/rewrites.json")
  perl -e '
    my $bytes = qr{<td>[0-9.]+ [KM]iB</td>};
    my $time = qr{<td>[0-9.]+ us</td>};
    my $pass = qr{<b>'$rewrite'</b>: [a-z]((?!<tr>).)*};
    my $verdict = qr{<td class="words"><b>'"$words"'</b>: It [^<]*\.};
    exit($ARGV[0] !~ /$pass$bytes$bytes$time$time$verdict/)' "$table" ||
    fail "The page does not say what became of the rewrite $rewrite, which was $words: $table"
done
! grep -q '<div class="scroll" hidden="">' "$files/rewrites.dom" || fail "The table of rewrites is hidden."
[ "$(grep -c '"planner_pass"' "$files/bias_gelu.json" || true)" = 0 ] || fail "A pointwise graph has a rewrite."
grep -q '<div class="scroll" hidden=""><table id="rewrites">' "$files/bias_gelu.dom" ||
  fail "A page without rewrites has a table of them."

[ "$(count large 'data-segment=')" -ge 100 ] ||
  fail "The large graph has only $(count large 'data-segment=') kernels: it shows little."
[ "$(count large 'class="edge')" -ge 100 ] || fail "Only $(count large 'class="edge') values go from kernel to kernel."
[ "$(count large 'class="op stored')" -ge 100 ] ||
  fail "Only $(count large 'class="op stored') values are marked as stored."
[ "$(grep -o 'stroke-width="[0-9.]*"' "$files/large.dom" | sort -u | wc -l)" -ge 2 ] ||
  fail "All edges are equally wide."

# A click, and the keyboard.
draw large "" "document.querySelectorAll('.segment')[7].dispatchEvent(new MouseEvent('click', {bubbles: true}));"
grep -q '<h2>Segment 7: ' "$files/large.dom" || fail "A click does not open a segment."
for what in Ops Loads Stores Schedule GLSL 'Why its border is where it is'; do
  grep -q "<h3>$what</h3>" "$files/large.dom" || fail "The segment shows no $what."
done
enter="new KeyboardEvent('keydown', {key: 'Enter', bubbles: true})"
draw large "" "document.querySelectorAll('.segment')[9].dispatchEvent($enter);"
grep -q '<h2>Segment 9: ' "$files/large.dom" || fail "Enter does not open a segment."

# Light and dark differ, by choice and by what the system prefers.
look='document.body.dataset.look = getComputedStyle(document.body).backgroundColor;'
draw large "theme=light" "$look"; light=$(grep -o 'data-look="[^"]*"' "$files/large.dom")
draw large "theme=dark" "$look"; dark=$(grep -o 'data-look="[^"]*"' "$files/large.dom")
[ -n "$light" ] && [ "$light" != "$dark" ] || fail "Light and dark look the same: $light."
