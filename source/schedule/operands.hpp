// What the templates share that multiply through shared memory: which loads make an operand, and along which axis
// they are wide.
#pragma once

#include "schedule/access.hpp"

namespace vkfuse::schedule {

/// Whether the register type of a dtype has vectors of four 32-bit registers.
bool has_vectors(DType dtype);

/// Whether the reduction adds up products that nobody else reads, in registers of which there are vectors.
bool sums_own_products(const ir::Graph& graph, const segment::Loops& loops, const segment::Value& reduction);

/// The number that a literal is; nothing for any other value.
std::optional<double> number_of(const ir::Graph& graph, const segment::Value& value);

struct RunAxis {
  int axis = 0;
  bool may_shift = false;  ///< runs may begin anywhere
  bool merged = false;     ///< it stands for several
  bool is_wide = true;     ///< chunks are long where each element of memory serves several neighbours, else short
};

/// What lies side by side along an axis, of the loads of a backward slice: bytes, and the widest chunk.
struct Along {
  double bytes = 0;
  int elements = 1;
};
Along along(const ir::Graph& graph, const segment::Loops& loops, std::span<const segment::ValueId> backward_slice,
            RunAxis run_axis, const Tuning& tuning);

/// Where the elements that a load moves for a chunk have 16 bits and are consecutive, or every second is one of them,
/// wherever the first is: such runs are read as words and shifted.
std::optional<AccessPlan> unaligned_access(const ir::Graph& graph, const segment::Loops& loops,
                                           const segment::Value& load, int axis, int elements);

/// The accesses of a schedule whose parts have chunks along axes of their own.
class PartAccesses {
 public:
  PartAccesses(const ir::Graph& graph, const segment::Loops& loops, const Tuning& tuning)
      : graph_(graph),
        loops_(loops),
        tuning_(tuning),
        loads_(loops.values.size()),
        planned_(loops.values.size(), false) {}

  /// The loads among `values`, for chunks of `elements` neighbours along `axis`; -1: there is none.
  void add(std::span<const segment::ValueId> values, int axis, int elements);
  /// The same for chunks along axes that are counted as one, or along the innermost of them, read as shifted words
  /// where that helps.
  void add_tile_operand(std::span<const segment::ValueId> values, std::span<const int> axes,
                        const TileOperand& tile_operand);
  /// The same of the part that stores.
  void add_results(std::span<const segment::ValueId> values, int axis, int elements);
  void write(Schedule& schedule);

 private:
  void plan(const segment::Loops& loops, std::span<const segment::ValueId> values, int axis, int elements);

  const ir::Graph& graph_;
  const segment::Loops& loops_;
  const Tuning& tuning_;
  Schedule part_;  ///< the chunks of the part that is planned, and all stores
  std::vector<AccessPlan> loads_;
  std::vector<bool> planned_;
};

/// Whether what a thread loads of an operand's next tile, so many words for each of its chunks, is in flight while it
/// multiplies, in registers of its own.
bool is_double_buffered(int words, std::int64_t chunks);
/// Chunks whose loads a thread has in flight at a time where it is not.
int loads_in_flight(int chunks);
/// Whether a thread has so few registers that it has the loads of one chunk in flight.
bool has_few_registers(const Target& target);

/// What computing these values once costs, in fused multiply-adds.
double cost_of(const ir::Graph& graph, const segment::Loops& loops, std::span<const segment::ValueId> values);

/// The same of an element of an operand, whose numbers of a few bits become floats by two instructions each.
double cost_of_operand(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule,
                       segment::ValueId operand);

/// What hardware that multiplies many elements at once can take those of an operand as, casts aside: f16, bf16, i8 or
/// u8 numbers. An f16 number that is scaled after the sum (`unscaled`) might overflow unless it is what was loaded. The
/// value behind casts that lose nothing.
segment::ValueId sub32_value(const ir::Graph& graph, const segment::Loops& loops, segment::ValueId id);
std::optional<DType> sub32_dtype(const ir::Graph& graph, const segment::Loops& loops, segment::ValueId id,
                                 bool unscaled);

/// Between neighbours in memory along `across`, in elements, where those along `along` lie side by side and rows begin
/// at multiples of 16 bytes (`per_vector` elements); nothing where that is not so. Axes are counted as one, outermost
/// first.
std::optional<std::int64_t> row_stride(const segment::Loops& loops, const index::Expr& offset,
                                       std::span<const int> across, std::span<const int> along, int per_vector);

}  // namespace vkfuse::schedule
