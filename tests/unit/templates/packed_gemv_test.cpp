// Which weights of four bits cooperative matrices multiply with a vector, on devices that are plain numbers.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "templates/planning.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/float_codes.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

ir::Graph weights_times_vector(std::int64_t rows, std::int64_t columns, std::int64_t group, DType vector = DType::f16) {
  const Tensor numbers = unpack_int4(Tensor::input("w", DType::u8, {rows, columns / 2}), true);
  const Tensor scale = Tensor::input("scale", vector, {rows, columns / group});
  return graph_of({matmul(dequantize(numbers, {.scale = scale, .axis = 1, .group = group}),
                          Tensor::input("x", vector, {columns}))});
}

std::optional<schedule::PackedGemvTile> packed_in(const schedule::Schedule& schedule) {
  const auto* params = schedule.get_if<schedule::ReductionParams>();
  return params != nullptr ? params->packed : std::nullopt;
}

std::optional<schedule::PackedGemvTile> packed_of(const ir::Graph& graph, const Target& target,
                                                  const schedule::Tuning& tuning = {}) {
  const plan::Plan plan = must(plan::make_plan(graph, target));
  EXPECT_EQ(plan.steps.size(), 1U);
  const segment::Loops loops = must(segment::build_loops(plan.graph, plan.steps[0].segment, {}));
  const schedule::Schedule chosen = must(schedule::best(plan.graph, loops, target, tuning));
  const auto packed = packed_in(chosen);
  if (packed) {
    EXPECT_LE(chosen.shared_bytes, target.caps.workgroup.shared_memory_bytes);
    EXPECT_GE(chosen.launch.workgroups * packed->rows(), loops.parallel_count());
  }
  return packed;
}

/// Where it is not known which elements of a fragment a lane has.
Target opaque_fragments() {
  Target target = discrete_gpu_with_measured_costs();
  target.caps.matrix.lane_fragments.reset();
  return target;
}

TEST(Packed, AllWorkgroupsRunAtATime) {
  for (const Target& target : {opaque_fragments(), discrete_gpu_with_measured_costs()}) {
    const auto large = packed_of(weights_times_vector(28672, 8192, 128), target);
    ASSERT_TRUE(large);
    // 224 workgroups or 256, of which an H200 runs 264; with 256 the busiest of 132 units has 14 tiles, and not 16.
    EXPECT_EQ(large->tiles, large->lane_fragments() ? 7 : 8);
    EXPECT_EQ(large->scale_columns, 128);
    const auto small = packed_of(weights_times_vector(4096, 4096, 128), target);
    ASSERT_TRUE(small);
    EXPECT_EQ(small->tiles, 1);
  }
}

/// Where the device's fragments are known, lanes load weights straight into them, whatever scales are for.
TEST(Packed, LanesMakeFragmentsWhereTheirOrderIsKnown) {
  const Target target = discrete_gpu_with_measured_costs();
  const auto large = packed_of(weights_times_vector(28672, 8192, 128), target);
  ASSERT_TRUE(large && large->lane_fragments());
  EXPECT_TRUE(large->keeps_vector) << "several tiles read it";
  EXPECT_EQ(large->subgroups, 16);
  const auto small = packed_of(weights_times_vector(4096, 4096, 128), target);
  ASSERT_TRUE(small && small->lane_fragments());
  EXPECT_FALSE(small->keeps_vector) << "one tile reads it once";
  const auto divided = packed_of(weights_times_vector(4096, 14336, 128), target);
  ASSERT_TRUE(divided && divided->lane_fragments());
  EXPECT_EQ(divided->subgroups, 14) << "each has four times two K-slices of 128";
  const auto short_rows = packed_of(weights_times_vector(65536, 512, 128), target);
  ASSERT_TRUE(short_rows && short_rows->lane_fragments());
  EXPECT_EQ(short_rows->subgroups, 4);
  for (const auto& [group, groups] : {std::pair{64, 2}, std::pair{32, 4}}) {
    const auto grouped = packed_of(weights_times_vector(28672, 8192, group), target);
    ASSERT_TRUE(grouped && grouped->lane_fragments()) << group;
    EXPECT_EQ(grouped->groups(), groups);
  }
  schedule::Tuning forced;
  forced.cooperative_matrix = true;
  const auto odd = packed_of(weights_times_vector(1024, 2112, 64), target, forced);
  ASSERT_TRUE(odd) << "through shared memory, in pieces of 64";
  EXPECT_FALSE(odd->lane_fragments());
  EXPECT_FALSE(packed_of(weights_times_vector(28672, 8192, 128), opaque_fragments())->lane_fragments());
}

/// Statistics of the vector come first; of matrices one below the other, each tile of rows has one.
TEST(Packed, ANormAndMatricesOneBelowTheOtherArePartOfIt) {
  const auto weights = [](const char* name, std::int64_t rows) {
    const Tensor numbers = unpack_int4(Tensor::input(name, DType::u8, {rows, 2048}), true);
    const Tensor scale = Tensor::input(std::string(name) + " scale", DType::f16, {rows, 32});
    return dequantize(numbers, {.scale = scale, .axis = 1, .group = 128});
  };
  const Tensor x = Tensor::input("x", DType::f16, {4096});
  for (const Target& target : {opaque_fragments(), discrete_gpu_with_measured_costs()}) {
    const auto normed = packed_of(graph_of({matmul(weights("w", 4096), rms_norm(x))}), target);
    ASSERT_TRUE(normed);
    EXPECT_EQ(normed->statistics, 1);
    EXPECT_EQ(normed->subgroups, normed->lane_fragments() ? 16 : 4) << "each has two or four K-slices";
    EXPECT_TRUE(normed->keeps_vector);
    const auto two = packed_of(graph_of({matmul(concat({weights("a", 4096), weights("b", 1024)}, 0), x)}), target);
    ASSERT_TRUE(two);
    ASSERT_EQ(two->sums[0].matrices.size(), 2U);
    EXPECT_EQ(two->sums[0].matrices[0].end, 4096);
    EXPECT_EQ(two->sums[0].matrices[1].end, 5120);
    EXPECT_EQ(two->statistics, 0);
    EXPECT_FALSE(packed_of(graph_of({matmul(concat({weights("a", 4100), weights("b", 1024)}, 0), x)}), target))
        << "a tile has rows of both";
  }
}

/// Of scales for fewer elements than a fragment has, each column of the sums has those of one group.
TEST(Packed, SmallGroupsAreColumnsOfTheSums) {
  const ir::Graph graph = weights_times_vector(28672, 8192, 32);
  schedule::Tuning forced;
  forced.cooperative_matrix = true;
  const auto tile = packed_of(graph, opaque_fragments(), forced);
  ASSERT_TRUE(tile);
  EXPECT_FALSE(packed_of(graph, opaque_fragments())) << "of whole numbers threads are faster";
  EXPECT_EQ(tile->scale_columns, 32);
  EXPECT_EQ(tile->groups(), 2);
  EXPECT_EQ(tile->scale_slots(), tile->subgroups * 16 * 8 + 16 * 6)
      << "of eight groups, and what fragments reach beyond";
}

/// Bytes and codes of floats, in bytes or two in one.
TEST(Packed, CodesOfFloatsAndBytesAreWeightsToo) {
  Target target = discrete_gpu_with_measured_costs();
  target.caps.memory.storage_8bit = target.caps.arithmetic.int8 = true;
  const auto product = [](const Tensor& weights) {
    return graph_of({matmul(weights, Tensor::input("x", DType::f16, {8192}))});
  };
  const auto code_of = [&](const Tensor& weights, const schedule::Tuning& tuning = {}) {
    const auto tile = packed_of(product(weights), target, tuning);
    return tile ? std::optional(tile->code()) : std::nullopt;
  };
  schedule::Tuning forced;
  forced.cooperative_matrix = true;
  const Tensor bytes = Tensor::input("w", DType::u8, {28672, 8192}),
               halves = Tensor::input("w", DType::u8, {28672, 4096});
  const auto eights = code_of(decode_float(bytes, FloatFormat::float8_e4m3fn, DType::f16), forced);
  ASSERT_TRUE(eights);
  EXPECT_EQ(eights->bits, 8);
  EXPECT_TRUE(eights->hides_nan());
  EXPECT_EQ(eights->unit(), 256);
  const auto fours = code_of(decode_float(unpack_int4(halves, false), FloatFormat::float4_e2m1fn, DType::f16), forced);
  ASSERT_TRUE(fours);
  EXPECT_EQ(fours->bits, 4);
  EXPECT_FALSE(fours->hides_nan());
  EXPECT_EQ(fours->unit(), 16384);
  const auto whole = code_of(Tensor::input("w", DType::i8, {28672, 8192}).cast(DType::f16), forced);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->flip, 0x80u);
  EXPECT_EQ(whole->offset, -128);
  const Tensor scale = Tensor::input("scale", DType::f16, {28672, 8192 / 16});
  const auto scaled = [&](FloatFormat format) {
    return dequantize(decode_float(bytes, format, DType::f16), {.scale = scale, .axis = 1, .group = 16});
  };
  EXPECT_TRUE(code_of(scaled(FloatFormat::float8_e4m3fn), forced));
  EXPECT_FALSE(code_of(scaled(FloatFormat::float8_e5m2), forced)) << "infinity times the zeros of other groups";
  EXPECT_FALSE(code_of(decode_float(bytes, FloatFormat::float8_e4m3fnuz, DType::f16), forced)) << "0x80 is NaN";
  EXPECT_FALSE(code_of(decode_float(bytes, FloatFormat::float8_e8m0fnu, DType::f16), forced)) << "beyond f16";
}

TEST(Packed, LanesDoTheRest) {
  const ir::Graph graph = weights_times_vector(28672, 8192, 128);
  schedule::Tuning none;
  none.cooperative_matrix = false;
  EXPECT_FALSE(packed_of(graph, discrete_gpu_with_measured_costs(), none));
  Target without = discrete_gpu_with_measured_costs();
  without.caps.matrix.sub_byte.reset();
  EXPECT_FALSE(packed_of(graph, without)) << "what no test has shown";
  Target small = opaque_fragments();
  small.caps.workgroup.shared_memory_bytes = 16384;
  EXPECT_FALSE(packed_of(graph, small)) << "the vector alone is as large as shared memory";
  Target few = opaque_fragments();
  few.caps.workgroup.max_invocations = few.caps.workgroup.max_x = 128;
  EXPECT_FALSE(packed_of(graph, few)) << "eight subgroups of 32 are 256";
  EXPECT_FALSE(packed_of(weights_times_vector(28672, 8192, 128, DType::f32), discrete_gpu_with_measured_costs()))
      << "a vector of f32";
  schedule::Tuning forced;
  forced.cooperative_matrix = true;
  EXPECT_FALSE(packed_of(weights_times_vector(28672, 8192, 16), discrete_gpu_with_measured_costs(), forced))
      << "16 bytes have the elements of two groups";
  EXPECT_FALSE(packed_of(weights_times_vector(64, 8192, 128), discrete_gpu_with_measured_costs()))
      << "few rows are sooner done by lanes";
}

/// However many rows there are, threads load 16 bytes of four bits at a time: their results lie side by side, too, but
/// are few beside the weights.
TEST(Packed, ThreadsLoadLongChunksOfManyRows) {
  Target target = discrete_gpu_with_measured_costs();
  target.caps.matrix.sub_byte.reset();
  for (const std::int64_t rows : {256, 4096, 14336, 28672}) {
    const Tensor numbers = unpack_int4(Tensor::input("w", DType::u8, {rows, 2048}), true);
    const Tensor weights = dequantize(numbers, {.scale = Tensor::input("scale", DType::f16, {rows}), .axis = 0});
    const plan::Plan plan =
        must(plan::make_plan(graph_of({matmul(weights, Tensor::input("x", DType::f16, {4096}))}), target));
    ASSERT_EQ(plan.steps.size(), 1U);
    const segment::Loops loops = must(segment::build_loops(plan.graph, plan.steps[0].segment, {}));
    EXPECT_EQ(must(schedule::best(plan.graph, loops, target)).chunk_size, 32) << rows << " rows";
  }
}

/// For many rows they become bytes in a kernel of their own, which the product scales; as f16, for tiles that the
/// workgroup multiplies as one, they took 298 us instead of 254 on an H200.
TEST(Packed, ForManyRowsTheyAreStoredAsBytes) {
  Target target = discrete_gpu_with_whole_tiles();
  target.caps.workgroup.shared_memory_bytes = 49152;
  target.caps.memory.storage_8bit = target.caps.arithmetic.int8 = target.caps.arithmetic.int16 =
      target.caps.float_controls.round_to_even_f16 = target.caps.float_controls.keep_denorms_f16 = true;
  target.costs = CostModel{.copy_gb_per_s = 4200, .launch_us = 1.6, .gflops = 30000, .accesses_per_us = 1.896e6};
  const Tensor numbers = unpack_int4(Tensor::input("w", DType::u8, {14336, 2048}), true);
  const Tensor scale = Tensor::input("scale", DType::f16, {14336, 32}) * 0.03125;
  const ir::Graph graph =
      graph_of({matmul(Tensor::input("x", DType::f16, {512, 4096}),
                       dequantize(numbers, {.scale = scale, .axis = 1, .group = 128}).transpose())});
  EXPECT_LT(must(plan::totals(must(plan::make_plan(graph, target)), {})).bytes, 200e6);
}

/// Sums cross shared memory where the words of a strip were: of 16 columns they are more than those of a short strip.
TEST(Packed, SumsFitWhereWordsWere) {
  Target wide = opaque_fragments();
  wide.caps.matrix.sub_byte->n = 16;
  schedule::Tuning forced;
  forced.cooperative_matrix = true;
  EXPECT_TRUE(packed_of(weights_times_vector(1024, 4096, 64), wide, forced));
  EXPECT_FALSE(packed_of(weights_times_vector(1024, 2112, 64), wide, forced));
  EXPECT_TRUE(packed_of(weights_times_vector(1024, 2112, 64), opaque_fragments(), forced));
}

/// A search for faster schedules tries what lanes make of it, and not the same kernel again.
TEST(Packed, TheTunerTriesLanes) {
  const ir::Graph graph = weights_times_vector(28672, 8192, 128);
  const Target target = discrete_gpu_with_measured_costs();
  const plan::Plan plan = must(plan::make_plan(graph, target));
  const segment::Loops loops = must(segment::build_loops(plan.graph, plan.steps[0].segment, {}));
  const schedule::Schedule standard = must(schedule::best(plan.graph, loops, target));
  ASSERT_TRUE(packed_in(standard));
  int with_32_lanes = 0;
  for (const schedule::Tuning& tuning : schedule::tunings_near(standard, target.caps)) {
    const auto other = schedule::best(plan.graph, loops, target, tuning);
    if (!other) continue;
    EXPECT_FALSE(packed_in(*other)) << schedule::to_text(tuning);
    const auto* params = other->get_if<schedule::ReductionParams>();
    with_32_lanes += params != nullptr && params->reduction_threads == 32;
  }
  EXPECT_GT(with_32_lanes, 0);
}

}  // namespace
}  // namespace vkfuse::test
