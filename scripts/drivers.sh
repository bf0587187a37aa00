# Sourced: where the manifests of drivers are, by which the Vulkan loader takes one driver alone.
#   icd_of DRIVER      lavapipe, swiftshader or radv

icd_of() {
  local folder=/usr/share/vulkan/icd.d name
  case $1 in
    lavapipe) name=lvp_icd ;;
    radv) name=radeon_icd ;;
    swiftshader) echo /usr/lib/chromium/vk_swiftshader_icd.json && return ;;
    *) echo "There is no driver '$1': lavapipe, swiftshader or radv." >&2 && return 1 ;;
  esac
  # Mesa of Debian 12 has the processor in their names, Mesa of Debian 13 has not.
  if [ -e "$folder/$name.$(uname -m).json" ]; then
    echo "$folder/$name.$(uname -m).json"
  else
    echo "$folder/$name.json"
  fi
}
