#include "runtime/program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/mutations.hpp"
#include "device_model/device_model.hpp"
#include "passes/passes.hpp"
#include "plan/file.hpp"
#include "runtime/custom.hpp"
#include "schedule/matmul_operands.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::size_t kMaxSpecializations = 64;  // least recently used sizes are forgotten
constexpr std::size_t kMaxPlans =
    8;  // beside the first; the last has one kernel per op, which is possible at all sizes

bool is_reduction(const ir::Node& node) {
  const ops::OpClass cls = node.op->cls;
  return cls == ops::OpClass::reduce || cls == ops::OpClass::contraction || cls == ops::OpClass::scan ||
         cls == ops::OpClass::sort;
}

bool adds_up_products(const ir::Graph& graph, const ir::Node& node) {
  const ops::OpClass cls = node.op->cls;
  return cls == ops::OpClass::contraction ||
         (cls == ops::OpClass::reduce && ops::element_row(*graph.node(node.operands[0]).op).is_product);
}

/// What the graph has a use for: 16-bit floats, subgroups that reduce, and what multiplies many narrow numbers at once.
std::vector<FeatureTier> tiers_for(const ir::Graph& graph) {
  const auto any = [&](const auto& is) { return std::any_of(graph.nodes().begin(), graph.nodes().end(), is); };
  const auto has = [&](std::initializer_list<DType> dtypes) {
    return any(
        [&](const ir::Node& node) { return std::find(dtypes.begin(), dtypes.end(), node.type.dtype) != dtypes.end(); });
  };
  const bool products = any([&](const ir::Node& node) { return adds_up_products(graph, node); });
  std::vector<FeatureTier> tiers;
  if (any(is_reduction)) tiers.push_back(FeatureTier::subgroup);
  if (has({DType::f16})) tiers.push_back(FeatureTier::float16);
  if (products && has({DType::i8})) tiers.push_back(FeatureTier::dot_product);
  if (products && has({DType::f16, DType::bf16, DType::i8, DType::u8}))
    tiers.insert(tiers.end(), {FeatureTier::cooperative_matrix, FeatureTier::cooperative_matrix2});
  return tiers;
}

/// Whether some bits of bytes are taken for numbers.
bool has_sub_byte(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& node) {
    return node.op->name == "bit_and" && size_of(node.type.dtype) == 1 && node.type.dtype != DType::boolean;
  });
}

/// The dtypes of the graph of which a workgroup may be worth asking whether it multiplies tiles as one (the test takes
/// a compilation): where there is a workgroup-scope product of known sizes that is large enough, or any is wanted
/// (`forced`).
std::vector<DType> dtypes_of_workgroup_tiles(const ir::Graph& graph, const DeviceModel& model, bool forced) {
  const double fewest_multiply_adds = model.matrices.kernels.workgroup_scope_multiply_adds;
  const auto is_large = [&](const ir::Node& node) {
    const auto* dot = std::get_if<ir::DotPayload>(&node.payload);
    if (dot == nullptr) return false;
    const Shape& a = graph.node(node.operands[0]).type.shape;
    const Shape& b = graph.node(node.operands[1]).type.shape;
    double shared = 1, k = 1, m = 1, n = 1;
    for (int axis : dot->batch_a) shared *= static_cast<double>(a[static_cast<std::size_t>(axis)].size());
    for (int axis : dot->contract_a) k *= static_cast<double>(a[static_cast<std::size_t>(axis)].size());
    for (const Dim& dim : a) m *= static_cast<double>(dim.size());
    for (const Dim& dim : b) n *= static_cast<double>(dim.size());
    m /= shared * k;
    n /= shared * k;
    const auto whole = [](double size, int tile) { return std::fmod(size, tile) == 0; };
    const schedule::TileShape& tile = schedule::kWorkgroupTile;
    // A symbol has size 0, and what is divided by it is no number.
    return whole(m, tile.m) && whole(n, tile.n) && whole(k, tile.k) &&
           (forced || shared * m * n * k >= fewest_multiply_adds);
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_large)) return {};
  std::vector<DType> all;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    if (std::any_of(graph.nodes().begin(), graph.nodes().end(),
                    [&](const ir::Node& node) { return node.type.dtype == dtype; }))
      all.push_back(dtype);
  }
  return all;
}

const std::string& input_name(const ir::Graph& graph, ir::NodeId id) {
  return std::get<ir::InputPayload>(graph.node(id).payload).name;
}

/// The inputs of `prepared` in the order of `graph`: passes keep every input, and not their order.
std::vector<ir::NodeId> inputs_as_written(const ir::Graph& graph, const ir::Graph& prepared) {
  std::map<std::string, ir::NodeId> by_name;
  for (ir::NodeId id : prepared.inputs()) by_name[input_name(prepared, id)] = id;
  std::vector<ir::NodeId> all;
  for (ir::NodeId id : graph.inputs()) all.push_back(by_name.at(input_name(graph, id)));
  return all;
}

/// Dtypes that a device may lack altogether.
Result<void> check_dtypes(const ir::Graph& graph, const Target& target) {
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).type.dtype != DType::f64 || target.caps.float64) continue;
    return unsupported("%{} = {} is f64, and the device '{}' has no 64-bit floats.", id, graph.node(id).op->name,
                       target.name);
  }
  return {};
}

/// The plan that an earlier process has kept, or a new one, kept for the next. What is read is checked as any plan of a
/// file is.
Result<plan::Plan> kept_or_made(Context& context, ir::Graph prepared, const Target& target,
                                const partition::Options& planning) {
  store::Store& store = context.opened().store();
  const std::string key = store.off().empty() ? plan::file_key(prepared, target, planning) : "";
  if (key.empty()) return plan::make_plan(std::move(prepared), target, planning);
  if (const auto kept = store.load(store::Kind::plan, key)) {
    auto plan = plan::from_file({reinterpret_cast<const char*>(kept->data()), kept->size()}, prepared, target);
    if (plan) return plan;
  }
  VKF_TRY(plan, plan::make_plan(std::move(prepared), target, planning));
  if (const auto text = plan::to_file(plan)) store.save(store::Kind::plan, key, std::as_bytes(std::span(*text)));
  return plan;
}

/// A device that takes ages to move a byte: what is planned for it stores as little as can be.
Target where_bytes_are_dear(Target target) {
  CostModel costs = schedule::costs_of(target);
  costs.copy_gb_per_s /= 1e4;
  target.costs = costs;
  return target;
}

Result<std::int64_t> bytes_of_all(const ir::Graph& graph, const std::set<ir::NodeId>& values) {
  std::int64_t all = 0;
  for (const ir::NodeId id : values) {
    const TensorType& type = graph.node(id).type;
    VKF_TRY(sizes, resolve(type.shape, {}));
    VKF_TRY(bytes, byte_count(type.dtype, sizes));
    const auto sum = checked_add(all, bytes);
    if (!sum) return std::numeric_limits<std::int64_t>::max();
    all = *sum;
  }
  return all;
}

/// Bytes that the arena of a plan without symbols takes, and those that the device has for it beside inputs, outputs
/// and constants.
struct ArenaBytes {
  std::int64_t requested, room;
};

Result<ArenaBytes> arena_bytes(const plan::Plan& plan, std::uint64_t limit, const schedule::Tuning& tuning) {
  const std::vector<ir::NodeId> inputs = plan.graph.inputs();
  std::set<ir::NodeId> given(inputs.begin(), inputs.end()), stored;
  for (const ir::Output& output : plan.graph.outputs()) given.insert(output.value);
  for (const plan::PlannedKernel& step : plan.steps) {
    stored.insert(step.segment.stores.begin(), step.segment.stores.end());
    for (const ir::NodeId id : step.segment.reads) {
      if (std::holds_alternative<ir::ConstantPayload>(plan.graph.node(id).payload)) given.insert(id);
    }
  }
  VKF_TRY(taken, bytes_of_all(plan.graph, given));
  const std::int64_t room = std::max<std::int64_t>(0, static_cast<std::int64_t>(limit) - taken);
  VKF_TRY(most, bytes_of_all(plan.graph, stored));
  if (most < room / 2)
    return ArenaBytes{most, room};  // that fits, whatever is padded: nothing has to be scheduled to know it
  VKF_TRY(steps, plan::schedule_all(plan, {}, tuning));
  VKF_TRY(memory, plan::plan_memory(plan, {}, steps));
  return ArenaBytes{memory.arena_bytes, room};
}

/// Of a graph without symbols: the plan, or, if its intermediate values do not fit the device's memory and those of a
/// plan of fewer bytes do, that one.
plan::Plan within_memory(Context& context, plan::Plan plan, const ir::Graph& prepared,
                         const partition::Options& planning, const schedule::Tuning& tuning) {
  const auto fast = arena_bytes(plan, context.memory().limit(), tuning);
  if (!fast || fast->requested <= fast->room || fast->room == 0) return plan;
  auto other = kept_or_made(context, prepared, where_bytes_are_dear(plan.target), planning);
  if (!other) return plan;
  other->target = plan.target;
  const auto small = arena_bytes(*other, context.memory().limit(), tuning);
  if (!small || small->requested > small->room) return plan;
  context.opened().log(LogLevel::info,
                       fmt::format("The plan of '{}' that would be the fastest stores {} bytes of intermediate "
                                   "values, and the device has {}: another one is used, which stores {}.",
                                   plan.graph.name, fast->requested, fast->room, small->requested));
  return *std::move(other);
}

/// Looks for outputs whose memory something else is still read from, or written to.
class SharingCheck {
 public:
  SharingCheck(const Program& program, const Specialization& specialization, const Ranges& ranges)
      : program_(program),
        graph_(program.plan().graph),
        specialization_(specialization),
        steps_(program.plan_of(specialization).steps),
        ranges_(ranges) {}

  Result<void> run() const {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (program_.is_in_place(specialization_, ranges_, i)) continue;  // nothing is written
      for (const ir::NodeId stored : steps_[i].segment.stores) VKF_CHECK_OK(check(i, stored));
    }
    return {};
  }

 private:
  [[nodiscard]] bool share(ir::NodeId a, ir::NodeId b) const { return overlap(ranges_.at(a), ranges_.at(b)); }

  /// Of the output that a value is; empty for any other value.
  [[nodiscard]] std::string output_name(ir::NodeId id) const {
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value == id) return output.name;
    }
    return {};
  }

  /// Whether the step that stores a value reads the same bytes at the same place, and no others of them.
  [[nodiscard]] bool reads_same_place(std::size_t step, ir::NodeId stored, ir::NodeId read) const {
    return plan::reads_own_place(specialization_.steps, step, read, stored) &&
           ranges_.at(stored).offset == ranges_.at(read).offset &&
           size_of(graph_.node(stored).type.dtype) == size_of(graph_.node(read).type.dtype);
  }

  Result<void> check(std::size_t writer, ir::NodeId stored) const {
    const std::string output = output_name(stored);
    if (output.empty()) return {};
    const std::vector<ir::NodeId>& own = steps_[writer].segment.stores;
    for (std::size_t k = writer; k < steps_.size(); ++k) {
      for (const ir::NodeId read : steps_[k].segment.reads) {
        if (!share(stored, read)) continue;
        const bool produced = std::find(own.begin(), own.end(), read) != own.end();
        const bool same_place = k == writer && reads_same_place(k, stored, read);
        if (VKF_PLANT(shared_output, same_place, true) || (k > writer && produced)) continue;
        return invalid("Output '{}' shares memory with %{}, which is still read when the output is written.", output,
                       read);
      }
    }
    for (const ir::Output& other : graph_.outputs()) {
      if (other.value != stored && share(stored, other.value))
        return invalid("Outputs '{}' and '{}' share memory.", output, other.name);
    }
    return {};
  }

  const Program& program_;
  const ir::Graph& graph_;
  const Specialization& specialization_;
  const std::vector<plan::PlannedKernel>& steps_;
  const Ranges& ranges_;
};

}  // namespace

Result<void> Program::prepare(Context& context, const ir::Graph& graph, const ProgramOptions& options) {
  VKF_TRY(prepared, passes::run_pipeline(graph, options.passes));
  VKF_TRY(target,
          context.tiers().target(
              tiers_for(prepared),
              dtypes_of_workgroup_tiles(prepared, device_model(context.opened().base_target()),
                                        options.tuning.cooperative_matrix.value_or(false)),
              options.numerics != codegen::Numerics::strict &&
                  has_sub_byte(prepared)));  // strict: a weight times its scale is rounded, and sums are of that
  if (options.costs) target.costs = options.costs;
  VKF_CHECK_OK(check_dtypes(prepared, target));
  options_ = options;
  partition::Options planning = options.planning;
  planning.fusion = options.fusion;
  prepared_ = prepared;
  VKF_TRY(plan, options.plan.empty() ? kept_or_made(context, std::move(prepared), target, planning)
                                     : plan::from_file(options.plan, std::move(prepared), target));
  for (const ir::Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (dim.is_symbol()) symbols_.insert(dim.name());
    }
  }
  if (options.plan.empty() && options.fusion && symbols_.empty())
    plan = within_memory(context, std::move(plan), prepared_, planning, options.tuning);
  plan_ = std::move(plan);
  inputs_ = inputs_as_written(graph, plan_.graph);
  note_constants(plan_);
  codegen::EmitOptions emitting;
  emitting.numerics = options.numerics;
  shape_buckets_ = std::make_unique<ShapeBuckets>(plan_, options.tuning, emitting);
  return {};
}

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

void Program::note_constants(const plan::Plan& plan) {
  for (const plan::PlannedKernel& step : plan.steps) {
    for (ir::NodeId id : step.segment.reads) {
      const auto* constant = std::get_if<ir::ConstantPayload>(&plan.graph.node(id).payload);
      if (constant != nullptr) constants_read_.emplace(id, constant->bytes);
    }
  }
}

Result<std::shared_ptr<Planned>> Program::plan_again(const SymbolValues& symbols) const {
  for (const ir::Node& node : plan_.graph.nodes()) VKF_CHECK_OK(resolve(node.type.shape, symbols));
  partition::Options planning = options_.planning;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    planning.fusion = options_.fusion && others_.size() + 1 < kMaxPlans;
    planning.alone = alone_;
  }
  planning.sizes = VKF_PLANT(plan_of_representative_sizes, symbols, SymbolValues{});
  // These make another graph, and values are known by those of this one.
  planning.without.insert({partition::PlannerPass::merged_matmuls, partition::PlannerPass::partial_statistics});
  VKF_TRY(plan, plan::make_plan(plan_.graph, plan_.target, planning));
  codegen::EmitOptions emitting;
  emitting.numerics = options_.numerics;
  return std::make_shared<Planned>(std::move(plan), options_.tuning, emitting);
}

Result<void> Program::with_plan_for(const SymbolValues& symbols, const Attempt& attempt) {
  std::optional<Error> first;
  if (!is_refused(plan_)) {
    auto tried = attempt(*shape_buckets_, nullptr);
    if (tried) return {};
    first = std::move(tried).error();
  }
  std::vector<std::shared_ptr<Planned>> others;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    others = others_;
  }
  for (const std::shared_ptr<Planned>& other : others) {
    if (!is_refused(other->plan) && attempt(other->shape_buckets, other)) return {};
  }
  auto made = plan_again(symbols);
  if (!made) return first ? *std::move(first) : std::move(made).error();
  auto tried = attempt((*made)->shape_buckets, *made);
  if (!tried) return first ? *std::move(first) : std::move(tried).error();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (others_.size() < kMaxPlans) others_.push_back(*made);  // another thread may have made as many meanwhile
  note_constants((*made)->plan);
  return {};
}

Result<plan::Plan> Program::unfused_plan() const { return plan::make_plan(prepared_, plan_.target, {false}); }

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
  std::vector<const codegen::Kernel*> requested;
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
  codegen::EmitOptions emitting;
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
    const std::size_t before = alone_.size();
    alone_.insert(members.begin(), members.end());
    if (alone_.size() == before) return false;
    refused_plans_.insert(&plan);
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
  codegen::EmitOptions emitting;
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
      schedule::bytes_of_each_buffer(size_of(type.dtype), sizes, plan_.target.caps.max_allocation));
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
      VKF_TRY(constant, context_->constants().get(context_->device(), bytes));
      constants_.emplace(id, std::move(constant));
    }
    const vulkan::Buffer& buffer = constants_.at(id)->buffer;
    ranges[id] = {&buffer, 0, buffer.size()};
  }
  return ranges;
}

Result<void> Program::check_sharing(const Specialization& specialization, const Ranges& ranges) const {
  return SharingCheck(*this, specialization, ranges).run();
}

}  // namespace vkfuse::runtime
