// Chains of reshapes and permutations, the way a graph composes them: coordinates of the last array become a
// position in the first. Against arrays that are really reshaped and permuted.
#include <algorithm>
#include <numeric>

#include "points.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

using Sizes = std::vector<Number>;

/// One array of the chain and how it came from the one before.
struct Step {
  Sizes sizes;
  std::vector<std::size_t> order;  ///< of a permutation: dimension i is dimension order[i] before; empty for a reshape
};

Number product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), Number{1}, std::multiplies<>());
}

std::vector<std::size_t> random_order(Random& random, std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

/// Digits joined to at most five dimensions, cut at random places.
std::vector<Sizes> random_groups(Random& random, const Sizes& digits) {
  std::vector<Sizes> groups(1);
  for (const Number digit : digits) {
    if (!groups.back().empty() && groups.size() < 5 && random.chance(50)) groups.emplace_back();
    groups.back().push_back(digit);
  }
  return groups;
}

Sizes sizes_of(const std::vector<Sizes>& groups) {
  Sizes sizes;
  for (const Sizes& group : groups) sizes.push_back(product(group));
  return sizes;
}

/// Dimensions are groups of digits, and no step ever cuts a digit: every boundary is one of a mixed radix.
std::vector<Step> compatible_chain(Random& random) {
  Sizes digits;
  const std::vector<Number> primes{1, 2, 2, 2, 3, 3, 5};
  for (std::size_t left = 4 + random.below(4); left > 0; --left) digits.push_back(random.pick(primes));
  std::vector<Sizes> groups = random_groups(random, digits);
  std::vector<Step> chain{{sizes_of(groups), {}}};
  bool permutes = random.chance(50);
  for (std::size_t left = 1 + random.below(8); left > 0; --left) {
    Step step;
    if (std::exchange(permutes, !permutes)) {
      step.order = random_order(random, groups.size());
      std::vector<Sizes> permuted;
      for (const std::size_t from : step.order) permuted.push_back(groups[from]);
      groups = std::move(permuted);
    } else {
      digits.clear();
      for (const Sizes& group : groups) digits.insert(digits.end(), group.begin(), group.end());
      groups = random_groups(random, digits);
    }
    step.sizes = sizes_of(groups);
    chain.push_back(std::move(step));
  }
  return chain;
}

/// Any factors in any order: [2, 6] may become [3, 4], whose boundaries are not those of [2, 6].
Sizes random_factors(Random& random, Number count) {
  Sizes sizes;
  while (count > 1 && sizes.size() < 4) {
    Sizes divisors;
    for (Number d = 2; d <= count; ++d) {
      if (count % d == 0) divisors.push_back(d);
    }
    sizes.push_back(random.pick(divisors));
    count /= sizes.back();
  }
  if (count > 1 || sizes.empty()) sizes.push_back(count);
  return sizes;
}

std::vector<Step> any_chain(Random& random) {
  const std::vector<Number> counts{12, 24, 36, 48, 60, 64, 72, 120};
  const Number count = random.pick(counts);
  std::vector<Step> chain{{random_factors(random, count), {}}};
  for (std::size_t left = 1 + random.below(6); left > 0; --left) {
    Step step{random_factors(random, count), {}};
    if (random.chance(50)) {
      const Sizes& before = chain.back().sizes;
      step.order = random_order(random, before.size());
      step.sizes.clear();
      for (const std::size_t from : step.order) step.sizes.push_back(before[from]);
    }
    chain.push_back(std::move(step));
  }
  return chain;
}

std::string text_of(const std::vector<Step>& chain) {
  std::string text;
  for (const Step& step : chain) {
    text += fmt::format("{}[{}]",
                        text.empty()         ? ""
                        : step.order.empty() ? " reshaped to "
                                             : " permuted to ",
                        fmt::join(step.sizes, ", "));
  }
  return text;
}

/// The position in the first array, in terms of one axis per dimension of the last.
Expr position_in_first(const std::vector<Step>& chain) {
  std::vector<Expr> coordinates;
  for (std::size_t i = 0; i < chain.back().sizes.size(); ++i)
    coordinates.push_back(Expr::axis(static_cast<int>(i), chain.back().sizes[i]));
  for (std::size_t i = chain.size(); i-- > 1;) {
    const Step& step = chain[i];
    if (step.order.empty()) {
      coordinates = index::delinearize(index::linearize(coordinates, step.sizes), chain[i - 1].sizes);
      continue;
    }
    std::vector<Expr> before(coordinates.size());
    for (std::size_t j = 0; j < before.size(); ++j) before[step.order[j]] = coordinates[j];
    coordinates = std::move(before);
  }
  return index::linearize(coordinates, chain[0].sizes);
}

/// The elements of the last array, each named by its position in the first.
std::vector<Number> moved_elements(const std::vector<Step>& chain) {
  std::vector<Number> elements(static_cast<std::size_t>(product(chain[0].sizes)));
  std::iota(elements.begin(), elements.end(), Number{0});
  for (std::size_t i = 1; i < chain.size(); ++i) {
    const Step& step = chain[i];
    if (step.order.empty()) continue;
    const Sizes& before = chain[i - 1].sizes;
    std::vector<Number> moved;
    Sizes at(step.sizes.size(), 0);
    for (std::size_t n = 0; n < elements.size(); ++n) {
      Sizes from(before.size());
      for (std::size_t j = 0; j < at.size(); ++j) from[step.order[j]] = at[j];
      Number position = 0;
      for (std::size_t j = 0; j < from.size(); ++j) position = position * before[j] + from[j];
      moved.push_back(elements[static_cast<std::size_t>(position)]);
      for (std::size_t j = at.size(); j-- > 0 && ++at[j] == step.sizes[j];) at[j] = 0;
    }
    elements = std::move(moved);
  }
  return elements;
}

/// Loops over pieces of the last array's dimensions, outermost first, and the position they address.
struct Loops {
  std::vector<std::pair<int, Number>> axes;  ///< id and size
  Expr position;
  std::size_t splits = 0;
};

/// The position split until nothing is gained; the pieces of an axis take its place among the loops.
Loops split_all(const std::vector<Step>& chain) {
  Loops loops{{}, position_in_first(chain)};
  int fresh = 0;
  for (const Number size : chain.back().sizes) loops.axes.emplace_back(fresh++, size);
  while (const auto split = index::useful_split(loops.position)) {
    const auto at = std::ranges::find(loops.axes, split->axis, [](const auto& axis) { return axis.first; });
    const std::pair outer{fresh, at->second / split->factor};
    const std::pair inner{fresh + 1, split->factor};
    fresh += 2;
    *at = outer;
    loops.axes.insert(at + 1, inner);
    const Expr pieces = Expr::axis(outer.first, outer.second) * split->factor + Expr::axis(inner.first, inner.second);
    loops.position = index::substitute(loops.position, {{split->axis, pieces}});
    ++loops.splits;
  }
  return loops;
}

/// The position at every point of the loops, in the order of the last array's elements.
std::vector<Number> run(const Loops& loops, std::size_t count) {
  std::vector<Number> positions;
  std::map<int, Number> at;
  for (const auto& [id, size] : loops.axes) at[id] = 0;
  for (std::size_t n = 0; n < count; ++n) {
    positions.push_back(index::evaluate(loops.position, at));
    for (std::size_t j = loops.axes.size(); j-- > 0 && ++at[loops.axes[j].first] == loops.axes[j].second;)
      at[loops.axes[j].first] = 0;
  }
  return positions;
}

TEST(IndexChains, CompatibleChainsLoseEveryDivision) {
  const std::vector<std::uint64_t> cases = seeds(6000);
  std::size_t splits = 0;
  for (const std::uint64_t seed : cases) {
    Random random(seed);
    const std::vector<Step> chain = compatible_chain(random);
    const Loops loops = split_all(chain);
    const std::vector<Number> expected = moved_elements(chain);
    ASSERT_EQ(run(loops, expected.size()), expected) << text_of(chain) << ": " << index::to_text(loops.position) << "\n"
                                                     << replay(seed);
    ASSERT_FALSE(has_division(loops.position)) << text_of(chain) << ": " << index::to_text(loops.position) << "\n"
                                               << replay(seed);
    ASSERT_TRUE(index::covers(loops.position, product(chain[0].sizes))) << text_of(chain) << "\n" << replay(seed);
    splits += loops.splits;
  }
  EXPECT_TRUE(cases.size() < 100 || splits > cases.size() / 2);  // the chains were not all trivial
}

TEST(IndexChains, AnyChainAddressesTheRightElements) {
  const std::vector<std::uint64_t> cases = seeds(6000);
  std::size_t divisions = 0;
  for (const std::uint64_t seed : cases) {
    Random random(seed);
    const std::vector<Step> chain = any_chain(random);
    const Loops loops = split_all(chain);
    const std::vector<Number> expected = moved_elements(chain);
    ASSERT_EQ(run(loops, expected.size()), expected) << text_of(chain) << ": " << index::to_text(loops.position) << "\n"
                                                     << replay(seed);
    divisions += has_division(loops.position) ? 1 : 0;
  }
  EXPECT_TRUE(cases.size() < 100 || divisions > cases.size() / 10);  // some of them cannot be split
}

}  // namespace
}  // namespace vkfuse::test
