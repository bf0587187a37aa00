#!/usr/bin/env bash
# Makes build/vkfuse-bench-VERSION-linux-ARCH.tar.gz: a program that needs glibc, and a Vulkan driver when it runs.
# SPIRV-Tools, SPIRV-Cross and libstdc++ are inside; beside it lies a shaderc that compiles cooperative matrices and
# bf16 (scripts/newer-shaderc.sh), which needs the system's libstdc++.
#   usage: scripts/package.sh [x86_64|aarch64]...        (both, without any)
# Packages for aarch64 are cross-built, in ten minutes on two cores, so not in CI; apt-get adds the architecture arm64
# to this system for that. scripts/test-package.sh runs the package under qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

limit=$((30 * 1024 * 1024))
version=$(sed -n 's/^project(vkfuse VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
cross_packages=(libvulkan-dev:arm64 libshaderc-dev:arm64 glslang-dev:arm64 libspirv-cross-c-shared-dev:arm64
  spirv-tools:arm64 libfmt-dev:arm64 libfmt9:arm64 libcli11-dev nlohmann-json3-dev)

prepare() {
  need "${build_packages[@]}" binutils
  [ "$1" = aarch64 ] || return 0
  local sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  if ! dpkg --print-foreign-architectures | grep -qx arm64; then
    echo "Adding the architecture arm64 to dpkg."
    $sudo dpkg --add-architecture arm64
    $sudo apt-get -qq update
  fi
  need g++-aarch64-linux-gnu
  cross_libraries
}

# The development packages of both architectures cannot be installed together, so those of arm64 are unpacked.
cross_libraries() {
  local root=$PWD/build/aarch64-root
  [ -e "$root/complete" ] && return
  mkdir -p "$root/packages"
  (cd "$root/packages" && apt-get -qq download "${cross_packages[@]}")
  local package
  for package in "$root"/packages/*.deb; do dpkg -x "$package" "$root"; done
  touch "$root/complete"
}

build() {
  local arch=$1 build=$PWD/build/package-$1 tools=$PWD/build/shaderc-$1
  scripts/newer-shaderc.sh "$tools" "$arch"
  local flags=(-DCMAKE_BUILD_TYPE=Release -DVKFUSE_BUILD_TESTS=OFF -DVKFUSE_BUILD_EXAMPLES=OFF -DVKFUSE_BUILD_ONNX=OFF
    -DVKFUSE_STATIC_TOOLS=ON "-DVKFUSE_SHADERC_LIBRARY=$tools/lib/libshaderc_shared.so.1"
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$ORIGIN/lib'
    "-DCMAKE_EXE_LINKER_FLAGS=-static-libstdc++ -static-libgcc -Wl,--gc-sections")
  if [ "$arch" = aarch64 ] && [ "$(uname -m)" != aarch64 ]; then
    local root=$PWD/build/aarch64-root
    flags+=("-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64-linux.cmake" "-DVKFUSE_CROSS_ROOT=$root")
  fi
  cmake -S . -B "$build" -G Ninja "${flags[@]}" > "$build.log" || { tail -20 "$build.log" >&2; exit 1; }
  cmake --build "$build" --target vkfuse-bench -j "$jobs"
}

# What the program asks of the system, beyond glibc, is a mistake of this script.
check() {
  local program=$1 size
  size=$(stat -c %s "$program")
  [ "$size" -lt $limit ] || { echo "$program has $size bytes, and $limit are the limit." >&2; exit 1; }
  local other
  other=$(readelf -d "$program" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
    grep -vE '^(libc|libm|libdl|libpthread|ld-linux.*)\.so|^libshaderc_shared\.so\.1$' || true)
  [ -z "$other" ] || { echo "$program needs $other, which is neither glibc nor in the package." >&2; exit 1; }
}

package() {
  local arch=$1 name=vkfuse-bench-$version-linux-$1 strip=strip
  [ "$arch" = "$(uname -m)" ] || strip=$arch-linux-gnu-strip
  local folder=build/$name
  rm -rf "$folder"
  mkdir -p "$folder/lib"
  $strip -o "$folder/vkfuse-bench" "build/package-$arch/vkfuse-bench"
  $strip -o "$folder/lib/libshaderc_shared.so.1" "build/shaderc-$arch/lib/libshaderc_shared.so.1"
  cp LICENSE "$folder/"
  cp docs/benchmark-package.md "$folder/README.md"
  check "$folder/vkfuse-bench"
  tar -C build --owner=0 --group=0 --sort=name -czf "build/$name.tar.gz" "$name"
  echo "build/$name.tar.gz: $(stat -c %s "build/$name.tar.gz") bytes, the program $(stat -c %s "$folder/vkfuse-bench")"
}

architectures=("$@")
[ ${#architectures[@]} -gt 0 ] || architectures=(x86_64 aarch64)
for arch in "${architectures[@]}"; do
  case $arch in
    x86_64 | aarch64) ;;
    *) echo "The architecture '$arch' is none of x86_64 and aarch64." >&2; exit 2 ;;
  esac
  mkdir -p build
  prepare "$arch"
  build "$arch"
  package "$arch"
done
