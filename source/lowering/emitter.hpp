// What all templates share: names, buffers, positions as text, and the lines that compute values.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "kernel/names.hpp"
#include "kernel/writer.hpp"
#include "lowering/expressions.hpp"
#include "lowering/input.hpp"
#include "lowering/packing.hpp"
#include "lowering/sub_byte_fields.hpp"
#include "lowering/value_forms.hpp"

namespace vkfuse::lowering {

using segment::Value;
using segment::ValueId;

/// One place of the text where values have names: main(), a loop in it, or a function of one element.
struct Scope {
  Writer* out = nullptr;
  std::map<ValueId, Code> names;
  std::map<index::AxisId, index::Expr> axes;                ///< loop axes in terms of the scope's own
  std::map<index::AxisId, Code> axis_names;                 ///< of the scope's own axes
  std::vector<std::pair<index::Expr, Code>> known;          ///< quotients and remainders that have a variable
  std::map<std::pair<int, std::int64_t>, Code> data_names;  ///< indices, clamped to so many elements
  std::map<ValueId, Code> lows;  ///< of means: what rounding them has lost, for who subtracts them
  Code exists;  ///< a condition that fails where there is no such position, if that can be; vectors are loaded even so
};

/// So many there are, and so many at the sizes that decide what the text looks like.
struct Extent {
  std::int64_t count = 0;
  std::int64_t decided = 0;
  friend Extent operator/(const Extent& all, std::int64_t by) { return {all.count / by, all.decided / by}; }
};

/// Ids of the axes that templates count by, apart from loop axes.
enum CountingAxis : index::AxisId {
  kChunk = 1 << 24,
  kPosition,
  kElement,
  kRow,
  kColumn,
  kTile,
  kUnit,
  kBatch,
  kM,
  kN,
  kK,
  kHeadDim,
  kOtherHeadDim
};

class Emitter {
 public:
  explicit Emitter(const LoweringInput& in);

 protected:
  // --- values (values.cpp) -------------------------------------------------------------------------
  [[nodiscard]] DType dtype(ir::NodeId id) const { return graph_.node(id).type.dtype; }
  [[nodiscard]] DType dtype_of(const Value& value) const { return dtype(value.node); }
  [[nodiscard]] Code scalar_type(ir::NodeId id) const {
    return Code(ops::glsl_type(ops::register_type_of(dtype(id)), dialect_.native_int64));
  }
  [[nodiscard]] bool is_literal(ValueId id) const { return loops_.values[id].kind == Value::Kind::literal; }
  [[nodiscard]] Code literal_text(ValueId id) const;
  [[nodiscard]] bool is_hidden_zero(ValueId id) const;
  /// The value's name in the scope, or the literal itself.
  [[nodiscard]] Code use(const Scope& scope, ValueId id) const;
  /// The call of the user's function of one element, which the text has from now on.
  Result<Code> custom_call(const ir::Node& node, const std::vector<Code>& operands);
  /// The lines that give a value its name in the scope; its operands have theirs.
  Result<void> emit_value(Scope& scope, ValueId id);
  /// All of them, in order.
  Result<void> emit_values(Scope& scope, const std::vector<ValueId>& ids);
  void find_products() { found_.contracted = contract_products(form_input(), forms_); }
  [[nodiscard]] FormInput form_input() const {
    const bool may_decode = schedule_.get_if<schedule::ReductionParams>() != nullptr ||
                            schedule_.get_if<schedule::PointwiseParams>() != nullptr ||
                            schedule_.get_if<schedule::MatmulParams>() != nullptr ||
                            schedule_.get_if<schedule::AttentionParams>() != nullptr;
    return {graph_, loops_, ranges_, options_.numerics == Numerics::strict, dialect_.native_exp, may_decode};
  }
  /// An op and the values it is applied to.
  struct ElementOp {
    const ops::OpRow* op = nullptr;
    std::vector<ValueId> operands;
  };
  [[nodiscard]] ElementOp element_op(ValueId id) const;
  [[nodiscard]] std::vector<Code> operand_texts(const Scope& scope, const std::vector<ValueId>& ids) const;
  [[nodiscard]] Code random_text(Scope& scope, const Value& value, std::uint64_t seed);
  [[nodiscard]] Code position_text(Scope& scope, const Value& value);
  [[nodiscard]] bool may_be_taken_for_signed(ValueId id) const;
  [[nodiscard]] bool is_decoded_as_loaded(ValueId id) const;
  [[nodiscard]] Code converted_text(ValueId id, Code operand) const;
  [[nodiscard]] Code arithmetic_text(const Scope& scope, ValueId id, const ElementOp& element,
                                     const std::vector<Code>& operands) const;
  Result<Code> computed_text(const Scope& scope, ValueId id, const std::vector<Code>& operands,
                             const ElementOp& element);
  [[nodiscard]] Code float_text(float number) const {
    return literal(DType::f32, reinterpret_cast<const std::byte*>(&number), dialect_);
  }
  [[nodiscard]] bool is_contracted(ValueId id) const { return found_.contracted.count(id) != 0; }

  // --- bits of bytes as floats (sub_byte.cpp) ------------------------------------------------------------
  /// What tells groups apart.
  struct SubByteNumbers {
    struct Taken {
      int down = 0;
      std::uint32_t mask = 0;
      float difference = 0;
      friend auto operator<=>(const Taken&, const Taken&) = default;
    };
    std::vector<Taken> taken;
    std::vector<std::uint32_t> bits;
  };
  /// What is written of a group: the function that takes it out of a word, and the constant that this is given.
  struct SubByteGroup {
    Code function, bits;
  };
  [[nodiscard]] bool is_sub_byte(ValueId id) const { return found_.sub_byte_fields.count(id) != 0; }
  [[nodiscard]] SubByteNumbers sub_byte_numbers(const UnpackedField& field, int group) const;
  [[nodiscard]] Code sub_byte_value(const SubByteNumbers& numbers) const;
  void write_sub_byte_function(const Code& name, const Code& value);
  /// Those of fields in chunks as they are now (chunk_).
  void write_sub_byte_functions(const UnpackedFields& fields);
  /// One group of a field's floats, from the words of its load.
  [[nodiscard]] Code sub_byte_group(ValueId id, int group, const Code& register_index) const;

  // --- positions (positions.cpp) ---------------------------------------------------------------------
  /// An expression of the loop axes as text; quotients and remainders become variables of the scope.
  Code position(Scope& scope, const index::Expr& expr);
  Code scoped(Scope& scope, const index::Expr& expr);  ///< the same, of the scope's own axes
  Code atom_text(Scope& scope, const index::Atom& atom);
  [[nodiscard]] index::Expr in_scope(const Scope& scope, const index::Expr& expr) const;
  /// The conjunction as a boolean expression.
  Code condition(Scope& scope, std::span<const segment::Predicate> predicates);
  /// The variable that holds a data value as an index below `size`.
  Code data_index(Scope& scope, int data, std::int64_t size);

  // --- loads and stores (memory.cpp) -----------------------------------------------------------------
  /// One element wherever it is, with its guards.
  Code load_scalar(Scope& scope, ValueId id);
  /// Where that is in the buffer, and the number of an element, which may be a code.
  Code index_of_load(Scope& scope, ValueId id);
  [[nodiscard]] Code decoded(ValueId id, const Code& element) const;
  /// The condition under which a load reads; empty where it always does.
  Code predicate_of(Scope& scope, const Value& load);
  [[nodiscard]] int vectors_of(ValueId load) const;
  /// The raw vectors of a chunk: declares them, or assigns where they are arrays (`register_index` is "[u]") or
  /// declared elsewhere.
  void load_vectors(Scope& scope, ValueId id, const Code& register_index, bool declared = false);
  [[nodiscard]] Code raw_name(ValueId id, int vector) const;
  /// Registers of a load that moves whole chunks: its words, and of a shifted one whether its run begins in the middle
  /// of the first.
  [[nodiscard]] std::vector<Code> raw_names(ValueId load) const;
  [[nodiscard]] bool is_unaligned(ValueId load) const;
  void load_unaligned(Scope& scope, ValueId id, const Code& register_index, bool declared);
  /// Two neighbours of a chunk, out of the words that a shifted load has read.
  [[nodiscard]] Code unaligned_word(ValueId id, int word, const Code& register_index) const;
  [[nodiscard]] Code unpacked(ValueId id, int group, const Code& register_index) const;
  /// The function that decodes the four codes of a word of a load.
  [[nodiscard]] Code decoder_of_word(ValueId load) const;
  [[nodiscard]] Code group_type_of(ir::NodeId id) const {
    return group_type(ops::register_type_of(dtype(id)), chunk_.group, dialect_);
  }
  void store_scalar(Scope& scope, std::size_t store, const Code& value);
  /// Applies `write` to the scope in which the store's predicates hold.
  template <typename Write>
  void where_stored(Scope& scope, std::size_t store, const Write& write);
  void store_element(Scope& scope, std::size_t store, const Code& value);
  void store_chunk(Scope& scope, std::size_t store, const Code& whole, const Code& valid);
  /// The vectors of a chunk from the groups of results. `valid` is empty where the chunk is whole.
  void store_vectors(Scope& scope, std::size_t store, const Code& whole, const Code& valid);
  [[nodiscard]] Code result_name(std::size_t store) const;  ///< of the element function's parameter
  [[nodiscard]] Code result_group(std::size_t store, int group) const;
  [[nodiscard]] int buffer_bytes(ir::NodeId node) const;  ///< of one word of the array
  [[nodiscard]] index::Expr chunk_vector(Scope& scope, const index::Expr& offset, int per_vector) const;

  // --- the file (interface.cpp) ----------------------------------------------------------------------
  [[nodiscard]] Code head(const Code& body, const Code& summary, bool comments) const;
  [[nodiscard]] Code interface(bool comments) const;
  [[nodiscard]] Code push_constants(bool comments) const;
  [[nodiscard]] Code value_buffer(const Binding& binding, std::size_t number, bool comments) const;
  /// The bytes of an element of a buffer that is written element by element by stores of that size; 0 for others.
  [[nodiscard]] int sub32_bytes(const Binding& binding) const;
  /// Whether a result may be written over what is read at its own place, as plan/memory and donations have it
  /// (plan::reads_own_place decides, and more strictly). SPIR-V lets compilers take memory of different names for
  /// different memory where nothing says Aliased.
  [[nodiscard]] bool may_alias(const Binding& binding) const;
  /// Whether a result may replace what is read though others are computed from it, too: schedule::replaces_input.
  [[nodiscard]] bool is_replaced(const Binding& binding) const;
  /// The kernel of one dispatch: so many workgroups, in rows of `groups_x`.
  Result<RelocatableKernel> finish(const Code& summary, std::int64_t groups, std::int64_t groups_x);
  /// The only kernel, of as many workgroups as the schedule says.
  Result<std::vector<RelocatableKernel>> finish_one(const Code& summary);
  [[nodiscard]] std::string op_summary() const;

  /// The kernel has a buffer for partial results of workgroups that share a row or a tile, in elements of this type.
  void bind_partials(std::string_view word, std::string_view sharers_of);
  /// And one in which they count those that have left theirs: the last one joins them, in the same dispatch.
  void bind_counts();
  /// Goes on in the last workgroup to get here of those that share what has this number, which sees what the others
  /// have stored; the others end.
  void go_on_in_last(const Code& number);
  [[nodiscard]] Code unique(const Code& requested) { return names_.all.unique(requested); }
  /// Whether pieces of that size cover all without one standing out, which then is so at every size that the text
  /// serves.
  [[nodiscard]] bool divides(std::int64_t piece, Extent all);
  [[nodiscard]] bool meets_buffer(ir::NodeId node) const;

  const ir::Graph& graph_;
  const segment::Segment& segment_;
  const segment::Loops& loops_;
  const schedule::Schedule& schedule_;
  const Target& target_;
  const LoweringOptions& options_;
  Dialect dialect_;
  ReferenceSizes reference_sizes_;  ///< what decides: the loops and the schedule themselves, unless the options say
  Numbers numbers_;
  struct {
    std::map<ir::NodeId, Code> nodes;
    std::vector<Code> values;
    std::vector<Code> stores;  ///< what results are called: the node's name, of its further parts another
    Names all;
  } names_;
  struct {
    struct {
      bool f32 = false, f64 = false;
    } keeps;                   ///< the execution mode SignedZeroInfNanPreserve, without which drivers fold x * 0
    bool hides_zeros = false;  ///< see DriverWorkarounds::folds_nan_away
    /// A zero that the driver's compiler does not know: finish() refuses more chunks.
    Code barrier = Code("(p.chunks & 0x80000000u)");
  } nan_;
  IntegerRanges ranges_;
  ValueForms forms_;
  struct {
    UnpackedFields sub_byte_fields;
    std::map<ValueId, std::vector<SubByteGroup>> sub_byte_groups;  ///< by the cast
    std::map<ValueId, ValueId> contracted;                         ///< product -> the sum it is part of
  } found_;  ///< values that are computed otherwise than one by one
  struct {
    int elements = 1;
    int group = 1;   ///< elements that are computed together
    int groups = 1;  ///< of a chunk
  } chunk_;
  bool differs_ = false;  ///< see RelocatableKernel
  std::vector<Binding> bindings_;
  struct {
    std::string_view word, sharers_of;
  } partials_;     ///< the elements of a buffer of partial results, and what its workgroups share
  Writer shared_;  ///< shared arrays
  std::map<std::string, std::string> custom_functions_;  ///< by name
  Writer functions_;
  Writer main_;
};

/// Whether a position is below `size` and not negative, whatever its axes are.
bool always_inside(const index::Expr& position, std::int64_t size);

/// What a reduction starts from, in its accumulator's type.
Code reduction_identity(const ir::Graph& graph, const ir::Node& node, const Dialect& dialect);

}  // namespace vkfuse::lowering
