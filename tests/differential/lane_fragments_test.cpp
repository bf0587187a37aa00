// Few rows times weights, whose fragments lanes make.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "api/states.hpp"
#include "support/fuzz.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

/// Why they cannot be used here; empty where they can.
std::string missing() {
  const std::string reason = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix));
  if (!reason.empty()) return "T4 is not in use here: " + reason;
  constexpr FeatureTier kTiers[] = {FeatureTier::float16, FeatureTier::cooperative_matrix};
  const Target target = must(device().state()->context->tiers().target(kTiers, {.lane_fragments = true}));
  return target.caps.matrix.lane_fragments ? "" : "Which elements of a fragment a lane has is not known here.";
}

Build lane_fragments() {
  Build how;
  how.tuning.matmul = how.tuning.cooperative_matrix = true;
  how.tuning.matrix_scope = schedule::MatrixScope::lanes;
  return how;
}

bool has_lane_fragments(const Executable& program) {
  return must(program.explain(Stage::glsl)).find("rows_of(") != std::string::npos;
}

struct Form {
  const char* weights = "f16";
  std::int64_t rows = 4, columns = 512, positions = 64;
  std::int64_t batch = 1, group = 128;
};

Tensor numbers_of(const Form& form, const std::string& name) {
  const std::string_view kind = form.weights;
  const std::int64_t all = form.batch * form.positions;
  const auto input = [&](DType dtype, std::int64_t columns) { return Tensor::input(name, dtype, {all, columns}); };
  if (kind == "i8") return input(DType::i8, form.columns).cast(DType::f16);
  if (kind == "u8") return input(DType::u8, form.columns).cast(DType::f16);
  if (kind == "u8 less 128") return input(DType::u8, form.columns).cast(DType::f16) - 128;
  if (kind == "signed int4") return unpack_int4(input(DType::u8, form.columns / 2), true).cast(DType::f16);
  if (kind == "unsigned int4") return unpack_int4(input(DType::u8, form.columns / 2), false).cast(DType::f16);
  if (kind == "int4 less 8") return unpack_int4(input(DType::u8, form.columns / 2), false).cast(DType::f16) - 8;
  if (kind == "i8, each twice")
    return Tensor::input(name, DType::i8, {all, form.columns / 2, 1})
        .broadcast_to({all, form.columns / 2, 2})
        .reshape({all, form.columns})
        .cast(DType::f16);
  if (kind == "a part")
    return Tensor::input(name, DType::f16, {all + 3, form.columns + 64})
        .slice(0, 2, all + 2)
        .slice(1, 32, form.columns + 32);
  if (kind == "padded") return Tensor::input(name, DType::f16, {all, form.columns - 16}).pad({0, 8}, {0, 8});
  if (kind == "a literal scale") return input(DType::i8, form.columns).cast(DType::f16) * 0.03;
  if (kind == "computed") return relu(input(DType::f16, form.columns) - 0.25);
  return input(DType::f16, form.columns);
}

Tensor weights_of(const Form& form, const std::string& name) {
  Tensor numbers = numbers_of(form, name);
  if (form.group > 0 && std::string_view(form.weights) != "f16") {
    const Tensor scale =
        Tensor::input(name + " scale", DType::f16, {form.batch * form.positions, form.columns / form.group, 1});
    numbers =
        (numbers.reshape({form.batch * form.positions, form.columns / form.group, form.group}) * (scale * 0.0625));
  }
  numbers = numbers.reshape({form.batch, form.positions, form.columns}).permute({0, 2, 1});
  return form.batch == 1 ? numbers.reshape({form.columns, form.positions}) : numbers;
}

Tensor rows_of(const Form& form) {
  return Tensor::input("x", DType::f16,
                       form.batch == 1 ? Shape{form.rows, form.columns} : Shape{form.batch, form.rows, form.columns});
}

std::string text_of(const Form& form) {
  return fmt::format("{} rows of {} times {} positions of {}, batch {}, groups of {}", form.rows, form.columns,
                     form.positions, form.weights, form.batch, form.group);
}

const Form kForms[] = {{},
                       {"f16", 8, 2048, 4096},
                       {"f16", 2, 96, 16},
                       {"f16", 3, 1056, 1000},
                       {"f16", 7, 512, 57},
                       {"f16", 5, 512, 64, 3},
                       {"i8"},
                       {"i8", 8, 4096, 256, 1, 4096},
                       {"i8", 3, 1088, 100, 1, 64},
                       {"i8", 4, 512, 64, 1, 0},
                       {"u8", 4, 512, 64},
                       {"u8 less 128", 6, 512, 40},
                       {"signed int4", 4, 1024, 128},
                       {"signed int4", 8, 4096, 1024, 1, 32},
                       {"signed int4", 4, 1024, 48, 1, 0},
                       {"unsigned int4", 2, 1024, 128, 1, 1024},
                       {"int4 less 8", 5, 2048, 33},
                       {"int4 less 8", 4, 1024, 64, 2},
                       {"i8, each twice", 4, 1024, 64, 1, 0},
                       {"signed int4", 4, 1024, 64, 1, 16},
                       {"i8", 4, 1024, 64, 1, 4},
                       {"a literal scale", 4, 512, 64, 1, 0},
                       {"a part", 4, 512, 64, 1, 0},
                       {"padded", 4, 512, 64, 1, 0},
                       {"computed", 4, 512, 64}};

TEST(LaneFragments, AreTheirSums) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  std::uint64_t seed = 700;
  std::int64_t of_lanes = 0;
  for (const Form& form : kForms) {
    const Tensor product = matmul(rows_of(form), weights_of(form, "w"));
    const Tensor residual = Tensor::input("residual", DType::f16, product.shape());
    for (const ir::Graph& graph :
         {graph_of({product}), graph_of({relu(product * 0.25) + residual, product.cast(DType::f32)})}) {
      const Executable program = compile_graph(graph, lane_fragments());
      of_lanes += has_lane_fragments(program) ? 1 : 0;
      compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), text_of(form));
    }
  }
  EXPECT_GE(of_lanes, 2 * (std::ssize(kForms) - 3)) << "weights that are read in short pieces are staged";
}

/// Weights times scales are rounded as f16 says, and exactly where there is no scale.
TEST(LaneFragments, KeepStrictNumerics) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  std::uint64_t seed = 780;
  for (const Form& form : {Form{"int4 less 8", 5, 2048, 33}, Form{"i8", 4, 512, 64, 1, 0}, Form{"f16", 3, 1056, 100}}) {
    const ir::Graph graph = graph_of({matmul(rows_of(form), weights_of(form, "w"))});
    Build how = lane_fragments();
    how.numerics = Numerics::strict;
    const Executable program = compile_graph(graph, how);
    EXPECT_TRUE(has_lane_fragments(program)) << text_of(form);
    compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), text_of(form));
  }
}

/// Two sums that share their rows, which are computed as they are read. Weights of unlike chunks are staged.
TEST(LaneFragments, OfAGate) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  struct Gate {
    const char *first, *second;
    bool of_lanes;
  };
  std::uint64_t seed = 800;
  for (const Gate& gate : {Gate{"int4 less 8", "int4 less 8", true}, Gate{"i8", "i8", true}, Gate{"f16", "f16", true},
                           Gate{"i8", "f16", true}, Gate{"int4 less 8", "i8", false}}) {
    const Form first{gate.first, 4, 1024, 64}, second{gate.second, 4, 1024, 64};
    const Tensor x = silu(rows_of(first)) * Tensor::input("y", DType::f16, {first.rows, first.columns}) * 0.015625;
    const ir::Graph graph =
        graph_of({silu(matmul(x, weights_of(first, "gate"))) * matmul(x, weights_of(second, "up"))});
    const Executable program = compile_graph(graph, lane_fragments());
    const std::string what = fmt::format("{} and {}", gate.first, gate.second);
    EXPECT_EQ(has_lane_fragments(program), gate.of_lanes) << what;
    compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), what);
  }
}

/// What is not finite reaches the rows that it should, and no other.
TEST(LaneFragments, WhatIsNotFiniteStaysInItsRow) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Form form{"int4 less 8", 4, 1024, 64};
  const ir::Graph graph = graph_of({matmul(rows_of(form), weights_of(form, "w"))});
  const Executable program = compile_graph(graph, lane_fragments());
  ASSERT_TRUE(has_lane_fragments(program));
  for (const std::uint16_t bits : {std::uint16_t{0x7c00}, std::uint16_t{0xfc00}, std::uint16_t{0x7e00}}) {
    Data data = data_for({graph, {}, 830, false});
    std::memcpy(data.inputs.at("x").data() + 2 * (2 * form.columns + 777), &bits, 2);
    const GuardedRun got = run_guarded(program, graph, data);
    for (std::int64_t i = 0; i < form.rows * form.positions; ++i) {
      const double value = ir::decode(DType::f16, got.outputs.at("y").data() + 2 * i);
      EXPECT_EQ(std::isfinite(value), i / form.positions != 2) << i;
    }
  }
}

}  // namespace
}  // namespace vkfuse::test
