// Messages of protobuf, written field by field: models are put together from ONNX Runtime's graphs, and protobuf itself
// stays the importer's.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace vkfuse::ort {

/// The bytes of one message. Repeated fields are written once for each element, in order.
class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& real(int field, float value) {
    key(field, 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int kind) { varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(kind)); }
  void varint(std::uint64_t value) {
    for (; value > 0x7f; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace vkfuse::ort
