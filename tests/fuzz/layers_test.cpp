// Networks of layers as people write them (attention and its caches, products with stored codes, convolutions, experts,
// sorts, running sums) over sequences whose sizes are symbols or not: one program, many sizes.
#include <gtest/gtest.h>

#include "api/states.hpp"
#include "fuzz/forced.hpp"
#include "fuzz/harness.hpp"
#include "support/layers.hpp"

namespace vkfuse::test {
namespace {

Forced draw_forced(Random& random) { return random.chance(60) ? Forced{"", {}} : draw_schedule(random); }

std::pair<Case, Way> draw_layers(std::uint64_t seed) {
  Random random(seed_of(seed, "way"));
  const std::size_t place = random.below(100);
  const Forced forced = draw_forced(random);
  Way way;
  way.how.device = place < 10 ? &device_without_subgroups() : place < 20 ? &device_with_low_limits() : &device();
  way.how.numerics = random.chance(25) ? Numerics::strict : Numerics::standard;
  way.how.tuning = forced.tuning;
  way.how.sorts_scatters = random.chance(30);
  const bool as_gpu = place >= 20 && random.chance(40) && plan_as_gpu(way.how);
  way.text = std::string(as_gpu       ? " as a GPU"
                         : place < 10 ? " no subgroups"
                         : place < 20 ? " low limits"
                                      : "") +
             forced.name;
  way.unfused = random.chance(20);
  way.fewer_bytes = false;
  way.many_sizes = true;
  return {random_layers(seed), way};
}

TEST(Fuzz, Layers) { run_cases({"Fuzz.Layers", 1, 12, draw_layers}); }

}  // namespace
}  // namespace vkfuse::test
