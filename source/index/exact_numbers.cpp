#include "index/exact_numbers.hpp"

namespace vkfuse::index {

bool has_all_of(DType dtype, const Interval& interval) {
  const auto within = [&](std::int64_t low, std::int64_t high) { return interval.low >= low && interval.high <= high; };
  const auto around = [&](int bits) { return within(-(std::int64_t{1} << bits), std::int64_t{1} << bits); };
  switch (dtype) {
    case DType::boolean: return within(0, 1);
    case DType::i8: return within(INT8_MIN, INT8_MAX);
    case DType::u8: return within(0, UINT8_MAX);
    case DType::i16: return within(INT16_MIN, INT16_MAX);
    case DType::u16: return within(0, UINT16_MAX);
    case DType::i32: return within(INT32_MIN, INT32_MAX);
    case DType::u32: return within(0, UINT32_MAX);
    case DType::i64: return around(40);
    case DType::u64: return within(0, std::int64_t{1} << 40);
    case DType::bf16: return around(8);
    case DType::f16: return around(11);
    case DType::f32: return around(24);
    case DType::f64: return around(40);
  }
  return false;
}

}  // namespace vkfuse::index
