#include "runtime/program.hpp"

#include <algorithm>

#include "runtime/custom.hpp"
#include "templates/planning.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::size_t kMaxSpecializations = 64;  // least recently used sizes are forgotten

}  // namespace

Result<std::shared_ptr<Program>> Program::create(std::shared_ptr<Context> context, const ir::Graph& graph,
                                                 const ProgramOptions& options) {
  auto program = std::shared_ptr<Program>(new Program());
  VKF_CHECK_OK(program->prepare(*context, graph, options));
  program->context_ = std::move(context);
  VKF_CHECK_OK(check_custom_code(program->context_->opened(), program->plan_.graph));
  VKF_TRY(first, program->specialization(program->representative()));
  static_cast<void>(first);
  return program;
}

Result<void> Program::check(Context& context, const ir::Graph& graph, const ProgramOptions& options) {
  Program program;
  VKF_CHECK_OK(program.prepare(context, graph, options));
  std::vector<std::shared_ptr<ShapeBuckets::Compiled>> known;
  VKF_TRY(specialization, program.write_specialization(program.representative(), known));
  static_cast<void>(specialization);
  return {};
}

Result<std::shared_ptr<const Specialization>> Program::specialization(const SymbolValues& symbols) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = specializations_.find(symbols);
    if (known != specializations_.end()) {
      recent_.remove(symbols);
      recent_.push_front(symbols);
      return known->second;
    }
  }
  const std::uint64_t adoptions = adoptions_;
  VKF_TRY(made, make_specialization(symbols));
  std::shared_ptr<const Specialization> forgotten;  // freed when others may go on
  const std::lock_guard<std::mutex> lock(mutex_);
  if (adoptions != adoptions_) return made;  // as it was before something was adopted meanwhile: for this run alone
  const auto [known, is_new] = specializations_.emplace(symbols, made);
  if (!is_new) return known->second;  // another thread was first, and may be running it
  recent_.push_front(symbols);
  if (recent_.size() > kMaxSpecializations) {
    const auto oldest = specializations_.find(recent_.back());
    forgotten = std::move(oldest->second);
    specializations_.erase(oldest);
    recent_.pop_back();
  }
  return made;
}

std::shared_ptr<const Specialization> Program::known_specialization(const SymbolValues& symbols) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = specializations_.find(symbols);
  return known == specializations_.end() ? nullptr : known->second;
}

/// All at once, so that they are compiled side by side.
Result<void> Program::compile_kernels(Specialization& specialization,
                                      const std::vector<std::shared_ptr<ShapeBuckets::Compiled>>& known) const {
  specialization.compiled.resize(specialization.kernels.size());
  std::vector<const lowering::Kernel*> requested;
  std::vector<std::size_t> steps;  // that the device does not have yet
  for (std::size_t i = 0; i < specialization.kernels.size(); ++i) {
    if (specialization.steps[i].alias) continue;
    if (i < known.size() && known[i] != nullptr) specialization.compiled[i] = known[i]->get();
    if (!specialization.compiled[i].empty()) continue;
    steps.push_back(i);
    for (const Launch& launch : specialization.kernels[i]) requested.push_back(launch.kernel.get());
  }
  VKF_TRY(compiled, context_->kernels().compile_all(requested));
  auto next = compiled.begin();
  for (std::size_t i : steps) {
    const auto end = next + static_cast<std::ptrdiff_t>(specialization.kernels[i].size());
    specialization.compiled[i].assign(next, end);
    if (i < known.size() && known[i] != nullptr) known[i]->set(specialization.compiled[i]);
    next = end;
  }
  return {};
}

Result<void> Program::write_fixed(Specialization& specialization) const {
  std::map<std::size_t, schedule::Tuning> tuned;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tuned = tuned_;
  }
  const auto choose = [&](std::size_t step, const segment::Loops& loops) -> std::optional<plan::ScheduledKernel> {
    const auto tuning = tuned.find(step);
    if (tuning == tuned.end()) return std::nullopt;
    auto schedule = schedule::best(plan_.graph, loops, plan_.target, tuning->second);
    if (!schedule) return std::nullopt;
    segment::Loops run = schedule::scheduled_loops(plan_.graph, loops, *schedule);
    return plan::ScheduledKernel{std::move(run), *std::move(schedule), std::nullopt, {}};
  };
  VKF_TRY(steps, plan::schedule_all(plan_, {}, options_.tuning, choose));
  specialization.steps = std::move(steps);
  lowering::LoweringOptions emitting;
  emitting.numerics = options_.numerics;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    VKF_TRY(kernels, write_kernels(plan_, i, specialization.steps[i], emitting));
    specialization.kernels.push_back(launches_of(std::move(kernels)));
  }
  return {};
}

Result<std::shared_ptr<Specialization>> Program::write_specialization(
    const SymbolValues& symbols, std::vector<std::shared_ptr<ShapeBuckets::Compiled>>& known) {
  auto specialization = std::make_shared<Specialization>();
  specialization->symbols = symbols;
  if (symbols.empty() && !is_refused(plan_)) {
    VKF_CHECK_OK(write_fixed(*specialization));
  } else {
    VKF_CHECK_OK(
        with_plan_for(symbols, [&](ShapeBuckets& shape_buckets, const std::shared_ptr<Planned>& other) -> Result<void> {
          VKF_TRY(written, shape_buckets.write(symbols));
          specialization->other = other;
          specialization->steps = std::move(written.steps);
          specialization->kernels = std::move(written.kernels);
          known = std::move(written.compiled);
          return {};
        }));
  }
  VKF_TRY(memory, plan::plan_memory(plan_of(*specialization), symbols, specialization->steps));
  specialization->memory = std::move(memory);
  return specialization;
}

Result<std::shared_ptr<const Specialization>> Program::make_specialization(const SymbolValues& symbols) {
  for (;;) {
    std::vector<std::shared_ptr<ShapeBuckets::Compiled>> known;
    VKF_TRY(specialization, write_specialization(symbols, known));
    auto compiled = compile_kernels(*specialization, known);
    if (compiled) return std::shared_ptr<const Specialization>(std::move(specialization));
    if (!set_apart(*specialization, compiled.error())) return std::move(compiled).error();
  }
}

bool Program::is_refused(const plan::Plan& plan) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return refused_plans_.count(&plan) != 0;
}

bool Program::set_apart(const Specialization& specialization, const Error& error) {
  if (error.code != ErrorCode::internal || context_->self_checks()) return false;
  const plan::Plan& plan = plan_of(specialization);
  for (std::size_t i = 0; i < specialization.kernels.size(); ++i) {
    const auto compiles = [&](const Launch& launch) { return context_->kernels().compile(*launch.kernel).ok(); };
    if (specialization.steps[i].alias ||
        std::all_of(specialization.kernels[i].begin(), specialization.kernels[i].end(), compiles))
      continue;
    const std::vector<ir::NodeId>& members = plan.steps[i].segment.members;
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t known = specialization.other ? specialization.other->alone_count : 0;
    alone_.insert(members.begin(), members.end());
    if (alone_.size() == known) return false;
    const bool is_news = refused_plans_.emplace(&plan, specialization.other).second;
    if (!is_news) return true;
    context_->opened().log(LogLevel::warning,
                           fmt::format("A defect in vkfuse: the compiler refuses the kernel of segment {} of "
                                       "'{}', so its {} ops are planned as kernels of their own: {}",
                                       i, plan.graph.name, members.size(), error.message));
    return true;
  }
  return false;
}

Result<ShapeBuckets::WrittenKernel> Program::write_planned_kernel(const Specialization& specialization,
                                                                  std::size_t step,
                                                                  const schedule::Tuning& tuning) const {
  if (specialization.other || !specialization.symbols.empty())
    return (specialization.other ? specialization.other->shape_buckets : *shape_buckets_)
        .write_planned_kernel(step, specialization.symbols, tuning);
  VKF_TRY(loops, segment::build_loops(plan_.graph, plan_.steps[step].segment, {}));
  VKF_TRY(schedule, schedule::best(plan_.graph, loops, plan_.target, tuning));
  ShapeBuckets::WrittenKernel written;
  written.scheduled.loops = schedule::scheduled_loops(plan_.graph, loops, schedule);
  written.scheduled.schedule = std::move(schedule);
  lowering::LoweringOptions emitting;
  emitting.numerics = options_.numerics;
  VKF_TRY(kernels, write_kernels(plan_, step, written.scheduled, emitting));
  written.kernels = launches_of(std::move(kernels));
  return written;
}

void Program::adopt(const Specialization& specialization, const std::map<std::size_t, schedule::Tuning>& tunings) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [step, tuning] : tunings) {
    if (specialization.symbols.empty() && !specialization.other) {
      tuned_[step] = tuning;
    } else {
      (specialization.other ? specialization.other->shape_buckets : *shape_buckets_)
          .tune(step, specialization.symbols, tuning);
    }
  }
  specializations_.clear();
  recent_.clear();
  ++adoptions_;
}

Result<SymbolValues> Program::symbols_for(
    const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes) const {
  SymbolValues symbols;
  for (ir::NodeId id : inputs_) {
    const ir::Node& node = plan_.graph.node(id);
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    const auto given = sizes.find(name);
    if (given == sizes.end()) continue;
    if (given->second.size() != node.type.shape.size()) {
      return invalid("Input '{}' has shape [{}], but the program declares {}.", name, fmt::join(given->second, ", "),
                     to_text(node.type.shape));
    }
    for (std::size_t i = 0; i < given->second.size(); ++i) {
      const Dim& dim = node.type.shape[i];
      const std::int64_t size = given->second[i];
      const std::int64_t want = dim.is_symbol() ? symbols.emplace(dim.name(), size).first->second : dim.size();
      if (want != size)
        return invalid("Input '{}' has size {} in dimension {}, where {} is {}.", name, size, i, dim.text(), want);
    }
  }
  return symbols;
}

Result<void> Program::check_symbols(const SymbolValues& symbols) const {
  for (const auto& symbol : symbols) {
    if (symbols_.count(symbol.first) == 0)
      return invalid("The program '{}' has no symbol '{}'.", plan_.graph.name, symbol.first);
  }
  return {};
}

Result<std::int64_t> Program::bytes_of(ir::NodeId value, const SymbolValues& symbols) const {
  const TensorType& type = plan_.graph.node(value).type;
  VKF_TRY(sizes, resolve(type.shape, symbols));
  return byte_count(type.dtype, sizes);
}

Result<std::uint64_t> Program::piece_bytes(ir::NodeId value, const SymbolValues& symbols) const {
  const TensorType& type = plan_.graph.node(value).type;
  VKF_TRY(sizes, resolve(type.shape, symbols));
  return static_cast<std::uint64_t>(
      schedule::bytes_of_each_buffer(size_of(type.dtype), sizes, plan_.target.caps.memory.max_allocation));
}

Result<vulkan::Buffer> Program::make_buffer(ir::NodeId value, const SymbolValues& symbols,
                                            vulkan::BufferKind kind) const {
  VKF_TRY(bytes, bytes_of(value, symbols));
  VKF_TRY(each, piece_bytes(value, symbols));
  return vulkan::Buffer::create(context_->device(), static_cast<std::uint64_t>(bytes), kind, each);
}

Result<Ranges> Program::constant_ranges() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Ranges ranges;
  for (const auto& [id, bytes] : constants_read_) {
    if (constants_.count(id) == 0) {
      VKF_TRY(constant, context_->constants().get(context_->opened(), bytes));
      constants_.emplace(id, std::move(constant));
    }
    const vulkan::Buffer& buffer = constants_.at(id)->buffer;
    ranges[id] = {&buffer, 0, buffer.size()};
  }
  return ranges;
}

}  // namespace vkfuse::runtime
