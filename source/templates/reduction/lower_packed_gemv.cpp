// The reduction template with cooperative matrices: weights of four or eight bits times one vector
// (schedule::PackedGemvTile). Subgroups share the reduction axes of a tile of rows; the words of their K-slices are in
// flight while those before are multiplied, and no subgroup waits for another before the end.
#include <fmt/ranges.h>

#include <algorithm>

#include "lowering/components.hpp"
#include "lowering/fragments.hpp"
#include "schedule/operands.hpp"
#include "templates/reduction/lower_emitter.hpp"
#include "templates/reduction/packed_gemv.hpp"

namespace vkfuse::lowering {

using schedule::PackedGemvTile;
using schedule::PackedMatrix;
using schedule::PackedWeights;

namespace {

constexpr int kRoundsInFlight = 4;

}  // namespace

/// The element's parameters follow from its text.
void ReductionEmitter::write_vector_element(const Code& text, VectorElement& element) {
  std::vector<Code> parameters;
  for (const char* name : {"column", "j"}) {
    if (!text.uses(name)) continue;
    element.coordinates += name[0];
    parameters.push_back(code("uint {}", name));
  }
  for (ValueId id : element.function_inputs)
    parameters.push_back(scalar_type(loops_.values[id].node) + " " + names_.values[id]);
  for (ValueId id : element.lows) parameters.push_back("float " + low_of(id));
  element.function = unique("vector_element");
  functions_.line("// One element of the vector.");
  functions_.open("float {}({}) {{", element.function, listed(parameters));
  functions_.raw(text);
  functions_.close();
  functions_.blank();
}

/// Values of no row that are known after so many passes, of those that elements need.
Result<void> ReductionEmitter::values_of_vector(int level) {
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    const Value& value = loops_.values[id];
    if (value.axes == 0 && value.level == level && value.kind != Value::Kind::reduction && needed_by_elements_[id] &&
        !is_literal(id) && !is_contracted(id))
      VKF_CHECK_OK(emit_value(row_scope_, id));
  }
  return {};
}

/// All threads go over the vector together, whatever their rows.
Result<void> ReductionEmitter::find_statistics(const PackedGemvTile& packed) {
  if (packed.statistics == 0) return {};
  main_.line("uint reduction_thread = thread;");
  Combine combine(schedule_, dialect_, width());
  VKF_CHECK_OK(values_of_vector(0));
  for (int pass = 0; pass + 1 < loops_.passes; ++pass) {
    for (const ReductionText& reduction : reductions_) {
      if (reduction.level == pass + 1) combine.join_function(reduction, functions_);
    }
    VKF_CHECK_OK(run_pass(pass));
    combine.across_threads(reductions_, pass + 1, main_, shared_);
    finish_reductions(pass + 1);
    VKF_CHECK_OK(values_of_vector(pass + 1));
  }
  return {};
}

/// The reductions that these values are computed from directly.
std::vector<ValueId> ReductionEmitter::statistics_read_by(const std::vector<ValueId>& own) const {
  std::set<ValueId> read;
  for (ValueId id : own) {
    for (ValueId operand : loops_.values[id].operands) {
      if (loops_.values[operand].kind == Value::Kind::reduction) read.insert(operand);
    }
  }
  return {read.begin(), read.end()};
}

Result<ReductionEmitter::VectorElement> ReductionEmitter::element_of_vector(const PackedGemvTile& packed,
                                                                            const std::vector<ValueId>& vectors) {
  VectorElement element;
  if (is_vector(packed.vector)) {
    element.function_inputs = {packed.vector};
    return element;
  }
  Scope scope;
  Writer out;
  scope.out = &out;
  set_reduction_axes(scope, true);
  scope.axis_names = {{kColumn, "column"}, {kElement, "j"}};
  std::vector<ValueId> own;
  for (ValueId id : schedule::backward_slice_of(loops_, packed.vector)) {
    if (is_literal(id) || is_contracted(id)) continue;
    if (std::find(vectors.begin(), vectors.end(), id) == vectors.end() && varies(id)) {
      own.push_back(id);
      continue;
    }
    element.function_inputs.push_back(id);
    scope.names[id] = names_.values[id];
  }
  const std::vector<ValueId> statistics = statistics_read_by(own);  // slices end there
  for (ValueId id : statistics) scope.names[id] = names_.values[id];
  element.lows = subtracted_means({.per_element = own, .function_inputs = statistics});
  for (ValueId id : element.lows) scope.lows[id] = low_of(id);
  out.indent();
  VKF_CHECK_OK(emit_values(scope, own));
  out.line("return {};", use(scope, packed.vector));
  std::set<ValueId> read;
  for (ValueId id : own) {
    const ElementOp computed = element_op(id);
    read.insert(computed.operands.begin(), computed.operands.end());
    read.insert(loops_.values[id].data.begin(), loops_.values[id].data.end());
  }
  std::erase_if(element.function_inputs, [&](ValueId id) { return id != packed.vector && read.count(id) == 0; });
  element.function_inputs.insert(element.function_inputs.end(), statistics.begin(), statistics.end());
  write_vector_element(out.take(), element);
  return element;
}

/// Loads whole chunks as vectors, before or after the values that are the same for a chunk.
void ReductionEmitter::load_chunk_vectors(Scope& scope, const std::vector<ValueId>& vectors, bool by_data) {
  for (ValueId id : vectors) {
    if (loops_.values[id].data.empty() != by_data) load_vectors(scope, id, "");
  }
}

/// Element e of a chunk of the vector.
Code ReductionEmitter::vector_element(const VectorElement& element, const Scope& scope, ValueId vector, int e) {
  const auto of = [&](ValueId id) {
    return is_vector(id) ? element_of(group_name(id, e / chunk_.group), e % chunk_.group, chunk_.group)
                         : use(scope, id);
  };
  if (element.function.empty()) return of(vector);
  std::vector<Code> arguments;
  for (const char name : element.coordinates) arguments.push_back(name == 'j' ? code("{}u", e) : "column");
  for (ValueId id : element.function_inputs) arguments.push_back(of(id));
  for (ValueId id : element.lows) arguments.push_back(low_of(id));
  return code("{}({})", element.function, listed(arguments));
}

/// A chunk of the vector to shared memory: every second or fourth element side by side.
void ReductionEmitter::store_halves(const PackedGemvTile& packed, const VectorElement& element, const Scope& scope) {
  const auto chunks = static_cast<int>(packed.mma.k) / 8;  // of a fragment
  const int parts = packed.code().per_half();
  for (int part = 0; part < parts; ++part) {
    std::vector<Code> halves;
    for (int first = part; first < packed.code().per_chunk(); first += 2 * parts)
      halves.push_back(code("packFloat2x16(f16vec2({}, {}))", vector_element(element, scope, packed.vector, first),
                            vector_element(element, scope, packed.vector, first + parts)));
    main_.line("vector_halves[at{}] = uvec4({});", part == 0 ? "" : code(" + {}u", part * chunks), listed(halves));
  }
}

Result<void> ReductionEmitter::keep_vector(const PackedGemvTile& packed) {
  std::vector<ValueId> vectors, per_chunk;
  for (ValueId id : schedule::backward_slice_of(loops_, packed.vector)) {
    if (is_vector(id))
      vectors.push_back(id);
    else if (!varies(id) && !is_literal(id) && row_scope_.names.count(id) == 0)
      per_chunk.push_back(id);
  }
  VKF_TRY(element, element_of_vector(packed, vectors));
  const auto chunks = static_cast<int>(packed.mma.k) / 8;  // of a fragment
  shared_.line("shared uvec4 vector_halves[{}];", loops_.reduction_count() / 8);
  const int parts = packed.code().per_half();
  main_.line("// The vector, of which {} meet every {} element.", packed.lane_fragments() ? "words" : "fragments",
             parts == 4 ? "fourth" : "second");
  // Few rounds are in flight together.
  const bool few = schedule::ceil_div(schedule_.launch.reduction_chunks, schedule_.workgroup) <= kRoundsInFlight;
  main_.open("{}for (uint column = thread; column < {}; column += {}u) {{", few ? "[[unroll]] " : "",
             reduction_chunks(), schedule_.workgroup);
  Scope scope = row_scope_;
  set_reduction_axes(scope, false);
  scope.axis_names = {{kColumn, "column"}};
  load_chunk_vectors(scope, vectors, false);
  VKF_CHECK_OK(emit_values(scope, per_chunk));
  load_chunk_vectors(scope, vectors, true);
  // A fragment is made of so many chunks; each has its position in all parts of it.
  main_.line("uint at = {};", chunks == 1 || packed.lane_fragments()
                                  ? code("column * {}u", parts)
                                  : code("column / {0}u * {1}u + column % {0}u", chunks, parts * chunks));
  for (int g = 0; g < chunk_.groups; ++g) {
    for (ValueId id : element.function_inputs) {
      if (is_vector(id))
        main_.line("{} {} = {};", group_type_of(loops_.values[id].node), group_name(id, g), unpacked(id, g, ""));
    }
  }
  if (packed.lane_fragments())
    store_pairs(packed, element, scope);
  else
    store_halves(packed, element, scope);
  main_.close();
  return {};
}

/// The 32-bit words of a K-slice, those of a row side by side, and its scales.
Result<void> ReductionEmitter::load_k_slice_of(const PackedGemvTile& packed, const PackedMatrix& matrix,
                                               const Code& first, const Code& k_slice) {
  const int together = schedule_.subgroup / packed.k_slice;
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", static_cast<int>(packed.mma.m) / together);
  main_.line("uint row = min({} + u * {}u + own_lane / {}u, {} - 1u);", first, together, packed.k_slice, rows_);
  main_.line("uint column = {} * {}u + own_lane % {}u;", k_slice, packed.k_slice, packed.k_slice);
  Scope scope;
  scope.out = &main_;
  scope.axis_names = {{kRow, "row"}, {kColumn, "column"}};
  set_parallel_axes(scope, false);
  set_reduction_axes(scope, false);
  load_vectors(scope, matrix.load, "[u]");
  main_.close();
  return load_scales(packed, matrix, first, k_slice);
}

/// Of the matrix that has the rows of the tile: all of them are one's.
Result<void> ReductionEmitter::load_k_slice(const PackedGemvTile& packed, const PackedWeights& weights,
                                            const Code& first, const Code& k_slice) {
  for (const PackedMatrix& matrix : weights.matrices) {
    const bool is_last = &matrix == &weights.matrices.back();
    // Whichever it is, its words are where those of the sum's first matrix are; another sum may have it elsewhere.
    names_.values[matrix.load] = word_names_[static_cast<std::size_t>(&weights - packed.sums.data())];
    if (!is_last) main_.open("if ({} < {}u) {{", first, matrix.end);
    VKF_CHECK_OK(load_k_slice_of(packed, matrix, first, k_slice));
    if (!is_last) main_.otherwise();
  }
  for (std::size_t i = 1; i < weights.matrices.size(); ++i) main_.close();
  return {};
}

/// Collects what a carry leaves above a magnitude of all ones, which is NaN: as an f16 it would be a number.
void ReductionEmitter::look_for_nan(const PackedGemvTile& packed, const Code& loaded, const Code& row) {
  if (!packed.code().hides_nan()) return;
  const std::uint32_t magnitude = (1u << ops::row_of(*packed.code().format).magnitude_bits()) - 1;
  main_.line("uvec4 carried = ({} & 0x{:08x}u) + 0x01010101u;", loaded, magnitude * 0x01010101u);
  main_.line("carries[{}] |= carried.x | carried.y | carried.z | carried.w;", row);
}

/// Notes the rows of a tile with such a code.
void ReductionEmitter::note_nan(const PackedGemvTile& packed, std::size_t sum) {
  if (!packed.code().hides_nan()) return;
  const int bit = ops::row_of(*packed.code().format).magnitude_bits();
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{",
             static_cast<int>(packed.mma.m) * packed.k_slice / schedule_.subgroup);
  const Code row = packed.lane_fragments() ? Code("lane_row") : code("own_lane / {}u", packed.k_slice);
  main_.line("if ((carries[u] & 0x{:08x}u) != 0u) atomicOr(nan_rows[{}tile * {}u + u * {}u + {}], 1u);",
             (1u << bit) * 0x01010101u, sum == 0 ? "" : code("{}u + ", static_cast<int>(sum) * packed.rows()),
             packed.mma.m, schedule_.subgroup / packed.k_slice, row);
  main_.close();
}

/// What was loaded of a K-slice, to the subgroup's part of shared memory.
Result<void> ReductionEmitter::stage_k_slice(const PackedGemvTile& packed, std::size_t sum) {
  const PackedWeights& weights = packed.sums[sum];
  const auto rows = static_cast<int>(packed.mma.m);
  names_.values[weights.first().load] = word_names_[sum];
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", rows * packed.k_slice / schedule_.subgroup);
  const Code row = code("u * {}u + own_lane / {}u", schedule_.subgroup / packed.k_slice, packed.k_slice);
  const Code loaded = code("{}[u]", raw_names(weights.first().load).front());
  main_.line("words[own_words + ({0}) * {1}u + own_lane % {2}u] = {3};", row, packed.k_slice + 1, packed.k_slice,
             loaded);
  look_for_nan(packed, loaded, "u");
  main_.close();
  if (!weights.first().scale) return {};
  return stage_scales(packed, *weights.first().scale);
}

void ReductionEmitter::multiply_k_slice(const PackedGemvTile& packed, const PackedWeights& weights,
                                        const PackedFunctions& functions) {
  const int pitch = packed.k_slice + 1;
  const auto depth = static_cast<int>(packed.mma.k), rows = static_cast<int>(packed.mma.m);
  const int fragments = packed.k_slice_columns() / packed.fragment_columns();
  const bool scaled = weights.first().scale.has_value();
  const int per_scale = scaled ? std::max(1, packed.scale_columns / packed.fragment_columns()) : fragments;
  const Code sum_type = fragment(packed.mma.c, packed.mma.m, packed.mma.n, "Accumulator");
  main_.open("[[unroll]] for (uint part = 0u; part < {}u; ++part) {{", fragments / per_scale);
  if (scaled) main_.line("{0} part_sums = {0}(0.0);", sum_type);
  main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", per_scale);
  main_.line("uint fragment = part * {}u + i;", per_scale);
  main_.line("{} bits;", fragment(packed.mma.a, packed.mma.m, packed.mma.k, "A"));
  main_.line("coopMatLoad(bits, words, own_words + fragment * {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);",
             depth / 8, pitch);
  main_.line("uint at = (k_slice * {}u + fragment) * {}u;", fragments, depth / 8 * packed.code().per_half());
  FragmentProducts products{.function = functions.numbers,
                            .bits = "bits",
                            .vector = "vector_halves",
                            .at = "at",
                            .low = "low",
                            .high = "high",
                            .sum = scaled ? "part_sums" : "sums"};
  if (packed.groups() > 1) {
    products.mask_function = functions.mask;
    products.mask = "mask";
  }
  for (const Code& line : fragment_products(packed.mma, weights.first().code, products)) main_.line("{}", line);
  main_.close();
  if (scaled) {
    main_.line("{} scale;", sum_type);
    main_.line("coopMatLoad(scale, scales, own_scales + part * {}u, {}u, gl_CooperativeMatrixLayoutColumnMajor);",
               packed.groups() * rows, packed.groups() > 1 ? rows : 0);
    main_.line("sums = sums + part_sums * scale;");
  }
  main_.close();
}

/// The powers of 2 among whose low bits whole numbers are.
void ReductionEmitter::declare_powers(const PackedGemvTile& packed) {
  const ops::PackedCode& packed_code = packed.code();
  if (packed_code.format) return;
  main_.line("uint low = 0x{:08x}u + {};", sub_byte_powers(packed_code.flip, 0), nan_.barrier);
  if (packed_code.bits == 4)
    main_.line("uint high = 0x{:08x}u + {};", sub_byte_powers(packed_code.flip, 4), nan_.barrier);
}

/// Clears what rows with NaN are noted in, and writes which elements of a fragment are of a column's group.
void ReductionEmitter::prepare_shared(const PackedGemvTile& packed) {
  if (packed.code().hides_nan()) {
    const int rows = packed.rows() * static_cast<int>(packed.sums.size());
    shared_.line("shared uint nan_rows[{}];", rows);
    main_.line("for (uint i = thread; i < {}u; i += {}u) nan_rows[i] = 0u;", rows, schedule_.workgroup);
  }
  if (packed.lane_fragments()) {
    if (packed.groups() > 1) {
      main_.line("// Each column has the elements of the vector that share a scale.");
      const int parts = kLanesOfRow / packed.groups();
      main_.line("uint of_group = lane_row % {}u == lane_part{} ? 0xffffffffu : 0u;", packed.groups(),
                 parts == 1 ? Code() : code(" / {}u", parts));
    }
  } else if (packed.groups() > 1) {
    const auto words = static_cast<int>(packed.mma.n * packed.mma.k / 8);
    shared_.line("shared uvec4 masks[{}];", words);
    main_.line("// Each column has the elements of the vector that share a scale.");
    main_.line("for (uint i = thread; i < {}u; i += {}u) masks[i] = uvec4({});", words, schedule_.workgroup,
               mask_word(packed.mma, packed.groups(), "i"));
  }
}

/// What subgroups share, and what each of them knows before its first tile.
void ReductionEmitter::begin_packed_gemv(const PackedGemvTile& packed) {
  const int words = static_cast<int>(packed.mma.m) * (packed.k_slice + 1);  // of a subgroup
  if (!packed.lane_fragments()) shared_.line("shared uvec4 words[{}];", packed.subgroups * words);
  shared_.line("shared float row_parts[{}];", packed.subgroups * packed.rows() * static_cast<int>(packed.sums.size()));
  if (packed.has_scales() && !packed.lane_fragments()) shared_.line("shared float scales[{}];", packed.scale_slots());
  main_.open("void main() {{");
  main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
  main_.line("uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;");
  main_.line("uint subgroup = gl_SubgroupID;");
  if (packed.lane_fragments()) {
    main_.line("uint lane_row = gl_SubgroupInvocationID / {0}u, lane_part = gl_SubgroupInvocationID % {0}u;",
               kLanesOfRow);
  } else {
    main_.line("uint own_lane = gl_SubgroupInvocationID;");
    main_.line("uint own_words = subgroup * {}u;", words);
  }
  declare_powers(packed);
  const Code first_row = code("workgroup * {}u", packed.rows());
  // The last row of a dispatch may have workgroups beyond the rows.
  main_.line("uint first_row = {};", packed.lane_fragments() && fills_its_tiles(packed)
                                         ? code("min({}, {} - {}u)", first_row, rows_, packed.rows())
                                         : first_row);
}

/// What a lane has in flight.
void ReductionEmitter::declare_loads(const PackedGemvTile& packed) {
  std::set<ValueId> loads;
  for (const PackedWeights& weights : packed.sums) {
    const ValueId load = weights.first().load;
    word_names_.push_back(names_.values[load]);
    if (!loads.insert(load).second) continue;
    for (const Code& name : raw_names(load))
      main_.line("uvec4 {}[{}];", name, packed.loads_of_lane(schedule_.subgroup));
  }
  if (!packed.has_scales()) return;
  if (!packed.lane_fragments()) main_.line("uint own_scales = subgroup * {}u;", packed.scales_of_k_slice());
  const std::int64_t of_thread = packed.lane_fragments()
                                     ? scales_of_lane(packed)
                                     : schedule::ceil_div(packed.scales_of_k_slice(), schedule_.subgroup);
  const bool in_words = finds_scales_in_words(packed);
  main_.line("{} next_scales[{}];", in_words ? "uint" : "float", of_thread);
  if (in_words) main_.line("uint next_shifts[{}];", of_thread);
}

/// Brings the first words of a subgroup on their way.
Result<void> ReductionEmitter::load_first(const PackedGemvTile& packed) {
  if (!packed.lane_fragments()) return load_k_slice(packed, packed.sums[0], "first_row", "subgroup");
  main_.open("{{");
  main_.line("uint k_slice = subgroup * {}u;", packed.lane_steps);
  VKF_CHECK_OK(load_lane_steps(packed, packed.sums[0]));
  main_.close();
  return {};
}

/// The words that are multiplied after those of this round: of the same matrix, or after a tile's last ones the first
/// of what follows.
Result<void> ReductionEmitter::load_next_k_slice(const PackedGemvTile& packed, std::size_t sum) {
  const auto rows = static_cast<int>(packed.mma.m);
  const std::int64_t k_slices = loops_.reduction_count() / packed.k_slice_columns();
  const bool whole = k_slices % packed.subgroups == 0;
  const bool is_last = sum + 1 == packed.sums.size();
  // After the last tile its own words come once more, from a near cache.
  main_.line("uint next_row = {};",
             packed.tiles == 1 || !is_last
                 ? "first_row"
                 : code("ends && tile + 1u < {}u ? first_row + {}u : first_row", packed.tiles, rows));
  const Code next = code("ends ? subgroup : k_slice + {}u", packed.subgroups);
  main_.line("uint next_k_slice = {};", whole ? next : code("min({}, {} - 1u)", next, numbers_.size(k_slices)));
  if (packed.sums.size() == 1) return load_k_slice(packed, packed.sums[sum], "next_row", "next_k_slice");
  main_.open("if (ends) {{");
  VKF_CHECK_OK(load_k_slice(packed, packed.sums[is_last ? 0 : sum + 1], "next_row", "next_k_slice"));
  main_.otherwise();
  VKF_CHECK_OK(load_k_slice(packed, packed.sums[sum], "next_row", "next_k_slice"));
  main_.close();
  return {};
}

/// The loop of a subgroup over its K-slices of a tile: the words of the next one are in flight while one is multiplied.
Result<void> ReductionEmitter::multiply_tile(const PackedGemvTile& packed, std::size_t sum,
                                             const PackedFunctions& functions) {
  const std::int64_t k_slices = loops_.reduction_count() / packed.k_slice_columns();
  // All subgroups have equally many iterations, with a K-slice or without: a driver may have them all wait where one
  // does (lavapipe).
  const bool whole = k_slices % packed.subgroups == 0;
  main_.open("for (uint round = 0u; round < {}; ++round) {{",
             numbers_.size(schedule::ceil_div(k_slices, packed.subgroups)));
  main_.line("uint k_slice = round * {}u + subgroup;", packed.subgroups);
  VKF_CHECK_OK(stage_k_slice(packed, sum));
  main_.line("{}", kSubgroupBarrier);
  main_.line("bool ends = round + 1u == {};", numbers_.size(schedule::ceil_div(k_slices, packed.subgroups)));
  VKF_CHECK_OK(load_next_k_slice(packed, sum));
  if (!whole) main_.open("if (k_slice < {}) {{", numbers_.size(k_slices));
  multiply_k_slice(packed, packed.sums[sum], functions);
  if (!whole) main_.close();
  main_.line("{}", kSubgroupBarrier);
  main_.close();
  return {};
}

/// What a subgroup has summed of the rows of a tile, to shared memory.
void ReductionEmitter::store_sums_of_tile(const PackedGemvTile& packed, std::size_t sum) {
  const auto rows = static_cast<int>(packed.mma.m);
  // The first columns of the fragment of sums are the groups', the others the same again.
  main_.line("coopMatStore(sums, words, own_words, {}u, gl_CooperativeMatrixLayoutColumnMajor);", rows / 4);
  main_.line("{}", kSubgroupBarrier);
  note_nan(packed, sum);
  main_.open("for (uint i = own_lane; i < {}u; i += {}u) {{", rows, schedule_.subgroup);
  const int parts = packed.subgroups * packed.rows();  // of a sum
  const auto of_group = [&](int group) {
    return code("uintBitsToFloat(words[own_words + {}i / 4u][i % 4u])",
                group == 0 ? Code() : code("{}u + ", group * rows / 4));
  };
  Code total = of_group(0);
  for (int group = 1; group < packed.groups(); ++group) total += " + " + of_group(group);
  main_.line("row_parts[{}subgroup * {}u + tile * {}u + i] = {};",
             sum == 0 ? "" : code("{}u + ", static_cast<int>(sum) * parts), packed.rows(), rows, total);
  main_.close();
  main_.line("{}", kSubgroupBarrier);
}

/// Of the row that a thread stores, what results read beside sums: in flight while the products are found.
Result<void> ReductionEmitter::load_beside_sums(const PackedGemvTile& packed) {
  main_.line("uint own_row = workgroup * {}u + thread;", packed.rows());
  main_.line("bool inside = thread < {}u && own_row < {};", packed.rows(), rows_);
  main_.line("own_row = min(min(own_row, workgroup * {0}u + {1}u), {2} - 1u);", packed.rows(), packed.rows() - 1,
             rows_);
  row_scope_.axis_names = {{kRow, "own_row"}};
  for (ValueId id : schedule::backward_slice_of_results(loops_)) {
    const Value& value = loops_.values[id];
    if (value.kind == Value::Kind::load && value.data.empty() && !loops_.per_element(value) &&
        row_scope_.names.count(id) == 0)
      VKF_CHECK_OK(emit_value(row_scope_, id));
  }
  return {};
}

/// A thread for each row adds what the subgroups have summed, and stores the results.
Result<void> ReductionEmitter::finish_packed_rows(const PackedGemvTile& packed) {
  std::vector<Code> sums;
  for (const PackedWeights& weights : packed.sums) {
    const auto reduction = std::find_if(reductions_.begin(), reductions_.end(),
                                        [&](const ReductionText& one) { return one.id == weights.reduction; });
    sums.push_back(reduction->accumulators[0].name);
    main_.line("float {} = 0.0;", sums.back());
  }
  main_.open("if (thread < {}u) {{", packed.rows());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const int parts = static_cast<int>(i) * packed.subgroups * packed.rows();
    main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {} += row_parts[{}i * {}u + thread];", packed.subgroups,
               sums[i], parts == 0 ? "" : code("{}u + ", parts), packed.rows());
    if (!packed.sums[i].first().scale && packed.code().unit() != 1)
      main_.line("{0} = {0}{1};", sums[i], times_unit(packed));
    if (packed.code().hides_nan())
      main_.line("if (nan_rows[{}thread] != 0u) {} = uintBitsToFloat(0x7fc00000u);",
                 i == 0 ? "" : code("{}u + ", static_cast<int>(i) * packed.rows()), sums[i]);
  }
  main_.close();
  finish_reductions(loops_.passes);
  VKF_CHECK_OK(row_values(loops_.passes));
  // Only now: a result may have the memory of what other subgroups were reading.
  for (int level = 0; level <= loops_.passes; ++level) VKF_CHECK_OK(row_stores(level));
  return {};
}

/// The sums of a tile, from zeros to shared memory.
Result<void> ReductionEmitter::packed_sum(const PackedGemvTile& packed, std::size_t sum,
                                          const PackedFunctions& functions) {
  if (packed.sums.size() > 1) main_.open("{{");
  main_.line("{0} sums = {0}(0.0);", fragment(packed.mma.c, packed.mma.m, packed.mma.n, "Accumulator"));
  if (packed.code().hides_nan()) {
    const int loads = static_cast<int>(packed.mma.m) * packed.k_slice / schedule_.subgroup;
    main_.line("uint carries[{}];", loads);
    main_.line("[[unroll]] for (uint u = 0u; u < {}u; ++u) carries[u] = 0u;", loads);
  }
  if (packed.lane_fragments()) {
    VKF_CHECK_OK(multiply_lane_tile(packed, sum));
    store_lane_sums(packed, sum);
  } else {
    VKF_CHECK_OK(multiply_tile(packed, sum, functions));
    store_sums_of_tile(packed, sum);
  }
  if (packed.sums.size() > 1) main_.close();
  return {};
}

ReductionEmitter::PackedFunctions ReductionEmitter::packed_functions(const PackedGemvTile& packed) {
  const bool masks = packed.groups() > 1 && !packed.lane_fragments();
  PackedFunctions functions{unique("numbers_of"), masks ? unique("of_group") : Code()};
  if (packed.lane_fragments()) {
    functions_.raw(pair_function(functions.numbers, packed.code()));
    functions_.blank();
    write_rows_of_words(packed, functions.numbers);
  } else {
    functions_.raw(fragment_function(functions.numbers, packed.mma, packed.code()));
  }
  functions_.blank();
  if (masks) {
    functions_.raw(mask_function(functions.mask, packed.mma));
    functions_.blank();
  }
  return functions;
}

Result<void> ReductionEmitter::packed_gemv_main() {
  const PackedGemvTile& packed = *params_.packed;
  const PackedFunctions functions = packed_functions(packed);
  begin_packed_gemv(packed);
  declare_loads(packed);
  VKF_CHECK_OK(load_first(packed));
  prepare_shared(packed);
  VKF_CHECK_OK(find_statistics(packed));
  if (packed.keeps_vector) VKF_CHECK_OK(keep_vector(packed));
  if (packed.keeps_vector || packed.code().hides_nan()) main_.line("barrier();");
  VKF_CHECK_OK(load_beside_sums(packed));
  if (!functions.mask.empty()) {
    main_.line("{} mask;", fragment(packed.mma.b, packed.mma.k, packed.mma.n, "B"));
    main_.line("coopMatLoad(mask, masks, 0u, {}u, gl_CooperativeMatrixLayoutColumnMajor);", packed.mma.k / 8);
  }
  main_.open("for (uint tile = 0u; tile < {}u; ++tile) {{", packed.tiles);
  for (std::size_t sum = 0; sum < packed.sums.size(); ++sum) VKF_CHECK_OK(packed_sum(packed, sum, functions));
  main_.line("first_row += {}u;", packed.mma.m);
  main_.close();
  main_.line("barrier();");
  VKF_CHECK_OK(finish_packed_rows(packed));
  main_.close();
  return {};
}

}  // namespace vkfuse::lowering
