#include "vkfuse/custom.hpp"

#include "api/tensor_node.hpp"

namespace vkfuse {

namespace {

Tensor with_rule(Tensor built, std::span<const Tensor> operands, const GradientRule& rule) {
  if (!rule) return built;
  return api::with_own_gradient(std::move(built), {{operands.begin(), operands.end()}, rule});
}

}  // namespace

Tensor custom(const CustomOp& op, std::span<const Tensor> operands) {
  ir::CustomPayload payload{op.name, op.glsl, op.ulps, op.cost, nullptr};
  if (op.reference) payload.function = std::make_shared<const ir::HostFunction>(op.reference);
  Tensor built =
      api::build_tensor(ops::row("custom"), {operands.begin(), operands.end()}, {op.dtype, {}}, std::move(payload));
  return with_rule(std::move(built), operands, op.gradient);
}

Tensor custom(const CustomOp& op, std::initializer_list<Tensor> operands) {
  return custom(op, std::span<const Tensor>(operands.begin(), operands.size()));
}

Tensor custom(const CustomKernel& kernel, std::span<const Tensor> operands) {
  ir::KernelPayload payload{kernel.name, kernel.glsl, kernel.workgroup, kernel.tile};
  Tensor built = api::build_tensor(ops::row("custom_kernel"), {operands.begin(), operands.end()},
                                   {kernel.dtype, kernel.shape}, std::move(payload));
  return with_rule(std::move(built), operands, kernel.gradient);
}

Tensor custom(const CustomKernel& kernel, std::initializer_list<Tensor> operands) {
  return custom(kernel, std::span<const Tensor>(operands.begin(), operands.size()));
}

}  // namespace vkfuse
