#!/usr/bin/env bash
# Plans the golden graphs (tests/golden/*.vkf) for chips of many vendors, and compiles the kernels with the chips' own
# drivers, without their hardware. Nothing is dispatched. Chips are rows of tests/portability/chips.txt. The drivers are
# in Debians of other releases and processors, in $VKFUSE_DEBIANS (/var/tmp/vkfuse-debians, 3 GB), which are made first
# where they are not there. Needs root.
#   usage: scripts/portability.sh [--prepare | --write] [CHIP...]
#     --prepare  makes the Debians and the program that plans, and ends
#     --write    the tables at the end of docs/portability.md; of all chips
# Ends with 1 where a pipeline is not made, where one spills or splits an access of 16 bytes that the lists of
# scripts/portability-table.py do not name.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/debians.sh

mode=
case ${1-} in --prepare | --write) mode=$1 && shift ;; esac
table=tests/portability/chips.txt
row_of() { awk -v chip="$1" '$1 == chip' "$table"; }
mapfile -t all < <(awk '!/^#/ && NF { print $1 }' "$table")
chips=("$@")
[ ${#chips[@]} -gt 0 ] || chips=("${all[@]}")
for chip in "${chips[@]}"; do
  [ -n "$(row_of "$chip")" ] || { echo "There is no chip named '$chip' in $table: ${all[*]}" >&2 && exit 2; }
done
[ "$mode" != --write ] || [ $# = 0 ] || { echo "--write is of all chips: name none." >&2; exit 2; }

work=$PWD/build/portability
mkdir -p "$work"

# Debian builds no shim for Intel's driver. That of Mesa 25.0 makes later drivers find a device as well. Debian 12's
# meson is too old for it.
make_intel_shim() {
  local shim=$debian/usr/local/lib/libintel_noop_drm_shim.so sources=$debians/mesa
  [ ! -e "$shim" ] || return 0
  echo "Building $shim"
  need build-essential libdrm-dev bison flex libexpat1-dev zlib1g-dev pkg-config python3-venv
  echo "deb-src $mirror trixie main" >"$debian/etc/apt/sources.list.d/mesa.list"
  rm -rf "$debian/mesa" "$sources" && mkdir -p "$debian/mesa" "$sources"
  in_debian apt-get -qq update
  in_debian sh -c 'cd /mesa && apt-get -qq source --download-only mesa'
  tar -xJf "$debian"/mesa/mesa_*.orig.tar.xz -C "$sources" --strip-components=1
  python3 -m venv "$sources/venv"
  "$sources/venv/bin/pip" -q install meson mako pyyaml packaging ninja
  (
    export PATH=$sources/venv/bin:$PATH
    meson setup "$sources/build" "$sources" -Dtools=intel,drm-shim -Dvulkan-drivers= -Dgallium-drivers= -Dplatforms= \
      -Dglx=disabled -Degl=disabled -Dgbm=disabled -Dopengl=false -Dllvm=disabled -Dvalgrind=disabled \
      -Dlibunwind=disabled -Dbuildtype=release
    ninja -C "$sources/build" src/intel/tools/libintel_noop_drm_shim.so
  ) >"$work/intel-shim.log" 2>&1 || { tail "$work/intel-shim.log" >&2 && exit 1; }
  cp "$sources/build/src/intel/tools/libintel_noop_drm_shim.so" "$shim"
  rm -rf "$sources" "$debian/mesa"
}

# vkfuse-describe and pipelines run where the drivers are, and ask for nothing of a Debian but its C library: those
# compiled here, where it is older, run there.
headers=$work/include
describing=(tests/baseline/describe.cpp tests/support/described_device.cpp
  source/vulkan/{enabled,functions,instance,loader,query}.cpp source/base/{capabilities,error,forked}.cpp
  source/device_model/*.cpp source/os/*_{posix,linux}.cpp)
build() {
  local prefix=$1 library=$2 options=(-I "$headers" -O1)
  local newer=(source include tests -newer "$debian/describe" -print -quit)
  [ ! -e "$debian/describe" ] || [ -n "$(find "${newer[@]}")" ] || return 0
  "${prefix}gcc" -std=c11 "${options[@]}" tests/portability/pipelines.c -o "$debian/pipelines" \
    -Wl,--allow-shlib-undefined "$debian/$library/libvulkan.so.1"
  "${prefix}g++" -std=c++20 "${options[@]}" -DFMT_HEADER_ONLY -I source -I include -I tests "${describing[@]}" \
    -static-libstdc++ -static-libgcc -o "$debian/describe" -ldl
}

prepare() {
  need build-essential g++-aarch64-linux-gnu qemu-user-static libvulkan-dev libfmt-dev python3
  # Never all of /usr/include: that is this processor's.
  mkdir -p "$headers" && ln -sfn /usr/include/{vulkan,vk_video,fmt} "$headers"
  debian trixie --unpacked arm64 mesa-vulkan-drivers,mesa-drm-shim,libvulkan1
  build aarch64-linux-gnu- usr/lib/aarch64-linux-gnu
  mkdir -p "$debian/usr/local/lib"
  aarch64-linux-gnu-gcc -shared -fPIC -std=c11 -O1 tests/portability/v3d_parameters.c -ldl \
    -o "$debian/usr/local/lib/v3d_parameters.so"
  debian forky mesa-vulkan-drivers mesa-drm-shim libvulkan1 glslc
  build "" usr/lib/x86_64-linux-gnu
  make_intel_shim
  [ -e build/release/build.ninja ] || cmake --preset release >/dev/null
  cmake --build --preset release -j "$jobs" --target vkfuse-kernels >"$work/build.log" ||
    { grep -m 9 -A 4 "error:" "$work/build.log"; exit 1; }
}
: prepared
[ "$mode" != --prepare ] || exit 0

# Runs a program of the Debian of a chip's row, with the chip's driver and device; its arguments follow.
on_chip() {
  local chip=$1 program=$2 folder driver preload settings root library libraries= name
  shift 2
  read -r _ folder driver preload settings < <(row_of "$chip")
  root=$debians/$folder
  case $folder in *-arm64) library=usr/lib/aarch64-linux-gnu ;; *) library=usr/lib/x86_64-linux-gnu ;; esac
  for name in ${preload//,/ }; do
    [ -e "$root/usr/local/lib/$name.so" ] && name=/usr/local/lib/$name.so || name=/$library/$name.so
    libraries+=${libraries:+:}$name
  done
  local icd=/usr/share/vulkan/icd.d/${driver}_icd.json
  # shellcheck disable=SC2206  # several settings are several words
  local environment=(LD_PRELOAD="$libraries" $settings)
  if [[ $folder = *-arm64 ]]; then
    local options=(-L "$root" -E VK_DRIVER_FILES="$root$icd") setting
    for setting in "${environment[@]}"; do options+=(-E "$setting"); done
    qemu-aarch64-static "${options[@]}" "$root/$program" "$@"
  else
    chroot "$root" env "${environment[@]}" VK_DRIVER_FILES="$icd" "/$program" "$@"
  fi
}

# Kernels that ask for more than the linked shaderc knows are compiled by forky's.
compile_texts() {
  local folder=$1 text name environment
  for text in "$folder"/spirv/*.glsl; do
    name=${text%.glsl}
    [ ! -e "$name.spv" ] || continue
    environment=vulkan1.1
    ! grep -q GL_NV_cooperative_matrix2 "$text" || environment=vulkan1.3
    chroot "$debians/forky-amd64" glslc -fshader-stage=compute --target-env=$environment -o - - \
      <"$text" >"$name.spv" 2>"$name.refused" || rm "$name.spv"
  done
}

one_chip() {
  local chip=$1 folder=$work/$1 root
  read -r _ root _ < <(row_of "$chip")
  root=$debians/$root
  rm -rf "$folder" "${root:?}/kernels/$chip" && mkdir -p "$folder" "$root/kernels"
  on_chip "$chip" describe >"$folder/device" 2>"$folder/device.log" ||
    { echo "$chip: its driver finds no device." >&2; cat "$folder/device.log" >&2; return 1; }
  build/release/tests/vkfuse-kernels "$folder" "device=$folder/device" goldens >/dev/null
  compile_texts "$folder"
  cp -r "$folder/spirv" "$root/kernels/$chip"
  local place=/kernels/$chip kernels
  [[ $root != *-arm64 ]] || place=$root$place
  mapfile -t kernels < <(scripts/portability-table.py arguments "$work" "$chip" "$place")
  # Which pipelines are not made, stands there.
  on_chip "$chip" pipelines "${kernels[@]}" >"$folder/listing" 2>&1 || true
  local made
  made=$(grep "^[0-9a-f]*\.spv:" "$folder/listing" | grep -vc "no pipeline" || true)
  echo "$chip: $made of ${#kernels[@]} different kernels, $SECONDS s"
}
export -f one_chip on_chip compile_texts row_of
export work debians table
printf '%s\n' "${chips[@]}" | xargs -P 1 -I CHIP bash -euo pipefail -c 'one_chip CHIP'

