#!/usr/bin/env bash
# A program of the tests with the validation layer that Chromium ships, which is newer than Debian's and sees more: it fails where a
# test fails or the layer says anything. That layer dies at the end of some processes, after the verdict: what counts is
# what was printed.
#   usage: layers.sh sync|gpu PROGRAM [ARGUMENT...]      sync: synchronisation validation; gpu: GPU-assisted validation
set -euo pipefail
layer=/usr/lib/chromium/libVkLayer_khronos_validation.so
[ -e $layer ] || { echo "There is no $layer: install chromium-common." >&2; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/layer.json" <<LAYER
{"file_format_version": "1.1.2", "layer": {"name": "VK_LAYER_KHRONOS_validation", "type": "GLOBAL",
 "library_path": "$layer", "api_version": "1.3.260", "implementation_version": "1",
 "description": "Chromium's", "instance_extensions": [{"name": "VK_EXT_debug_utils", "spec_version": "1"},
 {"name": "VK_EXT_debug_report", "spec_version": "9"}, {"name": "VK_EXT_validation_features", "spec_version": "2"}]}}
LAYER
export VKFUSE_VALIDATE=1 VK_LAYER_PATH=$folder
case $1 in
  # Without the second setting a missing barrier between two dispatches is not seen.
  sync) export VK_VALIDATION_VALIDATE_SYNC=1 VK_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC=1 ;;
  gpu)
    export VK_VALIDATION_GPUAV_ENABLE=1
    # The search for races in shared memory adds loops to a kernel, and lavapipe leaves loops of an invocation after 65,535 iterations: results are
    # wrong then, and barriers are not reached, which looks like a race. SwiftShader leaves none.
    [ "${VKFUSE_TEST_DRIVER-}" != lavapipe ] || export VK_VALIDATION_GPUAV_SHARED_MEMORY_DATA_RACE=0
    ;;
  *) echo "There is no validation named '$1'." >&2 && exit 2 ;;
esac
shift
{ stdbuf -oL "$@" >"$folder/log" 2>&1 || true; } 2>/dev/null
verdict() { tail -60 "$folder/log"; echo "$1"; exit 1; }
! grep -q '^\[  FAILED  \]' "$folder/log" || verdict "A test failed."
grep -q '^\[  PASSED  \] [1-9]' "$folder/log" || verdict "No test passed."
grep '^\[  PASSED  \]\|validation layer has said' "$folder/log"
