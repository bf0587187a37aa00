#include "onnx/deciding_inputs.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "api/tensor_node.hpp"
#include "base/shape.hpp"
#include "onnx/value.hpp"

namespace vkfuse::onnx {
namespace {

/// A shape, a bound or a condition is computed from fewer nodes.
constexpr std::size_t kMostNodes = 4096;

/// Ops that compute nothing: elements come out as they went in.
bool is_moved(std::string_view op) {
  constexpr std::array<std::string_view, 7> kMoves = {"broadcast", "cast",    "concat", "gather",
                                                      "permute",   "reshape", "slice"};
  return std::ranges::find(kMoves, op) != kMoves.end();
}

bool is_one_number(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& dim) { return !dim.is_symbol() && dim.size() == 1; });
}

}  // namespace

bool may_be_few(const Shape& shape) {
  Sizes sizes;
  for (const Dim& dim : shape) {
    if (!dim.is_symbol()) sizes.push_back(dim.size());
  }
  const Result<std::int64_t> count = vkfuse::element_count(sizes);
  return count && *count <= static_cast<std::int64_t>(kMaxComputedElements);
}

std::vector<std::string> inputs_that_decide(std::span<const Tensor> asked) {
  struct Visit {
    const Tensor* tensor;
    bool as_it_is;  ///< whether nothing was computed on the way
  };
  std::vector<Visit> pending;
  for (const Tensor& tensor : asked) {
    if (tensor.valid()) pending.push_back({&tensor, true});
  }
  std::map<const Tensor::Node*, bool> seen;  ///< whether it was reached as it is
  std::set<std::string> names;
  while (!pending.empty() && seen.size() < kMostNodes) {
    const Visit visit = pending.back();
    pending.pop_back();
    const Tensor::Node& node = *visit.tensor->node();
    const auto [entry, is_new] = seen.try_emplace(&node, visit.as_it_is);
    if (!is_new && (entry->second || !visit.as_it_is)) continue;
    entry->second = visit.as_it_is;
    if (const auto* input = std::get_if<ir::InputPayload>(&node.payload)) {
      const bool is_parameter = !is_float(node.type.dtype) || visit.as_it_is || is_one_number(node.type.shape);
      if (is_parameter && may_be_few(node.type.shape)) names.insert(input->name);
      continue;
    }
    for (const Tensor& operand : node.operands)
      pending.push_back({&operand, visit.as_it_is && is_moved(node.op->name)});
  }
  return {names.begin(), names.end()};
}

}  // namespace vkfuse::onnx
