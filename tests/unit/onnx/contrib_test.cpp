// Operators of com.microsoft, each against what its definition says, written out.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const std::string kContrib = "com.microsoft";

List numbers(std::size_t count, double scale = 0.37) {
  List values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(static_cast<float>(std::sin(static_cast<double>(i + 1) * 1.7) * scale * 3)));
  return values;
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double tanh_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

TEST(OnnxContrib, ProductsOfTransposedMatrices) {
  const List a = numbers(6), b = numbers(8);  // a is turned from [2, 3], b from [4, 2]
  const List got = OneNode("FusedMatMul")
                       .domain(kContrib)
                       .input({2, 3}, a)
                       .input({4, 2}, b)
                       .integer("transA", 1)
                       .integer("transB", 1)
                       .real("alpha", 0.5F)
                       .value();
  List want;
  for (std::size_t m = 0; m < 3; ++m) {
    for (std::size_t n = 0; n < 4; ++n) want.push_back(0.5 * (a[m] * b[2 * n] + a[3 + m] * b[2 * n + 1]));
  }
  expect_near(got, want);
}

TEST(OnnxContrib, Gelus) {
  const List x = numbers(6), bias = {0.5, -0.25, 1};
  List biased, fast, plain, quick;
  for (std::size_t i = 0; i < x.size(); ++i) {
    biased.push_back(gelu(x[i] + bias[i % 3]));
    fast.push_back(tanh_gelu(x[i] + bias[i % 3]));
    plain.push_back(gelu(x[i]));
    quick.push_back(x[i] / (1 + std::exp(-1.702 * x[i])));
  }
  expect_near(OneNode("BiasGelu").domain(kContrib).input({2, 3}, x).input({3}, bias).value(), biased);
  expect_near(OneNode("FastGelu").domain(kContrib).input({2, 3}, x).input({3}, bias).value(), fast);
  expect_near(OneNode("Gelu").domain(kContrib).input({2, 3}, x).value(), plain);
  expect_near(OneNode("QuickGelu").domain(kContrib).input({2, 3}, x).value(), quick);
}

TEST(OnnxContrib, NormsOfSums) {
  const List x = numbers(8), skip = numbers(8, 0.9), scale = {1, 2, 0.5, -1}, shift = {0, 1, 2, 3},
             bias = {0.5, -0.5, 0.25, 1};
  List normal, rms, sums;
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0, squares = 0;
    List values;
    for (std::size_t i = 0; i < 4; ++i) values.push_back(x[4 * row + i] + skip[4 * row + i] + bias[i]);
    for (const double value : values) sum += value / 4;
    for (const double value : values) squares += (value - sum) * (value - sum) / 4;
    const double mean_square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / 4;
    for (std::size_t i = 0; i < 4; ++i) {
      sums.push_back(values[i]);
      normal.push_back((values[i] - sum) / std::sqrt(squares + 1e-5) * scale[i] + shift[i]);
      rms.push_back(values[i] / std::sqrt(mean_square + 1e-5) * scale[i]);
    }
  }
  const auto all = OneNode("SkipLayerNormalization")
                       .domain(kContrib)
                       .input({2, 4}, x)
                       .input({2, 4}, skip)
                       .input({4}, scale)
                       .input({4}, shift)
                       .input({4}, bias)
                       .real("epsilon", 1e-5F)
                       .outputs(4);
  expect_near(all[0].values, normal);
  expect_near(all[3].values, sums);
  const auto simple = OneNode("SkipSimplifiedLayerNormalization")
                          .domain(kContrib)
                          .input({2, 4}, x)
                          .input({2, 4}, skip)
                          .input({4}, scale)
                          .input({4}, bias)
                          .real("epsilon", 1e-5F)
                          .outputs(4);
  expect_near(simple[0].values, rms);
  expect_near(simple[3].values, sums);
}

/// Elements (i, j) of each pair are turned by the angle of its position.
TEST(OnnxContrib, RotaryEmbeddings) {
  // [batch 1, heads 2, positions 2, size 4], tables of 8 positions and 2 angles.
  const List x = numbers(16);
  List cosine, sine;
  for (int i = 0; i < 16; ++i) {
    cosine.push_back(static_cast<float>(std::cos(0.3 * i)));
    sine.push_back(static_cast<float>(std::sin(0.3 * i)));
  }
  const std::vector<std::size_t> at = {5, 2};
  for (const bool interleaved : {false, true}) {
    List want(16);
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t p = 0; p < 2; ++p) {
        for (std::size_t k = 0; k < 2; ++k) {
          const std::size_t row = (head * 2 + p) * 4;
          const std::size_t i = row + (interleaved ? 2 * k : k), j = row + (interleaved ? 2 * k + 1 : k + 2);
          const double c = cosine[at[p] * 2 + k], s = sine[at[p] * 2 + k];
          want[i] = x[i] * c - x[j] * s;
          want[j] = x[j] * c + x[i] * s;
        }
      }
    }
    expect_near(OneNode("RotaryEmbedding")
                    .domain(kContrib)
                    .input({1, 2, 2, 4}, x)
                    .input({1, 2}, {5, 2}, pb::TensorProto::INT64)
                    .input({8, 2}, cosine)
                    .input({8, 2}, sine)
                    .integer("interleaved", interleaved)
                    .value(),
                want);
    expect_near(OneNode("RotaryEmbedding", 23)
                    .input({1, 2, 2, 4}, x)
                    .input({8, 2}, cosine)
                    .input({8, 2}, sine)
                    .input({1, 2}, {5, 2}, pb::TensorProto::INT64)
                    .integer("interleaved", interleaved)
                    .value(),
                want);
  }
  // A part of each head, and heads side by side in the last axis.
  const List part = OneNode("RotaryEmbedding", 23)
                        .input({1, 1, 4}, {1, 2, 3, 4})
                        .input({8, 1}, {0, 0, 0, 0, 0, 0, 0, 0})
                        .input({8, 1}, {1, 1, 1, 1, 1, 1, 1, 1})
                        .input({1, 1}, {3}, pb::TensorProto::INT64)
                        .integer("num_heads", 1)
                        .integer("rotary_embedding_dim", 2)
                        .value();
  expect_near(part, {-2, 1, 3, 4});
}

/// softmax(q k^T / sqrt(size)) v of one head, over the keys that `allowed` says.
List attend(const List& q, const List& k, const List& v, std::size_t queries, std::size_t keys, std::size_t size,
            const std::function<bool(std::size_t, std::size_t)>& allowed) {
  List result;
  for (std::size_t i = 0; i < queries; ++i) {
    List weights(keys);
    double sum = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      double score = 0;
      for (std::size_t d = 0; d < size; ++d) score += q[i * size + d] * k[j * size + d];
      weights[j] = allowed(i, j) ? std::exp(score / std::sqrt(static_cast<double>(size))) : 0;
      sum += weights[j];
    }
    for (std::size_t d = 0; d < size; ++d) {
      double element = 0;
      for (std::size_t j = 0; j < keys; ++j) element += weights[j] / sum * v[j * size + d];
      result.push_back(element);
    }
  }
  return result;
}

/// Columns [first, first + count) of rows.
List columns(const List& x, std::size_t width, std::size_t first, std::size_t count) {
  List result;
  for (std::size_t at = first; at < x.size(); at += width)
    result.insert(result.end(), x.begin() + static_cast<std::ptrdiff_t>(at),
                  x.begin() + static_cast<std::ptrdiff_t>(at + count));
  return result;
}

TEST(OnnxContrib, AttentionOfSeveralHeads) {
  // Batch 1, 3 positions, 2 heads of 2; a bias on q, k and v; the last key is padding.
  const List q = numbers(12), k = numbers(12, 0.8), v = numbers(12, 0.5),
             bias = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2};
  const List got = OneNode("MultiHeadAttention")
                       .domain(kContrib)
                       .input({1, 3, 4}, q)
                       .input({1, 3, 4}, k)
                       .input({1, 3, 4}, v)
                       .input({12}, bias)
                       .input({1, 3}, {1, 1, 0}, pb::TensorProto::INT32)
                       .integer("num_heads", 2)
                       .value();
  const auto biased = [&](const List& x, std::size_t first) {
    List result = x;
    for (std::size_t i = 0; i < x.size(); ++i) result[i] += bias[first + i % 4];
    return result;
  };
  List want(12);
  for (std::size_t head = 0; head < 2; ++head) {
    const List one =
        attend(columns(biased(q, 0), 4, 2 * head, 2), columns(biased(k, 4), 4, 2 * head, 2),
               columns(biased(v, 8), 4, 2 * head, 2), 3, 3, 2, [](std::size_t, std::size_t j) { return j < 2; });
    for (std::size_t i = 0; i < 3; ++i)
      std::copy_n(one.begin() + static_cast<std::ptrdiff_t>(2 * i), 2,
                  want.begin() + static_cast<std::ptrdiff_t>(4 * i + 2 * head));
  }
  expect_near(got, want);
}

TEST(OnnxContrib, AttentionOfGroupsOfQueries) {
  // 4 heads of 2 share 2 heads of keys; causal.
  const List q = numbers(24), k = numbers(12, 0.8), v = numbers(12, 0.5);
  const auto outputs = OneNode("GroupQueryAttention")
                           .domain(kContrib)
                           .input({1, 3, 8}, q)
                           .input({1, 3, 4}, k)
                           .input({1, 3, 4}, v)
                           .absent()
                           .absent()
                           .input({1}, {2}, pb::TensorProto::INT32)
                           .known({}, {3}, pb::TensorProto::INT32)
                           .integer("num_heads", 4)
                           .integer("kv_num_heads", 2)
                           .outputs(3);
  List want(24);
  for (std::size_t head = 0; head < 4; ++head) {
    const List one =
        attend(columns(q, 8, 2 * head, 2), columns(k, 4, 2 * (head / 2), 2), columns(v, 4, 2 * (head / 2), 2), 3, 3, 2,
               [](std::size_t i, std::size_t j) { return j <= i; });
    for (std::size_t i = 0; i < 3; ++i)
      std::copy_n(one.begin() + static_cast<std::ptrdiff_t>(2 * i), 2,
                  want.begin() + static_cast<std::ptrdiff_t>(8 * i + 2 * head));
  }
  expect_near(outputs[0].values, want);
  EXPECT_EQ(outputs[1].sizes, (Sizes{1, 2, 3, 2}));
  // One more query with what came before as its past: the last row again.
  const auto heads = [](const List& x, std::size_t from, std::size_t to) {
    List result;
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t p = from; p < to; ++p)
        result.insert(result.end(), {x[4 * p + 2 * head], x[4 * p + 2 * head + 1]});
    }
    return result;
  };
  const auto rows = [](const List& x, std::size_t from) {
    return List(x.begin() + static_cast<std::ptrdiff_t>(from), x.end());
  };
  const List next = OneNode("GroupQueryAttention")
                        .domain(kContrib)
                        .input({1, 1, 8}, rows(q, 16))
                        .input({1, 1, 4}, rows(k, 8))
                        .input({1, 1, 4}, rows(v, 8))
                        .input({1, 2, 2, 2}, heads(k, 0, 2))
                        .input({1, 2, 2, 2}, heads(v, 0, 2))
                        .input({1}, {2}, pb::TensorProto::INT32)
                        .known({}, {3}, pb::TensorProto::INT32)
                        .integer("num_heads", 4)
                        .integer("kv_num_heads", 2)
                        .outputs(3)[0]
                        .values;
  expect_near(next, rows(want, 16));
}

/// The past has room for 5 positions, of which 2 count; what lies beyond has no part in the result.
TEST(OnnxContrib, AttentionInCachesOfTheirFullLength) {
  const List q = numbers(8), k = numbers(4, 0.8), v = numbers(4, 0.5);
  const auto past = [](double factor, std::size_t positions) {
    List all;
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t i = 0; i < 2 * positions; ++i)
        all.push_back(i < 4 ? factor * std::sin(static_cast<double>(4 * head + i)) : 1000.0);
    }
    return all;
  };
  const auto run = [&](std::int64_t positions) {
    return OneNode("GroupQueryAttention")
        .domain(kContrib)
        .input({1, 1, 8}, q)
        .input({1, 1, 4}, k)
        .input({1, 1, 4}, v)
        .input({1, 2, positions, 2}, past(1.0, static_cast<std::size_t>(positions)))
        .input({1, 2, positions, 2}, past(0.7, static_cast<std::size_t>(positions)))
        .input({1}, {2}, pb::TensorProto::INT32)
        .known({}, {3}, pb::TensorProto::INT32)
        .integer("num_heads", 4)
        .integer("kv_num_heads", 2)
        .outputs(3);
  };
  const auto joined = run(2), shared = run(5);
  expect_near(shared[0].values, joined[0].values);
  for (const std::size_t present : {1U, 2U}) {
    EXPECT_EQ(shared[present].sizes, (Sizes{1, 2, 5, 2}));
    for (std::size_t head = 0; head < 2; ++head) {
      const auto rows = [&](const List& all, std::size_t positions, std::size_t from, std::size_t to) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(2 * head * positions);
        return List(begin + static_cast<std::ptrdiff_t>(2 * from), begin + static_cast<std::ptrdiff_t>(2 * to));
      };
      expect_near(rows(shared[present].values, 5, 0, 3), rows(joined[present].values, 3, 0, 3));
      expect_near(rows(shared[present].values, 5, 3, 5), List(4, 1000.0));
    }
  }
}

TEST(OnnxContrib, WrongShapesAreSentences) {
  const auto attention = [](const Sizes& q, const Sizes& k, std::int64_t heads) {
    const auto all = [](const Sizes& sizes) {
      return List(
          static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>())),
          1.0);
    };
    return OneNode("MultiHeadAttention")
        .domain(kContrib)
        .input(q, all(q))
        .input(k, all(k))
        .input(k, all(k))
        .integer("num_heads", heads)
        .error();
  };
  expect_invalid(attention({1, 3, 4}, {1, 3, 4}, 3),
                 "Attribute 'num_heads' is 3; it must divide the 4 elements of the last axis.");
  expect_invalid(attention({1, 3, 4}, {1, 3, 4}, 0), "Attribute 'num_heads' is 0");
  expect_invalid(attention({3, 4}, {1, 3, 4}, 2), "has rank 2; it must be 3 or 4.");
  expect_invalid(attention({2, 2, 4, 4}, {3, 2, 4, 4}, 2), "3");  // batches that differ
  expect_invalid(OneNode("RotaryEmbedding", 23).input({1, 1, 4}, {1, 2, 3, 4}).input({}, {1}).input({}, {1}).error(),
                 "A table of angles has rank 0; it must be 2 or 3.");
  expect_invalid(
      OneNode("RotaryEmbedding", 23).input({1, 1, 1, 3}, {1, 2, 3}).input({1, 1}, {1}).input({1, 1}, {1}).error(),
      "A rotary embedding of 3 of 3 elements is not possible.");
  expect_invalid(OneNode("GroupQueryAttention")
                     .domain(kContrib)
                     .input({1, 1, 4}, {1, 2, 3, 4})
                     .absent()
                     .absent()
                     .integer("num_heads", 2)
                     .integer("kv_num_heads", 2)
                     .error(),
                 "4 packed elements do not make 2 heads of queries and 2 each of keys and values.");
}

TEST(OnnxContrib, ProductsWithWeightsOfFewBits) {
  // 2 rows of 6 weights in blocks of 4: the second block is half empty.
  const std::vector<int> weights = {1, 15, 7, 8, 0, 9, 0, 0, 3, 4, 5, 6, 11, 12, 0, 0};
  const List scales = {0.5, 0.25, 2, 1}, zeros = {8, 8, 3, 5}, x = numbers(6);
  List bytes, packed_zeros = {8 + 16 * 8, 3 + 16 * 5};
  for (std::size_t i = 0; i < weights.size(); i += 2) bytes.push_back(weights[i] + 16 * weights[i + 1]);
  List want;
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 6; ++i)
      sum += x[i] * (weights[8 * row + i] - zeros[2 * row + i / 4]) * scales[2 * row + i / 4];
    want.push_back(sum);
  }
  expect_near(OneNode("MatMulNBits")
                  .domain(kContrib)
                  .input({1, 6}, x)
                  .input({2, 2, 2}, bytes, pb::TensorProto::UINT8)
                  .input({4}, scales)
                  .input({2}, packed_zeros, pb::TensorProto::UINT8)
                  .integer("K", 6)
                  .integer("N", 2)
                  .integer("bits", 4)
                  .integer("block_size", 4)
                  .value(),
              want);
  expect_invalid(OneNode("MatMulNBits")
                     .domain(kContrib)
                     .input({1, 6}, x)
                     .input({2, 2, 1}, {1, 1, 1, 1}, pb::TensorProto::UINT8)
                     .input({4}, scales)
                     .integer("K", 6)
                     .integer("N", 2)
                     .integer("block_size", 4)
                     .error(),
                 "The weights are u8[2, 2, 1]; they must be u8[2, 2, 2].");
  expect_unsupported(OneNode("MatMulNBits")
                         .domain(kContrib)
                         .input({1, 6}, x)
                         .input({2, 2, 2}, bytes, pb::TensorProto::UINT8)
                         .input({4}, scales)
                         .integer("K", 6)
                         .integer("N", 2)
                         .integer("bits", 5)
                         .integer("block_size", 4)
                         .error(),
                     "Weights of 5 bits are not supported");
}

}  // namespace
}  // namespace vkfuse::onnx
