#!/usr/bin/env bash
# Cross-builds vkfuse for 64-bit Windows with mingw-w64 on Debian, and tests it under Wine over lavapipe.
#   usage: scripts/windows.sh [dependencies] [build] [test] [zip]     all four without an argument
# FOLDER of the dependencies: $VKFUSE_WINDOWS, else ~/.cache/vkfuse-windows. The build is build/windows.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

home=${VKFUSE_WINDOWS:-$HOME/.cache/vkfuse-windows}
prefix=$home/prefix
build=build/windows
lwjgl=3.3.6  # LWJGL's packages hold shaderc and SPIRV-Cross as DLLs with their C interfaces

cross() {
  cmake -G Ninja -S "$1" -B "$2" --toolchain "$PWD/cmake/mingw-w64.cmake" -DVKFUSE_WINDOWS_PREFIX="$prefix" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" "${@:3}"
}

# A DLL of a Maven package, and an import library for it.
dll() {
  local artifact=$1 file=$2 name=${2%.dll}
  mkdir -p "$home/maven" "$prefix/bin" "$prefix/lib"
  mvn -q dependency:copy -Dartifact="org.lwjgl:$artifact:$lwjgl:jar:natives-windows" \
    -DoutputDirectory="$home/maven" -Dmdep.useBaseVersion=true
  unzip -qoj "$home/maven/$artifact-$lwjgl-natives-windows.jar" "windows/x64/*/$file" -d "$prefix/bin"
  {
    echo "LIBRARY $file"
    echo EXPORTS
    x86_64-w64-mingw32-objdump -p "$prefix/bin/$file" | sed -nE 's/^\t\[ *[0-9]+\] ([a-z_0-9A-Z]+)$/\1/p' | sort -u
  } >"$home/maven/$name.def"
  x86_64-w64-mingw32-dlltool -d "$home/maven/$name.def" -l "$prefix/lib/lib$3.dll.a"
}

# The source of a Debian package, by deb-src of this distribution.
debian_source() {
  mkdir -p "$home/source"
  [ -d "$home/source/$1" ] && return
  if ! apt-cache showsrc "$1" >/dev/null 2>&1; then
    echo "apt has no source of $1: add deb-src to its sources" >&2
    return 1
  fi
  (cd "$home/source" && apt-get -qq source --download-only "$1" && mkdir "$1.part" &&
    tar xf "$(ls "$1"_*.orig.tar.*)" -C "$1.part" --strip-components=1 && mv "$1.part" "$1")
}

headers() {
  mkdir -p "$prefix/include" "$prefix/share/cmake" "$prefix/lib/cmake/fmt"
  local name
  for name in fmt nlohmann CLI vulkan vk_video shaderc spirv_cross onnx; do
    rm -rf "$prefix/include/$name"
    cp -rL "/usr/include/$name" "$prefix/include/"
  done
  mkdir -p "$home/spirv-headers/include"
  cp -r /usr/include/spirv "$home/spirv-headers/include/"  # by themselves: /usr/include has the host's libc, too
  for name in nlohmann_json CLI11; do
    cp -rL "$(find /usr/share/cmake /usr/lib -maxdepth 3 -type d -name "$name" | head -1)" "$prefix/share/cmake/"
  done
  cat >"$prefix/lib/cmake/fmt/fmtConfig.cmake" <<'EOF'
if(NOT TARGET fmt::fmt-header-only)
  add_library(fmt::fmt-header-only INTERFACE IMPORTED)
  set_target_properties(fmt::fmt-header-only PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1
    INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_LIST_DIR}/../../../include)
endif()
EOF
}

dependencies() {
  need "${build_packages[@]}" g++-mingw-w64-x86-64-posix lld maven unzip googletest spirv-headers python3 dpkg-dev
  headers
  dll lwjgl-shaderc shaderc.dll shaderc_shared
  dll lwjgl-spvc spirv-cross.dll spirv-cross-c-shared
  cross /usr/src/googletest "$home/googletest" -DBUILD_GMOCK=OFF
  cmake --build "$home/googletest" --target install -j "$jobs"
  debian_source spirv-tools
  cross "$home/source/spirv-tools" "$home/spirv-tools" -DSPIRV_SKIP_EXECUTABLES=ON -DSPIRV_SKIP_TESTS=ON \
    -DSPIRV-Headers_SOURCE_DIR="$home/spirv-headers" -DSPIRV_WERROR=OFF
  cmake --build "$home/spirv-tools" --target SPIRV-Tools-static -j "$jobs"
  cp "$home/spirv-tools/source/libSPIRV-Tools.a" "$prefix/lib/"
  cp -r "$home/source/spirv-tools/include/spirv-tools" "$prefix/include/"
  debian_source protobuf
  cross "$home/source/protobuf" "$home/protobuf" -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF \
    -Dprotobuf_WITH_ZLIB=OFF -Dprotobuf_BUILD_SHARED_LIBS=OFF
  cmake --build "$home/protobuf" --target install -j "$jobs"
}
