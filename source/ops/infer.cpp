// Type rules.
#include <vector>

#include "base/error.hpp"
#include "ops/op.hpp"

namespace vkfuse::ops {
namespace {

/// "f32, f16 and bf16".
std::string names_in(TypeSet types, std::string_view before_last = "and") {
  std::vector<std::string_view> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    if ((types & bit(static_cast<DType>(i))) != 0) names.push_back(name_of(static_cast<DType>(i)));
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? fmt::format(" {} ", before_last) : ", ";
    text += names[i];
  }
  return text;
}

Result<void> check_offered(const OpRow& row, DType dtype) {
  if ((row.types & bit(dtype)) != 0) return {};
  return unsupported("'{}' is not defined on {}; it takes {}.", row.name, name_of(dtype), names_in(row.types));
}

Result<DType> infer_same(const OpRow& row, std::span<const DType> operands) {
  for (const DType dtype : operands.subspan(1)) {
    if (dtype != operands[0]) {
      return invalid("The operands of '{}' must have one dtype, but they are {} and {}.", row.name,
                     name_of(operands[0]), name_of(dtype));
    }
  }
  VKF_CHECK_OK(check_offered(row, operands[0]));
  return operands[0];
}

Result<DType> infer_select(const OpRow& row, std::span<const DType> operands) {
  if (operands[0] != DType::boolean) {
    return invalid("The condition of '{}' must be bool, but it is {}.", row.name, name_of(operands[0]));
  }
  return infer_same(row, operands.subspan(1));
}

Result<DType> infer_indexed(const OpRow& row, std::span<const DType> operands) {
  if ((kPositions & bit(operands[1])) == 0) {
    return invalid("The positions that '{}' takes must be {}, but they are {}.", row.name, names_in(kPositions, "or"),
                   name_of(operands[1]));
  }
  const DType values[] = {operands[0], operands.back()};  // the last operand of a gather is its positions
  return infer_same(row, operands.size() == 3 ? std::span<const DType>(values) : operands.first(1));
}

Result<void> check_count(const OpRow& row, std::size_t given) {
  if (row.arity == kVariadic && given == 0)
    return invalid("'{}' takes one operand or more, but none was given.", row.name);
  if (row.arity == kVariadic || given == static_cast<std::size_t>(row.arity)) return {};
  return invalid("'{}' takes {} operand{}, but {} {} given.", row.name, row.arity, row.arity == 1 ? "" : "s", given,
                 given == 1 ? "was" : "were");
}

Result<DType> infer_convert(const OpRow& row, DType from, DType to) {
  VKF_CHECK_OK(check_offered(row, from));
  VKF_CHECK_OK(check_offered(row, to));
  if (row.role == Role::bitcast && size_of(from) != size_of(to)) {
    return invalid("'bitcast' from {} to {} would change the element size from {} to {} bytes.", name_of(from),
                   name_of(to), size_of(from), size_of(to));
  }
  return to;
}

}  // namespace

Result<DType> infer_dtype(const OpRow& row, std::span<const DType> operands, std::optional<DType> attribute) {
  VKF_CHECK_OK(check_count(row, operands.size()));
  const bool needs_attribute =
      row.signature == Signature::convert || row.signature == Signature::generate || row.signature == Signature::stated;
  if (needs_attribute && !attribute) return invalid("'{}' needs a dtype attribute.", row.name);
  if (!needs_attribute && attribute) {
    return invalid("'{}' takes its dtype from its operands, but the attribute {} was given.", row.name,
                   name_of(*attribute));
  }
  switch (row.signature) {
    case Signature::same: return infer_same(row, operands);
    case Signature::compare: {
      VKF_CHECK_OK(infer_same(row, operands));
      return DType::boolean;
    }
    case Signature::select: return infer_select(row, operands);
    case Signature::convert: return infer_convert(row, operands[0], *attribute);
    case Signature::generate: {
      VKF_CHECK_OK(check_offered(row, *attribute));
      return *attribute;
    }
    case Signature::stated: return *attribute;  // and operands are what they are
    case Signature::indexed: return infer_indexed(row, operands);
    case Signature::position: {
      VKF_CHECK_OK(infer_same(row, operands));
      return DType::i32;
    }
  }
  return invalid("'{}' has an unknown signature.", row.name);
}

}  // namespace vkfuse::ops
