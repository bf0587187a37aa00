#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "templates/pointwise/candidates.hpp"

namespace vkfuse::schedule {

std::vector<Tuning> pointwise_tunings(const Schedule& /*standard*/, const Caps& caps) {
  std::vector<Tuning> all;
  for (int workgroup = 64; workgroup <= largest_workgroup(caps); workgroup *= 2) {
    for (int vector_bytes : {4, 8, 16}) {
      for (int chunks : {1, 2, 4}) {
        all.push_back({.workgroup = workgroup, .vector_bytes = vector_bytes, .unroll_factor = chunks, .tiled = false});
      }
      all.push_back({.workgroup = workgroup, .vector_bytes = vector_bytes, .tiled = true});
    }
  }
  return all;
}

}  // namespace vkfuse::schedule
