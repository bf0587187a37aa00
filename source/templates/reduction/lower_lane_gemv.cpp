// Weights of four or eight bits times one vector, with fragments that lanes make: each loads its elements of two rows
// of weights as they lie in memory, and what they become is an operand of a cooperative matrix without a way through
// shared memory. Nothing waits for other lanes before the sums are known.
#include <algorithm>

#include "lowering/components.hpp"
#include "lowering/fragments.hpp"
#include "templates/reduction/lower_emitter.hpp"

namespace vkfuse::lowering {

using schedule::PackedGemvTile;
using schedule::PackedMatrix;
using schedule::PackedWeights;

namespace {

constexpr int kWords = 4;  // of 16 bytes

Code component(const Code& vector, int i) { return code("{}.{}", vector, "xyzw"[i]); }

}  // namespace

/// A chunk of the vector to shared memory: of each word of weights the pairs that its halves are multiplied with.
void ReductionEmitter::store_pairs(const PackedGemvTile& packed, const VectorElement& element, const Scope& scope) {
  const int parts = packed.code().per_half();
  std::vector<Code> pairs;
  for (int word = 0; word < kWords; ++word) {
    for (int part = 0; part < parts; ++part) {
      const int first = word * 2 * parts + part;
      pairs.push_back(code("packFloat2x16(f16vec2({}, {}))", vector_element(element, scope, packed.vector, first),
                           vector_element(element, scope, packed.vector, first + parts)));
    }
  }
  for (int i = 0; i < parts; ++i) {
    const auto begin = pairs.begin() + i * kWords;
    main_.line("vector_halves[at{}] = uvec4({});", i == 0 ? "" : code(" + {}u", i),
               listed(std::vector<Code>(begin, begin + kWords)));
  }
}

/// How many scales each of the four lanes of a row loads: of two rows, some K-slices and their groups.
int ReductionEmitter::scales_of_lane(const PackedGemvTile& packed) {
  return static_cast<int>(schedule::ceil_div(packed.lane_steps * 2 * packed.groups(), kLanesOfRow));
}

/// K-slice `i` from `k_slice` on.
Code ReductionEmitter::lane_step(const PackedGemvTile& packed, const Code& i) {
  const std::int64_t k_slices = loops_.reduction_count() / packed.k_slice_columns();
  const bool whole = k_slices % (std::int64_t{packed.subgroups} * packed.lane_steps) == 0;
  return whole ? code("k_slice + {}", i) : code("min(k_slice + {}, {} - 1u)", i, numbers_.size(k_slices));
}

/// Whether each workgroup has rows for all of its tiles, at every size that the text serves.
bool ReductionEmitter::fills_its_tiles(const PackedGemvTile& packed) {
  return divides(packed.rows(), {schedule_.launch.parallel_chunks, reference_sizes_.schedule->launch.parallel_chunks});
}

/// Row `i` of the two of a lane.
Code ReductionEmitter::lane_row(const PackedGemvTile& packed, const Code& i) {
  const Code row = code("first_row + {} * {}u + lane_row", i, packed.mma.m / 2);
  return fills_its_tiles(packed) ? row : code("min({}, {} - 1u)", row, rows_);
}

/// The words of a lane from `k_slice` on, of two rows each, and its part of their scales.
Result<void> ReductionEmitter::load_lane_steps_of(const PackedGemvTile& packed, const PackedMatrix& matrix) {
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", packed.loads_of_lane(schedule_.subgroup));
  main_.line("uint row = {};", lane_row(packed, "u % 2u"));
  main_.line("uint column = ({}) * {}u + lane_part;", lane_step(packed, "u / 2u"), kLanesOfRow);
  Scope scope;
  scope.out = &main_;
  scope.axis_names = {{kRow, "row"}, {kColumn, "column"}};
  set_parallel_axes(scope, false);
  set_reduction_axes(scope, false);
  load_vectors(scope, matrix.load, "[u]");
  main_.close();
  if (!matrix.scale) return {};
  const int groups = packed.groups();
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", scales_of_lane(packed));
  main_.line("uint i = u * {}u + lane_part;  // of groups, rows and steps", kLanesOfRow);
  main_.line("uint row = {};", lane_row(packed, groups == 1 ? "i % 2u" : code("i / {}u % 2u", groups)));
  main_.line("uint column = ({}) * {}u{};", lane_step(packed, code("i / {}u", 2 * groups)), kLanesOfRow,
             groups == 1             ? Code()
             : groups == kLanesOfRow ? code(" + i % {}u", groups)
                                     : code(" + i % {}u * {}u", groups, kLanesOfRow / groups));
  VKF_CHECK_OK(load_scale(packed, *matrix.scale, "column", "u"));
  main_.close();
  return {};
}

/// Of the matrix that has the rows of the tile: all of them are one's.
Result<void> ReductionEmitter::load_lane_steps(const PackedGemvTile& packed, const PackedWeights& weights) {
  for (const PackedMatrix& matrix : weights.matrices) {
    const bool is_last = &matrix == &weights.matrices.back();
    names_.values[matrix.load] = word_names_[static_cast<std::size_t>(&weights - packed.sums.data())];
    if (!is_last) main_.open("if (first_row < {}u) {{", matrix.end);
    VKF_CHECK_OK(load_lane_steps_of(packed, matrix));
    if (!is_last) main_.otherwise();
  }
  for (std::size_t i = 1; i < weights.matrices.size(); ++i) main_.close();
  return {};
}

/// The pairs of the vector that a lane's words of a K-slice meet, which begin at the chunk `column`.
std::vector<Code> ReductionEmitter::pairs_of_vector(const PackedGemvTile& packed) {
  const int parts = packed.code().per_half();
  const Code group = packed.groups() > 1 ? Code(" & of_group") : Code();
  std::vector<Code> pairs;
  if (packed.keeps_vector) {
    for (int i = 0; i < parts; ++i) {
      main_.line("uvec4 pairs_{} = vector_halves[column * {}u{}]{};", i, parts, i == 0 ? Code() : code(" + {}u", i),
                 group);
      for (int word = 0; word < kWords; ++word) pairs.push_back(component(code("pairs_{}", i), word));
    }
    return pairs;
  }
  Scope scope;
  scope.out = &main_;
  scope.axis_names = {{kColumn, "column"}};
  set_reduction_axes(scope, false);
  load_vectors(scope, packed.vector, "");
  const std::vector<Code> loaded = raw_names(packed.vector);
  const auto neighbours = [&](int word) {
    return component(loaded[static_cast<std::size_t>(word / kWords)], word % kWords);
  };
  for (int i = 0; i < parts; ++i) {
    std::vector<Code> own;
    for (int word = i * kWords; word < (i + 1) * kWords; ++word) {
      const int first = word / parts * parts, part = word % parts;
      const Code near = neighbours(first + part / 2), far = neighbours(first + (part + parts) / 2);
      own.push_back(part % 2 == 0 ? code("({} & 0xffffu) | ({} << 16)", near, far)
                                  : code("({} >> 16) | ({} & 0xffff0000u)", near, far));
      pairs.push_back(component(code("pairs_{}", i), word % kWords));
    }
    main_.line("uvec4 pairs_{} = uvec4({}){};", i, listed(own), group);
  }
  return pairs;
}

/// The functions of a word of each of two rows, which give the numbers that are `shift` bits up, and those above: one
/// for sums whose numbers are made alike.
void ReductionEmitter::write_rows_of_words(const PackedGemvTile& packed, const Code& numbers) {
  functions_.raw(lane_fragment_functions("rows_of", "column_of", packed.mma));
  const int bits = packed.code().bits;
  const char* powers = packed.code().format ? "" : bits == 4 ? ", uint low, uint high" : ", uint low";
  for (std::size_t sum = 0; sum < packed.sums.size(); ++sum) {
    const ops::PackedCode& own = packed.sums[sum].first().code;
    const auto alike = std::ranges::find_if(packed.sums, [&](const auto& one) { return one.first().code == own; });
    const auto first = static_cast<std::size_t>(alike - packed.sums.begin());
    if (first < sum) {
      word_functions_.push_back(word_functions_[first]);
      continue;
    }
    const auto of = [&](const char* word, int part) {
      return numbers_at(own, {.function = numbers, .bits = word, .vector = {}, .at = {}, .low = "low", .high = "high"},
                        part * bits);
    };
    word_functions_.push_back(unique("rows_of_words"));
    functions_.blank();
    functions_.line("// Of a word of each of two rows the numbers {}.",
                    bits == 4 ? "from a bit on, and those four bits above" : "of all bytes");
    functions_.open("{} {}(uint first, uint second, uint shift{}) {{",
                    fragment(packed.mma.a, packed.mma.m, packed.mma.k, "A"), word_functions_.back(), powers);
    functions_.line("first >>= shift;");
    functions_.line("second >>= shift;");
    functions_.line("return rows_of({}, {},", of("first", 0), of("first", 1));
    functions_.line("               {}, {});", of("second", 0), of("second", 1));
    functions_.close();
  }
}

/// Two pairs of every word at a time, of both rows.
void ReductionEmitter::multiply_words(const PackedGemvTile& packed, std::size_t sum, const Code& sums) {
  const int parts = packed.code().per_half(), bits = packed.code().bits;
  const std::vector<Code> pairs = pairs_of_vector(packed);
  const Code loaded = raw_names(packed.sums[sum].first().load).front();
  const char* powers = packed.code().format ? "" : bits == 4 ? ", low, high" : ", low";
  for (int word = 0; word < kWords; ++word) {
    for (int part = 0; part < parts; part += 2) {
      const auto pair = static_cast<std::size_t>(word * parts + part);
      main_.line("{0} = coopMatMulAdd({7}({1}, {2}, {3}u{4}), column_of({5}, {6}), {0});", sums,
                 component(loaded + "[u * 2u]", word), component(loaded + "[u * 2u + 1u]", word), part * bits, powers,
                 pairs[pair], pairs[pair + 1], word_functions_[sum]);
    }
  }
}

/// The scales that a lane has loaded, as numbers.
Result<void> ReductionEmitter::decode_lane_scales(const PackedGemvTile& packed, ValueId scale) {
  main_.line("float own_scales[{}];", scales_of_lane(packed));
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", scales_of_lane(packed));
  VKF_TRY(number, loaded_scale(packed, scale, "u"));
  main_.line("own_scales[u] = {};", number);
  main_.close();
  return {};
}

/// Adds the sums of K-slice `u`, each times the scale of its row and of its column's group, which one of the four lanes
/// of a row has.
void ReductionEmitter::scale_lane_sums(const PackedGemvTile& packed) {
  for (int sum = 0; sum < 4; ++sum) {
    const int row = sum / 2, column = sum % 2;
    const Code of_step = row == 0 ? Code("u * 2u") : code("u * 2u + {}u", row);
    Code own = of_step;
    Code lane = code("{} % {}u", column == 0 ? Code("lane_part * 2u") : Code("(lane_part * 2u + 1u)"), kLanesOfRow);
    if (packed.groups() == 1) {
      own = "0u";
      lane = of_step;
    } else if (packed.groups() == 2) {
      own = "u";
      lane = code("{}u", sum);
    }
    const bool alike = packed.groups() == 1 && column == 1;  // both columns have the whole K-slice
    if (!alike)
      main_.line("float scale_{} = subgroupShuffle(own_scales[{}], lane_row * {}u + {});", sum, own, kLanesOfRow, lane);
    main_.line("sums[{0}] = fma(part_sums[{0}], scale_{1}, sums[{0}]);", sum, alike ? sum - 1 : sum);
  }
}

/// The K-slices of a lane from `k_slice` on.
Result<void> ReductionEmitter::multiply_lane_steps(const PackedGemvTile& packed, std::size_t sum) {
  const PackedWeights& weights = packed.sums[sum];
  const std::int64_t k_slices = loops_.reduction_count() / packed.k_slice_columns();
  const bool whole = k_slices % (std::int64_t{packed.subgroups} * packed.lane_steps) == 0;
  const bool scaled = weights.first().scale.has_value();
  names_.values[weights.first().load] = word_names_[sum];
  if (scaled) VKF_CHECK_OK(decode_lane_scales(packed, *weights.first().scale));
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", packed.lane_steps);
  if (!whole) main_.open("if (k_slice + u < {}) {{", numbers_.size(k_slices));
  main_.line("uint column = (k_slice + u) * {}u + lane_part;", kLanesOfRow);
  if (scaled)
    main_.line("{0} part_sums = {0}(0.0);", fragment(packed.mma.c, packed.mma.m, packed.mma.n, "Accumulator"));
  multiply_words(packed, sum, scaled ? "part_sums" : "sums");
  if (packed.code().hides_nan()) {
    main_.open("[[unroll]] for (uint r = 0u; r < 2u; ++r) {{");
    look_for_nan(packed, code("{}[u * 2u + r]", raw_names(weights.first().load).front()), "r");
    main_.close();
  }
  if (scaled) scale_lane_sums(packed);
  if (!whole) main_.close();
  main_.close();
  return {};
}

/// The loop of a subgroup over its K-slices of a tile.
Result<void> ReductionEmitter::multiply_lane_tile(const PackedGemvTile& packed, std::size_t sum) {
  const std::int64_t k_slices = loops_.reduction_count() / packed.k_slice_columns();
  const std::int64_t rounds = schedule::ceil_div(k_slices, std::int64_t{packed.subgroups} * packed.lane_steps);
  const bool loaded = sum == 0;  // the first of all
  main_.open("for (uint round = 0u; round < {}; ++round) {{", numbers_.size(rounds));
  main_.line("uint k_slice = (round * {}u + subgroup) * {}u;", packed.subgroups, packed.lane_steps);
  if (!loaded || packed.tiles > 1 || rounds > 1) {
    if (loaded) main_.open("if (tile + round > 0u) {{");
    VKF_CHECK_OK(load_lane_steps(packed, packed.sums[sum]));
    if (loaded) main_.close();
  }
  VKF_CHECK_OK(multiply_lane_steps(packed, sum));
  main_.close();
  return {};
}

/// What a subgroup has summed of the rows of a tile, to shared memory: of each group's column.
void ReductionEmitter::store_lane_sums(const PackedGemvTile& packed, std::size_t sum) {
  note_nan(packed, sum);
  const auto rows = static_cast<int>(packed.mma.m);
  const int parts = packed.subgroups * packed.rows();  // of a sum
  if (packed.groups() > 1) main_.line("vec2 of_rows = vec2(sums[0] + sums[1], sums[2] + sums[3]);");
  if (packed.groups() > 2) main_.line("of_rows += subgroupShuffleXor(of_rows, 1u);");
  main_.open("if (lane_part == 0u) {{");
  main_.line("uint at = {}subgroup * {}u + tile * {}u + lane_row;",
             sum == 0 ? "" : code("{}u + ", static_cast<int>(sum) * parts), packed.rows(), rows);
  main_.line("row_parts[at] = {};", packed.groups() > 1 ? "of_rows.x" : "sums[0]");
  main_.line("row_parts[at + {}u] = {};", rows / 2, packed.groups() > 1 ? "of_rows.y" : "sums[2]");
  main_.close();
}

}  // namespace vkfuse::lowering
