#include "templates/attention/tiles.hpp"

#include <algorithm>

namespace vkfuse::schedule {

using segment::Loops;
using segment::ValueId;

int CooperativeAttention::scratch_words() const {
  const auto m = static_cast<int>(mma.m), n = static_cast<int>(mma.n);
  if (elements == ElementAccess::functions) return 0;
  const int sums = m * sum_row_words(n), operand = m * operand_row_words(n);
  const int largest = m / 4;  // scores of rows
  return elements == ElementAccess::shared_memory ? std::max(sums + largest, 2 * operand)
                                                  : sums + std::max(largest, operand);
}

bool has_data_bounds(const MaskBounds& mask) {
  const auto has_data = [](const MaskBound& bound) {
    return std::any_of(bound.begin(), bound.end(), [](const MaskLine& line) { return line.data.has_value(); });
  };
  return std::any_of(mask.upper.begin(), mask.upper.end(), has_data);
}

int AttentionParams::tile_m() const {
  if (by_subgroups() != nullptr) return by_subgroups()->rows;
  return cooperative() != nullptr ? cooperative()->subgroups * static_cast<int>(cooperative()->mma.m)
                                  : simt()->rows * simt()->threads_m;
}

int AttentionParams::tile_k() const {
  if (by_subgroups() != nullptr) return by_subgroups()->subgroups * by_subgroups()->sharing * by_subgroups()->keys;
  return cooperative() != nullptr ? cooperative()->key_fragments * static_cast<int>(cooperative()->mma.n)
                                  : simt()->keys * simt()->threads_k;
}

int AttentionParams::extent_n(const Loops& loops) const {
  if (by_subgroups() != nullptr) return static_cast<int>(count_along(loops, axes.n));
  return round_up(count_along(loops, axes.n),
                  cooperative() ? static_cast<int>(cooperative()->mma.n) : 4 * simt()->threads_k);
}

std::vector<ValueId> AttentionParams::contractions() const {
  std::vector<ValueId> all;
  for (const ScoreProduct& product : products) all.push_back(product.sum);
  return all;
}

std::vector<ValueId> AttentionParams::scores() const {
  if (values.has_softmax) return {values.score};
  std::vector<ValueId> all;
  for (const WeightedSum& one : sums) all.push_back(one.weight);
  return all;
}

std::vector<ValueId> AttentionParams::reductions() const {
  std::vector<ValueId> all;
  if (values.has_softmax) all = {values.most, values.total};
  for (const WeightedSum& one : sums) all.push_back(one.sum);
  return all;
}

bool AttentionParams::is_reloaded(std::size_t product) const {
  return cooperative() != nullptr && product + static_cast<std::size_t>(cooperative()->reloaded) >= products.size();
}

int AttentionParams::extent_d(const Loops& loops, const ScoreProduct& product) const {
  return round_up(count_along(loops, product.d),
                  cooperative() ? static_cast<int>(cooperative()->mma.k) : staged_d(loops, product));
}

int AttentionParams::staged_d(const Loops& loops, const ScoreProduct& product) const {
  if (cooperative()) return extent_d(loops, product);
  const auto all = static_cast<int>(count_along(loops, product.d));
  return simt() == nullptr || simt()->slice == 0 ? all : std::min(simt()->slice, round_up(all, 4));
}

int AttentionParams::staged_k() const {
  return simt() == nullptr || simt()->slice == 0 ? tile_k() : std::min(simt()->slice, tile_k());
}

}  // namespace vkfuse::schedule
