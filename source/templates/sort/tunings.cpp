#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "templates/sort/candidates.hpp"

namespace vkfuse::schedule {

std::vector<Tuning> sort_tunings(const Schedule& standard, const Caps& caps) {
  const std::int64_t keys = standard.as<SortParams>().keys;
  std::vector<Tuning> all;
  for (int workgroup = 32; workgroup <= largest_workgroup(caps); workgroup *= 2) {
    all.push_back({.workgroup = workgroup});
    for (int block = 256; block < std::min<std::int64_t>(keys, 8192); block *= 2)
      all.push_back({.workgroup = workgroup, .block = block});
  }
  return all;
}

}  // namespace vkfuse::schedule
