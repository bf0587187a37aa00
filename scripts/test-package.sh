#!/usr/bin/env bash
# Unpacks a package in a bare system with nothing but a Vulkan driver, and runs it there: the quick suite for this
# machine's architecture; for another one a few rows under qemu-user, as every instruction is translated. Needs root,
# debootstrap and a Debian mirror. The bare system stays in build/ for the next time.
#   usage: scripts/test-package.sh [package.tar.gz]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
[ "$(id -u)" = 0 ] || { echo "A chroot needs root: run this as root." >&2; exit 2; }

archive=${1:-$(ls -t build/vkfuse-bench-*-linux-"$(uname -m)".tar.gz 2>/dev/null | head -1)}
[ -e "$archive" ] || { echo "There is no package '${archive}': scripts/package.sh makes one." >&2; exit 2; }
arch=${archive##*-linux-}
arch=${arch%.tar.gz}

foreign=() emulator=() rows=(--suite quick)
root=$PWD/build/bare-system
if [ "$arch" != "$(uname -m)" ]; then
  [ "$arch" = aarch64 ] || { echo "'$archive' is for $arch, and only aarch64 is run on another machine." >&2; exit 2; }
  need qemu-user-static
  foreign=(--foreign --arch=arm64)
  emulator=(/usr/bin/qemu-aarch64-static)
  rows+=(--filter '^(textbook f32|textbook f16|softmax f16|squares all f32|25 small ops f32|law unary 8 small f32)$')
  root+=-$arch
fi

# A foreign system is unpacked and not set up: nothing in it runs but the program, and that needs no packages' scripts.
if [ ! -e "$root/complete" ]; then
  need debootstrap
  rm -rf "$root"
  debootstrap "${foreign[@]}" --variant=minbase --include=mesa-vulkan-drivers bookworm "$root" > "$root.log" ||
    { tail -5 "$root.log" >&2; exit 1; }
  if [ ${#foreign[@]} -gt 0 ]; then
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
  fi
  touch "$root/complete"
fi
[ ${#emulator[@]} -eq 0 ] || cp "${emulator[0]}" "$root${emulator[0]}"
rm -rf "$root/opt/bench"
mkdir -p "$root/opt/bench"
tar -xzf "$archive" -C "$root/opt/bench" --strip-components=1

# /proc and /dev are mounted in a namespace of their own, which ends with the command.
inside() {
  unshare --mount env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" "${emulator[@]}" "$@"
}
start=$(date +%s)
listed=$(inside /opt/bench/vkfuse-bench --list)
grep -q '^textbook f32 ' <<< "$listed" || { echo "--list does not name 'textbook f32'." >&2; exit 1; }
inside /opt/bench/vkfuse-bench "${rows[@]}" \
  --json /opt/bench/result.json --csv /opt/bench/result.csv --html /opt/bench/result.html
echo "$(($(date +%s) - start)) seconds in the bare system."
for file in json csv html; do
  [ -s "$root/opt/bench/result.$file" ] || { echo "The run left no result.$file." >&2; exit 1; }
done
grep -q '"complete": true' "$root/opt/bench/result.json" || { echo "The report is not complete." >&2; exit 1; }
