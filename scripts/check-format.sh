#!/usr/bin/env bash
# Fails on C++ and C that is not as .clang-format says, and on lines of over 120 columns in sources, headers and
# shaders. Versions of clang-format differ from each other: that of Debian 12 counts, and where it is another one, only
# the columns are looked at.
#   usage: scripts/check-format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t files < <(git ls-files '*.cpp' '*.hpp' '*.h' '*.c')
version=$(clang-format --version 2>/dev/null | grep -oE 'version [0-9]+' | grep -oE '[0-9]+' || true)
if [ "$version" != 14 ]; then
  echo "format: clang-format is ${version:-not here} and not 14, so that only columns are counted"
elif [ "${1-}" = --fix ]; then
  clang-format -i "${files[@]}"
else
  clang-format --dry-run -Werror "${files[@]}"
fi
mapfile -t shaders < <(git ls-files 'shaders/*.glsl')
long=$(awk 'length > 120 { print FILENAME ":" FNR ": " length " columns" }' "${files[@]}" "${shaders[@]}")
if [ -n "$long" ]; then echo "$long" && exit 1; fi
echo "format: ${#files[@]} files"
