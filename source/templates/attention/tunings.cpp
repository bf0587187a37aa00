#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "templates/attention/candidates.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::schedule {

std::vector<Tuning> attention_tunings(const Schedule& standard, const Caps& caps) {
  std::vector<Tuning> all;
  for (int threads_m = 1; threads_m <= 16; threads_m *= 2) {
    for (int threads_k = 2; threads_k <= 16; threads_k *= 2) {
      if (threads_m * threads_k <= largest_workgroup(caps))
        all.push_back(
            {.attention = AttentionShape{.threads_m = threads_m, .threads_k = threads_k}, .cooperative_matrix = false});
    }
  }
  if (standard.as<AttentionParams>().cooperative() == nullptr) return all;
  for (const AttentionShape& form : cooperative_attention_shapes())
    all.push_back({.attention = form, .cooperative_matrix = true});
  return all;
}

}  // namespace vkfuse::schedule
