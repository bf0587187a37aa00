#include "ort/stages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace vkfuse::ort {
namespace {

using Groups = std::vector<std::vector<int>>;

/// Nodes by what each reads; `ours` says whose they are, 'o' or '.'.
std::vector<StagedNode> graph(const std::vector<std::vector<int>>& reads, const std::string& ours) {
  std::vector<StagedNode> nodes;
  for (std::size_t i = 0; i < reads.size(); ++i) nodes.push_back({reads[i], ours[i] == 'o'});
  return nodes;
}

/// Whether groups and single nodes can run one after the other.
bool can_run(const std::vector<StagedNode>& nodes, const Groups& groups) {
  std::vector<std::size_t> unit(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) unit[i] = groups.size() + i;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const int at : groups[g]) unit[static_cast<std::size_t>(at)] = g;
  }
  std::vector<bool> done(groups.size() + nodes.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t u = 0; u < done.size(); ++u) {
      if (done[u]) continue;
      bool ready = true;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        for (const int before : nodes[i].reads) {
          const std::size_t other = unit[static_cast<std::size_t>(before)];
          ready = ready && (unit[i] != u || other == u || done[other]);
        }
      }
      if (ready) done[u] = progress = true;
    }
  }
  return std::ranges::all_of(done, [](bool one) { return one; });
}

TEST(Stages, AChainOfOursIsOneGroup) { EXPECT_EQ(stages_of(graph({{}, {0}, {1}}, "ooo")), (Groups{{0, 1, 2}})); }

TEST(Stages, ANodeOfOthersBetweenOursCutsThem) {
  EXPECT_EQ(stages_of(graph({{}, {0}, {1}}, "o.o")), (Groups{{0}, {2}}));
}

TEST(Stages, APathAroundANodeOfOthersCutsTheGroupAsWell) {
  // 3 reads 0 by way of 1, which is ours, and of 2, which is not.
  EXPECT_EQ(stages_of(graph({{}, {0}, {0}, {1, 2}}, "oo.o")), (Groups{{0, 1}, {3}}));
}

TEST(Stages, NodesOfOthersBeforeAllAndAfterAllCutNothing) {
  EXPECT_EQ(stages_of(graph({{}, {}, {0, 1}, {2}}, "o.o.")), (Groups{{0, 2}}));
}

TEST(Stages, GroupsThatWouldWaitForEachOtherAreNotMade) {
  // Both of 0 and 1 begin a group, and each is read by way of a node of others by what the other could have.
  EXPECT_EQ(stages_of(graph({{}, {}, {0}, {1}, {1, 2}, {0, 3}}, "oo..oo")), (Groups{{0, 1}, {4, 5}}));
}

TEST(Stages, NothingOfOursIsNoGroup) {
  EXPECT_TRUE(stages_of({}).empty());
  EXPECT_TRUE(stages_of(graph({{}, {0}}, "..")).empty());
}

/// The most groups of ours that one path passes through: no order of whole groups has fewer.
std::size_t most_on_a_path(const std::vector<StagedNode>& nodes) {
  std::vector<int> changes(nodes.size());
  int most = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    changes[i] = nodes[i].is_ours ? 1 : 0;
    for (const int before : nodes[i].reads) {
      const auto at = static_cast<std::size_t>(before);
      changes[i] = std::max(changes[i], changes[at] + (nodes[i].is_ours && !nodes[at].is_ours ? 1 : 0));
    }
    most = std::max(most, changes[i]);
  }
  return static_cast<std::size_t>(most);
}

TEST(Stages, RandomGraphsAreCutIntoTheFewestGroupsThatCanRun) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
    std::vector<StagedNode> nodes(static_cast<std::size_t>(1 + below(24)));
    const int odds = 1 + below(5);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].is_ours = below(6) < odds;
      for (int k = below(3); i > 0 && k > 0; --k) nodes[i].reads.push_back(below(static_cast<int>(i)));
    }
    const Groups groups = stages_of(nodes);
    ASSERT_TRUE(can_run(nodes, groups)) << "seed " << seed;
    ASSERT_EQ(groups.size(), most_on_a_path(nodes)) << "seed " << seed;
    std::vector<int> all;
    for (const std::vector<int>& group : groups) all.insert(all.end(), group.begin(), group.end());
    std::ranges::sort(all);
    std::vector<int> ours;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].is_ours) ours.push_back(static_cast<int>(i));
    }
    ASSERT_EQ(all, ours) << "seed " << seed;
  }
}

}  // namespace
}  // namespace vkfuse::ort
