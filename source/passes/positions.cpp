// Values that are made of positions alone, named as such: constants that a program counted out beforehand, comparisons
// of positions in any integer type, and what of such comparisons is known for all positions. Exporters write masks in
// many ways; afterwards those of positions are comparisons of i32 counters, which a kernel computes again for less than
// it takes to read them, and which the attention template tells from data.
#include <algorithm>
#include <limits>
#include <numeric>

#include "index/exact_numbers.hpp"
#include "passes/constant_patterns.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using index::Expr;
using ir::Graph;
using ir::Node;
using ir::NodeId;

/// Positions and their sums stay within 32 bits.
constexpr std::int64_t kFar = std::int64_t{1} << 30;

/// What a comparison says of a - b.
struct Comparison {
  std::string_view op;  ///< of positions that are turned round: of b - a
  std::string_view turned;
  bool (*decide)(std::int64_t apart);
};
std::optional<Comparison> comparison_of(ops::Role role) {
  switch (role) {
    case ops::Role::lt: return Comparison{"lt", "gt", [](std::int64_t apart) { return apart < 0; }};
    case ops::Role::le: return Comparison{"le", "ge", [](std::int64_t apart) { return apart <= 0; }};
    case ops::Role::gt: return Comparison{"gt", "lt", [](std::int64_t apart) { return apart > 0; }};
    case ops::Role::ge: return Comparison{"ge", "le", [](std::int64_t apart) { return apart >= 0; }};
    case ops::Role::eq: return Comparison{"eq", "eq", [](std::int64_t apart) { return apart == 0; }};
    case ops::Role::ne: return Comparison{"ne", "ne", [](std::int64_t apart) { return apart != 0; }};
    default: return std::nullopt;
  }
}

class Naming {
 public:
  explicit Naming(const Graph& graph) : graph_(graph), rewriter_(graph), is_output_(graph.size(), false) {
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
      learn();
    }
    return rewriter_.finish();
  }

 private:
  using Made = Result<std::optional<NodeId>>;

  Graph& to() { return rewriter_.graph(); }
  [[nodiscard]] const Node& node(NodeId id) { return to().node(id); }
  [[nodiscard]] const std::optional<Expr>& number(NodeId id) { return numbers_[id]; }
  /// The boolean that every element is.
  [[nodiscard]] std::optional<bool> truth(NodeId id) {
    learn();
    const auto& known = number(id);
    if (!known || !known->is_constant() || node(id).type.dtype != DType::boolean) return std::nullopt;
    return known->constant() != 0;
  }

  // --- what is known of the nodes of the copy ---
  void learn() {
    while (numbers_.size() < to().size()) numbers_.push_back(known(node(static_cast<NodeId>(numbers_.size()))));
  }
  std::optional<Expr> known(const Node& node);
  std::optional<Expr> known_literal(const Node& node);
  std::optional<Expr> known_iota(const Node& node);
  std::optional<Expr> known_view(const Node& node);
  std::optional<Expr> known_reshape(const Node& node);
  std::optional<Expr> known_arithmetic(const Node& node);
  std::optional<Expr> known_count(const Node& node);
  /// An operand of an elementwise op, or of a broadcast, at the coordinates of a result of this rank.
  std::optional<Expr> aligned(NodeId operand, std::size_t rank);
  static Expr renamed(const Expr& expr, const Shape& shape, const std::vector<int>& to);

  // --- what is written instead ---
  Made rewritten(NodeId id);
  Made constant(const Node& node);
  Made comparison(const Node& node, const std::vector<NodeId>& operands);
  Made logic(const Node& node, const std::vector<NodeId>& operands);
  Made choice(const Node& node, const std::vector<NodeId>& operands);
  Made gather(const Node& node, const std::vector<NodeId>& operands);
  Made stretched(NodeId value, const Shape& shape);
  Made everywhere(DType dtype, double value, const Shape& shape) {
    return stretched(to().add_scalar(dtype, value), shape);
  }
  Result<std::optional<NodeId>> sum_of(const Expr& expr, const Shape& shape, DType dtype);
  Result<NodeId> below(const Line& line, const Band& band, const Shape& shape, std::string_view op);

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<bool> is_output_;  // a constant that is a result is in memory already
  std::vector<std::optional<Expr>> numbers_;
};

// --- what is known ---

std::int64_t largest_of(const Dim& dim) { return dim.is_symbol() ? dim.facts().max : dim.size(); }

Expr axis_of(const Shape& shape, std::size_t axis) {
  return Expr::axis(static_cast<int>(axis), largest_of(shape[axis]));
}

bool is_static(const Shape& shape) {
  return std::none_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_symbol(); });
}

std::optional<Expr> Naming::known(const Node& node) {
  std::optional<Expr> expr;
  switch (node.op->cls) {
    case ops::OpClass::constant: expr = known_literal(node); break;
    case ops::OpClass::generate: expr = known_iota(node); break;
    case ops::OpClass::view: expr = known_view(node); break;
    case ops::OpClass::scan: expr = known_count(node); break;
    case ops::OpClass::elementwise:
    case ops::OpClass::convert: expr = known_arithmetic(node); break;
    default: break;
  }
  return expr && index::has_all_of(node.type.dtype, index::interval_of(*expr)) ? expr : std::nullopt;
}

std::optional<Expr> Naming::known_literal(const Node& node) {
  const auto& bytes = *std::get<ir::ConstantPayload>(node.payload).bytes;
  if (bytes.size() != static_cast<std::size_t>(size_of(node.type.dtype))) return std::nullopt;
  if (!is_float(node.type.dtype)) return Expr(ir::decode_int(node.type.dtype, bytes.data()));
  const double value = ir::decode(node.type.dtype, bytes.data());
  if (!(std::abs(value) <= static_cast<double>(kFar)) || value != std::trunc(value)) return std::nullopt;
  return Expr(static_cast<std::int64_t>(value));
}

std::optional<Expr> Naming::known_iota(const Node& node) {
  const auto* iota = std::get_if<ir::IotaPayload>(&node.payload);
  if (iota == nullptr) return std::nullopt;
  const auto axis = static_cast<std::size_t>(iota->axis);
  return largest_of(node.type.shape[axis]) <= kFar ? std::optional(axis_of(node.type.shape, axis)) : std::nullopt;
}

/// Axis i of the shape as axis to[i].
Expr Naming::renamed(const Expr& expr, const Shape& shape, const std::vector<int>& to) {
  std::map<index::AxisId, Expr> axes;
  for (const index::AxisId axis : index::axes_of(expr)) {
    const auto i = static_cast<std::size_t>(axis);
    axes[axis] = Expr::axis(to[i], largest_of(shape[i]));
  }
  return index::substitute(expr, axes);
}

std::optional<Expr> Naming::aligned(NodeId operand, std::size_t rank) {
  const auto& expr = number(operand);
  if (!expr || expr->is_constant()) return expr;
  const Shape& shape = node(operand).type.shape;
  std::vector<int> to(shape.size());
  std::iota(to.begin(), to.end(), static_cast<int>(rank - shape.size()));
  return renamed(*expr, shape, to);
}

std::optional<Expr> Naming::known_view(const Node& node) {
  if (node.operands.size() != 1) return std::nullopt;
  const auto& expr = number(node.operands[0]);
  if (!expr || expr->is_constant()) return expr;
  const Shape& from = this->node(node.operands[0]).type.shape;
  const Shape& shape = node.type.shape;
  std::map<index::AxisId, Expr> axes;
  switch (node.op->role) {
    case ops::Role::broadcast: return aligned(node.operands[0], shape.size());
    case ops::Role::reshape: return known_reshape(node);
    case ops::Role::permute: {
      const auto& order = std::get<ir::AxesPayload>(node.payload).axes;
      std::vector<int> to(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) to[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
      return renamed(*expr, from, to);
    }
    case ops::Role::slice: {
      const auto& slice = std::get<ir::SlicePayload>(node.payload);
      for (std::size_t i = 0; i < shape.size(); ++i)
        axes[static_cast<int>(i)] = axis_of(shape, i) * slice.steps[i] + Expr(slice.starts[i]);
      return index::substitute(*expr, axes);
    }
    case ops::Role::reverse: {
      if (!is_static(shape)) return std::nullopt;
      for (const int axis : std::get<ir::AxesPayload>(node.payload).axes) {
        const auto i = static_cast<std::size_t>(axis);
        axes[axis] = Expr(shape[i].size() - 1) - axis_of(shape, i);
      }
      return index::substitute(*expr, axes);
    }
    default: return std::nullopt;
  }
}

std::optional<Expr> Naming::known_reshape(const Node& node) {
  const Expr& expr = *number(node.operands[0]);
  const Shape& from = this->node(node.operands[0]).type.shape;
  const Shape& shape = node.type.shape;
  const auto real = [](const Shape& all) {
    std::vector<int> axes;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!(all[i] == Dim(1))) axes.push_back(static_cast<int>(i));
    }
    return axes;
  };
  const std::vector<int> old_axes = real(from), axes = real(shape);
  const bool same = std::equal(old_axes.begin(), old_axes.end(), axes.begin(), axes.end(), [&](int a, int b) {
    return from[static_cast<std::size_t>(a)] == shape[static_cast<std::size_t>(b)];
  });
  if (same) {
    std::vector<int> to(from.size(), 0);
    for (std::size_t i = 0; i < axes.size(); ++i) to[static_cast<std::size_t>(old_axes[i])] = axes[i];
    return renamed(expr, from, to);
  }
  if (!is_static(from) || !is_static(shape)) return std::nullopt;
  Sizes sizes, old_sizes;
  std::vector<Expr> at;
  for (const Dim& dim : from) old_sizes.push_back(dim.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    sizes.push_back(shape[i].size());
    at.push_back(axis_of(shape, i));
  }
  const std::vector<Expr> old_at = index::delinearize(index::linearize(at, sizes), old_sizes);
  std::map<index::AxisId, Expr> replaced;
  for (std::size_t i = 0; i < old_at.size(); ++i) replaced[static_cast<int>(i)] = old_at[i];
  return index::substitute(expr, replaced);
}

/// What a running sum of equal numbers counts.
std::optional<Expr> Naming::known_count(const Node& node) {
  const auto& each = number(node.operands[0]);
  if (node.op->role != ops::Role::cumsum || !each || !each->is_constant()) return std::nullopt;
  const auto& scan = std::get<ir::ScanPayload>(node.payload);
  const auto axis = static_cast<std::size_t>(scan.axis);
  const Dim& dim = node.type.shape[axis];
  if (largest_of(dim) > kFar || (scan.reverse && dim.is_symbol())) return std::nullopt;
  if (std::abs(each->constant()) > kFar) return std::nullopt;
  const Expr before =
      scan.reverse ? Expr(dim.size() - 1) - axis_of(node.type.shape, axis) : axis_of(node.type.shape, axis);
  return (before + Expr(scan.exclusive ? 0 : 1)) * each->constant();
}

std::optional<Expr> Naming::known_arithmetic(const Node& node) {
  std::vector<Expr> operands;
  for (const NodeId operand : node.operands) {
    const auto expr = aligned(operand, node.type.shape.size());
    if (!expr) return std::nullopt;
    operands.push_back(*expr);
  }
  switch (node.op->role) {
    case ops::Role::add: return operands[0] + operands[1];
    case ops::Role::sub: return operands[0] - operands[1];
    case ops::Role::neg: return Expr(0) - operands[0];
    case ops::Role::mul:
      for (const std::size_t k : {0U, 1U}) {
        if (operands[k].is_constant() && std::abs(operands[k].constant()) <= kFar)
          return operands[1 - k] * operands[k].constant();
      }
      return std::nullopt;
    case ops::Role::div:
      if (is_float(node.type.dtype) || !operands[1].is_constant() || operands[1].constant() < 1 ||
          index::interval_of(operands[0]).low < 0)
        return std::nullopt;
      return index::floor_div(operands[0], operands[1].constant());
    case ops::Role::cast:
      if (node.type.dtype != DType::boolean) return operands[0];
      return operands[0].is_constant() ? std::optional(Expr(operands[0].constant() != 0 ? 1 : 0)) : std::nullopt;
    case ops::Role::copy: return operands[0];
    default: return std::nullopt;
  }
}

// --- what is written instead ---

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
    default: return comparison_of(node.op->role) ? comparison(node, operands) : Made(std::nullopt);
  }
}

Naming::Made Naming::stretched(NodeId value, const Shape& shape) {
  if (node(value).type.shape == shape) return std::optional(value);
  VKF_TRY(made, to().add_structured(ops::row("broadcast"), {value}, ir::NoPayload{}, shape));
  return std::optional(made);
}

/// The sum of an expression's terms, but not its constant, as counters along axes of this shape, which is as wide as
/// the terms need; nothing where that takes more than sums of axes. Of an expression without terms: nothing.
Result<std::optional<NodeId>> Naming::sum_of(const Expr& expr, const Shape& shape, DType dtype) {
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
  const Shape& shape = node.type.shape;
  if (const auto ramp = ramp_of(node)) {
    const auto start = static_cast<double>(ramp->constant());
    if (ramp->is_constant()) return everywhere(node.type.dtype, start, shape);
    if (!index::has_all_of(DType::i32, index::interval_of(*ramp))) return std::optional<NodeId>();
    VKF_TRY(sum, sum_of(*ramp, shape, node.type.dtype));
    if (sum && ramp->constant() != 0) {
      VKF_TRY(shifted, rewriter_.op("add", {*sum, to().add_scalar(node.type.dtype, start)}));
      sum = shifted;
    }
    if (!sum) return std::optional<NodeId>();
    return stretched(*sum, shape);
  }
  if (const auto number = number_of_matrix(node); number == 0.0) return everywhere(node.type.dtype, 0, shape);
  const auto band = band_of(node);
  if (!band) return std::optional<NodeId>();
  std::optional<NodeId> inside;
  for (const auto& [line, op] : {std::pair(&band->begin, "ge"), std::pair(&band->end, "lt")}) {
    if (!*line) continue;
    VKF_TRY(half, below(**line, *band, shape, op));
    if (inside) {
      VKF_TRY(both, rewriter_.op("and", {*inside, half}));
      half = both;
    }
    inside = half;
  }
  const auto& bytes = *std::get<ir::ConstantPayload>(node.payload).bytes;
  const auto literal = [&](std::size_t element) {
    const auto size = static_cast<std::size_t>(size_of(node.type.dtype));
    const std::byte* at = bytes.data() + element * size;
    return to().add_constant({node.type.dtype, {}}, std::make_shared<std::vector<std::byte>>(at, at + size));
  };
  VKF_TRY(a, literal(band->inside));
  VKF_TRY(b, literal(band->outside));
  VKF_TRY(chosen, rewriter_.op("select", {*inside, a, b}));
  return stretched(chosen, shape);
}

/// Comparisons of positions in i32; what they are at all positions, where that is known.
Naming::Made Naming::comparison(const Node& node, const std::vector<NodeId>& operands) {
  const Shape& shape = node.type.shape;
  const auto a = aligned(operands[0], shape.size());
  const auto b = aligned(operands[1], shape.size());
  if (!a || !b) return std::optional<NodeId>();
  const Comparison of = *comparison_of(node.op->role);
  const Expr apart = *a - *b;
  const index::Interval interval = index::interval_of(apart);
  const bool lowest = of.decide(interval.low), highest = of.decide(interval.high);
  const bool equal = node.op->role == ops::Role::eq || node.op->role == ops::Role::ne;
  const bool crosses = interval.low <= 0 && interval.high >= 0;
  if (lowest == highest && (!equal || !crosses || apart.is_constant()))
    return everywhere(DType::boolean, lowest ? 1 : 0, shape);
  const DType dtype = this->node(operands[0]).type.dtype;
  if (dtype == DType::i32 || dtype == DType::boolean || interval.low <= -kFar || interval.high >= kFar)
    return std::optional<NodeId>();
  const std::span<const Expr::Term> terms = apart.terms();
  const bool turned =
      std::all_of(terms.begin(), terms.end(), [](const Expr::Term& term) { return term.coefficient < 0; });
  const Expr compared = turned ? Expr(0) - apart : apart;
  VKF_TRY(sum, sum_of(compared, shape, DType::i32));
  if (!sum) return std::optional<NodeId>();
  VKF_TRY(made, rewriter_.op(turned ? of.turned : of.op,
                             {*sum, to().add_scalar(DType::i32, static_cast<double>(-compared.constant()))}));
  return stretched(made, shape);
}

/// `and`, `or` and `not` of what is known.
Naming::Made Naming::logic(const Node& node, const std::vector<NodeId>& operands) {
  const Shape& shape = node.type.shape;
  if (node.op->role == ops::Role::logical_not) {
    const auto known = truth(operands[0]);
    return known ? everywhere(DType::boolean, *known ? 0 : 1, shape) : Made(std::nullopt);
  }
  const bool decides = node.op->role == ops::Role::logical_or;  // the operand that decides the result by itself
  for (const std::size_t k : {0U, 1U}) {
    const auto known = truth(operands[k]);
    if (!known) continue;
    if (*known == decides) return everywhere(DType::boolean, decides ? 1 : 0, shape);
    return stretched(operands[1 - k], shape);
  }
  return std::optional<NodeId>();
}

Naming::Made Naming::choice(const Node& node, const std::vector<NodeId>& operands) {
  const auto known = truth(operands[0]);
  return known ? stretched(operands[*known ? 1 : 2], node.type.shape) : Made(std::nullopt);
}

/// Elements at positions that follow each other, or at one, are a view.
Naming::Made Naming::gather(const Node& node, const std::vector<NodeId>& operands) {
  const Node& data = this->node(operands[0]);
  const Shape shape = this->node(operands[1]).type.shape;
  const auto& expr = number(operands[1]);
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  if (!expr || !is_static(shape) || !is_static(data.type.shape)) return std::optional<NodeId>();
  const index::Interval interval = index::interval_of(*expr);
  if (interval.low < 0 || interval.high >= data.type.shape[axis].size()) return std::optional<NodeId>();
  // Axes of the indices that are told apart have to count through the positions, the innermost one in ones.
  std::int64_t count = 1;
  Shape apart(shape.size(), Dim(1));
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto stride = index::stride_of(*expr, static_cast<int>(i));
    if (!stride) return std::optional<NodeId>();
    if (*stride == 0 || shape[i].size() <= 1) continue;
    if (*stride != count) return std::optional<NodeId>();
    count *= shape[i].size();
    apart[i] = shape[i];
  }
  if (interval.high - interval.low + 1 != count) return std::optional<NodeId>();
  ir::SlicePayload slice{std::vector<std::int64_t>(data.type.shape.size(), 0),
                         std::vector<std::int64_t>(data.type.shape.size(), 1)};
  slice.starts[axis] = interval.low;
  Shape run = data.type.shape;
  run[axis] = Dim(count);
  const auto with = [&](const Shape& in_place) {
    Shape all(run.begin(), run.begin() + static_cast<std::ptrdiff_t>(axis));
    all.insert(all.end(), in_place.begin(), in_place.end());
    all.insert(all.end(), run.begin() + static_cast<std::ptrdiff_t>(axis) + 1, run.end());
    return all;
  };
  const Shape distinct = with(apart);
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
