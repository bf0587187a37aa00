// Random graphs of elementwise ops over one space of positions: what generate.cpp draws, and what structured.hpp builds
// on.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/cases.hpp"
#include "support/device.hpp"
#include "support/random.hpp"

namespace vkfuse::test {

using ir::NodeId;
using ops::OpRow;

inline constexpr double kWild = 1e6;  // stands for "any magnitude"

/// What the generator knows of a value, to keep numbers tame.
struct Known {
  double magnitude = 0;
  bool leaf = false;     // its reference has no rounding error
  bool lattice = false;  // many elements sit exactly on a step of floor, compare, ...
};

class Generator {
 public:
  virtual ~Generator() = default;
  Generator(std::uint64_t seed, const CaseOptions& options) : random_(seed), options_(options), seed_(seed) {}

  Case run() {
    choose_dtypes();
    choose_space();
    const std::size_t leaves = 1 + random_.below(3);
    for (std::size_t i = 0; i < leaves; ++i) add_input(random_.pick(dtypes_));
    const int ops = options_.min_ops +
                    static_cast<int>(random_.below(static_cast<std::size_t>(options_.max_ops - options_.min_ops + 1)));
    for (int i = 0; i < ops; ++i) add_op();
    add_outputs();
    graph_.name = fmt::format("random {}", seed_);
    return {std::move(graph_), std::move(symbols_), seed_, special_};
  }

 protected:
  // --- what there is to draw from ------------------------------------------------------------------

  void choose_dtypes() {
    if (options_.large_half) {
      dtypes_ = {DType::f16};
      return;
    }
    special_ = random_.chance(12);
    // A few dtypes per graph: values of one dtype then meet often.
    const std::size_t count = 1 + random_.below(4);
    while (dtypes_.size() < count) {
      const auto dtype = static_cast<DType>(random_.below(kDTypeCount));
      if (dtype != DType::f64 || options_.caps.arithmetic.float64) dtypes_.push_back(dtype);
    }
  }

  void choose_space() {
    if (options_.large_half) {
      space_ = random_.chance(50) ? Shape{Dim(4096 + static_cast<int>(random_.below(2000)))} : Shape{Dim(67), Dim(96)};
      return;
    }
    const std::vector<int> odd = {1, 2, 3, 4, 5, 7, 8, 11, 16, 31, 32, 33, 64, 65, 127};
    const std::vector<int> rows = {0, 1, 3, 7, 16, 31, 33, 65, 127, 509, 1021, 4096, 4097, 8191};
    // The higher ranks have more ways to go wrong.
    const std::size_t rank = std::max(random_.below(5), random_.below(5));
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      std::int64_t size = rank == 1 ? random_.pick(rows) : random_.pick(odd);
      if (rank > 1 && random_.chance(3)) size = 0;
      while (elements * size > 9000) size /= 2;
      elements *= std::max<std::int64_t>(size, 1);
      space_.push_back(dim_of(size, i));
    }
  }

  /// A number, or a symbol that stands for it in this run.
  Dim dim_of(std::int64_t size, std::size_t at) {
    if (!random_.chance(options_.symbol_chance) || !options_.symbols) return Dim(size);
    const std::string name = fmt::format("n{}", at);
    symbols_[name] = size;
    DimFacts facts;
    if (random_.chance(30)) facts = {size / 2, size * 2, 1};
    if (size % 4 == 0 && random_.chance(30)) facts.multiple_of = 4;
    return Dim::any(name, facts);
  }

  /// The whole space, or a shape that broadcasts to it.
  Shape part_of_space() {
    if (options_.large_half || random_.chance(50)) return space_;
    const std::size_t dropped = random_.chance(40) ? random_.below(space_.size() + 1) : 0;
    Shape shape(space_.begin() + static_cast<std::ptrdiff_t>(dropped), space_.end());
    for (Dim& dim : shape) {
      if (random_.chance(35)) dim = Dim(1);
    }
    return shape;
  }

  // --- leaves ----------------------------------------------------------------------------------------

  NodeId note(NodeId id, Known known) {
    known_.resize(graph_.size());
    known_[id] = known;
    return id;
  }
  [[nodiscard]] DType dtype(NodeId id) const { return graph_.node(id).type.dtype; }

  NodeId add_input(DType type) {
    const std::vector<std::string> odd = {"a b", "x_w0",      "caf\xc3\xa9", "quote\"back\\slash",
                                          "1st", "new\nline", "in_x",        "x__y"};
    std::string name = fmt::format("x{}", inputs_);
    if (random_.chance(6)) name = random_.pick(odd) + fmt::format("{}", inputs_);
    ++inputs_;
    return note(must(graph_.add_input(name, {type, part_of_space()})), {4, true, false});
  }

  NodeId add_literal(DType type) {
    if (is_float(type))
      return note(graph_.add_scalar(type, std::round(random_.between(-4, 4) * 64) / 64), {4, true, true});
    if (type == DType::boolean) return note(graph_.add_scalar(type, random_.chance(50) ? 1 : 0), {1, true, true});
    auto bytes = std::make_shared<std::vector<std::byte>>();
    const bool small = random_.chance(70);
    const std::int64_t wide = static_cast<std::int64_t>(random_.word()) << 32 | random_.word();
    ir::encode_int(type, small ? static_cast<std::int64_t>(random_.below(17)) - 8 : wide, *bytes);
    return note(must(graph_.add_constant({type, {}}, bytes)), {8, true, true});
  }

  NodeId add_table(DType type) {
    Shape shape = part_of_space();
    for (Dim& dim : shape) {
      if (dim.is_symbol()) dim = Dim(1);  // a constant has no symbols
    }
    const std::int64_t count = must(element_count(must(resolve(shape, {}))));
    auto bytes = std::make_shared<std::vector<std::byte>>();
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = random_.between(-4, 4);
      ir::encode(type, type == DType::boolean ? static_cast<double>(value > 0) : value, *bytes);
    }
    return note(must(graph_.add_constant({type, std::move(shape)}, bytes)), {4, true, false});
  }

  NodeId add_generated(DType type) {
    if (type == DType::u32 && random_.chance(50))
      return note(must(graph_.add_random(part_of_space(), random_.word())), {kWild, true, false});
    const Shape shape = part_of_space();
    if (type == DType::boolean || shape.empty()) return add_literal(type);
    const auto axis = static_cast<int>(random_.below(shape.size()));
    return note(must(graph_.add_iota({type, shape}, axis)), {kWild, true, true});
  }

  NodeId add_leaf(DType type) {
    const std::size_t kind = random_.below(100);
    if (kind < 50 && inputs_ < 5) return add_input(type);
    if (kind < 80 || options_.large_half) return add_literal(type);
    return kind < 90 ? add_table(type) : add_generated(type);
  }

  // --- ops -------------------------------------------------------------------------------------------

  /// Whether a value broadcasts to the space.
  [[nodiscard]] bool fits(NodeId id) const {
    const auto joined = broadcast(graph_.node(id).type.shape, space_);
    return joined && *joined == space_;
  }

  /// An existing value of that dtype if one suits, else a cast or a new leaf.
  NodeId find_value(DType type, bool decided) {
    std::vector<NodeId> candidates;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const bool suits = !decided || !is_float(type) || known_[id].leaf || !known_[id].lattice;
      if (dtype(id) == type && suits && fits(id)) candidates.push_back(id);
    }
    if (!candidates.empty() && random_.chance(75)) {
      // Late values more often: graphs then grow deep as well as wide.
      return random_.chance(60) ? candidates.back() : random_.pick(candidates);
    }
    return add_leaf(type);
  }

  [[nodiscard]] bool offered(const OpRow& row, DType type) const {
    if ((row.types & ops::bit(type)) == 0) return false;
    const std::vector<std::string> names(3, "x");
    return !ops::expression(row, type, options_.caps.arithmetic.int64, names).empty();
  }

  [[nodiscard]] bool castable(DType from, DType to) const {
    return (to != DType::f64 || options_.caps.arithmetic.float64) && from != to &&
           !ops::cast_expression(from, to, options_.caps.arithmetic.int64, "x").empty();
  }

  static bool is_step(const OpRow& row) {
    return row.propagation == ops::ErrorPropagation::jump || row.signature == ops::Signature::compare;
  }

  /// One of the last values: graphs grow deep as well as wide.
  NodeId draw_from() {
    return static_cast<NodeId>(graph_.size() - 1 - random_.below(std::min<std::size_t>(graph_.size(), 5)));
  }

  virtual void add_op() { add_elementwise(draw_from()); }

  void add_elementwise(NodeId from) {
    const DType type = dtype(from);
    if (random_.chance(18)) return add_convert(from);
    std::vector<const OpRow*> rows;
    for (const OpRow& row : ops::table()) {
      if (row.cls != ops::OpClass::elementwise || !offered(row, type)) continue;
      const bool smooth =
          row.propagation == ops::ErrorPropagation::monotone || row.propagation == ops::ErrorPropagation::lipschitz;
      if (options_.large_half && (!smooth || is_step(row))) continue;
      rows.push_back(&row);
    }
    const OpRow& row = *random_.pick(rows);
    std::vector<NodeId> operands;
    for (int i = 0; i < row.arity; ++i) {
      const bool condition = row.signature == ops::Signature::select && i == 0;
      const bool first = i == (row.signature == ops::Signature::select ? 1 : 0);
      const bool decided = is_step(row);
      const bool reuse = first && (!decided || !is_float(type) || known_[from].leaf || !known_[from].lattice);
      const NodeId found = condition ? find_value(DType::boolean, false) : reuse ? from : find_value(type, decided);
      operands.push_back(condition ? found : tamed(row, found));
    }
    const Known known = known_of(row, operands);
    note(must(graph_.add(row, operands)), known);
  }

  void add_convert(NodeId from) {
    if (options_.large_half) {
      return;  // a cast rounds in both runs and would hide the difference
    }
    const DType type = dtype(from);
    std::vector<DType> targets;
    const bool bits = random_.chance(20);
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto to = static_cast<DType>(i);
      const bool sizes = size_of(to) == size_of(type) && to != DType::boolean && type != DType::boolean;
      // Most whole numbers are beyond f16, where only the bound of infinity is known.
      const bool beyond = is_integer(type) && size_of(type) > 1 && to == DType::f16 && !random_.chance(10);
      if (castable(type, to) && (bits ? sizes : !beyond)) targets.push_back(to);
    }
    if (targets.empty()) return;
    if (is_signed_integer(type) && size_of(type) < 8 && castable(type, DType::i64) && random_.chance(30))
      return compare_with_literal(note(must(graph_.add(ops::row("cast"), {from}, DType::i64)), {kWild, false, true}));
    const DType to = random_.pick(targets);
    if (is_float(type) && !is_float(to) && !known_[from].leaf && (bits || known_[from].lattice)) from = add_input(type);
    Known known{is_float(type) && !bits ? known_[from].magnitude : kWild, false,
                !is_float(type) || known_[from].lattice};
    note(must(graph_.add(ops::row(bits ? "bitcast" : "cast"), {from}, to)), known);
  }

  /// Compilers know what a number may be that was made wider.
  void compare_with_literal(NodeId from) {
    std::vector<NodeId> operands = {from, add_literal(dtype(from))};
    if (random_.chance(50)) std::swap(operands[0], operands[1]);
    const OpRow& row = ops::row(random_.pick(std::vector<const char*>{"lt", "le", "gt", "ge"}));
    note(must(graph_.add(row, operands)), known_of(row, operands));
  }

  /// Floats are brought into the row's domain where they may be far outside.
  NodeId tamed(const OpRow& row, NodeId id) {
    const DType type = dtype(id);
    if (!is_float(type)) return id;
    const bool narrow = row.low > -4 || row.high < 4 || row.cost > 8;
    if (known_[id].magnitude <= (narrow ? std::min(-row.low, row.high) : 64)) return id;
    if (narrow && random_.chance(10)) return id;  // outside of the domain now and then
    // Off the edges of the domain, where clamping gathers elements and no device is sure.
    const double margin = row.propagation == ops::ErrorPropagation::custom ? (row.high - row.low) / 16 : 0;
    const NodeId low = note(graph_.add_scalar(type, row.low + margin), {4, true, true});
    const NodeId high = note(graph_.add_scalar(type, row.high - margin), {4, true, true});
    const NodeId made = must(graph_.add(ops::row("clamp"), {id, low, high}));
    return note(made, {std::max(-row.low, row.high), false, true});
  }

  /// The largest magnitude over a few operands of each size, from the row's own reference.
  [[nodiscard]] Known known_of(const OpRow& row, const std::vector<NodeId>& operands) const {
    Known known{0, false, false};
    const bool rounds =
        row.name == "floor" || row.name == "ceil" || row.name == "round" || row.name == "trunc" || row.name == "sign";
    const bool keeps = row.own_error != nullptr && row.propagation != ops::ErrorPropagation::lipschitz;
    for (NodeId id : operands) known.lattice = known.lattice || (keeps && known_[id].lattice);
    // Clamping gathers elements on an edge.
    known.lattice = known.lattice || rounds || row.name == "relu" || row.name == "min" || row.name == "max" ||
                    row.name == "clamp" || row.name == "select" || row.name == "abs";
    if (row.real == nullptr || row.signature == ops::Signature::select) {
      for (NodeId id : operands) known.magnitude = std::max(known.magnitude, known_[id].magnitude);
      return known;
    }
    for (int corner = 0; corner < 64; ++corner) {
      double x[3] = {};
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const double size = known_[operands[i]].magnitude;
        const double at[4] = {-size, -1e-3, 1e-3, size};
        x[i] = at[corner >> (2 * i) & 3];
      }
      const double y = std::abs(row.real(x));
      known.magnitude = std::max(known.magnitude, std::isnan(y) ? 0 : std::min(y, kWild));
    }
    return known;
  }

  // --- outputs ---------------------------------------------------------------------------------------

  void add_outputs() {
    const std::vector<std::vector<NodeId>> users = graph_.users();
    std::vector<NodeId> chosen;
    for (auto id = static_cast<NodeId>(graph_.size()); id-- > 0 && chosen.size() < 4;) {
      if (graph_.node(id).operands.empty() && !random_.chance(2)) continue;
      if (random_.chance(users[id].empty() ? 85 : 12)) chosen.push_back(id);
    }
    if (chosen.empty()) chosen.push_back(static_cast<NodeId>(graph_.size() - 1));
    for (std::size_t i = 0; i < chosen.size(); ++i)
      must(graph_.add_output(i == 0 ? "y" : fmt::format("y{}", i), chosen[i]));
  }

  Random random_;
  const CaseOptions options_;
  std::uint64_t seed_;
  ir::Graph graph_;
  SymbolValues symbols_;
  bool special_ = false;
  std::vector<DType> dtypes_;
  Shape space_;
  std::vector<Known> known_;
  int inputs_ = 0;
};

}  // namespace vkfuse::test
