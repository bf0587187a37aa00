// TensorProto -> TensorData: the six ways ONNX stores elements become one.
#pragma once

#include "base/error.hpp"
#include "onnx/external_data.hpp"
#include "onnx/narrow_types.hpp"
#include "onnx/schema.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// The dtype of a TensorProto.DataType, or a sentence that names the type vkfuse does not have
/// (strings, complex numbers, floats and integers of fewer bits); `what` says whose type it is.
Result<DType> dtype_from(int data_type, const std::string& what);

/// A type that elements of the program may have: a dtype, or one that a dtype holds.
struct ElementType {
  DType dtype = DType::f32;
  const NarrowType* narrow = nullptr;

  friend bool operator==(const ElementType&, const ElementType&) = default;
};
/// The same for operators that take both; what is neither is refused.
Result<ElementType> element_type_from(int data_type, const std::string& what);
std::string name_of(const ElementType& type);

/// The bytes of a tensor as they are stored, `needed` of them; `files` as for decode_tensor.
Result<std::vector<std::byte>> stored_bytes(const pb::TensorProto& tensor, const ExternalFiles& files,
                                            std::int64_t needed);

/// The elements of a tensor, those of narrow types one in a byte. `files` is where external data may lie. The stored
/// length is compared with the stated shape before anything is allocated.
Result<TensorData> decode_tensor(const pb::TensorProto& tensor, const ExternalFiles& files);

}  // namespace vkfuse::onnx
