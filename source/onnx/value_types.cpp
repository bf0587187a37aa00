#include "onnx/value_types.hpp"

#include <algorithm>

#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

using Dimension = pb::TensorShapeProto::Dimension;

/// The size that a dimension states. A negative one, which some exporters write for what they do not know, states none.
std::optional<std::int64_t> stated_size(const Dimension& dimension) {
  return dimension.has_dim_value() && dimension.dim_value() >= 0 ? std::optional(dimension.dim_value()) : std::nullopt;
}

std::string symbol_of(const pb::ValueInfoProto& info, int axis, const Dimension& dimension) {
  return dimension.dim_param().empty() ? fmt::format("{}.{}", info.name(), axis) : dimension.dim_param();
}

Result<const pb::TypeProto::Tensor*> tensor_type(const pb::ValueInfoProto& info, const std::string& what) {
  switch (info.type().value_case()) {
    case pb::TypeProto::kTensorType: return &info.type().tensor_type();
    case pb::TypeProto::kSequenceType: return unsupported("{} is a sequence, which is not supported.", what);
    case pb::TypeProto::kMapType: return unsupported("{} is a map, which is not supported.", what);
    case pb::TypeProto::kOptionalType: return unsupported("{} is an optional, which is not supported.", what);
    case pb::TypeProto::kSparseTensorType: return unsupported("{} is a sparse tensor, which is not supported.", what);
    default: return invalid("{} states no type.", what);
  }
}

Result<Dim> dim_from(const pb::ValueInfoProto& info, int axis, const OnnxOptions& options, const std::string& what) {
  const Dimension& dimension = info.type().tensor_type().shape().dim(axis);
  if (const auto stated = stated_size(dimension)) return Dim(*stated);
  // An input of given sizes has those, even where another one has a second size for the symbol.
  const auto given = options.input_sizes.find(info.name());
  if (given != options.input_sizes.end() && static_cast<std::size_t>(axis) < given->second.size())
    return Dim(given->second[static_cast<std::size_t>(axis)]);
  const std::string name = symbol_of(info, axis, dimension);
  const auto known = options.dims.find(name);
  if (known == options.dims.end()) return Dim::any(name);
  if (known->second < 0) return invalid("{} has a dimension of {}; sizes are not negative.", what, known->second);
  return Dim(known->second);
}

std::string text_of(const pb::TensorShapeProto& shape) {
  std::vector<std::string> stated;
  for (const Dimension& dim : shape.dim())
    stated.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param());
  return fmt::format("[{}]", fmt::join(stated, ", "));
}

/// The bytes of the known dimensions must fit 64 bits whatever the unknown ones are.
Result<void> check_size(DType dtype, const Shape& shape, const std::string& what) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : shape) {
    if (!dim.is_symbol()) sizes.push_back(dim.size());
  }
  if (byte_count(dtype, sizes)) return {};
  return invalid("{} has the shape {}, whose size in bytes does not fit 64 bits.", what, to_text(shape));
}

}  // namespace

Result<TensorType> input_type(const pb::ValueInfoProto& info, const OnnxOptions& options, std::string_view role) {
  const std::string what = fmt::format("{} {}", role, in_quotes(info.name()));
  VKF_TRY(type, tensor_type(info, what));
  TensorType result;
  VKF_TRY(element, element_type_from(type->elem_type(), what));
  result.dtype = element.dtype;
  if (!type->has_shape()) return unsupported("{} states no shape: tensors of unknown rank are not supported.", what);
  for (int axis = 0; axis < type->shape().dim_size(); ++axis) {
    VKF_TRY(dim, dim_from(info, axis, options, what));
    result.shape.push_back(dim);
  }
  VKF_CHECK_OK(check_size(result.dtype, result.shape, what));
  return result;
}

const NarrowType* narrow_type(const pb::ValueInfoProto& info) {
  return find_narrow(info.type().tensor_type().elem_type());
}

bool states_sequence(const pb::ValueInfoProto& info) {
  const pb::TypeProto& type = info.type();
  return type.has_sequence_type() || (type.has_optional_type() && type.optional_type().elem_type().has_sequence_type());
}

std::vector<std::string> ignored_sizes(const pb::ValueInfoProto& info) {
  std::vector<std::string> notes;
  const auto& shape = info.type().tensor_type().shape();
  for (int axis = 0; axis < shape.dim_size(); ++axis) {
    if (!shape.dim(axis).has_dim_value() || stated_size(shape.dim(axis))) continue;
    notes.push_back(fmt::format("Input {} states a size of {} in dimension {}, which is taken as not known.",
                                in_quotes(info.name()), shape.dim(axis).dim_value(), axis));
  }
  return notes;
}

Result<void> take_sizes(const pb::ValueInfoProto& info, const std::map<std::string, std::int64_t, std::less<>>& fixed,
                        OnnxOptions& options, std::vector<std::string>& notes) {
  const auto given = options.input_sizes.find(info.name());
  if (given == options.input_sizes.end()) return {};
  const auto& shape = info.type().tensor_type().shape();
  const std::vector<std::int64_t>& sizes = given->second;
  bool agrees = static_cast<std::size_t>(shape.dim_size()) == sizes.size() &&
                std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 0; });
  for (int axis = 0; agrees && axis < shape.dim_size(); ++axis) {
    const std::int64_t size = sizes[static_cast<std::size_t>(axis)];
    if (const auto stated = stated_size(shape.dim(axis))) {
      agrees = *stated == size;
      continue;
    }
    const std::string name = symbol_of(info, axis, shape.dim(axis));
    const std::int64_t before = options.dims.emplace(name, size).first->second;
    agrees = before == size || !fixed.contains(name);
    if (before == size || !agrees) continue;
    notes.push_back(
        fmt::format("Dimension {} of input {} is {}, though it shares the name {} with a dimension of {}; the name is "
                    "ignored there.",
                    axis, in_quotes(info.name()), size, in_quotes(name), before));
  }
  if (agrees) return {};
  return invalid(
      "Input {} is given with the sizes [{}], which its shape {} or a size stated for a symbol does not allow.",
      in_quotes(info.name()), fmt::join(sizes, ", "), text_of(shape));
}

Result<void> check_output(const pb::ValueInfoProto& info, const Value& value, const std::optional<DType>& floats,
                          std::vector<std::string>& notes) {
  if (info.type().value_case() == pb::TypeProto::VALUE_NOT_SET) return {};
  const std::string what = fmt::format("Output {}", in_quotes(info.name()));
  VKF_TRY(type, tensor_type(info, what));
  VKF_TRY(element, element_type_from(type->elem_type(), what));
  if (floats && element.dtype == DType::f32) element.dtype = *floats;
  const ElementType computed{value.tensor.dtype(), value.narrow};
  if (element != computed)
    return invalid("{} is stated to be {}, but the graph computes {}.", what, name_of(element), name_of(computed));
  if (!type->has_shape()) return {};
  const Shape& shape = value.tensor.shape();
  bool agrees = type->shape().dim_size() == static_cast<int>(shape.size());
  for (std::size_t axis = 0; agrees && axis < shape.size(); ++axis) {
    const Dimension& stated = type->shape().dim(static_cast<int>(axis));
    const auto size = stated_size(stated);
    agrees = !size || shape[axis].is_symbol() || *size == shape[axis].size();
  }
  if (!agrees)
    notes.push_back(fmt::format("{} is stated to have the shape {}, which is ignored: the graph computes {}.", what,
                                text_of(type->shape()), to_text(shape)));
  return {};
}

}  // namespace vkfuse::onnx
