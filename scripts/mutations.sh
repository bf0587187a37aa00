#!/usr/bin/env bash
# Plants each fault of source/base/mutations.hpp in turn and shows that the test named beside it fails, and that without
# a fault it passes.
#   usage: scripts/mutations.sh [--filter REGEX] [--part K/N] [--write]      DRIVER=swiftshader for the other driver
#     --filter   only the faults whose name it matches
#     --part     every N-th fault, from the K-th on
#     --write    the table at the end of docs/testing.md
# PROGRAMS is the folder of the programs; without it they are built (build/release/tests).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/drivers.sh

usage="scripts/mutations.sh [--filter REGEX] [--part K/N] [--write]"
filter=. part=1 parts=1 write=false
while [ $# -gt 0 ]; do
  case $1 in
    --filter) filter=${2:?--filter needs a regular expression} && shift ;;
    --part)
      [[ ${2-} =~ ^([1-9][0-9]?)/([1-9][0-9]?)$ ]] && [ "${2%/*}" -le "${2#*/}" ] ||
        { echo "--part is '${2-}', which is no K/N with K at most N: $usage" >&2 && exit 2; }
      part=${2%/*} parts=${2#*/} && shift ;;
    --write) write=true ;;
    *) echo "There is no option '$1': $usage" >&2 && exit 2 ;;
  esac
  shift
done
[ "$write" = false ] || [ "$filter$parts" = .1 ] ||
  { echo "--write is of all faults: leave --filter and --part out." >&2; exit 2; }

case ${DRIVER:=lavapipe} in
  lavapipe) driver_package=mesa-vulkan-drivers ;;
  swiftshader) driver_package=chromium-common ;;
  *) echo "DRIVER is '$DRIVER', which is neither lavapipe nor swiftshader." >&2 && exit 2 ;;
esac
if [ -z "${PROGRAMS-}" ]; then
  need "${build_packages[@]}" libgtest-dev "$driver_package"
  cmake --preset release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON >/dev/null
  cmake --build --preset release -j "$jobs" --target vkfuse-faulty-{unit,differential,fuzz,parallel} >/dev/null
  PROGRAMS=build/release/tests
fi
icd=$(icd_of "$DRIVER")
export VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd VKFUSE_TEST_DRIVER=$DRIVER VKFUSE_CACHE=off
export VKFUSE_FUZZ_CASES=25 VKFUSE_NO_SHRINKING=1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
declare -A sound  # the tests that pass without a fault
# The shell's own word about a test that dies would stand between the lines.
run() { { timeout 300 "$PROGRAMS/vkfuse-faulty-$1" "--gtest_filter=$2" >"$log" 2>&1; } 2>/dev/null; }

# What came of a fault that is planted: missed, or how it showed.
verdict() {
  local status=$1 failed
  failed=$(grep -c '^\[  FAILED  \] .* (' "$log" || true)
  case $status in
    0) echo missed ;;
    124) echo "no end in 300 s" ;;
    1) [ "$failed" -gt 0 ] && echo "$failed failed" || echo "status 1 and no test failed" ;;
    *) echo "died with status $status" ;;
  esac
}

missed=0 caught=0 at=0 rows=()
while read -r fault program tests; do
  at=$((at + 1))
  [ $((at % parts)) = $((part % parts)) ] && [[ $fault =~ $filter ]] || continue
  case "$DRIVER $fault" in  # no loop is left early there, and no f16 is native: nothing would be wrong
    "swiftshader loops_left_early" | "swiftshader name_inside_a_name")
      echo "$fault changes nothing on $DRIVER." && continue ;;
  esac
  grep -rqF "VKF_PLANT($fault," source || { echo "No VKF_PLANT makes the fault $fault." && exit 1; }
  if [ -z "${sound[$program $tests]-}" ]; then
    status=0
    run "$program" "$tests" || status=$?
    [ $status != 124 ] ||
      { echo "Without a fault, vkfuse-test-$program --gtest_filter=$tests does not end in 300 s." && exit 1; }
    if [ $status != 0 ]; then
      tail -20 "$log" &&
        echo "Without a fault, vkfuse-test-$program --gtest_filter=$tests fails already: $fault was not tried." &&
        exit 1
    fi
    grep -q '^\[  PASSED  \] [1-9]' "$log" || { echo "vkfuse-test-$program has no test $tests." && exit 1; }
    ! grep -q '^\[  SKIPPED \]' "$log" ||
      { echo "vkfuse-test-$program --gtest_filter=$tests skips: $fault would go unseen." && exit 1; }
    sound[$program $tests]=yes
  fi
  SECONDS=0 status=0
  VKFUSE_MUTATION=$fault run "$program" "$tests" || status=$?
  result=$(verdict $status)
  # A test that ended with 1 and failed none has not said anything about the fault.
  case $result in missed | status*) missed=$((missed + 1)) ;; *) caught=$((caught + 1)) ;; esac
  printf '%-32s %-18s %4d s  %s %s\n' "$fault" "$result" $SECONDS "$program" "$tests"
  rows+=("| ${fault//_/ } | $program \`${tests//:/\` \`}\` | $result |")
done < <(sed -nE 's/^  X\(([a-z_]+), ([a-z]+), "([^"]+)"\).*/\1 \2 \3/p' source/base/mutations.hpp)
echo "$caught caught, $missed missed on $DRIVER"
[ $((caught + missed)) -gt 0 ] || { echo "No fault has a name that '$filter' matches." && exit 2; }

if [ "$write" = true ] && [ $missed = 0 ]; then
  # Everything above the mark is written by hand and stays.
  page=docs/testing.md mark='<!-- Below: scripts/mutations.sh --write -->'
  grep -qxF -- "$mark" "$page" || { echo "$page has no line '$mark'." >&2; exit 1; }
  head=$(awk -v mark="$mark" '{ print } $0 == mark { exit }' "$page")
  printf '%s\n\n%s\n%s\n' "$head" "| fault | the test that sees it | seen as |" "| --- | --- | --- |" >"$page.new"
  printf '%s\n' "${rows[@]}" >>"$page.new"
  mv "$page.new" "$page"
fi
[ $missed = 0 ]
