// Few rows times weights, whose fragments lanes make: each lane loads its elements of two rows of weights as they lie
// in memory, and what they become is an operand of a cooperative matrix without a way through shared memory.
#include "lowering/fragments.hpp"
#include "templates/matmul/lower_emitter.hpp"
#include "templates/matmul/tiles.hpp"

namespace vkfuse::lowering {

int MatmulEmitter::chunks_of_lane(const schedule::TileOperand& planned) const {
  if (!tile_.lane_fragments()) return 0;
  return planned.second ? schedule::kLaneStepsAhead * schedule::kRowsOfLane : 1;
}

/// Weights become f16 two at a time where the pairs of all operands are equally far apart.
void MatmulEmitter::find_pairs() {
  pairs_apart_ = 0;
  for (TileOperand& tile_operand : tile_operands_) {
    if (tile_operand.across != kN) continue;
    tile_operand.encoding.pairs = number_pairs_of(tile_operand);
    const int apart = tile_operand.encoding.pairs ? tile_operand.encoding.pairs->apart() : 1;
    pairs_apart_ = pairs_apart_ == 0 || pairs_apart_ == apart ? apart : 1;
  }
  if (pairs_apart_ > 1) return;
  for (TileOperand& tile_operand : tile_operands_) tile_operand.encoding.pairs.reset();
}

/// Words of neighbours as words of elements that are as far apart as those of weights.
std::vector<Code> MatmulEmitter::paired(std::vector<Code> words) {
  if (pairs_apart_ == 1) return words;
  const auto apart = static_cast<std::size_t>(pairs_apart_);
  const Code name = unique("neighbours");
  main_.line("uint {}[{}] = uint[{}]({});", name, words.size(), words.size(), listed(words));
  std::vector<Code> all;
  for (std::size_t run = 0; run < words.size(); run += apart) {  // of 2 * apart elements
    for (std::size_t i = 0; i < apart; ++i) {
      const Code near = code("{}[{}u]", name, run + i / 2), far = code("{}[{}u]", name, run + (i + apart) / 2);
      all.push_back(i % 2 == 0 ? code("({} & 0xffffu) | ({} << 16)", near, far)
                               : code("({} >> 16) | ({} & 0xffff0000u)", near, far));
    }
  }
  return all;
}

void MatmulEmitter::declare_lanes() {
  const int elements = shape_.m * shape_.n * schedule::subgroups_of_lane_fragments(shape_);
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    shared_.line("shared float {}[{}];  // of each subgroup, row by row", subtiles_[s], elements);
    main_.line("{0} {1} = {0}(0.0);", sum_type(), sums_[s]);
  }
  for (const TileOperand& tile_operand : tile_operands_) {
    if (tile_operand.encoding.pairs)
      write_pairs(tile_operand);
    else
      write_fields(tile_operand);
    if (tile_operand.staging.prefetched) declare_prefetch(tile_operand);
  }
}

/// Names the position across and the chunk along the sum of a lane in a step of its subgroup.
void MatmulEmitter::locate_chunk_of_lane(const TileOperand& tile_operand, const Code& step) {
  const bool second = tile_operand.across == kN;
  if (second) {
    const Code row = code("tile_n * {}u + r * {}u + lane_row", shape_.n, shape_.n / schedule::kRowsOfLane);
    main_.line("uint n = {};", limited(row, extent(tile_.n), shape_.n));
  } else {
    main_.line("uint m = {};", limited(code("tile_m * {}u + lane_row", shape_.m), extent(tile_.m), shape_.m));
  }
  main_.line("uint chunk = {} * {}u + lane_part;", step, kLanesOfRow);
}

/// Brings the weights of a step to the registers of the step that is `ahead`.
Result<void> MatmulEmitter::fetch_chunks_of_lane(const Code& step) {
  for (const TileOperand& tile_operand : tile_operands_) {
    if (tile_operand.across != kN) continue;
    use_chunks_of(tile_operand.part);
    main_.open("[[unroll]] for (uint r = 0u; r < {}u; ++r) {{", schedule::kRowsOfLane);
    main_.line("uint u = ahead * {}u + r;", schedule::kRowsOfLane);
    locate_chunk_of_lane(tile_operand, step);
    VKF_CHECK_OK(fetch_chunk(tile_operand));
    main_.close();
  }
  return {};
}

/// The words of a lane's chunks of a step.
Result<void> MatmulEmitter::words_of_lane(const TileOperand& tile_operand) {
  use_chunks_of(tile_operand.part);
  const bool second = tile_operand.across == kN;
  const int words = tile_operand.part.elements / 2;
  main_.line("uint {}[{}];", tile_operand.tile, (second ? schedule::kRowsOfLane : 1) * words);
  if (second) {
    main_.open("[[unroll]] for (uint r = 0u; r < {}u; ++r) {{", schedule::kRowsOfLane);
    main_.line("uint u = ahead * {}u + r;", schedule::kRowsOfLane);
  } else {
    main_.open("{{");
  }
  locate_chunk_of_lane(tile_operand, "step");
  VKF_TRY(made, words_of_chunk(tile_operand));
  if (!second) made = paired(std::move(made));
  for (int w = 0; w < words; ++w) {
    main_.line("{}[{}{}u] = {};", tile_operand.tile, second ? code("r * {}u + ", words) : Code(), w,
               made[static_cast<std::size_t>(w)]);
  }
  main_.close();
  return {};
}

/// A step of a subgroup, of which the weights are in flight.
Result<void> MatmulEmitter::multiply_lanes() {
  for (const TileOperand& tile_operand : tile_operands_) VKF_CHECK_OK(words_of_lane(tile_operand));
  const int words = tile_operands_.front().part.elements / 2;
  main_.open("[[unroll]] for (uint w = 0u; w < {}u; w += 2u) {{", words);
  for (const TileOperand& tile_operand : tile_operands_) {
    if (tile_operand.across == kN) continue;
    main_.line("{} {} = column_of({}[w], {}[w + 1u]);", fragment(tile_.mma()->b, tile_.mma()->k, tile_.mma()->n, "B"),
               tile_operand.part.name, tile_operand.tile, tile_operand.tile);
  }
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    const Code& weights = tile_operands_[static_cast<std::size_t>(tile_.sums[s].second)].tile;
    main_.line("{0} = coopMatMulAdd(rows_of({1}[w], {1}[w + 1u], {1}[w + {2}u], {1}[w + {3}u]), {4}, {0});", sums_[s],
               weights, words, words + 1, tile_operands_[static_cast<std::size_t>(tile_.sums[s].first)].part.name);
  }
  main_.close();
  return {};
}

/// Adds up the sums of the subgroups; threads take results as they are stored.
Result<void> MatmulEmitter::store_sums_of_lanes() {
  const int of_subgroup = shape_.m * shape_.n;
  for (std::size_t s = 0; s < sums_.size(); ++s)
    main_.line("coopMatStore({}, {}, subgroup * {}u, {}u, gl_CooperativeMatrixLayoutColumnMajor);", sums_[s],
               subtiles_[s], of_subgroup, shape_.n);
  main_.line("barrier();");
  use_chunks_of(results_);
  const int per_row = shape_.n / tile_.elements;
  main_.open("for (uint unit = thread; unit < {}u; unit += {}u) {{", shape_.m * per_row, schedule_.workgroup);
  main_.line("uint row = unit / {}u;", per_row);
  main_.line("uint m = tile_m * {}u + row;", shape_.m);
  main_.line("uint chunk = tile_n * {}u + unit % {}u;", per_row, per_row);
  main_.line("uint at = unit * {}u;", tile_.elements);
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const Code& sum = names_.values[tile_.sums[s].reduction];
    for (int e = 0; e < tile_.elements; ++e) main_.line("float {}_{} = 0.0;", sum, e);
    main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", schedule::subgroups_of_lane_fragments(shape_));
    for (int e = 0; e < tile_.elements; ++e)
      main_.line("{0}_{1} += {2}[i * {3}u + at + {1}u];", sum, e, subtiles_[s], of_subgroup);
    main_.close();
  }
  const auto sum_of = [&](std::size_t s, int e) { return code("{}_{}", names_.values[tile_.sums[s].reduction], e); };
  VKF_CHECK_OK(store_one([&](ValueId id, int e) { return known_name(id, "row", e, sum_of); }));
  main_.close();
  return {};
}

/// The loop of a subgroup over its steps along the sum: the weights of the next ones are in flight meanwhile.
Result<void> MatmulEmitter::sum_of_lanes() {
  const int subgroups = schedule::subgroups_of_lane_fragments(shape_);
  const Code steps = numbers_.size(count(tile_.k) / schedule::columns_of_lanes(tile_));
  main_.open("[[unroll]] for (uint ahead = 0u; ahead < {}u; ++ahead) {{", schedule::kLaneStepsAhead);
  main_.line("uint next = min(subgroup + ahead * {}u, {} - 1u);", subgroups, steps);
  VKF_CHECK_OK(fetch_chunks_of_lane("next"));
  main_.close();
  main_.open("for (uint first = subgroup; first < {}; first += {}u) {{", steps, schedule::kLaneStepsAhead * subgroups);
  main_.open("[[unroll]] for (uint ahead = 0u; ahead < {}u; ++ahead) {{", schedule::kLaneStepsAhead);
  main_.line("uint step = first + ahead * {}u;", subgroups);
  main_.open("if (step < {}) {{", steps);
  VKF_CHECK_OK(multiply_lanes());
  main_.line("uint next = min(step + {}u, {} - 1u);", schedule::kLaneStepsAhead * subgroups, steps);
  VKF_CHECK_OK(fetch_chunks_of_lane("next"));
  main_.close();
  main_.close();
  main_.close();
  return {};
}

Result<void> MatmulEmitter::lane_fragments_main() {
  functions_.raw(lane_fragment_functions("rows_of", "column_of", *tile_.mma()));
  functions_.blank();
  main_.open("void main() {{");
  locate_tile();
  main_.line("uint subgroup = gl_SubgroupID;");
  main_.line("uint lane_row = gl_SubgroupInvocationID / {0}u, lane_part = gl_SubgroupInvocationID % {0}u;",
             kLanesOfRow);
  declare_lanes();
  VKF_CHECK_OK(sum_of_lanes());
  VKF_CHECK_OK(store_sums_of_lanes());
  main_.close();
  return {};
}

}  // namespace vkfuse::lowering
