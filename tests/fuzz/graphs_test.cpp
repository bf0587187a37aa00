// Random graphs of ops of every class, on devices with less than this one has, with schedules that nobody would choose.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "api/states.hpp"
#include "fuzz/forced.hpp"
#include "fuzz/harness.hpp"

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

std::pair<Case, Way> draw(std::uint64_t seed) {
  Random random(seed_of(seed, "way"));
  const Place place = draw_place(random);
  const Forced forced = draw_schedule(random);
  Way way;
  way.how.device = place.device;
  way.how.tuning = forced.tuning;
  way.how.numerics = random.chance(50) ? Numerics::strict : Numerics::standard;
  way.how.sorts_scatters = seed % 2 == 0;
  way.unfused = random.chance(35);
  way.text = std::string(place.name) + forced.name;
  CaseOptions options;
  options.caps = must(place.device->state()->context->tiers().target({})).caps;
  options.every_class = true;
  options.max_ops = 14;
  options.symbols = std::string_view(place.name).find("120") == std::string_view::npos;
  way.fewer_bytes = false;  // the planner may move a few more where that is modelled faster
  return {random_case(seed, options), way};
}

TEST(Fuzz, Graphs) {
  const Tally tally = run_cases({"Fuzz.Graphs", 1, 140, draw});
  if (number_in("VKFUSE_SEED") || number_in("VKFUSE_FUZZ_CASES")) return;
  for (const ops::OpRow& row : ops::table()) {
    const bool leaf = row.cls == ops::OpClass::generate || row.cls == ops::OpClass::constant;
    if (row.cls != ops::OpClass::elementwise && !leaf) {
      EXPECT_TRUE(tally.ops.contains(row.name)) << "no graph has the op '" << row.name << "'";
    }
  }
}

}  // namespace
}  // namespace vkfuse::test
