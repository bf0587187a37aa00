// The operators the importer knows: one row per meaning. Dispatch, operand checks, messages and
// docs/onnx.md read the rows; nothing else knows an operator by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "onnx/node_context.hpp"

namespace vkfuse::onnx {

/// ONNX's own domain, spelt "" or "ai.onnx" in models.
inline constexpr std::string_view kOnnxDomain = "ai.onnx";
/// The newest opset whose changes have been read: a newer one may have changed a meaning, so that a model that states
/// it is read as one of this opset and a note says so.
inline constexpr std::int64_t kNewestOpset = 28;
/// Rows of operators that have had attributes or types changed in older opsets start here; those
/// that never changed start where ONNX introduced them.
inline constexpr std::int64_t kOldestOpset = 6;

/// Which dtypes the first operand may have. Operands of narrow types (narrow_types.hpp) are for `moved` and `converted`
/// alone: of the first, results have the type of the first operand.
enum class Takes : std::uint8_t {
  anything,
  floats,
  numbers,
  integers,
  unsigned_integers,
  booleans,
  sequences,
  optional,  ///< a tensor, a sequence, or nothing
  moved,
  converted
};

/// How many operands; `most` of variadic operators is kVariadic.
struct OperandCount {
  int least = 1, most = 1;
};
inline constexpr int kVariadic = 1 << 30;

using Outputs = std::vector<Value>;
using ImportFunction = Result<Outputs> (*)(const NodeContext&);

/// What the host makes of operands whose elements are known.
using HostResults = std::vector<TensorData>;
using HostFunction = Result<HostResults> (*)(const NodeContext&);
/// The dtypes and sizes of the largest results that operands of these sizes can have.
using HostTypes = std::vector<std::pair<DType, Sizes>>;
using HostBound = Result<HostTypes> (*)(const NodeContext&);

/// Operators that have graphs as attributes: those are imported in their place. And recurrences, of which long ones are
/// run in rounds (long_recurrence.hpp).
enum class Control : std::uint8_t { none, branch, loop, scan, flex_attention, recurrence };
constexpr bool has_graphs(Control control) { return control != Control::none && control != Control::recurrence; }

struct OperatorRow {
  std::string_view name;
  std::int64_t since = kOldestOpset, until = kNewestOpset;  ///< opsets in which this row holds
  OperandCount operands;
  Takes takes = Takes::anything;
  ImportFunction import = nullptr;
  std::string_view primitive;   ///< the vkfuse op, for rows whose function is apply_primitive
  std::string_view attributes;  ///< the attributes it reads, separated by spaces; others are refused
  std::string_view note;        ///< what part of the operator is taken, for the documentation
  std::string_view domain = kOnnxDomain;
  HostFunction host = nullptr;  ///< set: computed between compiled parts where `import` is null or says "unsupported"
  HostBound most = nullptr;     ///< set where `host` is
  Control control = Control::none;
};

/// All rows, sorted by name and opset.
std::span<const OperatorRow> operator_table();

/// The row that gives an operator its meaning in an opset, or null. Opsets of ONNX's own domain above kNewestOpset are
/// read as kNewestOpset.
const OperatorRow* find_operator(std::string_view domain, std::string_view name, std::int64_t opset);

/// The opsets in which an operator has a row ("6 to 9 and 11+"); empty where it has none in any.
std::string opsets_of(std::string_view domain, std::string_view name);

bool takes(Takes set, DType dtype);
std::string_view name_of(Takes set);

}  // namespace vkfuse::onnx
