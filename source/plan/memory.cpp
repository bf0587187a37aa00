#include <algorithm>
#include <functional>
#include <map>

#include "base/mutations.hpp"
#include "plan/plan.hpp"
#include "schedule/in_place.hpp"

namespace vkfuse::plan {

namespace {

bool loads(const segment::Loops& loops, ir::NodeId node) {
  return std::any_of(loops.values.begin(), loops.values.end(), [&](const segment::Value& value) {
    return value.kind == segment::Value::Kind::load && value.node == node;
  });
}

/// Whether the rows of `stored` may be written into the very memory of `read`: it is what they are written into, and
/// they are not made of it. Nothing where neither is part of an update.
std::optional<bool> updates_in_place(const segment::Loops& loops, ir::NodeId read, ir::NodeId stored) {
  for (const segment::Store& store : loops.stores) {
    if (!store.base || (store.node != stored && *store.base != read)) continue;
    return store.node == stored && *store.base == read && !loads(loops, read);
  }
  return std::nullopt;
}

}  // namespace

bool reads_own_place(const Plan& plan, const ScheduledKernels& steps, std::size_t number, ir::NodeId read_here,
                     ir::NodeId stored_here) {
  const ScheduledKernel& step = steps[number];
  const ir::NodeId read = steps.in_loops(number, read_here), stored = steps.in_loops(number, stored_here);
  if (step.schedule.reads_of_others || step.loops.opaque) return false;
  // Nothing else is made of what is read, unless it is an input that is replaced: a driver's compiler may store before
  // it loads where one does not need the other, and NVIDIA's does so whatever the module says of aliases.
  const segment::Loops& loops = step.loops;
  if (const auto replaced = updates_in_place(loops, read, stored)) return *replaced;
  const bool alone = std::all_of(loops.stores.begin(), loops.stores.end(),
                                 [&](const segment::Store& store) { return store.node == stored; });
  if (!alone && !schedule::replaces_input(plan.graph, loops, step.schedule, read, stored)) {
    const std::vector<bool> reached = schedule::computed_from(loops, read);
    const bool others_read = std::any_of(loops.stores.begin(), loops.stores.end(), [&](const segment::Store& store) {
      return store.node != stored && reached[store.value];
    });
    if (VKF_PLANT(over_what_others_read, others_read, false)) return false;
  }
  return std::all_of(step.loops.values.begin(), step.loops.values.end(), [&](const segment::Value& value) {
    if (value.kind != segment::Value::Kind::load || value.node != read) return true;
    return std::any_of(step.loops.stores.begin(), step.loops.stores.end(), [&](const segment::Store& store) {
      return store.node == stored && store.offset == value.offset;
    });
  });
}

namespace {

struct Lifetime {
  ir::NodeId value = 0;
  std::size_t first = 0;  // the step that writes it
  std::size_t last = 0;   // the last step that reads it
  std::int64_t bytes = 0;
  // Values that lie in the same bytes one after the other, each written over the one before, and the step that does so.
  std::vector<std::pair<ir::NodeId, std::size_t>> then = {};
};

constexpr std::size_t kForever = ~std::size_t{0};

/// Of intermediate values, and of the outputs named, which live to the end.
std::vector<Lifetime> lifetimes(const Plan& plan, const std::vector<ir::NodeId>& outputs) {
  std::vector<bool> is_output(plan.graph.size(), false);
  for (const ir::Output& output : plan.graph.outputs()) is_output[output.value] = true;
  std::vector<Lifetime> all;
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> at(plan.graph.size(), kNone);
  for (std::size_t step = 0; step < plan.steps.size(); ++step) {
    for (ir::NodeId value : plan.steps[step].segment.reads) {
      if (at[value] != kNone)
        all[at[value]].last = VKF_PLANT(short_lifetime, std::max(all[at[value]].last, step), all[at[value]].first);
    }
    for (ir::NodeId value : plan.steps[step].segment.stores) {
      const bool requested = is_output[value] && std::find(outputs.begin(), outputs.end(), value) != outputs.end();
      if (is_output[value] && !requested) continue;
      at[value] = all.size();
      all.push_back({value, step, requested ? kForever : step, 0});
    }
  }
  return all;
}

/// Whether the step that writes a value may write it over what it reads.
bool replaces(const Plan& plan, const ScheduledKernels& steps, std::size_t step, ir::NodeId value, ir::NodeId read) {
  return size_of(plan.graph.node(value).type.dtype) == size_of(plan.graph.node(read).type.dtype) &&
         reads_own_place(plan, steps, step, read, value);
}

/// Steps that need no barrier between them and would need one if the later wrote over what both read.
class Waits {
 public:
  explicit Waits(const Plan& plan)
      : plan_(plan), writer_(plan.graph.size(), kNone), readers_(plan.graph.size(), {kNone, kNone}) {
    for (std::size_t step = 0; step < plan.steps.size(); ++step) {
      for (ir::NodeId value : plan.steps[step].segment.reads)
        readers_[value] = {readers_[value].second, static_cast<std::ptrdiff_t>(step)};
      for (ir::NodeId value : plan.steps[step].segment.stores) writer_[value] = static_cast<std::ptrdiff_t>(step);
    }
  }

  /// Whether the last reader of a value waits for its other readers anyway: it reads what a step wrote that comes after
  /// them.
  [[nodiscard]] bool anyway(ir::NodeId value) const {
    const auto [other, last] = readers_[value];
    const std::vector<ir::NodeId>& reads = plan_.steps[static_cast<std::size_t>(last)].segment.reads;
    return std::any_of(reads.begin(), reads.end(),
                       [&, before = other](ir::NodeId read) { return writer_[read] >= before; });
  }

 private:
  static constexpr std::ptrdiff_t kNone = -1;
  const Plan& plan_;
  std::vector<std::ptrdiff_t> writer_;
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> readers_;  // the last but one, and the last
};

/// The same values, those that are written over what their step reads for the last time being one with it.
std::vector<Lifetime> joined_in_place(const Plan& plan, const ScheduledKernels& steps, std::vector<Lifetime> values) {
  const Waits waits(plan);
  std::stable_sort(values.begin(), values.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });
  std::vector<Lifetime> joined;
  std::map<std::size_t, std::vector<std::size_t>> ending;  // of `joined`, by the step that reads them for the last time
  for (Lifetime& value : values) {
    const std::vector<ir::NodeId>& reads = plan.steps[value.first].segment.reads;
    const auto fits = [&](const Lifetime& other) {
      const ir::NodeId end = other.then.empty() ? other.value : other.then.back().first;
      return other.last == value.first && other.first < value.first && other.bytes == value.bytes &&
             std::find(reads.begin(), reads.end(), end) != reads.end() && waits.anyway(end) &&
             replaces(plan, steps, value.first, value.value, end);
    };
    const auto taken = [&](const Lifetime& other) {
      return !other.then.empty() && other.then.back().second == value.first;
    };
    std::vector<std::size_t>& here = ending[value.first];
    const auto at =
        std::find_if(here.begin(), here.end(), [&](std::size_t i) { return !taken(joined[i]) && fits(joined[i]); });
    if (at == here.end()) {
      ending[value.last].push_back(joined.size());
      joined.push_back(std::move(value));
      continue;
    }
    const std::size_t index = *at;
    here.erase(at);
    Lifetime& before = joined[index];
    before.then.emplace_back(value.value, value.first);
    before.last = value.last;
    std::vector<std::size_t>& later = ending[value.last];
    later.insert(std::lower_bound(later.begin(), later.end(), index), index);  // in their order
  }
  return joined;
}

std::int64_t ceil_to(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Buffers of donated inputs, each with what is in it from step to step.
class Given {
 public:
  Given(const Plan& plan, const ScheduledKernels& steps, const Donations& donations) : plan_(plan), steps_(steps) {
    for (const auto& [input, bytes] : donations.inputs) {
      if (static_cast<std::uint64_t>(bytes) > plan.target.caps.memory.max_allocation) continue;  // it lies in pieces
      const bool kept = std::any_of(plan.graph.outputs().begin(), plan.graph.outputs().end(),
                                    [&, id = input](const ir::Output& one) { return one.value == id; }) ||
                        std::any_of(steps.begin(), steps.end(), [&, id = input](const ScheduledKernel& step) {
                          return step.alias && step.alias->of == id;
                        });
      if (kept) continue;  // a result is read there
      Buffer buffer{input, bytes, {}, std::nullopt};
      for (std::size_t step = 0; step < plan.steps.size(); ++step) {
        const auto& reads = plan.steps[step].segment.reads;
        if (std::find(reads.begin(), reads.end(), input) != reads.end()) buffer.last_read = step;
      }
      buffers_.push_back(std::move(buffer));
    }
    // A small value takes a small buffer.
    std::stable_sort(buffers_.begin(), buffers_.end(),
                     [](const Buffer& a, const Buffer& b) { return a.bytes < b.bytes; });
  }

  /// The input in whose buffer the value lies from now on, if there is one. A result takes none of another size: it
  /// would hold the rest for as long as it lives, and in a loop that gives its state away, as training does, results
  /// would wander to larger buffers from turn to turn, each turn with another memory plan.
  std::optional<ir::NodeId> take(const Lifetime& value, std::int64_t bytes) {
    Buffer* const chosen = buffer_for(value, bytes);
    if (chosen == nullptr) return std::nullopt;
    chosen->values.push_back(value);
    return chosen->input;
  }

 private:
  struct Buffer {
    ir::NodeId input = 0;
    std::int64_t bytes = 0;
    std::vector<Lifetime> values;
    std::optional<std::size_t> last_read;
  };

  /// What rows are written into is best where it is: elsewhere it is copied. Null where none is free.
  Buffer* buffer_for(const Lifetime& value, std::int64_t bytes) {
    const ir::Node& node = plan_.graph.node(value.value);
    const bool updates = node.op->role == ops::Role::update_rows;
    Buffer* chosen = nullptr;
    for (Buffer& buffer : buffers_) {
      const bool own = updates && buffer.input == node.operands[0];
      const bool fits = value.last == kForever && !own ? buffer.bytes == bytes : buffer.bytes >= bytes;
      if (!fits || !is_free(buffer, value)) continue;
      if (own) return &buffer;
      if (chosen == nullptr) chosen = &buffer;
    }
    return chosen;
  }

  [[nodiscard]] bool is_free(const Buffer& buffer, const Lifetime& value) const {
    const auto apart = [&](const Lifetime& a, const Lifetime& b) {
      return a.last < b.first || (a.last == b.first && replaces(plan_, steps_, b.first, b.value, a.value));
    };
    const bool among_values = std::all_of(buffer.values.begin(), buffer.values.end(), [&](const Lifetime& other) {
      return apart(other, value) || apart(value, other);
    });
    const Lifetime input{buffer.input, 0, buffer.last_read.value_or(0), buffer.bytes};
    return among_values && (!buffer.last_read || apart(input, value));
  }

  const Plan& plan_;
  const ScheduledKernels& steps_;
  std::vector<Buffer> buffers_;
};

/// Puts each value, in this order, into the lowest gap between values that are alive at the same time.
class Packing {
 public:
  explicit Packing(std::int64_t piece) : piece_(piece) {}

  /// False where offsets leave 63 bits.
  bool place(const Lifetime& value) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (placed_[i].last < value.first || value.last < placed_[i].first) continue;
      taken.emplace_back(slots_[i].offset, slots_[i].offset + slots_[i].bytes);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const std::pair<std::int64_t, std::int64_t>& range : taken) {
      offset = in_one_piece(offset, value.bytes);
      if (range.first - offset >= value.bytes) break;
      offset = std::max(offset, range.second);
    }
    offset = in_one_piece(offset, value.bytes);
    const auto end = checked_add(offset, value.bytes);
    if (!end) return false;
    top_ = std::max(top_, *end);
    slots_.push_back({value.value, offset, value.bytes, value.first, value.last});
    placed_.push_back(value);
    return true;
  }

  [[nodiscard]] std::int64_t top() const { return top_; }
  /// One for each value, of those in the same bytes too.
  [[nodiscard]] std::vector<Slot> slots() const {
    std::vector<Slot> all;
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      Slot slot = slots_[i];
      for (const auto& [value, step] : placed_[i].then) {
        slot.read = step;
        all.push_back(slot);
        slot = {value, slot.offset, slot.bytes, step, placed_[i].last};
      }
      all.push_back(slot);
    }
    return all;
  }

 private:
  [[nodiscard]] std::int64_t in_one_piece(std::int64_t offset, std::int64_t bytes) const {
    return offset % piece_ + bytes <= piece_ ? offset : ceil_to(offset, piece_);
  }

  std::int64_t piece_;
  std::int64_t top_ = 0;
  std::vector<Slot> slots_;
  std::vector<Lifetime> placed_;
};

std::int64_t largest_live(const std::vector<Lifetime>& values, std::size_t steps) {
  std::vector<std::int64_t> change(steps + 1, 0);  // of what is alive, from each step on
  for (const Lifetime& value : values) {
    if (value.first >= steps) continue;
    change[value.first] += value.bytes;
    change[std::min(value.last, steps - 1) + 1] -= value.bytes;
  }
  std::int64_t most = 0, live = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    live += change[step];
    most = std::max(most, live);
  }
  return most;
}

/// No order is best for all graphs, and there are few values: the best of some.
std::optional<Packing> best_packing(const std::vector<Lifetime>& values, std::int64_t piece, std::int64_t bound) {
  using Before = std::function<bool(const Lifetime&, const Lifetime&)>;
  const auto steps = [](const Lifetime& value) { return static_cast<double>(value.last - value.first + 1); };
  const auto area = [&](const Lifetime& value) { return static_cast<double>(value.bytes) * steps(value); };
  const Before orders[] = {
      [](const Lifetime& a, const Lifetime& b) {
        return a.bytes > b.bytes;
      },  // what is hard to place is placed while there is room
      [&](const Lifetime& a, const Lifetime& b) { return area(a) > area(b); },
      [&](const Lifetime& a, const Lifetime& b) { return steps(a) > steps(b); },
      [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; },
  };
  std::optional<Packing> best;
  for (const Before& before : orders) {
    std::vector<Lifetime> sorted = values;
    std::stable_sort(sorted.begin(), sorted.end(), before);  // ties keep running order
    Packing packing(piece);
    if (!std::all_of(sorted.begin(), sorted.end(), [&](const Lifetime& value) { return packing.place(value); }))
      continue;
    if (!best || packing.top() < best->top()) best = std::move(packing);
    if (best->top() == bound) break;
  }
  return best;
}

/// Values that get buffers of their own: one after the other where equal ones are not alive at the same time.
class LargeValues {
 public:
  explicit LargeValues(Memory& memory) : memory_(memory) {}

  Result<void> place(const Lifetime& value, std::int64_t bytes, std::int64_t each) {
    const auto apart = [&](const Lifetime& other) { return other.last < value.first || value.last < other.first; };
    std::size_t at = 0;
    while (at < memory_.large.size() && !(memory_.large[at].bytes == bytes && memory_.large[at].each == each &&
                                          std::all_of(values_[at].begin(), values_[at].end(), apart)))
      ++at;
    if (at == memory_.large.size()) {
      const auto sum = checked_add(memory_.arena_bytes, bytes);
      if (!sum) return invalid("The intermediate values of the graph need more than 2^63 bytes.");
      memory_.arena_bytes = *sum;
      memory_.large.push_back({bytes, each});
      values_.emplace_back();
    }
    values_[at].push_back(value);
    memory_.in_large[value.value] = at;
    return {};
  }

 private:
  Memory& memory_;
  std::vector<std::vector<Lifetime>> values_;  ///< of each buffer
};

/// A value at sizes of symbols.
struct SizedValue {
  Sizes sizes;
  std::int64_t bytes = 0;
  std::int64_t padded = 0;  ///< to the alignment of slots
};

Result<SizedValue> sized(const Plan& plan, ir::NodeId value, const SymbolValues& symbols, std::int64_t alignment) {
  const TensorType& type = plan.graph.node(value).type;
  VKF_TRY(sizes, resolve(type.shape, symbols));
  VKF_TRY(bytes, byte_count(type.dtype, sizes));
  const auto padded = checked_add(bytes, alignment - 1);
  if (!padded) return invalid("The value %{} of type {} is too large.", value, to_text(type));
  return SizedValue{std::move(sizes), bytes, *padded / alignment * alignment};
}

/// The most bytes of the arena that one buffer holds.
std::int64_t most_piece_bytes(const Target& target, std::int64_t alignment) {
  const std::uint64_t most = std::min<std::uint64_t>(target.caps.memory.max_allocation, std::uint64_t{1} << 62);
  return std::max(static_cast<std::int64_t>(most) / alignment, std::int64_t{1}) * alignment;
}

/// What steps have beside their values: partial results of each while it runs, and one slot for all counts, which lives
/// as long as the run.
void add_scratch(const Plan& plan, const ScheduledKernels& steps, std::int64_t alignment, std::vector<Lifetime>& values,
                 Memory& memory) {
  std::int64_t counters = 0;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const schedule::Schedule& schedule = steps[step].schedule;
    if (schedule.scratch_bytes > 0)
      values.push_back({scratch_id(plan, step), step, step, ceil_to(schedule.scratch_bytes, alignment)});
    if (schedule.counter_bytes == 0) continue;
    memory.counters.push_back({counters_id(plan, step), counters, schedule.counter_bytes, step, step});
    counters += ceil_to(schedule.counter_bytes, alignment);
  }
  if (counters > 0) values.push_back({counters_id(plan, steps.size()), 0, steps.size() - 1, counters});
}

/// Where counts are, once the slot of all is placed.
void place_counters(const Plan& plan, std::size_t steps, Memory& memory) {
  const auto all = std::find_if(memory.slots.begin(), memory.slots.end(),
                                [&](const Slot& slot) { return slot.value == counters_id(plan, steps); });
  for (Slot& one : memory.counters) one.offset += all->offset;
}

/// The arena as buffers of the device.
void split_dispatch(Memory& memory) {
  for (const Slot& slot : memory.slots) {
    const auto piece = static_cast<std::size_t>(slot.offset / memory.piece_bytes);
    if (memory.pieces.size() <= piece) memory.pieces.resize(piece + 1, 0);
    memory.pieces[piece] = std::max(memory.pieces[piece], slot.offset % memory.piece_bytes + slot.bytes);
  }
  for (std::int64_t bytes : memory.pieces) memory.arena_bytes += bytes;
}

bool is_within_budget(const Plan& plan, const Memory& memory) {
  return !plan.budget || VKF_PLANT(budget_unchecked, memory.arena_bytes <= plan.budget->bytes, true);
}

Error over_budget(const Plan& plan, const Memory& memory) {
  return make_error(ErrorCode::out_of_memory,
                    "The intermediate values of the graph '{}' take {} bytes at these sizes, and the memory budget is "
                    "{} bytes.",
                    plan.graph.name, memory.arena_bytes, plan.budget->bytes);
}

/// With intermediate values in buffers of donated inputs, or results alone.
enum class InInputs : std::uint8_t { values_too, results };

Result<Memory> plan_memory(const Plan& plan, const SymbolValues& symbols, const ScheduledKernels& steps,
                           const Donations& donations, InInputs in_inputs) {
  const std::int64_t alignment = std::max<std::int64_t>(256, plan.target.caps.memory.offset_alignment);
  Memory memory;
  memory.piece_bytes = most_piece_bytes(plan.target, alignment);

  std::vector<Lifetime> values = lifetimes(plan, donations.outputs);
  std::stable_sort(values.begin(), values.end(),
                   [](const Lifetime& a, const Lifetime& b) { return (a.last == kForever) > (b.last == kForever); });
  Given given(plan, steps, donations);
  std::vector<Lifetime> rest, large;
  LargeValues buffers(memory);
  for (Lifetime& value : values) {
    VKF_TRY(size, sized(plan, value.value, symbols, alignment));
    value.bytes = size.padded;
    if (static_cast<std::uint64_t>(value.bytes) > plan.target.caps.memory.max_allocation) {
      if (value.last == kForever) continue;
      const std::int64_t each = schedule::bytes_of_each_buffer(size_of(plan.graph.node(value.value).type.dtype),
                                                               size.sizes, plan.target.caps.memory.max_allocation);
      VKF_CHECK_OK(buffers.place(value, ceil_to(size.bytes, 16), each));
      large.push_back(value);
    } else if (const auto input = in_inputs == InInputs::values_too || value.last == kForever
                                      ? given.take(value, size.bytes)  // results come first
                                      : std::nullopt) {
      memory.in_inputs[value.value] = *input;
    } else if (value.last != kForever) {
      rest.push_back(value);
    }
  }
  rest = joined_in_place(plan, steps, std::move(rest));
  add_scratch(plan, steps, alignment, rest, memory);
  // Partial results that no buffer of the device holds are no reason not to plan: who runs it is told.
  for (const Lifetime& value : rest) memory.piece_bytes = std::max(memory.piece_bytes, value.bytes);
  const auto packing = best_packing(rest, memory.piece_bytes, largest_live(rest, steps.size()));
  large.insert(large.end(), rest.begin(), rest.end());
  memory.largest_live = largest_live(large, steps.size());
  if (!packing) return invalid("The intermediate values of the graph '{}' need more than 2^63 bytes.", plan.graph.name);
  memory.slots = packing->slots();
  place_counters(plan, steps.size(), memory);
  split_dispatch(memory);
  return memory;
}

}  // namespace

Result<Memory> plan_memory(const Plan& plan, const SymbolValues& symbols, const ScheduledKernels& steps,
                           const Donations& donations) {
  VKF_TRY(memory, plan_memory(plan, symbols, steps, donations, InInputs::values_too));
  if (is_within_budget(plan, memory)) return memory;
  // Fewer values do not always lie closer together.
  VKF_TRY(other, plan_memory(plan, symbols, steps, donations, InInputs::results));
  if (is_within_budget(plan, other)) return other;
  return over_budget(plan, memory);
}

}  // namespace vkfuse::plan
