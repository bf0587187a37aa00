// The reduction template with cooperative matrices: weights of four bits times one vector (schedule::PackedGemvTile).
// Subgroups share the columns of a tile of rows; the words of their strips are in flight while those before are
// multiplied, and no subgroup waits for another before the end.
#include <algorithm>

#include "lowering/components.hpp"
#include "lowering/fragments.hpp"
#include "schedule/operands.hpp"
#include "templates/reduction/lower_emitter.hpp"

namespace vkfuse::lowering {

using schedule::PackedGemvTile;

namespace {

constexpr int kColumnsOfChunk = 32;  // columns in 16 bytes

}  // namespace

/// The element of the vector at `column` and `j`: the name of a function, or nothing where the element is what one load
/// gives.
Result<std::string> ReductionEmitter::element_of_vector(const PackedGemvTile& packed,
                                                        const std::vector<ValueId>& vectors,
                                                        std::vector<ValueId>& function_inputs,
                                                        std::string& coordinates) {
  if (is_vector(packed.vector)) {
    function_inputs = {packed.vector};
    return std::string();
  }
  Scope scope;
  Writer out;
  scope.out = &out;
  set_reduction_axes(scope, true);
  scope.axis_names = {{kColumn, "column"}, {kElement, "j"}};
  std::vector<ValueId> own;
  for (ValueId id : schedule::backward_slice_of(loops_, packed.vector)) {
    if (is_literal(id) || is_contracted(id)) continue;
    const bool given = std::find(vectors.begin(), vectors.end(), id) != vectors.end() || !varies(id);
    if (!given) own.push_back(id);
    if (!given) continue;
    function_inputs.push_back(id);
    scope.names[id] = value_names_[id];
  }
  out.indent();
  VKF_CHECK_OK(emit_values(scope, own));
  out.line("return {};", use(scope, packed.vector));
  const std::string text = out.take();
  std::string parameters;
  for (const char* name : {"column", "j"}) {
    if (!mentions(text, name)) continue;
    coordinates += name[0];
    parameters += fmt::format("{}uint {}", parameters.empty() ? "" : ", ", name);
  }
  std::erase_if(function_inputs, [&](ValueId id) { return !mentions(text, value_names_[id]); });
  for (ValueId id : function_inputs)
    parameters +=
        fmt::format("{}{} {}", parameters.empty() ? "" : ", ", scalar_type(loops_.values[id].node), value_names_[id]);
  const std::string function = unique("vector_element");
  functions_.line("// One element of the vector.");
  functions_.open("float {}({}) {{", function, parameters);
  functions_.raw(text);
  functions_.close();
  functions_.blank();
  return function;
}

Result<void> ReductionEmitter::keep_vector(const PackedGemvTile& packed) {
  const std::vector<ValueId> backward_slice = schedule::backward_slice_of(loops_, packed.vector);
  std::vector<ValueId> vectors, per_chunk, function_inputs;
  for (ValueId id : backward_slice) {
    if (is_vector(id))
      vectors.push_back(id);
    else if (!varies(id) && !is_literal(id))
      per_chunk.push_back(id);
  }
  std::string coordinates;
  VKF_TRY(function, element_of_vector(packed, vectors, function_inputs, coordinates));
  const auto chunks = static_cast<int>(packed.mma.k) / 8;  // of a fragment
  shared_.line("shared uvec4 vector_halves[{}];", loops_.reduction_count() / 8);
  main_.line("// The vector, of which fragments meet every fourth element.");
  main_.open("for (uint column = thread; column < {}; column += {}u) {{", reduction_chunks(), schedule_.workgroup);
  Scope scope;
  scope.out = &main_;
  set_reduction_axes(scope, false);
  scope.axis_names = {{kColumn, "column"}};
  for (ValueId id : vectors) {
    if (loops_.values[id].data.empty()) load_vectors(scope, id, "");
  }
  VKF_CHECK_OK(emit_values(scope, per_chunk));
  for (ValueId id : vectors) {
    if (!loops_.values[id].data.empty()) load_vectors(scope, id, "");
  }
  // A unit's fragment is made of so many chunks; each has its place in all four parts of it.
  main_.line("uint at = {};",
             chunks == 1 ? "column * 4u" : fmt::format("column / {0}u * {1}u + column % {0}u", chunks, 4 * chunks));
  for (int g = 0; g < groups_; ++g) {
    for (ValueId id : function_inputs) {
      if (is_vector(id))
        main_.line("{} {} = {};", group_type_of(loops_.values[id].node), group_name(id, g), unpacked(id, g, ""));
    }
  }
  const auto element = [&](int e) {
    std::string arguments;
    const auto add = [&](const std::string& argument) { arguments += (arguments.empty() ? "" : ", ") + argument; };
    const auto of = [&](ValueId id) {
      return is_vector(id) ? element_of(group_name(id, e / group_), e % group_, group_) : use(scope, id);
    };
    if (function.empty()) return of(packed.vector);
    for (const char name : coordinates) add(name == 'j' ? fmt::format("{}u", e) : "column");
    for (ValueId id : function_inputs) add(of(id));
    return fmt::format("{}({})", function, arguments);
  };
  for (int part = 0; part < 4; ++part) {
    std::string halves;
    for (int q = 0; q < kColumnsOfChunk / 8; ++q)
      halves += fmt::format("{}packFloat2x16(f16vec2({}, {}))", q == 0 ? "" : ", ", element(8 * q + part),
                            element(8 * q + 4 + part));
    main_.line("vector_halves[at{}] = uvec4({});", part == 0 ? "" : fmt::format(" + {}u", part * chunks), halves);
  }
  main_.close();
  main_.line("barrier();");
  return {};
}

/// What the scales of a subgroup's strips are, of the rows of the tile.
Result<void> ReductionEmitter::scales_of_tile(const PackedGemvTile& packed) {
  if (!packed.scale) return {};
  const auto rows = static_cast<int>(packed.mma.m);
  const std::int64_t all = schedule::scales_of_subgroup(packed, loops_.reduction_count()) * rows;
  const int per_k_slice = packed.k_slice_columns() / packed.scale_columns;
  shared_.line("shared float scales[{}];", packed.subgroups * all);
  main_.line("uint own_scales = subgroup * {}u;", all);
  main_.open("for (uint i = own_lane; i < {}u; i += {}u) {{", all, schedule_.subgroup);
  main_.line("uint row = min(first_row + i % {}u, {} - 1u);", rows, rows_);
  const std::string within = per_k_slice == 1 ? ""
                                              : fmt::format(" + i / {}u % {}u * {}u", rows, per_k_slice,
                                                            packed.scale_columns / kColumnsOfChunk);
  const std::string column =
      fmt::format("(i / {}u * {}u + subgroup) * {}u{}", rows * per_k_slice, packed.subgroups, packed.k_slice, within);
  const bool whole = schedule_.launch.reduction_chunks % (std::int64_t{packed.subgroups} * packed.k_slice) == 0;
  main_.line("uint column = {};", whole ? column : fmt::format("min({}, {} - 1u)", column, reduction_chunks()));
  Scope scope;
  scope.out = &main_;
  scope.axis_names = {{kRow, "row"}, {kColumn, "column"}};
  set_parallel_axes(scope, false);
  set_reduction_axes(scope, false);
  VKF_CHECK_OK(emit_backward_slice(scope, *packed.scale));
  main_.line("scales[own_scales + i] = {};", use(scope, *packed.scale));
  main_.close();
  return {};
}

/// The words of a strip, those of a row side by side.
void ReductionEmitter::load_k_slice(const PackedGemvTile& packed, const std::string& first,
                                    const std::string& k_slice) {
  const int together = schedule_.subgroup / packed.k_slice;
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", static_cast<int>(packed.mma.m) / together);
  main_.line("uint row = min({} + u * {}u + own_lane / {}u, {} - 1u);", first, together, packed.k_slice, rows_);
  main_.line("uint column = {} * {}u + own_lane % {}u;", k_slice, packed.k_slice, packed.k_slice);
  Scope scope;
  scope.out = &main_;
  scope.axis_names = {{kRow, "row"}, {kColumn, "column"}};
  set_parallel_axes(scope, false);
  set_reduction_axes(scope, false);
  load_vectors(scope, packed.load, "[u]");
  main_.close();
}

void ReductionEmitter::multiply_k_slice(const PackedGemvTile& packed, const std::string& function) {
  const int pitch = packed.k_slice + 1;
  const auto depth = static_cast<int>(packed.mma.k);
  const int fragments = packed.k_slice_columns() / (4 * depth);
  const int per_scale = packed.scale ? packed.scale_columns / (4 * depth) : fragments;
  const std::string sum_type = fragment(packed.mma.c, packed.mma.m, packed.mma.n, "Accumulator");
  main_.open("[[unroll]] for (uint part = 0u; part < {}u; ++part) {{", fragments / per_scale);
  if (packed.scale) main_.line("{0} part_sums = {0}(0.0);", sum_type);
  main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", per_scale);
  main_.line("uint fragment = part * {}u + i;", per_scale);
  main_.line("{} bits;", fragment(packed.mma.a, packed.mma.m, packed.mma.k, "A"));
  main_.line("coopMatLoad(bits, words, own_words + fragment * {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);",
             depth / 8, pitch);
  main_.line("uint at = (strip * {}u + fragment) * {}u;", fragments, depth / 2);
  const FragmentProducts products{function, "bits", "vector_halves", "at",
                                  "low",    "high", packed.offset,   packed.scale ? "part_sums" : "sums"};
  for (const std::string& line : fragment_products(packed.mma, products)) main_.line("{}", line);
  main_.close();
  if (packed.scale) {
    main_.line("{} scale;", sum_type);
    main_.line(
        "coopMatLoad(scale, scales, own_scales + (round * {}u + part) * {}u, 0u, "
        "gl_CooperativeMatrixLayoutColumnMajor);",
        fragments / per_scale, packed.mma.m);
    main_.line("sums = sums + part_sums * scale;");
  }
  main_.close();
}

Result<void> ReductionEmitter::packed_gemv_main() {
  const PackedGemvTile& packed = *params_.packed;
  const auto rows = static_cast<int>(packed.mma.m);
  const int pitch = packed.k_slice + 1;
  const std::int64_t k_slices = loops_.reduction_count() / packed.k_slice_columns();
  const ReductionText& reduction = reductions_[0];
  const std::string function = unique("numbers_of");
  functions_.raw(fragment_function(function, packed.mma));
  functions_.blank();
  shared_.line("shared uvec4 words[{}];", packed.subgroups * rows * pitch);
  shared_.line("shared float row_parts[{}];", packed.subgroups * packed.rows());
  main_.open("void main() {{");
  main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
  main_.line("uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;");
  main_.line("uint subgroup = gl_SubgroupID;");
  main_.line("uint own_lane = gl_SubgroupInvocationID;");
  main_.line("uint own_words = subgroup * {}u;", rows * pitch);
  main_.line("uint low = 0x{:08x}u + {};", sub_byte_powers(packed.flip, 0), optimization_barrier_);
  main_.line("uint high = 0x{:08x}u + {};", sub_byte_powers(packed.flip, 4), optimization_barrier_);
  main_.line("uint first_row = workgroup * {}u;", packed.rows());
  for (const std::string& name : raw_names(packed.load))
    main_.line("uvec4 {}[{}];", name, rows * packed.k_slice / schedule_.subgroup);
  load_k_slice(packed, "first_row", "subgroup");
  VKF_CHECK_OK(keep_vector(packed));
  main_.open("for (uint tile = 0u; tile < {}u; ++tile) {{", packed.tiles);
  VKF_CHECK_OK(scales_of_tile(packed));
  const std::string sum_type = fragment(packed.mma.c, packed.mma.m, packed.mma.n, "Accumulator");
  main_.line("{0} sums = {0}(0.0);", sum_type);
  // All subgroups come round equally often, with a strip or without: a driver may have them all wait where one does
  // (lavapipe).
  const bool whole = k_slices % packed.subgroups == 0;
  main_.open("for (uint round = 0u; round < {}; ++round) {{",
             numbers_.size(schedule::ceil_div(k_slices, packed.subgroups)));
  main_.line("uint strip = round * {}u + subgroup;", packed.subgroups);
  const std::string raw = raw_names(packed.load).front();
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", rows * packed.k_slice / schedule_.subgroup);
  main_.line("words[own_words + (u * {0}u + own_lane / {1}u) * {2}u + own_lane % {1}u] = {3}[u];",
             schedule_.subgroup / packed.k_slice, packed.k_slice, pitch, raw);
  main_.close();
  main_.line("{}", kSubgroupBarrier);
  main_.line("bool ends = round + 1u == {};", numbers_.size(schedule::ceil_div(k_slices, packed.subgroups)));
  // Behind the last tile its own words come once more, from a near cache.
  main_.line("uint next_row = {};",
             packed.tiles == 1
                 ? "first_row"
                 : fmt::format("ends && tile + 1u < {}u ? first_row + {}u : first_row", packed.tiles, rows));
  const std::string next = fmt::format("ends ? subgroup : strip + {}u", packed.subgroups);
  main_.line("uint next_strip = {};", whole ? next : fmt::format("min({}, {} - 1u)", next, numbers_.size(k_slices)));
  load_k_slice(packed, "next_row", "next_strip");
  if (!whole) main_.open("if (strip < {}) {{", numbers_.size(k_slices));
  multiply_k_slice(packed, function);
  if (!whole) main_.close();
  main_.line("{}", kSubgroupBarrier);
  main_.close();
  // All columns of the sums are the same: the first one is the rows'.
  main_.line("coopMatStore(sums, words, own_words, {}u, gl_CooperativeMatrixLayoutColumnMajor);", rows / 4);
  main_.line("{}", kSubgroupBarrier);
  main_.open("for (uint i = own_lane; i < {}u; i += {}u) {{", rows, schedule_.subgroup);
  main_.line("row_parts[subgroup * {}u + tile * {}u + i] = uintBitsToFloat(words[own_words + i / 4u][i % 4u]);",
             packed.rows(), rows);
  main_.close();
  main_.line("{}", kSubgroupBarrier);
  main_.line("first_row += {}u;", rows);
  main_.close();
  main_.line("barrier();");
  main_.line("uint row = workgroup * {}u + thread;", packed.rows());
  main_.line("bool inside = thread < {}u && row < {};", packed.rows(), rows_);
  main_.line("row = min(row, {} - 1u);", rows_);
  const std::string& sum = reduction.accumulators[0].name;
  main_.line("float {} = 0.0;", sum);
  main_.open("if (thread < {}u) {{", packed.rows());
  main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {} += row_parts[i * {}u + thread];", packed.subgroups, sum,
             packed.rows());
  main_.close();
  finish_reductions(1);
  VKF_CHECK_OK(row_values(1));
  VKF_CHECK_OK(row_stores(0));  // only now: a result may have the memory of what other subgroups were reading
  VKF_CHECK_OK(row_stores(1));
  main_.close();
  return {};
}

}  // namespace vkfuse::lowering
