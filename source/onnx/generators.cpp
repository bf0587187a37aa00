// Operators whose result comes from shapes, attributes and constants; identities.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/packed_integers.hpp"
#include "onnx/symbolic_sizes.hpp"
#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

TensorData float_data(std::vector<std::int64_t> sizes, const float* values, int count) {
  TensorData data{{}, DType::f32, std::move(sizes), {}};
  data.bytes.resize(static_cast<std::size_t>(count) * sizeof(float));
  if (count != 0) std::memcpy(data.bytes.data(), values, data.bytes.size());
  return data;
}

Result<TensorData> constant_from(const pb::AttributeProto& attribute, std::string_view name) {
  if (name == "value_float") {
    const float value = attribute.f();
    return float_data({}, &value, 1);
  }
  if (name == "value_floats") {
    return float_data({attribute.floats_size()}, attribute.floats().data(), attribute.floats_size());
  }
  if (name == "value_int") return int64_data({}, {attribute.i()});
  if (name == "value_ints") {
    return int64_data({attribute.ints_size()}, {attribute.ints().begin(), attribute.ints().end()});
  }
  return unsupported("Attribute {} makes a string or sparse constant, which is not supported.", in_quotes(name));
}

/// The data, and "nothing was dropped" for those who ask for the mask.
Outputs dropout_in_inference(const NodeContext& node, DType mask) {
  Outputs outputs{node.value(0)};
  if (node.outputs() > 1) outputs.emplace_back(filled(node.tensor(0).shape(), Tensor::scalar(mask, 1)));
  return outputs;
}

bool is_known_zero(const Value& value) {
  return value.known && element_count(*value.known) == 1 && element_real(*value.known, 0) == 0;
}

/// max(0, ceil((limit - start) / delta)), exactly, with differences that need all 64 bits.
std::uint64_t integer_steps(std::int64_t start, std::int64_t limit, std::int64_t delta) {
  if (delta > 0 ? limit <= start : limit >= start) return 0;
  const auto low = static_cast<std::uint64_t>(delta > 0 ? start : limit);
  const auto high = static_cast<std::uint64_t>(delta > 0 ? limit : start);
  const std::uint64_t stride = delta > 0 ? static_cast<std::uint64_t>(delta) : 0 - static_cast<std::uint64_t>(delta);
  return (high - low - 1) / stride + 1;
}

struct Range {
  TensorData start, limit, delta;
};

Result<std::int64_t> range_length(const Range& range) {
  constexpr double kMost = 0x1p48;
  double steps = 0;
  if (is_float(range.start.dtype)) {
    const double delta = element_real(range.delta, 0);
    steps = std::ceil((element_real(range.limit, 0) - element_real(range.start, 0)) / delta);
  } else if (element_int(range.delta, 0) != 0) {
    steps = static_cast<double>(
        integer_steps(element_int(range.start, 0), element_int(range.limit, 0), element_int(range.delta, 0)));
  } else {
    steps = std::numeric_limits<double>::quiet_NaN();
  }
  if (!(steps <= kMost)) {
    return invalid("The range from {} to {} in steps of {} does not end.", element_real(range.start, 0),
                   element_real(range.limit, 0), element_real(range.delta, 0));
  }
  return static_cast<std::int64_t>(std::max(steps, 0.0));
}

Result<TensorData> known_scalar(const NodeContext& node, int i, std::string_view what) {
  VKF_TRY(data, node.known(i, what));
  if (element_count(data) != 1)
    return invalid("The {} has {} elements; it must be a scalar.", what, element_count(data));
  if (data.dtype != node.dtype(0)) {
    return invalid("The {} is {}, the start {}; they must be equal.", what, name_of(data.dtype),
                   name_of(node.dtype(0)));
  }
  return data;
}

/// n, where the range is 0, 1, ... up to a symbol n.
std::optional<Dim> counted_length(const NodeContext& node) {
  const auto is = [&](int i, std::int64_t requested) {
    const auto& known = node.value(i).known;
    return known && element_count(*known) == 1 && is_integer(known->dtype) && element_int(*known, 0) == requested;
  };
  if (node.value(1).known || !is(0, 0) || !is(2, 1) || node.dtype(1) != node.dtype(0)) return std::nullopt;
  const auto limit = symbolic_elements(node.tensor(1));
  return limit.size() == 1 && limit[0] && limit[0]->is_symbol() ? limit[0] : std::nullopt;
}

}  // namespace

Result<Outputs> import_constant(const NodeContext& node) {
  const std::vector<std::string_view> names = node.attributes().names();
  if (names.size() != 1) return invalid("A Constant has exactly one attribute; this one has {}.", names.size());
  const pb::AttributeProto& stated = *node.attributes().find(names[0]);
  if (names[0] == "value") {
    VKF_TRY(value, value_from(stated.t(), {}));
    return Outputs{std::move(value)};
  }
  VKF_TRY(data, constant_from(stated, names[0]));
  return Outputs{constant_value(std::move(data))};
}

Result<Outputs> import_constant_of_shape(const NodeContext& node) {
  VKF_TRY(shape, known_shape(node, 0));
  const float zero = 0;
  TensorData value = float_data({}, &zero, 1);
  const NarrowType* narrow = nullptr;
  if (const pb::AttributeProto* attribute = node.attributes().find("value")) {
    VKF_TRY(stated, decode_tensor(attribute->t(), {}));
    if (element_count(stated) != 1) return invalid("Attribute 'value' has {} elements, not 1.", element_count(stated));
    stated.sizes.clear();
    value = std::move(stated);
    narrow = find_narrow(attribute->t().data_type());
  }
  Value result = filled(shape, constant_value(std::move(value)).tensor);
  result.narrow = narrow;
  return Outputs{std::move(result)};
}

Result<Outputs> import_dropout_6(const NodeContext& node) {
  VKF_TRY(is_test, node.attributes().integer("is_test", 0));
  VKF_TRY(ratio, node.attributes().real("ratio", 0.5));
  if (is_test != 0) return dropout_in_inference(node, node.dtype());
  VKF_TRY(outputs, dropout_in_training(node, Tensor::scalar(DType::f32, ratio), Tensor::scalar_int(DType::boolean, 1)));
  return Outputs{outputs[0], outputs[1].tensor.cast(node.dtype())};
}

Result<Outputs> import_dropout_7(const NodeContext& node) {
  return dropout_in_inference(node, node.opset() < 10 ? node.dtype() : DType::boolean);
}

Result<Outputs> import_dropout_12(const NodeContext& node) {
  const bool is_inference = !node.has(2) || is_known_zero(node.value(2));
  if (is_inference || (node.has(1) && is_known_zero(node.value(1)))) return dropout_in_inference(node, DType::boolean);
  const Tensor ratio = node.has(1) ? node.tensor(1) : Tensor::scalar(DType::f32, 0.5);
  return dropout_in_training(node, ratio, node.tensor(2));
}

Result<Outputs> import_eye_like(const NodeContext& node) {
  const Tensor& x = node.tensor(0);
  if (x.shape().size() != 2) return invalid("The input has rank {}; EyeLike needs rank 2.", x.shape().size());
  VKF_TRY(offset, node.attributes().integer("k", 0));
  DType dtype = x.dtype();
  if (node.attributes().has("dtype")) {
    VKF_TRY(to, node.attributes().integer("dtype", 0));
    VKF_TRY(stated, dtype_from(static_cast<int>(to), "Attribute 'dtype'"));
    dtype = stated;
  }
  // No matrix reaches further from its diagonal than this, and i32 holds it.
  constexpr std::int64_t kFar = 1 << 30;
  const Tensor row = Tensor::iota(DType::i32, x.shape(), 0);
  const Tensor column = Tensor::iota(DType::i32, x.shape(), 1);
  const Tensor shift = Tensor::scalar_int(DType::i32, std::clamp(offset, -kFar, kFar));
  return Outputs{op("eq", column - row, shift).cast(dtype)};
}

Result<Outputs> import_identity(const NodeContext& node) { return Outputs{node.value(0)}; }

Result<Outputs> import_range(const NodeContext& node) {
  if (const std::optional<Dim> length = counted_length(node)) return Outputs{Tensor::iota(node.dtype(), {*length}, 0)};
  VKF_TRY(start, known_scalar(node, 0, "start"));
  VKF_TRY(limit, known_scalar(node, 1, "limit"));
  VKF_TRY(delta, known_scalar(node, 2, "delta"));
  const Range range{start, limit, delta};
  VKF_TRY(length, range_length(range));
  start.sizes.clear();
  delta.sizes.clear();
  // A ramp of 16-bit floats is not exact for long.
  const DType wide = size_of(start.dtype) == 2 && is_float(start.dtype) ? DType::f32 : start.dtype;
  const Tensor index = Tensor::iota(wide, {length}, 0);
  const Tensor result = constant_value(start).tensor.cast(wide) + index * constant_value(delta).tensor.cast(wide);
  return Outputs{result.cast(start.dtype)};
}

Result<Outputs> import_shape(const NodeContext& node) {
  const Shape& shape = node.tensor(0).shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  VKF_TRY(stated_start, node.attributes().integer("start", 0));
  VKF_TRY(stated_end, node.attributes().integer("end", rank));
  const auto clipped = [rank](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t begin = clipped(stated_start), end = clipped(stated_end);
  const Shape dims(shape.begin() + begin, shape.begin() + std::max(begin, end));
  if (std::ranges::any_of(dims, &Dim::is_symbol)) {
    std::vector<Tensor> sizes;
    for (const Dim& dim : dims) sizes.push_back(size_tensor(dim).unsqueeze(0));
    return Outputs{sizes.size() == 1 ? sizes[0] : concat(sizes, 0)};
  }
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.size());
  return Outputs{constant_value(int64_data({static_cast<std::int64_t>(sizes.size())}, sizes))};
}

Result<Outputs> import_size(const NodeContext& node) {
  const Shape& shape = node.tensor(0).shape();
  if (std::ranges::any_of(shape, &Dim::is_symbol)) {
    Tensor count = Tensor::scalar_int(DType::i64, 1);
    for (const Dim& dim : shape) count = count * size_tensor(dim);
    return Outputs{std::move(count)};
  }
  VKF_TRY(count, static_count(shape, 0, shape.size()));
  return Outputs{constant_value(int64_data({}, {count}))};
}

}  // namespace vkfuse::onnx
