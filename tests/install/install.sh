#!/usr/bin/env bash
# Installs into an empty folder, and builds and runs the README's programs against it from outside, found by CMake and
# by pkg-config.
#   usage: install.sh BUILD SOURCE VERSION
set -euo pipefail
build=$1 source=$2 version=$3
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
fail() { echo "$1" >&2; exit 1; }
: "${CC:=cc}" "${CXX:=c++}"

cmake --install "$build" --prefix "$files/first" > "$files/log" || fail "It does not install: $(tail -3 "$files/log")"
mv "$files/first" "$files/prefix"  # an installation may be moved
prefix=$files/prefix
library=$(find "$prefix" -name libvkfuse.so)
[ -n "$library" ] || fail "There is no libvkfuse.so."
libdir=$(dirname "$library")
for program in vkfuse vkfuse-bench; do
  "$prefix/bin/$program" --version | grep -q "$version" || fail "bin/$program is not version $version."
done
# Where the tree is /vkfuse, neither lib/cmake/vkfuse nor ${CMAKE_CURRENT_LIST_DIR}/vkfuseTargets.cmake is in it.
tree="(^|[^[:alnum:]_./}-]|-[IL])($source|$build)([^[:alnum:]_.-]|$)"
! grep -rlE "$tree" "$libdir/cmake" "$libdir/pkgconfig" "$prefix/include" ||
  fail "An installed file names a folder of the build."

# The library: its name, and nothing visible but the API.
readelf -d "$library" | grep -q "SONAME.*\[libvkfuse.so.${version%.*}\]" ||
  fail "The SONAME is $(readelf -d "$library" | grep SONAME)."
nm -DC --defined-only "$library" | sed -E 's/^[0-9a-f]* . //' > "$files/symbols"
other=$(grep -vE '^(vkf_|vkfuse::|(vtable|typeinfo|typeinfo name) for vkfuse::Transport$)' "$files/symbols" || true)
[ -z "$other" ] || fail "Symbols that are no API are visible: $(head -5 <<< "$other")"
layers='c|onnx_c|api|ir|ops|runtime|vulkan|spirv|store|lowering|schedule|segment|plan|passes|index'
internal=$(grep -E "^vkfuse::($layers)::" "$files/symbols" || true)
[ -z "$internal" ] || fail "Internal functions are visible: $(head -5 <<< "$internal")"
for header in vkfuse.h onnx.h; do
  header=$prefix/include/vkfuse/$header
  for function in $(grep -oE '\bvkf_[a-z_]+\(' "$header" | tr -d '(' | sort -u); do
    grep -q "static inline.* $function(" "$header" || grep -qx "$function" "$files/symbols" ||
      fail "$function is declared and not in the library."
  done
done
# The transport over MPI, where it is built: with its function of C.
mpi=$(find "$prefix" -name libvkfuse_mpi.so)
if [ -n "$mpi" ]; then
  nm -DC --defined-only "$mpi" | sed -E 's/^[0-9a-f]* . //' > "$files/symbols_mpi"
  grep -qx vkf_open_mpi "$files/symbols_mpi" || fail "vkf_open_mpi is declared and not in libvkfuse_mpi.so."
fi
internal=$(grep -oE '^vkfuse::onnx::[A-Za-z_]+' "$files/symbols" | sort -u |
  grep -vxE 'vkfuse::onnx::(load_onnx|compile_onnx|read_tensor_proto|operator_table_markdown|OnnxProgram)' || true)
[ -z "$internal" ] || fail "Internal functions of the importer are visible: $(head -5 <<< "$internal")"
# protobuf is inside, where there is one that can be (scripts/protobuf.sh), and a program may have another one.
if [ -e "$source/build/protobuf/libprotobuf-lite.a" ]; then
  protobuf=$(nm -DC "$library" | grep -iE 'protobuf|\bonnx::[A-Z][A-Za-z]*Proto' | grep -v 'vkfuse::' || true)
  [ -z "$protobuf" ] || fail "Symbols of protobuf are visible: $(head -5 <<< "$protobuf")"
  for file in "$library" "$prefix/bin/vkfuse"; do
    ! readelf -d "$file" | grep -q 'NEEDED.*protobuf' || fail "$file needs protobuf's library."
  done
else
  echo "There is no build/protobuf/libprotobuf-lite.a: libvkfuse.so needs protobuf's library."
fi
size=$(stat -Lc %s "$library")
[ "$size" -lt 30000000 ] || fail "libvkfuse.so has $size bytes, and 30 MB are the most."

# What a fault of memory meets: stack protectors, checked calls of libc, tables that are read-only before the program
# begins.
for file in "$library" "$prefix/bin/vkfuse" "$prefix/bin/vkfuse-bench"; do
  readelf -lW "$file" | grep -q GNU_RELRO || fail "$file has no RELRO."
  readelf -dW "$file" | grep -qE 'BIND_NOW|FLAGS_1.*NOW' || fail "$file binds its functions when they are called."
  readelf -hW "$file" | grep -qE 'Type: *DYN' || fail "$file is always at one address."
  nm -D --undefined-only "$file" > "$files/undefined"
  grep -q __stack_chk_fail "$files/undefined" || fail "$file has no stack protectors."
  grep -qE '__[a-z]+_chk' "$files/undefined" || fail "$file calls libc unchecked."
done

# Every header by itself, twice.
for header in "$prefix"/include/vkfuse/*; do
  name=vkfuse/$(basename "$header")
  printf '#include <%s>\n#include <%s>\nint main() { return 0; }\n' "$name" "$name" > "$files/one.cpp"
  "$CXX" -std=c++20 -Wall -Wextra -Wshadow -Werror -fsyntax-only -I "$prefix/include" "$files/one.cpp" ||
    fail "$name does not compile by itself."
done
printf '#include <vkfuse/vkfuse.h>\n#include <vkfuse/vkfuse.h>\nint main(void) { return 0; }\n' > "$files/one.c"
"$CC" -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I "$prefix/include" "$files/one.c" ||
  fail "vkfuse.h does not compile as C11."
if [ -n "$mpi" ]; then
  cat > "$files/mpi.c" <<'END'
#include <stdio.h>
#include <vkfuse/mpi.h>
int main(void) { return vkf_open_mpi(0, 0) == VKF_INVALID_ARGUMENT ? puts(vkf_last_error()) < 0 : 1; }
END
  "$CC" -std=c11 -pedantic -Wall -Wextra -Werror "$files/mpi.c" -o "$files/in_c_with_mpi" -I "$prefix/include" \
    -L "$libdir" -lvkfuse_mpi -lvkfuse -Wl,-rpath,"$libdir" || fail "A C program does not link libvkfuse_mpi."
  [ "$("$files/in_c_with_mpi")" = "The place for the new transport is null." ] ||
    fail "The C program with MPI says $("$files/in_c_with_mpi")."
fi

# The README shows the programs that are built here, but for their first lines, which name it.
shown() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$source/README.md" | sed '1d;$d'; }
for language in c cpp; do
  diff <(shown $language) <(sed '1d' "$source/examples/readme.$language") > "$files/log" ||
    fail "The README's program is not examples/readme.$language: $(head -5 "$files/log")"
done

# A project with CMake.
cmake -S "$source/tests/install" -B "$files/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug \
  -DVKFUSE_WANTED="${version%.*}" -DVKFUSE_EXAMPLES="$source/examples" > "$files/log" 2>&1 ||
  fail "A project does not find it: $(tail -5 "$files/log")"
cmake --build "$files/consumer" > "$files/log" 2>&1 || fail "A project does not build with it: $(tail -5 "$files/log")"
[ "$("$files/consumer/in_cxx")" = "1 1 3 7 " ] || fail "The C++ program says $("$files/consumer/in_cxx")."
[ "$("$files/consumer/in_c")" = "0 0 2 6 " ] || fail "The C program says $("$files/consumer/in_c")."
model=$build/tests/importer/corpus/functions.onnx
[ "$("$files/consumer/onnx_in_c" "$model")" = "y: 16 bytes -0 -0.25 -0.5 -0.75" ] ||
  fail "The C program with ONNX says $("$files/consumer/onnx_in_c" "$model")."
[ "$("$files/consumer/onnx_in_cxx" "$model")" = "g: -0 -1 -2 -3" ] ||
  fail "The C++ program with ONNX says $("$files/consumer/onnx_in_cxx" "$model")."
cmake -S "$source/tests/install" -B "$files/later" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
  -DVKFUSE_WANTED=99.0 -DVKFUSE_EXAMPLES="$source/examples" > "$files/log" 2>&1 &&
  fail "Version 99 is found."

# A program with pkg-config.
export PKG_CONFIG_PATH=$libdir/pkgconfig
[ "$(pkg-config --modversion vkfuse)" = "$version" ] || fail "pkg-config knows another version."
flags=$(pkg-config --cflags --libs vkfuse)
"$CC" -std=c11 -pedantic -Wall -Wextra -Werror "$source/examples/readme.c" \
  -o "$files/with_pkg_config" $flags -Wl,-rpath,"$libdir"
[ "$("$files/with_pkg_config")" = "0 0 2 6 " ] ||
  fail "The program built with pkg-config says $("$files/with_pkg_config")."
