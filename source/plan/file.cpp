#include "plan/file.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/capabilities.hpp"
#include "base/mutations.hpp"
#include "device_model/device_model.hpp"
#include "ir/structured.hpp"
#include "passes/passes.hpp"
#include "plan/run_order.hpp"
#include "templates/planning.hpp"

namespace vkfuse::plan {

std::string_view planner_id();  // generated: cmake/HashSources.cmake

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 2;

/// Of text that nobody has a reason to forge: what is read is checked whatever its digest says.
std::string digest_of(std::string_view text) {
  std::uint64_t a = 0xcbf29ce484222325ULL, b = 0x9e3779b97f4a7c15ULL;
  for (const char c : text) {
    a = (a ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    b = (b ^ (static_cast<unsigned char>(c) + 0x51ULL)) * 0xff51afd7ed558ccdULL;
    b ^= b >> 29;
  }
  return fmt::format("{:016x}{:016x}", a, b);
}

/// The graph's text, in which tensors of constants are their types alone: other weights have the same plan.
std::string digest_of(const ir::Graph& graph) {
  std::string all;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    all += fmt::format("%{} {} {} [{}]", id, node.op->name, vkfuse::to_text(node.type), fmt::join(node.operands, ","));
    for (const Dim& dim : node.type.shape) {
      if (dim.is_symbol())
        all += fmt::format(" {}..{} by {}", dim.facts().min, dim.facts().max, dim.facts().multiple_of);
    }
    if (const auto* input = std::get_if<ir::InputPayload>(&node.payload)) all += " \"" + input->name + "\"";
    if (segment::is_literal(graph, id)) {
      for (std::byte byte : *std::get<ir::ConstantPayload>(node.payload).bytes)
        all += fmt::format(" {:02x}", std::to_integer<int>(byte));
    }
    ir::Payload payload = node.payload;
    ir::each_attribute(payload, [&](const char* name, auto& member) {
      all += fmt::format(" {}=", name);
      if constexpr (requires { member.begin(); }) {
        for (const auto one : member) all += fmt::format("{},", static_cast<std::int64_t>(one));
      } else {
        all += fmt::format("{}", static_cast<std::int64_t>(member));
      }
    });
    all += '\n';
  }
  for (const ir::Output& output : graph.outputs()) all += fmt::format("{}={}\n", output.name, output.value);
  return digest_of(all);
}

/// All of a device that schedules and kernels depend on, but for what work costs there.
std::string digest_of(const Target& target) {
  const DriverWorkarounds& workarounds = target.workarounds;
  std::string all =
      fmt::format("{} {} {} {} {} {} {} ", name_of(target.type), workarounds.folds_nan_away,
                  workarounds.leaves_loops_after, workarounds.loses_widened_comparisons,
                  workarounds.aborts_on_indexed_stores, workarounds.unrolled_iterations, workarounds.hides_stores);
  for (const bool tier : target.tiers) all += tier ? '1' : '0';
  all += ' ' + capabilities_text(target.caps);
  const DeviceModel& model = device_model(target);
  all += fmt::format("{} {}", model.name, model.units.count.value);
  return digest_of(all);
}

/// What a schedule has chosen, as far as a reader of the file wants to know and a kernel's text depends on.
Json chosen(const ScheduledKernel& step) {
  const schedule::Schedule& schedule = step.schedule;
  Json json;
  json["kind"] = schedule::name_of(schedule.kind());
  json["workgroup"] = schedule.workgroup;
  json["workgroups"] = schedule.launch.workgroups;
  json["dispatches"] = schedule.dispatches;
  json["chunk_size"] = schedule.chunk_size;
  json["unroll_factor"] = schedule.unroll_factor;
  json["shared_bytes"] = schedule.shared_bytes;
  json["scratch_bytes"] = schedule.scratch_bytes;
  if (schedule.counter_bytes > 0) json["counter_bytes"] = schedule.counter_bytes;
  json["bytes_read"] = schedule.cost.bytes_read;
  json["bytes_written"] = schedule.cost.bytes_written;
  json["sunk_scales"] = schedule.transforms.sunk_scales;
  if (schedule.transforms.sunk_literals) json["sunk_literals"] = true;
  json.update(schedule::describe(schedule).choices);
  json["loads"] = Json::array();
  for (std::size_t i = 0; i < schedule.loads.size(); ++i) {
    if (step.loops.values[i].kind == segment::Value::Kind::load)
      json["loads"].push_back(fmt::format("{} {} {} {}", name_of(schedule.loads[i].kind),
                                          schedule.loads[i].vector_bytes, schedule.loads[i].repeat,
                                          schedule.loads[i].step));
  }
  json["stores"] = Json::array();
  for (const schedule::AccessPlan& store : schedule.stores)
    json["stores"].push_back(fmt::format("{} {}", name_of(store.kind), store.vector_bytes));
  return json;
}

Error broken(std::string_view what) { return invalid("This is not a plan that vkfuse has saved: {}.", what); }

/// A member of an object, of the type that is asked for.
template <typename T>
Result<T> member(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) return broken(fmt::format("it has no '{}'", name));
  const Json& value = object[name];
  if constexpr (std::is_same_v<T, std::string>) {
    if (value.is_string()) return value.template get<std::string>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (value.is_number()) return value.template get<double>();
  } else {
    if (value.is_number_integer() && value >= 0 && value <= (1 << 30))
      return static_cast<T>(value.template get<std::int64_t>());
  }
  return broken(
      fmt::format("its '{}' is {}", name, value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60)));
}

Result<void> check_list(const Json& json, const char* name) {
  if (json.contains(name) && json[name].is_array()) return {};
  return broken(fmt::format("it has no list '{}'", name));
}

/// Nodes of the graph in ascending order.
Result<std::vector<ir::NodeId>> nodes_in(const Json& object, const char* name, const ir::Graph& graph) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_array())
    return broken(fmt::format("a segment has no list '{}'", name));
  std::vector<ir::NodeId> ids;
  for (const Json& one : object[name]) {
    const bool is_node = one.is_number_integer() && one >= 0 && one < static_cast<std::int64_t>(graph.size());
    if (!is_node || (!ids.empty() && one <= static_cast<std::int64_t>(ids.back()))) {
      return broken(fmt::format("the list '{}' of a segment is not nodes of the graph in ascending order", name));
    }
    ids.push_back(one.get<ir::NodeId>());
  }
  return ids;
}

Result<segment::Segment> segment_in(const Json& object, const ir::Graph& graph) {
  VKF_TRY(members, nodes_in(object, "members", graph));
  VKF_TRY(stores, nodes_in(object, "stores", graph));
  std::vector<bool> escapes(graph.size(), false);
  for (ir::NodeId id : stores) {
    if (!std::binary_search(members.begin(), members.end(), id))
      return broken(fmt::format("a segment stores %{} and does not compute it", id));
    escapes[id] = true;
  }
  for (ir::NodeId id : members) {
    if (segment::is_resident(graph, id) || segment::is_literal(graph, id))
      return broken(fmt::format("a segment computes %{}, which is an input or a constant", id));
  }
  if (stores.empty()) return broken("a segment stores nothing");
  return segment::build_segment(graph, std::move(members), escapes);
}

/// Every value that is read is there by then, and every result is stored, once.
Result<void> check_order(const ir::Graph& graph, const std::vector<PlannedKernel>& steps) {
  std::set<ir::NodeId> stored;
  for (const PlannedKernel& step : steps) {
    for (ir::NodeId id : step.segment.reads) {
      if (!segment::is_resident(graph, id) && stored.count(id) == 0)
        return broken(fmt::format("a segment reads %{}, which none before it stores", id));
    }
    for (ir::NodeId id : step.segment.stores) {
      if (!stored.insert(id).second) return broken(fmt::format("two segments store %{}", id));
    }
  }
  for (const ir::Output& output : graph.outputs()) {
    if (stored.count(output.value) == 0) return broken(fmt::format("no segment stores the output '{}'", output.name));
  }
  return {};
}

/// What the file says of a schedule, and what is chosen here.
Result<void> check_schedule(const Json& stated, const Json& here, std::size_t at) {
  if (VKF_PLANT(unchecked_plan_schedule, stated == here, true)) return {};
  for (const auto& [name, value] : here.items()) {
    const std::string old = stated.is_object() && stated.contains(name)
                                ? stated[name].dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60)
                                : "nothing";
    if (old != value.dump().substr(0, 60))
      return invalid("The plan is stale: its segment {} has {} for '{}', where this version of vkfuse chooses {}.", at,
                     old, name, value.dump().substr(0, 60));
  }
  return invalid("The plan is stale: its segment {} is scheduled otherwise by this version of vkfuse.", at);
}

Json cost_json(const Cost& cost) { return {{"bytes", cost.bytes}, {"us", cost.microseconds}}; }

Result<Cost> cost_in(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) return broken(fmt::format("a rewrite has no '{}'", name));
  VKF_TRY(bytes, member<double>(object[name], "bytes"));
  VKF_TRY(microseconds, member<double>(object[name], "us"));
  if (!(bytes >= 0 && bytes < 1e18 && microseconds >= 0 && microseconds < 1e18))
    return broken(fmt::format("a rewrite costs {} bytes and {} us", bytes, microseconds));
  return Cost{static_cast<std::int64_t>(bytes), microseconds};
}

Json rewrite_json(const GraphRewrite& rewrite) {
  Json json{{"planner_pass", partition::name_of(rewrite.planner_pass)}, {"without", cost_json(rewrite.before)}};
  if (rewrite.with) json["with"] = cost_json(*rewrite.with);
  json["taken"] = rewrite.taken;
  if (rewrite.spared_bytes > 0) json["spared_bytes"] = rewrite.spared_bytes;
  if (!rewrite.with) json["refusal"] = rewrite.refusal;
  return json;
}

/// What was weighed is for who reads the plan: nothing follows from it.
Result<GraphRewrite> rewrite_in(const Json& object) {
  VKF_TRY(name, member<std::string>(object, "planner_pass"));
  const auto planner_pass = partition::planner_pass_named(name);
  if (!planner_pass || rewrite_text(*planner_pass).empty())
    return broken(fmt::format("'{}' is no rewrite of a graph", name.substr(0, 60)));
  GraphRewrite rewrite;
  rewrite.planner_pass = *planner_pass;
  VKF_TRY(before, cost_in(object, "without"));
  rewrite.before = before;
  if (!object.contains("taken") || !object["taken"].is_boolean())
    return broken(fmt::format("of the rewrite '{}' it does not say whether it was taken", name));
  rewrite.taken = object["taken"].get<bool>();
  if (object.contains("spared_bytes")) {
    VKF_TRY(spared, member<std::int64_t>(object, "spared_bytes"));
    rewrite.spared_bytes = spared;
  }
  if (object.contains("with")) {
    VKF_TRY(with, cost_in(object, "with"));
    rewrite.with = with;
  } else {
    VKF_TRY(refusal, member<std::string>(object, "refusal"));
    rewrite.refusal = std::move(refusal);
  }
  return rewrite;
}

/// The JSON of a file that anyone may have written. To print it takes a frame of the stack for each level, so it is no
/// deeper than plans are, with some to spare; and no text comes after a byte of zero, which a parser takes for its end.
Result<Json> json_of(std::string_view text) {
  constexpr int kMostLevels = 64;
  int deepest = 0;
  const auto is_read = [&](int level, Json::parse_event_t, const Json&) {
    deepest = std::max(deepest, level);
    return level <= kMostLevels;
  };
  Json json =
      text.find('\0') == std::string_view::npos ? Json::parse(text, is_read, false) : Json(Json::value_t::discarded);
  if (deepest > kMostLevels) return broken(fmt::format("its JSON is more than {} levels deep", kMostLevels));
  if (json.is_discarded()) return broken("it is not JSON");
  return json;
}

/// The content of a plan of this format whose digest is right.
Result<Json> content_of(std::string_view text) {
  VKF_TRY(json, json_of(text));
  if (!json.is_object() || !json.contains("vkfuse_plan")) return broken("it has no 'vkfuse_plan'");
  VKF_TRY(format, member<int>(json, "vkfuse_plan"));
  if (format != kFormat)
    return unsupported("The plan has the format {}; this version of vkfuse reads {}.", format, kFormat);
  VKF_TRY(digest, member<std::string>(json, "digest"));
  json.erase("digest");
  const std::string here = digest_of(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (VKF_PLANT(unchecked_plan_digest, digest, here) != here) {
    return invalid("The plan was changed after it was saved: its digest is {}, and that of its content is not.",
                   digest.substr(0, 32));
  }
  return json;
}

/// The form of the graph that has this digest: the graph itself, or a rewrite.
Result<std::optional<ir::Graph>> form_with(const std::string& digest, ir::Graph graph, const Target& target) {
  VKF_TRY(narrow, passes::limit_concats(graph, target.caps.memory.storage_buffers));
  if (narrow) graph = std::move(narrow->graph);
  if (digest == digest_of(graph)) return std::optional(std::move(graph));
  std::vector<ir::Graph> rewrites = passes::alternative_graphs(graph, target.caps.memory.storage_buffers);
  const auto same = std::find_if(rewrites.begin(), rewrites.end(),
                                 [&](const ir::Graph& rewrite) { return digest == digest_of(rewrite); });
  return same == rewrites.end() ? std::nullopt : std::optional(std::move(*same));
}

Json memory_budget_json(const ArenaBudget& budget) {
  Json json{{"bytes", budget.bytes},
            {"arena_bytes_without", budget.arena_bytes_without},
            {"us_without", budget.microseconds_without}};
  if (!budget.graph) return json;
  json["graph_digest"] = digest_of(*budget.graph);
  json["kernels"] = Json::array();
  for (const segment::Segment& segment : budget.segments)
    json["kernels"].push_back({{"members", segment.members}, {"stores", segment.stores}});
  json["order"] = budget.order.kernels;
  json["whole"] = budget.order.whole;
  return json;
}

Result<std::vector<std::size_t>> numbers_in(const Json& object, const char* name) {
  if (!object.contains(name) || !object[name].is_array())
    return broken(fmt::format("a memory budget has no list '{}'", name));
  std::vector<std::size_t> numbers;
  for (const Json& one : object[name]) {
    if (!one.is_number_integer() || one < 0 || one > (1 << 30))
      return broken(fmt::format("the list '{}' of a memory budget is not of numbers", name));
    numbers.push_back(one.get<std::size_t>());
  }
  return numbers;
}

/// What a plan was made for, without the form of the graph whose kernels it has.
Result<std::optional<ArenaBudget>> budget_in(const Json& json) {
  if (!json.contains("memory_budget")) return std::optional<ArenaBudget>();
  const Json& object = json["memory_budget"];
  ArenaBudget budget;
  for (const auto& [name, value] :
       {std::pair("bytes", &budget.bytes), {"arena_bytes_without", &budget.arena_bytes_without}}) {
    VKF_TRY(bytes, member<double>(object, name));
    if (!(bytes >= 0 && bytes < 9e18)) return broken(fmt::format("its memory budget has {} bytes", bytes));
    *value = object[name].is_number_integer() ? object[name].get<std::int64_t>() : static_cast<std::int64_t>(bytes);
  }
  VKF_TRY(microseconds, member<double>(object, "us_without"));
  budget.microseconds_without = microseconds;
  if (!object.contains("graph_digest")) return std::optional(std::move(budget));
  VKF_TRY(order, numbers_in(object, "order"));
  VKF_TRY(whole, numbers_in(object, "whole"));
  budget.order = {std::move(order), {whole.begin(), whole.end()}};
  return std::optional(std::move(budget));
}

/// The kernels that a plan under a memory budget runs in another order, and of what form of the graph they are.
Result<void> add_kernels(const Json& json, ir::Graph form, ArenaBudget& budget) {
  VKF_CHECK_OK(check_list(json, "kernels"));
  std::vector<PlannedKernel> steps;
  for (const Json& one : json["kernels"]) {
    VKF_TRY(segment, segment_in(one, form));
    steps.push_back({std::move(segment)});
  }
  VKF_CHECK_OK(check_order(form, steps));
  for (PlannedKernel& step : steps) budget.segments.push_back(std::move(step.segment));
  budget.graph = std::move(form);
  return {};
}

/// The graph as the plan has it, which may be of a rewrite, and with kernels that run again.
Result<ir::Graph> planned_graph(const Json& json, ir::Graph graph, const Target& target,
                                std::optional<ArenaBudget>& budget) {
  VKF_TRY(name, member<std::string>(json, "graph"));
  VKF_TRY(nodes, member<std::int64_t>(json, "nodes"));
  VKF_TRY(digest, member<std::string>(json, "graph_digest"));
  const Error other = invalid(
      "The plan is of the graph '{}' with {} nodes, and not of '{}' with {} nodes as the passes leave it: the "
      "two differ.",
      name, nodes, graph.name, graph.size());
  if (!budget || budget->order.kernels.empty()) {
    VKF_TRY(form, form_with(digest, std::move(graph), target));
    if (form) return *std::move(form);
    return other;
  }
  VKF_TRY(before, member<std::string>(json["memory_budget"], "graph_digest"));
  VKF_TRY(form, form_with(before, std::move(graph), target));
  if (!form) return other;
  VKF_CHECK_OK(add_kernels(json["memory_budget"], *std::move(form), *budget));
  auto ordered = run_in_order(*budget->graph, budget->segments, budget->order);
  if (!ordered) return broken(ordered.error().message.substr(0, ordered.error().message.size() - 1));
  if (digest != digest_of(ordered->graph)) return other;
  return std::move(ordered->graph);
}

Result<void> check_device(const Json& json, const Target& target) {
  VKF_TRY(device, member<std::string>(json, "device"));
  VKF_TRY(digest, member<std::string>(json, "device_digest"));
  if (digest == digest_of(target)) return {};
  return invalid("The plan is for the device '{}', whose limits and features are not those of '{}' as it is used here.",
                 device, target.name);
}

Result<CostModel> cost_model_in(const Json& object) {
  CostModel costs;
  for (const auto& [what, value] : {std::pair("copy_gb_per_s", &costs.copy_gb_per_s),
                                    {"launch_us", &costs.launch_us},
                                    {"gflops", &costs.gflops},
                                    {"accesses_per_us", &costs.accesses_per_us}}) {
    VKF_TRY(cost, member<double>(object, what));
    if (!(cost > 0 && cost < 1e12)) return broken(fmt::format("its cost '{}' is {}", what, cost));
    *value = cost;
  }
  return costs;
}

Result<partition::FusionBoundary> fusion_boundary_in(const Json& object, const ir::Graph& graph) {
  VKF_TRY(value, member<ir::NodeId>(object, "value"));
  VKF_TRY(reason, member<std::string>(object, "reason"));
  if (value >= graph.size()) return broken(fmt::format("it gives a reason for %{}, which does not exist", value));
  return partition::FusionBoundary{value, {partition::stated_refusal({ErrorCode::unsupported, std::move(reason), {}})}};
}

/// Whether this version of vkfuse schedules every segment as the file says.
Result<void> check_schedules(const Json& segments, const Plan& plan) {
  auto scheduled = schedule_all(plan, schedule::representative_symbols(plan.graph));
  if (!scheduled) return std::move(scheduled).error().within("reading a plan");
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Json& one = segments[i];
    if (!one.contains("schedule")) return broken(fmt::format("its segment {} has no schedule", i));
    VKF_CHECK_OK(check_schedule(one["schedule"], chosen((*scheduled)[i]), i));
  }
  return {};
}

}  // namespace

std::string file_key(const ir::Graph& graph, const Target& target, const partition::Options& options) {
  for (const ir::Node& node : graph.nodes()) {
    if (std::holds_alternative<ir::CustomPayload>(node.payload) ||
        std::holds_alternative<ir::KernelPayload>(node.payload))
      return "";
  }
  std::string key = fmt::format("plan by {} of {} on {} fusion {} by {} without", planner_id(), digest_of(graph),
                                digest_of(target), options.fusion, partition::name_of(options.policy));
  for (const partition::PlannerPass planner_pass : options.without)
    key += fmt::format(" {}", partition::name_of(planner_pass));
  if (VKF_PLANT(key_without_budget, options.memory_budget, 0) != 0)
    key += fmt::format(" budget {}", options.memory_budget);
  if (target.costs)
    key += fmt::format(" costs {} {} {} {}", target.costs->copy_gb_per_s, target.costs->launch_us, target.costs->gflops,
                       target.costs->accesses_per_us);
  return key;
}

std::string file_digest(std::string_view others) { return digest_of(others); }

Result<std::string> to_file(const Plan& plan) {
  const SymbolValues symbols = schedule::representative_symbols(plan.graph);
  VKF_TRY(scheduled, schedule_all(plan, symbols));
  Json json;
  json["vkfuse_plan"] = kFormat;
  json["version"] = VKFUSE_VERSION;
  json["graph"] = plan.graph.name;
  json["nodes"] = plan.graph.size();
  json["graph_digest"] = digest_of(plan.graph);
  json["device"] = plan.target.name;
  json["device_digest"] = digest_of(plan.target);
  if (plan.target.costs) {
    const CostModel& costs = *plan.target.costs;
    json["costs"] = {{"copy_gb_per_s", costs.copy_gb_per_s},
                     {"launch_us", costs.launch_us},
                     {"gflops", costs.gflops},
                     {"accesses_per_us", costs.accesses_per_us}};
  }
  json["symbols"] = Json::object();
  for (const auto& symbol : symbols) json["symbols"][symbol.first] = symbol.second;
  json["segments"] = Json::array();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const segment::Segment& segment = plan.steps[i].segment;
    Json one{{"members", segment.members}, {"stores", segment.stores}, {"schedule", chosen(scheduled[i])}};
    one["ops"] = Json::array();  // for who reads the file
    for (ir::NodeId id : segment.members) one["ops"].push_back(plan.graph.node(id).op->name);
    json["segments"].push_back(std::move(one));
  }
  json["fusion_boundaries"] = Json::array();
  for (const partition::FusionBoundary& fusion_boundary : plan.fusion_boundaries)
    json["fusion_boundaries"].push_back(
        {{"value", fusion_boundary.value}, {"reason", text_of(fusion_boundary.reasons)}});
  json["rewrites"] = Json::array();
  for (const GraphRewrite& rewrite : plan.rewrites) json["rewrites"].push_back(rewrite_json(rewrite));
  if (plan.budget) json["memory_budget"] = memory_budget_json(*plan.budget);
  // Names come from users and files and may not be UTF-8: the digest is of what is written.
  json = Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  json["digest"] = digest_of(json.dump());
  return json.dump(1) + "\n";
}

Result<Plan> from_file(std::string_view text, ir::Graph graph, const Target& target) {
  VKF_TRY(json, content_of(text));
  Plan plan;
  VKF_TRY(budget, budget_in(json));
  plan.budget = std::move(budget);
  VKF_TRY(planned, planned_graph(json, std::move(graph), target, plan.budget));
  plan.graph = std::move(planned);
  VKF_CHECK_OK(check_device(json, target));
  plan.target = target;
  plan.target.costs.reset();
  if (json.contains("costs")) {
    VKF_TRY(costs, cost_model_in(json["costs"]));
    plan.target.costs = costs;
  }
  VKF_CHECK_OK(check_list(json, "segments"));
  for (const Json& one : json["segments"]) {
    VKF_TRY(segment, segment_in(one, plan.graph));
    plan.steps.push_back({std::move(segment)});
  }
  VKF_CHECK_OK(check_order(plan.graph, plan.steps));
  const bool is_ordered = plan.budget && plan.budget->graph;
  if (is_ordered && plan.steps.size() != plan.budget->order.kernels.size())
    return broken(fmt::format("it has {} segments, and its memory budget an order of {}", plan.steps.size(),
                              plan.budget->order.kernels.size()));
  VKF_CHECK_OK(check_list(json, "fusion_boundaries"));
  for (const Json& one : json["fusion_boundaries"]) {
    VKF_TRY(fusion_boundary, fusion_boundary_in(one, plan.graph));
    plan.fusion_boundaries.push_back(std::move(fusion_boundary));
  }
  VKF_CHECK_OK(check_list(json, "rewrites"));
  for (const Json& one : json["rewrites"]) {
    VKF_TRY(rewrite, rewrite_in(one));
    plan.rewrites.push_back(std::move(rewrite));
  }
  VKF_CHECK_OK(check_schedules(json["segments"], plan));
  return plan;
}

}  // namespace vkfuse::plan
