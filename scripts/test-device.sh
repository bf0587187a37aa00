#!/usr/bin/env bash
# The tests that run kernels, on the device that the Vulkan loader finds first, a GPU as a rule: what software drivers
# do not show. Parts run beside each other, two for each processor.
#   usage: scripts/test-device.sh [FOLDER [LOGS]]
#     FOLDER: has the programs, which need nothing else of the tree: build/release/tests unless it is named
#     LOGS: a folder for what they print; a temporary one unless it is named
set -uo pipefail
folder=${1:-"$(dirname "$0")/../build/release/tests"}
logs=${2:-$(mktemp -d)}
parts=$((2 * $(nproc)))
export VKFUSE_CACHE=off VKFUSE_CHECK_SPIRV=1
unset VKFUSE_TEST_DRIVER
failed=0
mkdir -p "$logs"

for kind in unit numeric error differential fuzz; do
  program=$folder/vkfuse-test-$kind
  SECONDS=0
  pids=()
  for ((part = 0; part < parts; ++part)); do
    GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part timeout "${VKFUSE_TEST_TIMEOUT:-1200}" "$program" \
      >"$logs/$kind.$part.log" 2>&1 &
    pids+=($!)
  done
  bad=0
  for pid in "${pids[@]}"; do wait "$pid" || bad=$((bad + 1)); done
  passed=$(cat "$logs/$kind".*.log | grep -ac '^\[       OK')
  wrong=$(cat "$logs/$kind".*.log | grep -a '^\[  FAILED  \] .*[^:]$' | sort -u)
  unfinished=$(grep -aL '^\[==========\].* ran\.' "$logs/$kind".*.log)
  echo "$kind: $passed pass, $bad of $parts parts end with an error, $SECONDS s"
  [ -z "$wrong" ] || echo "$wrong"
  [ -z "$unfinished" ] || echo "did not end: $unfinished"
  [ "$bad" = 0 ] && [ "$passed" -gt 0 ] || failed=1
done
echo "logs: $logs"
exit $failed
