// One candidate kernel as loops: named axes, a body of scalar values, and every access as an index
// expression. Views are gone here: a value is computed or loaded at the position somebody asks for it.
#pragma once

#include <map>
#include <optional>

#include "index/index.hpp"
#include "segment/segment.hpp"

namespace vkfuse::segment {

using ValueId = std::uint32_t;

/// What an axis of the loop nest is for, in the order in which they stand there.
enum class Role : std::uint8_t {
  parallel,
  reduction,  ///< reduced or scanned by somebody, or not told apart by what is sorted; else all axes are rows
  key,        ///< runs over the elements of a row that is sorted: in what they are computed from alone
  inner,      ///< what a contraction, or a reduction, beside the columns runs over: in its operand alone
};

/// One axis of the loop nest; its id is its place in Loops::axes. By role; within each, outermost first.
struct Axis {
  std::int64_t size = 1;
  Role role = Role::parallel;
};

/// A condition on the position: every entry has 0 <= value < size. Negated: not all of them have.
struct Predicate {
  struct Range {
    index::Expr value;
    std::int64_t size = 1;
    friend bool operator==(const Range&, const Range&) = default;
  };
  std::vector<Range> ranges;
  bool negated = false;
  friend bool operator==(const Predicate&, const Predicate&) = default;
};

/// A set of axes, one bit each.
using AxisSet = std::uint64_t;

/// One scalar of the body.
struct Value {
  enum class Kind : std::uint8_t {
    literal,    ///< a constant of one element; of a reduction: its identity
    load,       ///< element `offset` of the buffer of `node`, where the predicates hold; anything where they do not
    position,   ///< the number `offset`: of iota, or the counter of random
    compute,    ///< the elementwise op of `node` on `operands`
    choose,     ///< operands[0] where the predicates hold, else operands[1]
    reduction,  ///< operands[0] reduced over all columns, by `node`
    scan,    ///< the reduction of operands[0] over the columns up to `offset`, by `node`; runs in every pass that needs
             ///< it
    sort,    ///< entry `offset` of the order of operands[0] along the keys of the rows, by `node`
    nested,  ///< operands[0] reduced over the inner axes `over`, by `node`: a contraction at every row and column, or
             ///< a reduction of something that columns have nothing to do with
    epilogue,  ///< operands[0] reduced over the rows `over`, by `node`, when sums over the columns are known: known at
               ///< all other rows
  };
  Kind kind = Kind::literal;
  ir::NodeId node = 0;
  std::vector<ValueId> operands;
  index::Expr offset;
  std::vector<Predicate> predicates;
  std::vector<ValueId> data;         ///< values that `offset` or the predicates use as data: Expr::data(id)
  std::int64_t buffer_elements = 0;  ///< of a load's node
  AxisSet axes = 0;                  ///< what the value depends on
  AxisSet over = 0;                  ///< contract, epilogue: what they reduce
  bool hoisted = false;  ///< a reduction over inner axes that is no contraction, or computed from hoisted ones alone:
                         ///< known before the columns are run over
  /// A reduction that one pass computes together with another one, its partner, from the partner's operand: the sum
  /// of exponentials below a maximum, or of squares around a mean.
  enum class Online : std::uint8_t { no, softmax, moments };
  Online online = Online::no;
  ValueId partner = 0;
  /// Reductions that must be finished before: 0 for loads, 1 more than its operand for a reduction; see derive_levels.
  int level = 0;
};

struct Store {
  ValueId value = 0;
  ir::NodeId node = 0;
  /// Takes each element of the node exactly once while `axes` run; if several stores are of one node, of a part each.
  index::Expr offset;
  std::int64_t buffer_elements = 0;
  AxisSet axes = 0;  ///< rows alone, some or all of them, or rows and columns
  /// Set: rows of a larger value are stored, whose other elements are those of this one. They lie in the buffer before
  /// the kernel runs. `offset` and `predicates` may then be made of data.
  std::optional<ir::NodeId> base = std::nullopt;
  /// Without these nothing is stored.
  std::vector<Predicate> predicates = {};

  /// Whether the value has fewer axes than the rows: it is stored where the others are 0, as the predicates say.
  [[nodiscard]] bool has_fewer_rows() const { return !base && !predicates.empty(); }
};

/// Adds the value, unless one that computes the same is there; which of the values it is.
ValueId add_once(std::vector<Value>& values, Value value);

struct Loops {
  std::vector<Axis> axes;
  std::vector<Value> values;              ///< operands come first
  std::vector<Store> stores;              ///< of Segment::stores, in order, each whole or part by part
  std::map<index::DataId, ValueId> data;  ///< the values that data atoms of the expressions stand for
  bool backwards = false;                 ///< scans walk the columns from the last to the first
  /// Several workgroups share a row: a scan is first reduced part by part, in the pass before it runs.
  bool split_scans = false;
  bool has_register_blocking = false;  ///< by with_register_blocking: once is enough
  bool opaque = false;                 ///< a kernel of the user's: what is read and stored, and nothing about where
  Sizes opaque_sizes;                  ///< with it: those of every operand, in order, and of the result
  bool empty = false;                  ///< no elements: nothing is launched, and sizes of 0 are 1 here
  /// Passes over the columns: one per dependency level whose values some reduction or store needs; at least 1.
  int passes = 1;

  [[nodiscard]] AxisSet columns() const;
  [[nodiscard]] AxisSet keys() const;
  [[nodiscard]] AxisSet inner() const;
  [[nodiscard]] std::int64_t parallel_count() const;
  [[nodiscard]] std::int64_t reduction_count() const;
  [[nodiscard]] std::int64_t key_count() const;  ///< 1 where nothing is sorted
  [[nodiscard]] std::int64_t count() const { return parallel_count() * reduction_count(); }
  [[nodiscard]] bool per_element(const Value& value) const { return (value.axes & columns()) != 0; }
};

/// The pass over the columns that consumes the operand of a reduction (or of a scan in parts), and the one that writes
/// a store of all axes.
inline int pass_of_reduction(const Value& reduction) { return reduction.level - 1; }
inline int pass_of_store(const Loops& loops, const Store& store) { return loops.values[store.value].level; }

/// Whether the operand's elements are joined in a pass of its own before the value is known anywhere.
bool reduces_first(const Loops& loops, const Value& value);

/// Fills in the dependency level of every value, operands first, and the number of passes.
void derive_levels(Loops& loops);

/// The same loops for workgroups that share a row.
Loops with_split_scans(Loops loops);

/// Which values of column positions one pass computes: what its reductions and stores need.
std::vector<bool> needed_in_pass(const Loops& loops, int pass);

/// The loops of a segment at these sizes, or a full sentence on why its members do not share a loop nest.
Result<Loops> build_loops(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols);

/// Whether a value is a reduction that adds up products of two values each.
bool sums_products(const ir::Graph& graph, const Loops& loops, const Value& value);

/// The same loops with pairs of reductions that one pass can compute: a maximum with the sum of exponentials below it,
/// a mean with the sum (or mean) of squares around it. Nothing where there is no such pair.
std::optional<Loops> with_online_reductions(const ir::Graph& graph, const Loops& loops);

/// The same loops with factors that are the same for all columns taken out of contractions and multiplied onto
/// the sums, where they depend on reductions: a norm before a matrix product, the divisor of a softmax before the
/// product with its values. Nothing where there is no such factor.
std::optional<Loops> with_sunk_scales(const ir::Graph& graph, const Loops& loops);

/// The same loops with literals taken out of contractions whose factors are numbers of 16 bits or fewer, widened to f32
/// and then scaled: what is left is exact in the narrow dtype, and hardware multiplies many of them at once. Nothing
/// where there is no such literal.
std::optional<Loops> with_sunk_literals(const ir::Graph& graph, const Loops& loops);

/// The same loops where contractions come first and the reductions of what they lead to afterwards: what they reduce
/// are rows, and what a contraction runs over are the columns. As they are where no contraction is reduced.
Loops with_epilogue_reductions(const ir::Graph& graph, Loops loops);

/// The same loops over a part of each axis at which choices change from one equal part to the next (a concatenation,
/// an assignment to a slice), all parts computed at each position: a result is then stored part by part. As they
/// are where there are none, or columns.
Loops with_index_set_splitting(Loops loops);

/// The same loops over a part of a row axis, all `parts` equal parts of it computed at each position: what they have in
/// common is loaded and computed once. Nothing where there are scans, sorts, or reductions over anything but the
/// columns.
std::optional<Loops> with_register_blocking(const Loops& loops, index::AxisId axis, std::int64_t parts);

/// The same loops with these axes, of one role and outermost first, counted as one: `into`, one of them, takes all
/// their positions, and the others one.
Loops with_axes_merged(Loops loops, std::span<const int> axes, int into);

/// The elements of a buffer, in order, from one of them on.
struct Window {
  ir::NodeId of = 0;
  std::int64_t first = 0;  ///< element
};

/// Where the only value that the loops store lies already, element by element; nothing where something is computed,
/// chosen, or in another order.
std::optional<Window> window_of(const Loops& loops);

/// Elements of its buffer that a load touches, each counted once.
std::int64_t elements_touched(const Loops& loops, const Value& load);

/// How many accesses of the loops are proven to stay inside their buffers, by intervals and predicates alone;
/// the others (data-dependent ones) are clamped on the device.
struct Proof {
  std::int64_t accesses = 0;
  std::int64_t proven = 0;
};
Proof prove_in_bounds(const Loops& loops);

}  // namespace vkfuse::segment
