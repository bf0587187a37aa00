#!/usr/bin/env bash
# Lines of each folder that the tests of the compiler run, as gcov counts them.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
need "${build_packages[@]}" libgtest-dev mesa-vulkan-drivers

cmake --preset coverage >/dev/null
cmake --build --preset coverage -j "$jobs" --target vkfuse-test-{unit,golden,error,differential,fuzz} >/dev/null
find build/coverage -name '*.gcda' -delete
icd=/usr/share/vulkan/icd.d/lvp_icd.x86_64.json
export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-$PWD/build/mesa-cache}
export VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd VKFUSE_TEST_DRIVER=lavapipe VKFUSE_CACHE=off
for kind in unit golden error differential fuzz; do
  build/coverage/tests/vkfuse-test-$kind >/dev/null || echo "vkfuse-test-$kind fails in this build." >&2
done

objects=build/coverage/CMakeFiles/vkfuse.dir/source
for folder in index ir passes partition schedule segment codegen plan ops reference runtime store; do
  find "$objects/$folder" -name '*.gcda' -print0 | xargs -0 gcov --no-output 2>/dev/null |
    awk -v folder="$folder" '/^File/ { own = index($0, "source/" folder "/") > 0 && /\.cpp/ }
      /^Lines executed/ && own { split($2, part, ":"); sub("%", "", part[2]); lines += $4; run += part[2] * $4 / 100; own = 0 }
      END { if (lines) printf "%-10s %5.1f %% of %d lines\n", folder, 100 * run / lines, lines }'
done
