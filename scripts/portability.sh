#!/usr/bin/env bash
# Compiles every golden kernel with the compilers of other vendors, without their hardware: the Mesa of Debian 13 and
# its null devices, in a folder. Nothing is dispatched. Needs root, and 2 GB in build/vendors.
#   usage: scripts/portability.sh [--write] [CHIP...]
#     --write    the tables at the end of docs/portability.md; of all chips
# Ends with 1 where a pipeline is not made, where one spills or splits an access of 16 bytes that the table of
# scripts/portability-table.py does not say.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

write=false
[ "${1-}" != --write ] || { write=true && shift; }
all=(VEGA10 NAVI21 NAVI31 TURING AMPERE ADRENO630 ADRENO660 ADRENO740 MALI-G52 MALI-G610)
chips=("$@")
[ ${#chips[@]} -gt 0 ] || chips=("${all[@]}")
[ "$write" = false ] || [ $# = 0 ] || { echo "--write is of all chips: name none." >&2; exit 2; }
need debootstrap clang lld qemu-user-static python3

place=$PWD/build/vendors amd=$PWD/build/vendors/amd64 arm=$PWD/build/vendors/arm64
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
bootstrap() {
  debootstrap --variant=minbase "$@" "${mirror:-http://deb.debian.org/debian}" >>"$place/log" 2>&1 ||
    { tail "$place/log" >&2 && exit 1; }
}
mkdir -p "$place"
system=mesa-vulkan-drivers,mesa-drm-shim,libvulkan-dev,libc6-dev,libgcc-14-dev
if [ ! -e "$amd/ready" ]; then
  rm -rf "$amd" && bootstrap --include=$system,glslc trixie "$amd"
  touch "$amd/ready"
fi
if [ ! -e "$arm/ready" ]; then
  # The packages' files are enough: no program of the folder is installed, only run.
  rm -rf "$arm" && bootstrap --arch=arm64 --foreign --include=$system trixie "$arm"
  for package in "$arm"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$arm"; done
  touch "$arm/ready"
fi

build() {
  clang --target="$1-linux-gnu" --sysroot="$2" --gcc-toolchain="$2/usr" -fuse-ld=lld -std=c11 -O1 \
    tests/portability/pipelines.c -o "$2/pipelines" "$2/usr/lib/$1-linux-gnu/libvulkan.so.1"
}
build x86_64 "$amd"
build aarch64 "$arm"

# What a chip's driver is and which chip it is to be; then the kernels go through it.
shim=/usr/lib/x86_64-linux-gnu/libnouveau_noop_drm_shim.so
on_amd64() { chroot "$amd" env "$@" /pipelines "${kernels[@]}" 2>&1; }
on_arm64() {
  local settings=()
  for setting in "$@"; do settings+=(-E "$setting"); done
  qemu-aarch64-static -L "$arm" "${settings[@]}" "$arm/pipelines" "${kernels[@]/#/$arm}" 2>&1
}
amd_chip() { on_amd64 RADV_FORCE_FAMILY="$1" VK_DRIVER_FILES=/usr/share/vulkan/icd.d/radeon_icd.json; }
nvidia_chip() {
  on_amd64 NOUVEAU_CHIPSET="$1" LD_PRELOAD=$shim VK_DRIVER_FILES=/usr/share/vulkan/icd.d/nouveau_icd.json
}
adreno_chip() {
  on_arm64 FD_GPU_ID="$1" LD_PRELOAD=/usr/lib/aarch64-linux-gnu/libfreedreno_noop_drm_shim.so \
    VK_DRIVER_FILES="$arm/usr/share/vulkan/icd.d/freedreno_icd.json"
}
mali_chip() {
  on_arm64 PAN_GPU_ID="$1" PAN_I_WANT_A_BROKEN_VULKAN_DRIVER=1 BIFROST_MESA_DEBUG=shaderdb \
    LD_PRELOAD=/usr/lib/aarch64-linux-gnu/libpanfrost_noop_drm_shim.so \
    VK_DRIVER_FILES="$arm/usr/share/vulkan/icd.d/panfrost_icd.json"
}
run() {
  case $1 in
    VEGA10 | NAVI21 | NAVI31) amd_chip "$1" ;;
    TURING) nvidia_chip 168 ;;
    AMPERE) nvidia_chip 172 ;;
    ADRENO*) adreno_chip "${1#ADRENO}" ;;
    MALI-G52) mali_chip 0x7402 ;;
    MALI-G610) mali_chip 0xa867 ;;
    *) echo "There is no chip named '$1': ${all[*]}" >&2 && exit 2 ;;
  esac
}

rm -rf "$amd/kernels" "$arm/kernels" && mkdir -p "$amd/kernels" "$place/listings"
scripts/portability-table.py kernels "$amd/kernels"
for text in "$amd"/kernels/*.comp; do
  # What asks for more than this shaderc knows (matrices of bf16, parts of NV_cooperative_matrix2) is left out, and said
  # in the table's own words.
  name=$(basename "$text" .comp)
  chroot "$amd" glslc -fshader-stage=compute --target-env=vulkan1.1 \
    -o "/kernels/$name.spv" "/kernels/$name.comp" 2>"$text.refused" || true
done
cp -r "$amd/kernels" "$arm/kernels"
for chip in "${chips[@]}"; do
  mapfile -t kernels < <(scripts/portability-table.py arguments "$amd/kernels" "$chip")
  run "$chip" >"$place/listings/$chip" || true  # which pipelines are not made, stands there
  echo "$chip: $(grep -c "spv$(printf '\t')" "$place/listings/$chip" || true) of ${#kernels[@]} kernels"
done
page=()
[ "$write" = false ] || page=(--write docs/portability.md)
scripts/portability-table.py table "$amd/kernels" "$place/listings" "${page[@]}" "${chips[@]}"
