// The stencil template: a thread reads the rows of a window one after the other, adds up what each of its results takes
// of them in registers, and stores chunks.
#pragma once

#include <functional>

#include "lowering/chunks.hpp"
#include "templates/stencil/geometry.hpp"

namespace vkfuse::lowering {

class StencilEmitter : public ChunkEmitter {
 public:
  /// `in.loops` are those of `blocks`.
  StencilEmitter(const LoweringInput& in, const schedule::StencilBlocks& blocks);
  Result<std::vector<RelocatableKernel>> run();

 private:
  /// The accumulators of a block, an array each.
  struct Sum {
    ValueId id = 0;
    bool in_two_parts = false;  ///< schedule::sums_in_two_parts
    Code name, low;
  };
  /// A load of the windows: what is read of a row, with padding in place of what is outside.
  struct Read {
    ValueId load = 0;
    ValueId value = 0;       ///< the load, or the choice between it and padding
    bool is_padded = false;  ///< positions that the choice's predicates leave out have padding
    Code array;
    bool along_chunk = false;  ///< a position has a chunk of elements
  };

  // --- positions (lower.cpp) ----------------------------------------------------------------------------
  [[nodiscard]] AxisNames own_axes() const override;
  [[nodiscard]] Code argument(const std::string& name, int element) const override;
  void set_axes(Scope& scope, bool element) const override;
  [[nodiscard]] const schedule::WindowAxis& window(std::size_t number) const { return params_.windows[number]; }
  /// Positions of a block along a window's axis, apart from those of a chunk.
  [[nodiscard]] std::int64_t block_extent(std::size_t number) const;
  /// The name of the number of a chunk along that axis.
  [[nodiscard]] std::string_view chunk_name(std::size_t number) const;
  /// The parallel loop axes, and which block along each the thread's is, by its number.
  [[nodiscard]] std::vector<std::pair<int, index::Expr>> block_numbers() const;
  void locate_block(Scope& scope);
  /// Where a sum of the block is, as `element` of the chunk that the loops around are at.
  [[nodiscard]] Code place(const Code& element) const;

  // --- results (lower.cpp) -------------------------------------------------------------------------------
  [[nodiscard]] bool is_of_results(ValueId id) const override { return of_results_[id]; }
  [[nodiscard]] bool is_loaded_whole(ValueId id) const override;
  [[nodiscard]] Code loaded_group(ValueId id, int group, const Code& register_index) override;
  void declare_sums();
  void finish_sums();
  Result<void> results(const Scope& scope);
  Result<void> main_function();

  // --- windows (lower_lines.cpp) -----------------------------------------------------------------------
  void find_products_of_sums();
  void find_inputs();
  void find_arrays_of_fixed();
  Result<void> tap_function();
  void add_to_sum(Scope& scope, const Sum& sum) const;
  [[nodiscard]] bool varies_along_chunk(ValueId id) const;
  /// Whether a weight's chunk is loaded as vectors, at each tap.
  [[nodiscard]] bool is_weight_of_vectors(ValueId id) const;
  /// The values of a role where a scope is; those that differ along a chunk as arrays of one.
  Result<void> values_at(schedule::StencilRole role, Scope& scope);
  Result<void> fixed_values(Scope& scope);
  Result<void> serial_positions(const Scope& scope);
  Result<void> kept_weights(const Scope& scope);
  [[nodiscard]] bool writes_lines_out() const;
  Result<void> window_lines(std::size_t number, const Scope& scope);
  Result<void> line_of_window(const Scope& scope);
  Result<void> taps_of_line(std::size_t number, const Scope& scope);
  Result<void> taps_of_row(Scope scope);
  void name_fixed(Scope& scope) const;
  void name_elements(Scope& scope, const Code& position) const;
  Result<void> computed_elements(const Scope& scope);
  [[nodiscard]] Code position_in_row(const Code& element) const;
  [[nodiscard]] Code number_of_tap() const;
  [[nodiscard]] Code tap_argument(const Scope& scope, ValueId id, const Code& element) const;
  void call_tap(const Scope& scope);
  /// Positions of a row of the window.
  [[nodiscard]] std::int64_t row_extent() const {
    return params_.has_row ? blocks_.window_extent(params_.windows.size() - 1) : 1;
  }
  /// Whether values of the window are computed for all elements of a chunk, at each position of a row.
  [[nodiscard]] bool computes_chunks() const { return !params_.along_window && chunk_.elements > 1; }
  [[nodiscard]] Code window_index(const Code& position, const Code& element, bool along_chunk) const;
  [[nodiscard]] std::vector<ValueId> values_of(schedule::StencilRole role) const;

  // --- reads (lower_reads.cpp) ---------------------------------------------------------------------------
  void find_reads();
  /// A row of the window, or the chunks of its positions.
  void read(const Scope& scope, const Read& one);
  void read_row(Scope& scope, const Read& one);
  void read_chunk(Scope& scope, const Read& one, const Code& position);
  void read_vectors(Scope& scope, const Read& one, const Code& inside, const Code& first);
  /// The words of a load from a position on that is `phase` elements into the first one.
  [[nodiscard]] std::vector<Code> words_of(Scope& scope, const Read& one, std::int64_t words, int phase);
  [[nodiscard]] std::vector<Code> unaligned_words_of(Scope& scope, const Read& one, std::int64_t words);
  /// The elements that words hold, so many from a phase on, as the array's; each where it is inside.
  struct Elements {
    std::int64_t count = 1;
    int phase = 0;
    Code first;  ///< of the array
  };
  void unpack_elements(const Read& one, const std::vector<Code>& words, const Elements& elements,
                       const std::function<Code(std::int64_t)>& inside);
  [[nodiscard]] Code or_padding(const Read& one, const Code& inside, const Code& value) const;
  /// Which ranges of a choice decide for one element after the other along the row, and which for all of it.
  [[nodiscard]] segment::Predicate ranges_of(const Read& one, bool along_row) const;

  const schedule::StencilParams& params_;
  const schedule::StencilBlocks& blocks_;
  std::int64_t count_ = 1;  ///< results of a block
  std::vector<bool> of_results_;
  std::vector<Sum> sums_;
  std::vector<Read> reads_;
  std::vector<ValueId> inputs_;     ///< of the function of a tap
  std::map<ValueId, Code> arrays_;  ///< of inputs that have one, by value
  Code groups_x_;
};

}  // namespace vkfuse::lowering
