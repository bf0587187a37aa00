// Convolutions, attention and quantised weights against loops that follow their definition.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "api/tensor_node.hpp"
#include "reference/reference.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse {
namespace {

using List = std::vector<double>;

/// Inputs by name as f32 (or as bytes of u8 and i8), and what the reference makes of one tensor.
class Evaluated {
 public:
  Tensor input(const std::string& name, const Sizes& sizes, const List& values, DType dtype = DType::f32) {
    for (const double value : values) ir::encode(dtype, value, bytes_[name]);
    return Tensor::input(name, dtype, Shape(sizes.begin(), sizes.end()));
  }
  List of(const Tensor& tensor) const {
    EXPECT_TRUE(tensor.valid()) << tensor.error().text();
    if (!tensor.valid()) return {};
    const auto graph = api::to_graph({&tensor, 1}, {}, "test");
    EXPECT_TRUE(graph.ok()) << graph.error().text();
    reference::InputBindings input_bindings;
    for (const auto& [name, bytes] : bytes_) input_bindings.inputs.emplace(name, bytes);
    const auto column = reference::evaluate(*graph, graph->outputs()[0].value, input_bindings);
    EXPECT_TRUE(column.ok()) << column.error().text();
    if (!column) return {};
    return is_float(tensor.dtype()) ? column->value : List(column->integer.begin(), column->integer.end());
  }

 private:
  std::map<std::string, std::vector<std::byte>> bytes_;
};

/// Numbers that a sum of products holds without rounding, so that results are compared exactly.
List numbers(std::int64_t count, std::int64_t seed) {
  List list;
  for (std::int64_t i = 0; i < count; ++i) list.push_back(static_cast<double>((i * 7919 + seed * 104729) % 17 - 8));
  return list;
}

std::int64_t product(const Sizes& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

/// Calls `visit` with every position of these sizes.
template <typename Visit>
void each_position(const Sizes& sizes, Visit&& visit) {
  Sizes at(sizes.size(), 0);
  for (std::int64_t i = 0; i < product(sizes); ++i) {
    std::int64_t rest = i;
    for (std::size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) at[axis] = rest % sizes[axis];
    visit(at);
  }
}

std::size_t offset(const Sizes& sizes, const Sizes& at) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) offset = offset * sizes[i] + at[i];
  return static_cast<std::size_t>(offset);
}

struct ConvCase {
  Sizes x, w;
  ConvOptions options;
};

std::int64_t or_one(const std::vector<std::int64_t>& list, std::size_t i) { return list.empty() ? 1 : list[i]; }
std::int64_t or_zero(const std::vector<std::int64_t>& list, std::size_t i) { return list.empty() ? 0 : list[i]; }

/// Every pair of an element of the smaller side of the map and one of the larger that a tap joins, for conv and its
/// transpose alike: `larger` is the position in the padded axes' own coordinates.
template <typename Visit>
void each_tap(const Sizes& smaller, const Sizes& larger, const Sizes& kernel, const ConvOptions& options,
              Visit&& visit) {
  each_position(smaller, [&](const Sizes& at) {
    each_position(kernel, [&](const Sizes& tap) {
      Sizes there;
      for (std::size_t i = 0; i < at.size(); ++i) {
        const std::int64_t position =
            at[i] * or_one(options.strides, i) + tap[i] * or_one(options.dilations, i) - or_zero(options.low, i);
        if (position < 0 || position >= larger[i]) return;
        there.push_back(position);
      }
      visit(at, tap, there);
    });
  });
}

Sizes joined(std::initializer_list<std::int64_t> front, const Sizes& back) {
  Sizes sizes(front);
  sizes.insert(sizes.end(), back.begin(), back.end());
  return sizes;
}

Sizes spatial(const Sizes& sizes) { return {sizes.begin() + 2, sizes.end()}; }

const ConvCase kConvs[] = {
    {{2, 3, 7}, {4, 3, 3}, {}},
    {{2, 3, 7}, {4, 3, 3}, {.strides = {2}, .low = {1}, .high = {1}}},
    {{1, 2, 9}, {3, 2, 2}, {.strides = {3}, .low = {2}, .high = {0}, .dilations = {2}}},
    {{1, 2, 6, 5}, {3, 2, 3, 2}, {.low = {1, 0}, .high = {1, 1}}},
    {{2, 4, 6, 5}, {6, 2, 3, 3}, {.strides = {2, 1}, .low = {1, 1}, .high = {1, 1}, .groups = 2}},
    {{1, 4, 5, 5}, {4, 1, 3, 3}, {.low = {1, 1}, .high = {1, 1}, .groups = 4}},
    {{1, 4, 5, 5}, {8, 1, 2, 2}, {.dilations = {2, 3}, .groups = 4}},
    {{1, 2, 4, 4, 3}, {3, 2, 2, 3, 2}, {.strides = {1, 2, 1}, .low = {0, 1, 1}, .high = {1, 1, 0}}},
    {{2, 3, 6}, {4, 3, 3}, {.low = {-1}, .high = {-1}}},
    {{2, 5}, {3, 5}, {}},
};

TEST(Contractions, ConvFollowsItsDefinition) {
  for (const ConvCase& one : kConvs) {
    Evaluated run;
    const List x = numbers(product(one.x), 1), w = numbers(product(one.w), 2);
    const Tensor made = conv(run.input("x", one.x, x), run.input("w", one.w, w), one.options);
    ASSERT_TRUE(made.valid()) << made.error().text();
    Sizes sizes;
    for (const Dim& dim : made.shape()) sizes.push_back(dim.size());
    const std::int64_t in = one.w[1], out = one.w[0] / one.options.groups;
    List want(static_cast<std::size_t>(product(sizes)), 0);
    each_tap(spatial(sizes), spatial(one.x), spatial(one.w), one.options,
             [&](const Sizes& at, const Sizes& tap, const Sizes& there) {
               each_position({one.x[0], one.w[0], in}, [&](const Sizes& i) {
                 const std::int64_t group = i[1] / out;
                 want[offset(sizes, joined({i[0], i[1]}, at))] +=
                     x[offset(one.x, joined({i[0], group * in + i[2]}, there))] *
                     w[offset(one.w, joined({i[1], i[2]}, tap))];
               });
             });
    EXPECT_EQ(run.of(made), want) << "x " << testing::PrintToString(one.x) << " w " << testing::PrintToString(one.w);
  }
}

const ConvCase kTransposed[] = {
    {{2, 3, 5}, {3, 4, 3}, {}},
    {{2, 3, 5}, {3, 4, 4}, {.strides = {2}}},
    {{2, 3, 5}, {3, 4, 4}, {.strides = {2}, .low = {1}, .high = {1}}},
    {{2, 3, 5}, {3, 4, 3}, {.strides = {2}, .low = {1}, .high = {0}}},
    {{1, 2, 4}, {2, 3, 2}, {.strides = {3}}},
    {{1, 2, 4}, {2, 3, 3}, {.strides = {2}, .high = {-2}, .dilations = {2}}},
    {{1, 2, 3, 4}, {2, 3, 4, 2}, {.strides = {2, 2}, .low = {1, 0}, .high = {1, -1}}},
    {{1, 4, 3, 4}, {4, 2, 3, 3}, {.strides = {2, 1}, .low = {1, 1}, .high = {1, 1}, .groups = 2}},
    {{2, 4, 3, 3}, {4, 1, 2, 2}, {.strides = {2, 2}, .groups = 4}},
    {{1, 2, 2, 3, 2}, {2, 3, 2, 3, 4}, {.strides = {2, 3, 2}, .low = {0, 1, 0}}},
    {{1, 2, 4}, {2, 3, 3}, {.dilations = {3}}},
};

TEST(Contractions, ConvTransposeFollowsItsDefinition) {
  for (const ConvCase& one : kTransposed) {
    Evaluated run;
    const List x = numbers(product(one.x), 3), w = numbers(product(one.w), 4);
    const Tensor made = conv_transpose(run.input("x", one.x, x), run.input("w", one.w, w), one.options);
    ASSERT_TRUE(made.valid()) << made.error().text();
    Sizes sizes{one.x[0], one.w[1] * one.options.groups};
    for (std::size_t i = 2; i < one.x.size(); ++i) {
      sizes.push_back((one.x[i] - 1) * or_one(one.options.strides, i - 2) +
                      (one.w[i] - 1) * or_one(one.options.dilations, i - 2) + 1 - or_zero(one.options.low, i - 2) -
                      or_zero(one.options.high, i - 2));
    }
    EXPECT_EQ(made.shape(), Shape(sizes.begin(), sizes.end()));
    const std::int64_t out = one.w[1], in = one.x[1] / one.options.groups;
    List want(static_cast<std::size_t>(product(sizes)), 0);
    each_tap(spatial(one.x), spatial(sizes), spatial(one.w), one.options,
             [&](const Sizes& at, const Sizes& tap, const Sizes& there) {
               each_position({one.x[0], one.x[1], out}, [&](const Sizes& i) {
                 want[offset(sizes, joined({i[0], i[1] / in * out + i[2]}, there))] +=
                     x[offset(one.x, joined({i[0], i[1]}, at))] * w[offset(one.w, joined({i[1], i[2]}, tap))];
               });
             });
    EXPECT_EQ(run.of(made), want) << "x " << testing::PrintToString(one.x) << " w " << testing::PrintToString(one.w);
  }
}

/// What no view between a NaN and the result may spread.
TEST(Contractions, ConvTransposeSpreadsNaNToItsOwnTapsOnly) {
  for (const std::int64_t kernel : {3, 4}) {
    Evaluated run;
    const Tensor made =
        conv_transpose(run.input("x", {1, 1, 4}, {1, std::nan(""), 1, 1}),
                       run.input("w", {1, 1, kernel}, List(static_cast<std::size_t>(kernel), 1)), {.strides = {2}});
    const List values = run.of(made);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool reached = i >= 2 && i < 2 + static_cast<std::size_t>(kernel);
      EXPECT_EQ(std::isnan(values[i]), reached) << "element " << i << " with a kernel of " << kernel;
    }
  }
}

// --- attention -------------------------------------------------------------------------------------------------

struct AttentionSizes {
  std::int64_t batch = 2, heads = 4, key_heads = 2, queries = 5, keys = 7, size = 3, value_size = 2;
};

/// softmax(scores) v by loops; `score` changes one score, and gives -infinity for a key that is left out.
template <typename Score>
List attended(const AttentionSizes& n, const List& q, const List& k, const List& v, Score&& score) {
  List result;
  each_position({n.batch, n.heads, n.queries}, [&](const Sizes& at) {
    const std::int64_t head = at[1] / (n.heads / n.key_heads);
    List weights;
    double largest = -INFINITY;
    for (std::int64_t key = 0; key < n.keys; ++key) {
      double sum = 0;
      for (std::int64_t i = 0; i < n.size; ++i) {
        sum += q[offset({n.batch, n.heads, n.queries, n.size}, {at[0], at[1], at[2], i})] *
               k[offset({n.batch, n.key_heads, n.keys, n.size}, {at[0], head, key, i})];
      }
      weights.push_back(score(sum, at[1], at[2], key));
      largest = std::max(largest, weights.back());
    }
    double all = 0;
    for (double& weight : weights) all += weight = std::exp(weight - largest);
    for (std::int64_t i = 0; i < n.value_size; ++i) {
      double sum = 0;
      for (std::int64_t key = 0; key < n.keys; ++key) {
        sum += weights[static_cast<std::size_t>(key)] *
               v[offset({n.batch, n.key_heads, n.keys, n.value_size}, {at[0], head, key, i})];
      }
      result.push_back(sum / all);
    }
  });
  return result;
}

using Score = std::function<double(double score, std::int64_t head, std::int64_t query, std::int64_t key)>;

void expect_attention(const AttentionSizes& n, const std::function<AttentionOptions(Evaluated&)>& options,
                      const Score& score) {
  Evaluated run;
  const Sizes q_sizes{n.batch, n.heads, n.queries, n.size}, k_sizes{n.batch, n.key_heads, n.keys, n.size},
      v_sizes{n.batch, n.key_heads, n.keys, n.value_size};
  List q = numbers(product(q_sizes), 5), k = numbers(product(k_sizes), 6);
  const List v = numbers(product(v_sizes), 7);
  for (double& x : q) x /= 8;
  for (double& x : k) x /= 8;
  const AttentionOptions how = options(run);
  const List got =
      run.of(attention(run.input("q", q_sizes, q), run.input("k", k_sizes, k), run.input("v", v_sizes, v), how));
  const List want = attended(n, q, k, v, score);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << "element " << i;
}

const double kScale = 1 / std::sqrt(3.0);
AttentionOptions plain(Evaluated&) { return {}; }

TEST(Contractions, AttentionOfHeadsAlone) {
  expect_attention({.key_heads = 4}, plain, [](double s, auto, auto, auto) { return s * kScale; });
}
TEST(Contractions, AttentionOfGroupedHeads) {
  expect_attention({}, plain, [](double s, auto, auto, auto) { return s * kScale; });
  expect_attention({.key_heads = 1}, plain, [](double s, auto, auto, auto) { return s * kScale; });
}
TEST(Contractions, AttentionWithScaleAndSoftcap) {
  expect_attention(
      {}, [](Evaluated&) { return AttentionOptions{.scale = 0.5, .softcap = 1.5}; },
      [](double s, auto, auto, auto) { return 1.5 * std::tanh(s * 0.5 / 1.5); });
}
TEST(Contractions, AttentionLooksBackOnly) {
  expect_attention(
      {}, [](Evaluated&) { return AttentionOptions{.causal = true, .first_query = 1}; },
      [](double s, auto, std::int64_t query, std::int64_t key) { return key <= query + 1 ? s * kScale : -INFINITY; });
}
TEST(Contractions, AttentionThroughAWindow) {
  expect_attention(
      {}, [](Evaluated&) { return AttentionOptions{.window_before = 2, .window_after = 1}; },
      [](double s, auto, std::int64_t query, std::int64_t key) {
        return key >= query - 2 && key <= query + 1 ? s * kScale : -INFINITY;
      });
}
TEST(Contractions, AttentionWithSlopes) {
  expect_attention(
      {},
      [](Evaluated& run) {
        return AttentionOptions{.alibi_slopes = run.input("slopes", {4}, {0.5, 0.25, 0.125, 1})};
      },
      [](double s, std::int64_t head, std::int64_t query, std::int64_t key) {
        const double slopes[] = {0.5, 0.25, 0.125, 1};
        return s * kScale + slopes[head] * static_cast<double>(key - query);
      });
}
TEST(Contractions, AttentionWithBiasAndMask) {
  const auto options = [](Evaluated& run) {
    return AttentionOptions{
        .bias = run.input("bias", {5, 7}, numbers(35, 8)),
        .mask = run.input("mask", {2, 1, 1, 7}, {1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1}, DType::boolean)};
  };
  expect_attention({}, options, [](double s, auto, std::int64_t query, std::int64_t key) {
    return key == 2 || key == 4 ? -INFINITY : s * kScale + numbers(35, 8)[static_cast<std::size_t>(query * 7 + key)];
  });
}

TEST(Contractions, AttentionWithSinksIsThatWithOneMoreKeyOfNoValue) {
  Evaluated run;
  const Tensor q = run.input("q", {2, 4, 5, 3}, numbers(120, 5)), k = run.input("k", {2, 2, 7, 3}, numbers(84, 6)),
               v = run.input("v", {2, 2, 7, 2}, numbers(56, 7));
  const Tensor sink = run.input("sink", {4}, {0, 1.5, -2, 9});
  const AttentionOptions plain{.scale = 0.125, .causal = true};
  AttentionOptions with = plain;
  with.sink = sink;
  const Tensor extra = sink.reshape({1, 4, 1, 1}).broadcast_to({2, 4, 5, 1});
  const Tensor weights = softmax(concat({attention_scores(q, k, plain), extra}, 3)).slice(3, 0, 7);
  const List got = run.of(attention(q, k, v, with)), want = run.of(attention_output(weights, v));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6) << "element " << i;
}

// --- integers ----------------------------------------------------------------------------------------------------

TEST(Contractions, DequantisesPerTensorAxisAndGroup) {
  Evaluated run;
  const Tensor x = run.input("x", {2, 5}, {0, 1, 2, 3, 4, 250, 251, 252, 253, 255}, DType::u8);
  EXPECT_EQ(run.of(dequantize(x, {.scale = Tensor::scalar(DType::f32, 0.5)})),
            (List{0, 0.5, 1, 1.5, 2, 125, 125.5, 126, 126.5, 127.5}));
  const Tensor scale = run.input("scale", {2}, {1, 2});
  const Tensor zero = run.input("zero", {2}, {2, 250}, DType::u8);
  EXPECT_EQ(run.of(dequantize(x, {.scale = scale, .zero_point = zero, .axis = 0})),
            (List{-2, -1, 0, 1, 2, 0, 2, 4, 6, 10}));
  const Tensor scales = run.input("scales", {2, 3}, {1, 10, 100, 1, 2, 3});
  EXPECT_EQ(run.of(dequantize(x, {.scale = scales, .axis = -1, .group = 2})),
            (List{0, 1, 20, 30, 400, 250, 251, 504, 506, 765}));
}

TEST(Contractions, UnpacksTheLowHalfFirst) {
  Evaluated run;
  const Tensor bytes = run.input("bytes", {2, 2}, {0x21, 0x8f, 0xf0, 0x7e}, DType::u8);
  EXPECT_EQ(run.of(unpack_int4(bytes, false)), (List{1, 2, 15, 8, 0, 15, 14, 7}));
  EXPECT_EQ(run.of(unpack_int4(bytes, true)), (List{1, 2, -1, -8, 0, -1, -2, 7}));
}

}  // namespace
}  // namespace vkfuse
