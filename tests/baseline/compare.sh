#!/usr/bin/env bash
# scripts/compare-kernels.py on two folders of vkfuse-kernels: equal as they are, also where a module has other names;
# not equal where one instruction or one number of a plan is another.
#   usage: compare.sh VKFUSE_KERNELS
set -euo pipefail
kernels=$1
compare=$(dirname "$0")/../../scripts/compare-kernels.py
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
"$kernels" "$folder/before" goldens random=200
fail() { echo "$1" >&2 && exit 1; }
fresh() { rm -rf "$folder/after" && cp -r "$folder/before" "$folder/after"; }
expect() {  # expect STATUS PATTERN
  local status=0
  "$compare" "$folder/before" "$folder/after" >"$folder/said" || status=$?
  cat "$folder/said"
  [ $status = "$1" ] || fail "compare-kernels.py ended with $status and not with $1"
  grep -q "$2" "$folder/said" || fail "it did not say: $2"
}
edited() {  # edited EXPRESSION: one module as sed -E changes its text
  spirv-dis --raw-id "$module" | sed -E "$1" >"$folder/text"
  spirv-as --preserve-numeric-ids --target-env spv1.3 "$folder/text" -o "$module"
}

fresh
expect 0 " 0 graphs differ, 0 differences"
name=$(grep '"golden softmax","target":"gpu"' "$folder/before/kernels.jsonl" |
  grep -o '"spirv":"[0-9a-f]*"' | head -n 1 | cut -d'"' -f4)
module=$folder/after/spirv/$name.spv
[ -s "$module" ] || fail "there is no module '$name' of the softmax"

before=$(md5sum <"$module")
edited 's/^( *OpName %[0-9]+) "main"/\1 "other"/'
[ "$before" != "$(md5sum <"$module")" ] || fail "the module has no name to change"
expect 0 " 0 graphs differ, 0 differences"

fresh
edited '0,/OpFSub/s//OpFAdd/'
expect 1 " 2 graphs differ, 2 differences"  # two targets have this kernel
expect 1 "golden softmax on gpu: kernel 0: 2 lines of SPIR-V"

fresh
sed -i '0,/"workgroup":[0-9]*/s//"workgroup":7/' "$folder/after/kernels.jsonl"
expect 1 "workgroup is 7, and was"

fresh
sed -i '1d' "$folder/after/kernels.jsonl"
expect 1 "only before"
