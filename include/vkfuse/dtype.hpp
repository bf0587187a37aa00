// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// The element type of a tensor. In memory each element is little-endian and takes size_of()
/// bytes; a boolean is one byte, 0 or 1.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

inline constexpr int kDTypeCount = 13;

/// Bytes of one element: 1, 2, 4 or 8.
constexpr int size_of(DType dtype) {
  constexpr int sizes[kDTypeCount] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1};
  return sizes[static_cast<int>(dtype)];
}

constexpr bool is_float(DType dtype) { return dtype <= DType::f64; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::i8 && dtype <= DType::u64; }
constexpr bool is_signed_integer(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

/// The name used in text IR and messages: "f32", ..., "bool".
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {"f32", "f16", "bf16", "f64", "i8",  "u8",  "i16",
                                                   "u16", "i32", "u32",  "i64", "u64", "bool"};
  return names[static_cast<int>(dtype)];
}

/// The dtype of that name, or nothing.
constexpr std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace VKFUSE_PUBLIC
