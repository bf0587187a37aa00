# Sourced, with $home set to a folder for what is fetched:
#   debian_source RELEASE PACKAGE   the upstream source of a package, into $home/source/PACKAGE-RELEASE
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1 || true)
mirror=${mirror:-http://deb.debian.org/debian}

# apt of another release of Debian, which changes nothing outside of $home.
apt_of() {
  local release=$1 apt=$home/apt/$1
  mkdir -p "$apt/lists/partial"
  printf "%s $mirror %s main\n" deb "$release" deb-src "$release" >"$apt/sources.list"
  local options=(-qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$apt/lists" -o APT::Sandbox::User=root -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  [ -n "$(find "$apt/lists" -name '*Sources*' -print -quit)" ] || apt-get "${options[@]}" update
  apt-get "${options[@]}" "${@:2}"
}

debian_source() {
  local release=$1 package=$2 folder=$home/source/$2-$1 uri file size hash
  [ -d "$folder" ] && return
  mkdir -p "$folder.part"
  read -r uri file size hash < <(apt_of "$release" source --print-uris "$package" | tr -d "'" | grep '\.orig\.tar')
  echo "Fetching $file, $size bytes"
  /usr/lib/apt/apt-helper download-file "$uri" "$home/source/$file" "$hash"
  tar xf "$home/source/$file" -C "$folder.part" --strip-components=1
  mv "$folder.part" "$folder"
}
