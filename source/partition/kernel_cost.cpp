#include "partition/kernel_cost.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/mutations.hpp"
#include "ir/large_products.hpp"
#include "ir/structured.hpp"
#include "schedule/budget.hpp"
#include "schedule/dispatch_split.hpp"
#include "templates/planning.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// The same device with buffers of any size.
Target with_large_buffers(Target target) {
  target.caps.memory.storage_buffer_range =
      std::numeric_limits<decltype(target.caps.memory.storage_buffer_range)>::max();
  return target;
}

/// Small sizes, a different one for each symbol as far as its facts allow: what shares loops at them does so at any.
SymbolValues sizes_apart(const ir::Graph& graph) {
  SymbolValues sizes;
  for (const ir::Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (!dim.is_symbol() || sizes.count(dim.name()) != 0) continue;
      const DimFacts analysis = dim.facts();
      const std::int64_t multiple = analysis.multiple_of;
      const std::int64_t least = schedule::ceil_div(std::max<std::int64_t>(analysis.min, 2), multiple) * multiple;
      const auto number = static_cast<std::int64_t>(sizes.size());
      sizes[dim.name()] = std::min(least + number * multiple, analysis.max / multiple * multiple);
    }
  }
  return sizes;
}

OrRefusal<KernelCost> within_budget(KernelCost kernel_cost, std::size_t members) {
  if (VKF_PLANT(unbounded_kernels, members > 1, false) && !kernel_cost.over_budget.empty())
    return stated_refusal({ErrorCode::unsupported, std::move(kernel_cost.over_budget), {}});
  return kernel_cost;
}

/// All that a node computes, but for its operands, as text.
std::string description(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  std::string text = fmt::format("{} {}", node.op->name, to_text(node.type));
  if (segment::is_literal(graph, id)) {
    for (std::byte byte : *std::get<ir::ConstantPayload>(node.payload).bytes)
      text += fmt::format(" {:02x}", std::to_integer<int>(byte));
    return text;
  }
  ir::Payload payload = node.payload;
  ir::each_attribute(payload, [&](const char* name, auto& member) {
    text += fmt::format(" {}", name);
    if constexpr (requires { member.begin(); }) {
      for (const auto one : member) text += fmt::format(",{}", static_cast<std::int64_t>(one));
    } else {
      text += fmt::format(",{}", static_cast<std::int64_t>(member));
    }
  });
  return text;
}

}  // namespace

CostCache::CostCache() : known_(std::make_unique<Known>()) {}
CostCache::~CostCache() = default;

namespace {

/// What storing a value over Options::largest_product counts as.
constexpr std::int64_t kBytesOfTooLarge = std::int64_t{1} << 46;
constexpr double kMicrosecondsOfTooLarge = 1e11;

}  // namespace

KernelCostModel::KernelCostModel(const GraphAnalysis& analysis, const Target& target, const Options& options,
                                 CostCache& cost_cache)
    : analysis_(analysis),
      target_(target),
      roomy_(with_large_buffers(target)),
      memo_(options.has(PlannerPass::memo)),
      alone_(options.alone),
      apart_(sizes_apart(analysis.graph)),
      stored_(analysis.graph.size(), false),
      visited_(analysis.graph.size()),
      numbers_in_key_(analysis.graph.size(), 0),
      cost_cache_(cost_cache.known()),
      search_(++cost_cache_.searches) {
  constexpr std::int64_t kUnknown = std::int64_t{1} << 50;
  std::map<std::string, std::uint32_t>& numbers = cost_cache_.numbers;
  const auto number = [&](std::string text) {
    return numbers.emplace(std::move(text), static_cast<std::uint32_t>(numbers.size())).first->second;
  };
  const bool is_limited = options.largest_product != Options().largest_product;
  const std::vector<bool> products = is_limited ? ir::large_products(analysis.graph) : std::vector<bool>();
  for (NodeId id = 0; id < analysis.graph.size(); ++id) {
    const bool literal = segment::is_literal(analysis.graph, id);
    kinds_.push_back(number(description(analysis.graph, id)));
    const TensorType& type = analysis.graph.node(id).type;
    const auto sizes = resolve(type.shape, analysis.symbols);
    const auto bytes = sizes ? byte_count(type.dtype, *sizes) : Result<std::int64_t>(kUnknown);
    bytes_.push_back(bytes ? *bytes : kUnknown);
    statements_.push_back(schedule::statements_of(analysis.graph, id));
    too_large_.push_back(is_limited && products[id] && bytes_.back() > options.largest_product);
    types_.push_back(literal ? kinds_.back() : number("of " + to_text(analysis.graph.node(id).type)));
  }
}

bool KernelCostModel::is_alike(const ir::Graph& other, NodeId there, NodeId here) const {
  const auto kind = cost_cache_.numbers.find(description(other, there));
  return kind != cost_cache_.numbers.end() && kind->second == kinds_[here];
}

std::size_t CostCache::Known::Hash::operator()(const Key& key) const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::uint32_t word : key) hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL, hash ^= hash >> 29;
  return static_cast<std::size_t>(hash);
}

/// Members in their order with what they read: other members, or values from outside, numbered as they appear.
KernelCostModel::Key KernelCostModel::key_of(const segment::Segment& segment, std::vector<NodeId>& nodes) {
  constexpr std::uint32_t kOutside = 1u << 30;
  Key key;
  key.reserve(4 * segment.members.size());
  nodes = segment.members;
  visited_.clear();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    visited_.insert(nodes[i]);
    numbers_in_key_[nodes[i]] = i;
  }
  for (NodeId id : segment.members) {
    key.push_back(kinds_[id] * 2 + (stored_[id] ? 1 : 0));
    for (NodeId operand : analysis_.graph.node(id).operands) {
      if (visited_.insert(operand)) {
        numbers_in_key_[operand] = static_cast<std::uint32_t>(nodes.size());
        nodes.push_back(operand);
      }
      const std::uint32_t place = numbers_in_key_[operand];
      if (place < segment.members.size()) {
        key.push_back(place);
        continue;
      }
      key.push_back(kOutside + place - static_cast<std::uint32_t>(segment.members.size()));
      key.push_back(types_[operand]);
    }
  }
  return key;
}

std::optional<Refusal> KernelCostModel::refusal_of_stores(const std::vector<NodeId>& stores) const {
  if (stores.empty()) return Refusal{.kind = RefusalKind::unread};
  const auto is_empty = [&](NodeId id) { return bytes_[id] == 0; };
  const auto empty = std::count_if(stores.begin(), stores.end(), is_empty);
  if (empty > 0 && empty < static_cast<std::ptrdiff_t>(stores.size()))
    return Refusal{.kind = RefusalKind::some_results_empty};
  // So do those of which a size that may be 0 is a part, and the others not.
  const auto may_vanish = [&](NodeId id) {
    std::set<std::string> symbols;
    for (const Dim& dim : analysis_.graph.node(id).type.shape) {
      if (dim.is_symbol() && dim.facts().min == 0) symbols.insert(std::string(dim.name()));
    }
    return symbols;
  };
  const auto vanishes_elsewhere = [&](NodeId id) { return may_vanish(id) != may_vanish(stores.front()); };
  if (std::any_of(stores.begin(), stores.end(), vanishes_elsewhere))
    return Refusal{.kind = RefusalKind::some_results_may_empty};
  return std::nullopt;
}

KernelCostModel::Outcome KernelCostModel::outcome_of(const segment::Segment& segment) const {
  Outcome outcome;
  outcome.refusal = refusal_of_stores(segment.stores);
  if (outcome.refusal) return outcome;
  // A plan is for all sizes: those at which it is costed may be equal by chance.
  const auto apart = apart_.empty() ? Result<segment::Loops>(segment::Loops{})
                                    : segment::build_loops(analysis_.graph, segment, apart_);
  if (!apart) {
    outcome.refusal = stated_refusal(apart.error());
    return outcome;
  }
  const auto loops = segment::build_loops(analysis_.graph, segment, analysis_.symbols);
  if (!loops) {
    outcome.refusal = stated_refusal(loops.error());
    return outcome;
  }
  const auto schedule = schedule::best(analysis_.graph, *loops, roomy_);
  if (!schedule) {
    outcome.refusal = stated_refusal(schedule.error());
    return outcome;
  }
  outcome.bytes = schedule->cost.bytes_read + schedule->cost.bytes_read_again + schedule->cost.bytes_written;
  outcome.microseconds = schedule->cost.modelled_us;
  outcome.spilled = schedule::registers_over(target_, schedule->cost.registers);
  if (!loops->opaque) outcome.over_budget = schedule::over_budget(*loops, *schedule, statements_, target_);
  return outcome;
}

/// `stored_` is left as it is for key_of.
segment::Segment KernelCostModel::segment_of(const std::vector<NodeId>& members,
                                             const std::function<bool(NodeId)>& stored) {
  std::vector<NodeId> all = members;
  visited_.clear();
  for (NodeId id : members) visited_.insert(id);
  for (NodeId id : members) {
    std::copy_if(analysis_.between[id].begin(), analysis_.between[id].end(), std::back_inserter(all),
                 [&](NodeId one) { return visited_.insert(one); });
    stored_[id] = stored(id);
  }
  return segment::build_segment(analysis_.graph, std::move(all), stored_, visited_);
}

std::int64_t KernelCostModel::estimate(const std::vector<NodeId>& members, const std::function<bool(NodeId)>& stored) {
  const segment::Segment segment = segment_of(members, stored);
  for (NodeId id : members) stored_[id] = false;
  std::int64_t bytes = 0;
  for (NodeId id : segment.reads) bytes += bytes_[id];
  for (NodeId id : segment.stores) bytes += bytes_[id];
  return bytes;
}

std::optional<Refusal> KernelCostModel::refusal_of_members(const std::vector<NodeId>& members) const {
  if (members.size() < 2) return std::nullopt;
  const auto refused = std::find_if(members.begin(), members.end(), [&](NodeId id) { return alone_.count(id) != 0; });
  if (refused != members.end()) return Refusal{.kind = RefusalKind::refused_by_compiler, .nodes = {*refused}};
  const auto ops = static_cast<std::int64_t>(members.size());
  const KernelBudget& budget = target_.budget;
  if (ops > budget.members) return Refusal{.kind = RefusalKind::too_many_ops, .counts = {ops, budget.members}};
  std::int64_t statements = 0;
  for (NodeId id : members) statements += statements_[id];
  if (statements <= budget.statements) return std::nullopt;
  return Refusal{.kind = RefusalKind::too_many_statements, .counts = {statements, budget.statements}};
}

KernelCostModel::Outcome KernelCostModel::cached_outcome(Key key, const std::vector<NodeId>& nodes,
                                                         const segment::Segment& segment) {
  const auto known = cost_cache_.outcomes.find(key);
  const bool is_known = known != cost_cache_.outcomes.end();
  if (!is_known || known->second.search != search_)
    ++costed_;  // without a memory, too: searches end where they do with it
  if (is_known) known->second.search = search_;
  if (is_known && memo_) {
    Outcome outcome = known->second;
    if (outcome.refusal)
      outcome.refusal = renumbered(*std::move(outcome.refusal), [&](NodeId place) { return nodes[place]; });
    return outcome;
  }
  Outcome outcome = outcome_of(segment);
  Outcome kept = outcome;
  kept.search = search_;
  if (kept.refusal) {
    kept.refusal = renumbered(*std::move(kept.refusal), [&](NodeId id) {
      return static_cast<NodeId>(std::find(nodes.begin(), nodes.end(), id) - nodes.begin());
    });
  }
  // A sentence about a node that is not of the kernel is no sentence about another one.
  const bool is_of_kernel =
      !kept.refusal || kept.refusal->stated.message.find(fmt::format("%{}", nodes.size())) == std::string::npos;
  if (is_of_kernel) cost_cache_.outcomes.emplace(std::move(key), std::move(kept));
  return outcome;
}

KernelCostModel::Surcharge KernelCostModel::surcharge(const segment::Segment& segment) const {
  const auto too_large = std::count_if(segment.stores.begin(), segment.stores.end(),
                                       [&](NodeId id) { return too_large_[id] && !analysis_.is_output[id]; });
  return {too_large * kBytesOfTooLarge, static_cast<double>(too_large) * kMicrosecondsOfTooLarge};
}

OrRefusal<KernelCost> KernelCostModel::operator()(const std::vector<NodeId>& members,
                                                  const std::function<bool(NodeId)>& stored) {
  if (auto refusal = refusal_of_members(members)) return *std::move(refusal);
  KernelCost kernel_cost;
  kernel_cost.segment = segment_of(members, stored);
  std::vector<NodeId> nodes;
  Key key = key_of(kernel_cost.segment, nodes);
  for (NodeId id : members) stored_[id] = false;
  if (members.size() == 1 && analysis_.is_alias[members[0]]) return kernel_cost;
  Outcome outcome = cached_outcome(std::move(key), nodes, kernel_cost.segment);
  if (outcome.refusal) return *std::move(outcome.refusal);
  const Surcharge surcharged = surcharge(kernel_cost.segment);
  kernel_cost.bytes = outcome.bytes + surcharged.bytes;
  kernel_cost.microseconds = outcome.microseconds + surcharged.microseconds;
  kernel_cost.spilled = outcome.spilled;
  kernel_cost.over_budget = std::move(outcome.over_budget);
  return within_budget(std::move(kernel_cost), members.size());
}

Result<void> KernelCostModel::check_size(const segment::Segment& segment) const {
  const std::uint64_t most = std::min(target_.caps.memory.storage_buffer_range, target_.caps.memory.max_allocation);
  const auto is_large = [&](NodeId id) { return static_cast<std::uint64_t>(bytes_[id]) > most; };
  if (!std::any_of(segment.reads.begin(), segment.reads.end(), is_large) &&
      !std::any_of(segment.stores.begin(), segment.stores.end(), is_large))
    return {};
  VKF_TRY(loops, segment::build_loops(analysis_.graph, segment, analysis_.symbols));
  VKF_TRY(pieces, schedule::split_dispatch(analysis_.graph, loops, analysis_.symbols, target_));
  if (!pieces.empty()) loops = std::move(pieces.front().loops);
  VKF_TRY(schedule, schedule::best(analysis_.graph, loops, target_));
  static_cast<void>(schedule);
  return {};
}

}  // namespace vkfuse::partition
