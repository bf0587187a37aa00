#!/usr/bin/env bash
# Makes a virtual environment with PyTorch for the tests of torch.compile(backend="vkfuse") (docs/torch.md), once: the
# wheel of the package index, which on Linux is the one for CUDA, without CUDA's libraries, in whose place stubs are
# made (scripts/torch_stubs.py). 540 MB are fetched.
#   usage: scripts/torch-env.sh [FOLDER [PYTHON]]      (build/torch, /usr/bin/python3)
# Exit status 77: pip reaches no package index.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1-build/torch}") python=${2-/usr/bin/python3}
[ ! -e "$folder/ready" ] || exit 0
"$python" -m venv --clear "$folder"
install() {
  "$folder/bin/pip" -q install "$@" >"$folder/pip.log" 2>&1 && return
  tail -n 3 "$folder/pip.log" >&2
  echo "pip reaches no package index: there is no PyTorch."
  exit 77
}
# Without its dependencies: CUDA's libraries are 3 GB.
install --no-deps "torch${VKFUSE_TORCH_VERSION:+==$VKFUSE_TORCH_VERSION}"
install typing-extensions filelock sympy networkx jinja2 fsspec 'numpy<2.5' setuptools
install pytest expecttest hypothesis packaging
install transformers==5.24.0
"$python" scripts/torch_stubs.py "$(echo "$folder"/lib/python3*/site-packages/torch/lib)"
"$folder/bin/python" -c 'import torch; print("PyTorch", torch.__version__)' 2>/dev/null
touch "$folder/ready"
