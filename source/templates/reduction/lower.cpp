#include "templates/reduction/lower.hpp"

#include "templates/reduction/lower_emitter.hpp"

#include <algorithm>

namespace vkfuse::lowering {

ReductionEmitter::ReductionEmitter(const LoweringInput& in, int dispatch)
    : Emitter(in),
      params_(schedule_.as<schedule::ReductionParams>()),
      dispatch_(dispatch),
      split_(schedule_.splits > 1) {
  if (schedule_.scratch_bytes > 0) bind_partials("uint", "row");
  if (joins_in_last()) bind_counts();
  find_varying();
  find_needed_by_elements();
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (loops_.values[id].kind == Value::Kind::reduction && !is_partner(id)) reductions_.push_back(make_reduction(id));
    if (!is_scan(id)) continue;
    ScanText scan;
    scan.reduction = make_reduction(id);
    scan.exclusive = std::get<ir::ScanPayload>(graph_.node(loops_.values[id].node).payload).exclusive;
    scan.depth = depth_[id];
    scan.total = unique(scan.reduction.name + "_total");
    scan.before = unique(scan.reduction.name + "_before");
    scan.threads = unique(scan.reduction.name + "_lanes");
    if (split_) reductions_.push_back(scan.reduction);
    scans_.push_back(std::move(scan));
  }
  if (!split_) return;
  // Where a scan does not run, no thread asks what the workgroups before have seen of it.
  const std::vector<bool> runs = segment::needed_in_pass(loops_, dispatch);
  for (ReductionText& reduction : reductions_) {
    if (reduction.prefix && reduction.level <= dispatch && !(shares_rows() && runs[reduction.id]))
      reduction.level = kNever;
  }
}

Result<RelocatableKernel> ReductionEmitter::run() {
  rows_ = numbers_.named("chunks", static_cast<std::uint32_t>(schedule_.launch.parallel_chunks),
                         params_.vector_rows ? "groups of rows" : "rows");
  groups_x_ = numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(workgroups_x(), 1)),
                             "workgroups in one row of the dispatch");
  find_products();
  find_reduced_products();
  if (!params_.packed && !params_.vector_rows &&
      (!split_ || shares_rows())) {  // who only joins what others left loads no chunks
    Scope element;
    set_parallel_axes(element, false);
    set_reduction_axes(element, true);
    found_.sub_byte_fields =
        find_sub_byte_fields({graph_, loops_, schedule_, schedule_.chunk_size, element.axes, kElement});
  }
  row_scope_.out = &main_;
  row_scope_.axis_names = {{kRow, "row"}};
  set_parallel_axes(row_scope_, false);
  if (params_.packed) {
    const schedule::PackedGemvTile& packed = *params_.packed;
    VKF_CHECK_OK(packed_gemv_main());
    return finish(
        code("{} rows per workgroup, {} tile{} one after another{}; {} subgroups share the columns, {} "
             "at a time, in products of {} x {} x {}",
             packed.rows(), packed.tiles, packed.tiles == 1 ? "" : "s",
             packed.lane_fragments() ? ", whose fragments lanes make" : "", packed.subgroups,
             packed.k_slice_columns() * std::max(1, packed.lane_steps), packed.mma.m, packed.mma.n, packed.mma.k),
        workgroups(), workgroups_x());
  }
  VKF_CHECK_OK(main_function());
  return finish(summary(), workgroups(), workgroups_x());
}

Code ReductionEmitter::summary() const {
  Code text = code("{} thread{} per row, {} row{} per workgroup, {} elements per chunk, {} chunk{} per thread{}",
                   params_.reduction_threads, params_.reduction_threads == 1 ? "" : "s",
                   params_.parallel_threads * (params_.vector_rows ? chunk_.elements : 1),
                   params_.parallel_threads == 1 ? "" : "s", chunk_.elements, params_.iterations,
                   params_.iterations == 1 ? "" : "s", params_.persistent ? ", kept in registers" : "");
  if (split_) text += code(", {} workgroups share a row", schedule_.splits);
  if (schedule_.dispatches > 1) text += code(", dispatch {} of {}", dispatch_ + 1, schedule_.dispatches);
  return text;
}

void ReductionEmitter::begin() {
  const int threads = params_.reduction_threads;
  main_.open("void main() {{");
  main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
  if (shares_rows()) {
    main_.line("uint part = workgroup % {}u;", schedule_.splits);
    main_.line("workgroup /= {}u;", schedule_.splits);
  }
  const bool by_subgroup = schedule_.subgroup > 0 && threads > 1;
  main_.line("uint thread = {};",
             by_subgroup ? "gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID" : "gl_LocalInvocationID.x");
  const int rows = params_.parallel_threads;
  if (rows == 1) {
    main_.line("uint reduction_thread = thread;");
    main_.line("uint row = workgroup;");
  } else if (params_.vector_rows) {
    main_.line("uint reduction_thread = thread / {}u;", rows);
    main_.line("uint row = workgroup * {0}u + thread % {0}u;", rows);
  } else {
    main_.line("uint reduction_thread = thread % {}u;", threads);
    main_.line("uint row = workgroup * {}u + thread / {}u;", rows, threads);
  }
  write_sub_byte_functions(found_.sub_byte_fields);
  main_.line("bool inside = row < {};", rows_);
  main_.line("row = min(row, {} - 1u);", rows_);
  if (params_.iterations == 1 && !split_) main_.line("uint column = {};", column_of("reduction_thread"));
  if (shares_rows()) {
    const std::int64_t share =
        schedule::ceil_div(schedule::ceil_div(schedule_.launch.reduction_chunks, schedule_.splits), threads) * threads;
    main_.line("uint part_begin = part * {};", numbers_.size(share));
    main_.line("uint part_end = min(part_begin + {}, {});", numbers_.size(share),
               numbers_.size(schedule_.launch.reduction_chunks));
  }
  if (!scans_.empty() && params_.scan_slots(schedule_.subgroup) > 0)
    main_.line("uint half_begin = 0u;  // of the shared arrays, whose halves serve by turns");
}

Result<void> ReductionEmitter::main_function() {
  begin();
  const Combine combine(schedule_, dialect_, width());
  for (const ReductionText& reduction : reductions_) combine.join_function(reduction, functions_);
  if (!split_) {
    for (const ScanText& scan : scans_) combine.join_function(scan.reduction, functions_);
    load_kept();  // before anything waits for a row's own loads
  }
  VKF_CHECK_OK(row_values(0));
  if (dispatch_ < loops_.passes) find_visited_chunks();
  if (dispatch_ == 0) VKF_CHECK_OK(row_stores(0));
  VKF_CHECK_OK(split_ ? one_pass(combine) : all_passes(combine));
  main_.close();
  return {};
}

Result<void> ReductionEmitter::all_passes(const Combine& combine) {
  for (int level = 1; level <= loops_.passes; ++level) {
    VKF_CHECK_OK(run_pass(level - 1));
    const bool last = level == loops_.passes;  // then rows are stored, by the first thread of each
    combine.across_threads(reductions_, level, main_, shared_,
                           last ? Combine::Readers::first_thread : Combine::Readers::all);
    finish_reductions(level);
    VKF_CHECK_OK(row_values(level));
    VKF_CHECK_OK(row_stores(level));
  }
  return {};
}

Result<void> ReductionEmitter::one_pass(const Combine& combine) {
  // Earlier dispatches left partial results: every workgroup joins those of its row.
  for (int level = 1; level <= dispatch_; ++level) {
    declare_accumulators(level);
    combine.from_parts(reductions_, level, loops_.parallel_count(), main_);
    combine.across_threads(reductions_, level, main_, shared_);
    finish_reductions(level);
    VKF_CHECK_OK(row_values(level));
    if (level == dispatch_) VKF_CHECK_OK(row_stores(level));
  }
  if (dispatch_ < loops_.passes) {
    VKF_CHECK_OK(run_pass(dispatch_));
    combine.across_threads(reductions_, dispatch_ + 1, main_, shared_);
    combine.to_parts(reductions_, dispatch_ + 1, loops_.parallel_count(), main_);
  }
  return joins_in_last() ? join_in_last() : Result<void>();
}

Result<void> ReductionEmitter::join_in_last() {
  go_on_in_last("workgroup");
  const int level = dispatch_ + 1;
  for (const ReductionText& reduction : reductions_) {
    if (reduction.level == level) assign_identities(reduction);
  }
  const Combine combine(schedule_, dialect_, width());
  combine.join_parts(reductions_, level, loops_.parallel_count(), main_);
  finish_reductions(level);
  VKF_CHECK_OK(row_values(level));
  return row_stores(level);
}

namespace {

/// Of matrices one below the other, each is loaded where it has the rows: predicates hold there.
void drop_known_predicates(const schedule::PackedGemvTile& packed, segment::Loops& loops) {
  const auto drop = [&](segment::ValueId root) {
    for (const segment::ValueId id : schedule::backward_slice_of(loops, root)) {
      if (loops.values[id].kind == segment::Value::Kind::load) loops.values[id].predicates.clear();
    }
  };
  for (const schedule::PackedWeights& weights : packed.sums) {
    for (const schedule::PackedMatrix& matrix : weights.matrices) {
      drop(matrix.load);
      if (matrix.scale) drop(*matrix.scale);
    }
  }
}

}  // namespace

Result<std::vector<RelocatableKernel>> lower_reduction(const LoweringInput& in) {
  segment::Loops staged = in.schedule.splits > 1 ? segment::with_split_scans(in.loops) : in.loops;
  if (const auto& packed = in.schedule.as<schedule::ReductionParams>().packed) drop_known_predicates(*packed, staged);
  std::vector<RelocatableKernel> kernels;
  for (int dispatch = 0; dispatch < in.schedule.dispatches; ++dispatch) {
    VKF_TRY(kernel, ReductionEmitter(in.with(staged), dispatch).run());
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace vkfuse::lowering
