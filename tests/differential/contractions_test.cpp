// What is written with contractions, on the device: convolutions, attention and quantised weights with what stands
// around them, how many kernels they are, and their results against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "support/compare.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

Tensor input(const char* name, DType dtype, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); }

struct Form {
  const char* name;
  std::size_t kernels;  ///< 0: what the planner finds best
  Tensor (*build)(DType dtype);
  friend std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.name; }
};

/// A layer as people write it: convolution, bias, activation.
Tensor layer(DType dtype, Shape x, Shape w, const ConvOptions& options) {
  Shape along(x.size() - 1, Dim(1));  // one number per channel
  along[0] = w[0];
  const Tensor sums = conv(input("x", dtype, std::move(x)), input("w", dtype, std::move(w)), options);
  return relu(sums + input("bias", dtype, along));
}

Tensor upsampled(DType dtype, Shape x, Shape w, const ConvOptions& options) {
  return silu(conv_transpose(input("x", dtype, std::move(x)), input("w", dtype, std::move(w)), options));
}

const Form kLayers[] = {
    {"conv_1d", 1,
     [](DType t) {
       return layer(t, {2, 5, 40}, {7, 5, 3}, {.strides = {2}, .low = {1}, .high = {1}});
     }},
    {"conv_2d", 1,
     [](DType t) {
       return layer(t, {2, 6, 17, 19}, {8, 6, 3, 3}, {.low = {1, 1}, .high = {1, 1}});
     }},
    {"conv_2d_with_strides_and_dilations", 1,
     [](DType t) {
       return layer(t, {1, 4, 21, 23}, {5, 4, 3, 2},
                    {.strides = {2, 3}, .low = {2, 0}, .high = {1, 1}, .dilations = {2, 1}});
     }},
    {"conv_2d_of_one_point", 1,
     [](DType t) {
       return layer(t, {2, 33, 9, 9}, {17, 33, 1, 1}, {});
     }},
    {"conv_2d_in_groups", 0,
     [](DType t) {
       return layer(t, {2, 6, 11, 13}, {9, 2, 3, 3}, {.low = {1, 1}, .high = {1, 1}, .groups = 3});
     }},
    {"conv_2d_depthwise", 1,
     [](DType t) {
       return layer(t, {2, 8, 14, 15}, {8, 1, 3, 3}, {.low = {1, 1}, .high = {1, 1}, .groups = 8});
     }},
    {"conv_3d", 1,
     [](DType t) {
       return layer(t, {1, 3, 7, 8, 9}, {4, 3, 2, 3, 3}, {.strides = {1, 2, 1}, .low = {0, 1, 1}, .high = {1, 1, 1}});
     }},
    {"conv_2d_of_channels_last", 1,
     [](DType t) {
       const Tensor x = input("x", t, {2, 9, 11, 8}).permute({0, 3, 1, 2});
       const Tensor w = input("w", t, {3, 3, 8, 6}).permute({3, 2, 0, 1});
       return relu(conv(x, w, {.low = {1, 1}, .high = {1, 1}}).permute({0, 2, 3, 1}) + input("bias", t, {6}));
     }},
    {"conv_2d_of_even_rows", 1,
     [](DType t) {
       return layer(t, {2, 6, 10, 24}, {9, 6, 3, 3}, {.low = {1, 1}, .high = {1, 1}});
     }},
    {"conv_2d_of_two_tiles", 1,
     [](DType t) {
       return layer(t, {1, 17, 12, 16}, {40, 17, 5, 3}, {.low = {2, 1}, .high = {2, 1}});
     }},
    {"pool_between_activations", 1,
     [](DType t) {
       return relu(silu(input("x", t, {2, 6, 12, 16})).unfold(2, 2, 2).unfold(3, 2, 2).mean({4, 5}) * 2.0);
     }},
    {"pool_of_many_overlapping_windows", 1,
     [](DType t) {
       const Tensor padded = relu(input("x", t, {2, 8, 40, 40})).pad({0, 0, 1, 1}, {0, 0, 1, 1}, -1000);
       return padded.unfold(2, 3, 2).unfold(3, 3, 2).max({4, 5}) * 0.5;
     }},
    {"interpolation_between_activations", 1,
     [](DType t) {
       const Tensor large = silu(input("x", t, {2, 6, 9, 8}))
                                .reshape({2, 6, 9, 1, 8, 1})
                                .broadcast_to({2, 6, 9, 2, 8, 3})
                                .reshape({2, 6, 18, 24});
       return relu(large * 0.5 + input("bias", t, {6, 1, 1}));
     }},
    {"conv_transpose_in_phases", 0,
     [](DType t) {
       return upsampled(t, {2, 5, 9, 8}, {5, 4, 4, 4}, {.strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
     }},
    {"conv_transpose_whole", 0,
     [](DType t) {
       return upsampled(t, {2, 5, 9, 8}, {5, 4, 2, 2}, {.strides = {2, 2}});
     }},
    {"conv_transpose_between_zeros", 1,
     [](DType t) {
       return upsampled(t, {2, 5, 9, 8}, {5, 4, 3, 3}, {.strides = {2, 2}, .low = {1, 1}, .high = {1, 0}});
     }},
    {"conv_transpose_in_groups", 0,
     [](DType t) {
       return upsampled(t, {1, 6, 20}, {6, 2, 3}, {.strides = {3}, .groups = 3});
     }},
};

Tensor heads(DType dtype, const AttentionOptions& options, std::int64_t queries = 17, std::int64_t keys = 29,
             std::int64_t key_heads = 2) {
  return attention(input("q", dtype, {2, 4, queries, 16}), input("k", dtype, {2, key_heads, keys, 16}),
                   input("v", dtype, {2, key_heads, keys, 24}), options);
}

const Form kAttention[] = {
    {"attention", 0, [](DType t) { return heads(t, {}); }},
    {"attention_of_one_query", 0, [](DType t) { return heads(t, {}, 1, 300); }},
    {"attention_of_every_head", 0, [](DType t) { return heads(t, {}, 20, 20, 4); }},
    {"attention_causal", 0, [](DType t) { return heads(t, {.causal = true}); }},
    {"attention_causal_after_a_cache", 0, [](DType t) { return heads(t, {.causal = true, .first_query = 12}); }},
    {"attention_through_a_window", 0, [](DType t) { return heads(t, {.causal = true, .window_before = 9}); }},
    {"attention_with_softcap", 0, [](DType t) { return heads(t, {.softcap = 5}); }},
    {"attention_with_slopes", 0, [](DType t) { return heads(t, {.alibi_slopes = input("slopes", t, {4}) * 0.1}); }},
    {"attention_with_bias", 0,
     [](DType t) {
       return heads(t, {.bias = input("bias", t, {1, 4, 17, 29})});
     }},
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The logarithm of the sums has one element for each row of the results. With `hides`, a mask leaves one row no score,
/// and another has infinite ones.
struct SumsForm {
  const char* name;
  std::int64_t queries, keys, width;
  bool hides;
};
const SumsForm kSums[] = {{"of_few", 3, 5, 4, false},
                          {"of_many", 70, 101, 24, false},
                          {"of_heads_as_large_as_keys", 16, 16, 16, false},
                          {"of_one_query", 1, 300, 8, false},
                          {"of_one_element", 33, 20, 1, false},
                          {"of_hidden_rows", 9, 12, 8, true}};

class SumsBeside : public testing::TestWithParam<SumsForm> {
 protected:
  static void check(DType dtype) {
    const SumsForm& form = GetParam();
    AttentionOptions options;
    const Tensor row = Tensor::iota(DType::i32, {form.queries, 1}, 0);
    if (form.hides) {
      options.mask = ne(row, Tensor::scalar(DType::i32, 2));
      options.bias =
          select(eq(row, Tensor::scalar(DType::i32, 4)), Tensor::scalar(dtype, kInfinity), Tensor::scalar(dtype, 0));
    }
    const AttentionParts parts =
        attention_and_log_sum_exp(input("q", dtype, {2, 4, form.queries, 16}), input("k", dtype, {2, 2, form.keys, 16}),
                                  input("v", dtype, {2, 2, form.keys, form.width}), options);
    const ir::Graph graph = graph_of({parts.result, parts.log_sum_exp});
    const Data data = data_for({graph, {}, 67, false});
    const Executable program = compile_graph(graph, {});
    if (form.width > 1) {
      EXPECT_TRUE(are_kernels(program.state()->program->plan().steps.size(), 1)) << ir::print(graph);
    }
    compare_with_reference(program, graph, data, fmt::format("sums {} of {}", form.name, name_of(dtype)));
  }
};

/// Spelled as frameworks do it, the logarithm of the sums is part of the kernel as well.
TEST(Sums, AboutAGuardedMaximumAreOneKernel) {
  const Tensor q = input("q", DType::f32, {2, 3, 17, 16}), k = input("k", DType::f32, {2, 3, 29, 16});
  const Tensor y = attention(q, k, input("v", DType::f32, {2, 3, 29, 8}));
  const Tensor scores = attention_scores(q, k);
  const Tensor most = scores.max({-1}, true);
  const Tensor infinity = Tensor::scalar(DType::f32, kInfinity), zero = Tensor::scalar(DType::f32, 0);
  const Tensor centre = select(eq(abs(most), infinity), zero, most);
  const ir::Graph graph = graph_of({y, log(exp(scores - centre).sum({-1}, true)) + centre});
  const Executable program = compile_graph(graph, {});
  EXPECT_TRUE(are_kernels(program.state()->program->plan().steps.size(), 1)) << ir::print(graph);
  compare_with_reference(program, graph, data_for({graph, {}, 67, false}), "guarded sums");
}

TEST_P(SumsBeside, OfF32) { check(DType::f32); }
TEST_P(SumsBeside, OfF16) { check(DType::f16); }
INSTANTIATE_TEST_SUITE_P(Attention, SumsBeside, testing::ValuesIn(kSums),
                         [](const auto& form) { return std::string(form.param.name); });

Tensor int4_weights(DType dtype) {
  const Tensor packed = input("packed", DType::u8, {48, 32});
  const Quantization how{
      .scale = input("scale", dtype, {48, 4}) * 0.1, .zero_point = std::nullopt, .axis = 1, .group = 16};
  return dequantize(unpack_int4(packed, true), how);
}

const Form kQuantised[] = {
    {"matmul_with_int8_weights", 1,
     [](DType t) {
       const Quantization how{
           .scale = input("scale", t, {48}) * 0.01, .zero_point = input("zero", DType::i8, {48}), .axis = 0};
       return relu(matmul(input("x", t, {9, 64}), dequantize(input("w", DType::i8, {48, 64}), how).transpose()));
     }},
    {"matmul_with_int4_weights_in_groups", 1,
     [](DType t) {
       return matmul(input("x", t, {9, 64}), int4_weights(t).transpose());
     }},
    {"dequantised_for_an_activation", 1,
     [](DType t) {
       const Quantization how{
           .scale = input("scale", t, {48}) * 0.01, .zero_point = input("zero", DType::i8, {48}), .axis = 0};
       return silu(dequantize(input("w", DType::i8, {48, 64}), how)) + input("x", t, {64});
     }},
    {"dequantised_for_a_softmax", 1, [](DType t) { return softmax(int4_weights(t) + input("x", t, {64})); }},
    {"quantised_after_a_product", 1,
     [](DType t) {
       const Tensor sums = matmul(input("x", t, {33, 64}), input("w", t, {64, 40})) + input("bias", t, {40});
       const Tensor steps = Tensor::apply("round", {sums * 0.002});
       return clamp(steps, Tensor::scalar(t, -128), Tensor::scalar(t, 127)).cast(DType::i8);
     }},
    {"matvec_with_int4_weights_in_groups", 1, [](DType t) { return matmul(int4_weights(t), input("x", t, {64})); }},
};

class Written : public testing::TestWithParam<Form> {
 protected:
  static void check(DType dtype) {
    const Tensor made = GetParam().build(dtype);
    ASSERT_TRUE(made.valid()) << made.error().text();
    const ir::Graph graph = graph_of({made});
    const Data data = data_for({graph, {}, 61, false});
    for (const bool fusion : {true, false}) {
      if (!fusion && dtype != DType::f32) continue;
      Build how;
      how.fusion = fusion;
      const Executable program = compile_graph(graph, how);
      if (fusion && GetParam().kernels != 0) {
        EXPECT_TRUE(are_kernels(program.state()->program->plan().steps.size(), GetParam().kernels)) << ir::print(graph);
      }
      compare_with_reference(program, graph, data,
                             fmt::format("{} of {}{}", GetParam().name, name_of(dtype), fusion ? "" : ", unfused"));
    }
  }
};

TEST_P(Written, OfF32) { check(DType::f32); }
TEST_P(Written, OfF16) { check(DType::f16); }

const auto name_of_form = [](const auto& form) { return std::string(form.param.name); };
INSTANTIATE_TEST_SUITE_P(Layers, Written, testing::ValuesIn(kLayers), name_of_form);
INSTANTIATE_TEST_SUITE_P(Attention, Written, testing::ValuesIn(kAttention), name_of_form);
INSTANTIATE_TEST_SUITE_P(Quantised, Written, testing::ValuesIn(kQuantised), name_of_form);

/// A vector times weights of few bits, several rows to a lane: the vector is loaded once for them, and items share a
/// scale.
TEST(Quantised, RowsOfALaneShareTheVector) {
  for (const std::int64_t vectors : {1, 2}) {
    const Quantization four{
        .scale = input("scale", DType::f16, {48, 8}) * 0.1, .zero_point = std::nullopt, .axis = 1, .group = 32};
    const Quantization eight{
        .scale = input("scale", DType::f16, {48}) * 0.01, .zero_point = input("zero", DType::i8, {48}), .axis = 0};
    const std::pair<const char*, Tensor> all[] = {
        {"int4 in groups", dequantize(unpack_int4(input("w", DType::u8, {48, 128}), true), four)},
        {"int8 with zeros", dequantize(input("w", DType::i8, {48, 256}), eight)},
        {"f16", input("w", DType::f16, {48, 256})}};
    for (const auto& [name, weights] : all) {
      for (const int rows : {1, 2, 4}) {
        const ir::Graph graph = graph_of(
            {matmul(input("x", DType::f16, {vectors, 256}), weights.transpose()) + input("bias", DType::f16, {48})});
        Build how;
        how.tuning.matmul = false;
        how.tuning.register_block_rows = rows;
        const Executable program = compile_graph(graph, how);
        const auto steps = specialization_of(program)->steps;
        EXPECT_TRUE(are_kernels(steps.size(), 1)) << name;
        if (steps.size() == 1) {
          EXPECT_EQ(steps[0].schedule.transforms.register_block_rows, rows) << name;
        }
        compare_with_reference(program, graph, data_for({graph, {}, 63, false}),
                               fmt::format("{} times {} vectors, {} rows to a lane", name, vectors, rows));
      }
    }
  }
}

/// Powers of 2 and 3, which GELU is written with, are products in the kernel: negative numbers have them, and so do
/// infinities.
TEST(Pointwise, WholePowersAreProducts) {
  for (const DType type : {DType::f32, DType::f16}) {
    const Tensor x = input("x", type, {5000});
    const auto power = [&](double exponent) { return Tensor::apply("pow", {x, Tensor::scalar(type, exponent)}); };
    const ir::Graph graph = graph_of({power(2), power(3)});
    const Executable program = compile_graph(graph, Build{});
    compare_with_reference(program, graph, data_for({graph, {}, 91, false}),
                           fmt::format("powers of {}", name_of(type)));
    EXPECT_NE(must(program.explain(Stage::glsl)).find("in_x * in_x * in_x"), std::string::npos);
  }
}

/// The step of an LSTM after its products: signs are copied in a kernel that divides positions by 3.
TEST(Contractions, GatesCutOutOfOneTensor) {
  const Tensor sums = input("sums", DType::f32, {2, 12});
  const auto gate = [&](std::int64_t i) { return sums.slice(1, 3 * i, 3 * i + 3); };
  const Tensor cell = sigmoid(gate(2)) * input("cell", DType::f32, {2, 3}) + sigmoid(gate(0)) * tanh(gate(3));
  const ir::Graph graph = graph_of({sigmoid(gate(1)) * tanh(cell)});
  compare_with_reference(compile_graph(graph, Build{}), graph, data_for({graph, {}, 67, false}), "gates of 3");
}

/// Blocks of keys that the mask leaves nothing of are not walked through, and all others are. On CPU drivers small ones
/// are cheaper otherwise, so the kernel is forced; a GPU may find that scores which are all wanted are better stored.
TEST(Attention, WalksThroughWhatTheMaskLeaves) {
  const std::pair<const char*, AttentionOptions> all[] = {
      {"causal", {.causal = true}},
      {"causal after a cache", {.causal = true, .first_query = 90}},
      {"through a window", {.causal = true, .window_before = 35, .first_query = 90}}};
  for (const auto& [name, options] : all) {
    const ir::Graph graph = graph_of({heads(DType::f32, options, 70, 160, 4)});
    const Executable program = compile_graph(graph, {.tuning = {.matmul = true}});
    const auto steps = specialization_of(program)->steps;
    if (steps.size() == 1 || target(false).type == DeviceType::cpu) {
      EXPECT_NE(must(program.explain(Stage::glsl)).find("// Blocks in which the mask leaves some row something."),
                std::string::npos)
          << name;
    }
    compare_with_reference(program, graph, data_for({graph, {}, 62, false}), name);
  }
}

/// Tiles of threads that no CPU driver is planned with: many rows and keys of a thread, and operands in slices of which
/// the last is not full.
TEST(Attention, OfAnyTileOfThreadsIsRight) {
  const auto heads_of = [](DType dtype, std::int64_t d, std::int64_t n, const AttentionOptions& options) {
    return attention(input("q", dtype, {2, 3, 70, d}), input("k", dtype, {2, 3, 101, d}),
                     input("v", dtype, {2, 3, 101, n}), options);
  };
  const std::tuple<const char*, Tensor, schedule::AttentionShape> all[] = {
      {"f16, d of three slices",
       heads_of(DType::f16, 40, 24, {}),
       {.threads_m = 2, .threads_k = 4, .rows = 8, .keys = 8, .slices = true}},
      {"f32, odd",
       heads_of(DType::f32, 35, 13, {.bias = input("bias", DType::f32, {3, 70, 101})}),
       {.threads_m = 8, .threads_k = 4, .rows = 8, .keys = 4, .slices = true}},
      {"bf16, causal",
       heads_of(DType::bf16, 16, 32, {.causal = true, .first_query = 31}),
       {.threads_m = 4, .threads_k = 8, .rows = 4, .keys = 8, .slices = true}},
      {"f16, a window and a softcap",
       heads_of(DType::f16, 8, 20, {.softcap = 5, .causal = true, .window_before = 20, .first_query = 31}),
       {.threads_m = 2, .threads_k = 4, .rows = 8, .keys = 8, .slices = false}}};
  const bool has_registers = target(false).caps.registers.per_thread > 64;  // VKFUSE_TEST_LIMITS=registers
  for (const auto& one : all) {
    const char* const name = std::get<0>(one);
    const schedule::AttentionShape& asked = std::get<2>(one);
    const ir::Graph graph = graph_of({std::get<1>(one)});
    const Executable program =
        compile_graph(graph, {.tuning = {.matmul = true, .attention = asked, .cooperative_matrix = false}});
    EXPECT_TRUE(!has_registers || has_tile_of_threads(program, asked)) << name;
    compare_with_reference(program, graph, data_for({graph, {}, 62, false}), name);
  }
}

/// Graphs that are made of the largest score of each row: the number, whether it is finite, and zeros where a query
/// sees nothing.
std::vector<ir::Graph> graphs_of_the_largest(DType dtype, std::int64_t rows, std::int64_t keys) {
  const Tensor scores = attention_scores(input("q", dtype, {1, 2, rows, 16}), input("k", dtype, {1, 2, keys, 16}), {}) +
                        input("bias", dtype, {rows, keys});
  const Tensor most = scores.max({3}, true), powers = exp(scores - most);
  const Tensor y = attention_output(powers / powers.sum({3}, true), input("v", dtype, {1, 2, keys, 16}));
  const Tensor zero = Tensor::scalar(dtype, 0),
               nothing = Tensor::scalar(dtype, -std::numeric_limits<double>::infinity());
  return {graph_of({y, most}), graph_of({select(eq(most, nothing), zero, y)}),
          graph_of({select(is_finite(most), y, zero)})};
}

/// What is made of a row's largest score itself sees a NaN among the scores, also where all others are infinite and
/// where there is no other.
TEST(Attention, AScoreThatIsNanIsTheLargest) {
  constexpr std::int64_t kRows = 6, kKeys = 37;
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  // Of all positions of a row, of the first, and of the last.
  const double rows[kRows][3] = {{0, 0, 0},     {nan, nan, nan}, {-inf, nan, -inf},
                                 {0, inf, nan}, {0, nan, inf},   {-inf, -inf, -inf}};
  const std::pair<DType, std::optional<schedule::AttentionShape>> all[] = {
      {DType::f32, schedule::AttentionShape{.threads_m = 2, .threads_k = 4, .rows = 4, .keys = 4}},
      {DType::f32, schedule::AttentionShape{.keys = 2, .subgroups = 2, .lanes = 4}},
      {DType::f16, std::nullopt}};  // by cooperative matrices, where the device has them
  for (const auto& [dtype, shape] : all) {
    for (const ir::Graph& graph : graphs_of_the_largest(dtype, kRows, kKeys)) {
      Data data = data_for({graph, {}, 5, false});
      std::vector<std::byte>& bias = data.inputs.at("bias");
      bias.clear();
      for (const auto& row : rows) {
        for (std::int64_t key = 0; key < kKeys; ++key)
          ir::encode(dtype, row[key == 0 ? 1 : key == kKeys - 1 ? 2 : 0], bias);
      }
      const Executable program = compile_graph(graph, {.tuning = {.matmul = true, .attention = shape}});
      const auto specialization = specialization_of(program);
      const bool is_attention = std::any_of(specialization->steps.begin(), specialization->steps.end(), [](auto& step) {
        return step.schedule.template get_if<schedule::AttentionParams>() != nullptr;
      });
      EXPECT_TRUE(is_attention || !shape || has_least_limits()) << ir::print(graph);
      compare_with_reference(program, graph, data, fmt::format("a score that is NaN, {}", name_of(dtype)));
    }
  }
}

/// Scores are products of floats, and what follows them is in integers or in f64.
TEST(Attention, OfWeightsOfOtherTypesIsRight) {
  const auto heads_of = [](const char* name, DType dtype) { return input(name, dtype, {1, 2, 5, 8}); };
  const Tensor scores = attention_scores(heads_of("q", DType::f32), heads_of("k", DType::f32), {});
  const Tensor whole = scores.cast(DType::i8).cast(DType::i32);
  std::vector<std::pair<const char*, Tensor>> all = {
      {"integers", matmul(whole, heads_of("v", DType::i32)).cast(DType::f32)},
      {"gradients of integers", matmul(whole.swap_dims(2, 3), heads_of("v", DType::i32)).cast(DType::f32)}};
  if (target(false).caps.arithmetic.float64) {
    const Tensor weights = softmax(scores.cast(DType::f64));
    all.emplace_back("a softmax in f64", matmul(weights.cast(DType::f32), heads_of("v", DType::f32)));
    all.emplace_back("f64", matmul(weights, heads_of("v", DType::f64)));
    all.emplace_back("values in f64", matmul(softmax(scores).cast(DType::f64), heads_of("v", DType::f64)));
    all.emplace_back("weights in f64", matmul(scores.cast(DType::f64), heads_of("v", DType::f64)));
  }
  for (const auto& [name, y] : all) {
    const ir::Graph graph = graph_of({y});
    for (const bool forced : {false, true}) {
      const Executable program =
          compile_graph(graph, {.tuning = {.matmul = forced ? std::optional(true) : std::nullopt}});
      compare_with_reference(program, graph, data_for({graph, {}, 62, false}), name);
    }
  }
}

/// Subgroups that walk along the keys by themselves, as GPUs have them for few queries: with more rows than a thread
/// has, chunks that lanes have several of, keys that blocks do not divide, and rows of which a mask leaves nothing.
TEST(Attention, BySubgroupsIsRight) {
  const auto of = [](DType dtype, std::int64_t rows, std::int64_t d, std::int64_t n, const AttentionOptions& options) {
    return attention(input("q", dtype, {2, 3, rows, d}), input("k", dtype, {2, 3, 101, d}),
                     input("v", dtype, {2, 3, 101, n}), options);
  };
  const Tensor bytes = Tensor::input("k", DType::i8, {2, 3, 101, 32}),
               scale = input("scale", DType::f32, {2, 3, 101, 1});
  const Tensor hidden = select(Tensor::input("hidden", DType::boolean, {2, 1, 9, 101}),
                               Tensor::scalar(DType::f32, -3e38), Tensor::scalar(DType::f32, 0));
  const Tensor later = select(gt(Tensor::iota(DType::i32, {1, 101}, 1),
                                 Tensor::iota(DType::i32, {9, 1}, 0) * Tensor::scalar_int(DType::i32, 30)),
                              Tensor::scalar(DType::f32, -65504), Tensor::scalar(DType::f32, 0));
  const std::tuple<const char*, Tensor, schedule::AttentionShape> all[] = {
      {"f32, one row", of(DType::f32, 1, 32, 32, {}), {.keys = 4, .subgroups = 2, .lanes = 8}},
      {"f16, unlike sizes", of(DType::f16, 4, 96, 32, {}), {.keys = 2, .subgroups = 3, .lanes = 4}},
      {"bf16, causal, more rows than a thread has",
       of(DType::bf16, 70, 16, 32, {.causal = true, .first_query = 31}),
       {.keys = 2, .subgroups = 4, .lanes = 2}},
      {"f32, a window, a softcap and a bias",
       of(DType::f32, 7, 8, 4,
          {.softcap = 5,
           .bias = input("bias", DType::f32, {3, 7, 101}),
           .causal = true,
           .window_before = 20,
           .first_query = 90}),
       {.keys = 1, .subgroups = 1, .lanes = 1}},
      {"keys of bytes",
       attention(input("q", DType::f32, {2, 3, 2, 32}), bytes.cast(DType::f32) * (scale * 0.01),
                 input("v", DType::f32, {2, 3, 101, 32}), {}),
       {.keys = 4, .subgroups = 2, .lanes = 4}},
      {"a mask of data that may hide all",
       of(DType::f32, 9, 16, 16, {.bias = hidden}),
       {.keys = 2, .subgroups = 2, .lanes = 4}},
      {"a finite mask of positions",
       of(DType::f32, 9, 16, 16, {.bias = later}),
       {.keys = 2, .subgroups = 2, .lanes = 4}}};
  const bool may_be = schedule::may_shuffle(target(false)) && target(false).caps.registers.per_thread > 64;
  const bool is_gpu = target(false).type != DeviceType::cpu;  // 9 rows of a lane are too many registers there
  std::size_t as_asked = 0;
  for (const auto& one : all) {
    const char* const name = std::get<0>(one);
    const schedule::AttentionShape& asked = std::get<2>(one);
    const ir::Graph graph = graph_of({std::get<1>(one)});
    const Executable program =
        compile_graph(graph, {.tuning = {.matmul = true, .attention = asked, .cooperative_matrix = false}});
    const auto steps = specialization_of(program)->steps;
    const bool is_asked = std::any_of(steps.begin(), steps.end(), [&](const plan::ScheduledKernel& step) {
      const auto* params = step.schedule.get_if<schedule::AttentionParams>();
      return params != nullptr && params->by_subgroups() != nullptr && params->by_subgroups()->keys == asked.keys &&
             params->by_subgroups()->subgroups == asked.subgroups;
    });
    EXPECT_TRUE(!may_be || is_asked || is_gpu) << name;
    as_asked += is_asked ? 1 : 0;
    compare_with_reference(program, graph, data_for({graph, {}, 62, false}), name);
  }
  EXPECT_TRUE(!may_be || as_asked >= 4) << as_asked;
}

/// What is behind the last key has no part, also where the last value is infinite; heads of one element are another
/// tile.
TEST(Attention, BySubgroupsEndsWithTheKeys) {
  const auto build = [](std::int64_t d) {
    return graph_of({attention(input("q", DType::f32, {1, 1, 2, d}), input("k", DType::f32, {1, 1, 5, d}),
                               input("v", DType::f32, {1, 1, 5, 4}), {})});
  };
  const Build how{
      .tuning = {.matmul = true, .attention = schedule::AttentionShape{.keys = 2, .subgroups = 2, .lanes = 1}}};
  const ir::Graph graph = build(4);
  const std::vector<float> ones(8, 1), keys(20, 0.5F);
  std::vector<float> values(20, 1);
  values[16] = INFINITY;
  const auto outputs =
      must(compile_graph(graph, how).run({{"q", HostView(ones)}, {"k", HostView(keys)}, {"v", HostView(values)}}));
  const auto& bytes = outputs.at("y").bytes;
  for (std::size_t i = 0; i < 8; ++i) {
    float y = 0;
    std::memcpy(&y, bytes.data() + 4 * i, 4);
    EXPECT_TRUE(i % 4 == 0 ? y == INFINITY : std::abs(y - 1) < 1e-6F) << i << ": " << y;
  }
  const ir::Graph narrow = build(1);
  compare_with_reference(compile_graph(narrow, how), narrow, data_for({narrow, {}, 62, false}), "heads of one element");
}

/// What weights a product in place of the probabilities is part of the walk only where it is linear in the exponential,
/// which is what has been added up is rescaled by.
TEST(Attention, OfOtherWeightsIsRight) {
  const auto input = [](const char* name) { return Tensor::input(name, DType::f32, {2, 64, 32}); };
  const Tensor scores = matmul(input("q"), input("k").permute({0, 2, 1})) * 0.2;
  const Tensor power = exp(scores - scores.max({2}).unsqueeze(2));
  const Tensor total = power.sum({2}).unsqueeze(2);
  const std::pair<const char*, Tensor> weights[] = {{"as it is", power},      {"halved", power * 0.5},
                                                    {"shifted", power + 0.5}, {"squared", power * power},
                                                    {"rooted", sqrt(power)},  {"with the score", power * scores}};
  for (const auto& [name, weight] : weights) {
    const ir::Graph graph = graph_of({matmul(weight, input("v")) / total});
    compare_with_reference(compile_graph(graph, Build{}), graph, data_for({graph, {}, 13, false}), name);
  }
}

}  // namespace
}  // namespace vkfuse::test
