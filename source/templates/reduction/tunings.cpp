#include "base/numerics.hpp"
#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "templates/reduction/candidates.hpp"

namespace vkfuse::schedule {

namespace {

std::vector<Tuning> tunings_around(const Caps& caps, int standard) {
  std::vector<Tuning> all;
  const int largest = largest_workgroup(caps);
  for (int threads = std::max(1, standard / 4); threads <= std::min(4 * standard, largest); threads *= 2) {
    for (int workgroup = std::max(64, threads); workgroup <= std::min(largest, std::max(512, threads));
         workgroup *= 2) {
      for (int vector_bytes : {8, 16}) {
        for (bool persistent : {true, false}) {
          all.push_back({.workgroup = workgroup,
                         .vector_bytes = vector_bytes,
                         .reduction_threads = threads,
                         .persistent = persistent});
        }
      }
    }
    for (bool online : {true, false}) {
      for (int chunks : {1, 2, 4})
        all.push_back({.unroll_factor = chunks, .reduction_threads = threads, .online = online, .persistent = false});
      all.push_back({.reduction_threads = threads, .online = online, .persistent = true});
    }
  }
  for (int splits = 1; splits <= 512; splits *= 2) all.push_back({.splits = splits});
  return all;
}

/// What threads do with the rows of a packed GEMV.
std::vector<Tuning> packed_tunings(const Caps& caps) {
  std::vector<Tuning> all = tunings_around(caps, static_cast<int>(caps.subgroup.size));
  all.push_back({});
  for (Tuning& tuning : all) tuning.cooperative_matrix = false;
  return all;
}

}  // namespace

std::vector<Tuning> reduction_tunings(const Schedule& standard, const Caps& caps) {
  const auto& params = standard.as<ReductionParams>();
  return params.packed ? packed_tunings(caps) : tunings_around(caps, params.reduction_threads);
}

bool keeps_chains_short(const segment::Loops& loops, const Schedule& schedule) {
  const auto& params = schedule.as<ReductionParams>();
  const std::int64_t per_chunk = params.vector_rows ? 1 : schedule.chunk_size;
  return params.iterations / schedule.splits * per_chunk <= longest_sum_chain(loops.reduction_count());
}

}  // namespace vkfuse::schedule
