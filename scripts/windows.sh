#!/usr/bin/env bash
# Cross-builds vkfuse for 64-bit Windows with mingw-w64 on Debian, and tests it under Wine over lavapipe.
#   usage: scripts/windows.sh                             all of the following
#          scripts/windows.sh dependencies                what is linked; $VKFUSE_WINDOWS, else ~/.cache/vkfuse-windows
#          scripts/windows.sh build [--target TARGET]     into build/windows
#          scripts/windows.sh test [golden|error|unit|c|bench ...]
#          scripts/windows.sh zip                         build/windows/package/vkfuse-VERSION-windows-x86_64.zip
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

build() {
  cross . $build
  cmake --build $build -j "$jobs" "$@"
  cp -u "$prefix"/bin/*.dll $build/
}

# Wine's Vulkan is the host's. Programs find the DLLs beside vkfuse.exe.
wine_environment() {
  need wine64 wine xvfb mesa-vulkan-drivers
  export WINEPREFIX=${WINEPREFIX:-$home/wine} WINEDEBUG=${WINEDEBUG:--all} WINEPATH
  export VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/lvp_icd.x86_64.json VK_DRIVER_FILES
  VK_DRIVER_FILES=$VK_ICD_FILENAMES
  export VKFUSE_TEST_DRIVER=lavapipe VKFUSE_CHECK_SPIRV=1 VKFUSE_CACHE=off
  WINEPATH="Z:${PWD//\//\\}\\${build//\//\\}"
  if [ -z "${DISPLAY-}" ]; then
    Xvfb :77 -screen 0 640x480x24 >/dev/null 2>&1 &
    trap "kill $!" EXIT
    export DISPLAY=:77
    sleep 1
  fi
}

# What Wine lacks, by test: its Vulkan reads the host's environment, which a program inside does not change.
not_under_wine=NoVulkanDeathTest.NoDriverIsASentence:TwoDevicesDeathTest.WorkInOneProcess

# test [golden] [unit] [error] [c] [bench]
run_tests() {
  wine_environment
  local kind
  for kind in ${*:-golden error unit c bench}; do
    echo "== $kind"
    case $kind in
      bench) wine $build/vkfuse-bench.exe --suite quick ;;
      c) wine $build/tests/vkfuse-test-c.exe ;;
      *) wine "$build/tests/vkfuse-test-$kind.exe" "--gtest_filter=-$not_under_wine" --gtest_brief=1 ;;
    esac
  done
}

# What a user of Windows unpacks: the commands, the library with its C interface, and the DLLs that they need.
package() {
  need zip
  local version folder
  version=$(sed -nE 's/^project\(vkfuse VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
  folder=$build/package/vkfuse-$version-windows-x86_64
  rm -rf $build/package
  mkdir -p "$folder"/{bin,include/vkfuse,lib,python}
  x86_64-w64-mingw32-strip -o "$folder/bin/vkfuse.exe" $build/vkfuse.exe
  x86_64-w64-mingw32-strip -o "$folder/bin/vkfuse-bench.exe" $build/vkfuse-bench.exe
  x86_64-w64-mingw32-strip -o "$folder/bin/vkfuse.dll" $build/vkfuse.dll
  cp "$prefix/bin/shaderc.dll" "$prefix/bin/spirv-cross.dll" "$folder/bin/"
  cp $build/libvkfuse.dll.a "$folder/lib/"
  cp include/vkfuse/vkfuse.h "$folder/include/vkfuse/"
  cp examples/python/vkfuse.py "$folder/python/"
  cp LICENSE "$folder/"
  cp docs/windows.md "$folder/README.md"
  (cd $build/package && zip -qr "vkfuse-$version-windows-x86_64.zip" "vkfuse-$version-windows-x86_64")
  ls -l $build/package/*.zip
}

step=${1-all}
[ $# = 0 ] || shift
case $step in
  dependencies) dependencies ;;
  build) build "$@" ;;
  test) run_tests "$@" ;;
  zip) package ;;
  all) dependencies && build && run_tests && package ;;
  *) sed -n '2,8s/^# //p' "$0" >&2 && exit 2 ;;
esac
