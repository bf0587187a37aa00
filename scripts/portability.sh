#!/usr/bin/env bash
# Writes the table of docs/portability.md: what AMD's compiler (RADV, without the hardware) makes of the
# golden kernels, chip by chip. Needs a release build with tests.
#   usage: scripts/portability.sh [chip...]
set -euo pipefail
cd "$(dirname "$0")/.."
icd=/usr/share/vulkan/icd.d/radeon_icd.x86_64.json
program=build/release/tests/vkfuse-test-portability
chips=("$@")
[ ${#chips[@]} -gt 0 ] || chips=(NAVI21 VEGA10 RAVEN POLARIS10 GFX1100)
[ -e "$icd" ] || { echo "There is no $icd: install mesa-vulkan-drivers." >&2; exit 2; }
[ -x "$program" ] || { echo "There is no $program: cmake --preset release && cmake --build --preset release" >&2; exit 2; }

rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
for chip in "${chips[@]}"; do
  VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd RADV_FORCE_FAMILY=$chip VKFUSE_TEST_DRIVER=radv VKFUSE_CHECK_SPIRV=1 \
    VKFUSE_PORTABILITY_TABLE=$rows "$program" --gtest_filter='*Radv*' --gtest_brief=1 >&2
done

# Everything above the mark is written by hand and stays.
page=docs/portability.md
mark='<!-- Below: scripts/portability.sh -->'
head=$(awk -v mark="$mark" '{ print } $0 == mark { exit }' "$page")
{
  printf '%s\n\n' "$head"
  echo "| chip | graph | kernel | VGPRs | SGPRs | spilled | memory instructions |"
  echo "| --- | --- | --- | --- | --- | --- | --- |"
  cat "$rows"
} > "$page.new"
mv "$page.new" "$page"
