// Changes of dtype.
#include <optional>
#include <string_view>

#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {

namespace {

std::optional<PowerRounding> power_rounding_named(std::string_view mode) {
  if (mode == "up") return PowerRounding::up;
  if (mode == "down") return PowerRounding::down;
  return mode == "nearest" ? std::optional(PowerRounding::nearest) : std::nullopt;
}

Result<Outputs> converted_to(const NodeContext& node, const ElementType& to) {
  VKF_TRY(saturates, node.attributes().integer("saturate", 1));
  VKF_TRY(mode, node.attributes().text("round_mode", "up"));
  const auto rounding = power_rounding_named(mode);
  if (!rounding) return invalid("Attribute 'round_mode' is {}; it must be 'up', 'down' or 'nearest'.", in_quotes(mode));
  const Value& x = node.value(0);
  if (x.narrow == to.narrow && x.tensor.dtype() == to.dtype) return Outputs{x};
  const Tensor numbers = x.narrow != nullptr ? widened(x.tensor, *x.narrow) : x.tensor;
  if (to.narrow == nullptr) return Outputs{numbers.cast(to.dtype)};
  Value result = narrowed(numbers, *to.narrow, {saturates != 0, *rounding});
  result.narrow = to.narrow;
  return Outputs{std::move(result)};
}

}  // namespace

Result<Outputs> import_cast(const NodeContext& node) {
  if (!node.attributes().has("to")) return invalid("Attribute 'to' is missing.");
  VKF_TRY(to, node.attributes().integer("to", 0));
  VKF_TRY(type, element_type_from(static_cast<int>(to), "Attribute 'to'"));
  return converted_to(node, type);
}

Result<Outputs> import_bit_cast(const NodeContext& node) {
  if (!node.attributes().has("to")) return invalid("Attribute 'to' is missing.");
  VKF_TRY(to, node.attributes().integer("to", 0));
  VKF_TRY(dtype, dtype_from(static_cast<int>(to), "Attribute 'to'"));
  if (size_of(dtype) != size_of(node.dtype())) {
    return invalid("Operator 'BitCast' reads {} as {}; both must have as many bits.", name_of(node.dtype()),
                   name_of(dtype));
  }
  // A boolean is the byte 0 or 1.
  if (dtype == DType::boolean) return Outputs{node.tensor(0).bitcast(DType::u8).cast(dtype)};
  if (node.dtype() == DType::boolean) return Outputs{node.tensor(0).cast(DType::u8).bitcast(dtype)};
  return Outputs{node.tensor(0).bitcast(dtype)};
}

Result<Outputs> import_cast_like(const NodeContext& node) {
  return converted_to(node, {node.dtype(1), node.value(1).narrow});
}

}  // namespace vkfuse::onnx
