// Values that are made of positions alone, named as such: constants that a program has counted out, comparisons
// of positions in any integer type, and what of such comparisons is known for all positions. Exporters write masks in
// many ways; afterwards those of positions are comparisons of i32 counters, which a kernel computes again for less than
// it takes to read them, and which the attention template tells from data.
#include <algorithm>
#include <cmath>

#include "index/exact_numbers.hpp"
#include "ir/position_arithmetic.hpp"
#include "ops/comparisons.hpp"
#include "passes/constant_patterns.hpp"
#include "passes/known_positions.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using index::Expr;
using ir::Graph;
using ir::kFarthestPosition;
using ir::Node;
using ir::NodeId;

/// What a comparison says wherever two numbers are this far apart, if it says one thing.
std::optional<bool> decided(const ops::Comparison& of, const index::Interval& apart) {
  const std::int64_t nearest = std::clamp<std::int64_t>(0, apart.low, apart.high);
  const auto says = [&](std::int64_t difference) { return of.holds<std::int64_t>(difference, 0); };
  const bool one_thing = says(apart.low) == says(nearest) && says(nearest) == says(apart.high);
  return one_thing ? std::optional(says(nearest)) : std::nullopt;
}

/// The shape less the axes along which the number is the same, where the others count through all numbers from the
/// least to the largest, the innermost one in ones.
std::optional<Shape> axes_of_run(const Expr& expr, const Shape& shape) {
  std::int64_t count = 1;
  Shape apart(shape.size(), Dim(1));
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto stride = index::stride_of(expr, static_cast<int>(i));
    if (!stride || shape[i].size() == 0) return std::nullopt;
    if (*stride == 0 || shape[i].size() <= 1) continue;
    if (*stride != count) return std::nullopt;
    count *= shape[i].size();
    apart[i] = shape[i];
  }
  const index::Interval interval = index::interval_of(expr);
  return interval.high - interval.low + 1 == count ? std::optional(apart) : std::nullopt;
}

class Naming {
 public:
  explicit Naming(const Graph& graph)
      : graph_(graph), rewriter_(graph), is_output_(graph.size(), false), known_(rewriter_.graph()) {
    for (const ir::Output& output : graph.outputs()) is_output_[output.value] = true;
  }

  Result<Graph> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      VKF_TRY(made, rewritten(id));
      if (made) {
        rewriter_.alias(id, *made);
      } else {
        VKF_CHECK_OK(rewriter_.keep(id));
      }
    }
    return rewriter_.finish();
  }

 private:
  using Made = Result<std::optional<NodeId>>;

  Graph& to() { return rewriter_.graph(); }
  [[nodiscard]] const Node& node(NodeId id) { return to().node(id); }
  Made rewritten(NodeId id);
  Made constant(const Node& node);
  Made counter(const Expr& ramp, const Node& node);
  Made within(const Band& band, const Node& node);
  Made comparison(const Node& node, const std::vector<NodeId>& operands);
  Made logic(const Node& node, const std::vector<NodeId>& operands);
  Made choice(const Node& node, const std::vector<NodeId>& operands);
  Result<NodeId> opposite(NodeId condition);
  Made gather(const Node& node, const std::vector<NodeId>& operands);
  Made stretched(NodeId value, const Shape& shape);
  Made everywhere(DType dtype, double value, const Shape& shape) {
    return stretched(to().add_scalar(dtype, value), shape);
  }
  Made compared(const ops::Comparison& of, const Expr& apart, const Shape& shape);
  Made sum_of(const Expr& expr, const Shape& shape, DType dtype);
  Result<NodeId> below(const Line& line, const Band& band, const Shape& shape, std::string_view op);

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<bool> is_output_;  // a constant that is a result is in memory already
  KnownPositions known_;
};

Naming::Made Naming::rewritten(NodeId id) {
  const Node& node = graph_.node(id);
  const std::vector<NodeId> operands = rewriter_.mapped(id);
  if (node.op->cls == ops::OpClass::constant) return is_output_[id] ? Made(std::nullopt) : constant(node);
  switch (node.op->role) {
    case ops::Role::logical_and:
    case ops::Role::logical_or:
    case ops::Role::logical_not: return logic(node, operands);
    case ops::Role::select: return choice(node, operands);
    case ops::Role::gather: return gather(node, operands);
    default: return ops::comparison_of(node.op->role) != nullptr ? comparison(node, operands) : Made(std::nullopt);
  }
}

Naming::Made Naming::stretched(NodeId value, const Shape& shape) {
  if (node(value).type.shape == shape) return std::optional(value);
  VKF_TRY(made, to().add_structured(ops::row("broadcast"), {value}, ir::NoPayload{}, shape));
  return std::optional(made);
}

/// The sum of an expression's terms, but not its constant, as counters along axes of this shape, which is as wide as
/// the terms need; nothing where that takes more than sums of axes. Of an expression without terms: nothing.
Naming::Made Naming::sum_of(const Expr& expr, const Shape& shape, DType dtype) {
  std::optional<NodeId> sum;
  const std::span<const Expr::Term> terms = expr.terms();
  const auto axis_in = [](const Expr::Term& term) {
    return term.atom->kind == index::Atom::Kind::div ? term.atom->operand.as_axis()
                                                     : Expr(0, {{1, term.atom}}).as_axis();
  };
  if (!std::all_of(terms.begin(), terms.end(), axis_in)) return std::optional<NodeId>();
  // What is added first, so that what is subtracted has something to be subtracted from.
  for (const bool added : {true, false}) {
    for (const Expr::Term& term : terms) {
      if ((term.coefficient > 0) != added) continue;
      Shape along(shape.size(), Dim(1));
      const index::AxisId axis = *axis_in(term);
      along[static_cast<std::size_t>(axis)] = shape[static_cast<std::size_t>(axis)];
      VKF_TRY(counted, to().add_iota({dtype, along}, axis));
      if (term.atom->kind == index::Atom::Kind::div) {
        const NodeId divisor = to().add_scalar(dtype, static_cast<double>(term.atom->divisor));
        VKF_TRY(block, rewriter_.op("div", {counted, divisor}));
        counted = block;
      }
      const std::int64_t times = added || !sum ? term.coefficient : -term.coefficient;
      if (times != 1) {
        VKF_TRY(multiple, rewriter_.op("mul", {counted, to().add_scalar(dtype, static_cast<double>(times))}));
        counted = multiple;
      }
      if (!sum) {
        sum = counted;
      } else {
        VKF_TRY(more, rewriter_.op(added ? "add" : "sub", {*sum, counted}));
        sum = more;
      }
    }
  }
  return sum;
}

/// column OP line(row).
Result<NodeId> Naming::below(const Line& line, const Band& band, const Shape& shape, std::string_view op) {
  const Expr column = axis_of(shape, static_cast<std::size_t>(band.column));
  const Expr row = axis_of(shape, static_cast<std::size_t>(band.row));
  VKF_TRY(apart, sum_of(column - row * line.slope, shape, DType::i32));
  return rewriter_.op(op, {*apart, to().add_scalar(DType::i32, static_cast<double>(line.constant))});
}

Naming::Made Naming::constant(const Node& node) {
  if (const auto ramp = ramp_of(node)) return counter(*ramp, node);
  if (is_matrix_of_zeros(node)) return everywhere(node.type.dtype, 0, node.type.shape);
  const auto found = band_of(node);
  return found ? within(*found, node) : Made(std::nullopt);
}

Naming::Made Naming::counter(const Expr& ramp, const Node& node) {
  const DType dtype = node.type.dtype;
  const auto start = static_cast<double>(ramp.constant());
  if (ramp.is_constant()) return everywhere(dtype, start, node.type.shape);
  if (!index::has_all_of(DType::i32, index::interval_of(ramp))) return std::optional<NodeId>();
  VKF_TRY(sum, sum_of(ramp, node.type.shape, dtype));
  if (!sum) return std::optional<NodeId>();
  if (ramp.constant() == 0) return stretched(*sum, node.type.shape);
  VKF_TRY(shifted, rewriter_.op("add", {*sum, to().add_scalar(dtype, start)}));
  return stretched(shifted, node.type.shape);
}

/// The one of the two values within a band, the other one elsewhere.
Naming::Made Naming::within(const Band& band, const Node& node) {
  std::optional<NodeId> inside;
  for (const auto& [line, op] : {std::pair(&band.begin, "ge"), std::pair(&band.end, "lt")}) {
    if (!*line) continue;
    VKF_TRY(half, below(**line, band, node.type.shape, op));
    if (inside) {
      VKF_TRY(both, rewriter_.op("and", {*inside, half}));
      half = both;
    }
    inside = half;
  }
  const auto& bytes = *std::get<ir::ConstantPayload>(node.payload).bytes;
  if (node.type.dtype == DType::boolean) {
    const std::size_t at = band.inside * static_cast<std::size_t>(size_of(DType::boolean));
    if (bytes[at] != std::byte{0}) return stretched(*inside, node.type.shape);
    VKF_TRY(outside, opposite(*inside));
    return stretched(outside, node.type.shape);
  }
  const auto literal = [&](std::size_t element) {
    const auto size = static_cast<std::size_t>(size_of(node.type.dtype));
    const std::byte* at = bytes.data() + element * size;
    return to().add_constant({node.type.dtype, {}}, std::make_shared<std::vector<std::byte>>(at, at + size));
  };
  VKF_TRY(a, literal(band.inside));
  VKF_TRY(b, literal(band.outside));
  VKF_TRY(chosen, rewriter_.op("select", {*inside, a, b}));
  return stretched(chosen, node.type.shape);
}

/// Comparisons of positions in i32; what they are at all positions, where that is known.
Naming::Made Naming::comparison(const Node& node, const std::vector<NodeId>& operands) {
  const Shape& shape = node.type.shape;
  const auto a = known_.aligned(operands[0], shape.size());
  const auto b = known_.aligned(operands[1], shape.size());
  if (!a || !b) return std::optional<NodeId>();
  const ops::Comparison& of = *ops::comparison_of(node.op->role);
  const Expr apart = *a - *b;
  const index::Interval interval = index::interval_of(apart);
  if (const auto known = decided(of, interval)) return everywhere(DType::boolean, *known ? 1 : 0, shape);
  const DType dtype = this->node(operands[0]).type.dtype;
  const bool is_short = dtype == DType::i32 || dtype == DType::boolean;
  const bool near = interval.low > -kFarthestPosition && interval.high < kFarthestPosition;
  return !is_short && near ? compared(of, apart, shape) : Made(std::nullopt);
}

/// Counters of i32 beside a literal. Where all of them are subtracted, the operands change places.
Naming::Made Naming::compared(const ops::Comparison& of, const Expr& apart, const Shape& shape) {
  const std::span<const Expr::Term> terms = apart.terms();
  const bool turned =
      std::all_of(terms.begin(), terms.end(), [](const Expr::Term& term) { return term.coefficient < 0; });
  const Expr counted = turned ? Expr(0) - apart : apart;
  VKF_TRY(sum, sum_of(counted, shape, DType::i32));
  if (!sum) return std::optional<NodeId>();
  const NodeId beside = to().add_scalar(DType::i32, static_cast<double>(-counted.constant()));
  VKF_TRY(made, rewriter_.op(turned ? ops::comparison_of(of.turned)->name : of.name, {*sum, beside}));
  return stretched(made, shape);
}

/// `and`, `or` and `not` of what is known.
Naming::Made Naming::logic(const Node& node, const std::vector<NodeId>& operands) {
  const Shape& shape = node.type.shape;
  if (node.op->role == ops::Role::logical_not) {
    const auto known = known_.truth(operands[0]);
    return known ? everywhere(DType::boolean, *known ? 0 : 1, shape) : Made(std::nullopt);
  }
  const bool decides = node.op->role == ops::Role::logical_or;  // the operand that decides the result by itself
  for (const std::size_t k : {0U, 1U}) {
    const auto known = known_.truth(operands[k]);
    if (!known) continue;
    if (*known == decides) return everywhere(DType::boolean, decides ? 1 : 0, shape);
    return stretched(operands[1 - k], shape);
  }
  return std::optional<NodeId>();
}

Naming::Made Naming::choice(const Node& node, const std::vector<NodeId>& operands) {
  const auto known = known_.truth(operands[0]);
  if (known) return stretched(operands[*known ? 1 : 2], node.type.shape);
  if (node.type.dtype != DType::boolean) return std::optional<NodeId>();
  // Of two truths that are known it is the condition, or what is opposite to it.
  const auto first = known_.truth(operands[1]), second = known_.truth(operands[2]);
  if (!first || !second) return std::optional<NodeId>();
  if (*first == *second) return everywhere(DType::boolean, *first ? 1 : 0, node.type.shape);
  if (*first) return stretched(operands[0], node.type.shape);
  VKF_TRY(other, opposite(operands[0]));
  return stretched(other, node.type.shape);
}

/// What is true where a condition is false. Comparisons of integers have one that is a comparison.
Result<NodeId> Naming::opposite(NodeId condition) {
  const Node& of = node(condition);
  const ops::Comparison* comparison = ops::comparison_of(of.op->role);
  if (comparison == nullptr || is_float(node(of.operands[0]).type.dtype)) return rewriter_.op("not", {condition});
  const std::vector<NodeId> operands = of.operands;
  return rewriter_.op(ops::comparison_of(comparison->opposite)->name, operands);
}

/// Elements at positions that follow each other, or at one, are a view.
Naming::Made Naming::gather(const Node& node, const std::vector<NodeId>& operands) {
  const Node& data = this->node(operands[0]);
  const Shape shape = this->node(operands[1]).type.shape;
  const auto expr = known_.of(operands[1]);
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  if (!expr || !is_static(shape) || !is_static(data.type.shape)) return std::optional<NodeId>();
  const index::Interval interval = index::interval_of(*expr);
  if (interval.low < 0 || interval.high >= data.type.shape[axis].size()) return std::optional<NodeId>();
  const auto apart = axes_of_run(*expr, shape);
  if (!apart) return std::optional<NodeId>();
  ir::SlicePayload slice{std::vector<std::int64_t>(data.type.shape.size(), 0),
                         std::vector<std::int64_t>(data.type.shape.size(), 1)};
  slice.starts[axis] = interval.low;
  Shape run = data.type.shape;
  run[axis] = Dim(interval.high - interval.low + 1);
  const auto with = [&](const Shape& in_place) {
    Shape all(run.begin(), run.begin() + static_cast<std::ptrdiff_t>(axis));
    all.insert(all.end(), in_place.begin(), in_place.end());
    all.insert(all.end(), run.begin() + static_cast<std::ptrdiff_t>(axis) + 1, run.end());
    return all;
  };
  const Shape distinct = with(*apart);
  NodeId value = operands[0];
  if (!(run == data.type.shape)) {
    VKF_TRY(cut, to().add_structured(ops::row("slice"), {value}, std::move(slice), run));
    value = cut;
  }
  VKF_TRY(shaped,
          this->node(value).type.shape == distinct ? Result<NodeId>(value) : rewriter_.reshape(value, distinct));
  return stretched(shaped, node.type.shape);
}

}  // namespace

Result<Graph> name_positions(const Graph& graph) {
  VKF_TRY(named, Naming(graph).run());
  return remove_dead(named);
}

}  // namespace vkfuse::passes
