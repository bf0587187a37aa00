// Dispatches and barriers of a run, and where it is cut so that no submission takes long.
#include <algorithm>
#include <cmath>

#include "base/mutations.hpp"
#include "runtime/program.hpp"

namespace vkfuse::runtime {

namespace {

/// Ranges touched since the last barrier.
class Hazards {
 public:
  [[nodiscard]] bool conflict(const vulkan::BufferRange& range, bool write) const {
    const auto overlaps = [&](const vulkan::BufferRange& other) { return overlap(other, range); };
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
Result<void> narrow(vulkan::BufferRange& range, const lowering::Binding& binding) {
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
    for (const lowering::Binding& binding : launch.kernel->bindings) {
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

/// The share that a dispatch has of its step's time.
double share_of_step(const Specialization& specialization, std::size_t step, std::size_t dispatch) {
  // Joining the partial results of a tile takes next to nothing beside computing them.
  constexpr double kOfSums = 0.95;
  const std::size_t dispatches = specialization.kernels[step].size();
  const plan::ScheduledKernel& scheduled = specialization.steps[step];
  const schedule::Template kind = scheduled.schedule.kind();
  const bool joins = (kind == schedule::Template::matmul || kind == schedule::Template::attention) && dispatches == 2 &&
                     scheduled.pieces.empty();
  if (!joins) return 1 / static_cast<double>(dispatches);
  return dispatch == 0 ? kOfSums : 1 - kOfSums;
}

/// Of the workgroups of a dispatch, those of a part; all of none.
double share_of(const Unit& part, const Unit& all) {
  const double groups = static_cast<double>(all.groups_x) * all.groups_y;
  return groups == 0 ? 1 : static_cast<double>(part.groups_x) * part.groups_y / groups;
}

/// A dispatch that takes `us`, in rectangles that take about `room` at most.
std::vector<Unit> cut_to_fit(const Unit& all, double us, double room) {
  const double groups = static_cast<double>(all.groups_x) * all.groups_y;
  const double of_piece = std::max(1.0, std::floor(groups * room / us));  // whole workgroups
  const double pieces = std::clamp(std::ceil(groups / of_piece), 1.0, std::max(1.0, std::min(groups, 65536.0)));
  return pieces <= 1 ? std::vector<Unit>{all} : cut(all, static_cast<std::uint32_t>(pieces));
}

/// Stamps the end of each step where there is a pool. Steps are then timed one by one: each waits for all before.
class StepStamps {
 public:
  StepStamps(vulkan::CommandBuffer& commands, const vulkan::TimestampPool* pool) : commands_(commands), pool_(pool) {
    if (pool_ == nullptr) return;
    commands_.reset_timestamps(*pool_);
    commands_.write_timestamp(*pool_, 0);
  }
  void stamp_up_to(std::size_t step) {
    for (; pool_ != nullptr && stamped_ < step; is_barrier_due_ = true)
      commands_.write_timestamp(*pool_, static_cast<std::uint32_t>(++stamped_));
  }
  /// Whether the next dispatch waits for all before; asked once for each.
  [[nodiscard]] bool take_barrier() { return std::exchange(is_barrier_due_, false); }

 private:
  vulkan::CommandBuffer& commands_;
  const vulkan::TimestampPool* pool_;
  std::size_t stamped_ = 0;
  bool is_barrier_due_ = false;
};

/// Records dispatches one after the other.
class DispatchRecorder {
 public:
  DispatchRecorder(const Program& program, vulkan::CommandBuffer& commands, const Specialization& specialization,
                   const Ranges& ranges)
      : program_(program), commands_(commands), specialization_(specialization), ranges_(ranges) {}

  /// `previous` is the unit before in the part, or null.
  Result<void> record(const Unit& unit, const Unit* previous, StepStamps& stamps) {
    const bool is_same_step = previous != nullptr && previous->step == unit.step;
    if (VKF_PLANT(unchecked_duplicates, !is_same_step, false))
      VKF_CHECK_OK(check_bindings(program_.plan_of(specialization_), unit.step, specialization_.kernels[unit.step]));
    // Pieces of a dispatch are as independent as its workgroups.
    const bool is_independent = is_same_step && previous->dispatch == unit.dispatch;
    const bool is_barrier_due = stamps.take_barrier();
    VKF_TRY(bound, bound_ranges(unit));
    add_barrier(kernel_of(unit), bound, is_barrier_due, is_independent);
    return dispatch(unit, bound);
  }

  /// What the rows of the step are written into, where that is another buffer: before the first of its units.
  Result<void> copy_bases(const Unit& unit) {
    if (unit.dispatch != 0 || unit.base_x != 0 || unit.base_y != 0) return {};
    const plan::Plan& plan = program_.plan_of(specialization_);
    for (const ir::NodeId stored : plan.steps[unit.step].segment.stores) {
      const ir::Node& node = plan.graph.node(stored);
      if (node.op->role != ops::Role::update_rows) continue;
      VKF_TRY(bytes, program_.bytes_of(stored, specialization_.symbols));
      copy_base(ranges_.at(node.operands[0]), ranges_.at(stored), static_cast<std::uint64_t>(bytes));
    }
    return {};
  }

 private:
  /// Not the padding: an output's buffer may be a window of a host's.
  void copy_base(vulkan::BufferRange from, vulkan::BufferRange to, std::uint64_t bytes) {
    using vulkan::Access;
    const bool is_in_place = from.buffer->number() == to.buffer->number() && from.offset == to.offset;
    if (is_in_place || bytes == 0) return;
    from.bytes = to.bytes = bytes;
    commands_.barrier(Access::compute | Access::transfer, Access::compute | Access::transfer);
    if (VKF_PLANT(base_not_copied, true, false)) commands_.copy(from, to);
    commands_.barrier(Access::compute | Access::transfer, Access::compute);
    hazards_.clear();
  }

  [[nodiscard]] const Launch& launch_of(const Unit& unit) const {
    return specialization_.kernels[unit.step][unit.dispatch];
  }
  [[nodiscard]] const lowering::Kernel& kernel_of(const Unit& unit) const { return *launch_of(unit).kernel; }

  /// In the order of the kernel's bindings.
  [[nodiscard]] Result<std::vector<vulkan::BufferRange>> bound_ranges(const Unit& unit) const {
    const plan::Plan& plan = program_.plan_of(specialization_);
    const std::uint64_t most = plan.target.caps.memory.storage_buffer_range;
    std::vector<vulkan::BufferRange> bound;
    for (const lowering::Binding& binding : kernel_of(unit).bindings) {
      const vulkan::BufferRange& range = ranges_.at(binding.counts    ? plan::counters_id(plan, unit.step)
                                                    : binding.scratch ? plan::scratch_id(plan, unit.step)
                                                                      : binding.value);
      bound.push_back(binding.scratch ? scratch_range(range, specialization_.steps[unit.step].schedule, binding)
                                      : range);
      if (binding.bytes > 0) VKF_CHECK_OK(narrow(bound.back(), binding));
      if (bound.back().bytes / 16 > most / 16 + 1) {
        return unsupported(
            "A kernel binds {} bytes of the value %{}, and one storage buffer of this device holds {} (storage_range).",
            bound.back().bytes, binding.value, most);
      }
    }
    return bound;
  }

  void add_barrier(const lowering::Kernel& kernel, const std::vector<vulkan::BufferRange>& bound, bool is_due,
                   bool is_independent) {
    bool conflict = is_due;
    for (std::size_t b = 0; b < bound.size() && !conflict && !is_independent; ++b)
      conflict = hazards_.conflict(bound[b], kernel.bindings[b].store);
    if (VKF_PLANT(missing_barrier, conflict, false)) {
      commands_.barrier(vulkan::Access::compute, vulkan::Access::compute);
      hazards_.clear();
    }
    for (std::size_t b = 0; b < bound.size(); ++b) hazards_.add(bound[b], kernel.bindings[b].store);
  }

  Result<void> dispatch(const Unit& unit, const std::vector<vulkan::BufferRange>& bound) {
    const Launch& launch = launch_of(unit);
    const bool complete = unit.groups_x == launch.groups_x && unit.groups_y == launch.groups_y;
    const lowering::Kernel of_part =
        complete ? lowering::Kernel()
                 : lowering::part_of(launch.whole(), unit.base_x, unit.base_y, unit.groups_x, unit.groups_y);
    VKF_TRY(kept, complete ? program_.compiled(specialization_, unit.step, unit.dispatch)
                           : program_.context()->kernels().compile(of_part));
    commands_.bind(kept->pipeline);
    commands_.bind_buffers(bound);
    commands_.push_constants(std::as_bytes(std::span(complete ? *launch.constants : of_part.constants)));
    commands_.dispatch(unit.groups_x, unit.groups_y);
    return {};
  }

  const Program& program_;
  vulkan::CommandBuffer& commands_;
  const Specialization& specialization_;
  const Ranges& ranges_;
  Hazards hazards_;
};

}  // namespace

bool overlap(const vulkan::BufferRange& a, const vulkan::BufferRange& b) {
  return a.buffer->number() == b.buffer->number() && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

vulkan::BufferRange scratch_range(vulkan::BufferRange all, const schedule::Schedule& schedule,
                                  const lowering::Binding& binding) {
  if (!binding.half || binding.counts) return all;
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(schedule.scratch_bytes) / static_cast<std::uint64_t>(binding.halves);
  all.offset += bytes * static_cast<std::uint64_t>(*binding.half);
  all.bytes = bytes;
  return all;
}

Result<std::shared_ptr<const plan::Memory>> DonatedMemory::find(const plan::Donations& donations,
                                                                const Planning& planning) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (memory_ && donations_ == donations) return memory_;
  }
  VKF_TRY(planned, planning());
  auto memory = std::make_shared<const plan::Memory>(std::move(planned));
  const std::lock_guard<std::mutex> lock(mutex_);
  donations_ = donations;
  memory_ = memory;
  return memory;
}

void Pace::note(double microseconds) {
  double known = shortest_us;
  while ((known == 0 || microseconds < known) && !shortest_us.compare_exchange_weak(known, microseconds)) {
  }
}

Result<void> Pace::wait_for(const vulkan::Submission& run) {
  VKF_TRY(ended, run.done());
  VKF_CHECK_OK(run.wait(std::chrono::nanoseconds(waited_ns)));
  if (!ended) waited_ns = run.age().count();
  return {};
}

double Specialization::modelled_us() const {
  double sum = 0;
  for (const plan::ScheduledKernel& step : steps) sum += step.alias ? 0 : step.schedule.cost.modelled_us;
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
  // Less than what is allowed, because the parts of a run are not equally far off.
  const double room = 0.8 * limit;
  std::vector<Part> parts(1);
  double filled = 0;
  for (std::size_t step = 0; step < specialization.kernels.size(); ++step) {
    for (std::size_t k = 0; k < specialization.kernels[step].size(); ++k) {
      const Unit all = whole(specialization, step, k);
      if (whole_run) {
        parts[0].push_back(all);
        continue;
      }
      const double us =
          specialization.steps[step].schedule.cost.modelled_us * scale * share_of_step(specialization, step, k);
      const bool stays_whole = !lowering::has_parts(*specialization.kernels[step][k].kernel, plan_.target);
      const std::vector<Unit> units = stays_whole ? std::vector<Unit>{all} : cut_to_fit(all, us, room);
      for (const Unit& unit : units) {
        const double own = us * share_of(unit, all);
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
  if (specialization.compiled[step].empty())
    return context_->kernels().compile(*specialization.kernels[step][dispatch].kernel);
  return specialization.compiled[step][dispatch];
}

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
  StepStamps stamps(commands, timestamps);
  DispatchRecorder recorder(*this, commands, specialization, ranges);
  for (std::size_t i = 0; i < part.size(); ++i) {
    const Unit& unit = part[i];
    stamps.stamp_up_to(unit.step);
    if (VKF_PLANT(dropped_last_kernel, false, unit.step > 0 && unit.step + 1 == specialization.kernels.size()))
      continue;
    VKF_CHECK_OK(recorder.copy_bases(unit));
    if (specialization.steps[unit.step].schedule.launch.chunks == 0 || is_in_place(specialization, ranges, unit.step))
      continue;
    VKF_CHECK_OK(recorder.record(unit, i > 0 ? &part[i - 1] : nullptr, stamps));
  }
  stamps.stamp_up_to(specialization.kernels.size());
  return {};
}

}  // namespace vkfuse::runtime
