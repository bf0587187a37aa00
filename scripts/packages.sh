# Sourced by demo.sh and test.sh: says what is missing, installs it, prepares the compiler cache.
#   need PACKAGE...   installs those Debian packages that are not there yet

need() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  local sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  echo "Installing with apt-get: ${missing[*]}"
  $sudo apt-get -qq update
  DEBIAN_FRONTEND=noninteractive $sudo apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# What is needed to build the library, the command and the benchmark.
build_packages=(g++ cmake ninja-build ccache pkg-config libvulkan-dev libvulkan1 libshaderc-dev glslang-dev spirv-tools
  libspirv-cross-c-shared-dev libcli11-dev nlohmann-json3-dev libfmt-dev libonnx-dev libprotobuf-dev protobuf-compiler)

# Jobs: two cores and 4 GiB are enough for two.
jobs=$(nproc)
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# Mesa keeps compiled kernels beside what other programs of this user had compiled, also for the tests whose HOME is
# another: the next run, in a fresh clone too, takes a third of the time.
export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}}
