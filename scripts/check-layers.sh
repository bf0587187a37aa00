#!/usr/bin/env bash
# Fails on an #include between layers that docs/design.md does not allow. Includes go one way only.
#   usage: scripts/check-layers.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# layer: the layers it may include directly or through others
declare -A allowed=(
  [base]=""
  [ops]="base"
  [index]="base"
  [ir]="ops index base"
  [reference]="ir ops index base"
  [passes]="reference ir ops index base"
  [segment]="passes ir ops index base"
  [device_model]="base"
  [schedule]="device_model segment ir ops index base"
  [partition]="schedule device_model segment ir ops index base"
  [plan]="partition schedule device_model segment passes ir ops index base"
  [codegen]="schedule segment ir ops index base"
  [spirv]="base"
  [store]="base"
  [vulkan]="base"
  [runtime]="vulkan spirv store codegen plan partition schedule device_model segment passes ir ops index base"
  [api]="runtime vulkan spirv store codegen plan partition schedule segment passes ir ops index base"
  [c]="api ir ops base"
  [onnx]="api reference ir ops base"
  [tool]="onnx api runtime reference spirv store plan partition schedule segment ir ops index base"
)

bad=0
while IFS=: read -r file line text; do
  from=${file#source/}; from=${from%%/*}
  target=$(sed -E 's|.*#include "([a-z_]+)/.*|\1|' <<<"$text")
  [ "$target" = "$from" ] || [ "$target" = vkfuse ] && continue
  case " ${allowed[$from]-} " in
    *" $target "*) ;;
    *) echo "$file:$line: layer '$from' must not include layer '$target'"; bad=1 ;;
  esac
done < <(grep -rnE '#include "[a-z_]+/' source --include=*.cpp --include=*.hpp)

# Third-party headers that only one layer may see.
only() {
  local pattern=$1 layer=$2
  if grep -rnE "#include <($pattern)" source include --include=*.cpp --include=*.hpp --include=*.h |
    grep -v "^source/$layer/"; then
    echo "only source/$layer may include $pattern"; bad=1
  fi
}
only 'vulkan/' vulkan
only 'shaderc/|spirv-tools/|spirv_cross' spirv
[ $bad = 0 ] && echo "layers: every include goes the right way"
exit $bad
