#!/usr/bin/env bash
# What takes longer than a change may wait: run it before a release, or the part that a change is about.
#   usage: scripts/deep.sh [TIER...]     TIER: sanitizers layers limits faults graphs mutations portability; all of them without one
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
need "${build_packages[@]}" libgtest-dev mesa-vulkan-drivers chromium-common vulkan-validationlayers

lavapipe=/usr/share/vulkan/icd.d/lvp_icd.x86_64.json
swiftshader=/usr/lib/chromium/vk_swiftshader_icd.json
export VKFUSE_CACHE=off VKFUSE_CHECK_SPIRV=1
failed=()

# on DRIVER PROGRAM [ARGUMENT...]: a program of the tests on one driver.
on() {
  local driver=$1 icd=${!1}
  shift
  echo "--- $driver: $*"
  VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd VKFUSE_TEST_DRIVER=$driver "$@" || failed+=("$driver: $*")
}
release() { cmake --preset release >/dev/null && cmake --build --preset release -j "$jobs" --target all >/dev/null; }

# Address and undefined-behaviour sanitizers; leaks too, but for one of 128 bytes inside lavapipe.
sanitizers() {
  cmake --preset asan >/dev/null && cmake --build --preset asan -j "$jobs" >/dev/null
  local suppressions
  suppressions=$(mktemp)
  echo "leak:libvulkan_lvp" >"$suppressions"
  export LSAN_OPTIONS=suppressions=$suppressions UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  for driver in swiftshader lavapipe; do
    for kind in unit error golden numeric fuzz fault; do on $driver "build/asan/tests/vkfuse-test-$kind"; done
  done
}

# Chromium's layer dies at the end of a process, after the verdict: what counts is what was printed.
silent() {
  local program=$1 log
  shift
  log=$(stdbuf -oL "build/release/tests/$program" "$@" 2>&1) || true
  if grep -q 'FAILED' <<<"$log" || ! grep -q 'PASSED' <<<"$log"; then
    tail -50 <<<"$log"
    return 1
  fi
}

# The Khronos layer of this system: core checks, then GPU-assisted validation. Chromium's, which is newer: synchronisation
# validation, which sees a missing barrier between two dispatches only with the second of its settings; a test proves it.
layers() {
  release
  export VKFUSE_VALIDATE=1
  for kind in unit golden differential fuzz; do on swiftshader "build/release/tests/vkfuse-test-$kind"; done
  VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT on lavapipe build/release/tests/vkfuse-test-differential
  local folder
  folder=$(mktemp -d)
  cat >"$folder/layer.json" <<'LAYER'
{"file_format_version": "1.1.2", "layer": {"name": "VK_LAYER_KHRONOS_validation", "type": "GLOBAL",
 "library_path": "/usr/lib/chromium/libVkLayer_khronos_validation.so", "api_version": "1.3.260", "implementation_version": "1",
 "description": "Chromium's", "instance_extensions": [{"name": "VK_EXT_debug_utils", "spec_version": "1"},
 {"name": "VK_EXT_debug_report", "spec_version": "9"}, {"name": "VK_EXT_validation_features", "spec_version": "2"}]}}
LAYER
  export VK_LAYER_PATH=$folder VK_VALIDATION_VALIDATE_SYNC=1 VK_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC=1
  on lavapipe silent vkfuse-test-unit --gtest_filter=LayerTest.*
  for kind in differential fuzz golden; do on lavapipe silent "vkfuse-test-$kind"; done
  unset VKFUSE_VALIDATE VK_LAYER_PATH VK_VALIDATION_VALIDATE_SYNC VK_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC
}

# What every device of Vulkan 1.1 has and nothing else.
limits() {
  release
  for driver in lavapipe swiftshader; do
    VKFUSE_TEST_LIMITS=least VKFUSE_FUZZ_CASES=500 on $driver build/release/tests/vkfuse-test-fuzz --gtest_filter=Fuzz.Graphs
    VKFUSE_FUZZ_CASES=500 on $driver build/release/tests/vkfuse-test-differential --gtest_filter=Dot.RandomContractionsOnLowLimits
  done
}

# Each Vulkan call of each graph fails with each result, each allocation of a plan.
faults() {
  release
  for driver in lavapipe swiftshader; do
    VKFUSE_FAULTS=all VKFUSE_FAULT_CASES=100000 on $driver build/release/tests/vkfuse-test-fault
  done
}

# Ten times the random graphs of ctest.
graphs() {
  release
  for driver in lavapipe swiftshader; do
    VKFUSE_FUZZ_CASES=1000 on $driver build/release/tests/vkfuse-test-fuzz
    VKFUSE_FUZZ_CASES=900 on $driver build/release/tests/vkfuse-test-differential '--gtest_filter=Dot.Random*'
  done
}

mutations() { scripts/mutations.sh || failed+=(mutations); }

portability() { release && ctest --preset release -L portability || failed+=(portability); }

[ $# -gt 0 ] || set -- sanitizers layers limits faults graphs mutations portability
for tier in "$@"; do
  SECONDS=0
  case $tier in
    sanitizers | layers | limits | faults | graphs | mutations | portability) "$tier" ;;
    *) echo "There is no tier named '$tier'." >&2 && exit 2 ;;
  esac
  echo "=== $tier: $SECONDS s"
done
[ ${#failed[@]} = 0 ] && exit
printf 'FAILED %s\n' "${failed[@]}"
exit 1
