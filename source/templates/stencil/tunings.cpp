#include "schedule/limits.hpp"
#include "templates/stencil/candidates.hpp"

namespace vkfuse::schedule {

std::vector<Tuning> stencil_tunings(const Schedule& /*standard*/, const Caps& caps) {
  std::vector<Tuning> all;
  for (int workgroup = 64; workgroup <= std::min(256, largest_workgroup(caps)); workgroup *= 2) {
    for (int elements : {2, 4, 8, 16}) {
      for (int rows : {1, 2, 4, 7, 8, 14}) {
        for (int planes : {1, 2, 4})
          all.push_back({.workgroup = workgroup, .stencil = StencilShape{elements, rows, planes}});
      }
    }
  }
  return all;
}

}  // namespace vkfuse::schedule
