#include "onnx/packed_integers.hpp"

#include "base/shape.hpp"
#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// TensorProto.UINT4 and INT4, which older schemas do not name.
constexpr int kUint4 = 21, kInt4 = 22;

std::string label(const pb::TensorProto& tensor) { return fmt::format("Tensor {}", in_quotes(tensor.name())); }

Result<std::int64_t> count_of(const pb::TensorProto& tensor) {
  Sizes sizes;
  for (const std::int64_t size : tensor.dims()) {
    if (size < 0) return invalid("{} has a dimension of {}; sizes are not negative.", label(tensor), size);
    sizes.push_back(size);
  }
  return element_count(sizes);
}

}  // namespace

Result<Value> value_from(const pb::TensorProto& tensor, const ExternalFiles& files) {
  if (tensor.data_type() != kInt4 && tensor.data_type() != kUint4) {
    VKF_TRY(data, decode_tensor(tensor, files));
    Value value = constant_value(std::move(data));
    value.narrow = find_narrow(tensor.data_type());
    return value;
  }
  VKF_TRY(count, count_of(tensor));
  const std::int64_t needed = count / 2 + count % 2;
  VKF_TRY(bytes, stored_bytes(tensor, files, needed));
  const Tensor packed = Tensor::constant(DType::u8, {needed}, bytes);
  const Shape shape(tensor.dims().begin(), tensor.dims().end());
  Value value = unpack_int4(packed, tensor.data_type() == kInt4).slice(0, 0, count).reshape(shape);
  value.narrow = find_narrow(tensor.data_type());
  return value;
}

}  // namespace vkfuse::onnx
