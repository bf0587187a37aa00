#!/usr/bin/env bash
# A Debian of the next release in a folder, for what this one lacks: a Mesa whose lavapipe multiplies cooperative
# matrices (8 x 8 x 8 by subgroups of 8, and most of NV_cooperative_matrix2), and a shaderc that compiles them. Needs
# root, and 3 GB.
#   usage: scripts/next-debian.sh [COMMAND [ARGUMENT...]]
# Makes build/next-debian once, then copies the sources to /vkfuse in it and runs the command there; without one, a
# build of the tests and the random contractions and attentions on T4 and T5 (VKFUSE_FUZZ_CASES each, 200 unless told).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
need debootstrap
root=build/next-debian
release=forky

if [ ! -e "$root/ready" ]; then
  mkdir -p "$root"
  mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
  packages=("${build_packages[@]}" libgtest-dev mesa-vulkan-drivers)
  # A library's name has its version in it: what this release calls so may be called otherwise in the next.
  debootstrap --variant=minbase "$release" "$root" "${mirror:-http://deb.debian.org/debian}" \
    /usr/share/debootstrap/scripts/trixie >"$root.log" 2>&1
  # A mirror may lag behind.
  printf 'Acquire::Check-Valid-Until "false";\n' >"$root/etc/apt/apt.conf.d/mirror"
  in_root() { chroot "$root" env DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8 "$@"; }
  in_root apt-get -qq update
  in_root apt-get -qq install -y --no-install-recommends "${packages[@]}" >>"$root.log" 2>&1
  touch "$root/ready"
fi

mkdir -p "$root/vkfuse"
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
  tar -c --null -T - | tar -x -C "$root/vkfuse"

if [ $# = 0 ]; then
  set -- bash -euo pipefail -c '
    cmake --preset release >/dev/null
    cmake --build --preset release -j "$(nproc)" --target vkfuse-test-differential >build.log ||
      { grep -m 9 -A 4 "error:" build.log; exit 1; }
    filter=Dot.RandomContractionsWithMatrixUnits:Layers.RandomAttentionWithMatrixUnits:PackedRows.*
    build/release/tests/vkfuse-test-differential --gtest_filter="$filter" | tee run.log
    if grep -q "^\[  SKIPPED \]" run.log; then echo "What is skipped shows nothing of matrix units." >&2; exit 1; fi'
fi
icd=/usr/share/vulkan/icd.d/lvp_icd.json
[ -e "$root$icd" ] || icd=$(cd "$root" && ls usr/share/vulkan/icd.d/lvp_icd*.json | head -n 1 | sed 's#^#/#')
exec chroot "$root" env -C /vkfuse HOME=/root LC_ALL=C.UTF-8 VKFUSE_CACHE=off VKFUSE_CHECK_SPIRV=1 \
  VKFUSE_TEST_DRIVER=lavapipe VK_ICD_FILENAMES="$icd" VK_DRIVER_FILES="$icd" \
  VKFUSE_FUZZ_CASES="${VKFUSE_FUZZ_CASES:-200}" VKFUSE_TEST_MATRIX_UNITS="${VKFUSE_TEST_MATRIX_UNITS:-1}" "$@"
