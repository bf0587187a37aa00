// The matmul template: a loop over steps of k in which the workgroup stages a tile of each operand in shared memory and
// every thread, or every subgroup with cooperative matrices, multiplies what it owns; then the results.
#include "templates/matmul/lower.hpp"

#include "templates/matmul/lower_emitter.hpp"
#include "templates/matmul/tiles.hpp"

#include <algorithm>
#include <utility>

#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::lowering {

MatmulEmitter::MatmulEmitter(const LoweringInput& in, int dispatch)
    : OperandEmitter(in),
      tile_(schedule_.as<schedule::MatmulParams>()),
      shape_(schedule_.as<schedule::MatmulParams>().shape),
      dispatch_(dispatch) {
  if (schedule_.scratch_bytes > 0) bind_partials("uvec4", "tile");
  counted_ = {{kBatch, "batch", tile_.batch},
              {kM, "m", tile_.m},
              {kN, "n", tile_.n},
              {kK, "k", tile_.k},
              {kHeadDim, "part_of_row", schedule::axes_in(loops_, loops_.inner())}};
  make_row_reductions();
  for (ValueId id : tile_.row_values) row_arrays_[id] = unique(names_.values[id] + "_of_rows");
  for (std::size_t i = 0; i < tile_.tile_operands.size(); ++i) add_operand(i);
  std::vector<ValueId> known = tile_.row_values;
  for (const RowReduction& reduction : row_reductions_) known.push_back(reduction.id);
  for (const schedule::MatmulParams::Sum& sum : tile_.sums) {
    known.push_back(sum.reduction);
    sums_.push_back(unique(names_.values[sum.reduction] + "_sums"));
    if (tile_.mma()) subtiles_.push_back(unique(names_.values[sum.reduction] + "_subtiles"));
  }
  if (const auto* products = tile_.workgroup())
    known.insert(known.end(), products->beside.begin(), products->beside.end());
  make_hoisted();
  make_epilogues(known);
  results_ = make_store_part("result", false, known);
}

void MatmulEmitter::make_row_reductions() {
  for (const schedule::MatmulParams::RowReduction& reduction : tile_.row_reductions) {
    const Code& name = names_.values[reduction.reduction];
    row_reductions_.push_back(
        {reduction.reduction,
         in_two_parts(reduction.reduction) ? "vec2" : scalar_type(loops_.values[reduction.reduction].node),
         unique(name + "_partial"), unique(name + "_slots"), unique(name + "_rows"), unique(name + "_join")});
  }
}

void MatmulEmitter::add_operand(std::size_t number) {
  const schedule::TileOperand& planned = tile_.tile_operands[number];
  std::vector<std::pair<ValueId, Code>> beside;
  for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
    if (tile_.row_reductions[k].tile_operand == static_cast<int>(number))
      beside.emplace_back(loops_.values[row_reductions_[k].id].operands[0], row_reductions_[k].partial);
  }
  tile_operands_.push_back(
      make_tile_operand({.value = planned.value,
                         .backward_slice = schedule::backward_slice_of_operand(loops_, tile_, planned),
                         .along_k = planned.along_k,
                         .flattened = planned.flattened,
                         .elements = planned.elements,
                         .across = planned.second ? kN : kM,
                         .depth = kK,
                         .extent = planned.second ? shape_.n : shape_.m,
                         .k_extent = shape_.k,
                         .beside = std::move(beside),
                         .of_rows = planned.second ? std::map<ValueId, Code>() : row_arrays_,
                         .kept = schedule::kept_along_sum(graph_, loops_, schedule_, planned),
                         .has_fields = !tile_.workgroup_scope(),
                         .chunks_of_lane = chunks_of_lane(planned)}));
  if (tile_.mma() || tile_.integer_dot())
    make_sub32(tile_operands_.back(), tile_.mma() ? std::optional(tile_.mma()->a) : std::nullopt, tile_.integer_dot());
}

Result<RelocatableKernel> MatmulEmitter::run() {
  const std::int64_t joins = schedule::ceil_div(results_in_chunks(), schedule_.workgroup);
  const std::int64_t workgroups = dispatch_ == 0 ? schedule_.launch.workgroups * schedule_.splits : joins;
  const std::int64_t workgroups_x = std::min<std::int64_t>(workgroups, target_.caps.workgroup.max_groups_per_axis);
  numbers_.named("chunks", static_cast<std::uint32_t>(workgroups),
                 dispatch_ != 0         ? "workgroups"
                 : schedule_.splits > 1 ? "parts of tiles of all matrices"
                                        : "tiles of all matrices");
  numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(workgroups_x, 1)),
                 "workgroups in one row of the dispatch");
  VKF_CHECK_OK(write_functions());
  const Code shared =
      schedule_.splits > 1 ? code("; {} workgroups share a tile, dispatch 1 of 2", schedule_.splits) : "";
  if (tile_.lane_fragments()) {
    VKF_CHECK_OK(lane_fragments_main());
    return finish(code("{} rows and {} positions of weights per workgroup, whose fragments lanes make; {} subgroups "
                       "share the sum, {} at a time, in products of {} x {} x {}",
                       shape_.m, shape_.n, schedule::subgroups_of_lane_fragments(shape_),
                       schedule::columns_of_lanes(tile_), tile_.mma()->m, tile_.mma()->n, tile_.mma()->k),
                  workgroups, workgroups_x);
  }
  if (tile_.workgroup_scope() && dispatch_ == 0) {
    if (!leaves_parts()) VKF_CHECK_OK(result_of_workgroup_tile());
    VKF_CHECK_OK(workgroup_tile_main());
    return finish(code("tiles of {} x {}, {} at a time along the sum, which the workgroup multiplies as one{}",
                       shape_.m, shape_.n, shape_.k, shared),
                  workgroups, workgroups_x);
  }
  VKF_CHECK_OK(dispatch_ == 0 ? main_function() : joining_main());
  if (dispatch_ != 0)
    return finish(code("joins {} parts of every sum, dispatch 2 of 2", schedule_.splits), workgroups, workgroups_x);
  const Code owner = tile_.mma() ? code("subgroup of {}, in products of {} x {} x {}", shape_.threads, tile_.mma()->m,
                                        tile_.mma()->n, tile_.mma()->k)
                                 : "thread";
  return finish(code("tiles of {} x {}, {} at a time along the sum; {} x {} per {}{}", shape_.m, shape_.n, shape_.k,
                     shape_.thread_m, shape_.thread_n, owner, shared),
                workgroups, workgroups_x);
}

Result<void> MatmulEmitter::write_functions() {
  find_products();
  if (tile_.lane_fragments()) find_pairs();
  if (dispatch_ == 0) {
    join_functions();
    for (TileOperand& tile_operand : tile_operands_) {
      if (!tile_.workgroup_scope()) VKF_CHECK_OK(tile_operand_function(tile_operand));
    }
    VKF_CHECK_OK(reduction_functions());
  }
  if (leaves_parts()) return {};
  return result_function(results_, [&](std::size_t store) { return !is_of_block(store); });
}

void MatmulEmitter::join_functions() {
  for (const RowReduction& reduction : row_reductions_)
    join_function(reduction.id, in_two_parts(reduction.id), reduction.function);
}

void MatmulEmitter::declare() {
  for (std::size_t i = 0; i < tile_operands_.size(); ++i) {
    const TileOperand& tile_operand = tile_operands_[i];
    declare_tile(tile_operand);
    for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
      const RowReduction& reduction = row_reductions_[k];
      if (tile_.row_reductions[k].tile_operand != static_cast<int>(i)) continue;
      shared_.line("shared {} {}[{}];", reduction.type, reduction.slots, tile_operand.staging.chunks);
      shared_.line("shared {} {}[{}];", scalar_type(loops_.values[reduction.id].node), reduction.finished, shape_.m);
      main_.line("{} {}[{}];", reduction.type, reduction.partial, tile_operand.staging.iterations);
      const Code identity = in_two_parts(reduction.id)
                                ? "vec2(0.0)"
                                : reduction_identity(graph_, graph_.node(loops_.values[reduction.id].node), dialect_);
      main_.unrolled("u", tile_operand.staging.iterations, code("{}[u] = {};", reduction.partial, identity));
    }
  }
  for (std::size_t i = 0; i < tile_.sums.size(); ++i) {
    if (tile_.mma()) {
      shared_.line("shared {} {}[{}];", component_vec4(tile_.mma()->c), subtiles_[i],
                   shape_.owners() * static_cast<int>(tile_.mma()->m) * subtile_vec4s());
      main_.line("{} {}[{}];", sum_type(), sums_[i], fragment_rows() * fragment_columns());
      main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {}({});", fragment_rows() * fragment_columns(),
                 sums_[i], sum_type(), is_float(tile_.mma()->c) ? "0.0" : "0");
      continue;
    }
    const int vec4s = shape_.thread_m * shape_.thread_n / 4;
    const Code type = sums_vec4(i);
    main_.line("{} {}[{}];", type, sums_[i], vec4s);
    const char* zero = sums_register(i) == ops::RegisterType::f32 ? "0.0" : "0";
    main_.unrolled("i", vec4s, code("{}[i] = {}({});", sums_[i], type, zero));
  }
}

/// Tiles that share rows of m or n run at about the same time: they come in swizzles of some tiles of m.
void MatmulEmitter::locate_tile() {
  constexpr std::int64_t kSwizzle = 8;
  locate_workgroup();
  const std::int64_t per_matrix = tile_.tiles_m * tile_.tiles_n;
  if (schedule_.splits > 1) {
    main_.line("uint part = {};", numbers_.quotient("workgroup", schedule_.launch.workgroups, false));
    main_.line("workgroup = {};", numbers_.remainder("workgroup", schedule_.launch.workgroups, false));
  }
  Code at = "workgroup";
  if (!tile_.batch.empty()) {
    main_.line("uint batch = {};", numbers_.quotient("workgroup", per_matrix, false));
    main_.line("uint tile = {};", numbers_.remainder("workgroup", per_matrix, false));
    at = "tile";
  }
  const std::int64_t decided = reference_sizes_.schedule->as<schedule::MatmulParams>().tiles_m;
  if (decided >= 2 * kSwizzle && divides(kSwizzle, {tile_.tiles_m, decided})) {
    main_.line("uint swizzle = {};", numbers_.quotient(at, kSwizzle * tile_.tiles_n, false));
    main_.line("uint in_swizzle = {};", numbers_.remainder(at, kSwizzle * tile_.tiles_n, false));
    main_.line("uint tile_m = swizzle * {0}u + in_swizzle % {0}u;", kSwizzle);
    main_.line("uint tile_n = in_swizzle / {}u;", kSwizzle);
  } else {
    main_.line("uint tile_m = {};", numbers_.remainder(at, tile_.tiles_m, false));
    main_.line("uint tile_n = {};", numbers_.quotient(at, tile_.tiles_m, false));
  }
  if (tile_.workgroup_scope() || tile_.lane_fragments()) return;
  const int threads_n = shape_.n / shape_.thread_n;
  if (tile_.mma()) main_.line("uint subgroup = gl_SubgroupID;");
  const char* owner = tile_.mma() ? "subgroup" : "thread";
  main_.line("uint {0}_m = {0} / {1}u;", owner, threads_n);
  main_.line("uint {0}_n = {0} % {1}u;", owner, threads_n);
}

MatmulEmitter::Steps MatmulEmitter::locate_steps() {
  const std::int64_t all = schedule::ceil_div(count(tile_.k), shape_.k);
  Code end = numbers_.size(all);
  if (schedule_.splits <= 1) return {"", std::move(end)};
  const std::int64_t share = schedule::ceil_div(all, schedule_.splits);
  main_.line("uint first_step = part * {};", numbers_.size(share));
  main_.line("uint end = min(first_step + {}, {});", numbers_.size(share), end);
  return {"first_step", "end"};
}

/// What is there before the first step; whether some of each next one is brought while one is multiplied.
Result<bool> MatmulEmitter::fetch_first(const Steps& steps) {
  bool prefetched = false;
  for (const TileOperand& tile_operand : tile_operands_) {
    write_fields(tile_operand);
    fetch_kept(tile_operand, across(tile_operand));
    prefetched = prefetched || tile_operand.staging.prefetched;
  }
  for (const TileOperand& tile_operand : tile_operands_) {
    if (!tile_operand.staging.prefetched) continue;
    declare_prefetch(tile_operand);
    VKF_CHECK_OK(fetch(tile_operand, across(tile_operand), steps.first));
  }
  return prefetched;
}

Result<void> MatmulEmitter::main_function() {
  main_.open("void main() {{");
  locate_tile();
  declare();
  VKF_CHECK_OK(find_row_values());
  const Steps steps = locate_steps();
  VKF_TRY(prefetched, fetch_first(steps));
  main_.open("for (uint step = {}; step < {}; ++step) {{", steps.first.empty() ? "0u" : steps.first, steps.end);
  for (std::size_t i = 0; i < tile_operands_.size(); ++i) {
    const auto after = [&](const Code& inside) { join_rows(i, inside); };
    VKF_CHECK_OK(stage(tile_operands_[i], across(tile_operands_[i]), "step", after));
  }
  main_.line("barrier();");
  if (prefetched) {
    main_.line("// The next piece is on its way while this one is multiplied.");
    main_.line("uint next = min(step + 1u, {} - 1u);", steps.end);
    for (const TileOperand& tile_operand : tile_operands_) {
      if (tile_operand.staging.prefetched) VKF_CHECK_OK(fetch(tile_operand, across(tile_operand), "next"));
    }
  }
  if (tile_.mma())
    multiply_cooperative();
  else
    multiply();
  main_.line("barrier();");
  main_.close();
  finish_rows();
  VKF_CHECK_OK(tile_.mma() != nullptr ? store_subtiles() : epilogues_.empty() ? store_results() : store_epilogues());
  main_.close();
  return {};
}

/// What a chunk adds to its row is joined first, so that chains stay short.
void MatmulEmitter::join_rows(std::size_t tile_operand, const Code& inside) {
  for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
    if (tile_.row_reductions[k].tile_operand != static_cast<int>(tile_operand)) continue;
    const RowReduction& reduction = row_reductions_[k];
    const auto element = [&](int e) {
      return in_two_parts(reduction.id) ? code("vec2({}_{}, 0.0)", reduction.partial, e)
                                        : code("{}_{}", reduction.partial, e);
    };
    Code all = element(0);
    for (int e = 1; e < tile_operands_[tile_operand].part.elements; ++e) all = reduction.join(all, element(e));
    main_.line("{}{}[u] = {};", inside.empty() ? "" : "if (" + inside + ") ", reduction.partial,
               reduction.join(reduction.partial + "[u]", all));
  }
}

/// The threads that have read parts of a row leave what they found, and one joins it.
void MatmulEmitter::finish_rows() {
  if (row_reductions_.empty()) return;
  for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
    const TileOperand& tile_operand = tile_operands_[static_cast<std::size_t>(tile_.row_reductions[k].tile_operand)];
    const Code leave = code("{}[u * {}u + thread] = {}[u];", row_reductions_[k].slots, schedule_.workgroup,
                            row_reductions_[k].partial);
    const bool whole = tile_operand.staging.chunks % schedule_.workgroup == 0;
    const Code has_chunk =
        whole ? "" : code("if (u * {}u + thread < {}u) ", schedule_.workgroup, tile_operand.staging.chunks);
    main_.unrolled("u", tile_operand.staging.iterations, has_chunk + leave);
  }
  main_.line("barrier();");
  main_.open("for (uint row = thread; row < {}u; row += {}u) {{", shape_.m, schedule_.workgroup);
  for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
    const RowReduction& reduction = row_reductions_[k];
    const int per_row =
        shape_.k / tile_operands_[static_cast<std::size_t>(tile_.row_reductions[k].tile_operand)].part.elements;
    const Code& whole = names_.values[reduction.id];
    main_.line("{} {} = {}[row * {}u];", reduction.type, whole, reduction.slots, per_row);
    main_.line("for (uint i = 1u; i < {0}u; ++i) {1} = {2};", per_row, whole,
               reduction.join(whole, code("{}[row * {}u + i]", reduction.slots, per_row)));
    const Code terms = is_mean(reduction.id) ? numbers_.size(count(tile_.k)) : "";
    const Code result = in_two_parts(reduction.id) ? code("f32_mean({0}.x, {0}.y, {1})", whole, terms)
                        : terms.empty()            ? whole
                                                   : code("{} / {}({})", whole, reduction.type, terms);
    main_.line("{}[row] = {};", reduction.finished, result);
  }
  main_.close();
  main_.line("barrier();");
}

/// What a thread multiplies of an operand at one position of k, in vec4s; their names.
std::vector<Code> MatmulEmitter::load_operand_registers(const TileOperand& tile_operand) {
  const bool second = tile_operand.across == kN;
  const int rows = shape_.thread_m / 4;
  const int threads_n = shape_.n / shape_.thread_n;
  std::vector<Code> own;
  for (int i = 0; i < (second ? shape_.thread_n / 4 : rows); ++i) {
    own.push_back(code("{}_{}", tile_operand.part.name, i));
    const Code position = second      ? (i == 0 ? "thread_n" : code("thread_n + {}u", i * threads_n))
                          : rows == 1 ? "thread_m"
                                      : code("thread_m * {}u + {}u", rows, i);
    main_.line("{} {} = {}[k * {}u + {}];", tile_.integer_dot() ? "ivec4" : vec4(tile_operand.value), own.back(),
               tile_operand.tile, tile_operand.stride(), position);
  }
  return own;
}

/// Every thread has rows of its own, and columns in groups of four that lie side by side over the threads.
void MatmulEmitter::multiply() {
  const int columns = shape_.thread_n / 4;
  main_.open("for (uint k = 0u; k < {}u; ++k) {{", tile_.integer_dot() ? shape_.k / 4 : shape_.k);
  std::vector<std::vector<Code>> registers;
  for (const TileOperand& tile_operand : tile_operands_) registers.push_back(load_operand_registers(tile_operand));
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    const Code type = sums_vec4(s);
    const auto& first = registers[static_cast<std::size_t>(tile_.sums[s].first)];
    const auto& second = registers[static_cast<std::size_t>(tile_.sums[s].second)];
    for (int i = 0; i < shape_.thread_m; ++i) {
      for (int g = 0; g < columns; ++g) {
        const Code sum = code("{}[{}]", sums_[s], i * columns + g);
        const Code one = code("{}({}.{})", type, first[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4]);
        if (tile_.integer_dot()) {
          const Code a = code("{}.{}", first[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4]);
          const Code& b = second[static_cast<std::size_t>(g)];
          main_.line(
              "{0} += ivec4(i8x4_dot({1}, {2}.x, 0), i8x4_dot({1}, {2}.y, 0), i8x4_dot({1}, {2}.z, 0), i8x4_dot({1}, "
              "{2}.w, 0));",
              sum, a, b);
        } else if (sums_register(s) == ops::RegisterType::f32) {
          main_.line("{} = fma({}, {}, {});", sum, one, second[static_cast<std::size_t>(g)], sum);
        } else {
          main_.line("{} += {} * {};", sum, one, second[static_cast<std::size_t>(g)]);
        }
      }
    }
  }
  main_.close();
}

/// Every subgroup has rows and columns of its own. Tiles are in the order in which they were read, and fragments are
/// loaded either way.
void MatmulEmitter::multiply_cooperative() {
  const MatrixShape& unit = *tile_.mma();
  main_.open("[[unroll]] for (uint k = 0u; k < {}u; k += {}u) {{", shape_.k, unit.k);
  // Of the first operands all rows; of the second ones a column at a time.
  const auto load = [&](const TileOperand& tile_operand, const Code& into, const Code& index) {
    const bool second = tile_operand.across == kN;
    const std::uint32_t own = second ? unit.n : unit.m;
    const Code at = code("{}_{} * {}u + {} * {}u", "subgroup", second ? "n" : "m",
                         second ? shape_.thread_n : shape_.thread_m, index, own);
    main_.line("coopMatLoad({}, {});", into, fragment_at(tile_operand, at, "k", second));
  };
  for (const TileOperand& tile_operand : tile_operands_) {
    if (tile_operand.across == kN) continue;
    main_.line("{} {}[{}];", fragment(unit.a, unit.m, unit.k, "A"), tile_operand.part.name, fragment_rows());
    main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", fragment_rows());
    load(tile_operand, tile_operand.part.name + "[i]", "i");
    main_.close();
  }
  main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", fragment_columns());
  for (const TileOperand& tile_operand : tile_operands_) {
    if (tile_operand.across != kN) continue;
    main_.line("{} {};", fragment(unit.a, unit.k, unit.n, "B"), tile_operand.part.name);
    load(tile_operand, tile_operand.part.name, "j");
  }
  main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", fragment_rows());
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    const Code sum = code("{}[i * {}u + j]", sums_[s], fragment_columns());
    main_.line("{0} = coopMatMulAdd({1}[i], {2}, {0});", sum,
               tile_operands_[static_cast<std::size_t>(tile_.sums[s].first)].part.name,
               tile_operands_[static_cast<std::size_t>(tile_.sums[s].second)].part.name);
  }
  main_.close();
  main_.close();
  main_.close();
}

Result<std::vector<RelocatableKernel>> lower_matmul(const LoweringInput& in) {
  std::vector<RelocatableKernel> kernels;
  for (int dispatch = 0; dispatch < in.schedule.dispatches; ++dispatch) {
    VKF_TRY(kernel, MatmulEmitter(in, dispatch).run());
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace vkfuse::lowering
