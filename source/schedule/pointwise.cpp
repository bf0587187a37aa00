// The pointwise template: every invocation owns whole items of consecutive elements, so that loads
// and stores are vectors and neighbouring invocations touch neighbouring vectors.
#include <algorithm>
#include <set>

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

namespace {

constexpr int kLineBytes = 128;

struct Widths {
  int smallest = 8;
  int largest = 1;
};

/// Element sizes of the values that are moved as vectors.
Widths moved_widths(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops) {
  Widths widths;
  const auto add = [&](ir::NodeId id) {
    const int size = size_of(graph.node(id).type.dtype);
    widths.smallest = std::min(widths.smallest, size);
    widths.largest = std::max(widths.largest, size);
  };
  for (const segment::Access& read : loops.reads) {
    if (std::find(read.uses.begin(), read.uses.end(), true) != read.uses.end()) add(read.value);
  }
  for (ir::NodeId id : segment.stores) add(id);
  return widths;
}

/// 16 bytes of the smallest type, but no more than two vectors of the largest: a wider item would
/// spread one load instruction over many cache lines.
int elements_per_item(const Widths& widths, bool single, const Tuning& tuning) {
  const int bytes = tuning.vector_bytes.value_or(16);
  const int wanted = single ? 1 : std::min(bytes / widths.smallest, 2 * bytes / widths.largest);
  // A word is the least a lane may own, so that no two lanes write parts of one.
  return std::max({1, wanted, 4 / widths.smallest});
}

bool uses_all(const segment::Access& access) {
  return std::all_of(access.uses.begin(), access.uses.end(), [](bool used) { return used; });
}
bool uses_none(const segment::Access& access) {
  return std::none_of(access.uses.begin(), access.uses.end(), [](bool used) { return used; });
}

AccessKind kind_of(const segment::Access& access, const Schedule& schedule) {
  if (uses_none(access)) return AccessKind::uniform;
  if (uses_all(access)) return AccessKind::contiguous;
  if (!schedule.aligned_rows) return AccessKind::element;
  return access.uses.back() ? AccessKind::row_vector : AccessKind::row_scalar;
}

ReadPlan plan_read(const segment::Access& access, int element_bytes, const Schedule& schedule) {
  const AccessKind kind = kind_of(access, schedule);
  const bool vector = kind == AccessKind::contiguous || kind == AccessKind::row_vector;
  return {kind, vector ? std::min(16, schedule.elements_per_item * element_bytes) : std::max(4, element_bytes)};
}

std::int64_t read_elements(const segment::Access& access, const Sizes& sizes) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) count *= access.uses[i] ? sizes[i] : 1;
  return count;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// Load instructions per item for one read that is not addressed element by element.
std::int64_t loads_per_item(const ReadPlan& read, int element_bytes, int elements) {
  switch (read.kind) {
    case AccessKind::contiguous:
    case AccessKind::row_vector: return ceil_div(elements * element_bytes, read.vector_bytes);
    default: return 1;
  }
}

/// Lines of one subgroup-wide access, times the accesses: vectors touch consecutive lines; a
/// broadcast touches one.
std::int64_t lines(const ReadPlan& read, std::int64_t items, int item_bytes, int subgroup) {
  const std::int64_t groups = ceil_div(items, subgroup);
  if (read.kind == AccessKind::uniform) return groups;
  if (read.kind == AccessKind::row_scalar) return groups;
  if (read.kind == AccessKind::element) return groups * std::max<std::int64_t>(1, item_bytes / 4);
  return std::max(groups, ceil_div(items * item_bytes, kLineBytes));
}

int estimate_registers(const ir::Graph& graph, const segment::Segment& segment, const Schedule& schedule) {
  // Loaded vectors of all items in flight stay live until used; one element's temporaries beyond.
  int words = 8;
  for (std::size_t i = 0; i < segment.reads.size(); ++i) {
    const int bytes = size_of(graph.node(segment.reads[i]).type.dtype);
    const bool vector = schedule.reads[i].kind != AccessKind::uniform && schedule.reads[i].kind != AccessKind::row_scalar;
    words += schedule.items_in_flight * (vector ? schedule.elements_per_item * bytes / 4 : 1);
  }
  for (ir::NodeId id : segment.stores) words += schedule.elements_per_item * size_of(graph.node(id).type.dtype) / 4;
  return words + 4;
}

double compute_cost(const ir::Graph& graph, const segment::Segment& segment) {
  double cost = 0;
  for (ir::NodeId id : segment.members) cost += static_cast<double>(graph.node(id).op->cost);
  return cost;
}

/// Workgroup sizes, measured on an H200 (docs/performance.md). Starting a workgroup costs about as much
/// as 2.5 KiB of traffic there, so large ones win; with much arithmetic they leave too few to overlap.
int preferred_workgroup(const Target& target, double cost, const Schedule& schedule) {
  if (target.type == DeviceType::cpu) return 256;
  int size = cost > 8 ? 512 : 1024;
  // A small launch is spread over the device instead.
  const std::int64_t per_invocation = std::max<std::int64_t>(1, schedule.items / schedule.items_in_flight);
  while (size > 64 && per_invocation / size < 256) size /= 2;
  return size;
}

void choose_launch(const Target& target, const Tuning& tuning, int read_bytes_per_item, double cost, Schedule& schedule) {
  const int limit = static_cast<int>(std::min(target.caps.max_invocations, target.caps.max_workgroup_x));
  // A memory-bound kernel needs latency x bandwidth bytes in flight. On a GPU 32 bytes of loads per
  // invocation cover that at full occupancy, and more only costs registers; a CPU gains nothing.
  int flight = 1;
  const auto gathers = [](AccessKind kind) { return kind == AccessKind::element; };
  const bool by_element = std::any_of(schedule.reads.begin(), schedule.reads.end(), [&](const ReadPlan& read) { return gathers(read.kind); }) ||
                          std::any_of(schedule.positions.begin(), schedule.positions.end(), gathers);
  if (target.type != DeviceType::cpu && !by_element) {
    while (flight < 4 && flight * std::max(read_bytes_per_item, 8) < 32) flight *= 2;
    // But never at the price of idle compute units: keep enough workgroups to fill a large device.
    while (flight > 1 && schedule.items / (std::int64_t{256} * flight) < 1024) flight /= 2;
  }
  schedule.items_in_flight = by_element ? 1 : tuning.items_in_flight.value_or(flight);
  schedule.workgroup = std::min(tuning.workgroup.value_or(preferred_workgroup(target, cost, schedule)), limit);
  schedule.workgroups = ceil_div(schedule.items, static_cast<std::int64_t>(schedule.workgroup) * schedule.items_in_flight);
  schedule.workgroups_x = std::min<std::int64_t>(schedule.workgroups, target.caps.max_groups_per_axis);
}

Result<void> check_limits(const ir::Graph& graph, const segment::Segment& segment, const Sizes& sizes,
                          const segment::Loops& loops, const Target& target, const Schedule& schedule) {
  const std::size_t buffers = segment.reads.size() + segment.stores.size();
  if (buffers > target.caps.storage_buffers) {
    return unsupported("The segment needs {} storage buffers, and the device allows {} per shader.", buffers,
                       target.caps.storage_buffers);
  }
  // Items, last, row, and the size of every axis but the outermost.
  const std::size_t constants = loops.axes.size() + 2;
  if (constants * 4 > target.caps.push_constant_bytes) {
    return unsupported("The segment has {} loop axes, and the push constants of the device hold the sizes of {}.", loops.axes.size(),
                       target.caps.push_constant_bytes / 4 - 2);
  }
  const auto fits = [&](ir::NodeId id, std::int64_t elements) -> Result<void> {
    const auto bytes = checked_mul(elements, size_of(graph.node(id).type.dtype));
    if (bytes && static_cast<std::uint64_t>(*bytes) <= target.caps.storage_buffer_range) return {};
    return make_error(ErrorCode::out_of_memory,
                      "The value %{} of type {} takes {} bytes, and one storage buffer of this device holds {}.", id,
                      to_text(graph.node(id).type), bytes.value_or(-1), target.caps.storage_buffer_range);
  };
  for (const segment::Access& read : loops.reads) VKF_CHECK_OK(fits(read.value, read_elements(read, sizes)));
  for (ir::NodeId id : segment.stores) VKF_CHECK_OK(fits(id, schedule.elements));
  const std::int64_t groups_limit = static_cast<std::int64_t>(target.caps.max_groups_per_axis) * target.caps.max_groups_per_axis;
  if (schedule.workgroups > groups_limit) {
    return unsupported("The segment needs {} workgroups, and one dispatch of this device has {}.", schedule.workgroups, groups_limit);
  }
  return {};
}

void model(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops, const Sizes& sizes,
           const Target& target, Schedule& schedule) {
  const int subgroup = static_cast<int>(std::max(1u, target.caps.subgroup_size));
  for (std::size_t i = 0; i < loops.reads.size(); ++i) {
    const int bytes = size_of(graph.node(loops.reads[i].value).type.dtype);
    schedule.bytes_read += read_elements(loops.reads[i], sizes) * bytes;
    schedule.loads += schedule.reads[i].kind == AccessKind::element
                          ? schedule.elements
                          : schedule.items * loads_per_item(schedule.reads[i], bytes, schedule.elements_per_item);
    schedule.transactions += lines(schedule.reads[i], schedule.items, schedule.elements_per_item * bytes, subgroup);
  }
  for (std::size_t i = 0; i < segment.stores.size(); ++i) {
    const int bytes = size_of(graph.node(segment.stores[i]).type.dtype);
    schedule.bytes_written += schedule.elements * bytes;
    schedule.stores += schedule.items * ceil_div(schedule.elements_per_item * bytes, schedule.store_bytes[i]);
    schedule.transactions += std::max(ceil_div(schedule.items, subgroup), ceil_div(schedule.elements * bytes, kLineBytes));
  }
  schedule.registers = estimate_registers(graph, segment, schedule);
  const CostModel costs = default_costs(target.type);
  const double memory_us = static_cast<double>(schedule.bytes_read + schedule.bytes_written) / (costs.copy_gb_per_s * 1e3);
  const double compute_us = compute_cost(graph, segment) * static_cast<double>(schedule.elements) / (costs.gflops * 1e3);
  schedule.modelled_us = costs.launch_us + std::max(memory_us, compute_us) + 0.05 * std::min(memory_us, compute_us);
}

}  // namespace

std::string_view name_of(AccessKind kind) {
  constexpr std::string_view names[] = {"contiguous", "row_vector", "row_scalar", "uniform", "element"};
  return names[static_cast<int>(kind)];
}

CostModel default_costs(DeviceType type) {
  switch (type) {
    case DeviceType::discrete: return {500, 4, 10000};
    case DeviceType::integrated: return {50, 8, 1000};
    case DeviceType::cpu: return {10, 20, 20};
    default: return {};
  }
}

Result<Sizes> axis_sizes(const segment::Loops& loops, const SymbolValues& symbols) {
  Sizes sizes;
  for (const Shape& axis : loops.axes) {
    VKF_TRY(dims, resolve(axis, symbols));
    VKF_TRY(count, element_count(dims));
    sizes.push_back(count);
  }
  return sizes;
}

namespace {

/// Every symbol at `size`, or as near to it as its facts allow.
SymbolValues symbols_near(const ir::Graph& graph, std::int64_t size) {
  SymbolValues values;
  for (const ir::Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (!dim.is_symbol()) continue;
      const DimFacts facts = dim.facts();
      const std::int64_t clamped = std::clamp(size, facts.min, facts.max);
      const std::int64_t down = clamped / facts.multiple_of * facts.multiple_of;
      values[dim.name()] = down >= facts.min ? down : down + facts.multiple_of;
    }
  }
  return values;
}

bool all_within(const ir::Graph& graph, const SymbolValues& symbols, std::int64_t most_elements) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    const auto sizes = resolve(node.type.shape, symbols);
    const auto count = sizes ? element_count(*sizes) : Result<std::int64_t>(most_elements);
    return count && *count <= most_elements;
  });
}

}  // namespace

SymbolValues nominal_symbols(const ir::Graph& graph) {
  // Tensors with several symbols must not be refused for a size that nobody asked for.
  constexpr std::int64_t kMostElements = std::int64_t{1} << 24;
  std::int64_t size = 4096;
  while (size > 1 && !all_within(graph, symbols_near(graph, size), kMostElements)) size /= 2;
  return symbols_near(graph, size);
}

namespace {

/// The schedule with items of that many elements.
Result<Schedule> with_items_of(int elements_per_item, const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                               const Sizes& sizes, const Target& target, const Tuning& tuning) {
  Schedule schedule;
  VKF_TRY(elements, element_count(sizes));
  schedule.elements = elements;
  schedule.elements_per_item = elements_per_item;
  schedule.items = ceil_div(elements, schedule.elements_per_item);
  schedule.exact = elements % schedule.elements_per_item == 0;
  schedule.aligned_rows = sizes.size() <= 1 || sizes.back() % schedule.elements_per_item == 0;
  schedule.wide = elements >= (std::int64_t{1} << 31);
  int read_bytes = 0;
  for (const segment::Access& read : loops.reads) {
    const int bytes = size_of(graph.node(read.value).type.dtype);
    schedule.reads.push_back(plan_read(read, bytes, schedule));
    // Rows that are broadcast come from cache: they need no traffic in flight.
    if (schedule.reads.back().kind == AccessKind::contiguous) read_bytes += schedule.elements_per_item * bytes;
  }
  for (const segment::Access& position : loops.positions) schedule.positions.push_back(kind_of(position, schedule));
  for (ir::NodeId id : segment.stores) {
    schedule.store_bytes.push_back(std::min(16, schedule.elements_per_item * size_of(graph.node(id).type.dtype)));
  }
  choose_launch(target, tuning, read_bytes, compute_cost(graph, segment), schedule);
  VKF_CHECK_OK(check_limits(graph, segment, sizes, loops, target, schedule));
  model(graph, segment, loops, sizes, target, schedule);
  return schedule;
}

}  // namespace

Result<Schedule> best(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                      const SymbolValues& symbols, const Target& target, const Tuning& tuning) {
  VKF_TRY(sizes, axis_sizes(loops, symbols));
  VKF_TRY(elements, element_count(sizes));
  const Widths widths = moved_widths(graph, segment, loops);
  const int widest = elements_per_item(widths, elements == 1, tuning);
  VKF_TRY(chosen, with_items_of(widest, graph, segment, loops, sizes, target, tuning));
  // Where rows are no multiple of the widest item, a narrower one that fits them may need fewer
  // accesses than addressing broadcast values one by one.
  for (int narrower = widest / 2; !chosen.aligned_rows && narrower >= std::max(2, 4 / widths.smallest); narrower /= 2) {
    if (sizes.back() % narrower != 0) continue;
    VKF_TRY(other, with_items_of(narrower, graph, segment, loops, sizes, target, tuning));
    if (other.loads + other.stores < chosen.loads + chosen.stores) chosen = std::move(other);
    break;
  }
  return chosen;
}

}  // namespace vkfuse::schedule
