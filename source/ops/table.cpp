// The table: the rows that are not elementwise functions, then the families in order.
#include <map>
#include <vector>

#include "base/error.hpp"
#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

// A row is a paragraph.
// clang-format off
constexpr OpRow kStructure[] = {
    {.name = "input", .arity = 0, .cls = OpClass::input, .signature = Signature::generate, .types = kAll,
     .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "A named operand of the graph."},
    {.name = "constant", .arity = 0, .cls = OpClass::constant, .signature = Signature::generate, .types = kAll,
     .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "A literal tensor."},
    {.name = "iota", .role = Role::iota, .arity = 0, .cls = OpClass::generate,
     .signature = Signature::generate, .types = kNumbers,
     .propagation = ErrorPropagation::exact,
     .doc = "The index of the element along one axis, cast from u32."},
    {.name = "random", .role = Role::random, .arity = 0, .cls = OpClass::generate,
     .signature = Signature::generate, .types = bit(DType::u32),
     .glsl = {.u32 = "philox({0}, {1})"}, .propagation = ErrorPropagation::exact, .cost = 40,
     .doc = "Random words: Philox 4x32-10 of the seed and the flat index, the same on every device."},
    {.name = "cast", .role = Role::cast, .cls = OpClass::convert,
     .signature = Signature::convert, .types = kAll, .own_error = ulps<1>,
     .doc = "Conversion. Floats to integers truncate and saturate, NaN to 0; integers wrap; anything to bool is != 0."},
    {.name = "bitcast", .role = Role::bitcast, .cls = OpClass::convert,
     .signature = Signature::convert, .types = kNumbers,
     .propagation = ErrorPropagation::exact,
     .doc = "The same bits as another dtype of the same size. A NaN of f16 or bf16 becomes the canonical one."},
    {.name = "copy", .role = Role::copy, .types = kAll,
     .glsl = {.f32 = "{0}", .i32 = "{0}", .u32 = "{0}", .boolean = "{0}", .i64 = "{0}", .u64 = "{0}", .pair64 = "{0}",
              .f64 = "{0}"},
     .real = [](const double* x) { return x[0]; }, .integer = [](const std::int64_t* x, DType) { return x[0]; },
     .propagation = ErrorPropagation::lipschitz, .cost = 0,
     .doc = "The operand itself, written again: how a program returns an input."},
};
// clang-format on

std::vector<OpRow> joined() {
  std::vector<OpRow> rows(std::begin(kStructure), std::end(kStructure));
  for (const auto family : {arithmetic_rows(), special_rows(), compare_rows(), bit_and_logic_rows(),
                            float_format_rows(), view_rows(), reduction_rows()}) {
    rows.insert(rows.end(), family.begin(), family.end());
  }
  return rows;
}

std::map<std::string_view, const OpRow*> indexed() {
  std::map<std::string_view, const OpRow*> by_name;
  for (const OpRow& row : custom_rows()) check(by_name.emplace(row.name, &row).second, "two op rows have one name");
  for (const OpRow& row : collective_rows()) {
    check(by_name.emplace(row.name, &row).second, "two op rows have one name");
  }
  for (const OpRow& row : table()) check(by_name.emplace(row.name, &row).second, "two op rows have one name");
  return by_name;
}

}  // namespace

std::span<const OpRow> table() {
  static const std::vector<OpRow> rows = joined();
  return rows;
}

const OpRow* find(std::string_view name) {
  static const auto by_name = indexed();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

const OpRow& row(std::string_view name) {
  const OpRow* found = find(name);
  check(found != nullptr, "an op row that the code names does not exist");
  return *found;
}

const OpRow& element_row(const OpRow& op) { return op.reduction.of.empty() ? op : row(op.reduction.of); }

}  // namespace vkfuse::ops
