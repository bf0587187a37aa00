// Random graphs of ops of every class: views, gathers, folds, products, scans, sorts, scatters, and the chains that
// people write with them (softmax, norms, attention), between elementwise ops.
#pragma once

#include "support/generator.hpp"

namespace vkfuse::test {

class AnyGenerator : public Generator {
 public:
  using Generator::Generator;

 protected:
  void add_op() override;

 private:
  /// Elements of a value, of a reduction and of a product: what the reference has time for.
  static constexpr std::int64_t kMostElements = 12000;
  static constexpr std::int64_t kMostProducts = 60000;

  /// Draws one op of the row on a value. Nothing is added where the value does not suit it.
  void add_structured(const OpRow& row, NodeId from);
  void add_chain(NodeId from);

  void reshape(const OpRow& row, NodeId from);
  void permute(const OpRow& row, NodeId from);
  void stretch(const OpRow& row, NodeId from);
  void slice(const OpRow& row, NodeId from);
  void reverse(const OpRow& row, NodeId from);
  void pad(const OpRow& row, NodeId from);
  void concat(const OpRow& row, NodeId from);
  void unfold(const OpRow& row, NodeId from);
  void slice_assign(const OpRow& row, NodeId from);
  void gather(const OpRow& row, NodeId from);
  void take_along(const OpRow& row, NodeId from);
  void scatter(const OpRow& row, NodeId from);
  NodeId unlike_positions(std::int64_t size, const Shape& of);
  void update_rows(const OpRow& row, NodeId from);
  void reduction(const OpRow& row, NodeId from);
  void scan(const OpRow& row, NodeId from);
  void argsort(const OpRow& row, NodeId from);
  void dot(const OpRow& row, NodeId from);

  NodeId softmax(NodeId from, int axis);
  void normalise(NodeId from);
  void attention(NodeId from);
  void windows(NodeId from);
  void pick_reduced(NodeId from);

  [[nodiscard]] const Shape& shape(NodeId id) const { return graph_.node(id).type.shape; }
  [[nodiscard]] std::int64_t size(const Dim& dim) const {
    return dim.is_symbol() ? symbols_.at(dim.name()) : dim.size();
  }
  [[nodiscard]] std::int64_t elements(const Shape& shape) const;
  [[nodiscard]] bool has_axis(NodeId id) const { return !shape(id).empty(); }
  int any_axis(NodeId id) { return static_cast<int>(random_.below(shape(id).size())); }
  std::vector<int> some_axes(NodeId id, std::size_t most);

  /// What a slice of a shape is: starts, steps and sizes.
  std::pair<ir::SlicePayload, Shape> run_of(const Shape& whole);
  NodeId new_input(DType type, const Shape& shape, std::string name = {});
  /// Positions along an axis of `count` elements; one in four graphs goes beyond its end.
  NodeId positions(std::int64_t count, const Shape& shape);
  /// Floats whose order rounding decides are replaced by an input of the same shape.
  NodeId ordered(NodeId id);
  /// Floats of a magnitude that products and sums keep finite.
  NodeId tame(NodeId id) { return tamed(ops::row("add"), id); }
  NodeId derived(const char* op, std::vector<NodeId> operands, Known known);
  /// Adds it if the builder takes it; which shapes go together is the builder's to say.
  std::optional<NodeId> attempt(const OpRow& row, std::vector<NodeId> operands, ir::Payload payload, Known known,
                                Shape shape = {});
};

}  // namespace vkfuse::test
