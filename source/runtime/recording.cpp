// Dispatches and barriers of a run, and where it is cut so that no submission takes long.
#include <algorithm>

#include "base/mutations.hpp"
#include "runtime/program.hpp"

namespace vkfuse::runtime {

namespace {

/// Ranges touched since the last barrier.
class Hazards {
 public:
  [[nodiscard]] bool conflict(const vulkan::BufferRange& range, bool write) const {
    const auto overlaps = [&](const vulkan::BufferRange& other) {
      return other.buffer->number() == range.buffer->number() && other.offset < range.offset + range.bytes &&
             range.offset < other.offset + other.bytes;
    };
    return std::any_of(written_.begin(), written_.end(), overlaps) ||
           (write && std::any_of(read_.begin(), read_.end(), overlaps));
  }
  void add(const vulkan::BufferRange& range, bool write) { (write ? written_ : read_).push_back(range); }
  void clear() {
    read_.clear();
    written_.clear();
  }

 private:
  std::vector<vulkan::BufferRange> read_;
  std::vector<vulkan::BufferRange> written_;
};

/// What a piece of a step binds of a value.
Result<void> narrow(vulkan::BufferRange& range, const codegen::Binding& binding) {
  const auto begin = static_cast<std::uint64_t>(binding.offset), bytes = static_cast<std::uint64_t>(binding.bytes);
  if (begin > range.bytes || bytes > range.bytes - begin)
    return invalid("A kernel binds {} bytes at offset {} of the value %{}, whose buffer has {}.", bytes, begin,
                   binding.value, range.bytes);
  range.offset += begin;
  range.bytes = bytes;
  return {};
}

/// One sentence unless the kernels of a step store each of its results, and nothing else, and read what the step reads.
Result<void> check_bindings(const plan::Plan& plan, std::size_t step, const Launches& launches) {
  const segment::Segment& segment = plan.steps[step].segment;
  const auto has = [](const std::vector<ir::NodeId>& ids, ir::NodeId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  std::vector<ir::NodeId> stored;
  for (const Launch& launch : launches) {
    for (const codegen::Binding& binding : launch.kernel->bindings) {
      if (binding.scratch) continue;
      if (!has(segment.stores, binding.value) && (binding.store || !has(segment.reads, binding.value))) {
        return Error{
            ErrorCode::internal,
            fmt::format("A defect in vkfuse: a kernel of segment {} of '{}' {} %{}, which is none of its values.", step,
                        plan.graph.name, binding.store ? "stores" : "reads", binding.value),
            {}};
      }
      if (binding.store) stored.push_back(binding.value);
    }
  }
  for (ir::NodeId id : segment.stores) {
    if (!has(stored, id))
      return Error{ErrorCode::internal,
                   fmt::format("A defect in vkfuse: no kernel of segment {} of '{}' stores its result %{}.", step,
                               plan.graph.name, id),
                   {}};
  }
  return {};
}

Unit whole(const Specialization& specialization, std::size_t step, std::size_t dispatch) {
  const Launch& launch = specialization.kernels[step][dispatch];
  return {step, dispatch, 0, 0, launch.groups_x, launch.groups_y};
}

/// The workgroups of a dispatch in about `pieces` rectangles.
std::vector<Unit> cut(const Unit& all, std::uint32_t pieces) {
  std::vector<Unit> made;
  const auto ranges = [](std::uint32_t count, std::uint32_t parts) {
    const std::uint32_t each = (count + parts - 1) / parts;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> some;
    for (std::uint32_t first = 0; first < count; first += each) some.emplace_back(first, std::min(each, count - first));
    return some;
  };
  const std::uint32_t rows = std::min(pieces, all.groups_y);
  const std::uint32_t columns = std::min((pieces + rows - 1) / rows, all.groups_x);
  for (const auto& [y, height] : ranges(all.groups_y, rows)) {
    for (const auto& [x, width] : ranges(all.groups_x, columns))
      made.push_back({all.step, all.dispatch, x, y, width, height});
  }
  return made;
}

}  // namespace

vulkan::BufferRange scratch_range(vulkan::BufferRange all, const schedule::Schedule& schedule,
                                  const codegen::Binding& binding) {
  if (!binding.half) return all;
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(schedule.scratch_bytes) / (schedule.sort_passes.size() > 2 ? 2 : 1);
  all.offset += bytes * static_cast<std::uint64_t>(*binding.half);
  all.bytes = bytes;
  return all;
}

void Pace::note(double microseconds) {
  double known = shortest_us;
  while ((known == 0 || microseconds < known) && !shortest_us.compare_exchange_weak(known, microseconds)) {
  }
}

double Specialization::modelled_us() const {
  double sum = 0;
  for (const plan::ScheduledKernel& step : steps) sum += step.alias ? 0 : step.schedule.modelled_us;
  return sum;
}

double Specialization::expected_us() const {
  const double measured = pace.shortest_us;
  return measured > 0 ? measured : modelled_us();
}

std::vector<Part> Program::parts(const Specialization& specialization) const {
  const double limit = options_.longest_submission_us;
  const double modelled = specialization.modelled_us();
  const double expected = specialization.expected_us();
  const double scale = modelled > 0 ? expected / modelled : 1;
  const bool whole_run = expected <= limit;
  std::vector<Part> parts(1);
  double filled = 0;
  for (std::size_t step = 0; step < specialization.kernels.size(); ++step) {
    const std::size_t dispatches = specialization.kernels[step].size();
    for (std::size_t k = 0; k < dispatches; ++k) {
      const Unit all = whole(specialization, step, k);
      if (whole_run) {
        parts[0].push_back(all);
        continue;
      }
      // Less than what is allowed, because the parts of a run are not equally far off.
      const double room = 0.8 * limit;
      // Joining the parts of sums takes next to nothing beside them.
      constexpr double kOfSums = 0.95;
      const schedule::Schedule& schedule = specialization.steps[step].schedule;
      const bool joined =
          schedule.kind == schedule::Template::matmul && dispatches == 2 && specialization.steps[step].pieces.empty();
      const double share = joined ? (k == 0 ? kOfSums : 1 - kOfSums) : 1 / static_cast<double>(dispatches);
      const double us = schedule.modelled_us * scale * share;
      const double groups = static_cast<double>(all.groups_x) * all.groups_y;
      const bool stays_whole = !codegen::has_parts(*specialization.kernels[step][k].kernel, plan_.target);
      const double pieces =
          stays_whole ? 1.0 : std::clamp(std::ceil(us / room), 1.0, std::max(1.0, std::min(groups, 65536.0)));
      const std::vector<Unit> units =
          pieces <= 1 ? std::vector<Unit>{all} : cut(all, static_cast<std::uint32_t>(pieces));
      for (const Unit& unit : units) {
        const double own = us / static_cast<double>(units.size());
        if (filled > 0 && filled + own > room) {
          parts.emplace_back();
          filled = 0;
        }
        parts.back().push_back(unit);
        filled += own;
      }
    }
  }
  return parts;
}

Result<std::shared_ptr<const CompiledKernel>> Program::compiled(const Specialization& specialization, std::size_t step,
                                                                std::size_t dispatch) const {
  // The context keeps what it has compiled.
  if (specialization.compiled[step].empty()) return context_->compile(*specialization.kernels[step][dispatch].kernel);
  return specialization.compiled[step][dispatch];
}

/// Whether a step's value is an alias, and bound to the very bytes that it stands for.
bool Program::is_in_place(const Specialization& specialization, const Ranges& ranges, std::size_t step) const {
  const std::optional<plan::Alias>& alias = specialization.steps[step].alias;
  if (!alias) return false;
  const vulkan::BufferRange& own = ranges.at(plan_of(specialization).steps[step].segment.stores[0]);
  const vulkan::BufferRange& behind = ranges.at(alias->of);
  return own.buffer->number() == behind.buffer->number() &&
         own.offset == behind.offset + static_cast<std::uint64_t>(alias->offset);
}

Result<void> Program::record(vulkan::CommandBuffer& commands, const Specialization& specialization,
                             const Ranges& ranges, const vulkan::TimestampPool* timestamps) const {
  Part all;
  for (std::size_t step = 0; step < specialization.kernels.size(); ++step) {
    for (std::size_t k = 0; k < specialization.kernels[step].size(); ++k) all.push_back(whole(specialization, step, k));
  }
  return record_part(commands, specialization, ranges, all, timestamps);
}

Result<void> Program::record_part(vulkan::CommandBuffer& commands, const Specialization& specialization,
                                  const Ranges& ranges, const Part& part,
                                  const vulkan::TimestampPool* timestamps) const {
  Hazards hazards;
  std::size_t stamped = 0;  // steps whose end has a timestamp
  bool alone = false;       // the next dispatch waits for all before: steps are timed one by one
  const auto stamp_up_to = [&](std::size_t step) {
    for (; timestamps != nullptr && stamped < step; alone = true)
      commands.write_timestamp(*timestamps, static_cast<std::uint32_t>(++stamped));
  };
  if (timestamps != nullptr) {
    commands.reset_timestamps(*timestamps);
    commands.write_timestamp(*timestamps, 0);
  }
  for (const Unit& unit : part) {
    stamp_up_to(unit.step);
    const plan::ScheduledKernel& step = specialization.steps[unit.step];
    if (VKF_PLANT(dropped_last_kernel, false, unit.step > 0 && unit.step + 1 == specialization.kernels.size()))
      continue;
    if (step.schedule.chunks == 0 || is_in_place(specialization, ranges, unit.step)) continue;
    const bool is_checked = &unit != part.data() && (&unit)[-1].step == unit.step;
    if (VKF_PLANT(unchecked_duplicates, !is_checked, false))
      VKF_CHECK_OK(check_bindings(plan_of(specialization), unit.step, specialization.kernels[unit.step]));
    const Launch& launch = specialization.kernels[unit.step][unit.dispatch];
    const codegen::Kernel& kernel = *launch.kernel;
    // Pieces of a dispatch are as independent as its workgroups.
    const bool continued =
        &unit != part.data() && (&unit)[-1].step == unit.step && (&unit)[-1].dispatch == unit.dispatch;
    std::vector<vulkan::BufferRange> bound;
    bool conflict = std::exchange(alone, false);
    for (const codegen::Binding& binding : kernel.bindings) {
      const vulkan::BufferRange& range =
          ranges.at(binding.scratch ? plan::scratch_id(plan_, unit.step) : binding.value);
      bound.push_back(binding.scratch ? scratch_range(range, step.schedule, binding) : range);
      if (binding.bytes > 0) VKF_CHECK_OK(narrow(bound.back(), binding));
      if (bound.back().bytes / 16 > plan_.target.caps.storage_buffer_range / 16 + 1) {
        return unsupported(
            "A kernel binds {} bytes of the value %{}, and one storage buffer of this device holds {} (storage_range).",
            bound.back().bytes, binding.value, plan_.target.caps.storage_buffer_range);
      }
      conflict = conflict || (!continued && hazards.conflict(bound.back(), binding.store));
    }
    if (VKF_PLANT(missing_barrier, conflict, false)) {
      commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
      hazards.clear();
    }
    for (std::size_t b = 0; b < bound.size(); ++b) hazards.add(bound[b], kernel.bindings[b].store);
    const bool complete = unit.groups_x == launch.groups_x && unit.groups_y == launch.groups_y;
    const codegen::Kernel of_part =
        complete ? codegen::Kernel()
                 : codegen::part_of(launch.whole(), unit.base_x, unit.base_y, unit.groups_x, unit.groups_y);
    VKF_TRY(kept, complete ? compiled(specialization, unit.step, unit.dispatch) : context_->compile(of_part));
    commands.bind(kept->pipeline);
    commands.bind_buffers(bound);
    commands.push_constants(std::as_bytes(std::span(complete ? *launch.constants : of_part.constants)));
    commands.dispatch(unit.groups_x, unit.groups_y);
  }
  stamp_up_to(specialization.kernels.size());
  return {};
}

}  // namespace vkfuse::runtime
