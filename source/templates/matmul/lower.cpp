// The matmul template: a loop over steps of k in which the workgroup brings a piece of each operand to shared memory
// and every thread, or every subgroup with cooperative matrices, multiplies what it owns; then the results.
#include "templates/matmul/lower.hpp"

#include "templates/matmul/lower_emitter.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::lowering {

namespace {

/// Chunks of results whose loads a thread has in flight at a time.
constexpr int kMostChunksInFlight = 8;

/// Multiply-adds of a thread's results, beyond which a CPU's driver is not left to compile them once for each.
constexpr double kMostUnrolledOnCpu = 64;

}  // namespace

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
  for (const schedule::MatmulParams::RowReduction& reduction : tile_.row_reductions) {
    const std::string& name = value_names_[reduction.reduction];
    row_reductions_.push_back(
        {reduction.reduction,
         in_two_parts(reduction.reduction) ? "vec2" : scalar_type(loops_.values[reduction.reduction].node),
         unique(name + "_partial"), unique(name + "_slots"), unique(name + "_rows"), unique(name + "_join")});
  }
  for (ValueId id : tile_.row_values) row_arrays_[id] = unique(value_names_[id] + "_of_rows");
  for (std::size_t i = 0; i < tile_.tile_operands.size(); ++i) {
    const schedule::TileOperand& tile_operand = tile_.tile_operands[i];
    std::vector<std::pair<ValueId, std::string>> beside;
    for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
      if (tile_.row_reductions[k].tile_operand == static_cast<int>(i))
        beside.emplace_back(loops_.values[row_reductions_[k].id].operands[0], row_reductions_[k].partial);
    }
    tile_operands_.push_back(make_tile_operand(
        tile_operand.value, schedule::backward_slice_of_operand(loops_, tile_, tile_operand), tile_operand.along_k,
        tile_operand.flattened, tile_operand.elements, counted(tile_operand.second ? kN : kM), counted(kK),
        tile_operand.second ? shape_.n : shape_.m, shape_.k, std::move(beside),
        tile_operand.second ? std::map<ValueId, std::string>() : row_arrays_));
    if (tile_.mma() || tile_.integer_dot())
      make_sub32(tile_operands_.back(), tile_.mma() ? std::optional(tile_.mma()->a) : std::nullopt,
                 tile_.integer_dot());
  }
  std::vector<ValueId> known = tile_.row_values;
  for (const RowReduction& reduction : row_reductions_) known.push_back(reduction.id);
  for (const schedule::MatmulParams::Sum& sum : tile_.sums) {
    known.push_back(sum.reduction);
    sums_.push_back(unique(value_names_[sum.reduction] + "_sums"));
    if (tile_.mma()) subtiles_.push_back(unique(value_names_[sum.reduction] + "_subtiles"));
  }
  make_epilogues(known);
  known.push_back(tile_.kept);
  std::vector<ValueId> stops;
  if (epilogues_.empty())
    known.pop_back();
  else
    stops.push_back(tile_.kept);
  for (const Reduction& epilogue : epilogues_) known.push_back(epilogue.id);
  std::set<ValueId> values;
  std::vector<ValueId> requested;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (is_of_block(i)) continue;
    for (ValueId id : schedule::backward_slice_of(loops_, loops_.stores[i].value, stops)) values.insert(id);
    requested.push_back(loops_.stores[i].value);
  }
  const std::vector<ValueId> all(values.begin(), values.end());
  results_known_ = needed(all, requested, known);
  results_ =
      make_part("result", kN, segment::AxisSet{1} << tile_.n.back(), tile_.elements, all, requested, results_known_);
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
  find_products();
  if (dispatch_ == 0) {
    join_functions();
    for (TileOperand& tile_operand : tile_operands_) {
      if (!tile_.workgroup_scope()) VKF_CHECK_OK(tile_operand_function(tile_operand));
    }
  }
  if (dispatch_ == 0) VKF_CHECK_OK(reduction_functions());
  if (!leaves_parts()) VKF_CHECK_OK(result_function(results_, [&](std::size_t store) { return !is_of_block(store); }));
  if (tile_.workgroup_scope()) {
    VKF_CHECK_OK(result_of_workgroup_tile());
    VKF_CHECK_OK(workgroup_tile_main());
    return finish(fmt::format("tiles of {} x {}, {} at a time along the sum, which the workgroup multiplies as one",
                              shape_.m, shape_.n, shape_.k),
                  workgroups, workgroups_x);
  }
  VKF_CHECK_OK(dispatch_ == 0 ? main_function() : joining_main());
  if (dispatch_ != 0)
    return finish(fmt::format("joins {} parts of every sum, dispatch 2 of 2", schedule_.splits), workgroups,
                  workgroups_x);
  const std::string owner = tile_.mma() ? fmt::format("subgroup of {}, in products of {} x {} x {}", shape_.threads,
                                                      tile_.mma()->m, tile_.mma()->n, tile_.mma()->k)
                                        : "thread";
  const std::string shared =
      schedule_.splits > 1 ? fmt::format("; {} workgroups share a tile, dispatch 1 of 2", schedule_.splits) : "";
  return finish(fmt::format("tiles of {} x {}, {} at a time along the sum; {} x {} per {}{}", shape_.m, shape_.n,
                            shape_.k, shape_.thread_m, shape_.thread_n, owner, shared),
                workgroups, workgroups_x);
}

void MatmulEmitter::join_functions() {
  for (const RowReduction& reduction : row_reductions_) join_function(reduction.id, reduction.type, reduction.function);
}

void MatmulEmitter::declare() {
  for (const TileOperand& tile_operand : tile_operands_) {
    declare_tile(tile_operand);
    for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
      const RowReduction& reduction = row_reductions_[k];
      if (std::none_of(tile_operand.beside.begin(), tile_operand.beside.end(),
                       [&](const auto& beside) { return beside.second == reduction.partial; }))
        continue;
      shared_.line("shared {} {}[{}];", reduction.type, reduction.slots, tile_operand.units);
      shared_.line("shared {} {}[{}];", scalar_type(loops_.values[reduction.id].node), reduction.finished, shape_.m);
      main_.line("{} {}[{}];", reduction.type, reduction.partial, tile_operand.iterations);
      const std::string identity =
          in_two_parts(reduction.id)
              ? "vec2(0.0)"
              : reduction_identity(graph_, graph_.node(loops_.values[reduction.id].node), dialect_);
      main_.line("[[unroll]] for (uint u = 0u; u < {}u; ++u) {}[u] = {};", tile_operand.iterations, reduction.partial,
                 identity);
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
    const std::string type = sums_vec4(i);
    main_.line("{} {}[{}];", type, sums_[i], vec4s);
    main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {}({});", vec4s, sums_[i], type,
               type[0] == 'v' ? "0.0" : "0");
  }
}

/// Tiles that share rows of m or n run at about the same time: they come in strips of some tiles of m.
void MatmulEmitter::locate_tile() {
  constexpr std::int64_t kSwizzle = 8;
  locate_workgroup();
  const std::int64_t per_matrix = tile_.tiles_m * tile_.tiles_n;
  if (schedule_.splits > 1) {
    main_.line("uint part = {};", numbers_.quotient("workgroup", schedule_.launch.workgroups, false));
    main_.line("workgroup = {};", numbers_.remainder("workgroup", schedule_.launch.workgroups, false));
  }
  std::string at = "workgroup";
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
  if (tile_.workgroup_scope()) return;
  const int threads_n = shape_.n / shape_.thread_n;
  if (tile_.mma()) main_.line("uint subgroup = gl_SubgroupID;");
  const char* owner = tile_.mma() ? "subgroup" : "thread";
  main_.line("uint {0}_m = {0} / {1}u;", owner, threads_n);
  main_.line("uint {0}_n = {0} % {1}u;", owner, threads_n);
}

Result<void> MatmulEmitter::main_function() {
  main_.open("void main() {{");
  locate_tile();
  declare();
  VKF_CHECK_OK(find_row_values());
  const std::int64_t all_steps = schedule::ceil_div(count(tile_.k), shape_.k);
  std::string first, steps = numbers_.size(all_steps);
  if (schedule_.splits > 1) {
    main_.line("uint first_step = part * {};", numbers_.size(schedule::ceil_div(all_steps, schedule_.splits)));
    main_.line("uint end = min(first_step + {}, {});", numbers_.size(schedule::ceil_div(all_steps, schedule_.splits)),
               steps);
    first = "first_step";
    steps = "end";
  }
  const bool prefetched = std::any_of(tile_operands_.begin(), tile_operands_.end(),
                                      [](const TileOperand& tile_operand) { return tile_operand.prefetched; });
  for (const TileOperand& tile_operand : tile_operands_) {
    if (!tile_operand.prefetched) continue;
    declare_prefetch(tile_operand);
    VKF_CHECK_OK(fetch(tile_operand, across(tile_operand), first));
  }
  main_.open("for (uint step = {}; step < {}; ++step) {{", first.empty() ? "0u" : first, steps);
  for (std::size_t i = 0; i < tile_operands_.size(); ++i) {
    const auto after = [&](const std::string& inside) { join_rows(i, inside); };
    VKF_CHECK_OK(hand_over(tile_operands_[i], across(tile_operands_[i]), "step", after));
  }
  main_.line("barrier();");
  if (prefetched) {
    main_.line("// The next piece is on its way while this one is multiplied.");
    main_.line("uint next = min(step + 1u, {} - 1u);", steps);
    for (const TileOperand& tile_operand : tile_operands_) {
      if (tile_operand.prefetched) VKF_CHECK_OK(fetch(tile_operand, across(tile_operand), "next"));
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
void MatmulEmitter::join_rows(std::size_t tile_operand, const std::string& inside) {
  for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
    if (tile_.row_reductions[k].tile_operand != static_cast<int>(tile_operand)) continue;
    const RowReduction& reduction = row_reductions_[k];
    const auto element = [&](int e) {
      return in_two_parts(reduction.id) ? fmt::format("vec2({}_{}, 0.0)", reduction.partial, e)
                                        : fmt::format("{}_{}", reduction.partial, e);
    };
    std::string all = element(0);
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
    const std::string leave = fmt::format("{}[u * {}u + thread] = {}[u];", row_reductions_[k].slots,
                                          schedule_.workgroup, row_reductions_[k].partial);
    const bool whole = tile_operand.units % schedule_.workgroup == 0;
    main_.line("[[unroll]] for (uint u = 0u; u < {}u; ++u) {}{}", tile_operand.iterations,
               whole ? "" : fmt::format("if (u * {}u + thread < {}u) ", schedule_.workgroup, tile_operand.units),
               leave);
  }
  main_.line("barrier();");
  main_.open("for (uint row = thread; row < {}u; row += {}u) {{", shape_.m, schedule_.workgroup);
  for (std::size_t k = 0; k < row_reductions_.size(); ++k) {
    const RowReduction& reduction = row_reductions_[k];
    const int per_row =
        shape_.k / tile_operands_[static_cast<std::size_t>(tile_.row_reductions[k].tile_operand)].part.elements;
    const std::string& whole = value_names_[reduction.id];
    main_.line("{} {} = {}[row * {}u];", reduction.type, whole, reduction.slots, per_row);
    main_.line("for (uint i = 1u; i < {0}u; ++i) {1} = {2};", per_row, whole,
               reduction.join(whole, fmt::format("{}[row * {}u + i]", reduction.slots, per_row)));
    const std::string terms = is_mean(reduction.id) ? numbers_.size(count(tile_.k)) : "";
    const std::string result = in_two_parts(reduction.id) ? fmt::format("f32_mean({0}.x, {0}.y, {1})", whole, terms)
                               : terms.empty()            ? whole
                                                          : fmt::format("{} / {}({})", whole, reduction.type, terms);
    main_.line("{}[row] = {};", reduction.finished, result);
  }
  main_.close();
  main_.line("barrier();");
}

/// Every thread has rows of its own, and columns in groups of four that lie side by side over the threads.
void MatmulEmitter::multiply() {
  const int rows = shape_.thread_m / 4;
  const int columns = shape_.thread_n / 4;
  const int threads_n = shape_.n / shape_.thread_n;
  main_.open("for (uint k = 0u; k < {}u; ++k) {{", tile_.integer_dot() ? shape_.k / 4 : shape_.k);
  std::vector<std::vector<std::string>> registers;
  for (const TileOperand& tile_operand : tile_operands_) {
    const bool second = tile_operand.across == kN;
    std::vector<std::string> own;
    for (int i = 0; i < (second ? columns : rows); ++i) {
      own.push_back(fmt::format("{}_{}", tile_operand.part.name, i));
      const std::string place = second      ? (i == 0 ? "thread_n" : fmt::format("thread_n + {}u", i * threads_n))
                                : rows == 1 ? "thread_m"
                                            : fmt::format("thread_m * {}u + {}u", rows, i);
      main_.line("{} {} = {}[k * {}u + {}];", tile_.integer_dot() ? "ivec4" : vec4(tile_operand.value), own.back(),
                 tile_operand.tile, tile_operand.stride(), place);
    }
    registers.push_back(std::move(own));
  }
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    const std::string type = sums_vec4(s);
    const auto& first = registers[static_cast<std::size_t>(tile_.sums[s].first)];
    const auto& second = registers[static_cast<std::size_t>(tile_.sums[s].second)];
    for (int i = 0; i < shape_.thread_m; ++i) {
      for (int g = 0; g < columns; ++g) {
        const std::string sum = fmt::format("{}[{}]", sums_[s], i * columns + g);
        const std::string one = fmt::format("{}({}.{})", type, first[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4]);
        if (tile_.integer_dot()) {
          const std::string a = fmt::format("{}.{}", first[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4]);
          const std::string& b = second[static_cast<std::size_t>(g)];
          main_.line(
              "{0} += ivec4(i8x4_dot({1}, {2}.x, 0), i8x4_dot({1}, {2}.y, 0), i8x4_dot({1}, {2}.z, 0), i8x4_dot({1}, "
              "{2}.w, 0));",
              sum, a, b);
        } else if (type[0] == 'v') {
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
  const auto load = [&](const TileOperand& tile_operand, const std::string& into, const std::string& index) {
    const bool second = tile_operand.across == kN;
    const std::uint32_t own = second ? unit.n : unit.m;
    const std::string at = fmt::format("{}_{} * {}u + {} * {}u", "subgroup", second ? "n" : "m",
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
    const std::string sum = fmt::format("{}[i * {}u + j]", sums_[s], fragment_columns());
    main_.line("{0} = coopMatMulAdd({1}[i], {2}, {0});", sum,
               tile_operands_[static_cast<std::size_t>(tile_.sums[s].first)].part.name,
               tile_operands_[static_cast<std::size_t>(tile_.sums[s].second)].part.name);
  }
  main_.close();
  main_.close();
  main_.close();
}

/// The condition under which `m` and `item` are in the matrix; empty where they always are.
std::string MatmulEmitter::limits_of_results(int elements) {
  const Extent all_n = extent(tile_.n);
  const Extent chunks_n = {schedule::ceil_div(all_n.count, elements), schedule::ceil_div(all_n.decided, elements)};
  std::string inside;
  if (!divides(shape_.m, extent(tile_.m))) inside = fmt::format("m < {}", numbers_.size(count(tile_.m)));
  if (!divides(shape_.n / elements, chunks_n))
    inside += fmt::format("{}chunk < {}", inside.empty() ? "" : " && ", numbers_.size(chunks_n.count));
  return inside;
}

std::string MatmulEmitter::known_name(ValueId id, const std::string& row, int e,
                                      const std::function<std::string(std::size_t sum, int e)>& sum_of) const {
  for (const RowReduction& reduction : row_reductions_) {
    if (reduction.id == id) return fmt::format("{}[{}]", reduction.finished, row);
  }
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    if (tile_.sums[s].reduction != id) continue;
    return sums_vec4(s) == vec4(id) ? sum_of(s, e)
                                    : fmt::format("{}({})", scalar_type(loops_.values[id].node), sum_of(s, e));
  }
  return fmt::format("{}[{}]", row_arrays_.at(id), row);
}

Result<void> MatmulEmitter::store_one(const std::function<std::string(ValueId known, int e)>& name_of,
                                      const std::string& loaded) {
  const std::string inside = limits_of_results(tile_.elements);
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  VKF_CHECK_OK(store_chunk(
      results_,
      [&](int e) {
        std::vector<std::string> all;
        for (ValueId id : results_known_) all.push_back(name_of(id, e));
        return all;
      },
      loaded));
  if (!inside.empty()) main_.close();
  return {};
}

std::string MatmulEmitter::partial_at(const std::string& part, std::size_t sum, int per_vec4) {
  const std::int64_t vec4s = schedule::ceil_div(count(tile_.n), 4);
  const std::int64_t matrix = count(tile_.m) * vec4s;
  std::string at =
      fmt::format("m * {} + chunk{}", numbers_.size(vec4s), per_vec4 == 1 ? "" : fmt::format(" / {}u", per_vec4));
  if (!tile_.batch.empty()) at = fmt::format("batch * {} + {}", numbers_.size(matrix), at);
  const auto sums = static_cast<std::int64_t>(sums_.size());
  const std::string number = sums == 1  ? part
                             : sum == 0 ? fmt::format("{} * {}u", part, sums)
                                        : fmt::format("({} * {}u + {}u)", part, sums, sum);
  return fmt::format("partials.w[{} * {} + {}]", number, numbers_.size(count(tile_.batch) * matrix), at);
}

/// `m` and `item`, a four, are known.
Result<void> MatmulEmitter::leave_partial(const std::function<std::string(std::size_t sum)>& four_of) {
  const std::string inside = limits_of_results(4);
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const std::string type = vec4(tile_.sums[s].reduction);
    main_.line("{} = {}({});", partial_at("part", s, 1), type[0] == 'v' ? "floatBitsToUint" : "uvec4",
               sums_vec4(s) == type ? four_of(s) : fmt::format("{}({})", type, four_of(s)));
  }
  if (!inside.empty()) main_.close();
  return {};
}

/// Every invocation joins the parts of a chunk's sums, in their order.
Result<void> MatmulEmitter::joining_main() {
  use_chunks_of(results_);
  const std::int64_t chunks_n = count(tile_.n) / tile_.elements;
  const int per_vec4 = 4 / tile_.elements;
  main_.open("void main() {{");
  locate_workgroup();
  main_.line("uint unit = workgroup * {}u + thread;", schedule_.workgroup);
  main_.line("if (unit >= {}) return;", numbers_.size(results_in_chunks()));
  main_.line("uint chunk = {};", numbers_.remainder("unit", chunks_n, false));
  main_.line("uint row = {};", numbers_.quotient("unit", chunks_n, false));
  main_.line("uint m = {};", tile_.batch.empty() ? "row" : numbers_.remainder("row", count(tile_.m), false));
  if (!tile_.batch.empty()) main_.line("uint batch = {};", numbers_.quotient("row", count(tile_.m), false));
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const std::string type = vec4(tile_.sums[s].reduction);
    const std::string open = type[0] == 'v' ? "uintBitsToFloat(" : type + "(";
    main_.line("{} {} = {}{});", type, sums_[s], open, partial_at("0u", s, per_vec4));
    main_.line("[[unroll]] for (uint part = 1u; part < {}u; ++part) {} += {}{});", schedule_.splits, sums_[s], open,
               partial_at("part", s, per_vec4));
  }
  VKF_CHECK_OK(store_chunk(results_, [&](int e) {
    const auto sum_of = [&](std::size_t s, int element) {
      const std::string within = tile_.elements == 1
                                     ? fmt::format("[chunk % {}u]", per_vec4)
                                     : fmt::format("[chunk % {}u * {}u + {}u]", per_vec4, tile_.elements, element);
      return per_vec4 == 1 ? fmt::format("{}.{}", sums_[s], "xyzw"[element]) : sums_[s] + within;
    };
    std::vector<std::string> all;
    for (ValueId id : results_known_) all.push_back(known_name(id, {}, e, sum_of));
    return all;
  }));
  main_.close();
  return {};
}

/// On a CPU, what is made of the sums is written once, and loops go over them in memory: beside what multiplies, sums
/// stay in registers. Drivers otherwise compile an exponential 64 times, which takes them half a second.
void MatmulEmitter::lay_out_sums() {
  std::vector<ValueId> made;
  for (ValueId id : schedule::backward_slice_of_results(loops_)) made.push_back(id);
  const int elements = shape_.thread_m * shape_.thread_n;
  if (target_.type != DeviceType::cpu || schedule::cost_of(graph_, loops_, made) * elements <= kMostUnrolledOnCpu)
    return;
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const std::string added_up = std::exchange(sums_[s], unique(value_names_[tile_.sums[s].reduction] + "_added_up"));
    main_.line("{} {}[{}];", sums_vec4(s), sums_[s], elements / 4);
    main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {}[i];", elements / 4, sums_[s], added_up);
  }
  over_results_ = "[[dont_unroll]]";
}

Result<void> MatmulEmitter::store_results() {
  use_chunks_of(results_);
  const int columns = shape_.thread_n / 4;
  const int threads_n = shape_.n / shape_.thread_n;
  const int per_vec4 = 4 / tile_.elements;
  if (!leaves_parts()) lay_out_sums();
  main_.open("{} for (uint i = 0u; i < {}u; ++i) {{", over_results_, shape_.thread_m);
  main_.line("uint m = tile_m * {}u + thread_m * {}u + i;", shape_.m, shape_.thread_m);
  if (leaves_parts()) {
    main_.open("[[unroll]] for (uint g = 0u; g < {}u; ++g) {{", columns);
    main_.line("uint chunk = tile_n * {}u + g * {}u + thread_n;", shape_.n / 4, threads_n);
    VKF_CHECK_OK(leave_partial([&](std::size_t s) { return fmt::format("{}[i * {}u + g]", sums_[s], columns); }));
    main_.close();
    main_.close();
    return {};
  }
  main_.open("{} for (uint g = 0u; g < {}u; ++g) {{", over_results_, shape_.thread_n / tile_.elements);
  main_.line("uint chunk = {};", per_vec4 == 1
                                     ? fmt::format("tile_n * {}u + g * {}u + thread_n", shape_.n / 4, threads_n)
                                     : fmt::format("tile_n * {0}u + (g / {1}u * {2}u + thread_n) * {1}u + g % {1}u",
                                                   shape_.n / tile_.elements, per_vec4, threads_n));
  const std::string place = fmt::format("{}{}", columns == 1 ? "i" : fmt::format("i * {}u", columns),
                                        columns == 1    ? ""
                                        : per_vec4 == 1 ? " + g"
                                                        : fmt::format(" + g / {}u", per_vec4));
  const auto sum_of = [&](std::size_t s, int e) {
    const std::string within = tile_.elements == 1 ? fmt::format("[g % {}u]", per_vec4)
                                                   : fmt::format("[g % {}u * {}u + {}u]", per_vec4, tile_.elements, e);
    return fmt::format("{}[{}]{}", sums_[s], place, per_vec4 == 1 ? fmt::format(".{}", "xyzw"[e]) : within);
  };
  VKF_CHECK_OK(store_one([&](ValueId id, int e) {
    return known_name(id, fmt::format("thread_m * {}u + i", shape_.thread_m), e, sum_of);
  }));
  main_.close();
  main_.close();
  return {};
}

/// Which thread has which element of a fragment is the device's secret: rows of fragments go through shared memory, and
/// every thread takes chunks from there.
Result<void> MatmulEmitter::store_subtiles() {
  use_chunks_of(results_);
  const auto um = static_cast<int>(tile_.mma()->m);
  const auto un = static_cast<int>(tile_.mma()->n);
  const int per_subtile = tile_.cooperative()->subtile / un;  // fragments
  const int subtiles = shape_.thread_n / tile_.cooperative()->subtile;
  const int elements = leaves_parts() ? 4 : tile_.elements;
  const int chunks = tile_.cooperative()->subtile / elements;  // of a row
  const int all = um * chunks;
  main_.line("uint own = subgroup * {}u;", um * subtile_vec4s());
  // One loop, whose counter alone numbers the fragments: what a compiler does not unroll lives in memory.
  const int rounds = fragment_rows() * subtiles;
  // What results are computed from besides sums is in flight while fragments cross shared memory, a few chunks at a
  // time, of the next round before this one's are stored: a result may be written over what it is computed from, and
  // loads that wait for the stores before them leave memory idle.
  const int together = std::min(all / shape_.threads, kMostChunksInFlight);
  const auto waits = [&](ValueId id) {
    return !loops_.values[id].data.empty();
  };  // for another load, which says where it is
  const bool data = std::any_of(results_.vectors.begin(), results_.vectors.end(), waits);
  const bool prefetched = !leaves_parts() && epilogues_.empty() && !results_.vectors.empty() && !data &&
                          all % shape_.threads == 0 && together > 1 && all / shape_.threads % together == 0;
  const auto locate = [&](bool stays_inside, const std::string& round = "i") {  // none: the first
    const std::string subtile_row = subtiles > 1 ? fmt::format("{} / {}u", round, subtiles) : round;
    main_.line("uint row = g / {}u;", chunks);
    main_.line("uint column = g % {}u;", chunks);
    main_.line("uint in_tile = subgroup_m * {}u + {}row;", shape_.thread_m,
               fragment_rows() > 1 && !round.empty() ? fmt::format("{} * {}u + ", subtile_row, um) : "");
    const std::string m = fmt::format("tile_m * {}u + in_tile", shape_.m);
    const std::string chunk =
        fmt::format("tile_n * {}u + subgroup_n * {}u + {}column", shape_.n / elements, shape_.thread_n / elements,
                    subtiles > 1 && !round.empty() ? fmt::format("{} % {}u * {}u + ", round, subtiles, chunks) : "");
    main_.line("uint m = {};", stays_inside ? limited(m, extent(tile_.m), shape_.m) : m);
    main_.line("uint chunk = {};",
               stays_inside ? limited(chunk, extent(tile_.n) / elements, shape_.n / elements) : chunk);
  };
  const auto declare_prefetch = [&](int slots) {
    for (ValueId id : results_.vectors) {
      for (const std::string& name : raw_names(id))
        main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), name, slots);
    }
  };
  const auto prefetch = [&](const std::string& start, const std::string& register_index,
                            const std::string& round = "i") {
    main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", together);
    main_.line("uint g = {} + u * {}u;", start, shape_.threads);
    locate(true, round);
    Scope scope = part_scope(results_);
    for (ValueId id : results_.vectors) load_vectors(scope, id, register_index);
    main_.close();
  };
  const bool at_once = together * shape_.threads == all;
  const bool in_turns = prefetched && at_once && rounds > 1;
  const std::string register_index = in_turns ? fmt::format("[i % 2u * {}u + u]", together) : "[u]";
  if (prefetched && at_once) {
    declare_prefetch(in_turns ? 2 * together : together);
    prefetch("gl_SubgroupInvocationID", "[u]", "");
  }
  if (rounds > 1) main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", rounds);
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    for (int f = 0; f < per_subtile; ++f) {
      std::string sums =
          fmt::format("{}[{}{}u]", sums_[s], rounds > 1 ? fmt::format("i * {}u + ", per_subtile) : "", f);
      if (tile_.mma()->c == DType::f16)
        sums = fmt::format("{}({})", fragment(DType::f32, tile_.mma()->m, tile_.mma()->n, "Accumulator"), sums);
      main_.line("coopMatStore({}, {}, own + {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);", sums, subtiles_[s],
                 f * un / 4, subtile_vec4s());
    }
  }
  main_.line("{}", kSubgroupBarrier);
  if (!epilogues_.empty()) {
    VKF_CHECK_OK(store_epilogues_of_subtile(locate, all / shape_.threads));
    main_.line("{}", kSubgroupBarrier);
    if (rounds > 1) main_.close();
    return {};
  }
  if (prefetched && !at_once) {
    main_.open("for (uint start = gl_SubgroupInvocationID; start < {}u; start += {}u) {{", all,
               together * shape_.threads);
    declare_prefetch(together);
    prefetch("start", "[u]");
  }
  if (in_turns) {
    main_.open("if (i + 1u < {}u) {{", rounds);
    main_.line("uint next = i + 1u;");
    prefetch("gl_SubgroupInvocationID", fmt::format("[next % 2u * {}u + u]", together), "next");
    main_.close();
  }
  if (prefetched) {
    main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", together);
    main_.line("uint g = {} + u * {}u;", at_once ? "gl_SubgroupInvocationID" : "start", shape_.threads);
  } else {
    main_.open("for (uint g = gl_SubgroupInvocationID; g < {}u; g += {}u) {{", all, shape_.threads);
  }
  locate(false);
  const int per_vec4 = 4 / elements;
  std::vector<std::string> vec4s;
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    vec4s.push_back(unique(value_names_[tile_.sums[s].reduction] + "_four"));
    main_.line("{} {} = {}[own + row * {}u + column{}];", sums_vec4(s), vec4s.back(), subtiles_[s], subtile_vec4s(),
               per_vec4 == 1 ? "" : fmt::format(" / {}u", per_vec4));
  }
  const auto sum_of = [&](std::size_t s, int e) {
    if (per_vec4 == 1) return fmt::format("{}.{}", vec4s[s], "xyzw"[e]);
    return fmt::format("{}[column % {}u{}]", vec4s[s], per_vec4,
                       tile_.elements == 1 ? "" : fmt::format(" * {}u + {}u", tile_.elements, e));
  };
  const auto known = [&](ValueId id, int e) { return known_name(id, "in_tile", e, sum_of); };
  VKF_CHECK_OK(leaves_parts() ? leave_partial([&](std::size_t s) { return vec4s[s]; })
                              : store_one(known, prefetched ? register_index : ""));
  main_.close();
  if (prefetched && !at_once) main_.close();
  main_.line("{}", kSubgroupBarrier);
  if (rounds > 1) main_.close();
  return {};
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
