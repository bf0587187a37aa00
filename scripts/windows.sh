#!/usr/bin/env bash
# Cross-builds vkfuse for 64-bit Windows with mingw-w64 on Debian, and tests it under Wine over lavapipe.
#   usage: scripts/windows.sh                             all of the following
#          scripts/windows.sh dependencies                what is linked; $VKFUSE_WINDOWS, else ~/.cache/vkfuse-windows
#          scripts/windows.sh build [TARGET ...]          into build/windows
#          scripts/windows.sh test [golden|error|unit|c|python|command|bench ...]
#          scripts/windows.sh sample                      the Windows side of source/os alone, in half a minute
#          scripts/windows.sh zip                         build/windows/package/vkfuse-VERSION-windows-x86_64.zip, and
#                                                         runs what is in it, by itself
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
source scripts/drivers.sh
source scripts/debian-source.sh

home=${VKFUSE_WINDOWS:-$HOME/.cache/vkfuse-windows}
prefix=$home/prefix
build=build/windows
lwjgl=3.3.6  # LWJGL's packages hold shaderc and SPIRV-Cross as DLLs with their C interfaces
# JavaCPP's packages hold Python for Windows. Later NumPys call functions of C's library that Wine 8 does not have.
python=3.12.1-1.5.10 numpy=1.26.4

cross() {
  cmake -G Ninja -S "$1" -B "$2" --toolchain "$PWD/cmake/mingw-w64.cmake" -DVKFUSE_WINDOWS_PREFIX="$prefix" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" "${@:3}"
}

# maven GROUP:ARTIFACT:VERSION CLASSIFIER: the file of a Maven package, into $home/maven.
maven() {
  mkdir -p "$home/maven"
  mvn -q dependency:copy -Dartifact="$1:jar:$2" -DoutputDirectory="$home/maven" -Dmdep.useBaseVersion=true
}

# A DLL of LWJGL's, and an import library for it.
dll() {
  local artifact=$1 file=$2 name=${2%.dll}
  mkdir -p "$prefix/bin" "$prefix/lib"
  maven "org.lwjgl:$artifact:$lwjgl" natives-windows
  unzip -qoj "$home/maven/$artifact-$lwjgl-natives-windows.jar" "windows/x64/*/$file" -d "$prefix/bin"
  {
    echo "LIBRARY $file"
    echo EXPORTS
    x86_64-w64-mingw32-objdump -p "$prefix/bin/$file" | sed -nE 's/^\t\[ *[0-9]+\] ([a-z_0-9A-Z]+)$/\1/p' | sort -u
  } >"$home/maven/$name.def"
  x86_64-w64-mingw32-dlltool -d "$home/maven/$name.def" -l "$prefix/lib/lib$3.dll.a"
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
  cross "$home/source/spirv-tools-trixie" "$home/spirv-tools" -DSPIRV_SKIP_EXECUTABLES=ON -DSPIRV_SKIP_TESTS=ON \
    -DSPIRV-Headers_SOURCE_DIR="$home/spirv-headers/usr" -DSPIRV_WERROR=OFF
  cmake --build "$home/spirv-tools" --target SPIRV-Tools-static -j "$jobs"
  cp "$home/spirv-tools/source/libSPIRV-Tools.a" "$prefix/lib/"
  cp -r "$home/source/spirv-tools-trixie/include/spirv-tools" "$prefix/include/"
}

# Python for Windows with NumPy, which runs the tests of vkfuse.py: $home/python/python.exe.
python_of_windows() {
  [ -e "$home/python/python.exe" ] && return
  maven "org.bytedeco:cpython:$python" windows-x86_64
  rm -rf "$home/python.part"
  unzip -q "$home/maven/cpython-$python-windows-x86_64.jar" 'org/bytedeco/cpython/windows-x86_64/*' \
    -d "$home/python.part"
  python3 -m pip download -q --no-deps --platform win_amd64 --python-version 312 --only-binary=:all: \
    "numpy==$numpy" -d "$home/maven"
  unzip -q "$home"/maven/numpy-$numpy-*.whl -d "$home/python.part/org/bytedeco/cpython/windows-x86_64/lib/site-packages"
  rm -rf "$home/python"
  mv "$home/python.part/org/bytedeco/cpython/windows-x86_64" "$home/python"
}

dependencies() {
  need "${build_packages[@]}" g++-mingw-w64-x86-64-posix lld maven unzip googletest python3 python3-pip
  headers
  dll lwjgl-shaderc shaderc.dll shaderc_shared
  dll lwjgl-spvc spirv-cross.dll spirv-cross-c-shared
  cross /usr/src/googletest "$home/googletest" -DBUILD_GMOCK=OFF
  cmake --build "$home/googletest" --target install -j "$jobs"
  spirv_tools
  debian_source bookworm protobuf  # the release of the host's protoc
  cross "$home/source/protobuf-bookworm" "$home/protobuf" -Dprotobuf_BUILD_TESTS=OFF \
    -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_WITH_ZLIB=OFF -Dprotobuf_BUILD_SHARED_LIBS=OFF
  cmake --build "$home/protobuf" --target install -j "$jobs"
  python_of_windows
}

# The commands, the library with its C interface, and the tests that run under Wine; or the targets that are named.
build() {
  local targets=(vkfuse-command vkfuse-bench vkfuse_shared vkfuse-test-{golden,error,unit,c})
  [ $# = 0 ] || targets=("$@")
  cross . $build
  cmake --build $build -j "$jobs" --target "${targets[@]}" -- -k 0
  cp -u "$prefix"/bin/*.dll $build/
}

# Wine's Vulkan is the host's. Programs find the DLLs beside vkfuse.exe.
wine_environment() {
  need wine64 wine xvfb mesa-vulkan-drivers
  export WINEPREFIX=${WINEPREFIX:-$home/wine} WINEDEBUG=${WINEDEBUG:--all} WINEPATH
  VK_ICD_FILENAMES=$(icd_of lavapipe)
  export VK_ICD_FILENAMES VK_DRIVER_FILES=$VK_ICD_FILENAMES
  export VKFUSE_TEST_DRIVER=lavapipe VKFUSE_CHECK_SPIRV=1 VKFUSE_CACHE=off
  export VKFUSE_TEST_SLOWNESS=3  # Wine passes on every call of Vulkan
  export LC_ALL=C.UTF-8  # names of files are what Wine takes them for
  WINEPATH="Z:${PWD//\//\\}\\${build//\//\\}"
  if [ -z "${DISPLAY-}" ]; then
    Xvfb :77 -screen 0 640x480x24 >/dev/null 2>&1 &
    display=$!
    trap 'kill "$display" 2>/dev/null || true' EXIT
    export DISPLAY=:77
    sleep 1
  fi
}

# What Wine lacks, by test: its Vulkan reads the host's environment, which a program inside does not change.
not_under_wine=NoVulkanDeathTest.NoDriverIsASentence:TwoDevicesDeathTest.WorkInOneProcess

# A program that runs vkfuse.exe, for tests that are scripts.
command_as_script() {
  printf '#!/bin/sh\nexec wine "%s" "$@"\n' "$PWD/$build/vkfuse.exe" >$build/vkfuse
  chmod +x $build/vkfuse
}

test_command() {
  command_as_script
  local vkfuse=$PWD/$build/vkfuse
  tests/tool/windows.sh "$vkfuse" examples/graphs && tests/tool/cache.sh "$vkfuse" examples/graphs &&
    tests/tool/switches.sh "$vkfuse" && tests/tool/validate.sh "$vkfuse" examples/graphs 1
}

# Under Wine 8 it does not start where what it prints goes to a file.
run_python() { VKFUSE_LIBRARY=$1 wine "$home/python/python.exe" -B "$2" 2>&1 | cat; }

# Wine says 0 of a program whose stack overflows, so the line that GoogleTest ends with has to be there.
run_tests_of() {
  local printed=$build/tests/printed
  wine "$1" "--gtest_filter=-$not_under_wine" --gtest_brief=1 2>&1 | tee "$printed" &&
    grep -q '^\[  PASSED  \]' "$printed"
}

test_kind() {
  case $1 in
    bench) wine $build/vkfuse-bench.exe --suite quick ;;
    c) wine $build/tests/vkfuse-test-c.exe ;;
    python) run_python $build/vkfuse.dll examples/ctypes/demo.py ;;
    command) test_command ;;
    *) run_tests_of "$build/tests/vkfuse-test-$1.exe" ;;
  esac
}

# test [golden] [error] [unit] [c] [python] [command] [bench]: all of them, also where one fails.
run_tests() {
  wine_environment
  local kind failed=()
  for kind in ${*:-golden error unit c python command bench}; do
    echo "== $kind"
    test_kind "$kind" || failed+=("$kind")
  done
  [ ${#failed[@]} = 0 ] || { echo "Failed under Wine: ${failed[*]}" >&2 && return 1; }
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
  export WINEPREFIX="$place/wine" WINEDEBUG=-all DISPLAY= LC_ALL=C.UTF-8
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
  cp examples/ctypes/vkfuse.py "$folder/python/"
  cp LICENSE "$folder/"
  cp docs/windows.md "$folder/README.md"
  (cd $build/package && zip -qr "vkfuse-$version-windows-x86_64.zip" "vkfuse-$version-windows-x86_64")
  ls -l $build/package/*.zip
  test_package "$PWD/$folder.zip"
}

# What was packed, in a folder with nothing else: commands, a program in C, and Python.
test_package() {
  wine_environment
  unset WINEPATH
  unpacked=$(mktemp -d)  # not local: the trap runs at the end
  trap 'rm -rf "$unpacked"; kill ${display-} 2>/dev/null || true' EXIT
  unzip -q "$1" -d "$unpacked"
  local graph=$PWD/examples/graphs/bias_gelu.vkf program=$PWD/examples/readme.c demo=$PWD/examples/ctypes/demo.py
  cd "$unpacked"/*/
  wine bin/vkfuse.exe devices
  wine bin/vkfuse.exe run "$graph"
  wine bin/vkfuse.exe validate "$graph"
  wine bin/vkfuse-bench.exe --suite quick --filter '^textbook f32$'
  x86_64-w64-mingw32-gcc-posix -Iinclude "$program" lib/libvkfuse.dll.a -o bin/readme.exe
  wine bin/readme.exe
  mkdir "$unpacked/demo"
  cp "$demo" python/vkfuse.py "$unpacked/demo/"
  run_python bin/vkfuse.dll "$unpacked/demo/demo.py"
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
  *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
