// A reduction's choices in words, for reports and plan files.
#include "templates/reduction/candidates.hpp"

namespace vkfuse::schedule {

void describe_reduction(const Schedule& schedule, Description& description) {
  const auto& params = schedule.as<ReductionParams>();
  const LoopTransforms& transforms = schedule.transforms;
  const int rows =
      params.parallel_threads * (params.vector_rows ? schedule.chunk_size : transforms.register_block_rows);
  nlohmann::ordered_json& choices = description.choices;
  choices["parallel_threads"] = params.parallel_threads;
  choices["reduction_threads"] = params.reduction_threads;
  choices["iterations"] = params.iterations;
  choices["rows_per_workgroup"] = rows;
  choices["splits"] = schedule.splits;
  choices["passes"] = params.passes;
  choices["persistent"] = params.persistent;
  choices["online"] = transforms.online;
  choices["register_blocking"] = {transforms.register_block_axis, transforms.register_block_rows};
  if (const auto& packed = params.packed) {
    choices["packed_gemv"] = {packed->mma.m,     packed->mma.n, packed->mma.k,
                              packed->subgroups, packed->tiles, packed->k_slice};
    if (packed->lane_fragments()) choices["lane_steps"] = {packed->lane_steps, packed->keeps_vector};
    description.launch = fmt::format(
        "{} workgroups of {}, {} rows each, {} at a time{}; {} subgroups share the columns, in products of {} x {} x "
        "{}",
        schedule.launch.workgroups, schedule.workgroup, packed->rows(), packed->mma.m,
        packed->lane_fragments() ? ", whose fragments lanes make" : "", packed->subgroups, packed->mma.m, packed->mma.n,
        packed->mma.k);
    return;
  }
  description.launch = fmt::format("{} workgroups of {} threads per row x {} rows, {} pass{} over the columns{}",
                                   schedule.launch.workgroups, params.reduction_threads, rows, params.passes,
                                   params.passes == 1 ? "" : "es", params.persistent ? ", rows kept in registers" : "");
  if (schedule.splits > 1)
    description.more_launch.push_back(
        schedule.counter_bytes > 0
            ? fmt::format("{} workgroups share a row, and the last of them joins: {} dispatch{}", schedule.splits,
                          schedule.dispatches, schedule.dispatches == 1 ? "" : "es")
            : fmt::format("{} workgroups share a row: {} dispatches", schedule.splits, schedule.dispatches));
}

}  // namespace vkfuse::schedule
