#!/usr/bin/env bash
# What a user of a newer Debian gets: scripts/demo.sh and scripts/test.sh in a folder with nothing but its base system,
# so with its compilers (g++ 14 and clang 19 in trixie, later ones in forky) and libraries. Needs root, and 4 GB in
# $VKFUSE_DEBIANS (scripts/debians.sh); both scripts take an hour on two cores. fresh-RELEASE-amd64 stays there: remove
# it to begin anew.
#   usage: scripts/newer-debian.sh RELEASE [demo | test | library COMPILER]
#     demo, test         that script alone
#     library COMPILER   compiles the library and its command alone, with warnings as errors, by g++ or clang++
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/debians.sh

release=${1-} what=${2-} compiler=${3-}
case $release/$what/$compiler in
  /* | */library/) sed -n '/^#   usage/,/^set/p' "$0" | sed '/^set/d' >&2 && exit 2 ;;
esac

# The scripts install what they need themselves.
debian "$release" --apart fresh git ca-certificates
reach_packages
copy_sources
# They ask git which files there are.
in_debian sh -c 'cd /vkfuse && git init -q 2>/dev/null; git add -A'
mkdir -p "$debian/proc" "$debian/dev/pts"
mountpoint -q "$debian/proc" || mount -t proc proc "$debian/proc"
# Tests look at what the commands write to terminals.
mountpoint -q "$debian/dev/pts" || mount --bind /dev/pts "$debian/dev/pts"
trap 'umount "$debian/dev/pts" "$debian/proc"' EXIT

package_of() { case $1 in clang*) echo "${1/clang++/clang}" ;; *) echo "$1" ;; esac; }
in_tree() { in_debian env -C /vkfuse CCACHE_DIR=/var/cache/ccache "$@"; }
case $what in
  "") in_tree scripts/demo.sh && in_tree scripts/test.sh ;;
  demo | test) in_tree "scripts/$what.sh" ;;
  library)
    add_packages "$debian.log" "${build_packages[@]}" "$(package_of "$compiler")"
    in_tree cmake --preset release -B "build/$compiler" -DCMAKE_CXX_COMPILER="$compiler" -DVKFUSE_BUILD_TESTS=OFF \
      -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
    in_tree cmake --build "build/$compiler" -j "$jobs" -- -k 0 vkfuse
    ;;
  *) echo "'$what' is neither demo nor test nor library." >&2 && exit 2 ;;
esac
