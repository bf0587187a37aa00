// How a segment runs on a target: items per invocation, vector widths, workgroup size; and what
// that moves. The partitioner asks here; it never decides by itself whether a kernel is possible.
#pragma once

#include <optional>

#include "base/target.hpp"
#include "segment/segment.hpp"

namespace vkfuse::schedule {

/// How one read reaches its elements. An item is `elements_per_item` consecutive elements of the
/// output.
enum class AccessKind : std::uint8_t {
  contiguous,  ///< the item's own elements: whole vectors
  row_vector,  ///< consecutive elements too, at a position computed from the item's coordinates
  row_scalar,  ///< one element for the whole item
  uniform,     ///< one element for the whole kernel
  element,     ///< any: addressed element by element
};
std::string_view name_of(AccessKind kind);

struct ReadPlan {
  AccessKind kind = AccessKind::contiguous;
  int vector_bytes = 0;  ///< of one load instruction
};

/// Overrides for sweeps and tests; nothing is overridden by default.
struct Tuning {
  std::optional<int> workgroup;
  std::optional<int> vector_bytes;    ///< widest access: 4, 8 or 16
  std::optional<int> items_in_flight;
};

/// The pointwise template's choices, and what they cost.
struct Schedule {
  int elements_per_item = 1;
  int items_in_flight = 1;  ///< per invocation; their loads are issued together
  int workgroup = 1;
  bool exact = false;       ///< the element count is a multiple of elements_per_item: no tail
  bool aligned_rows = false;  ///< no item straddles two rows of the innermost axis
  bool wide = false;          ///< more than 2^31 elements: no 31-bit division tricks
  std::vector<ReadPlan> reads;   ///< of Segment::reads
  std::vector<AccessKind> positions;  ///< of Loops::positions
  std::vector<int> store_bytes;  ///< of Segment::stores: bytes of one store instruction

  // The launch at these sizes.
  std::int64_t elements = 0;
  std::int64_t items = 0;
  std::int64_t workgroups = 0;

  // The model.
  std::int64_t bytes_read = 0;     ///< each element once
  std::int64_t bytes_written = 0;
  std::int64_t loads = 0;          ///< load instructions executed, all invocations together
  std::int64_t stores = 0;
  std::int64_t transactions = 0;   ///< 128-byte lines touched per subgroup-wide access, summed
  int registers = 0;               ///< estimate of live 32-bit values per invocation
  double modelled_us = 0;
};

/// The best schedule of a segment at these sizes of its axes, or the reason why it cannot be one
/// kernel on this target (a full sentence naming the limit).
Result<Schedule> best(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                      const SymbolValues& symbols, const Target& target, const Tuning& tuning = {});

/// The sizes of the loop axes, outermost first.
Result<Sizes> axis_sizes(const segment::Loops& loops, const SymbolValues& symbols);

/// Stand-ins for symbols where a plan is made before the sizes are known: about 4096, less where
/// several of them would make a large tensor, within the facts of each symbol.
SymbolValues nominal_symbols(const ir::Graph& graph);

/// Conservative constants of a device type; calibration replaces them.
struct CostModel {
  double copy_gb_per_s = 100;
  double launch_us = 5;
  double gflops = 500;
};
CostModel default_costs(DeviceType type);

}  // namespace vkfuse::schedule
