#include "onnx/value_types.hpp"

#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

using Dimension = pb::TensorShapeProto::Dimension;

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

Result<Dim> dim_from(const Dimension& dimension, const std::string& fallback, const OnnxOptions& options,
                     const std::string& what) {
  std::int64_t size = dimension.dim_value();
  if (!dimension.has_dim_value()) {
    const std::string& name = dimension.dim_param().empty() ? fallback : dimension.dim_param();
    const auto known = options.dims.find(name);
    if (known == options.dims.end()) return Dim::any(name);
    size = known->second;
  }
  if (size < 0) return invalid("{} has a dimension of {}; sizes are not negative.", what, size);
  return Dim(size);
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

Result<TensorType> input_type(const pb::ValueInfoProto& info, const OnnxOptions& options) {
  const std::string what = fmt::format("Input {}", in_quotes(info.name()));
  VKF_TRY(type, tensor_type(info, what));
  TensorType result;
  VKF_TRY(dtype, dtype_from(type->elem_type(), what));
  result.dtype = dtype;
  if (!type->has_shape()) return unsupported("{} states no shape: tensors of unknown rank are not supported.", what);
  for (int axis = 0; axis < type->shape().dim_size(); ++axis) {
    VKF_TRY(dim, dim_from(type->shape().dim(axis), fmt::format("{}.{}", info.name(), axis), options, what));
    result.shape.push_back(dim);
  }
  VKF_CHECK_OK(check_size(result.dtype, result.shape, what));
  return result;
}

Result<void> take_sizes(const pb::ValueInfoProto& info, OnnxOptions& options) {
  const auto stated = options.input_sizes.find(info.name());
  if (stated == options.input_sizes.end()) return {};
  const auto& shape = info.type().tensor_type().shape();
  const std::vector<std::int64_t>& sizes = stated->second;
  bool agrees = static_cast<std::size_t>(shape.dim_size()) == sizes.size();
  for (int axis = 0; agrees && axis < shape.dim_size(); ++axis) {
    const Dimension& dimension = shape.dim(axis);
    const std::int64_t size = sizes[static_cast<std::size_t>(axis)];
    const std::string name = dimension.dim_param().empty() ? fmt::format("{}.{}", info.name(), axis) : dimension.dim_param();
    agrees = dimension.has_dim_value() ? dimension.dim_value() == size : options.dims.emplace(name, size).first->second == size;
  }
  if (agrees) return {};
  return invalid("Input {} is given with the sizes [{}], which its shape or another input's sizes do not allow.", in_quotes(info.name()),
                 fmt::join(sizes, ", "));
}

Result<void> check_output(const pb::ValueInfoProto& info, const Tensor& tensor, const std::optional<DType>& floats) {
  if (info.type().value_case() == pb::TypeProto::VALUE_NOT_SET) return {};
  const std::string what = fmt::format("Output {}", in_quotes(info.name()));
  VKF_TRY(type, tensor_type(info, what));
  VKF_TRY(dtype, dtype_from(type->elem_type(), what));
  if (floats && dtype == DType::f32) dtype = *floats;
  if (dtype != tensor.dtype()) {
    return invalid("{} is stated to be {}, but the graph computes {}.", what, name_of(dtype), name_of(tensor.dtype()));
  }
  if (!type->has_shape()) return {};
  const Shape& shape = tensor.shape();
  bool agrees = type->shape().dim_size() == static_cast<int>(shape.size());
  for (std::size_t axis = 0; agrees && axis < shape.size(); ++axis) {
    const Dimension& stated = type->shape().dim(static_cast<int>(axis));
    agrees = !stated.has_dim_value() || shape[axis].is_symbol() || stated.dim_value() == shape[axis].size();
  }
  if (agrees) return {};
  std::vector<std::string> stated;
  for (const Dimension& dim : type->shape().dim()) {
    stated.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param());
  }
  return invalid("{} is stated to have the shape [{}], but the graph computes {}.", what, fmt::join(stated, ", "),
                 to_text(shape));
}

}  // namespace vkfuse::onnx
