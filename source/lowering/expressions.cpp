#include "lowering/expressions.hpp"

#include <array>
#include <vector>

namespace vkfuse::lowering {

namespace {

/// Functions of which a device needs another form, which takes `first` before the other arguments.
std::vector<FunctionForm> forms_of(const Dialect& dialect) {
  std::vector<FunctionForm> forms;
  // Where no execution mode keeps NaN, what they are is seen in their bits.
  if (!dialect.keeps_nan) forms = {{"f32_min(", "f32_min_bits("}, {"f32_max(", "f32_max_bits("}};
  // There are fewer than 2^31 chunks.
  if (dialect.native_f16) forms.push_back({"f16_round(", "f16_round_native(p.chunks >> 31, "});
  return forms;
}

Code filled(std::string_view pattern, const Dialect& dialect, std::span<const Code> operands) {
  const std::vector<FunctionForm> forms = forms_of(dialect);
  return fill_pattern(pattern, operands, forms);
}

}  // namespace

Code expression(const ops::OpRow& row, DType dtype, const Dialect& dialect, std::span<const Code> operands) {
  std::vector<std::string> places;
  for (std::size_t i = 0; i < operands.size(); ++i) places.push_back(fmt::format("{{{}}}", i));
  return filled(ops::expression(row, dtype, dialect.native(), places), dialect, operands);
}

Code cast_expression(DType from, DType to, const Dialect& dialect, const Code& operand) {
  const bool widens = dialect.native_int64 && ops::register_type_of(from) == ops::RegisterType::i32 && is_integer(to) &&
                      size_of(to) == 8;
  const std::string pattern = widens && dialect.widens_by_halves
                                  ? (to == DType::i64 ? "i64_from_i32({0})" : "uint64_t(i64_from_i32({0}))")
                                  : ops::cast_expression(from, to, dialect.native_int64, "{0}");
  return filled(pattern, dialect, std::span(&operand, 1));
}

Code bitcast_expression(DType from, DType to, const Dialect& dialect, const Code& operand) {
  return filled(ops::bitcast_expression(from, to, dialect.native_int64, "{0}"), dialect, std::span(&operand, 1));
}

Code narrow(DType dtype, const Dialect& dialect, const Code& operand) {
  return filled(ops::narrow(dtype, "{0}"), dialect, std::span(&operand, 1));
}

bool narrows(DType dtype) { return size_of(dtype) < 4 && dtype != DType::boolean; }

}  // namespace vkfuse::lowering
