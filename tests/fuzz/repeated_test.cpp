// Layers that repeat, with symbolic sizes: compiled once, run at many sizes, among other programs of the process.
#include <gtest/gtest.h>

#include "api/states.hpp"
#include "fuzz/harness.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

std::pair<Case, Way> draw(std::uint64_t seed) {
  Random random(seed_of(seed, "way"));
  Way way;
  const std::size_t place = random.below(100);
  way.how.device = place < 12 ? &device_without_subgroups() : place < 24 ? &device_with_low_limits() : &device();
  way.how.numerics = random.chance(30) ? Numerics::strict : Numerics::standard;
  way.unfused = random.chance(25);
  way.fewer_bytes = false;
  way.many_sizes = true;
  CaseOptions options;
  options.caps = must(way.how.device->state()->context->tiers().target({})).caps;
  options.every_class = true;
  options.min_ops = 2;
  options.max_ops = 7;
  options.symbol_chance = 45;
  return {repeated(random_case(seed, options)), way};
}

TEST(Fuzz, RepeatedBlocks) {
  const Tally tally = run_cases({"Fuzz.RepeatedBlocks", 1, 14, draw});
  if (number_in("VKFUSE_SEED") || number_in("VKFUSE_FUZZ_CASES")) return;
  EXPECT_GT(tally.runs, 3 * static_cast<std::int64_t>(tally.seconds.size())) << "too few graphs have symbols";
}

}  // namespace
}  // namespace vkfuse::test
