#!/usr/bin/env bash
# pip installs the wheel in a fresh Debian with nothing but its base system, python3-venv and a Vulkan driver, and runs
# README's example and the wheel's tests there. Needs root, and a GB in $VKFUSE_DEBIANS (scripts/debians.sh).
#   usage: scripts/wheel-debian.sh [bookworm | trixie]      (the wheel for 3.11, or that from 3.12 on)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/debians.sh

release=${1-bookworm}
case $release in
  bookworm) kind=cp311-cp311 ;;
  trixie) kind=cp312-abi3 ;;
  *) sed -n '/^#   usage/s/^# *//p' "$0" >&2 && exit 2 ;;
esac
wheel=$(ls -t build/wheel/*-"$kind"-*_x86_64.whl 2>/dev/null | head -n 1 || true)
[ -n "$wheel" ] || { echo "There is no wheel $kind in build/wheel: scripts/build-wheel.sh makes it." >&2 && exit 2; }

debian "$release" --apart python python3-venv mesa-vulkan-drivers ca-certificates
if in_debian sh -c 'command -v cc || command -v g++'; then echo "There is a compiler in $debian." >&2 && exit 1; fi
rm -rf "$debian/wheel"
mkdir -p "$debian/wheel/python" "$debian/wheel/tests" "$debian/proc"
cp "$wheel" "$debian/wheel/"
cp -r README.md docs examples "$debian/wheel/"
cp -r python/tests "$debian/wheel/python/"
cp -r tests/golden "$debian/wheel/tests/"
reach_packages
pip_environment=$(env | grep -E '^(PIP_|HTTPS?_PROXY|https?_proxy|NO_PROXY|no_proxy|SSL_CERT_FILE)' || true)
mountpoint -q "$debian/proc" || mount -t proc proc "$debian/proc"
trap 'umount "$debian/proc"' EXIT

mapfile -t variables <<<"$pip_environment"
in_debian env "${variables[@]}" sh -ec '
  python3 -m venv /wheel/env
  /wheel/env/bin/pip -q install /wheel/*.whl
  cd /wheel
  sed -n "/^\`\`\`python\$/,/^\`\`\`\$/p" README.md | sed "1d;\$d" >example.py
  VKFUSE_CACHE=off env/bin/python example.py
  env/bin/vkfuse devices | head -n 1
  env/bin/pip -q install pytest ml_dtypes onnx onnxruntime
  cd python
  VKFUSE_CACHE=off ../env/bin/python -P -m pytest -q -p no:cacheprovider tests'
