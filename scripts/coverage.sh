#!/usr/bin/env bash
# Lines of each folder that the tests of the compiler run on lavapipe, as gcov counts them, and the files of which they
# run the least. Fails where a test fails, and where less than 90 % of index, ir, passes, partition, schedule, kernel,
# lowering or templates run.
#   usage: scripts/coverage.sh [--report]      --report: only count what earlier runs left
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/drivers.sh
need "${build_packages[@]}" libgtest-dev mesa-vulkan-drivers

failed=0
if [ "${1-}" != --report ]; then
  # As in scripts/test.sh, whose objects of tests these are.
  cmake --preset coverage -DCMAKE_COMPILE_WARNING_AS_ERROR=ON >/dev/null
  cmake --build --preset coverage -j "$jobs" --target vkfuse-test-{unit,golden,error,differential,fuzz} >/dev/null
  find build/coverage -name '*.gcda' -delete
  icd=$(icd_of lavapipe)
  export VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd VKFUSE_TEST_DRIVER=lavapipe
  export VKFUSE_CACHE=off VKFUSE_CHECK_SPIRV=1 VKFUSE_TEST_SLOWNESS=10
  # Side by side, the longest first: KIND and a part of it.
  part() {
    GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$2 "build/coverage/tests/vkfuse-test-$1" >/dev/null ||
      { echo "vkfuse-test-$1, part $2 (from 0) of 4, fails in this build." >&2 && return 1; }
  }
  export -f part
  printf '%s\n' {differential,fuzz,unit,golden,error}' '{0..3} |
    xargs -P "$jobs" -L 1 bash -c 'part "$@"' part || failed=1
fi

objects=build/coverage/CMakeFiles/vkfuse.dir/source
files=$(mktemp)
trap 'rm -f "$files"' EXIT
for folder in index ir passes partition schedule segment kernel lowering templates plan ops reference runtime store; do
  find "$objects/$folder" -name '*.gcda' -print0 | xargs -0 gcov --no-output 2>/dev/null |
    awk -v folder="$folder" -v files="$files" '
      /^File/ {
        own = match($0, "source/" folder "/[^\x27]*\\.cpp") > 0
        name = substr($0, RSTART, RLENGTH)
      }
      /^Lines executed/ && own {
        split($2, part, ":")
        sub("%", "", part[2])
        lines += $4
        run += part[2] * $4 / 100
        own = 0
        printf "%6.1f %% of %4d lines  %s\n", part[2], $4, name >> files
      }
      END {
        if (lines) printf "%-10s %5.1f %% of %d lines\n", folder, 100 * run / lines, lines
        exit lines && run < 0.9 * lines && folder ~ /^(index|ir|passes|partition|schedule|kernel|lowering|templates)$/
      }' || { echo "That is less than 90 %." >&2 && failed=1; }
done
echo
sort -n "$files" | sed -n 1,20p  # head would end sort by a signal, and this script with it
exit "$failed"
