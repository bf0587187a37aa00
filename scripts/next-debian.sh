#!/usr/bin/env bash
# A Debian of the next release in a folder, for what this one lacks: a Mesa whose lavapipe multiplies cooperative
# matrices (8 x 8 x 8 by subgroups of 8, and most of NV_cooperative_matrix2), and a shaderc that compiles them. Needs
# root, and 3 GB in $VKFUSE_DEBIANS (scripts/debians.sh).
#   usage: scripts/next-debian.sh [COMMAND [ARGUMENT...]]
# Makes it once, then copies the sources to /vkfuse in it and runs the command there; without one, a
# build of the tests and the random contractions and attentions on T4 and T5 (VKFUSE_FUZZ_CASES each, 200 unless told).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/debians.sh

# A library's name has its version in it: what this release calls so may be called otherwise in the next.
debian forky "${build_packages[@]}" libgtest-dev mesa-vulkan-drivers
copy_sources

if [ $# = 0 ]; then
  set -- bash -euo pipefail -c '
    cmake --preset release >/dev/null
    cmake --build --preset release -j "$(nproc)" --target vkfuse-test-differential >build.log ||
      { grep -m 9 -A 4 "error:" build.log; exit 1; }
    filter=Dot.RandomContractionsWithMatrixUnits:Layers.RandomAttentionWithMatrixUnits:PackedRows.*
    filter+=:AttentionGradients.OfKeysAndOfValues*:SoftmaxOfRuns.*
    build/release/tests/vkfuse-test-differential --gtest_filter="$filter" | tee run.log
    if grep -q "^\[  SKIPPED \]" run.log; then echo "What is skipped shows nothing of matrix units." >&2; exit 1; fi'
fi
icd=/usr/share/vulkan/icd.d/lvp_icd.json
[ -e "$debian$icd" ] || icd=$(cd "$debian" && ls usr/share/vulkan/icd.d/lvp_icd*.json | head -n 1 | sed 's#^#/#')
exec chroot "$debian" env -C /vkfuse HOME=/root LC_ALL=C.UTF-8 VKFUSE_CACHE=off VKFUSE_CHECK_SPIRV=1 \
  VKFUSE_TEST_DRIVER=lavapipe VK_ICD_FILENAMES="$icd" VK_DRIVER_FILES="$icd" \
  VKFUSE_FUZZ_CASES="${VKFUSE_FUZZ_CASES:-200}" VKFUSE_TEST_MATRIX_UNITS="${VKFUSE_TEST_MATRIX_UNITS:-1}" "$@"
