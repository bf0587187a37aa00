// Composites on the values of random graphs: what stands before and behind them decides how they are cut and fused.
#include <gtest/gtest.h>

#include <set>

#include "api/composite_table.hpp"
#include "api/states.hpp"
#include "fuzz/forced.hpp"
#include "fuzz/harness.hpp"

namespace vkfuse::test {
namespace {

using Integers = std::vector<std::int64_t>;

/// Attributes that suit a value, for composites that take one of floats; nothing where it does not suit.
std::optional<CompositeAttributes> attributes_for(std::string_view name, const TensorType& type, Random& random) {
  const std::size_t rank = type.shape.size();
  const auto last = rank == 0 ? Dim(0) : type.shape.back();
  const auto axis = static_cast<std::int64_t>(random.below(rank));
  const std::set<std::string_view> along = {"softmax", "log_softmax", "log_sum_exp", "layer_norm", "rms_norm"};
  if (along.contains(name)) return rank > 0 ? std::optional<CompositeAttributes>({{"axis", axis}}) : std::nullopt;
  if (name == "instance_norm" || name == "group_norm") {
    if (rank < 3 || type.shape[1].is_symbol()) return std::nullopt;
    if (name == "instance_norm") return CompositeAttributes{};
    return CompositeAttributes{{"groups", random.chance(50) ? std::int64_t{1} : type.shape[1].size()}};
  }
  if (name == "max_pool" || name == "average_pool") {
    if (rank != 3 || last.is_symbol() || last.size() < 2) return std::nullopt;
    return CompositeAttributes{
        {"sizes", Integers{2}}, {"high", Integers{1}}, {"strides", Integers{random.chance(50) ? 1 : 2}}};
  }
  if (name == "interpolate") {
    if (last.is_symbol() || last.size() < 1 || last.size() > 64) return std::nullopt;
    const std::vector<std::string> modes = {"nearest", "linear", "cubic"};
    const auto size = static_cast<std::int64_t>(1 + random.below(2 * static_cast<std::size_t>(last.size())));
    return CompositeAttributes{{"axes", Integers{-1}}, {"sizes", Integers{size}}, {"mode", random.pick(modes)}};
  }
  return CompositeAttributes{};
}

/// Adds one composite to a graph, on a value that suits it, or on a new input; whether there is one.
bool add_composite(ir::Graph& graph, std::string_view name, Random& random) {
  std::vector<ir::NodeId> floats;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const DType dtype = graph.node(id).type.dtype;
    if (dtype == DType::f32 || dtype == DType::f16) floats.push_back(id);
  }
  for (std::size_t i = floats.size(); i > 1; --i) std::swap(floats[i - 1], floats[random.below(i)]);
  floats.push_back(must(graph.add_input("of " + std::string(name), {DType::f32, {3, 4, 6}})));
  for (const ir::NodeId value : floats) {
    const auto attributes = attributes_for(name, graph.node(value).type, random);
    if (!attributes) continue;
    const auto added = api::append_composite(graph, name, std::span(&value, 1), *attributes);
    if (!added) continue;  // a mean of nothing, or of a size that is a symbol
    must(graph.add_output("composite " + std::to_string(graph.size()), *added));
    return true;
  }
  return false;
}

const std::vector<std::string_view>& unary_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> found;
    for (const api::Composite& one : api::composites()) {
      if (one.least_operands() == 1 && one.operands.starts_with('x') && one.name != "max_pool_positions")
        found.push_back(one.name);
    }
    return found;
  }();
  return names;
}

/// `drawn` gets the composites that are in some graph.
std::pair<Case, Way> draw(std::uint64_t seed, std::set<std::string_view>& drawn) {
  CaseOptions options;
  options.caps = must(device().state()->context->tiers().target({})).caps;
  options.every_class = true;
  options.max_ops = 5;
  Case one = random_case(seed, options);
  Random random(seed_of(seed, "composites"));
  const std::vector<std::string_view>& names = unary_names();
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string_view name = names[(2 * seed + i) % names.size()];
    if (add_composite(one.graph, name, random)) drawn.insert(name);
  }
  Way way;
  way.how.numerics = random.chance(50) ? Numerics::strict : Numerics::standard;
  way.unfused = random.chance(30);
  way.fewer_bytes = false;
  return {std::move(one), way};
}

TEST(Fuzz, CompositesInGraphs) {
  std::set<std::string_view> drawn;
  run_cases({"Fuzz.CompositesInGraphs", 1, 60, [&](std::uint64_t seed) { return draw(seed, drawn); }});
  if (number_in("VKFUSE_SEED") || number_in("VKFUSE_FUZZ_CASES")) return;
  EXPECT_GE(unary_names().size(), 15U);
  for (const std::string_view name : unary_names()) EXPECT_TRUE(drawn.contains(name)) << "no graph has " << name;
}

}  // namespace
}  // namespace vkfuse::test
