#include <utility>

#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "templates/attention/candidates.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::schedule {

namespace {

/// Rows and keys of a thread. Many of them are worth little without other threads to share what is staged.
constexpr std::pair<int, int> kOfThread[] = {{4, 4}, {8, 4}, {4, 8}, {8, 8}};
constexpr int kFewestWideThreads = 64;

}  // namespace

std::vector<Tuning> attention_tunings(const Schedule& standard, const Caps& caps) {
  std::vector<Tuning> all;
  for (int threads_m = 1; threads_m <= 16; threads_m *= 2) {
    for (int threads_k = 2; threads_k <= 32; threads_k *= 2) {
      if (threads_m * threads_k > largest_workgroup(caps)) continue;
      for (const auto& [rows, keys] : kOfThread) {
        if (rows * keys > 16 && threads_m * threads_k < kFewestWideThreads) continue;
        all.push_back(
            {.attention = AttentionShape{.threads_m = threads_m, .threads_k = threads_k, .rows = rows, .keys = keys},
             .cooperative_matrix = false});
      }
    }
  }
  if (standard.as<AttentionParams>().cooperative() == nullptr) return all;
  for (const AttentionShape& form : cooperative_attention_shapes())
    all.push_back({.attention = form, .cooperative_matrix = true});
  return all;
}

}  // namespace vkfuse::schedule
