// Rows of large products that are no multiple of 16 bytes, longer by elements that nobody asks for: kernels then load
// and store them as vectors, and matrix units take them as they lie. A vocabulary of 50,257 words is such a row.
// Padding begins at a product and goes along with its rows, through what is computed of them element by element, to the
// products and reductions that they lead to: these are to see the padding as what changes no result. Everybody else
// reads a slice.
#include <algorithm>
#include <limits>
#include <map>

#include "base/mutations.hpp"
#include "ir/large_products.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;

constexpr int kNone = -1;
/// Elements of the smallest dtype of floats that 16 bytes hold, and the most that padding makes a row a multiple of.
constexpr std::int64_t kLeastMultiple = 8, kLargestMultiple = 128;

/// What lies behind the last element of a padded row.
enum class Padding : std::uint8_t { anything, zero, minus_infinity };

std::int64_t size_along(const Node& node, int axis) {
  const Dim& dim = node.type.shape[static_cast<std::size_t>(axis)];
  return dim.is_symbol() ? 0 : dim.size();
}

bool is_innermost(const Node& node, int axis) { return axis + 1 == static_cast<int>(node.type.shape.size()); }

int position_in(const std::vector<int>& axes, int axis) {
  const auto found = std::find(axes.begin(), axes.end(), axis);
  return found == axes.end() ? kNone : static_cast<int>(found - axes.begin());
}

/// Which axis of one shape is an axis of another with as many elements, where the elements before it are as many.
int reshaped_axis(const Shape& from, int axis, const Shape& to) {
  const auto elements = [](const Shape& shape, std::size_t count) {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < count; ++i) product *= shape[i].is_symbol() ? 0 : shape[i].size();
    return product;
  };
  const std::int64_t before = elements(from, static_cast<std::size_t>(axis));
  if (before == 0) return kNone;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == from[static_cast<std::size_t>(axis)] && elements(to, i) == before) return static_cast<int>(i);
  }
  return kNone;
}

/// Where an axis of an operand of a product is in its result; nothing where it is contracted.
int axis_of_product(const ir::DotPayload& dot, bool second, std::size_t rank_a, std::size_t rank_b, int axis) {
  const std::vector<int>& batch = second ? dot.batch_b : dot.batch_a;
  const std::vector<int>& contract = second ? dot.contract_b : dot.contract_a;
  if (const int at = position_in(batch, axis); at != kNone) return at;
  const std::vector<int> free = ir::free_axes(batch, contract, second ? rank_b : rank_a);
  const int at = position_in(free, axis);
  if (at == kNone) return kNone;
  const std::size_t before = second ? ir::free_axes(dot.batch_a, dot.contract_a, rank_a).size() : 0;
  return static_cast<int>(batch.size() + before) + at;
}

/// The axis of an operand whose elements are those along an axis of the result; kNone where it has none.
int axis_of_operand(const Graph& graph, const Node& node, std::size_t operand, int axis) {
  const Node& of = graph.node(node.operands[operand]);
  if (node.op->cls == ops::OpClass::reduce) {
    const auto& reduced = std::get<ir::AxesPayload>(node.payload).axes;
    return ir::free_axes({}, reduced, of.type.shape.size())[static_cast<std::size_t>(axis)];
  }
  switch (node.op->role) {
    case ops::Role::permute: return std::get<ir::AxesPayload>(node.payload).axes[static_cast<std::size_t>(axis)];
    case ops::Role::reshape: return reshaped_axis(node.type.shape, axis, of.type.shape);
    case ops::Role::dot: {
      const auto& dot = std::get<ir::DotPayload>(node.payload);
      const std::size_t rank_a = graph.node(node.operands[0]).type.shape.size();
      const std::size_t rank_b = graph.node(node.operands[1]).type.shape.size();
      for (int own = 0; own < static_cast<int>(of.type.shape.size()); ++own) {
        if (axis_of_product(dot, operand == 1, rank_a, rank_b, own) == axis) return own;
      }
      return kNone;
    }
    default: {
      const int own = axis - static_cast<int>(node.type.shape.size()) + static_cast<int>(of.type.shape.size());
      return own >= 0 && size_along(of, own) == size_along(node, axis) ? own : kNone;
    }
  }
}

class RowPadding {
 public:
  RowPadding(const Graph& graph, const RowsToPad& which)
      : graph_(graph),
        which_(which),
        rewriter_(graph),
        users_(graph.users()),
        fused_(ir::large_products(graph)),
        axis_(graph.size(), kNone),
        contracted_(graph.size(), kNone),
        wanted_(graph.size(), Padding::anything),
        padded_(graph.size(), 0),
        behind_(graph.size(), Padding::anything) {}

  Result<std::optional<Rewritten>> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) begin_at(id);
    const auto is_none = [](int axis) { return axis == kNone; };
    if (std::all_of(axis_.begin(), axis_.end(), is_none) &&
        std::all_of(contracted_.begin(), contracted_.end(), is_none))
      return std::optional<Rewritten>();
    for (NodeId id = 0; id < graph_.size(); ++id) VKF_CHECK_OK(make(id));
    VKF_TRY(made, rewriter_.finish_with_places());
    VKF_TRY(alive, without_dead(std::move(made)));
    return std::optional(std::move(alive));
  }

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return graph_.node(id); }

  /// The size that rows are given; that which they have where padding would add too much.
  [[nodiscard]] std::int64_t padded_size(std::int64_t size) const {
    if (size % kLeastMultiple == 0) return size;
    for (std::int64_t multiple = kLargestMultiple; multiple >= kLeastMultiple; multiple /= 2) {
      const std::int64_t padded = (size + multiple - 1) / multiple * multiple;
      if (static_cast<double>(padded - size) <= which_.most_padding * static_cast<double>(size)) return padded;
    }
    return size;
  }

  [[nodiscard]] bool has_odd_rows(NodeId id, int axis) const {
    const std::int64_t size = size_along(node(id), axis);
    return is_innermost(node(id), axis) && padded_size(size) != size && size_of(node(id).type.dtype) <= 4;
  }

  // --- which values are padded, and along which axis ---

  /// A product that is not part of another kernel's (as scores of attention are), large enough.
  [[nodiscard]] const ir::DotPayload* large_dot(NodeId id) const {
    const auto* dot = std::get_if<ir::DotPayload>(&node(id).payload);
    if (dot == nullptr || fused_[id] || ir::reads_any(node(id), fused_) || !is_float(node(id).type.dtype))
      return nullptr;
    double multiplications = 1;
    for (const Dim& dim : node(id).type.shape) multiplications *= dim.is_symbol() ? 0 : static_cast<double>(dim.size());
    for (const int axis : dot->contract_a)
      multiplications *= static_cast<double>(size_along(node(node(id).operands[0]), axis));
    return multiplications >= which_.least_multiplications ? dot : nullptr;
  }

  /// Where rows of a product or of its factors are odd: along its result, or along what is summed over.
  void begin_at(NodeId id) {
    const ir::DotPayload* const dot = large_dot(id);
    if (dot == nullptr) return;
    const auto last_axis = [&](NodeId of) { return static_cast<int>(node(of).type.shape.size()) - 1; };
    if (last_axis(id) >= 0 && has_odd_rows(id, last_axis(id))) mark_onwards(id, last_axis(id));
    for (const bool second : {false, true}) {
      const NodeId factor = node(id).operands[second ? 1 : 0];
      const int last = last_axis(factor);
      if (last < 0 || !has_odd_rows(factor, last)) continue;
      const int pair = position_in(second ? dot->contract_b : dot->contract_a, last);
      const int own = axis_in_product(id, second, last);
      if (pair != kNone) contract(id, static_cast<std::size_t>(pair));
      if (own != kNone) mark_onwards(id, own);
    }
  }

  /// Where an axis of a factor is in the product.
  [[nodiscard]] int axis_in_product(NodeId id, bool second, int axis) const {
    const Node& one = node(id);
    return axis_of_product(std::get<ir::DotPayload>(one.payload), second, node(one.operands[0]).type.shape.size(),
                           node(one.operands[1]).type.shape.size(), axis);
  }

  void contract(NodeId id, std::size_t pair) {
    if (axis_[id] != kNone || contracted_[id] != kNone) return;
    const auto& dot = std::get<ir::DotPayload>(node(id).payload);
    contracted_[id] = static_cast<int>(pair);
    mark_back(node(id).operands[0], dot.contract_a[pair]);
    mark_back(node(id).operands[1], dot.contract_b[pair]);
    for (const NodeId operand : node(id).operands) {
      if (axis_[operand] == kNone) continue;
      want(operand, Padding::zero);
      go_on_in_products_of(operand, axis_[operand]);  // these read the same rows
    }
  }

  void want(NodeId id, Padding padding) {
    if (wanted_[id] == Padding::anything) wanted_[id] = padding;
  }

  /// What is cheap to make longer: it is computed element by element, down to what lies in memory.
  [[nodiscard]] bool is_elementwise_or_moved(const Node& one) const {
    const ops::Role role = one.op->role;
    return (is_elementwise(one) && std::holds_alternative<ir::NoPayload>(one.payload)) || role == ops::Role::reshape ||
           role == ops::Role::permute || role == ops::Role::broadcast;
  }

  /// A tensor with another one written into it, whose rows are as long.
  [[nodiscard]] bool has_whole_rows_written(const Node& one, int axis) const {
    const auto at = static_cast<std::size_t>(axis);
    return one.op->role == ops::Role::slice_assign && std::get<ir::SlicePayload>(one.payload).steps[at] == 1 &&
           size_along(node(one.operands[1]), axis) == size_along(one, axis);
  }

  /// Without what is made of it.
  void mark_back(NodeId id, int axis) {
    if (axis == kNone || axis_[id] != kNone || has_opaque_reader(id)) return;
    const Node& one = node(id);
    const bool follows = is_elementwise_or_moved(one) &&
                         (one.op->role != ops::Role::reshape || axis_of_operand(graph_, one, 0, axis) != kNone);
    if (follows || has_whole_rows_written(one, axis) || one.op->role == ops::Role::iota) mark(id, axis);
  }

  /// A kernel of the user's reads buffers as they are, and no slices of them.
  [[nodiscard]] bool has_opaque_reader(NodeId id) const {
    return std::any_of(users_[id].begin(), users_[id].end(),
                       [&](NodeId user) { return node(user).op->cls == ops::OpClass::opaque; });
  }

  void mark(NodeId id, int axis) {
    axis_[id] = axis;
    for (std::size_t operand = 0; operand < node(id).operands.size(); ++operand)
      mark_back(node(id).operands[operand], axis_of_operand(graph_, node(id), operand, axis));
  }

  /// With what is made of it, as long as rows are what is padded.
  void mark_onwards(NodeId id, int axis) {
    if (axis_[id] != kNone || contracted_[id] != kNone || has_opaque_reader(id)) return;
    mark(id, axis);
    if (is_innermost(node(id), axis)) {
      for (const NodeId user : users_[id]) go_on(user, id, axis);
    } else if (node(id).op->role == ops::Role::permute) {
      go_on_in_products_of(id, axis);
    }
  }

  /// To products alone, of the value as it lies or permuted.
  void go_on_in_products_of(NodeId id, int axis) {
    for (const NodeId user : users_[id]) {
      const ops::Role role = node(user).op->role;
      if (role == ops::Role::dot) go_on_in_product(user, id, axis);
      if (role == ops::Role::permute)
        mark_onwards(user, position_in(std::get<ir::AxesPayload>(node(user).payload).axes, axis));
    }
  }

  void go_on(NodeId user, NodeId id, int axis) {
    const Node& one = node(user);
    if (one.op->role == ops::Role::dot) return go_on_in_product(user, id, axis);
    if (one.op->cls == ops::OpClass::reduce && position_in(std::get<ir::AxesPayload>(one.payload).axes, axis) != kNone)
      return want(id, padding_of(one));
    if (!is_elementwise_or_moved(one) && one.op->cls != ops::OpClass::reduce) return;
    for (int own = 0; own < static_cast<int>(one.type.shape.size()); ++own) {
      for (std::size_t operand = 0; operand < one.operands.size(); ++operand) {
        if (one.operands[operand] == id && axis_of_operand(graph_, one, operand, own) == axis &&
            size_along(one, own) == size_along(node(id), axis) && is_innermost(one, own))
          return mark_onwards(user, own);
      }
    }
  }

  void go_on_in_product(NodeId user, NodeId id, int axis) {
    const Node& one = node(user);
    const auto& dot = std::get<ir::DotPayload>(one.payload);
    for (const bool second : {false, true}) {
      if (one.operands[second ? 1 : 0] != id) continue;
      const int pair = position_in(second ? dot.contract_b : dot.contract_a, axis);
      if (pair != kNone) contract(user, static_cast<std::size_t>(pair));
      const int own = axis_in_product(user, second, axis);
      if (own != kNone) mark_onwards(user, own);
    }
  }

  /// What a reduction along rows does not see; anything: it reads a slice.
  static Padding padding_of(const Node& reduction) {
    if (reduction.op->reduction.kind != ops::Reduction::Kind::plain || !reduction.op->reduction.of.empty() ||
        !is_float(reduction.type.dtype))
      return Padding::anything;
    switch (reduction.op->role) {
      case ops::Role::reduce_sum: return Padding::zero;
      case ops::Role::reduce_max: return Padding::minus_infinity;
      default: return Padding::anything;
    }
  }

  // --- what they become ---

  /// The value as it was.
  Result<NodeId> whole(NodeId id) {
    if (axis_[id] == kNone) return rewriter_.at(id);
    if (const auto known = sliced_.find(id); known != sliced_.end()) return known->second;
    const std::size_t rank = node(id).type.shape.size();
    ir::SlicePayload first{std::vector<std::int64_t>(rank, 0), std::vector<std::int64_t>(rank, 1)};
    VKF_TRY(slice,
            rewriter_.graph().add_structured(ops::row("slice"), {padded_[id]}, std::move(first), node(id).type.shape));
    sliced_[id] = slice;
    return slice;
  }

  /// The value with longer rows, and zeros or whatever it computes there.
  Result<NodeId> longer(NodeId id, int axis) {
    if (axis_[id] == axis) return padded_[id];
    const auto known = lengthened_.find({id, axis});
    if (known != lengthened_.end()) return known->second;
    VKF_TRY(value, whole(id));
    const std::size_t rank = node(id).type.shape.size();
    ir::PadPayload end{std::vector<std::int64_t>(rank, 0), std::vector<std::int64_t>(rank, 0)};
    const std::int64_t size = size_along(node(id), axis);
    end.high[static_cast<std::size_t>(axis)] = padded_size(size) - size;
    const NodeId zero = rewriter_.graph().add_scalar(node(id).type.dtype, 0);
    VKF_TRY(made, rewriter_.graph().add_structured(ops::row("pad"), {value, zero}, std::move(end)));
    lengthened_[{id, axis}] = made;
    return made;
  }

  [[nodiscard]] Padding behind(NodeId id, int axis) const { return axis_[id] == axis ? behind_[id] : Padding::zero; }

  /// The value with longer rows that end as wanted.
  Result<NodeId> ending(NodeId id, int axis, Padding wanted) {
    VKF_TRY(value, longer(id, axis));
    return behind(id, axis) == wanted ? value : masked(value, axis, size_along(node(id), axis), wanted);
  }

  Result<NodeId> masked(NodeId value, int axis, std::int64_t size, Padding wanted) {
    Graph& to = rewriter_.graph();
    const TensorType type = to.node(value).type;
    Shape row(type.shape.size() - static_cast<std::size_t>(axis), Dim(1));
    row[0] = type.shape[static_cast<std::size_t>(axis)];
    VKF_TRY(at, to.add_iota({DType::i32, row}, 0));
    VKF_TRY(inside, rewriter_.op("lt", {at, to.add_scalar(DType::i32, static_cast<double>(size))}));
    const double end = wanted == Padding::zero ? 0 : -std::numeric_limits<double>::infinity();
    const NodeId other = to.add_scalar(type.dtype, end);
    return VKF_PLANT(padding_is_seen, rewriter_.op("select", {inside, value, other}), Result<NodeId>(value));
  }

  Result<void> make(NodeId id) {
    if (axis_[id] == kNone) {
      VKF_TRY(made, unpadded(id));
      rewriter_.alias(id, made);
      return {};
    }
    VKF_TRY(made, padded(id));
    padded_[id] = made;
    behind_[id] = behind_result(id);
    if (wanted_[id] != Padding::anything && wanted_[id] != behind_[id]) {
      VKF_TRY(ends, masked(made, axis_[id], size_along(node(id), axis_[id]), wanted_[id]));
      padded_[id] = ends;
      behind_[id] = wanted_[id];
    }
    rewriter_.alias(id, padded_[id]);
    const auto outputs = graph_.outputs();
    if (std::any_of(outputs.begin(), outputs.end(), [&](const ir::Output& output) { return output.value == id; })) {
      VKF_TRY(value, whole(id));
      rewriter_.alias(id, value);
    }
    return {};
  }

  /// Operands as they were, but for those along whose padding an op goes.
  Result<std::vector<NodeId>> operands_of(NodeId id) {
    const Node& one = node(id);
    std::vector<NodeId> operands;
    for (std::size_t i = 0; i < one.operands.size(); ++i) {
      const NodeId operand = one.operands[i];
      if (const int along = axis_into(id, i); along != kNone) {
        VKF_TRY(made, ending_for(id, operand, along));
        operands.push_back(made);
      } else {
        VKF_TRY(made, whole(operand));
        operands.push_back(made);
      }
    }
    return operands;
  }

  /// Along which axis an operand is read padded.
  [[nodiscard]] int axis_into(NodeId id, std::size_t operand) const {
    const Node& one = node(id);
    const NodeId of = one.operands[operand];
    if (contracted_[id] != kNone) {
      const auto& dot = std::get<ir::DotPayload>(one.payload);
      return (operand == 1 ? dot.contract_b : dot.contract_a)[static_cast<std::size_t>(contracted_[id])];
    }
    if (axis_[id] != kNone) return axis_of_operand(graph_, one, operand, axis_[id]);
    const bool reduces = one.op->cls == ops::OpClass::reduce && axis_[of] != kNone &&
                         position_in(std::get<ir::AxesPayload>(one.payload).axes, axis_[of]) != kNone;
    return reduces && padding_of(one) != Padding::anything ? axis_[of] : kNone;
  }

  Result<NodeId> ending_for(NodeId id, NodeId operand, int axis) {
    if (contracted_[id] != kNone) return ending(operand, axis, Padding::zero);
    return axis_[id] != kNone ? longer(operand, axis) : ending(operand, axis, padding_of(node(id)));
  }

  Result<NodeId> unpadded(NodeId id) {
    VKF_TRY(operands, operands_of(id));
    return ir::append_copy(rewriter_.graph(), node(id), std::move(operands));
  }

  Result<NodeId> padded(NodeId id) {
    const Node& one = node(id);
    Graph& to = rewriter_.graph();
    Shape shape = one.type.shape;
    Dim& along = shape[static_cast<std::size_t>(axis_[id])];
    along = Dim(padded_size(along.size()));
    if (const auto* iota = std::get_if<ir::IotaPayload>(&one.payload))
      return to.add_iota({one.type.dtype, shape}, iota->axis);
    VKF_TRY(operands, operands_of(id));
    if (one.op->cls == ops::OpClass::convert) return to.add(*one.op, std::move(operands), one.type.dtype);
    if (is_elementwise(one)) return to.add(*one.op, std::move(operands));
    return to.add_structured(*one.op, std::move(operands), one.payload, one.op->shape_is_attribute ? shape : Shape());
  }

  // --- what is behind the last element ---

  [[nodiscard]] Padding behind_result(NodeId id) const {
    if (keeps_elements(id)) return behind_operand(id, 0);
    switch (node(id).op->role) {
      case ops::Role::add:
      case ops::Role::slice_assign:
      case ops::Role::mul: return all_zero_behind(id) ? Padding::zero : Padding::anything;
      case ops::Role::sub:
        if (all_zero_behind(id)) return Padding::zero;
        return is_below_maximum(id) ? Padding::minus_infinity : Padding::anything;
      case ops::Role::exp: return behind_operand(id, 0) == Padding::minus_infinity ? Padding::zero : Padding::anything;
      default: return Padding::anything;
    }
  }

  /// Whether elements are those of the operand, moved or as other floats.
  [[nodiscard]] bool keeps_elements(NodeId id) const {
    const ops::Role role = node(id).op->role;
    if (role == ops::Role::cast)
      return is_float(node(id).type.dtype) && is_float(node(node(id).operands[0]).type.dtype);
    return role == ops::Role::copy || role == ops::Role::reshape || role == ops::Role::permute ||
           role == ops::Role::broadcast;
  }

  [[nodiscard]] Padding behind_operand(NodeId id, std::size_t operand) const {
    const std::byte* const literal = literal_element(node(node(id).operands[operand]));
    const DType dtype = node(node(id).operands[operand]).type.dtype;
    if (literal != nullptr && ir::decode(dtype, literal) == 0) return Padding::zero;
    const int along = axis_of_operand(graph_, node(id), operand, axis_[id]);
    return along == kNone ? Padding::anything : behind(node(id).operands[operand], along);
  }

  [[nodiscard]] bool all_zero_behind(NodeId id) const {
    for (std::size_t i = 0; i < node(id).operands.size(); ++i) {
      if (behind_operand(id, i) != Padding::zero) return false;
    }
    return true;
  }

  /// Whether a difference is that of a value with -infinity behind its rows and the maximum of the same rows: where
  /// that is no number, nothing in the row is.
  [[nodiscard]] bool is_below_maximum(NodeId id) const {
    const Node& one = node(id);
    const int along = axis_of_operand(graph_, one, 0, axis_[id]);
    if (along == kNone || behind(one.operands[0], along) != Padding::minus_infinity) return false;
    NodeId other = one.operands[1];
    while (node(other).op->role == ops::Role::reshape || node(other).op->role == ops::Role::broadcast)
      other = node(other).operands[0];
    const Node& maximum = node(other);
    return maximum.op->role == ops::Role::reduce_max && maximum.operands[0] == one.operands[0] &&
           position_in(std::get<ir::AxesPayload>(maximum.payload).axes, along) != kNone;
  }

  const Graph& graph_;
  const RowsToPad which_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> fused_;                              ///< large products, which kernels multiply on
  std::vector<int> axis_;                                ///< that is padded; kNone: the value is as it was
  std::vector<int> contracted_;                          ///< of a product, which pair of contracted axes is padded
  std::vector<Padding> wanted_;                          ///< by the first reader that does not take anything
  std::vector<NodeId> padded_;                           ///< in the copy
  std::vector<Padding> behind_;                          ///< of the padded value
  std::map<NodeId, NodeId> sliced_;                      ///< the value as it was, of padded ones
  std::map<std::pair<NodeId, int>, NodeId> lengthened_;  ///< of values that are not padded: with zeros
};

}  // namespace

Result<std::optional<Rewritten>> pad_rows(const ir::Graph& graph) { return pad_chosen_rows(graph, RowsToPad()); }

Result<std::optional<Rewritten>> pad_chosen_rows(const ir::Graph& graph, const RowsToPad& which) {
  return RowPadding(graph, which).run();
}

}  // namespace vkfuse::passes
