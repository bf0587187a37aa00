// The reduction template: threads of a workgroup share the reduction axes of a row. In each pass over a row, every
// thread reduces what it sees; between passes the threads reduce across each other and compute what all elements of the
// row share.
#pragma once

#include "lowering/emitter.hpp"
#include "lowering/fragments.hpp"
#include "templates/reduction/lower_combine.hpp"
#include "templates/reduction/lower_scan.hpp"

namespace vkfuse::lowering {

class ReductionEmitter : public Emitter {
 public:
  ReductionEmitter(const LoweringInput& in, int dispatch);

  Result<RelocatableKernel> run();

 private:
  // --- main (lower.cpp) -------------------------------------------------------------------------------
  /// Whether the workgroups of a row go over its chunks together here; the last dispatch may only join what
  /// they have left.
  [[nodiscard]] bool shares_rows() const { return split_ && dispatch_ < loops_.passes; }
  [[nodiscard]] std::int64_t workgroups() const {
    return schedule_.launch.workgroups / (split_ && !shares_rows() ? schedule_.splits : 1);
  }
  [[nodiscard]] std::int64_t workgroups_x() const { return std::min(schedule_.launch.workgroups_x, workgroups()); }
  /// Whether the last workgroup of a row joins what all of them have left, where a dispatch more would.
  [[nodiscard]] bool joins_in_last() const { return schedule_.counter_bytes > 0 && dispatch_ + 1 == loops_.passes; }
  void begin();
  Result<void> main_function();
  /// All passes over a row one after the other; or, where workgroups share rows, the one of this dispatch.
  Result<void> all_passes(const Combine& combine);
  Result<void> one_pass(const Combine& combine);
  Result<void> join_in_last();
  [[nodiscard]] Code summary() const;

  // --- what a row knows (lower_values.cpp) ---------------------------------------------------------------
  /// A reduction that another one, its partner, brings along has no text of its own.
  [[nodiscard]] bool is_partner(ValueId id) const;
  [[nodiscard]] ReductionText::Kind text_kind_of(ValueId id) const;
  void name_accumulators(ReductionText& reduction);
  [[nodiscard]] bool adds_vec4s(const ReductionText& reduction) const;
  ReductionText make_reduction(ValueId id);
  void find_varying();
  void find_needed_by_elements();
  /// Threads per row or row group: one accumulator, or one per row that the thread owns.
  [[nodiscard]] int width() const { return params_.vector_rows ? chunk_.elements : 1; }
  [[nodiscard]] Code at(const Code& name, int j) const { return width() == 1 ? name : code("{}[{}]", name, j); }
  void declare(const ReductionText& reduction);
  void declare_accumulators(int level);
  /// What a reduction has seen so far is forgotten.
  void assign_identities(const ReductionText& reduction);
  void finish_accumulators(const ReductionText& reduction, int j, const Code& count);
  void finish_positions(const ReductionText& reduction);
  /// The results of a level's reductions from their accumulators.
  void finish_reductions(int level);
  /// The result of a reduction or scan as its dtype holds it.
  [[nodiscard]] Code narrowed(DType type, const Code& text) const;
  [[nodiscard]] bool is_narrowed(DType type) const {
    return narrows(type) && (!is_float(type) || options_.numerics == Numerics::strict);
  }
  void round_result(DType type, const Code& result);
  void set_parallel_axes(Scope& scope, bool element) const;
  void set_reduction_axes(Scope& scope, bool element) const;
  void set_row_element(Scope& scope, int j) const;
  /// Values of the row alone that become known after a level's reductions.
  Result<void> row_values(int level);
  [[nodiscard]] std::vector<ValueId> inputs_of(const std::vector<ValueId>& own) const;
  Result<Code> row_function(int level, const std::vector<ValueId>& own, const std::vector<ValueId>& inputs);
  Result<void> values_of_each_row(int level, const std::vector<ValueId>& own);
  /// Stores of the row alone whose value is known after this many levels of reductions.
  Result<void> row_stores(int level);
  /// A value of the row and whatever it needs that has no name yet.
  Result<void> emit_backward_slice(Scope& scope, ValueId root);
  Result<void> store_rows(Scope& shared, std::size_t store);

  // --- passes over rows (lower_passes.cpp) ----------------------------------------------------------
  [[nodiscard]] bool is_vector(ValueId id) const {
    return loops_.values[id].kind == Value::Kind::load &&
           (schedule_.loads[id].kind == schedule::AccessKind::vector || is_unaligned(id)) &&
           loops_.per_element(loops_.values[id]);
  }
  [[nodiscard]] bool is_scan(ValueId id) const { return loops_.values[id].kind == Value::Kind::scan; }
  /// Whether a value differs between the elements of a chunk, or the rows of a thread.
  [[nodiscard]] bool varies(ValueId id) const { return varies_[id]; }
  /// Scans wait for other threads at every chunk: all of them have equally many iterations.
  [[nodiscard]] bool scans_across_threads() const { return params_.reduction_threads > 1; }

  /// What happens to one element between two waits for other threads, as a function.
  struct Body {
    std::vector<ValueId> per_element;
    std::vector<ValueId> function_inputs;  ///< parameters
    std::vector<ValueId> lows;             ///< of these, means that are subtracted: in two parts
    std::vector<std::size_t> stores;
    std::vector<std::size_t> reductions;  ///< in reductions_
    std::vector<std::size_t> scans;       ///< in scans_
    bool totals = false;                  ///< the scans end here with what the thread has seen in this chunk
    Code function;
    std::vector<std::string> coordinates;
  };
  struct Pass {
    int number = 0;
    std::vector<ValueId> vectors;    ///< loaded as vectors for a chunk
    std::vector<ValueId> per_chunk;  ///< one for the chunk
    std::vector<std::size_t> scans;  ///< in scans_: all that run
    bool waits = false;              ///< for other threads, at every chunk
    bool blocks = false;             ///< reductions and scans start anew every so many iterations
    std::vector<Body> bodies;        ///< one per depth of scans across threads; the last stores and reduces
    [[nodiscard]] bool empty() const { return bodies.back().stores.empty() && bodies.back().reductions.empty(); }
  };
  void add_values(const std::vector<bool>& needed, Pass& pass) const;
  void add_scan_bodies(Pass& pass) const;
  [[nodiscard]] Body last_body(const Pass& pass) const;
  Pass make_pass(int number);
  [[nodiscard]] std::vector<bool> results_of(const Body& body) const;
  [[nodiscard]] bool is_given(const Pass& pass, ValueId id) const;
  void use_operands(ValueId id, std::vector<bool>& used) const;
  [[nodiscard]] std::vector<ValueId> subtracted_means(const Body& body) const;
  [[nodiscard]] Code low_of(ValueId mean) const;
  void finish_body(const Pass& pass, Body& body, const std::vector<bool>& needed);
  [[nodiscard]] const ScanText& scan_of(ValueId id) const;
  Result<void> element_function(Pass& pass, std::size_t number);
  [[nodiscard]] std::vector<int> count_readers() const;
  [[nodiscard]] bool may_contract(ValueId id) const;
  void find_reduced_products();
  [[nodiscard]] std::string_view op_of(ValueId id) const;
  [[nodiscard]] bool is_small_integer(ValueId id) const;
  [[nodiscard]] bool is_weight(ValueId id) const;
  void find_scale_of_chunks(ValueId reduction, const std::vector<int>& readers);
  [[nodiscard]] Code reduced(Scope& scope, ValueId operand) const;
  void reduce_element(Scope& scope, const ReductionText& reduction);
  void scan_element(const Pass& pass, const Body& body, const ScanText& scan, Scope& scope);
  void add_accumulator_parameters(const Pass& pass, const ReductionText& reduction,
                                  std::vector<Code>& parameters) const;
  [[nodiscard]] std::vector<Code> value_parameters(const Pass& pass, const Body& body) const;
  void write_function(const Pass& pass, Body& body, const Code& text, const Code& comment);
  [[nodiscard]] bool kept(ValueId id) const;

  // --- loops over chunks (lower_chunks.cpp) ------------------------------------------------------------------
  [[nodiscard]] Code iteration_index() const { return params_.iterations == 1 ? "" : "[t]"; }
  /// Where the raw vectors of a load are: an array of the row's chunks, of those in flight, or a variable.
  [[nodiscard]] Code register_index_of(ValueId id) const;
  /// Whether every thread has a chunk in every iteration.
  [[nodiscard]] bool has_full_iterations() { return divides(params_.reduction_threads, chunk_extent()) && !split_; }
  [[nodiscard]] Extent chunk_extent() const {
    return {schedule_.launch.reduction_chunks, reference_sizes_.schedule->launch.reduction_chunks};
  }
  [[nodiscard]] Code reduction_chunks() { return numbers_.size(schedule_.launch.reduction_chunks); }
  [[nodiscard]] Code column_of(const Code& step);
  /// The same reduction under the names that a block has for its accumulators.
  [[nodiscard]] ReductionText in_block(const Pass& pass, const ReductionText& reduction) const;
  /// The last chunk of a row has fewer elements than the others.
  [[nodiscard]] bool is_ragged() const { return !schedule_.full_chunks && !params_.vector_rows; }
  /// In the last iteration of a pass that waits some threads have no chunk.
  [[nodiscard]] bool may_be_idle(const Pass& pass) {
    return pass.waits && !divides(params_.reduction_threads, chunk_extent());
  }

  /// Loads everything that stays in registers, before anything waits for it.
  void load_kept();
  /// Names the chunks between the bounds that data gives, if it does: those that every pass visits.
  void find_visited_chunks();
  /// Of the chunks that this workgroup has, the first one of a thread, and the one after the last.
  [[nodiscard]] Code first_chunk();
  [[nodiscard]] Code end_of_chunks();
  Result<void> run_pass(int number);
  void begin_scan(const ScanText& scan, const Pass& pass);
  /// The loop over a thread's chunks.
  Result<void> run_chunks(Pass& pass);
  Result<void> run_chunks_in_flight(Pass& pass, const Code& begin, const Code& end);
  Result<void> load_in_flight(const Pass& pass, const Code& step, const Code& end);
  [[nodiscard]] std::vector<ValueId> positions_of_loads(const Pass& pass) const;
  Result<void> run_chunks_in_step(Pass& pass);
  void begin_block(const Pass& pass);
  void end_block(const Pass& pass);
  Result<void> chunk(Pass& pass);
  void begin_totals(const ScanText& scan);
  void end_totals(const Body& body);
  void store_chunks(const Pass& pass, Scope& scope);
  using Groups = std::set<std::pair<ValueId, int>>;  ///< unpacked vectors
  [[nodiscard]] Code group_name(ValueId id, int group);
  /// The sum of a chunk's products, which is multiplied with a scale at the end of the chunk.
  struct ScaledSum {
    Code sum, scale;
  };
  [[nodiscard]] std::vector<ScaledSum> scaled_sums(const Pass& pass, const Body& body, const Scope& scope) const;
  void begin_group(const Body& body, int g, Groups& groups);
  void end_group(const Pass& pass, const Body& body, Scope& scope, int g);
  void call_each(const Pass& pass, const Body& body, Scope& scope, Groups& groups);
  [[nodiscard]] Code input_of(const Scope& scope, ValueId id, int element);
  void add_accumulators(const Pass& pass, const ReductionText& reduction, int element,
                        std::vector<Code>& arguments) const;
  void call(const Pass& pass, const Body& body, Scope& scope, int element);
  /// "if (...) " where not every element, or not every chunk, exists.
  [[nodiscard]] Code element_condition(const Pass& pass, int element);

  /// See lowering/fragments.hpp.
  struct PackedFunctions {
    Code numbers, mask;
  };

  // --- weights of few bits, with cooperative matrices (lower_packed_gemv.cpp) -------------------------------
  /// The vector goes to shared memory once, in the order in which fragments meet it.
  Result<void> keep_vector(const schedule::PackedGemvTile& packed);
  /// The element of the vector at `column` and `j`, as a function; without one the element is what one load gives.
  struct VectorElement {
    Code function;
    std::string coordinates;  ///< its first parameters, by their first letters
    std::vector<ValueId> function_inputs;
    std::vector<ValueId> lows;  ///< of these, means that are subtracted: in two parts
  };
  [[nodiscard]] std::vector<ValueId> statistics_read_by(const std::vector<ValueId>& own) const;
  Result<void> values_of_vector(int level);
  Result<void> find_statistics(const schedule::PackedGemvTile& packed);
  Result<VectorElement> element_of_vector(const schedule::PackedGemvTile& packed, const std::vector<ValueId>& vectors);
  void write_vector_element(const Code& text, VectorElement& element);
  void load_chunk_vectors(Scope& scope, const std::vector<ValueId>& vectors, bool by_data);
  [[nodiscard]] Code vector_element(const VectorElement& element, const Scope& scope, ValueId vector, int e);
  Result<void> load_scales(const schedule::PackedGemvTile& packed, const schedule::PackedMatrix& matrix,
                           const Code& first, const Code& k_slice);
  Result<void> load_k_slice_of(const schedule::PackedGemvTile& packed, const schedule::PackedMatrix& matrix,
                               const Code& first, const Code& k_slice);
  Result<void> load_k_slice(const schedule::PackedGemvTile& packed, const schedule::PackedWeights& weights,
                            const Code& first, const Code& k_slice);
  Result<void> load_scale(const schedule::PackedGemvTile& packed, ValueId scale, const Code& column, const Code& index);
  Result<Code> loaded_scale(const schedule::PackedGemvTile& packed, ValueId scale, const Code& index);
  static Code times_unit(const schedule::PackedGemvTile& packed);
  [[nodiscard]] std::optional<ValueId> only_load_of(ValueId scale) const;
  [[nodiscard]] bool are_alike(ValueId a, ValueId b) const;
  [[nodiscard]] bool finds_scales_in_words(const schedule::PackedGemvTile& packed) const;
  void look_for_nan(const schedule::PackedGemvTile& packed, const Code& loaded, const Code& row);
  void note_nan(const schedule::PackedGemvTile& packed, std::size_t sum);
  Result<void> stage_k_slice(const schedule::PackedGemvTile& packed, std::size_t sum);
  Result<void> stage_scales(const schedule::PackedGemvTile& packed, ValueId scale);
  void declare_powers(const schedule::PackedGemvTile& packed);
  void prepare_shared(const schedule::PackedGemvTile& packed);
  PackedFunctions packed_functions(const schedule::PackedGemvTile& packed);
  Result<void> packed_sum(const schedule::PackedGemvTile& packed, std::size_t sum, const PackedFunctions& functions);
  Result<void> load_next_k_slice(const schedule::PackedGemvTile& packed, std::size_t sum);
  void multiply_k_slice(const schedule::PackedGemvTile& packed, const schedule::PackedWeights& weights,
                        const PackedFunctions& functions);
  void store_halves(const schedule::PackedGemvTile& packed, const VectorElement& element, const Scope& scope);
  void begin_packed_gemv(const schedule::PackedGemvTile& packed);
  void declare_loads(const schedule::PackedGemvTile& packed);
  Result<void> load_first(const schedule::PackedGemvTile& packed);
  Result<void> multiply_tile(const schedule::PackedGemvTile& packed, std::size_t sum, const PackedFunctions& functions);
  void store_sums_of_tile(const schedule::PackedGemvTile& packed, std::size_t sum);
  // With fragments that lanes make (lower_lane_gemv.cpp).
  void store_pairs(const schedule::PackedGemvTile& packed, const VectorElement& element, const Scope& scope);
  Result<void> load_lane_steps(const schedule::PackedGemvTile& packed, const schedule::PackedWeights& weights);
  Result<void> load_lane_steps_of(const schedule::PackedGemvTile& packed, const schedule::PackedMatrix& matrix);
  [[nodiscard]] std::vector<Code> pairs_of_vector(const schedule::PackedGemvTile& packed);
  Result<void> multiply_lane_steps(const schedule::PackedGemvTile& packed, std::size_t sum);
  void write_rows_of_words(const schedule::PackedGemvTile& packed, const Code& numbers);
  void multiply_words(const schedule::PackedGemvTile& packed, std::size_t sum, const Code& sums);
  Result<void> decode_lane_scales(const schedule::PackedGemvTile& packed, ValueId scale);
  void scale_lane_sums(const schedule::PackedGemvTile& packed);
  static int scales_of_lane(const schedule::PackedGemvTile& packed);
  Code lane_step(const schedule::PackedGemvTile& packed, const Code& i);
  [[nodiscard]] bool fills_its_tiles(const schedule::PackedGemvTile& packed);
  Code lane_row(const schedule::PackedGemvTile& packed, const Code& i);
  Result<void> multiply_lane_tile(const schedule::PackedGemvTile& packed, std::size_t sum);
  void store_lane_sums(const schedule::PackedGemvTile& packed, std::size_t sum);
  Result<void> load_beside_sums(const schedule::PackedGemvTile& packed);
  Result<void> finish_packed_rows(const schedule::PackedGemvTile& packed);
  Result<void> packed_gemv_main();

  static constexpr int kNever = -1;

  /// A contraction whose weights, `scaled`, are `left` times a `scale` that whole chunks share.
  struct ScaleOfChunks {
    ValueId scaled = 0, left = 0, other = 0, scale = 0;
  };

  std::vector<Code> word_functions_;  ///< of each sum of a packed GEMV with fragments that lanes make
  std::vector<Code> word_names_;      ///< of each sum of a packed GEMV: where the words of its matrices are
  const schedule::ReductionParams& params_;
  int dispatch_;
  bool split_;
  Code rows_, groups_x_;
  std::vector<ReductionText> reductions_;  ///< with splits, scans as well
  std::vector<ScanText> scans_;
  std::vector<int> depth_;  ///< of every value: scans of a pass that it waits for, one after the other
  Scope row_scope_;
  std::set<ValueId> resident_;
  std::set<ValueId> in_flight_;  ///< loads of several chunks that are in flight together
  std::map<std::pair<ValueId, int>, Code> group_names_;
  std::map<ValueId, ScaleOfChunks> scales_of_chunks_;  ///< by reduction
  std::vector<bool> varies_;
  std::vector<bool> needed_by_elements_;  ///< what some element of a row, or some reduction, is computed from
  std::set<ValueId> running_;             ///< scans that have run in a pass before
  /// Where data says which chunks of a row are visited: from the first to the one after the last.
  struct VisitedChunks {
    Code begin, end;
  };
  std::optional<VisitedChunks> visited_;
};

}  // namespace vkfuse::lowering
