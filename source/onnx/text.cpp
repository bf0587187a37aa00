#include "onnx/text.hpp"

#include <fmt/format.h>

#include "onnx/narrow_types.hpp"
#include "onnx/schema.hpp"

namespace vkfuse::onnx {

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  std::string text = "'";
  for (char c : name.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    // Bytes from 0x80 up are kept: names may be UTF-8.
    text += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  text += name.size() > kLongest ? "...'" : "'";
  return text;
}

std::string data_type_name(int data_type) {
  if (const NarrowType* narrow = find_narrow(data_type)) return std::string(narrow->name);
  if (pb::TensorProto::DataType_IsValid(data_type)) {
    return pb::TensorProto::DataType_Name(static_cast<pb::TensorProto::DataType>(data_type));
  }
  return fmt::format("{}", data_type);
}

}  // namespace vkfuse::onnx
