#!/usr/bin/env bash
# Unpacks the package of this machine's architecture in a bare system with nothing but a Vulkan driver, and runs the quick
# suite there. Needs root, debootstrap and a Debian mirror. The bare system stays in build/ for the next time.
#   usage: scripts/test-package.sh [package.tar.gz]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
[ "$(id -u)" = 0 ] || { echo "A chroot needs root: run this as root." >&2; exit 2; }

archive=${1:-$(ls -t build/vkfuse-bench-*-linux-"$(uname -m)".tar.gz 2>/dev/null | head -1)}
[ -e "$archive" ] || { echo "There is no package '${archive}': scripts/package.sh makes one." >&2; exit 2; }
root=$PWD/build/bare-system
if [ ! -e "$root/complete" ]; then
  need debootstrap
  rm -rf "$root"
  debootstrap --variant=minbase --include=mesa-vulkan-drivers bookworm "$root" > build/bare-system.log || { tail -5 build/bare-system.log >&2; exit 1; }
  touch "$root/complete"
fi
rm -rf "$root/opt/bench"
mkdir -p "$root/opt/bench"
tar -xzf "$archive" -C "$root/opt/bench" --strip-components=1

# /proc and /dev are mounted in a namespace of their own, which ends with the command.
start=$(date +%s)
unshare --mount bash -c "mount -t proc proc '$root/proc' && exec chroot '$root' /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root \
  /opt/bench/vkfuse-bench --suite quick --json /opt/bench/result.json --csv /opt/bench/result.csv --html /opt/bench/result.html"
echo "$(($(date +%s) - start)) seconds in the bare system."
for file in json csv html; do [ -s "$root/opt/bench/result.$file" ] || { echo "The run left no result.$file." >&2; exit 1; }; done
grep -q '"complete": true' "$root/opt/bench/result.json" || { echo "The report is not complete." >&2; exit 1; }
