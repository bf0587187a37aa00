// Weights of four and eight bits times a vector with cooperative matrices: fragments of words become numbers where
// they are.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "api/states.hpp"
#include "support/fuzz.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/float_codes.hpp"

namespace vkfuse::test {
namespace {

/// Why they cannot be used here; empty where they can.
std::string missing() {
  const std::string reason = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix));
  if (!reason.empty()) return "T4 is not in use here: " + reason;
  constexpr FeatureTier kTiers[] = {FeatureTier::float16, FeatureTier::cooperative_matrix};
  return must(device().state()->context->tiers().target(kTiers, {.sub_byte = true})).caps.matrix.sub_byte
             ? ""
             : "The device's fragments do not hold bits of any kind.";
}

Build with_units() {
  Build how;
  how.tuning.cooperative_matrix = true;
  return how;
}

bool is_packed(const Executable& program) {
  return must(program.explain(Stage::glsl)).find("numbers_of(") != std::string::npos;
}

/// Whether lanes make its fragments, as where it is known which elements of one a lane has.
bool has_lane_fragments(const Executable& program) {
  return must(program.explain(Stage::glsl)).find("rows_of_words(") != std::string::npos;
}

bool are_lane_fragments_known() {
  constexpr FeatureTier kTiers[] = {FeatureTier::float16, FeatureTier::cooperative_matrix};
  return must(device().state()->context->tiers().target(kTiers, {.lane_fragments = true}))
      .caps.matrix.lane_fragments.has_value();
}

struct Form {
  std::int64_t rows, columns;
  std::int64_t group = 0;  ///< of columns that share a scale; 0: there is none
  bool negative = true;
  const char* vector = "x";
  bool in_floats = false;  ///< 8 is taken from floats
};

Tensor bytes(const Form& form) { return Tensor::input("bytes", DType::u8, {form.rows, form.columns / 2}); }

Tensor weights(const Form& form) {
  const Tensor numbers = unpack_int4(bytes(form), form.negative);
  if (form.group == 0) return numbers.cast(DType::f16);
  const Tensor scale = Tensor::input("scale", DType::f16, {form.rows, form.columns / form.group}) * 0.125;
  if (form.in_floats)
    return ((numbers.cast(DType::f16) - 8).reshape({form.rows, -1, form.group}) * scale.unsqueeze(2))
        .reshape({form.rows, form.columns});
  return dequantize(numbers, {.scale = scale, .axis = 1, .group = form.group});
}

Tensor vector(const Form& form) {
  const auto input = [&](const char* name) { return Tensor::input(name, DType::f16, {form.columns}); };
  const std::string_view what = form.vector;
  if (what == "gated") return silu(input("g")) * input("u");
  if (what == "every second")
    return Tensor::input("x", DType::f16, {form.columns, 2}).slice(1, 0, 1).reshape({form.columns});
  if (what == "positions") return input("x") + Tensor::iota(DType::i32, {form.columns}, 0).cast(DType::f16) * 0.001;
  return input("x");
}

std::string text_of(const Form& form) {
  return fmt::format("{} rows of {}, groups of {}, {}, {}", form.rows, form.columns, form.group,
                     form.negative ? "signed" : "unsigned", form.vector);
}

TEST(PackedRows, AreTheirSums) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Form forms[] = {{256, 2048, 128},
                        {256, 2048, 256},
                        {100, 4096, 64},
                        {33, 2048},
                        {16, 2048, 2048},
                        {7, 2048, 128},
                        {256, 2048, 128, false},
                        {48, 2304, 128},
                        {64, 2048, 128, true, "gated"},
                        {64, 2048, 0, true, "every second"},
                        {40, 4096, 128, true, "positions"},
                        {1500, 2048, 128},
                        {256, 2048, 32},
                        {100, 4096, 32, false},
                        {33, 2304, 32, false, "gated", true},
                        {256, 2048, 128, false, "x", true}};
  std::uint64_t seed = 500;
  for (const Form& form : forms) {
    const Tensor product = matmul(weights(form), vector(form));
    const Tensor residual = Tensor::input("residual", DType::f16, {form.rows});
    for (const ir::Graph& graph :
         {graph_of({product}), graph_of({relu(product * 0.25) + residual, product.cast(DType::f32)})}) {
      const Executable program = compile_graph(graph, with_units());
      EXPECT_TRUE(is_packed(program)) << text_of(form);
      EXPECT_EQ(has_lane_fragments(program), are_lane_fragments_known()) << text_of(form);
      compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), text_of(form));
    }
  }
}

/// Weights as bytes, or as floats' codes.
struct Coded {
  std::int64_t rows, columns;
  std::int64_t group = 0;                  ///< of columns that share a scale; 0: there is none
  std::optional<FloatFormat> format = {};  ///< none: signed bytes
  bool powers = false;                     ///< scales are float8_e8m0fnu
};

Tensor coded_weights(const Coded& form, const std::string& name) {
  const DType dtype = form.format ? DType::u8 : DType::i8;
  const bool fours = form.format && bits_of(*form.format) == 4;
  const Tensor held = Tensor::input(name, dtype, {form.rows, fours ? form.columns / 2 : form.columns});
  const Tensor codes = fours ? unpack_int4(held, false) : held;
  const Tensor numbers = form.format ? decode_float(codes, *form.format, DType::f16) : codes.cast(DType::f16);
  if (form.group == 0) return numbers;
  const Shape shape{form.rows, form.columns / form.group};
  const Tensor scale =
      form.powers
          ? decode_float(bit_and(Tensor::input(name + " scale", DType::u8, shape), Tensor::scalar_int(DType::u8, 3)) +
                             Tensor::scalar_int(DType::u8, 122),
                         FloatFormat::float8_e8m0fnu, DType::f16)
          : Tensor::input(name + " scale", DType::f16, shape) * 0.125;
  return dequantize(numbers, {.scale = scale, .axis = 1, .group = form.group});
}

std::string text_of(const Coded& form) {
  return fmt::format("{} rows of {}, groups of {}, {}", form.rows, form.columns, form.group,
                     form.format ? name_of(*form.format) : "int8");
}

/// Random data without codes that are NaN or infinite.
Data finite_data(const ir::Graph& graph, const Coded& form, std::uint64_t seed) {
  Data data = data_for({graph, {}, seed, false});
  for (auto& [name, bytes] : data.inputs) {
    if (!form.format || name.find("scale") != std::string::npos || name[0] != 'w') continue;
    for (std::byte& code : bytes) {
      if (*form.format == FloatFormat::float8_e4m3fn && (code & std::byte{0x7f}) == std::byte{0x7f})
        code &= std::byte{0xf0};
      if (*form.format == FloatFormat::float8_e5m2) code &= std::byte{0xbf};  // below 2
    }
  }
  return data;
}

TEST(PackedRows, OfBytesAndFloatCodesAreTheirSums) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Coded forms[] = {{256, 2048},
                         {100, 2048, 2048},
                         {100, 4096, 128},
                         {256, 2048, 0, FloatFormat::float4_e2m1fn},
                         {256, 2048, 32, FloatFormat::float4_e2m1fn, true},
                         {33, 4096, 32, FloatFormat::float4_e2m1fn, true},
                         {1500, 14336, 32, FloatFormat::float4_e2m1fn, true},
                         {100, 2304, 128, FloatFormat::float4_e2m1fn},
                         {256, 2048, 0, FloatFormat::float8_e4m3fn},
                         {100, 4096, 4096, FloatFormat::float8_e4m3fn},
                         {100, 4096, 32, FloatFormat::float8_e4m3fn, true},
                         {256, 2048, 2048, FloatFormat::float8_e5m2},
                         {256, 2048, 128, FloatFormat::float6_e3m2fn},
                         {256, 2048, 0, FloatFormat::float6_e2m3fn}};
  std::uint64_t seed = 1500;
  for (const Coded& form : forms) {
    const Tensor x = Tensor::input("x", DType::f16, {form.columns});
    const Tensor product = matmul(coded_weights(form, "w"), x) * 0.0078125;
    const Tensor other = matmul(coded_weights(form, "w2"), x) * 0.0078125;
    for (const ir::Graph& graph : {graph_of({product}), graph_of({silu(product) * other})}) {
      const Executable program = compile_graph(graph, with_units());
      EXPECT_TRUE(is_packed(program)) << text_of(form);
      compare_with_reference(program, graph, finite_data(graph, form, ++seed), text_of(form));
    }
  }
}

/// Codes that are NaN make their rows NaN, and no others, whatever they are multiplied with.
TEST(PackedRows, CodesOfNaNReachTheirRows) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const FloatFormat format : {FloatFormat::float8_e4m3fn, FloatFormat::float8_e5m2}) {
    for (const std::int64_t group : {0, 128}) {
      const Coded form{100, 2048, group, format};
      const Tensor x = Tensor::input("x", DType::f16, {form.columns});
      const ir::Graph graph =
          graph_of({matmul(coded_weights(form, "w"), x) * 0.0078125, matmul(coded_weights(form, "w2"), x) * 0.0078125});
      const Executable program = compile_graph(graph, with_units());
      EXPECT_TRUE(is_packed(program)) << text_of(form);
      Data data = finite_data(graph, form, 1600);
      const std::size_t places[] = {0, 5 * 2048 + 17, 16 * 2048 - 1, 77 * 2048 + 1025, 99 * 2048 + 2047};
      for (const std::size_t place : places)
        data.inputs.at("w")[place] = place % 2 == 0 ? std::byte{0x7f} : std::byte{0xff};
      data.inputs.at("w2")[34 * 2048 + 3] = std::byte{0x7f};
      std::memset(data.inputs.at("x").data() + 2 * 17, 0, 2);
      const GuardedRun got = run_guarded(program, graph, data);
      for (std::int64_t row = 0; row < form.rows; ++row) {
        const auto is_nan = [&](const char* name) {
          return std::isnan(ir::decode(DType::f16, got.outputs.at(name).data() + 2 * row));
        };
        EXPECT_EQ(is_nan("y"), row == 0 || row == 5 || row == 15 || row == 77 || row == 99) << text_of(form) << row;
        EXPECT_EQ(is_nan("y1"), row == 34) << text_of(form) << row;
      }
    }
  }
}

/// Codes that are infinite make their rows infinite, however few elements share a scale.
TEST(PackedRows, InfiniteCodesReachTheirRows) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const std::int64_t group : {0, 16, 128}) {
    const Coded form{100, 2048, group, FloatFormat::float8_e5m2};
    const Tensor x = Tensor::input("x", DType::f16, {form.columns});
    const ir::Graph graph = graph_of({matmul(coded_weights(form, "w"), x)});
    const Executable program = compile_graph(graph, with_units());
    Data data = finite_data(graph, form, 1700);
    data.inputs.at("w")[34 * 2048 + 5] = std::byte{0x7c};
    const std::uint16_t one = 0x3c00;
    std::memcpy(data.inputs.at("x").data() + 2 * 5, &one, 2);
    if (group != 0) std::memcpy(data.inputs.at("w scale").data() + 2 * (34 * (2048 / group) + 5 / group), &one, 2);
    const GuardedRun got = run_guarded(program, graph, data);
    for (std::int64_t row = 0; row < form.rows; ++row) {
      const double value = ir::decode(DType::f16, got.outputs.at("y").data() + 2 * row);
      EXPECT_FALSE(std::isnan(value)) << text_of(form) << row;
      EXPECT_EQ(value == HUGE_VAL, row == 34) << text_of(form) << row;
    }
  }
}

/// Several matrices of one shape times one vector, as the gate of a network has two: one kernel for all of them, with
/// scales or without, whose offsets differ.
TEST(PackedRows, OfSeveralMatricesAreOneKernel) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const auto weights_of = [](const std::string& name, const Form& form) {
    const Tensor bytes = Tensor::input(name, DType::u8, {form.rows, form.columns / 2});
    const Tensor numbers = unpack_int4(bytes, false).cast(DType::f16) - (form.in_floats ? 8 : 7);
    if (form.group == 0) return numbers;
    const Tensor scale = Tensor::input(name + " scale", DType::f16, {form.rows, form.columns / form.group}) * 0.125;
    return dequantize(numbers, {.scale = scale, .axis = 1, .group = form.group});
  };
  // Of long rows sums are far beyond what a bound of f16 says anything about.
  const auto small = [](const Tensor& sums) { return sums * 0.0078125; };
  std::uint64_t seed = 700;
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{256, 2048}, {100, 2304}, {1500, 4096}}) {
    const Form plain{rows, columns, 0, false, "gated"}, scaled{rows, columns, 128, false, "gated", true};
    for (const auto& [first, second] :
         {std::pair{scaled, scaled}, std::pair{scaled, plain}, std::pair{plain, scaled}}) {
      const Tensor x = vector(first);
      const Tensor gate = small(matmul(weights_of("gate", first), x)), up = small(matmul(weights_of("up", second), x));
      for (const ir::Graph& graph :
           {graph_of({silu(gate) * up}),
            graph_of({relu(gate) + up, small(matmul(weights_of("third", second), x)) + gate})}) {
        const Executable program = compile_graph(graph, with_units());
        EXPECT_TRUE(is_packed(program)) << text_of(first);
        EXPECT_TRUE(are_kernels_at_most(specialization_of(program)->steps.size(), 2)) << text_of(first);
        compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), text_of(first));
      }
    }
  }
}

/// A norm of the vector is part of the kernel, with its mean or without: each workgroup has it first.
TEST(PackedRows, TheirVectorIsNormedFirst) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  std::uint64_t seed = 800;
  for (const Form& form : {Form{4096, 4096, 128}, Form{100, 2304, 128}, Form{1500, 14336, 128}, Form{256, 2048}}) {
    for (const bool centred : {false, true}) {
      const Tensor x = Tensor::input("x", DType::f16, {form.columns}).cast(DType::f32);
      const Tensor scale = Tensor::input("g", DType::f16, {form.columns});
      const Tensor normed = ((centred ? layer_norm(x + 4) : rms_norm(x)) * scale.cast(DType::f32)).cast(DType::f16);
      const Tensor product = matmul(weights(form), normed) * 0.0078125;
      const Tensor residual = Tensor::input("residual", DType::f16, {form.rows});
      const ir::Graph graph = graph_of({product + residual});
      const Executable program = compile_graph(graph, with_units());
      EXPECT_TRUE(is_packed(program)) << text_of(form);
      EXPECT_TRUE(are_kernels_at_most(specialization_of(program)->steps.size(), form.rows == 4096 ? 1 : 2));
      compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), text_of(form));
    }
  }
}

/// Matrices one below the other, as those for queries, keys and values: each tile of rows reads one of them. Where a
/// tile would have rows of two, the result is the same.
TEST(PackedRows, MatricesMayLieOneBelowTheOther) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  std::uint64_t seed = 900;
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{256, 64, 64}, {1024, 256}, {48, 16, 33}, {100, 60}, {32, 32, 32, 32}}) {
    for (const std::int64_t group : {128, 0}) {
      std::vector<Tensor> matrices;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const Tensor own = unpack_int4(Tensor::input(fmt::format("w{}", i), DType::u8, {rows[i], 1024}), true);
        const auto scale = [&] {
          return Tensor::input(fmt::format("scale{}", i), DType::f16, {rows[i], 2048 / group}) * 0.125;
        };
        matrices.push_back(group == 0 ? own.cast(DType::f16)
                                      : dequantize(own, {.scale = scale(), .axis = 1, .group = group}));
      }
      const ir::Graph graph =
          graph_of({matmul(concat(matrices, 0), Tensor::input("x", DType::f16, {2048})) * 0.0078125});
      const Executable program = compile_graph(graph, with_units());
      EXPECT_EQ(is_packed(program), rows[0] % 16 == 0) << rows[0] << " rows";
      compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), fmt::format("{} rows", rows[0]));
    }
  }
}

/// The lower of two matrices may be another sum's, too, above or below: each sum has its words where it looks for them.
/// And what scales are made of may be part of the result.
TEST(PackedRows, SumsMayShareMatrices) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const auto matrix = [](const char* name) {
    return unpack_int4(Tensor::input(name, DType::u8, {64, 1024}), true).cast(DType::f16);
  };
  const Tensor a = matrix("a"), b = matrix("b"), c = matrix("c"), x = Tensor::input("x", DType::f16, {2048});
  const auto sum = [&](const Tensor& upper, const Tensor& lower) {
    return matmul(concat({upper, lower}, 0), x) * 0.0078125;
  };
  const Tensor sa = Tensor::input("sa", DType::f16, {64, 1}), sb = Tensor::input("sb", DType::f16, {64, 1});
  const Tensor scales = concat({sa, sb}, 0);
  std::uint64_t seed = 950;
  for (const ir::Graph& graph :
       {graph_of({sum(a, b), sum(c, b)}), graph_of({silu(sum(a, b)) * sum(b, c)}), graph_of({sum(a, b) + sum(a, c)}),
        graph_of({sum(a * sa, b * sb) + scales.reshape({128})})}) {
    const Executable program = compile_graph(graph, with_units());
    compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), "shared matrices");
  }
}

/// A result that scales are made of does not wait for the sums, and is stored all the same.
TEST(PackedRows, ResultsThatDoNotDependOnTheSumsAreStored) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Form form{100, 2048, 128};
  const Tensor z = relu(Tensor::input("residual", DType::f16, {form.rows}));
  const Tensor scale = Tensor::input("scale", DType::f16, {form.rows, form.columns / form.group}) * z.unsqueeze(-1);
  const Tensor scaled = dequantize(unpack_int4(bytes(form), true), {.scale = scale, .axis = 1, .group = form.group});
  const ir::Graph graph = graph_of({matmul(scaled, vector(form)), z});
  const Executable program = compile_graph(graph, with_units());
  EXPECT_TRUE(is_packed(program));
  compare_with_reference(program, graph, data_for({graph, {}, 560, false}), "a factor of the scales");
}

/// What is not finite reaches the rows that it should, as it does without cooperative matrices: a weight of zero times
/// infinity is no number.
TEST(PackedRows, WhatIsNotFiniteIsNotLost) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Form form{40, 2048, 128};
  const ir::Graph graph = graph_of({matmul(weights(form), vector(form))});
  Build lanes;
  lanes.tuning.register_block_rows = 1;
  const Executable program = compile_graph(graph, with_units()), without = compile_graph(graph, lanes);
  ASSERT_TRUE(is_packed(program));
  ASSERT_FALSE(is_packed(without));
  for (const std::uint16_t bits : std::initializer_list<std::uint16_t>{0x7c00, 0xfc00, 0x7e00, 0x0001, 0x7bff}) {
    Data data = data_for({graph, {}, 530, false});
    std::memcpy(data.inputs.at("x").data() + 2 * 777, &bits, 2);
    const GuardedRun got = run_guarded(program, graph, data), want = run_guarded(without, graph, data);
    int finite = 0;
    for (std::int64_t row = 0; row < form.rows; ++row) {
      const double value = ir::decode(DType::f16, got.outputs.at("y").data() + 2 * row),
                   expected = ir::decode(DType::f16, want.outputs.at("y").data() + 2 * row);
      finite += std::isfinite(expected);
      const bool same = std::isfinite(expected) ? std::abs(value - expected) <= 0.01 * std::max(1.0, std::abs(expected))
                        : std::isnan(expected)  ? std::isnan(value)
                                                : value == expected;
      EXPECT_TRUE(same) << fmt::format("0x{:04x} among the vector, row {}: {} instead of {}", bits, row, value,
                                       expected);
    }
    const bool number = (bits & 0x7c00) != 0x7c00;
    EXPECT_EQ(finite > 0, number) << fmt::format("0x{:04x}", bits);
  }
}

/// What looks alike and is something else stays with the lanes.
TEST(PackedRows, OtherNumbersAreNoWeightsOfFourBits) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Form form{64, 2048};
  const auto number = [](DType dtype, double value) { return Tensor::scalar(dtype, value); };
  const auto parts = [&](const Tensor& shifts, int mask) {
    return bit_and(shift_right(bytes(form).unsqueeze(-1), shifts), number(DType::u8, mask))
        .reshape({form.rows, form.columns});
  };
  const Tensor shifts = Tensor::iota(DType::u8, {2}, 0) * 4;
  const Tensor numbers = parts(shifts, 15);
  const std::pair<const char*, Tensor> forms[] = {
      {"upper four bits first", parts(number(DType::u8, 4) - shifts, 15).cast(DType::f16)},
      {"three bits", parts(shifts, 7).cast(DType::f16)},
      {"differences that wrap", (numbers - number(DType::u8, 8)).cast(DType::f16)},
      {"a scale of every column", numbers.cast(DType::f16) * Tensor::input("scale", DType::f16, {form.columns})},
      {"a vector of f32", numbers.cast(DType::f32)},
      {"a zero point of every group",
       (numbers.reshape({form.rows, 16, 128}).cast(DType::i8) - Tensor::input("zero", DType::i8, {form.rows, 16, 1}))
           .reshape({form.rows, form.columns})
           .cast(DType::f16)},
  };
  for (const auto& [name, tensor] : forms) {
    const ir::Graph graph = graph_of({matmul(tensor, Tensor::input("x", tensor.dtype(), {form.columns}))});
    const Executable program = compile_graph(graph, with_units());
    EXPECT_FALSE(is_packed(program)) << name;
    compare_with_reference(program, graph, data_for({graph, {}, 541, false}), name);
  }
}

}  // namespace
}  // namespace vkfuse::test
