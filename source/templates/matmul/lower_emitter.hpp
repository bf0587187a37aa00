// The emitter of the matmul template: tiles of contractions, what they are computed from and what becomes of them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lowering/tile_operands.hpp"
#include "schedule/means.hpp"

namespace vkfuse::lowering {

class MatmulEmitter : public OperandEmitter {
 public:
  /// `dispatch` 1 is there where several workgroups share a tile: it joins what they have left.
  MatmulEmitter(const LoweringInput& in, int dispatch);

  Result<RelocatableKernel> run();

 private:
  /// A reduction over k of what an operand's rows are computed from.
  struct RowReduction {
    ValueId id = 0;
    Code type;             ///< of a partial result: a mean's has two parts
    Code partial;          ///< registers, one for each chunk of the thread
    Code slots, finished;  ///< shared memory: what each thread has found, and the rows
    Code function;         ///< joins two partial results
    [[nodiscard]] Code join(const Code& a, const Code& b) const { return function + "(" + a + ", " + b + ")"; }
  };

  void make_row_reductions();
  void add_operand(std::size_t number);
  void join_functions();
  void locate_tile();
  void declare();
  /// The steps along k of a workgroup.
  struct Steps {
    Code first, end;  ///< the first is empty where it is 0
  };
  Steps locate_steps();
  Result<bool> fetch_first(const Steps& steps);
  Result<void> write_functions();
  Result<void> main_function();
  Result<void> joining_main();
  [[nodiscard]] std::int64_t results_in_chunks() const {
    return count(tile_.batch) * count(tile_.m) * (count(tile_.n) / tile_.elements);
  }
  /// Of a part of sum `sum`: where the vec4 at (batch, m, chunk / `per_vec4`) is in device memory.
  Code partial_at(const Code& part, std::size_t sum, int per_vec4);
  Code partial_position(const Code& part, std::size_t sum, int per_vec4);
  Result<void> leave_partial(const std::function<Code(std::size_t sum)>& vec4_of);
  /// Whether a store is of what a block of results leaves.
  [[nodiscard]] bool is_of_block(std::size_t store) const;
  [[nodiscard]] bool leaves_parts() const { return schedule_.splits > 1 && dispatch_ == 0; }
  [[nodiscard]] Code across(const TileOperand& tile_operand) const {
    return tile_operand.across == kN ? "tile_n" : "tile_m";
  }
  void join_rows(std::size_t tile_operand, const Code& inside);
  void finish_rows();
  std::vector<Code> load_operand_registers(const TileOperand& tile_operand);
  void multiply();
  void lay_out_sums();
  /// A loop over a thread's results.
  void open_over_results(std::string_view counter, int count);
  Result<void> store_results();

  // --- hoisted values of rows, and reductions of results (lower_epilogue.cpp) ---
  /// A reduction that threads do one by one, and the function that joins two of its partial results.
  struct Reduction {
    ValueId id = 0;
    Code type, function;
    Code array, slots;  ///< of an epilogue reduction: registers, and shared memory
    Part operand;
  };
  [[nodiscard]] Reduction make_reduction(ValueId id) const;
  [[nodiscard]] bool is_mean(ValueId id) const {
    return graph_.node(loops_.values[id].node).op->reduction.kind == ops::Reduction::Kind::mean;
  }
  [[nodiscard]] bool in_two_parts(ValueId id) const { return schedule::sums_in_two_parts(graph_, loops_, id); }
  void join_function(ValueId id, bool in_parts, const Code& function);
  /// Of what is known before some values are computed, what they need.
  [[nodiscard]] std::vector<ValueId> needed(const std::vector<ValueId>& values, const std::vector<ValueId>& requested,
                                            const std::vector<ValueId>& known) const;
  void make_hoisted();
  /// Adds what is known after them to `known`.
  void make_epilogues(std::vector<ValueId>& known);
  /// The part that computes what a block of results leaves, or all other stores.
  [[nodiscard]] Part make_store_part(Code name, bool of_block, const std::vector<ValueId>& known) const;
  Result<void> reduction_functions();
  /// Calls the function of one element, which gives `result`.
  void compute(const Part& part, int element, const std::function<Code(ValueId)>& name_of, const Code& result,
               const std::map<ValueId, Code>& groups);
  /// The same of all elements of a chunk.
  Result<void> compute_vec4(const Part& part, const std::function<Code(ValueId, int e)>& name_of, const Code& result);
  Result<void> find_row_values();
  Result<void> reduce_hoisted(const Reduction& reduction);
  /// An epilogue reduction of elements that threads have in registers.
  [[nodiscard]] Code joined_vec4(const Reduction& reduction, const Code& vec4) const;
  [[nodiscard]] Code mean_of_block(const Reduction& reduction, const Code& sum, const Code& low) const;
  /// How the chunks of results are told apart whose vec4s a thread keeps in registers while they are reduced.
  struct EpilogueChunks {
    int count = 1;
    /// A thread's chunk, its row in the tile, its position among the vec4s of the row.
    Code register_index, row, column;
    std::function<Code(std::size_t sum, int e)> sum_of;
    std::function<void(bool stays_inside)> open;
    std::function<void()> close;
    std::function<void(const Reduction& epilogue, const Code& joined)> leave;
    std::function<void(const Reduction& epilogue)> join;
  };
  Result<void> reduce_epilogues(const EpilogueChunks& chunks);
  Result<void> store_epilogues();
  void open_thread_vec4s();
  void close_thread_vec4s();
  void join_block(const Reduction& epilogue, const Code& register_index);
  /// Stores what a block of results leaves, where `m`, `chunk` and `inside` are known.
  Result<void> store_block(const std::function<Code(ValueId)>& name_of);
  /// Stores the chunk that `chunk` and `m` name; `sum_of` is element `e` of a sum, `row` the row in the tile.
  Result<void> store_one(const std::function<Code(ValueId known, int e)>& name_of, const Code& loaded = {});
  /// Of a value that is known of a row of the tile, or a sum.
  Code known_name(ValueId id, const Code& row, int e, const std::function<Code(std::size_t sum, int e)>& sum_of) const;
  [[nodiscard]] Code limits_of_results(int elements);

  // --- with cooperative matrices: what threads own otherwise, subgroups do ---
  [[nodiscard]] int fragment_rows() const { return shape_.thread_m / static_cast<int>(tile_.mma()->m); }
  [[nodiscard]] int fragment_columns() const { return shape_.thread_n / static_cast<int>(tile_.mma()->n); }
  /// Between rows of a subtile.
  [[nodiscard]] int subtile_vec4s() const { return tile_.cooperative()->subtile / 4 + 1; }
  [[nodiscard]] Code sum_type() const {
    return fragment(tile_.mma()->c, tile_.mma()->m, tile_.mma()->n, "Accumulator");
  }
  /// Four of what a sum is while it is added up; the reduction itself may be of another dtype.
  [[nodiscard]] Code sums_vec4(std::size_t sum) const { return group_type(sums_register(sum), 4, dialect_); }
  [[nodiscard]] ops::RegisterType sums_register(std::size_t sum) const {
    return ops::register_type_of(tile_.mma()           ? tile_.mma()->c
                                 : tile_.integer_dot() ? DType::i32
                                                       : dtype_of(loops_.values[tile_.sums[sum].reduction]));
  }
  [[nodiscard]] ops::RegisterType register_of(ValueId id) const {
    return ops::register_type_of(dtype_of(loops_.values[id]));
  }
  void multiply_cooperative();

  // --- results that leave through shared memory (lower_subtiles.cpp) ---
  /// How a subgroup's results are cut into subtiles, and these into chunks.
  struct SubtileWalk {
    int elements = 1;         ///< of a chunk
    int row_chunks = 1;       ///< of a row of a subtile
    int chunks = 1;           ///< of a subtile
    int side_by_side = 1;     ///< subtiles
    int iterations = 1;       ///< subtiles of a subgroup
    int together = 1;         ///< chunks of a thread whose loads are in flight at a time
    bool prefetched = false;  ///< loads are in flight before chunks are stored
    bool at_once = false;     ///< all chunks of a thread are in flight together
    /// The loads of a subtile are in flight while the one before it is stored.
    [[nodiscard]] bool in_turns() const { return prefetched && at_once && iterations > 1; }
  };
  [[nodiscard]] SubtileWalk make_subtile_walk() const;
  void locate_in_subtile(const SubtileWalk& walk, bool stays_inside, const Code& iteration);
  void declare_chunks_in_flight(int chunks);
  void prefetch_chunks(const SubtileWalk& walk, const Code& start, const Code& register_index, const Code& iteration);
  void put_subtile(const SubtileWalk& walk);
  void open_subtile_chunks(const SubtileWalk& walk);
  Result<void> store_chunks_of_subtile(const SubtileWalk& walk);
  Result<void> store_epilogues_of_subtile(const SubtileWalk& walk);
  Result<void> store_subtiles();

  // --- tiles that the workgroup multiplies as one (lower_workgroup.cpp) ---
  Result<void> result_of_workgroup_tile();
  Result<void> workgroup_tile_main();
  /// How an operand or the results lie in memory: the layout `name`, of which a tile begins at the word NAME_at.
  void layout_of(const Code& name, const Code& rows, const Code& columns, std::int64_t stride, bool clamped);
  /// How a tile's part of an operand is brought in a step along k.
  struct TensorLoad {
    const TileOperand* tile_operand = nullptr;
    Code buffer, rows;  ///< the layout's name
    std::int64_t stride = 0;
    bool found_by_step = false;  ///< where it begins
    bool turned = false;         ///< rows in memory are columns of the matrix
  };
  TensorLoad locate_rows(const TileOperand& tile_operand, const schedule::TileOperand& planned);
  void layout_of_piece(const TensorLoad& piece, const Code& name, bool clamped);
  void find_piece(const TensorLoad& piece, const Code& k);
  void multiply_step(const std::vector<TensorLoad>& pieces, const std::vector<Code>& layouts);
  void multiply_workgroup_tile(const std::vector<TensorLoad>& pieces);
  Code bring_beside(ValueId id);
  void locate_first(const Code& first, const Code& tile, int piece, const std::vector<int>& axes);
  void store_workgroup_tile();
  void leave_workgroup_tile();
  [[nodiscard]] std::int64_t depth_of_part() const;
  Code first_k(int elements);

  // --- fragments that lanes make (lower_lane_fragments.cpp) ---
  /// Chunks of an operand that a lane has in flight; 0 where threads bring tiles.
  [[nodiscard]] int chunks_of_lane(const schedule::TileOperand& planned) const;
  void find_pairs();
  [[nodiscard]] std::vector<Code> paired(std::vector<Code> words);
  void declare_lanes();
  void locate_chunk_of_lane(const TileOperand& tile_operand, const Code& step);
  Result<void> fetch_chunks_of_lane(const Code& step);
  Result<void> words_of_lane(const TileOperand& tile_operand);
  Result<void> multiply_lanes();
  Result<void> sum_of_lanes();
  Result<void> store_sums_of_lanes();
  Result<void> lane_fragments_main();

  const schedule::MatmulParams& tile_;
  const schedule::TileShape& shape_;
  std::vector<TileOperand> tile_operands_;
  int pairs_apart_ = 1;          ///< elements of a word of fragments that lanes make
  std::vector<Code> sums_;       ///< the accumulators
  bool unrolls_results_ = true;  ///< loops over a thread's results
  std::vector<RowReduction> row_reductions_;
  std::vector<Code> subtiles_;  ///< with cooperative matrices: where rows of the results are staged
  Part results_;
  std::vector<Reduction> hoisted_;      ///< reductions of which row values are made
  std::map<ValueId, Code> row_arrays_;  ///< shared memory: what is known of each row of the tile
  Part kept_;
  Code kept_array_;
  std::vector<Reduction> epilogues_;
  Part block_;  ///< what a block leaves, and its stores
  int dispatch_ = 0;
};

}  // namespace vkfuse::lowering
