// Random graphs of ops of every class, on devices with less than this one has, with schedules that nobody would choose.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "api/states.hpp"
#include "fuzz/harness.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

struct Place {
  const char* name;
  const Device* device;
};

/// The device under test, mostly; also without subgroups, with the least limits, and with few workgroups along an axis,
/// where small graphs need the second axis that others need beyond 65,535 workgroups.
Place draw_place(Random& random) {
  static const Device few_groups = [] {
    DeviceOptions options;
    options.limits = {{"max_groups_per_axis", 120}};
    return must(Device::open(options));
  }();
  const char* const limits = std::getenv("VKFUSE_TEST_LIMITS");
  const std::size_t kind = limits != nullptr && std::string_view(limits) == "least" ? 20 : random.below(100);
  if (kind < 15) return {" no subgroups", &device_without_subgroups()};
  if (kind < 30) return {" low limits", &device_with_low_limits()};
  if (kind < 45) return {" 120 workgroups along an axis", &few_groups};
  return {"", &device()};
}

struct Forced {
  const char* name;
  schedule::Tuning tuning;
};

Forced draw_schedule(Random& random) {
  static const std::vector<Forced> all = {
      {" vector_bytes=4", {.vector_bytes = 4}},
      {" vector_bytes=8", {.vector_bytes = 8}},
      {" workgroup=32", {.workgroup = 32}},
      {" workgroup=128", {.workgroup = 128}},
      {" items_in_flight=4", {.items_in_flight = 4}},
      {" column_lanes=1", {.column_lanes = 1}},
      {" column_lanes=4", {.column_lanes = 4}},
      {" column_lanes=32", {.column_lanes = 32}},
      {" persistent=false", {.persistent = false}},
      {" online=true persistent=false", {.online = true, .persistent = false}},
      {" parts=3", {.parts = 3}},
      {" block=16", {.block = 16}},
      {" matrix=true", {.matrix = true}},
      {" matrix=false", {.matrix = false}},
      {" tiled=true", {.tiled = true}},
      {" tiled=false", {.tiled = false}},
  };
  if (random.chance(50)) return {"", {}};
  return random.pick(all);
}

std::pair<Case, Way> draw(std::uint64_t seed) {
  Random random(seed_of(seed, "way"));
  const Place place = draw_place(random);
  const Forced forced = draw_schedule(random);
  Way way;
  way.how.device = place.device;
  way.how.tuning = forced.tuning;
  way.how.numerics = random.chance(50) ? Numerics::strict : Numerics::standard;
  way.unfused = random.chance(35);
  way.text = std::string(place.name) + forced.name;
  CaseOptions options;
  options.caps = must(place.device->state()->context->target({})).caps;
  options.every_class = true;
  options.max_ops = 14;
  options.symbols = std::string_view(place.name).find("120") == std::string_view::npos;
  way.fewer_bytes = false;  // the planner may move a few more where that is modelled faster
  options.bf16_products = device().description().name.find("SwiftShader") == std::string::npos;
  return {random_case(seed, options), way};
}

TEST(Fuzz, Graphs) {
  const Tally tally = run_cases({"Fuzz.Graphs", 1, 140, draw});
  if (number_in("VKFUSE_SEED") || number_in("VKFUSE_FUZZ_CASES")) return;
  for (const ops::OpRow& row : ops::table()) {
    const bool leaf = row.cls == ops::OpClass::generate || row.cls == ops::OpClass::constant;
    if (row.cls != ops::OpClass::elementwise && !leaf) { EXPECT_TRUE(tally.ops.contains(row.name)) << "no graph has the op '" << row.name << "'"; }
  }
}

}  // namespace
}  // namespace vkfuse::test
