#!/usr/bin/env bash
# Cross-builds vkfuse for 64-bit Windows with mingw-w64 on Debian, and tests it under Wine over lavapipe.
#   usage: scripts/windows.sh                             all of the following
#          scripts/windows.sh dependencies                what is linked; $VKFUSE_WINDOWS, else ~/.cache/vkfuse-windows
#          scripts/windows.sh build [--target TARGET]     into build/windows
#          scripts/windows.sh test [golden|error|unit|c|bench ...]
#          scripts/windows.sh sample                      the Windows side of source/os alone, in half a minute
#          scripts/windows.sh zip                         build/windows/package/vkfuse-VERSION-windows-x86_64.zip
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

home=${VKFUSE_WINDOWS:-$HOME/.cache/vkfuse-windows}
prefix=$home/prefix
build=build/windows
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}
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

# apt of another release of Debian, which changes nothing outside of $home.
apt_of() {
  local release=$1 apt=$home/apt/$1
  mkdir -p "$apt/lists/partial"
  printf "%s $mirror %s main\n" deb "$release" deb-src "$release" >"$apt/sources.list"
  local options=(-qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$apt/lists" -o APT::Sandbox::User=root -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  [ -n "$(find "$apt/lists" -name '*Sources*' -print -quit)" ] || apt-get "${options[@]}" update
  apt-get "${options[@]}" "${@:2}"
}

# The upstream source of a package of a release, into $home/source/PACKAGE.
debian_source() {
  local release=$1 package=$2 uri file size hash
  [ -d "$home/source/$package" ] && return
  mkdir -p "$home/source/$package.part"
  read -r uri file size hash < <(apt_of "$release" source --print-uris "$package" | tr -d "'" | grep '\.orig\.tar')
  echo "Fetching $file, $size bytes"
  /usr/lib/apt/apt-helper download-file "$uri" "$home/source/$file" "$hash"
  tar xf "$home/source/$file" -C "$home/source/$package.part" --strip-components=1
  mv "$home/source/$package.part" "$home/source/$package"
}

headers() {
  mkdir -p "$prefix/include" "$prefix/share/cmake" "$prefix/lib/cmake/fmt"
  local name
  for name in fmt nlohmann CLI vulkan vk_video shaderc spirv_cross onnx; do
    rm -rf "$prefix/include/$name"
    cp -rL "/usr/include/$name" "$prefix/include/"
  done
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

# As new as shaderc, whose modules it checks: Debian 12's does not know every capability that they have.
spirv_tools() {
  debian_source trixie spirv-tools
  if [ ! -d "$home/spirv-headers" ]; then
    (cd "$home/source" && apt_of trixie download spirv-headers)
    rm -rf "$home/spirv-headers.part"
    dpkg -x "$(ls -t "$home"/source/spirv-headers_*.deb | head -1)" "$home/spirv-headers.part"
    mv "$home/spirv-headers.part" "$home/spirv-headers"
  fi
  cross "$home/source/spirv-tools" "$home/spirv-tools" -DSPIRV_SKIP_EXECUTABLES=ON -DSPIRV_SKIP_TESTS=ON \
    -DSPIRV-Headers_SOURCE_DIR="$home/spirv-headers/usr" -DSPIRV_WERROR=OFF
  cmake --build "$home/spirv-tools" --target SPIRV-Tools-static -j "$jobs"
  cp "$home/spirv-tools/source/libSPIRV-Tools.a" "$prefix/lib/"
  cp -r "$home/source/spirv-tools/include/spirv-tools" "$prefix/include/"
}

dependencies() {
  need "${build_packages[@]}" g++-mingw-w64-x86-64-posix lld maven unzip googletest python3
  headers
  dll lwjgl-shaderc shaderc.dll shaderc_shared
  dll lwjgl-spvc spirv-cross.dll spirv-cross-c-shared
  cross /usr/src/googletest "$home/googletest" -DBUILD_GMOCK=OFF
  cmake --build "$home/googletest" --target install -j "$jobs"
  spirv_tools
  debian_source bookworm protobuf  # the release of the host's protoc
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
    trap "kill $! 2>/dev/null || true" EXIT
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

# What ctest runs as windows/sample: source/os and the store by themselves. Without the compiler or Wine it is left out
# (77).
sample() {
  for tool in x86_64-w64-mingw32-g++-posix ld.lld wine; do
    command -v $tool >/dev/null && continue
    echo "There is no $tool: the Windows side of source/os is not tested."
    exit 77
  done
  place=$(mktemp -d)  # not local: the trap runs at the end
  trap 'rm -rf "$place"' EXIT
  mkdir "$place/include"
  ln -s /usr/include/fmt /usr/include/gtest "$place/include/"
  ls source/os/*_windows.cpp source/store/*.cpp source/base/error.cpp tests/support/environment.cpp \
    tests/support/environment_windows.cpp tests/unit/os/*_test.cpp tests/unit/store/store_test.cpp |
    sed "s|.*|#include \"$PWD/&\"|" >"$place/all.cpp"
  ls /usr/src/googletest/googletest/src/gtest{-all,_main}.cc | sed 's/.*/#include "&"/' >"$place/gtest.cpp"
  local part parts=()
  for part in all gtest; do
    x86_64-w64-mingw32-g++-posix -std=c++20 -O0 -Wall -Wextra -Wno-missing-field-initializers -DFMT_HEADER_ONLY \
      -Isource -Iinclude -Itests -isystem "$place/include" -isystem /usr/src/googletest/googletest \
      -Wa,-mbig-obj -c "$place/$part.cpp" -o "$place/$part.o" &
    parts+=($!)
  done
  for part in "${parts[@]}"; do wait "$part"; done
  x86_64-w64-mingw32-g++-posix -fuse-ld=lld -static "$place"/*.o -lntdll -o "$place/sample.exe"
  export WINEPREFIX="$place/wine" WINEDEBUG=-all DISPLAY=
  local status=0
  wine "$place/sample.exe" --gtest_brief=1 || status=$?
  wineserver -k || true  # it would be waited for
  return $status
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
  sample) sample ;;
  zip) package ;;
  all) dependencies && build && run_tests && package ;;
  *) sed -n '2,9s/^# //p' "$0" >&2 && exit 2 ;;
esac
