#include "codegen/rows.hpp"

#include <algorithm>

namespace vkfuse::codegen {

Rows::Rows(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
           const schedule::Schedule& schedule, const Target& target, const EmitOptions& options, NodeNames names,
           int dispatch)
    : Emitter(graph, segment, loops, schedule, target, options, std::move(names)),
      dispatch_(dispatch),
      split_(schedule.parts > 1) {
  find_varying();
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    if (loops.values[id].kind == Value::Kind::fold && !is_partner(id)) folds_.push_back(make_fold(id));
    if (!is_scan(id)) continue;
    ScanText scan;
    scan.fold = make_fold(id);
    scan.exclusive = std::get<ir::ScanPayload>(graph.node(loops.values[id].node).payload).exclusive;
    scan.depth = depth_[id];
    scan.total = unique(scan.fold.name + "_total");
    scan.before = unique(scan.fold.name + "_before");
    scan.lanes = unique(scan.fold.name + "_lanes");
    if (split_) folds_.push_back(scan.fold);
    scans_.push_back(std::move(scan));
  }
  if (!split_) return;
  // Where a scan does not run, nobody asks what the workgroups before have seen of it.
  const std::vector<bool> runs = segment::needed_in_pass(loops, dispatch);
  for (FoldText& fold : folds_) {
    if (fold.prefix && fold.stage <= dispatch && !(shares_rows() && runs[fold.id])) fold.stage = kNever;
  }
}

Result<Draft> Rows::run() {
  rows_ = numbers_.named("items", static_cast<std::uint32_t>(schedule_.row_items),
                         schedule_.vector_rows ? "groups of rows" : "rows");
  groups_x_ = numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(workgroups_x(), 1)),
                             "workgroups in one row of the dispatch");
  find_products();
  find_folded_products();
  if (!schedule_.packed && !schedule_.vector_rows &&
      (!split_ || shares_rows())) {  // who only joins what others left loads no items
    Scope element;
    set_row_axes(element, false);
    set_column_axes(element, true);
    find_fields(element, kElement);
  }
  row_scope_.out = &main_;
  row_scope_.axis_names = {{kRow, "row"}};
  set_row_axes(row_scope_, false);
  if (schedule_.packed) {
    const schedule::PackedTile& packed = *schedule_.packed;
    VKF_CHECK_OK(packed_main());
    return finish(fmt::format("{} rows per workgroup, {} tile{} one after another; {} subgroups share the columns, {} "
                              "at a time, in products of {} x {} x {}",
                              packed.rows(), packed.tiles, packed.tiles == 1 ? "" : "s", packed.subgroups,
                              packed.strip_columns(), packed.unit.m, packed.unit.n, packed.unit.k),
                  workgroups(), workgroups_x());
  }
  VKF_CHECK_OK(main_function());
  std::string summary = fmt::format(
      "{} lane{} per row, {} row{} per workgroup, {} elements per item, {} item{} per lane{}", schedule_.column_lanes,
      schedule_.column_lanes == 1 ? "" : "s", schedule_.row_lanes * (schedule_.vector_rows ? elements_ : 1),
      schedule_.row_lanes == 1 ? "" : "s", elements_, schedule_.trips, schedule_.trips == 1 ? "" : "s",
      schedule_.persistent ? ", kept in registers" : "");
  if (split_)
    summary += fmt::format(", {} workgroups share a row, dispatch {} of {}", schedule_.parts, dispatch_ + 1,
                           schedule_.dispatches);
  return finish(summary, workgroups(), workgroups_x());
}

void Rows::begin() {
  const int lanes = schedule_.column_lanes;
  main_.open("void main() {{");
  main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
  if (shares_rows()) {
    main_.line("uint part = workgroup % {}u;", schedule_.parts);
    main_.line("workgroup /= {}u;", schedule_.parts);
  }
  const bool by_subgroup = schedule_.subgroup > 0 && lanes > 1;
  main_.line("uint lane = {};",
             by_subgroup ? "gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID" : "gl_LocalInvocationID.x");
  const int rows = schedule_.row_lanes;
  if (rows == 1) {
    main_.line("uint column_lane = lane;");
    main_.line("uint row = workgroup;");
  } else if (schedule_.vector_rows) {
    main_.line("uint column_lane = lane / {}u;", rows);
    main_.line("uint row = workgroup * {0}u + lane % {0}u;", rows);
  } else {
    main_.line("uint column_lane = lane % {}u;", lanes);
    main_.line("uint row = workgroup * {}u + lane / {}u;", rows, lanes);
  }
  write_field_functions();
  main_.line("bool inside = row < {};", rows_);
  main_.line("row = min(row, {} - 1u);", rows_);
  if (schedule_.trips == 1 && !split_) main_.line("uint column = {};", column_of("column_lane"));
  if (shares_rows()) {
    const std::int64_t share =
        schedule::ceil_div(schedule::ceil_div(schedule_.column_items, schedule_.parts), lanes) * lanes;
    main_.line("uint part_begin = part * {};", numbers_.size(share));
    main_.line("uint part_end = min(part_begin + {}, {});", numbers_.size(share),
               numbers_.size(schedule_.column_items));
  }
  if (!scans_.empty() && schedule::scan_slots(schedule_) > 0)
    main_.line("uint half_begin = 0u;  // of the shared arrays, whose halves serve by turns");
}

Result<void> Rows::main_function() {
  begin();
  Combine combine(schedule_, dialect_, width());
  for (const FoldText& fold : folds_) combine.join_function(fold, functions_);
  if (!split_) {
    for (const ScanText& scan : scans_) combine.join_function(scan.fold, functions_);
  }
  if (!split_) load_kept();  // before anything waits for a row's own loads
  VKF_CHECK_OK(row_values(0));
  if (!split_) {
    if (dispatch_ == 0) VKF_CHECK_OK(row_stores(0));
    for (int pass = 0; pass < loops_.passes; ++pass) {
      VKF_CHECK_OK(run_pass(pass));
      combine.across_lanes(folds_, pass + 1, main_, shared_);
      finish_folds(pass + 1);
      VKF_CHECK_OK(row_values(pass + 1));
      VKF_CHECK_OK(row_stores(pass + 1));
    }
  } else {
    // Earlier dispatches left partial results: every workgroup joins those of its row.
    if (dispatch_ == 0) VKF_CHECK_OK(row_stores(0));
    for (int stage = 1; stage <= dispatch_; ++stage) {
      declare_accumulators(stage);
      combine.from_parts(folds_, stage, loops_.row_count(), main_);
      combine.across_lanes(folds_, stage, main_, shared_);
      finish_folds(stage);
      VKF_CHECK_OK(row_values(stage));
      if (stage == dispatch_) VKF_CHECK_OK(row_stores(stage));
    }
    if (dispatch_ < loops_.passes) {
      VKF_CHECK_OK(run_pass(dispatch_));
      combine.across_lanes(folds_, dispatch_ + 1, main_, shared_);
      combine.to_parts(folds_, dispatch_ + 1, loops_.row_count(), main_);
    }
  }
  main_.close();
  return {};
}

Result<std::vector<Draft>> emit_rows(const ir::Graph& graph, const segment::Segment& segment,
                                     const segment::Loops& loops, const schedule::Schedule& schedule,
                                     const Target& target, const EmitOptions& options, const NodeNames& names) {
  const segment::Loops staged = schedule.parts > 1 ? segment::with_scans_in_parts(loops) : loops;
  std::vector<Draft> kernels;
  for (int dispatch = 0; dispatch < schedule.dispatches; ++dispatch) {
    VKF_TRY(kernel, Rows(graph, segment, staged, schedule, target, options, names, dispatch).run());
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace vkfuse::codegen
