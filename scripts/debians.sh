# Sourced, after packages.sh, by scripts that use another Debian than this one: each is a folder of $debians, made once.
#   debian RELEASE [--unpacked ARCHITECTURE] PACKAGE...     makes $debians/RELEASE-ARCHITECTURE, says where in $debian
#   debian RELEASE --apart NAME PACKAGE...                  $debians/NAME-RELEASE-amd64, which nothing else uses
#   in_debian COMMAND...                                    runs it there, as root
#   reach_packages                                          lets it use the package index that this machine uses
# One of another processor is unpacked and not installed: qemu runs its programs one by one. Needs root.

debians=${VKFUSE_DEBIANS:-/var/tmp/vkfuse-debians}
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1 || true)
mirror=${mirror:-http://deb.debian.org/debian}

in_debian() { chroot "$debian" env DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8 "$@"; }

# A release that this debootstrap does not know is made like the last one that it knows.
script_of() {
  local known=/usr/share/debootstrap/scripts
  [ -e "$known/$1" ] && echo "$known/$1" || echo "$known/trixie"
}

debian() {
  local release=$1 architecture=amd64 name=$1 unpacked=() log
  shift
  case $1 in
    --unpacked) architecture=$2 unpacked=(--foreign) && shift 2 ;;
    --apart) name=$2-$name && shift 2 ;;
  esac
  debian=$debians/$name-$architecture log=$debians/$name-$architecture.log
  if [ -e "$debian/ready" ]; then
    [ ${#unpacked[@]} -gt 0 ] || add_packages "$log" "$@"
    return
  fi
  need debootstrap
  mkdir -p "$debians"
  echo "Making $debian"
  rm -rf "$debian"
  local include
  include=$(IFS=,; echo "$*")
  [ ${#unpacked[@]} -gt 0 ] || include=ca-certificates
  debootstrap --variant=minbase --arch="$architecture" "${unpacked[@]}" --include="$include" "$release" "$debian" \
    "$mirror" "$(script_of "$release")" >"$log" 2>&1 || { tail "$log" >&2 && exit 1; }
  if [ ${#unpacked[@]} -gt 0 ]; then
    for package in "$debian"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$debian"; done
  else
    # A mirror may lag behind.
    printf 'Acquire::Check-Valid-Until "false";\n' >"$debian/etc/apt/apt.conf.d/mirror"
    add_packages "$log" "$@"
  fi
  touch "$debian/ready"
}

add_packages() {
  local log=$1 missing=() package
  shift
  for package in "$@"; do
    in_debian dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  { in_debian apt-get -qq update && in_debian apt-get -qq install -y --no-install-recommends "${missing[@]}"; } \
    >>"$log" 2>&1 || { tail "$log" >&2 && exit 1; }
}

# Packages of Python come from where this machine gets them: its index, and the certificates that it trusts.
reach_packages() {
  local file
  for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e $file ] || cp -L $file "$debian$file"
  done
}

# The sources as they are here, also what is not committed, as /vkfuse of $debian. Builds stay; a file that went away
# does not, as CMake would find it.
copy_sources() {
  local old=$debian/vkfuse new=$debian/vkfuse.new
  rm -rf "$new" && mkdir -p "$old" "$new"
  git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar -c --null -T - | tar -x -m -C "$new"
  # What is as it was keeps its time, and what is not has the time of now: in the checkout, a file may be older than
  # what was built here of another version of it.
  (cd "$new" && find . -type f -print0) | while IFS= read -r -d '' file; do
    cmp -s "$old/$file" "$new/$file" && touch -r "$old/$file" "$new/$file" || true
  done
  find "$old" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  cp -a "$new/." "$old" && rm -rf "$new"
}
