#!/usr/bin/env bash
# Writes scikit-learn's digits once into a folder, in a new virtual environment where the system's Python lacks
# scikit-learn, and trains on them. Exit status 77: pip reaches no package index.
#   usage: digits.sh PROGRAM FOLDER
set -euo pipefail
program=$1 folder=$2
script=$(dirname "$0")/../../examples/write_digits.py
mkdir -p "$folder"
if [ ! -s "$folder/digits.txt" ]; then
  if ! python3 "$script" "$folder/digits.new" 2>/dev/null; then
    if ! { python3 -m venv "$folder/python" && "$folder/python/bin/pip" -q install scikit-learn; } \
      >"$folder/pip.log" 2>&1; then
      echo "There is no scikit-learn here, and pip does not install it ($folder/pip.log)." >&2
      exit 77
    fi
    "$folder/python/bin/python" "$script" "$folder/digits.new"
  fi
  mv "$folder/digits.new" "$folder/digits.txt"
fi
exec "$program" "$folder/digits.txt"
