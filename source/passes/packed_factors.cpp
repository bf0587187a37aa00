// Constant factors of contractions whose rows begin at no multiple of 16 bytes, turned so that the contracted axis is
// the last one: kernels then read vectors where they would read elements.
#include <algorithm>
#include <cstring>

#include "passes/known_positions.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::NodeId;

constexpr std::int64_t kVector = 16;

/// The contracted axis of a factor, if it has one alone that is worth being the last.
std::optional<int> axis_to_move(const ir::Node& factor, const std::vector<int>& contracted, std::int64_t least_bytes) {
  const Shape& shape = factor.type.shape;
  if (contracted.size() != 1 || shape.size() < 2 || !is_static(shape)) return std::nullopt;
  std::int64_t bytes = size_of(factor.type.dtype);
  const std::int64_t element = bytes;
  for (const Dim& dim : shape) bytes *= dim.size();
  const int axis = contracted[0];
  const bool is_last = axis + 1 == static_cast<int>(shape.size());
  const std::int64_t row = shape.back().size() * element;
  const std::int64_t turned = shape[static_cast<std::size_t>(axis)].size() * element;
  const bool gains = !is_last && bytes >= least_bytes && row % kVector != 0 && turned % kVector == 0;
  return gains ? std::optional(axis) : std::nullopt;
}

/// How constants are read: by contractions alone that agree about an axis, or not at all so.
class Readers {
 public:
  Readers(const ir::Graph& graph, std::int64_t least_bytes) : axis_(graph.size()), is_read_(graph.size(), false) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      const ir::Node& node = graph.node(id);
      const auto* dot = std::get_if<ir::DotPayload>(&node.payload);
      for (std::size_t k = 0; k < node.operands.size(); ++k) {
        const NodeId operand = node.operands[k];
        if (graph.node(operand).op->cls != ops::OpClass::constant) continue;
        const auto axis =
            dot == nullptr ? std::nullopt
                           : axis_to_move(graph.node(operand), k == 0 ? dot->contract_a : dot->contract_b, least_bytes);
        if (is_read_[operand] && axis_[operand] != axis) {
          axis_[operand].reset();
        } else if (!is_read_[operand]) {
          axis_[operand] = axis;
        }
        is_read_[operand] = true;
      }
    }
    for (const ir::Output& output : graph.outputs()) axis_[output.value].reset();
  }
  /// The axis of a constant that becomes its last.
  [[nodiscard]] std::optional<int> axis(NodeId constant) const { return axis_[constant]; }

 private:
  std::vector<std::optional<int>> axis_;
  std::vector<bool> is_read_;
};

/// Elements of [outer, count, inner] as [outer, inner, count].
template <typename Element>
void turn(const std::byte* from, std::byte* to, std::size_t outer, std::size_t count, std::size_t inner) {
  constexpr std::size_t kBlock = 32;
  for (std::size_t o = 0; o < outer;
       ++o, from += count * inner * sizeof(Element), to += count * inner * sizeof(Element))
    for (std::size_t i = 0; i < inner; i += kBlock)
      for (std::size_t c = 0; c < count; ++c)
        for (std::size_t k = i; k < std::min(i + kBlock, inner); ++k)
          std::memcpy(to + (k * count + c) * sizeof(Element), from + (c * inner + k) * sizeof(Element),
                      sizeof(Element));
}

}  // namespace

Result<NodeId> turned_constant(ir::Graph& to, const ir::Node& constant, int axis) {
  const Shape& shape = constant.type.shape;
  std::size_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<int>(i) < axis) outer *= static_cast<std::size_t>(shape[i].size());
    if (static_cast<int>(i) > axis) inner *= static_cast<std::size_t>(shape[i].size());
  }
  const auto count = static_cast<std::size_t>(shape[static_cast<std::size_t>(axis)].size());
  const std::vector<std::byte>& bytes = *std::get<ir::ConstantPayload>(constant.payload).bytes;
  auto made = std::make_shared<std::vector<std::byte>>(bytes.size());
  switch (size_of(constant.type.dtype)) {
    case 1: turn<std::uint8_t>(bytes.data(), made->data(), outer, count, inner); break;
    case 2: turn<std::uint16_t>(bytes.data(), made->data(), outer, count, inner); break;
    case 4: turn<std::uint32_t>(bytes.data(), made->data(), outer, count, inner); break;
    default: turn<std::uint64_t>(bytes.data(), made->data(), outer, count, inner); break;
  }
  Shape turned = shape;
  turned.erase(turned.begin() + axis);
  turned.push_back(shape[static_cast<std::size_t>(axis)]);
  return to.add_constant({constant.type.dtype, std::move(turned)}, std::move(made));
}

Result<ir::Graph> pack_factors(const ir::Graph& graph, std::int64_t least_bytes) {
  const Readers readers(graph, least_bytes);
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (const auto axis = node.op->cls == ops::OpClass::constant ? readers.axis(id) : std::nullopt) {
      VKF_TRY(made, turned_constant(rewriter.graph(), node, *axis));
      rewriter.alias(id, made);
      continue;
    }
    if (!std::holds_alternative<ir::DotPayload>(node.payload)) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    ir::Node turned = node;
    auto& dot = std::get<ir::DotPayload>(turned.payload);
    for (const std::size_t k : {0U, 1U}) {
      const auto axis = readers.axis(node.operands[k]);
      if (!axis) continue;
      const auto rank = static_cast<int>(graph.node(node.operands[k]).type.shape.size());
      renumber(k == 0 ? dot.contract_a : dot.contract_b, *axis, rank);
      renumber(k == 0 ? dot.batch_a : dot.batch_b, *axis, rank);
    }
    VKF_TRY(made, ir::append_copy(rewriter.graph(), turned, rewriter.mapped(id)));
    rewriter.alias(id, made);
  }
  return rewriter.finish();
}

}  // namespace vkfuse::passes
