#!/usr/bin/env bash
# Installs what is missing (Debian packages), builds, and runs every test on two software Vulkan
# drivers, lavapipe and SwiftShader.
#   usage: scripts/test.sh [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

driver_packages=(mesa-vulkan-drivers)
# Ubuntu's chromium is a snap without the SwiftShader files: there its tests are left out, with a note.
if apt-cache show chromium-common >/dev/null 2>&1; then
  driver_packages+=(chromium-common chromium)  # chromium: tests look at pages
fi
need "${build_packages[@]}" libgtest-dev python3-numpy clang clang-format "${driver_packages[@]}"
need python3-dev python3-venv curl unzip  # the wheel
# Jobs of several processes run by both; without one, its tests are left out, with a note.
need libopenmpi-dev openmpi-bin libmpich-dev mpich
if apt-cache show libonnx-testdata >/dev/null 2>&1; then need libonnx-testdata; fi

# A processor that has no such compiler or no Wine leaves windows/sample out, with a note.
if apt-cache show g++-mingw-w64-x86-64-posix wine64 >/dev/null 2>&1; then
  need g++-mingw-w64-x86-64-posix lld wine wine64
fi

scripts/check-layers.sh
scripts/check-format.sh
scripts/check-words.sh
scripts/check-counts.py
# Without a network the tests run all the same; of `install` what protobuf inside is for is left out, with a note.
scripts/protobuf.sh || echo "There is no protobuf for libvkfuse.so to hold."
scripts/onnxruntime.sh || echo "There are no headers of ONNX Runtime, and no provider for it."
cmake --preset release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
cmake --build --preset release -j "$jobs"
scripts/check-clang.py
# Side by side: compiling kernels, which is most of the time, keeps one core busy.
ctest --preset release -j "$jobs" "$@"
