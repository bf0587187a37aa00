#include "onnx/packed_integers.hpp"

#include <cstring>

#include "base/shape.hpp"
#include "onnx/external_data.hpp"
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

/// The bytes as they are stored, `needed` of them.
Result<std::vector<std::byte>> stored_bytes(const pb::TensorProto& tensor, const std::filesystem::path& folder,
                                            std::int64_t needed) {
  if (tensor.data_location() == pb::TensorProto::EXTERNAL) {
    if (!folder.empty()) return read_external_data(tensor, folder, needed);
    return unsupported("{} keeps its elements in another file, which is only supported beside a model.", label(tensor));
  }
  std::vector<std::byte> bytes;
  if (tensor.has_raw_data()) {
    bytes.resize(tensor.raw_data().size());
    if (!bytes.empty()) std::memcpy(bytes.data(), tensor.raw_data().data(), bytes.size());
  } else {
    for (const std::int32_t two : tensor.int32_data()) bytes.push_back(static_cast<std::byte>(two));
  }
  if (static_cast<std::int64_t>(bytes.size()) == needed) return bytes;
  return invalid("{} holds integers of 4 bits, for which {} bytes are needed, but {} bytes are stored.", label(tensor),
                 needed, bytes.size());
}

}  // namespace

Result<Value> value_from(const pb::TensorProto& tensor, const std::filesystem::path& folder) {
  if (tensor.data_type() != kInt4 && tensor.data_type() != kUint4) {
    VKF_TRY(data, decode_tensor(tensor, folder));
    return constant_value(std::move(data));
  }
  VKF_TRY(count, count_of(tensor));
  const std::int64_t needed = count / 2 + count % 2;
  VKF_TRY(bytes, stored_bytes(tensor, folder, needed));
  const Tensor packed = Tensor::constant(DType::u8, {needed}, bytes);
  const Shape shape(tensor.dims().begin(), tensor.dims().end());
  Value value = unpack_int4(packed, tensor.data_type() == kInt4).slice(0, 0, count).reshape(shape);
  value.is_int4 = true;
  return value;
}

}  // namespace vkfuse::onnx
