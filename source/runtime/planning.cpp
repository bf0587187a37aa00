// The plans of a program: the first, for the features that the device has been shown to have, and those for sizes at
// which the first is impossible.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/mutations.hpp"
#include "device_model/device_model.hpp"
#include "ops/float_formats.hpp"
#include "passes/passes.hpp"
#include "plan/file.hpp"
#include "runtime/program.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::runtime {

namespace {

// Beside the first. The last has one kernel per op, which is possible at all sizes.
constexpr std::size_t kMaxPlans = 8;

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

/// Whether bytes, or some of their bits, are taken for numbers that products of f16 may have.
bool has_sub_byte(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    if (ops::format_decoded_by(*node.op) != nullptr) return true;
    if (node.op->role == ops::Role::cast && node.type.dtype == DType::f16)
      return size_of(graph.node(node.operands[0]).type.dtype) == 1 &&
             graph.node(node.operands[0]).type.dtype != DType::boolean;
    return node.op->role == ops::Role::bit_and && size_of(node.type.dtype) == 1 && node.type.dtype != DType::boolean;
  });
}

/// Whether a product of f16 has as few rows as a fragment that lanes make, more than one, and weights enough for one;
/// of symbols, that is not known.
bool multiplies_few_rows(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    const auto* dot = std::get_if<ir::DotPayload>(&node.payload);
    if (dot == nullptr || node.type.dtype != DType::f16) return false;
    const auto rows_of = [&](ir::NodeId operand, const std::vector<int>& batch, const std::vector<int>& contracted) {
      const Shape& shape = graph.node(operand).type.shape;
      std::int64_t rows = 1;
      for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
        const auto is_axis = [axis](int other) { return other == axis; };
        if (std::ranges::none_of(batch, is_axis) && std::ranges::none_of(contracted, is_axis))
          rows *= shape[static_cast<std::size_t>(axis)].size();
      }
      return rows;
    };
    const std::int64_t first = rows_of(node.operands[0], dot->batch_a, dot->contract_a),
                       second = rows_of(node.operands[1], dot->batch_b, dot->contract_b);
    const std::int64_t few = std::min(first, second);
    return few > 1 && few <= kMostLaneRows && std::max(first, second) > kMostLaneRows;
  });
}

/// The dtypes of the graph of which a workgroup may be worth asking whether it multiplies tiles as one (the test takes
/// a compilation): where there is a workgroup-scope product of known sizes that is large enough, or any is wanted
/// (`forced`).
std::vector<DType> dtypes_of_workgroup_tiles(const ir::Graph& graph, const DeviceModel& model, bool forced) {
  const double fewest_multiply_adds = model.matrices.workgroup_tiles.multiply_adds;
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
    // A symbol has size 0, and what is divided by it is no number.
    const auto fits = [&](const WorkgroupTile& tile) { return m >= tile.m && n >= tile.n; };
    return std::any_of(std::begin(kWorkgroupTiles), std::end(kWorkgroupTiles), fits) &&
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
    if (graph.node(id).type.dtype != DType::f64 || target.caps.arithmetic.float64) continue;
    return unsupported("%{} = {} is f64, and the device '{}' has no 64-bit floats.", id, graph.node(id).op->name,
                       target.name);
  }
  return {};
}

/// The plan that an earlier process has kept, or a new one, kept for the next. What is read is checked as any plan of a
/// file is.
Result<plan::Plan> kept_or_made(store::Store& store, ir::Graph prepared, const Target& target,
                                const partition::Options& planning) {
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
  auto other = kept_or_made(context.opened().store(), prepared, where_bytes_are_dear(plan.target), planning);
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

}  // namespace

Result<void> Program::prepare(Context& context, const ir::Graph& graph, const ProgramOptions& options) {
  VKF_TRY(prepared, passes::run_pipeline(graph, options.passes));
  const std::vector<DType> workgroup_tiles = dtypes_of_workgroup_tiles(
      prepared, device_model(context.opened().base_target()), options.tuning.cooperative_matrix.value_or(false));
  // Not where a weight times its scale is rounded, and sums are of that.
  const bool sub_byte = options.numerics != lowering::Numerics::strict && has_sub_byte(prepared);
  VKF_TRY(target,
          context.tiers().target(tiers_for(prepared), {.workgroup_tiles = workgroup_tiles,
                                                       .sub_byte = sub_byte,
                                                       .lane_fragments = sub_byte || multiplies_few_rows(prepared)}));
  if (options.costs) target.costs = options.costs;
  if (options.planned_as) plan_as(*options.planned_as, target);
  VKF_CHECK_OK(check_dtypes(prepared, target));
  options_ = options;
  partition::Options planning = options.planning;
  planning.fusion = options.fusion;
  prepared_ = prepared;
  VKF_TRY(plan, options.plan.empty() ? kept_or_made(context.opened().store(), std::move(prepared), target, planning)
                                     : plan::from_file(options.plan, std::move(prepared), target));
  for (const ir::Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (dim.is_symbol()) symbols_.insert(dim.name());
    }
  }
  if (options.plan.empty() && options.fusion && symbols_.empty())
    plan = within_memory(context, std::move(plan), prepared_, planning, options.tuning);
  plan_ = std::move(plan);
  representative_ = schedule::representative_symbols(plan_.graph);
  inputs_ = inputs_as_written(graph, plan_.graph);
  note_constants(plan_);
  lowering::LoweringOptions emitting;
  emitting.numerics = options.numerics;
  shape_buckets_ = std::make_unique<ShapeBuckets>(plan_, options.tuning, emitting);
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
  std::size_t alone = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    alone = alone_.size();
    planning.fusion = options_.fusion && others_.size() + 1 < kMaxPlans;
    planning.alone = alone_;
  }
  planning.sizes = VKF_PLANT(plan_of_representative_sizes, symbols, SymbolValues{});
  // These make another graph, and values are known by those of this one.
  planning.without.insert(partition::kGraphRewrites.begin(), partition::kGraphRewrites.end());
  const bool spares_memory = std::any_of(plan_.rewrites.begin(), plan_.rewrites.end(),
                                         [](const plan::GraphRewrite& rewrite) { return rewrite.spared_bytes > 0; });
  if (spares_memory) planning.largest_product = plan::kLargeProduct;
  planning.memory_budget = 0;  // the graph has the nodes of what runs again already
  VKF_TRY(plan, plan::make_plan(plan_.graph, plan_.target, planning));
  if (plan_.budget) plan.budget = plan::ArenaBudget{plan_.budget->bytes};
  lowering::LoweringOptions emitting;
  emitting.numerics = options_.numerics;
  auto planned = std::make_shared<Planned>(std::move(plan), options_.tuning, emitting);
  planned->alone_count = alone;
  return planned;
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

}  // namespace vkfuse::runtime
