#include "runtime/tune.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <tuple>

#include "base/mutations.hpp"
#include "ops/op.hpp"
#include "templates/planning.hpp"

namespace vkfuse::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostCandidates = 16;  ///< of a kernel, the best by the model
constexpr int kRounds = 9;
constexpr double kSampleUs = 200;  ///< of one measurement, about
constexpr int kMostRepeats = 32;

/// One way to run a step.
struct Candidate {
  schedule::Tuning tuning;
  plan::ScheduledKernel scheduled;
  Launches kernels;
  std::vector<std::shared_ptr<const CompiledKernel>> compiled;
  std::optional<vulkan::Buffer> scratch, counters;
  std::optional<vulkan::CommandBuffer> commands;
  std::vector<double> times_us;
};

/// Numbers that floats of every width hold: sums and products of few of them are exact.
std::vector<std::byte> pattern(DType dtype, std::int64_t bytes, std::uint32_t seed) {
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  const auto width = static_cast<std::size_t>(size_of(dtype));
  std::uint32_t state = seed;
  for (std::size_t at = 0; at + width <= data.size(); at += width) {
    state = state * 1664525u + 1013904223u;
    const int step = static_cast<int>(state >> 24) % 17;
    const double number = (step - 8) * 0.25;
    const auto put = [&](auto value) { std::memcpy(data.data() + at, &value, sizeof value); };
    switch (dtype) {
      case DType::f32: put(static_cast<float>(number)); break;
      case DType::f64: put(number); break;
      case DType::f16: put(ops::f16_from(number)); break;
      case DType::bf16: put(ops::bf16_from(number)); break;
      case DType::boolean: put(static_cast<std::uint8_t>(step % 2)); break;
      default: data[at] = static_cast<std::byte>(step % 8); break;  // the others of its bytes are 0
    }
  }
  return data;
}

double number_at(DType dtype, std::span<const std::byte> bytes, std::size_t index) {
  const auto get = [&]<typename T>(T value) {
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f32: return get(float());
    case DType::f64: return get(double());
    case DType::f16: return ops::f16_to(get(std::uint16_t()));
    default: return ops::bf16_to(get(std::uint16_t()));
  }
}

/// A step on buffers of its own.
class Bench {
 public:
  Bench(Program& program, const Specialization& specialization, std::size_t step)
      : program_(program),
        context_(*program.context()),
        symbols_(specialization.symbols),
        segment_(program.plan_of(specialization).steps[step].segment) {}

  /// False: there is no room.
  Result<bool> prepare() {
    std::uint64_t needed = 0;
    for (const std::vector<ir::NodeId>* ids : {&segment_.reads, &segment_.stores}) {
      for (ir::NodeId id : *ids) {
        VKF_TRY(bytes, program_.bytes_of(id, symbols_));
        bytes_[id] = bytes;
        needed += static_cast<std::uint64_t>(bytes);
      }
    }
    if (needed > context_.memory().left(vulkan::BufferKind::device) / 2) return false;
    context_.memory().make_room(needed);
    for (const auto& [id, bytes] : bytes_) {
      VKF_TRY(buffer,
              vulkan::Buffer::create(context_.device(), static_cast<std::uint64_t>(bytes), vulkan::BufferKind::device));
      buffers_.emplace(id, std::move(buffer));
    }
    for (ir::NodeId id : segment_.reads) {
      VKF_CHECK_OK(context_.transfer().upload(
          buffers_.at(id), 0, pattern(program_.plan().graph.node(id).type.dtype, bytes_.at(id), id + 1)));
    }
    return true;
  }

  Result<void> compile(Candidate& candidate) {
    std::vector<const lowering::Kernel*> requested;
    for (const Launch& launch : candidate.kernels) requested.push_back(launch.kernel.get());
    VKF_TRY(compiled, context_.kernels().compile_all(requested));
    candidate.compiled = std::move(compiled);
    if (candidate.scheduled.schedule.scratch_bytes > 0) {
      VKF_TRY(scratch, vulkan::Buffer::create(context_.device(),
                                              static_cast<std::uint64_t>(candidate.scheduled.schedule.scratch_bytes),
                                              vulkan::BufferKind::device));
      candidate.scratch = std::move(scratch);
    }
    if (const auto bytes = static_cast<std::size_t>(candidate.scheduled.schedule.counter_bytes); bytes > 0) {
      VKF_TRY(counters, vulkan::Buffer::create(context_.device(), bytes, vulkan::BufferKind::device));
      VKF_CHECK_OK(context_.transfer().upload(counters, 0, std::vector<std::byte>(bytes)));
      candidate.counters = std::move(counters);
    }
    return {};
  }

  /// What a candidate stores, into memory that holds something else before.
  Result<std::map<ir::NodeId, std::vector<std::byte>>> results(const Candidate& candidate) {
    constexpr std::uint32_t kElse = 0xa5a5a5a5u;
    VKF_TRY(commands, vulkan::CommandBuffer::create(context_.device()));
    VKF_CHECK_OK(commands.begin());
    const std::vector<ir::NodeId>& stores = segment_.stores;
    for (ir::NodeId id : stores) commands.fill({&buffers_.at(id), 0, buffers_.at(id).size()}, kElse);
    commands.barrier(vulkan::Access::transfer, vulkan::Access::compute);
    record(commands, candidate);
    VKF_CHECK_OK(commands.end());
    VKF_TRY(submission, context_.device()->submit(commands));
    VKF_CHECK_OK(submission.wait());
    std::map<ir::NodeId, std::vector<std::byte>> all;
    for (ir::NodeId id : stores) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_.at(id)));
      VKF_CHECK_OK(context_.transfer().download(buffers_.at(id), 0, bytes));
      all.emplace(id, std::move(bytes));
    }
    return all;
  }

  /// One more time of a candidate.
  Result<void> measure(Candidate& candidate) {
    if (!stamps_) {
      VKF_TRY(stamps, vulkan::TimestampPool::create(context_.device(), 2));
      stamps_.emplace(std::move(stamps));
    }
    if (!candidate.commands) {
      VKF_TRY(commands, vulkan::CommandBuffer::create(context_.device()));
      VKF_CHECK_OK(commands.begin());
      commands.reset_timestamps(*stamps_);
      commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
      commands.write_timestamp(*stamps_, 0);
      for (int i = 0; i < repeats_; ++i) {
        record(commands, candidate);
        commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
      }
      commands.write_timestamp(*stamps_, 1);
      VKF_CHECK_OK(commands.end());
      candidate.commands = std::move(commands);
    }
    VKF_TRY(submission, context_.device()->submit(*candidate.commands));
    VKF_CHECK_OK(submission.wait());
    VKF_TRY(at, stamps_->nanoseconds());
    candidate.times_us.push_back(std::max((at[1] - at[0]) * 1e-3 / repeats_, 1e-3));
    return {};
  }

  /// Measures the standard alone, which finds cold clocks, and so decides how often a kernel runs in one measurement.
  /// What it takes.
  Result<double> warm_up(Candidate& standard) {
    for (int i = 0; i < 2; ++i) VKF_CHECK_OK(measure(standard));
    const double us = standard.times_us.back();
    repeats_ = static_cast<int>(std::clamp(kSampleUs / us, 1.0, static_cast<double>(kMostRepeats)));
    standard.times_us.clear();
    standard.commands.reset();
    return us;
  }

 private:
  void record(vulkan::CommandBuffer& commands, const Candidate& candidate) {
    for (std::size_t k = 0; k < candidate.kernels.size(); ++k) {
      const Launch& launch = candidate.kernels[k];
      if (k > 0) commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
      std::vector<vulkan::BufferRange> bound;
      for (const lowering::Binding& binding : launch.kernel->bindings) {
        const vulkan::Buffer& buffer = binding.counts    ? *candidate.counters
                                       : binding.scratch ? *candidate.scratch
                                                         : buffers_.at(binding.value);
        bound.push_back({&buffer, 0, buffer.size()});
        if (binding.scratch) bound.back() = scratch_range(bound.back(), candidate.scheduled.schedule, binding);
      }
      commands.bind(candidate.compiled[k]->pipeline);
      commands.bind_buffers(bound);
      commands.push_constants(std::as_bytes(std::span(*launch.constants)));
      commands.dispatch(launch.groups_x, launch.groups_y);
    }
  }

  Program& program_;
  Context& context_;
  const SymbolValues& symbols_;
  const segment::Segment& segment_;
  std::map<ir::NodeId, std::int64_t> bytes_;
  std::map<ir::NodeId, vulkan::Buffer> buffers_;
  std::optional<vulkan::TimestampPool> stamps_;
  int repeats_ = 1;  ///< of a kernel in one measurement
};

std::string text_of(const Launches& launches) {
  std::string all;
  for (const Launch& launch : launches)
    all += fmt::format("{} {} {}\n{}\n", launch.kernel->workgroup, launch.kernel->subgroup,
                       fmt::join(*launch.constants, ","), launch.kernel->key);
  return all;
}

/// As their texts are, without writing those.
struct ByText {
  bool operator()(const Launches& a, const Launches& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const Launch& x, const Launch& y) {
      const auto parts = [](const Launch& launch) {
        return std::tie(launch.kernel->workgroup, launch.kernel->subgroup, *launch.constants, launch.kernel->key);
      };
      return parts(x) < parts(y);
    });
  }
};

class Tuner {
 public:
  Tuner(Program& program, const SymbolValues& symbols, const TuneOptions& options)
      : program_(program), symbols_(symbols), options_(options), start_(Clock::now()) {
    progress_.budget_ms = options.budget_ms;
  }

  Result<TuneProgress> run() {
    VKF_TRY(specialization, program_.specialization(symbols_));
    // Steps of one text run alike: layers that repeat are measured once.
    std::map<Launches, std::vector<std::size_t>, ByText> groups;
    for (std::size_t i = 0; i < specialization->steps.size(); ++i) {
      const plan::ScheduledKernel& step = specialization->steps[i];
      const bool can = !step.alias && step.pieces.empty() && step.schedule.launch.chunks > 0 &&
                       step.schedule.cost.modelled_us < program_.options().longest_submission_us / 4 &&
                       !schedule::tunings_near(step.schedule, program_.plan().target.caps).empty();
      if (can) groups[specialization->kernels[i]].push_back(i);
    }
    std::vector<const decltype(groups)::value_type*> order;
    for (const auto& group : groups) order.push_back(&group);
    const auto weight = [&](const auto* group) {
      return static_cast<double>(group->second.size()) *
             specialization->steps[group->second.front()].schedule.cost.modelled_us;
    };
    std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return weight(a) > weight(b); });
    progress_.segments = static_cast<int>(order.size());
    std::map<std::size_t, schedule::Tuning> found;
    for (const auto* group : order) {
      if (is_over()) break;
      VKF_TRY(tuning, best_of(*specialization, group->second.front()));
      if (tuning) {
        for (std::size_t step : group->second) found[step] = *tuning;
        ++progress_.adopted;
      }
      ++progress_.segment;
      tell();
    }
    if (!found.empty()) {
      program_.adopt(*specialization, found);
      VKF_TRY(ready, program_.specialization(symbols_));  // compiled already: the next run begins at once
      static_cast<void>(ready);
    }
    progress_.spent_ms = spent_ms();
    return progress_;
  }

 private:
  [[nodiscard]] double spent_ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }
  [[nodiscard]] bool is_over() const { return spent_ms() >= options_.budget_ms || (options_.stop && options_.stop()); }
  void tell() {
    progress_.spent_ms = spent_ms();
    if (options_.progress) options_.progress(progress_);
  }

  [[nodiscard]] bool takes_more(const Specialization& specialization, std::size_t step,
                                const schedule::Tuning& tuning) {
    const auto written = program_.write_planned_kernel(specialization, step, tuning);
    return !written || written->scheduled.schedule.scratch_bytes > specialization.steps[step].schedule.scratch_bytes;
  }

  /// Nothing: the kernel stays as it is.
  Result<std::optional<schedule::Tuning>> best_of(const Specialization& specialization, std::size_t step) {
    std::vector<schedule::Tuning> tunings =
        schedule::tunings_near(specialization.steps[step].schedule, program_.plan().target.caps);
    for (schedule::Tuning& tuning : tunings) tuning.f16_accumulation = program_.options().tuning.f16_accumulation;
    // Of a plan that fits a memory budget, schedules that take more memory for partial results are none.
    if (program_.plan_of(specialization).budget)
      std::erase_if(tunings, [&](const schedule::Tuning& tuning) { return takes_more(specialization, step, tuning); });
    Context& context = *program_.context();
    store::Store& store = context.opened().store();
    const vulkan::DeviceInfo& info = context.device()->info();
    const std::string key =
        fmt::format("schedule on {} {} {:x}\n{}", vulkan::to_text(info.device_uuid), vulkan::to_text(info.driver_uuid),
                    info.driver_version, text_of(specialization.kernels[step]));
    if (const auto kept = store.load(store::Kind::schedule, key)) {
      const std::string known(reinterpret_cast<const char*>(kept->data()), kept->size());
      if (known.empty()) return std::optional<schedule::Tuning>();
      for (const schedule::Tuning& tuning : tunings) {
        if (schedule::to_text(tuning) == known) return std::optional(tuning);
      }
    }
    VKF_TRY(measured, measure(specialization, step, tunings));
    if (!measured) return std::optional<schedule::Tuning>();  // the budget was over first
    const std::string found = *measured ? schedule::to_text(**measured) : "";
    store.save(store::Kind::schedule, key, std::as_bytes(std::span(found)));
    return *std::move(measured);
  }

  /// Other schedules of the step, the best by the model first.
  std::vector<Candidate> candidates(const Specialization& specialization, std::size_t step,
                                    const std::vector<schedule::Tuning>& tunings) {
    std::vector<Candidate> all;
    std::set<Launches, ByText> known = {specialization.kernels[step]};
    for (const schedule::Tuning& tuning : tunings) {
      if (is_over()) break;
      auto written = program_.write_planned_kernel(specialization, step, tuning);
      if (!written || !schedule::keeps_sum_chains_short(written->scheduled.loops, written->scheduled.schedule))
        continue;
      if (!known.insert(written->kernels).second) continue;
      Candidate one;
      one.tuning = tuning;
      one.scheduled = std::move(written->scheduled);
      one.kernels = std::move(written->kernels);
      all.push_back(std::move(one));
    }
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return a.scheduled.schedule.cost.modelled_us < b.scheduled.schedule.cost.modelled_us;
    });
    if (all.size() > kMostCandidates) all.erase(all.begin() + kMostCandidates, all.end());
    return all;
  }

  using Found = std::optional<schedule::Tuning>;

  /// Nothing at all: the budget was over before there was an answer.
  Result<std::optional<Found>> measure(const Specialization& specialization, std::size_t step,
                                       const std::vector<schedule::Tuning>& tunings) {
    Bench bench(program_, specialization, step);
    VKF_TRY(fits, bench.prepare());
    if (!fits) return std::optional<Found>(Found());
    Candidate standard;
    standard.scheduled = specialization.steps[step];
    standard.kernels = specialization.kernels[step];
    VKF_CHECK_OK(bench.compile(standard));
    VKF_TRY(expected, bench.results(standard));
    VKF_TRY(standard_us, bench.warm_up(standard));
    // A candidate may take some times as long, and is one submission.
    if (standard_us > program_.options().longest_submission_us / 4) return std::optional<Found>(Found());
    std::vector<Candidate> all = candidates(specialization, step, tunings);
    if (is_over()) return std::optional<Found>();  // there may be more
    VKF_TRY(are_compared, keep_right(bench, expected, all));
    if (!are_compared) return std::optional<Found>();
    VKF_TRY(are_timed, time_in_turns(bench, standard, all));
    if (!are_timed) return std::optional<Found>();
    return std::optional<Found>(fastest(standard, all));
  }

  /// Leaves the candidates whose results are right. False: the budget was over first.
  Result<bool> keep_right(Bench& bench, const std::map<ir::NodeId, std::vector<std::byte>>& expected,
                          std::vector<Candidate>& all) {
    std::vector<Candidate> kept;
    for (Candidate& one : all) {
      if (is_over()) return false;
      VKF_TRY(right, is_right(bench, one, expected));
      ++progress_.candidates;
      if (right) kept.push_back(std::move(one));
    }
    all = std::move(kept);
    return true;
  }

  /// Some rounds, in which each runs once. What is far behind is not looked at any longer. False: the budget was over
  /// first.
  Result<bool> time_in_turns(Bench& bench, Candidate& standard, std::vector<Candidate>& all) {
    const auto least = [](const Candidate& one) { return *std::min_element(one.times_us.begin(), one.times_us.end()); };
    for (int round = 0; round < kRounds; ++round) {
      VKF_CHECK_OK(bench.measure(standard));
      for (Candidate& one : all) {
        if (is_over()) return false;
        VKF_CHECK_OK(bench.measure(one));
      }
      if (round >= 1) std::erase_if(all, [&](const Candidate& one) { return least(one) > 1.2 * least(standard); });
    }
    return true;
  }

  /// Nothing: none is faster than the standard beyond noise.
  static Found fastest(const Candidate& standard, const std::vector<Candidate>& all) {
    const auto median = [](std::vector<double> times) {
      std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
      return times[times.size() / 2];
    };
    const Candidate* best = nullptr;
    for (const Candidate& one : all) {
      if (!beyond_noise(standard.times_us, one.times_us)) continue;
      if (best == nullptr || median(one.times_us) < median(best->times_us)) best = &one;
    }
    return best == nullptr ? Found() : Found(best->tuning);
  }

  /// A kernel that this driver does not take, or of other results, is no candidate; a lost device is an error.
  Result<bool> is_right(Bench& bench, Candidate& one, const std::map<ir::NodeId, std::vector<std::byte>>& expected) {
    const Result<void> compiled = bench.compile(one);
    if (!compiled.ok())
      return compiled.error().code == ErrorCode::device_lost ? Result<bool>(compiled.error()) : Result<bool>(false);
    VKF_TRY(results, bench.results(one));
    return std::all_of(expected.begin(), expected.end(), [&](const auto& entry) {
      return agree(program_.plan().graph.node(entry.first).type.dtype, entry.second, results.at(entry.first));
    });
  }

  Program& program_;
  const SymbolValues& symbols_;
  const TuneOptions& options_;
  Clock::time_point start_;
  TuneProgress progress_;
};

}  // namespace

bool beyond_noise(std::span<const double> standard, std::span<const double> candidate) {
  if (standard.size() != candidate.size() || standard.size() < 3) return false;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < standard.size(); ++i) ratios.push_back(candidate[i] / standard[i]);
  std::sort(ratios.begin(), ratios.end());
  // Half of the pairs gain 3 % or more, and at most one in eight loses.
  return VKF_PLANT(noise_adopted, ratios[ratios.size() / 2] < 0.97 && ratios[ratios.size() - 1 - ratios.size() / 8] < 1,
                   ratios[0] < 1);
}

bool agree(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  if (!is_float(dtype)) return VKF_PLANT(wrong_candidate, std::equal(a.begin(), a.end(), b.begin()), true);
  // Schedules differ in the order of additions, each within its bound; a kernel that is broken is far off.
  const double bits = dtype == DType::f64 ? 30 : dtype == DType::f32 ? 12 : dtype == DType::f16 ? 7 : 4;
  const double share = std::exp2(-bits);
  const std::size_t count = a.size() / static_cast<std::size_t>(size_of(dtype));
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = number_at(dtype, a, i);
    sum += std::isfinite(x) ? std::abs(x) : 0;
  }
  const double usual = sum / std::max<double>(static_cast<double>(count), 1);
  for (std::size_t i = 0; i < count; ++i) {
    const double x = number_at(dtype, a, i);
    const double y = number_at(dtype, b, i);
    if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
    if (!(std::abs(x - y) <= share * (std::max(std::abs(x), std::abs(y)) + usual)))
      return VKF_PLANT(wrong_candidate, false, true);
  }
  return true;
}

Result<TuneProgress> tune(Program& program, const SymbolValues& symbols, const TuneOptions& options) {
  return Tuner(program, symbols, options).run();
}

}  // namespace vkfuse::runtime
