#!/usr/bin/env bash
# Random graphs by the thousand on one driver, in processes of a thousand, as a process keeps its kernels. A graph that
# a driver's compiler never comes to an end with is left and counted, not waited for: no other graph is lost for it, and
# no such graph is called right.
#   usage: scripts/graphs.sh lavapipe|swiftshader FIRST LAST [FILTER]
#     seeds; of Fuzz.Graphs unless FILTER names another suite
# PROGRAM is the test program (build/release/tests/vkfuse-test-fuzz). A graph may take SECONDS_A_GRAPH (60) of a
# processor, MEBIBYTES (6000) of memory and, beside much other work, STANDING (1800) seconds in which nothing happens.
# Ends with 1 where a graph is wrong, refused, or ends its process, and where more than one element in a hundred is
# undecided: a reference that decides nothing would pass everything.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/drivers.sh

usage() { sed -n '/^#   usage: / { N; s/^#   usage: //; s/\n#  */      /p }' scripts/graphs.sh >&2 && exit 2; }
case ${1-} in
  lavapipe | swiftshader) icd=$(icd_of "$1") ;;
  *) usage ;;
esac
[ $# -ge 3 ] || usage
driver=$1 at=$2 last=$3 filter=${4:-Fuzz.Graphs}
program=${PROGRAM:-build/release/tests/vkfuse-test-fuzz}
[ -x "$program" ] ||
  { echo "There is no $program: cmake --preset release && cmake --build --preset release" >&2; exit 2; }
export VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd VKFUSE_TEST_DRIVER=$driver VKFUSE_CHECK_SPIRV=1 VKFUSE_CACHE=off

folder=$(mktemp -d)
child=
trap '[ -z "$child" ] || kill -9 "$child" 2>/dev/null || true; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP

# Of the process, all its threads: seconds of a processor; mebibytes.
processor() {
  awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); printf "%d\n", ($12 + $13) / tick }' \
    "/proc/$child/stat" 2>/dev/null || echo 0
}
memory() {
  awk '/^VmRSS/ { found = int($2 / 1024) } END { print found + 0 }' "/proc/$child/status" 2>/dev/null || echo 0
}

# Waits for the process; where one graph takes too long, says so in $over and ends it.
over=
watch() {
  local seed= now begun=0 since=$SECONDS
  over=
  while kill -0 "$child" 2>/dev/null; do
    sleep 1
    now=$(head -n 1 "$folder/progress" 2>/dev/null || true)
    if [ "$now" != "$seed" ]; then seed=$now begun=$(processor) since=$SECONDS && continue; fi
    if [ $(($(processor) - begun)) -gt "${SECONDS_A_GRAPH:-60}" ]; then
      over="it did not end within ${SECONDS_A_GRAPH:-60} s of a processor"
    elif [ "$(memory)" -gt "${MEBIBYTES:-6000}" ]; then
      over="it took over ${MEBIBYTES:-6000} MiB"
    elif [ $((SECONDS - since)) -gt "${STANDING:-1800}" ]; then
      over="nothing happened for ${STANDING:-1800} s"
    else
      continue
    fi
    kill -9 "$child" 2>/dev/null || true
    { wait "$child" || true; } 2>/dev/null  # here, or the shell says so in the middle of the output
    return 0
  done
}

judged=0 left=() faults=() elements=0 undecided=0
while [ "$at" -le "$last" ]; do
  cases=$((last - at + 1))
  [ $cases -le 1000 ] || cases=1000
  rm -f "$folder/progress"
  VKFUSE_FUZZ_PROGRESS=$folder/progress VKFUSE_FUZZ_FIRST=$at VKFUSE_FUZZ_CASES=$cases \
    "$program" --gtest_filter="$filter" >"$folder/log" 2>&1 &
  child=$! status=0
  watch
  [ -n "$over" ] || wait "$child" || status=$?
  child=
  grep -v '^\[\|^Note\|^Running main\|^$' "$folder/log" || true
  # Seeds before the one it was at have been judged: wrong ones stand in its output.
  read -r seed <"$folder/progress" 2>/dev/null ||
    { echo "$program did not begin with seed $at: status $status." && exit 1; }
  counted=$(sed -nE '2s/.* ([0-9]+) elements, ([0-9]+) undecided.*/\1 \2/p' "$folder/progress")
  elements=$((elements + ${counted% *})) undecided=$((undecided + ${counted#* }))
  if grep -q '^\[  FAILED  \]\|^REPLAY' "$folder/log"; then
    faults+=("seeds $at to $seed: $(sed -n 's/^REPLAY: //p' "$folder/log" | tr '\n' ';')")
  fi
  if [ "$seed" = end ]; then
    judged=$((judged + cases))
    echo "seeds $at to $((at + cases - 1)): judged"
    at=$((at + cases))
    continue
  fi
  tail -n +2 "$folder/progress"
  judged=$((judged + seed - at))
  if [ -n "$over" ]; then
    left+=("$seed") && echo "Seed $seed was not judged: $over."
  else  # it died, or so many were wrong that it stopped
    judged=$((judged + 1))
    [ $status = 1 ] || faults+=("seed $seed ended its process with status $status")
  fi
  at=$((seed + 1))
done
[ $judged -le 20 ] || [ $((undecided * 100)) -le $elements ] ||
  faults+=("more than one element in a hundred is undecided")
echo "$judged graphs judged on $driver, ${#left[@]} not judged${left[*]:+: seeds ${left[*]}};" \
  "$undecided of $elements elements undecided; ${#faults[@]} faults"
[ ${#faults[@]} = 0 ] || { printf 'FAULT %s\n' "${faults[@]}" && exit 1; }
