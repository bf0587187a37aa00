#!/usr/bin/env bash
# A shaderc that compiles cooperative matrices, their functions and bf16, which the one of Debian 12 does not, and that
# runs on the glibc of Debian 12: the one that LWJGL builds, from Maven Central. It goes into packages; a build links
# with it where -DVKFUSE_SHADERC_LIBRARY=FOLDER/lib/libshaderc_shared.so.1 says so.
#   usage: scripts/newer-shaderc.sh FOLDER [x86_64|aarch64]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,5p' "$0" >&2; exit 2; }
folder=$1 arch=${2:-$(uname -m)}
version=3.4.2
case $arch in
  x86_64)
    platform=linux inside=linux/x64
    digest=8abd6dabb7092b1acc706aa3ea197f7fb0eefc409a9574f0d2f45009d30d51dc ;;
  aarch64)
    platform=linux-arm64 inside=linux/arm64
    digest=074cbf8a02d4374fe3bfa6b94866e189a7ef9b0ec123307b9f5f3b132b91d669 ;;
  *) echo "There is no shaderc for the architecture '$arch': it is none of x86_64 and aarch64." >&2; exit 2 ;;
esac

library=$folder/lib/libshaderc_shared.so.1
if [ "$(cat "$folder/digest" 2>/dev/null)" = "$digest" ] && [ -e "$library" ]; then exit 0; fi
mkdir -p "$folder/lib"
archive=$folder/lwjgl-shaderc.jar
mirror=${VKFUSE_MAVEN:-https://repo1.maven.org/maven2}
curl --fail --silent --show-error --location --retry 3 --output "$archive" \
  "$mirror/org/lwjgl/lwjgl-shaderc/$version/lwjgl-shaderc-$version-natives-$platform.jar"
if ! echo "$digest  $archive" | sha256sum --check --status; then
  echo "The archive $archive is not the one whose digest is known: SHA-256 $(sha256sum "$archive" | cut -d' ' -f1)." >&2
  exit 1
fi
unzip -p "$archive" "$inside/org/lwjgl/shaderc/libshaderc.so" >"$library"
rm "$archive"
echo "$digest" >"$folder/digest"
