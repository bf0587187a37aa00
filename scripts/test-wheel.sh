#!/usr/bin/env bash
# Builds the wheel (scripts/build-wheel.sh), installs it into an empty virtual environment, runs README's example there
# with nothing but the wheel and NumPy, and then its tests on lavapipe and SwiftShader.
#   usage: scripts/test-wheel.sh [--tree FOLDER] [sample] [WHEEL]      (the build folder to link; build/release)
# sample: SwiftShader gets the tests of programs and of ONNX Runtime alone, as CI has it. Exit status 77: pip reaches no
# package index.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
root=$PWD
sample= tree=$root/build/release
if [ "${1-}" = --tree ]; then tree=$2 && shift 2; fi
if [ "${1-}" = sample ]; then sample=1 && shift; fi
wheel=${1-}
if [ -z "$wheel" ]; then
  scripts/build-wheel.sh --tree "$tree"
  wheel=$(ls -t build/wheel/*_"$(uname -m)".whl | head -n 1)
fi
wheel=$(realpath "$wheel")

# Nothing of this checkout, of a shell's Python or of a compiler is in sight.
environment=$root/build/wheel/empty
/usr/bin/python3 -m venv --clear "$environment"
python=$environment/bin/python
alone=(env -i "PATH=$environment/bin:/nonexistent" "HOME=$environment" VKFUSE_CACHE=off VKFUSE_CHECK_SPIRV=1)
lavapipe=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json 2>/dev/null | head -n 1 || true)
swiftshader=/usr/lib/chromium/vk_swiftshader_icd.json
"$python" -m pip -q install "$wheel"
cd "$environment"
example=$(sed -n '/^```python$/,/^```$/p' "$root/README.md" | sed '1d;$d')
printed=$("${alone[@]}" "VK_ICD_FILENAMES=$lavapipe" "$python" -c "$example")
[ "$printed" = "[1. 1. 3. 7.]" ] || { echo "README's example of Python prints '$printed'." >&2 && exit 1; }
"${alone[@]}" vkfuse --version

# glibc, libstdc++ and zlib are all that it asks of the system.
packages=$(echo "$environment"/lib/python3*/site-packages)
system='^(libc|libm|libdl|librt|libpthread|libz|libstdc\+\+|libgcc_s|ld-linux.*)\.so'
ours='^lib(protobuf|shaderc_shared)-[0-9a-f]{8}\.so'
for library in "$packages"/vkfuse/_core*.so "$packages"/vkfuse.libs/*; do
  other=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
    grep -vE "$system|$ours" || true)
  [ -z "$other" ] || { echo "$library needs $other, which is not on every system." >&2 && exit 1; }
done

"$python" -m pip -q install pytest ml_dtypes onnx onnxruntime
test_on() {
  local driver=$1
  shift
  echo "$driver"
  "${alone[@]}" "VK_ICD_FILENAMES=$driver" "MESA_SHADER_CACHE_DIR=$MESA_SHADER_CACHE_DIR" \
    "$python" -m pytest -q -p no:cacheprovider "$@"
}
test_on "$lavapipe" "$root/python/tests"
if [ -e "$swiftshader" ]; then
  if [ -n "$sample" ]; then
    test_on "$swiftshader" "$root"/python/tests/test_{programs,onnxruntime}.py -k "not sample"
  else
    test_on "$swiftshader" "$root/python/tests"
  fi
else
  echo "There is no SwiftShader here: lavapipe is all that the wheel is tested on."
fi
