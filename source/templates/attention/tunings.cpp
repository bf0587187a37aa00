#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "templates/attention/candidates.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::schedule {

namespace {

/// Rows and keys of a thread, and how operands are staged: slices serve many threads.
struct OfThread {
  int rows, keys;
  bool slices;
};
constexpr OfThread kOfThreads[] = {{4, 4, false}, {4, 4, true}, {8, 4, true}, {4, 8, true}, {8, 8, true}};
constexpr int kFewestThreads = 32;

}  // namespace

std::vector<Tuning> attention_tunings(const Schedule& standard, const Caps& caps) {
  std::vector<Tuning> all;
  const AttentionParams& tile = standard.as<AttentionParams>();
  for (int threads_m = 1; tile.sums.size() <= 1 && threads_m <= 16; threads_m *= 2) {
    for (int threads_k = 2; threads_k <= 32; threads_k *= 2) {
      if (threads_m * threads_k > largest_workgroup(caps)) continue;
      for (const OfThread& of : kOfThreads) {
        if (of.slices && threads_m * threads_k < kFewestThreads) continue;
        all.push_back({.attention = AttentionShape{.threads_m = threads_m,
                                                   .threads_k = threads_k,
                                                   .rows = of.rows,
                                                   .keys = of.keys,
                                                   .slices = of.slices},
                       .cooperative_matrix = false});
      }
    }
  }
  if (tile.cooperative() == nullptr) return all;
  for (const AttentionShape& form : cooperative_attention_shapes(tile))
    all.push_back({.attention = form, .cooperative_matrix = true});
  return all;
}

}  // namespace vkfuse::schedule
