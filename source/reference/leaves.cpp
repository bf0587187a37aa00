#include "reference/leaves.hpp"

#include "reference/reference.hpp"

namespace vkfuse::reference {

Element iota_element(DType dtype, std::int64_t position) {
  Element element;
  if (!is_float(dtype)) {
    element.integer = ops::wrap(dtype, position);
    return element;
  }
  element.real = static_cast<double>(position);
  if (position > (1 << 24)) element.bound = element.real * 0x1p-23;
  if (dtype != DType::f32) element.bound += std::abs(element.real) * 0x1p-8;
  settle(dtype, element.real, element.bound);
  return element;
}

Element generated_element(const ir::Node& node, const Sizes& sizes, std::int64_t index) {
  if (const auto* random = std::get_if<ir::RandomPayload>(&node.payload)) {
    return {0, static_cast<std::int64_t>(ops::philox(random->seed, static_cast<std::uint64_t>(index))), 0};
  }
  const auto axis = static_cast<std::size_t>(std::get<ir::IotaPayload>(node.payload).axis);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  return iota_element(node.type.dtype, index / inner % sizes[axis]);
}

}  // namespace vkfuse::reference
