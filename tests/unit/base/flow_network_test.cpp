// Minimum cuts against all cuts of small networks.
#include "base/flow_network.hpp"

#include <gtest/gtest.h>

#include "support/random.hpp"

namespace vkfuse::test {
namespace {

TEST(FlowNetwork, TheCutIsTheCheapestOfAll) {
  constexpr std::size_t kPlaces = 7;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    std::int64_t capacity[kPlaces][kPlaces] = {};
    FlowNetwork network(kPlaces);
    for (std::size_t i = 0; i < 16; ++i) {
      const std::size_t from = random.below(kPlaces), to = random.below(kPlaces);
      if (from == to || capacity[from][to] != 0) continue;
      capacity[from][to] = random.below(8) == 0 ? FlowNetwork::kInfinite : static_cast<std::int64_t>(random.below(20));
      network.connect(from, to, capacity[from][to]);
    }
    const auto cost_of = [&](std::size_t side) {  // bit i: place i is on the side of the source
      std::int64_t cost = 0;
      for (std::size_t from = 0; from < kPlaces; ++from) {
        for (std::size_t to = 0; to < kPlaces; ++to) {
          if ((side >> from & 1) == 0 || (side >> to & 1) != 0) continue;
          cost = std::min(cost + capacity[from][to], FlowNetwork::kInfinite);
        }
      }
      return cost;
    };
    std::int64_t least = FlowNetwork::kInfinite;
    for (std::size_t side = 1; side < 1U << kPlaces; side += 2) {  // the source is place 0, the sink the last
      if ((side >> (kPlaces - 1) & 1) == 0) least = std::min(least, cost_of(side));
    }
    const auto cut = network.cut(0, kPlaces - 1);
    ASSERT_EQ(cut.has_value(), least < FlowNetwork::kInfinite) << seed;
    if (!cut) continue;
    std::size_t side = 0;
    for (std::size_t i = 0; i < kPlaces; ++i) side |= static_cast<std::size_t>((*cut)[i] ? 1 : 0) << i;
    EXPECT_TRUE((*cut)[0] && !(*cut)[kPlaces - 1]) << seed;
    EXPECT_EQ(cost_of(side), least) << seed;
  }
}

}  // namespace
}  // namespace vkfuse::test
