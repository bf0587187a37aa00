#!/usr/bin/env bash
# What takes longer than a change may wait: run it before a release, or the part that a change is about.
#   usage: scripts/deep.sh [TIER...]
#     TIER: sanitizers threads layers limits sweep scale faults graphs gradients fuzzers mutations exits files
#       portability matrices windows onnxruntime torch devices slow, all without one; or sanitizers-quick, the part of
#       the first that CI runs, or hardware, where the machine has a GPU
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/drivers.sh
need "${build_packages[@]}" libgtest-dev mesa-vulkan-drivers chromium-common vulkan-validationlayers

lavapipe=$(icd_of lavapipe)
swiftshader=$(icd_of swiftshader)
export VKFUSE_CACHE=off VKFUSE_CHECK_SPIRV=1
failed=()

# on DRIVER PROGRAM [ARGUMENT...]: a program of the tests on one driver.
on() {
  local driver=$1 icd=${!1}
  shift
  echo "--- $driver: $*"
  case "$*" in  # of no test, none fails
    *--gtest_filter=*) [ -n "$("$@" --gtest_list_tests 2>/dev/null)" ] || failed+=("no test of $*") ;;
  esac
  VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd VKFUSE_TEST_DRIVER=$driver "$@" || failed+=("$driver: $*")
}
release() {
  cmake --preset release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON >/dev/null &&
    cmake --build --preset release -j "$jobs" --target all >/dev/null
}

# Address and undefined-behaviour sanitizers, of clang++; leaks too, but for one of 128 bytes inside lavapipe.
instrument() {
  need clang
  need "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
  cmake --preset asan >/dev/null
  local suppressions
  suppressions=$(mktemp)
  echo "leak:libvulkan_lvp" >"$suppressions"
  export LSAN_OPTIONS=suppressions=$suppressions UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  export VKFUSE_TEST_SLOWNESS=30
}
sanitized() { instrument && cmake --build --preset asan -j "$jobs" --target "${@/#/vkfuse-test-}" >/dev/null; }
sanitizers() {
  sanitized unit error golden numeric fuzz fault
  for driver in swiftshader lavapipe; do
    for kind in unit error golden numeric fuzz fault; do on $driver "build/asan/tests/vkfuse-test-$kind"; done
  done
}
# As much of that as a change waits for: calls and allocations that fail, what is refused, a few random graphs.
sanitizers-quick() {
  sanitized error fault fuzz
  for driver in swiftshader lavapipe; do
    for kind in error fault; do on $driver "build/asan/tests/vkfuse-test-$kind"; done
    VKFUSE_FUZZ_CASES=12 on $driver build/asan/tests/vkfuse-test-fuzz --gtest_filter=Fuzz.Graphs:FoundByFuzzing*
  done
}

# Data races, on eight threads that run one executable 1,000 times each. Drivers are not instrumented, and their own
# threads are their own: reports of what happens inside these libraries are suppressed, and nothing wider; libgcc's is a
# lock of the frames that LLVM registers.
threads() {
  cmake --preset tsan >/dev/null && cmake --build --preset tsan -j "$jobs" --target vkfuse-test-threads >/dev/null
  local suppressions
  suppressions=$(mktemp)
  printf '%s\n' race:libvulkan_lvp called_from_lib:libvulkan_lvp called_from_lib:libLLVM mutex:libgcc_s.so \
    race:libvk_swiftshader called_from_lib:libvk_swiftshader >"$suppressions"
  for driver in lavapipe swiftshader; do
    TSAN_OPTIONS=suppressions=$suppressions:halt_on_error=0 VKFUSE_TEST_RUNS=1000 \
      on $driver build/tsan/tests/vkfuse-test-threads
  done
  rm "$suppressions"
}

# The Khronos layer of this system: core checks. Chromium's, which is newer (tests/layers.sh): core checks and
# synchronisation validation, then GPU-assisted validation, on SwiftShader with races in shared memory.
layers() {
  release
  for kind in unit golden differential fuzz; do
    on swiftshader tests/layers.sh core "build/release/tests/vkfuse-test-$kind"
  done
  for driver in lavapipe swiftshader; do
    for kind in unit golden differential fuzz; do
      on $driver tests/layers.sh sync "build/release/tests/vkfuse-test-$kind"
    done
  done
  for driver in lavapipe swiftshader; do
    on $driver tests/layers.sh gpu build/release/tests/vkfuse-test-differential
  done
}

# What every device of Vulkan 1.1 has and nothing else.
limits() {
  release
  for driver in lavapipe swiftshader; do
    for kind in differential numeric error; do
      VKFUSE_TEST_LIMITS=least on $driver build/release/tests/vkfuse-test-$kind
    done
    VKFUSE_TEST_LIMITS=least scripts/graphs.sh "$driver" 1 500 || failed+=("graphs with least limits on $driver")
    VKFUSE_FUZZ_CASES=500 on $driver build/release/tests/vkfuse-test-differential \
      --gtest_filter=Dot.RandomContractionsOnLowLimits
  done
}

# Every limit at every number from 0 up, 25 graphs: right, or one sentence.
sweep() {
  release
  local shard shards=$jobs results
  for driver in lavapipe swiftshader; do
    results=$(mktemp -d)
    for ((shard = 0; shard < shards; ++shard)); do
      (
        failed=()
        VKFUSE_LIMITS=all GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
          on "$driver" build/release/tests/vkfuse-test-differential '--gtest_filter=Limits.*:Limits/*'
        printf '%s\n' "${failed[@]}" >"$results/$shard"
      ) &
    done
    wait
    for ((shard = 0; shard < shards; ++shard)); do
      [ -z "$(cat "$results/$shard" 2>&1)" ] || failed+=("$driver: the sweep of limits, part $shard of $shards")
    done
  done
}

# Planning of graphs of 100,000 nodes takes about ten times as long as of 10,000.
scale() {
  release
  VKFUSE_TEST_NODES=100000 on lavapipe build/release/tests/vkfuse-test-unit '--gtest_filter=Speed.TenTimesAsManyNodes*'
}

# Each Vulkan call of each graph fails with each result, each allocation of a plan.
faults() {
  release
  for driver in lavapipe swiftshader; do
    VKFUSE_FAULTS=all VKFUSE_FAULT_CASES=100000 on $driver build/release/tests/vkfuse-test-fault
  done
}

# Random graphs: 2,000 on lavapipe, 10,000 on SwiftShader; elementwise ones and contractions.
graphs() {
  release
  scripts/graphs.sh lavapipe 1 2000 || failed+=("graphs on lavapipe")
  scripts/graphs.sh swiftshader 1 10000 || failed+=("graphs on swiftshader")
  for driver in lavapipe swiftshader; do
    scripts/graphs.sh $driver 1 2000 Fuzz.RepeatedBlocks || failed+=("repeated blocks on $driver")
    scripts/graphs.sh $driver 1 1000 Fuzz.Layers || failed+=("layers on $driver")
    VKFUSE_FUZZ_CASES=1000 on $driver build/release/tests/vkfuse-test-fuzz --gtest_filter=Fuzz.Strict:Fuzz.Standard
    VKFUSE_FUZZ_CASES=900 on $driver build/release/tests/vkfuse-test-differential '--gtest_filter=Dot.Random*'
    VKFUSE_TEST_ALL_BLOCKS=1 on $driver build/release/tests/vkfuse-test-differential '--gtest_filter=*Stencil*'
  done
}

# 1,000 random graphs forward and backward.
gradients() {
  release
  for driver in lavapipe swiftshader; do
    scripts/graphs.sh $driver 1 1000 Fuzz.GradientsOfGraphs || failed+=("gradients of graphs on $driver")
  done
}

# Each fuzzer under libFuzzer, with sanitizers, for VKFUSE_FUZZ_SECONDS (600); VKFUSE_FUZZERS names some. What reaches
# new code is kept in build/asan/kept, and is where the next run begins; an input that fails is left there, too.
fuzzers() {
  instrument
  local fuzzers=${VKFUSE_FUZZERS:-text index store plan kernels onnx calls} seeds program
  # shellcheck disable=SC2086
  cmake --build --preset asan -j "$jobs" --target $(printf 'vkfuse-fuzz-%s ' $fuzzers) >/dev/null
  for fuzzer in $fuzzers; do
    seeds=$(mktemp -d)
    program=build/asan/tests/vkfuse-fuzz-$fuzzer
    if [ "$fuzzer" = onnx ]; then
      program=build/asan/tests/importer/vkfuse-fuzz-onnx
      cp build/asan/tests/importer/corpus/*.onnx "$seeds"
      find /usr/share/libonnx-testdata/data/node -name '*.onnx' -size -32k -print0 2>/dev/null |
        while IFS= read -r -d '' file; do
          cp "$file" "$seeds/$(basename "$(dirname "$file")").onnx"
        done
    fi
    mkdir -p "build/asan/kept/$fuzzer"
    for driver in lavapipe swiftshader; do
      VKFUSE_FUZZ_SEEDS=$seeds on $driver "$program" -max_total_time="${VKFUSE_FUZZ_SECONDS:-600}" -max_len=32768 \
        -len_control=0 -timeout=30 -rss_limit_mb=4096 -report_slow_units=10 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="build/asan/kept/$fuzzer-" "build/asan/kept/$fuzzer" "$seeds"
      [ "$fuzzer" = calls ] || break  # no device is opened
    done
    rm -r "$seeds"
  done
}

mutations() {
  for driver in lavapipe swiftshader; do DRIVER=$driver scripts/mutations.sh || failed+=("mutations on $driver"); done
}

# Every way out of a process, 40 times each at other moments.
exits() {
  release
  local programs=(build/release/tests/vkfuse-exits build/release/vkfuse build/release/vkfuse-bench)
  for driver in lavapipe swiftshader; do on $driver tests/tool/exits.sh "${programs[@]}" 40; done
}

# 10,000 files that were changed at random, through the command; VKFUSE_SEED names others.
files() {
  release
  on lavapipe tests/tool/mutated.py build/release/vkfuse build/release/vkfuse-bench 10000 "${VKFUSE_SEED:-1}"
}

# Matrix units: 200 contractions and 200 attentions on the lavapipe of a newer Debian, which multiplies matrices.
matrices() { VKFUSE_FUZZ_CASES=${VKFUSE_FUZZ_CASES:-200} scripts/next-debian.sh || failed+=(matrices); }

# What tests/CMakeLists.txt leaves out of .ci/run.
slow() {
  release && ctest --preset release -C deep -L deep || failed+=(slow)
}

# What other vendors' compilers make of kernels, here and with the newer Mesa of another Debian.
portability() {
  release && ctest --preset release -L portability || failed+=(portability)
  scripts/portability.sh || failed+=("scripts/portability.sh")
}

# The cross-build for Windows, its tests and the quick benchmark, under Wine.
windows() { scripts/windows.sh || failed+=("scripts/windows.sh"); }

# Programs of several ranks: 1,000 random programs under random shardings, of threads and as jobs of both MPIs on both
# drivers, and ranks that are killed at 20 places.
devices() {
  local mpi job mpiexec
  need libopenmpi-dev openmpi-bin libmpich-dev mpich
  release
  for driver in lavapipe swiftshader; do
    VKFUSE_FUZZ_CASES=${VKFUSE_FUZZ_CASES:-1000} on $driver build/release/tests/vkfuse-test-parallel \
      --gtest_filter=ShardingFuzz.*
    VKFUSE_TEST_LIMITS=least on $driver build/release/tests/vkfuse-test-parallel --gtest_filter=-ShardingFuzz.*
    for mpi in openmpi mpich; do
      job=build/release/tests/parallel/vkfuse-job-$mpi mpiexec=$(command -v mpiexec.$mpi)
      on $driver tests/parallel/mpi/runs.sh $mpi "$mpiexec" "$job"
      VKFUSE_FUZZ_CASES=${VKFUSE_FUZZ_CASES:-1000} on $driver tests/parallel/mpi/fuzz.sh $mpi "$mpiexec" "$job" \
        build/release/tests/vkfuse-test-parallel
      VKFUSE_DEATHS=${VKFUSE_DEATHS:-20} on $driver tests/parallel/mpi/faults.sh $mpi "$mpiexec" "$job"
    done
  done
}

# All of ONNX's cases through ONNX Runtime with our provider, from the wheel in an empty environment.
onnxruntime() {
  scripts/test-wheel.sh sample || { failed+=("scripts/test-wheel.sh") && return; }
  local cases=(build/wheel/empty/bin/python -P python/tests/node_cases.py onnxruntime)
  on lavapipe "${cases[@]}" --least 1650
  on swiftshader "${cases[@]}" --least 1500  # it has no 64-bit floats
}

# On this machine's GPU.
hardware() { release && scripts/test-device.sh || failed+=("scripts/test-device.sh"); }

# PyTorch on the package: its tests, PyTorch's own cases of all ops of core ATen, and networks that are trained beside
# eager. The environment has 1.3 GB (scripts/torch-env.sh).
torch() {
  local python=build/torch/bin/python wheel
  scripts/torch-env.sh build/torch || { failed+=("scripts/torch-env.sh") && return; }
  scripts/build-wheel.sh || { failed+=("scripts/build-wheel.sh") && return; }
  wheel=$(ls -t build/wheel/*_"$(uname -m)".whl | head -n 1)
  "$python" -m pip -q install --no-deps --force-reinstall "$wheel"
  "$python" scripts/torch-table.py || failed+=("scripts/torch-table.py")
  for driver in lavapipe swiftshader; do
    on $driver "$python" -P -m pytest -q -p no:cacheprovider --rootdir python python/tests/test_torch.py \
      python/tests/test_torch_cases.py
  done
  on lavapipe "$python" python/tests/torch_cases.py run --samples "${VKFUSE_TORCH_SAMPLES:-4}" --least 0.8
  on lavapipe "$python" python/tests/torch_training.py --steps 100
  on lavapipe "$python" -P examples/python/train_torch.py
}

[ $# -gt 0 ] ||
  set -- sanitizers threads layers limits sweep scale faults graphs gradients fuzzers mutations exits files \
    portability matrices windows onnxruntime torch devices slow
for tier in "$@"; do
  SECONDS=0
  case $tier in
    sanitizers | sanitizers-quick | threads | layers | limits | sweep | scale | faults) "$tier" ;;
    graphs | gradients | fuzzers | mutations | exits | files | portability | matrices | windows) "$tier" ;;
    onnxruntime | torch | devices | slow | hardware) "$tier" ;;
    *) echo "There is no tier named '$tier'." >&2 && exit 2 ;;
  esac
  echo "=== $tier: $SECONDS s"
done
[ ${#failed[@]} = 0 ] && exit
printf 'FAILED %s\n' "${failed[@]}"
exit 1
