#!/usr/bin/env bash
# A program of the tests with a validation layer: it fails where a test fails or the layer says anything, of whichever
# device a test has opened. Chromium's layer is newer than Debian's and sees more; it dies at the end of some processes,
# after the verdict: what counts is what was printed.
#   usage: layers.sh core|sync|gpu PROGRAM [ARGUMENT...]
#     core: this system's layer; Chromium's, sync: synchronisation validation; gpu: GPU-assisted validation
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export VKFUSE_VALIDATE=1
chromium() {
  layer=/usr/lib/chromium/libVkLayer_khronos_validation.so
  [ -e $layer ] || { echo "There is no $layer: install chromium-common." >&2; exit 77; }
  export VK_LAYER_PATH=$folder
  cat >"$folder/layer.json" <<LAYER
{"file_format_version": "1.1.2", "layer": {"name": "VK_LAYER_KHRONOS_validation", "type": "GLOBAL",
 "library_path": "$layer", "api_version": "1.3.260", "implementation_version": "1",
 "description": "Chromium's", "instance_extensions": [{"name": "VK_EXT_debug_utils", "spec_version": "1"},
 {"name": "VK_EXT_debug_report", "spec_version": "9"}, {"name": "VK_EXT_validation_features", "spec_version": "2"}]}}
LAYER
}
case ${1-} in
  core) ;;
  # Without the second setting a missing barrier between two dispatches is not seen.
  sync) chromium && export VK_VALIDATION_VALIDATE_SYNC=1 VK_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC=1 ;;
  gpu)
    chromium && export VK_VALIDATION_GPUAV_ENABLE=1
    # The search for races in shared memory adds loops to a kernel, and lavapipe leaves loops of an invocation after
    # 65,535 iterations: results are wrong then, and barriers are not reached, which looks like a race. SwiftShader
    # leaves none.
    [ "${VKFUSE_TEST_DRIVER-}" != lavapipe ] || export VK_VALIDATION_GPUAV_SHARED_MEMORY_DATA_RACE=0
    ;;
  *) echo "There is no validation named '${1-}'." >&2 && exit 2 ;;
esac
shift
{ stdbuf -oL "$@" >"$folder/log" 2>&1 || true; } 2>/dev/null
verdict() { tail -60 "$folder/log"; echo "$1"; exit 1; }
! grep -q '^\[  FAILED  \]' "$folder/log" || verdict "A test failed."
grep -q '^\[  PASSED  \] [1-9]' "$folder/log" || verdict "No test passed."
# Each test may open devices of its own, and each has a layer of its own. LayerTest makes it speak.
awk '/^\[ RUN      \]/ { test = $4 }
  /^vkfuse: validation:/ && test !~ /^LayerTest\./ { if (++said <= 10) print test ": " $0 }
  END { if (said) print said " messages"; exit said > 0 }' "$folder/log" ||
  verdict "The validation layer has said something."
grep '^\[  PASSED  \]\|validation layer has said' "$folder/log"
