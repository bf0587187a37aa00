#!/usr/bin/env bash
# Fails on an #include between layers that docs/design.md does not allow, and on generated code that is read back.
# Includes go one way only.
#   usage: scripts/check-layers.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# layer: the layers it may include directly or through others
declare -A allowed=(
  [os]=""
  [base]="os"
  [ops]="base os"
  [index]="base os"
  [ir]="ops index base os"
  [reference]="ir ops index base os"
  [passes]="reference ir ops index base os"
  [segment]="passes ir ops index base os"
  [device_model]="base os"
  [params]="segment device_model ir ops index base os"
  [schedule]="params segment device_model ir ops index base os"
  [templates]="schedule params segment device_model ir ops index base os"
  [planning]="templates schedule params segment device_model ir ops index base os"
  [partition]="planning schedule params segment device_model ir ops index base os"
  [plan]="partition planning schedule params segment device_model passes ir ops index base os"
  [kernel]="ir ops index base os"
  [lowering]="kernel schedule params segment ir ops index base os"
  [lower]="lowering kernel templates schedule params segment ir ops index base os"
  [emission]="lower lowering kernel schedule params segment ir ops index base os"
  [spirv]="base os"
  [store]="base os"
  [vulkan]="device_model base os"
  [runtime]="vulkan spirv store emission lowering kernel plan partition planning schedule params segment device_model
             passes ir ops index base os"
  [api]="runtime vulkan spirv store lowering kernel plan partition planning schedule params segment
         passes ir ops index base os"
  [autodiff]="api ir ops base os"
  [parallel]="api runtime vulkan passes ir ops base os"
  [mpi]="parallel base os"
  [nccl]="parallel api base os"
  [c]="parallel autodiff api ir ops base os"
  [onnx]="api reference ir ops base os"
  [onnx_c]="onnx c os base"
  [ort]="onnx os base"
  [tool]="onnx api runtime reference spirv store plan partition planning schedule params segment ir ops index base os"
)

# layer_of FILE: its folder; in a template's folder its params, what lowers it, and the rest, which plans it, are three
# layers, and so are the two tables of templates.
layer_of() {
  case "$1" in
    schedule/tuning.hpp | schedule/tile_operand.hpp | templates/*/params.hpp) echo params ;;
    templates/planning.*) echo planning ;;
    templates/lowering.*) echo emission ;;
    templates/*/lower*) echo lower ;;
    *) echo "${1%%/*}" ;;
  esac
}

bad=0
while IFS=: read -r file line text; do
  file=${file#source/}
  included=$(sed -E 's|.*#include "([^"]+)".*|\1|' <<<"$text")
  from=$(layer_of "$file") target=$(layer_of "$included")
  [ "$target" = vkfuse ] && continue
  # Templates know nothing of each other.
  if [[ $file == templates/*/* && $included == templates/*/* && ${file%/*} != "${included%/*}" ]]; then
    echo "source/$file:$line: a template must not include another one's '$included'"; bad=1
  fi
  [ "$target" = "$from" ] && continue
  case " ${allowed[$from]//$'\n'/ } " in
    *" $target "*) ;;
    *) echo "source/$file:$line: layer '$from' must not include '$included' of layer '$target'"; bad=1 ;;
  esac
done < <(grep -rnE '#include "[a-z_]+/' source --include=*.cpp --include=*.hpp)

# Third-party headers that only one layer may see.
only() {
  local pattern=$1 layer=$2
  if grep -rnE "#include <($pattern)" source include bench --include=*.cpp --include=*.hpp --include=*.h |
    grep -v "^source/$layer/"; then
    echo "only source/$layer may include $pattern"; bad=1
  fi
}
only 'vulkan/' vulkan
only 'unistd\.h|fcntl\.h|signal\.h|dlfcn\.h|link\.h|dirent\.h|pthread\.h|sys/|mach|windows\.h|io\.h|psapi\.h' os
only 'shaderc/|spirv-tools/|spirv_cross' spirv
only 'onnxruntime' ort
only 'mpi\.h' mpi

# Code is put together and never read back (docs/design.md, "Code"): no search in text, and no text but by those that
# assemble a kernel. Exempt are format strings and words while they become code, names that users chose, and the user's
# own GLSL.
mapfile -t writers < <(ls source/kernel/*.?pp source/lowering/*.?pp source/templates/*/lower*.?pp |
  grep -vxE 'source/(kernel/(code|printer)\.cpp|lowering/(names|custom_function)\.cpp|templates/custom/lower\.cpp)')
reads='npos|\.(substr|replace|rfind|find_first_\w+|find_last_\w+|starts_with|ends_with|contains)\(|\bregex|strstr'
if grep -nE "$reads" "${writers[@]}"; then
  echo "code is not read back: what must be known of it belongs in Code (kernel/code.hpp)"; bad=1
fi
if grep -nE '\bPrinter\(' "${writers[@]}" |
  grep -vE '^source/(kernel/(code|printer|names|kernel)\.(cpp|hpp)|lowering/interface\.cpp):'; then
  echo "text leaves code where a kernel is assembled, and nowhere else"; bad=1
fi
[ $bad = 0 ] && echo "layers: every include goes the right way, and no code is read back"
exit $bad
