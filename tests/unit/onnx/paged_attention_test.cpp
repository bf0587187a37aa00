// PagedAttention of com.microsoft against loops, as the importer's graph, and as kernels on the device under test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

constexpr std::size_t kHeads = 4, kKeyHeads = 2, kSize = 16, kPage = 4, kPagesOfOne = 3;
constexpr std::size_t kOwn = kHeads * kSize, kShared = kKeyHeads * kSize;

struct PagedCase {
  std::vector<std::size_t> past = {5, 2, 7}, added = {3, 0, 2};
  bool is_packed = false, rotates = false, interleaved = false, has_norms = false, has_sink = false;
  bool has_slots = false, are_counts_known = false;
  std::int64_t window = -1;
  float softcap = 0, scale = 0;
  OneNode::Type type = pb::TensorProto::FLOAT;

  [[nodiscard]] std::size_t batch() const { return past.size(); }
  [[nodiscard]] std::size_t tokens() const { return std::accumulate(added.begin(), added.end(), std::size_t{0}); }
  [[nodiscard]] std::size_t pages() const { return batch() * kPagesOfOne + 2; }
};

/// Multiples of 1/32, which each float holds.
List fractions(std::size_t count, std::size_t start) {
  List values;
  for (std::size_t i = start; i < start + count; ++i)
    values.push_back(std::round(std::sin(static_cast<double>(i + 1) * 1.7) * 32) / 32);
  return values;
}

struct PagedData {
  List q, k, v, keys, values;  ///< [tokens, heads * size], and pools
  List ends = {0}, past, table, cosines, sines, sink, query_norm, key_norm, slots;

  explicit PagedData(const PagedCase& in)
      : q(fractions(in.tokens() * kOwn, 0)),
        k(fractions(in.tokens() * kShared, 1000)),
        v(fractions(in.tokens() * kShared, 2000)),
        keys(fractions(in.pages() * kPage * kShared, 3000)),
        values(fractions(in.pages() * kPage * kShared, 4000)),
        past(in.past.begin(), in.past.end()),
        cosines(fractions(kPage * kPagesOfOne * kSize / 2, 50)),
        sines(fractions(kPage * kPagesOfOne * kSize / 2, 90)),
        sink(fractions(kHeads, 30)),
        query_norm(fractions(kSize, 10)),
        key_norm(fractions(kSize, 20)) {
    for (const std::size_t count : in.added) ends.push_back(ends.back() + static_cast<double>(count));
    // Pages in turns, as sequences that grow together get them, from the end of the pool on.
    for (std::size_t b = 0; b < in.batch(); ++b) {
      for (std::size_t i = 0; i < kPagesOfOne; ++i)
        table.push_back(static_cast<double>(in.pages() - 1 - (i * in.batch() + b)));
    }
    for (std::size_t b = 0; b < in.batch(); ++b) {
      for (std::size_t i = 0; i < in.added[b]; ++i) slots.push_back(static_cast<double>(row_of(b, in.past[b] + i)));
    }
    if (in.has_slots && !slots.empty()) slots[0] = -1;  // this token's key is not kept
  }

  /// Of the pool.
  [[nodiscard]] std::size_t row_of(std::size_t sequence, std::size_t position) const {
    const double page = table[sequence * kPagesOfOne + position / kPage];
    return static_cast<std::size_t>(page) * kPage + position % kPage;
  }
};

/// One head of a query or a key, as it is multiplied.
List turned(const PagedCase& in, const PagedData& data, List x, const List& norm, std::size_t position) {
  if (in.has_norms) {
    const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    for (std::size_t i = 0; i < kSize; ++i) x[i] *= norm[i] / std::sqrt(squares / kSize + 1e-6);
  }
  if (!in.rotates) return x;
  List result(kSize);
  for (std::size_t i = 0; i < kSize / 2; ++i) {
    const std::size_t a = in.interleaved ? 2 * i : i, b = in.interleaved ? 2 * i + 1 : i + kSize / 2;
    const double c = data.cosines[position * kSize / 2 + i], s = data.sines[position * kSize / 2 + i];
    result[a] = x[a] * c - x[b] * s;
    result[b] = x[b] * c + x[a] * s;
  }
  return result;
}

List head_of(const List& all, std::size_t row, std::size_t heads, std::size_t head) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>((row * heads + head) * kSize);
  return {begin, begin + kSize};
}

struct PagedResults {
  List y, keys, values;
};

void write_keys(const PagedCase& in, const PagedData& data, PagedResults& results) {
  std::size_t token = 0;
  for (std::size_t b = 0; b < in.batch(); ++b) {
    for (std::size_t i = 0; i < in.added[b]; ++i, ++token) {
      const double slot = in.has_slots ? data.slots[token] : static_cast<double>(data.row_of(b, in.past[b] + i));
      for (std::size_t h = 0; h < kKeyHeads && slot >= 0; ++h) {
        const auto at = static_cast<std::ptrdiff_t>((static_cast<std::size_t>(slot) * kKeyHeads + h) * kSize);
        const List key = turned(in, data, head_of(data.k, token, kKeyHeads, h), data.key_norm, in.past[b] + i);
        std::ranges::copy(key, results.keys.begin() + at);
        std::ranges::copy(head_of(data.v, token, kKeyHeads, h), results.values.begin() + at);
      }
    }
  }
}

List attended(const PagedCase& in, const PagedData& data, const PagedResults& held, const List& q, std::size_t b,
              std::size_t position, std::size_t head) {
  const std::size_t shared = head / (kHeads / kKeyHeads);
  const std::size_t first = in.window > 0 && position + 1 > static_cast<std::size_t>(in.window)
                                ? position + 1 - static_cast<std::size_t>(in.window)
                                : 0;
  double sum = in.has_sink ? std::exp(data.sink[head]) : 0;
  List y(kSize, 0.0);
  for (std::size_t p = first; p <= position; ++p) {
    const List key = head_of(held.keys, data.row_of(b, p), kKeyHeads, shared);
    double score = std::inner_product(q.begin(), q.end(), key.begin(), 0.0);
    score *= in.scale != 0 ? double{in.scale} : 1 / std::sqrt(static_cast<double>(kSize));
    if (in.softcap > 0) score = double{in.softcap} * std::tanh(score / double{in.softcap});
    sum += std::exp(score);
    const List value = head_of(held.values, data.row_of(b, p), kKeyHeads, shared);
    for (std::size_t i = 0; i < kSize; ++i) y[i] += std::exp(score) * value[i];
  }
  for (double& one : y) one /= sum;
  return y;
}

PagedResults paged_results(const PagedCase& in, const PagedData& data) {
  PagedResults results{{}, data.keys, data.values};
  write_keys(in, data, results);
  std::size_t token = 0;
  for (std::size_t b = 0; b < in.batch(); ++b) {
    for (std::size_t i = 0; i < in.added[b]; ++i, ++token) {
      for (std::size_t h = 0; h < kHeads; ++h) {
        const List q = turned(in, data, head_of(data.q, token, kHeads, h), data.query_norm, in.past[b] + i);
        const List y = attended(in, data, results, q, b, in.past[b] + i, h);
        results.y.insert(results.y.end(), y.begin(), y.end());
      }
    }
  }
  return results;
}

Sizes paged_shape(std::initializer_list<std::size_t> sizes) { return {sizes.begin(), sizes.end()}; }

void add_tokens(OneNode& node, const PagedCase& in, const PagedData& data) {
  if (!in.is_packed) {
    node.input(paged_shape({in.tokens(), kOwn}), data.q, in.type);
    node.input(paged_shape({in.tokens(), kShared}), data.k, in.type);
    node.input(paged_shape({in.tokens(), kShared}), data.v, in.type);
    return;
  }
  List all;
  for (std::size_t t = 0; t < in.tokens(); ++t) {
    for (const auto& [part, width] :
         {std::pair{&data.q, kOwn}, std::pair{&data.k, kShared}, std::pair{&data.v, kShared}})
      all.insert(all.end(), part->begin() + static_cast<std::ptrdiff_t>(t * width),
                 part->begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
  }
  node.input(paged_shape({in.tokens(), kOwn + 2 * kShared}), all, in.type).absent().absent();
}

OneNode paged_node(const PagedCase& in, const PagedData& data) {
  constexpr auto kInts = pb::TensorProto::INT32;
  OneNode node("PagedAttention");
  node.domain("com.microsoft");
  add_tokens(node, in, data);
  const Sizes pool = paged_shape({in.pages(), kPage, kKeyHeads, kSize});
  node.input(pool, data.keys, in.type).input(pool, data.values, in.type);
  if (in.are_counts_known) {
    node.known(paged_shape({in.batch() + 1}), data.ends, kInts);
  } else {
    node.input(paged_shape({in.batch() + 1}), data.ends, kInts);
  }
  node.input(paged_shape({in.batch()}), data.past, kInts)
      .input(paged_shape({in.batch(), kPagesOfOne}), data.table, kInts);
  const auto optional = [&](bool is_given, const Sizes& sizes, const List& values, OneNode::Type type) {
    if (is_given) {
      node.input(sizes, values, type);
    } else {
      node.absent();
    }
  };
  const Sizes angles = paged_shape({kPage * kPagesOfOne, kSize / 2});
  optional(in.rotates, angles, data.cosines, in.type);
  optional(in.rotates, angles, data.sines, in.type);
  optional(in.has_slots, paged_shape({in.tokens()}), data.slots, kInts);
  optional(in.has_sink, paged_shape({kHeads}), data.sink, in.type);
  optional(in.has_norms, paged_shape({kSize}), data.query_norm, in.type);
  optional(in.has_norms, paged_shape({kSize}), data.key_norm, in.type);
  node.integer("num_heads", kHeads).integer("kv_num_heads", kKeyHeads).integer("local_window_size", in.window);
  node.integer("do_rotary", in.rotates).integer("rotary_interleaved", in.interleaved).real("softcap", in.softcap);
  if (in.scale != 0) node.real("scale", in.scale);
  return node;
}

void check_paged(const PagedCase& in, const std::string& what) {
  SCOPED_TRACE(what);
  const PagedData data(in);
  const PagedResults want = paged_results(in, data);
  OneNode node = paged_node(in, data);
  const std::vector<Computed> got = node.outputs(3);
  const double tolerance = in.type == pb::TensorProto::FLOAT ? 1e-5 : 5e-3;
  expect_near(got[0].values, want.y, tolerance);
  expect_near(got[1].values, want.keys, tolerance);
  expect_near(got[2].values, want.values, 0);
  EXPECT_EQ(got[1].sizes, paged_shape({in.pages(), kPage, kKeyHeads, kSize}));
  const OnnxModel model = test::must(node.model(3));
  const ir::Graph graph = test::must(api::to_graph(model.outputs, model.output_names, what));
  test::Data bytes;
  for (const auto& [name, elements] : node.input_bytes()) bytes.inputs[name] = elements;
  test::compare_with_reference(test::compile_graph(graph, {}, true), graph, bytes, what);
}

void check_both_types(PagedCase in, const std::string& what) {
  check_paged(in, what + " in f32");
  in.type = pb::TensorProto::FLOAT16;
  check_paged(in, what + " in f16");
}

TEST(OnnxPagedAttention, TakesTokensOfUnlikeSequences) {
  check_both_types({}, "tokens of three sequences");
  check_both_types({.past = {5, 2, 0}, .added = {1, 1, 1}}, "a token each");
  check_both_types({.past = {3, 0}, .added = {0, 9}, .is_packed = true, .rotates = true}, "a prompt and nothing");
}

TEST(OnnxPagedAttention, TakesSequencesOfOneLength) {
  check_both_types({.past = {4}, .added = {6}, .rotates = true, .window = 3}, "one sequence");
  check_both_types({.past = {4, 0, 1}, .added = {2, 2, 2}, .rotates = true, .are_counts_known = true}, "known counts");
  check_paged({.are_counts_known = true}, "known counts that differ");
  check_paged({.added = {0, 0, 0}}, "no tokens");
}

/// As many new tokens as a run brings.
TEST(OnnxPagedAttention, TakesAnyNumberOfTokens) {
  const PagedCase in{.rotates = true};
  const PagedData data(in);
  OneNode node = paged_node(in, data);
  for (const int operand : {0, 1, 2}) node.symbol(operand, 0, "tokens");
  const OnnxModel model = test::must(node.model(3));
  const ir::Graph graph = test::must(api::to_graph(model.outputs, model.output_names, "any number"));
  test::Data bytes;
  for (const auto& [name, elements] : node.input_bytes()) bytes.inputs[name] = elements;
  bytes.symbols["tokens"] = static_cast<std::int64_t>(in.tokens());
  test::compare_with_reference(test::compile_graph(graph, {}, true), graph, bytes, "any number");
  const auto want = paged_results(in, data);
  const auto got = test::expected(graph, bytes);
  expect_near(got.at("y0").value, want.y);
  expect_near(got.at("y1").value, want.keys);
}

TEST(OnnxPagedAttention, HasItsOptions) {
  for (const bool interleaved : {false, true})
    check_both_types({.rotates = true, .interleaved = interleaved, .has_norms = true}, "norms and angles");
  check_paged({.is_packed = true, .has_norms = true}, "packed operands and norms");
  check_paged({.window = 4, .softcap = 2, .scale = 0.5F}, "a window, a cap and a scale");
  check_paged({.past = {5, 2, 0}, .added = {1, 1, 1}, .has_slots = true},
              "slots of a token each, of which one is none");
  check_both_types({.has_sink = true, .has_slots = true}, "sinks, and slots of which one is none");
}

/// Pools are bound to one buffer each, before and after: a run writes the new rows and no other byte of them.
TEST(OnnxPagedAttention, WritesPoolsInPlace) {
  const PagedCase in{.rotates = true};
  const PagedData data(in);
  OneNode node = paged_node(in, data);
  const OnnxModel model = test::must(node.model(3));
  const ir::Graph graph = test::must(api::to_graph(model.outputs, model.output_names, "in place"));
  test::Data bytes;
  for (const auto& [name, elements] : node.input_bytes()) bytes.inputs[name] = elements;
  const Executable program = test::compile_graph(graph, {}, true);
  const test::GuardedRun run = test::run_guarded(program, graph, bytes, {{"y1", "x3"}, {"y2", "x4"}});
  EXPECT_EQ(run.broken, "");
  EXPECT_EQ(test::check_outputs(graph, bytes, run.outputs).wrong, "");
  const plan::Plan made = test::must(plan::make_plan(test::must(passes::run_pipeline(graph)), test::discrete_gpu()));
  const auto steps = test::must(plan::schedule_all(made, {}));
  EXPECT_LE(steps.size(), 5U);
  // No copy of a pool is among the intermediate values.
  EXPECT_LT(test::must(plan::plan_memory(made, {}, steps)).arena_bytes,
            static_cast<std::int64_t>(4 * data.keys.size()));
}

TEST(OnnxPagedAttention, IsRefusedWithASentence) {
  const PagedCase in;
  const PagedData data(in);
  const auto node = [&] { return paged_node(in, data); };
  expect_unsupported(node().text("kv_cache_layout", "LATENT").error(3),
                     "Attribute 'kv_cache_layout' of operator 'PagedAttention' is 'LATENT'; supported is 'SEPARATE'.");
  expect_unsupported(node().text("k_quant_type", "PER_TENSOR").error(3),
                     "Attribute 'k_quant_type' of operator 'PagedAttention' is 'PER_TENSOR'; supported is 'NONE'.");
  expect_unsupported(node().integer("is_causal", 0).error(3),
                     "Attribute 'is_causal' of operator 'PagedAttention' is 0; supported is 1.");
  expect_unsupported(node().integer("rotary_offset", 8).error(3),
                     "Attribute 'rotary_offset' of operator 'PagedAttention' is 8; supported is 0.");
  OneNode scaled = node();
  expect_invalid(scaled.input({1}, {1}).error(3), "Operand 14 of operator 'PagedAttention' is the scale of a cache");
  OneNode normed = paged_node({.has_norms = true}, data);
  EXPECT_EQ(normed.outputs(3).size(), 3U);
  constexpr auto kInts = pb::TensorProto::INT32;
  const auto small = [&](const Sizes& keys, std::int64_t key_heads) {
    OneNode one("PagedAttention");
    one.domain("com.microsoft").input({2, 8}, List(16, 1)).input({2, 4}, List(8, 1)).input({2, 4}, List(8, 1));
    one.input(keys, List(32, 1)).input({2, 4, 1, 4}, List(32, 1)).input({3}, {0, 1, 2}, kInts);
    one.input({2}, {0, 0}, kInts).input({2, 1}, {0, 1}, kInts);
    one.integer("num_heads", 2).integer("kv_num_heads", key_heads);
    return one;
  };
  EXPECT_EQ(small({2, 4, 1, 4}, 1).outputs(3)[0].values.size(), 16U);
  expect_unsupported(small({2, 0, 1, 4}, 1).error(3),
                     "Operator 'PagedAttention' has 2 pages of 0 rows of 4 elements; 1 to 1073741824 rows");
  expect_invalid(small({2, 4, 1, 4}, 3).error(3),
                 "Operator 'PagedAttention' has num_heads 2 and kv_num_heads 3; the second must divide the first.");
  expect_invalid(small({4, 2, 1, 4}, 1).error(3),
                 "Operand 4 of operator 'PagedAttention' is [2, 4, 1, 4]; it must be [4, 2, 1, 4].");
  expect_invalid(small({2, 4, 1, 4}, 1).integer("do_rotary", 1).error(3),
                 "Attribute 'do_rotary' of operator 'PagedAttention' is 1, but the tables of angles are left out.");
}

}  // namespace
}  // namespace vkfuse::onnx
