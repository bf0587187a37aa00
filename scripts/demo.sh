#!/usr/bin/env bash
# Installs what is missing (Debian packages), builds, and runs the quick benchmark on the best Vulkan
# device found: a GPU if its driver is installed, else lavapipe on the CPU.
#   usage: scripts/demo.sh [vkfuse-bench arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

need "${build_packages[@]}" mesa-vulkan-drivers
cmake --preset release -DVKFUSE_BUILD_TESTS=OFF
cmake --build --preset release -j "$jobs"
build/release/textbook
build/release/vkfuse-bench --suite quick "$@"
