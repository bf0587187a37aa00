#!/usr/bin/env bash
# Builds libprotobuf-lite.a of the installed headers' version as code that a shared library may hold, which Debian's is
# not: CMake takes build/protobuf/libprotobuf-lite.a for libvkfuse.so. Without it libvkfuse.so needs protobuf's library
# where it runs.
#   usage: scripts/protobuf.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
source scripts/debian-source.sh
[ ! -e build/protobuf/libprotobuf-lite.a ] || exit 0

home=${VKFUSE_SOURCES:-$HOME/.cache/vkfuse-sources}
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
need cmake ninja-build g++ libprotobuf-dev
debian_source "$release" protobuf
source=$home/source/protobuf-$release
[ -e "$source/cmake/CMakeLists.txt" ] && [ ! -e "$source/CMakeLists.txt" ] && source=$source/cmake
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake -G Ninja -S "$source" -B build/protobuf-build -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden \
  -DCMAKE_VISIBILITY_INLINES_HIDDEN=ON \
  -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_SHARED_LIBS=OFF \
  -Dprotobuf_WITH_ZLIB=OFF "${launcher[@]}" >/dev/null
cmake --build build/protobuf-build --target libprotobuf-lite -j "$jobs"
mkdir -p build/protobuf
cp build/protobuf-build/libprotobuf-lite.a build/protobuf/
