#!/usr/bin/env bash
# Plants each fault of source/base/mutations.hpp in turn and shows that the test named beside it fails, and that without a
# fault it passes.
#   usage: scripts/mutations.sh [FAULT...]      DRIVER=swiftshader for the other driver
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
need "${build_packages[@]}" libgtest-dev mesa-vulkan-drivers

cmake --preset mutations >/dev/null
cmake --build --preset mutations -j "$jobs" --target vkfuse-test-unit vkfuse-test-differential vkfuse-test-fuzz >/dev/null

case ${DRIVER:=lavapipe} in
  lavapipe) icd=/usr/share/vulkan/icd.d/lvp_icd.x86_64.json ;;
  swiftshader) icd=/usr/lib/chromium/vk_swiftshader_icd.json ;;
esac
export VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd VKFUSE_TEST_DRIVER=$DRIVER VKFUSE_CACHE=off VKFUSE_FUZZ_CASES=60 VKFUSE_NO_SHRINKING=1

missed=0 caught=0
while read -r fault program filter; do
  [ $# = 0 ] || [[ " $* " == *" $fault "* ]] || continue
  test=(timeout 300 "build/mutations/tests/vkfuse-test-$program" "--gtest_filter=$filter")
  passes=$("${test[@]}" 2>&1) || { echo "WITHOUT $fault, $program $filter fails already" && exit 1; }
  grep -q '\[  PASSED  \] [1-9]' <<<"$passes" || { echo "$program has no test $filter" && exit 1; }
  if VKFUSE_MUTATION=$fault "${test[@]}" >/dev/null 2>&1; then
    echo "MISSED  $fault: $program $filter"
    missed=$((missed + 1))
  else
    echo "caught  $fault: $program $filter"
    caught=$((caught + 1))
  fi
done < <(sed -nE 's/^  X\(([a-z_]+), ([a-z]+), "([^"]+)"\).*/\1 \2 \3/p' source/base/mutations.hpp)
echo "$caught caught, $missed missed"
[ $missed = 0 ]
