// The sort template: pairs of a key and its position are sorted in shared memory, by the key and then by the
// position, so that no two are equal and every order is stable.
#pragma once

#include "lowering/emitter.hpp"

namespace vkfuse::lowering {

class Sort : public Emitter {
 public:
  Sort(const LoweringInput& in, std::size_t sort_pass);

  Result<RelocatableKernel> run();

 private:
  // --- what is sorted, and what becomes of it (lower_values.cpp) ------------------------------------------
  void bind_buffers();
  /// Whether a value computed after the sort is the key at its position in the order.
  [[nodiscard]] bool is_sorted_key(ValueId id, ValueId key);
  [[nodiscard]] bool same_predicate(const segment::Predicate& after, const segment::Predicate& key) const;
  [[nodiscard]] bool same_expr(const index::Expr& after, const index::Expr& key) const;
  [[nodiscard]] std::vector<ValueId> backward_slice_of_keys() const;
  [[nodiscard]] std::vector<ValueId> backward_slice_of_sorted();
  void set_axes(Scope& scope, bool of_keys) const;
  Result<void> key_function();
  [[nodiscard]] bool reads_order(const std::vector<ValueId>& backward_slice) const;
  Result<void> emit_sorted(Scope& scope);
  Result<void> result_function();
  void emit_order(Scope& scope, ValueId id);

  // --- dispatches (lower.cpp) ------------------------------------------------------------------------------
  void order_function();
  void begin_main(bool whole_rows);
  Result<void> block_pass();
  void load_block();
  void step_functions();
  void sort_block();
  void write_block();
  void before_function();
  void split_runs();
  void merge_pass();
  void split_function();
  Result<void> store_pass();
  void store_chunk();
  void store_elements();
  /// Pairs in device memory: positions first, then keys, each word apart from the others.
  [[nodiscard]] Code pair_position(const Code& at) const { return code("pairs_in.w[{}]", at); }
  [[nodiscard]] Code pair_key(const Code& at);
  void write_pair(const Code& at, const Code& key, const Code& position);
  [[nodiscard]] Code all_slots() { return numbers_.size(schedule_.launch.parallel_chunks * params_.slots); }

  [[nodiscard]] const schedule::SortPass& sort_pass() const { return params_.passes[sort_pass_]; }
  [[nodiscard]] bool from_memory() const { return sort_pass().kind == schedule::SortPass::Kind::store; }

  const schedule::SortParams& params_;
  std::size_t sort_pass_;
  ValueId sort_ = 0;
  DType key_type_;
  Code type_;  ///< of a key in registers
  bool descending_ = false;
  std::vector<bool> after_sort_;          ///< values that depend on the order
  std::set<ValueId> sorted_keys_;         ///< those of them that are keys at hand
  std::vector<std::string> coordinates_;  ///< of the result function
  Code rows_, groups_x_;
};

}  // namespace vkfuse::lowering
