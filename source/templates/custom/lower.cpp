#include "templates/custom/lower.hpp"

namespace vkfuse::lowering {

Result<std::vector<RelocatableKernel>> lower_custom(const LoweringInput& in) {
  const ir::NodeId id = in.loops.stores[0].node;
  const ir::Node& node = in.graph.node(id);
  const auto& custom = std::get<ir::KernelPayload>(node.payload);
  Kernel kernel;
  kernel.name = in.options.name;
  kernel.glsl = kernel.key = custom.code;
  kernel.user = custom.name;
  for (ir::NodeId operand : node.operands) kernel.bindings.push_back({operand, false, false});
  kernel.bindings.push_back({id, true, false});
  kernel.workgroup = in.schedule.workgroup;
  kernel.groups_x = static_cast<std::uint32_t>(in.schedule.launch.workgroups_x);
  kernel.groups_y = in.schedule.launch.workgroups_x == 0
                        ? 0
                        : static_cast<std::uint32_t>(in.schedule.launch.workgroups / in.schedule.launch.workgroups_x);
  // The sizes of every operand and of the result, for who asks for them.
  if (custom.code.find("push_constant") != std::string::npos) {
    for (std::int64_t size : in.loops.opaque_sizes) kernel.constants.push_back(static_cast<std::uint32_t>(size));
    if (kernel.constants.size() * 4 > in.target.caps.memory.push_constant_bytes) {
      return unsupported("The custom kernel '{}' has {} sizes, and the device has {} bytes of push constants.",
                         custom.name, kernel.constants.size(), in.target.caps.memory.push_constant_bytes);
    }
  }
  RelocatableKernel relocatable;
  relocatable.canonical_key = custom.code;
  relocatable.kernel = std::move(kernel);
  std::vector<RelocatableKernel> relocatables;
  relocatables.push_back(std::move(relocatable));
  return relocatables;
}

}  // namespace vkfuse::lowering
