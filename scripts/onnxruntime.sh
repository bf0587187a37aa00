#!/usr/bin/env bash
# Fetches the C headers of ONNX Runtime, against which the plugin provider is compiled (source/ort), from Debian's
# package libonnxruntime-dev: 118 kB, and no library, as the provider links none. CMake takes build/onnxruntime/include;
# without it the provider is left out.
#   usage: scripts/onnxruntime.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/debian-source.sh
include=$PWD/build/onnxruntime/include
[ ! -e "$include/onnxruntime_ep_c_api.h" ] || exit 0

# forky is the first release that has them. apt's lists are signed, and state the digest.
home=${VKFUSE_SOURCES:-$HOME/.cache/vkfuse-sources}
package=libonnxruntime-dev
read -r uri file size digest < <(apt_of forky download --print-uris $package | tr -d "'")
folder=build/onnxruntime/fetched
rm -rf "$folder"
mkdir -p "$folder"
echo "Fetching $file, $size bytes"
/usr/lib/apt/apt-helper download-file "$uri" "$folder/$package.deb" "$digest"
dpkg-deb -x "$folder/$package.deb" "$folder"
header=$(find "$folder" -name onnxruntime_ep_c_api.h -print -quit)
[ -n "$header" ] || { echo "$file has no onnxruntime_ep_c_api.h." >&2 && exit 1; }
mkdir -p "$include.part"
cp "${header%/*}"/onnxruntime_c_api.h "$header" "$include.part/"
mv "$include.part" "$include"
rm -rf "$folder"
