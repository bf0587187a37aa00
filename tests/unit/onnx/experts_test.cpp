// Mixtures of experts of com.microsoft against loops, as the importer's graph, and as kernels on the device under test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

constexpr std::size_t kExperts = 4, kWidth = 32, kInner = 48;

/// A node and its data.
struct Mixture {
  std::string activation = "silu";
  int fusion = 0;
  bool has_third = false;
  std::size_t chosen = 2, tokens = 5;
  bool has_bias = true, normalises = true, is_sparse = false, has_router_weights = false, has_batch = false;
  float alpha = 1, beta = 0;
  std::optional<float> limit;
  bool limits_activated = false;
  OneNode::Type type = pb::TensorProto::FLOAT;
  int bits = 0, second_bits = 0;  ///< 0: numbers; the second: of the second weights alone
  std::size_t block = 0;          ///< 0: a row
  bool has_zeros = false;

  [[nodiscard]] bool is_gated() const { return activation == "swiglu" || activation == "geglu"; }
  [[nodiscard]] std::size_t rows() const { return is_gated() && fusion != 0 ? 2 * kInner : kInner; }
};

/// Multiples of 1/32 up to `most`, which each float holds.
List multiples(std::size_t count, std::size_t start, double most = 1) {
  List values;
  for (std::size_t i = start; i < start + count; ++i)
    values.push_back(std::round(std::sin(static_cast<double>(i + 1) * 1.7) * 32 * most) / 32);
  return values;
}

List integers_of(std::size_t count, std::size_t start, int bits) {
  List values;
  for (std::size_t i = start; i < start + count; ++i)
    values.push_back(static_cast<double>((i * i * 7 + i * 13 + 5) % 251 % (std::size_t{1} << bits)));
  return values;
}

/// Rows of integers as bytes, the first in the lowest bits; each row begins with a byte.
List packed(const List& integers, std::size_t row, int bits) {
  List bytes;
  for (std::size_t first = 0; first < integers.size(); first += row) {
    std::vector<unsigned> one((row * static_cast<std::size_t>(bits) + 7) / 8, 0U);
    for (std::size_t i = 0; i < row * static_cast<std::size_t>(bits); ++i) {
      const auto number = static_cast<unsigned>(integers[first + i / static_cast<std::size_t>(bits)]);
      one[i / 8] |= (number >> (i % static_cast<std::size_t>(bits)) & 1U) << (i % 8);
    }
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

/// The maps of all experts, as operands and as numbers [expert, row, column].
struct Maps {
  std::size_t rows = 0, columns = 0;
  List numbers, bias;
  List integers, scales, zeros;
  int bits = 0;
  std::size_t blocks = 1;

  Maps(const Mixture& in, std::size_t rows_of, std::size_t columns_of, std::size_t start, int of_bits)
      : rows(rows_of), columns(columns_of), bits(of_bits) {
    bias = in.has_bias ? multiples(kExperts * rows, start + 300) : List(kExperts * rows, 0.0);
    const std::size_t count = kExperts * rows * columns;
    if (bits == 0) {
      numbers = multiples(count, start, 0.5);
      return;
    }
    const std::size_t block = in.block == 0 ? columns : in.block;
    blocks = columns / block;
    integers = integers_of(count, start, bits);
    for (const double scale : multiples(kExperts * rows * blocks, start + 3, 0.125))
      scales.push_back((std::abs(scale) + 1.0 / 32) * 16 / (1 << bits));
    zeros = in.has_zeros ? integers_of(kExperts * rows * blocks, start + 11, bits)
                         : List(kExperts * rows * blocks, 1 << (bits - 1));
    for (std::size_t i = 0; i < count; ++i) numbers.push_back((integers[i] - zeros[i / block]) * scales[i / block]);
  }

  [[nodiscard]] List of(std::size_t expert, const List& x) const {
    List result;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = (expert * rows + row) * columns;
      double sum = bias[expert * rows + row];
      for (std::size_t i = 0; i < columns; ++i) sum += numbers[first + i] * x[i];
      result.push_back(sum);
    }
    return result;
  }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double function_of(const std::string& name, double x) {
  if (name == "relu") return std::max(x, 0.0);
  if (name == "relu2") return std::max(x, 0.0) * std::max(x, 0.0);
  if (name == "silu") return x * sigmoid(x);
  if (name == "identity") return x;
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

double gated(const Mixture& in, double gate, double up) {
  if (in.activation != "swiglu") return function_of(in.activation, gate) * up;
  const double limit = in.limit.value_or(HUGE_VALF);
  const double linear = std::clamp(up, -limit, limit) + double{in.beta};
  if (in.limits_activated) return std::min(gate * sigmoid(double{in.alpha} * gate), limit) * linear;
  const double limited = std::min(gate, limit);
  return limited * sigmoid(double{in.alpha} * limited) * linear;
}

struct Routes {
  std::vector<std::size_t> experts;
  List shares;
};

/// The share of an expert among those near it, without one that was chosen before.
double sparse_share(const List& logits, std::size_t own, std::optional<std::size_t> left_out) {
  double sum = 0;
  for (std::size_t e = 0; e < logits.size(); ++e) {
    const bool is_far = logits[own] - logits[e] > 0.02 * std::max(std::abs(logits[e]), logits[own]);
    if (e != left_out && !is_far) sum += std::exp(logits[e] - logits[own]);
  }
  return 1 / sum;
}

Routes routes_of(const Mixture& in, const List& logits, const List& weights) {
  std::vector<std::size_t> order(kExperts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  order.resize(in.chosen);
  Routes routes{order, {}};
  if (in.is_sparse) {
    routes.shares = {sparse_share(logits, order[0], {}), sparse_share(logits, order[1], order[0])};
    return routes;
  }
  double all = 0, sum = 0;
  for (const double logit : logits) all += std::exp(logit);
  for (const std::size_t e : order) routes.shares.push_back(weights.empty() ? std::exp(logits[e]) / all : weights[e]);
  for (const double share : routes.shares) sum += share;
  if (in.normalises)
    for (double& share : routes.shares) share /= sum;
  return routes;
}

struct Data {
  List x, logits, router_weights;
  Maps first, second, third;

  explicit Data(const Mixture& in)
      : x(multiples(in.tokens * kWidth, 0)),
        first(in, in.rows(), kWidth, 100, in.bits),
        second(in, kWidth, kInner, 200, in.second_bits != 0 ? in.second_bits : in.bits),
        third(in, kInner, kWidth, 250, in.bits) {
    for (std::size_t t = 0; t < in.tokens; ++t) {
      for (std::size_t e = 0; e < kExperts; ++e) {
        const auto place = static_cast<double>((e * 3 + t) % kExperts);
        logits.push_back(in.is_sparse ? 4 + place * 0.03125 : place * 0.375 - 0.5);
      }
    }
    if (!in.has_router_weights) return;
    for (const double weight : multiples(in.tokens * kExperts, 500))
      router_weights.push_back(std::abs(weight) + 1.0 / 32);
  }
};

/// Of one expert's first map, and of its third where it has one.
List hidden_of(const Mixture& in, const List& first, const List& third) {
  List hidden;
  for (std::size_t i = 0; i < kInner; ++i) {
    if (in.is_gated() && in.fusion == 1) {
      hidden.push_back(gated(in, first[2 * i], first[2 * i + 1]));
    } else if (in.is_gated() && in.fusion == 2) {
      hidden.push_back(gated(in, first[i], first[kInner + i]));
    } else {
      hidden.push_back(in.has_third ? gated(in, first[i], third[i]) : function_of(in.activation, first[i]));
    }
  }
  return hidden;
}

List expected_of(const Mixture& in, const Data& data) {
  List results;
  for (std::size_t t = 0; t < in.tokens; ++t) {
    const auto of_token = [&](const List& all, std::size_t size) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(t * size);
      return all.empty() ? List() : List(begin, begin + static_cast<std::ptrdiff_t>(size));
    };
    const List x = of_token(data.x, kWidth);
    const Routes routes = routes_of(in, of_token(data.logits, kExperts), of_token(data.router_weights, kExperts));
    List sum(kWidth, 0.0);
    for (std::size_t c = 0; c < in.chosen; ++c) {
      const std::size_t e = routes.experts[c];
      const List y = data.second.of(e, hidden_of(in, data.first.of(e, x), data.third.of(e, x)));
      for (std::size_t i = 0; i < kWidth; ++i) sum[i] += routes.shares[c] * y[i];
    }
    results.insert(results.end(), sum.begin(), sum.end());
  }
  return results;
}

Sizes sizes_of(std::initializer_list<std::size_t> sizes) { return {sizes.begin(), sizes.end()}; }

void add_weights(OneNode& node, const Mixture& in, const Maps& maps) {
  if (maps.bits == 0) {
    node.known(sizes_of({kExperts, maps.rows, maps.columns}), maps.numbers, in.type);
  } else {
    const List bytes = packed(maps.integers, maps.columns, maps.bits);
    node.known(sizes_of({kExperts, maps.rows, bytes.size() / kExperts / maps.rows}), bytes, pb::TensorProto::UINT8);
    const Sizes of_scales =
        in.block == 0 ? sizes_of({kExperts, maps.rows}) : sizes_of({kExperts, maps.rows, maps.blocks});
    node.known(of_scales, maps.scales, in.type);
  }
  if (in.has_bias) {
    node.known(sizes_of({kExperts, maps.rows}), maps.bias, in.type);
  } else {
    node.absent();
  }
}

void add_zeros(OneNode& node, const Mixture& in, const Maps& maps) {
  if (!in.has_zeros) {
    node.absent();
  } else if (in.block == 0) {
    const List bytes = packed(maps.zeros, maps.rows, maps.bits);
    node.known(sizes_of({kExperts, bytes.size() / kExperts}), bytes, pb::TensorProto::UINT8);
  } else {
    const List bytes = packed(maps.zeros, maps.blocks, maps.bits);
    node.known(sizes_of({kExperts, maps.rows, bytes.size() / kExperts / maps.rows}), bytes, pb::TensorProto::UINT8);
  }
}

void add_attributes(OneNode& node, const Mixture& in) {
  node.integer("k", static_cast<std::int64_t>(in.chosen)).text("activation_type", in.activation);
  node.integer("normalize_routing_weights", in.normalises).integer("use_sparse_mixer", in.is_sparse);
  node.integer("swiglu_fusion", in.fusion).real("activation_alpha", in.alpha).real("activation_beta", in.beta);
  if (in.limit) node.real("swiglu_limit", *in.limit);
  if (in.limits_activated) node.integer("swiglu_limit_after_activation", 1);
  if (in.bits != 0) node.integer("expert_weight_bits", in.bits);
  if (in.second_bits != 0) node.integer("fc2_expert_weight_bits", in.second_bits);
  if (in.block != 0) node.integer("block_size", static_cast<std::int64_t>(in.block));
}

OneNode node_of(const Mixture& in, const Data& data) {
  OneNode node(in.bits == 0 ? "MoE" : "QMoE");
  node.domain("com.microsoft");
  node.input(in.has_batch ? sizes_of({1, in.tokens, kWidth}) : sizes_of({in.tokens, kWidth}), data.x, in.type);
  node.input(sizes_of({in.tokens, kExperts}), data.logits, in.type);
  add_weights(node, in, data.first);
  add_weights(node, in, data.second);
  if (in.has_third) {
    add_weights(node, in, data.third);
  } else {
    node.absent().absent();
    if (in.bits != 0) node.absent();
  }
  if (in.bits != 0) {
    add_zeros(node, in, data.first);
    add_zeros(node, in, data.second);
    if (in.has_third) {
      add_zeros(node, in, data.third);
    } else {
      node.absent();
    }
    if (in.has_router_weights) node.input(sizes_of({in.tokens, kExperts}), data.router_weights, in.type);
  }
  add_attributes(node, in);
  return node;
}

/// Loops and the graph by the reference.
OneNode check_graph(const Mixture& in, const Data& data) {
  OneNode node = node_of(in, data);
  const List want = expected_of(in, data);
  double most = 0;
  for (const double value : want) most = std::max(most, std::abs(value));
  expect_near(node.value(), want, most * (in.type == pb::TensorProto::FLOAT ? 4e-6 : 4e-3));
  return node;
}

void check_on_host(const Mixture& in, const std::string& what) {
  SCOPED_TRACE(what);
  check_graph(in, Data(in));
}

/// The same, and kernels within the reference's bounds.
void check(const Mixture& in, const std::string& what) {
  SCOPED_TRACE(what);
  OneNode node = check_graph(in, Data(in));
  const OnnxModel model = test::must(node.model());
  const ir::Graph graph = test::must(api::to_graph(model.outputs, model.output_names, what));
  test::Data bytes;
  for (const auto& [name, elements] : node.input_bytes()) bytes.inputs[name] = elements;
  test::compare_with_reference(test::compile_graph(graph, {}, true), graph, bytes, what);
}

/// Both types, few choices and choices that are sorted; as kernels one of each.
void check_all(const Mixture& all, const std::string& what) {
  Mixture in = all;
  for (const OneNode::Type type : {pb::TensorProto::FLOAT, pb::TensorProto::FLOAT16}) {
    for (const std::size_t tokens : {std::size_t{1}, std::size_t{5}}) {
      in.type = type;
      in.tokens = tokens;
      in.has_batch = tokens > 1;
      const bool has_kernels = (type == pb::TensorProto::FLOAT) == (tokens > 1);
      const auto run = has_kernels ? check : check_on_host;
      run(in, what + " of " + std::to_string(tokens) + (type == pb::TensorProto::FLOAT ? " in f32" : " in f16"));
    }
  }
}

TEST(OnnxExperts, HaveActivations) {
  check_all({}, "silu");
  for (const char* name : {"relu", "relu2", "gelu", "silu", "identity"}) {
    check_on_host({.activation = name}, name);
    check_on_host({.activation = name, .has_third = true, .has_bias = false}, std::string("gated ") + name);
  }
}

TEST(OnnxExperts, AreChosenByARouter) {
  for (const std::size_t chosen : {1, 2, 3, 4}) {
    for (const bool normalises : {false, true})
      check_on_host({.chosen = chosen, .normalises = normalises}, std::to_string(chosen) + " chosen");
  }
  check({.chosen = 3, .normalises = false}, "3 chosen");
  check_all({.has_bias = false, .normalises = false, .is_sparse = true}, "sparse mixer");
}

TEST(OnnxExperts, HaveGatesApartInTurnsOrInHalves) {
  for (const int fusion : {0, 1, 2}) {
    const std::string which = std::to_string(fusion);
    Mixture in{.activation = "swiglu", .fusion = fusion, .has_third = fusion == 0};
    check_on_host(in, "swiglu " + which);
    in.alpha = 1.702F, in.beta = 1, in.limit = 1.5F;
    check_all(in, "swiglu with a limit " + which);
    in.limits_activated = true;
    check_on_host(in, "swiglu with a limit after the activation " + which);
    if (fusion != 0) check_on_host({.activation = "geglu", .fusion = fusion}, "geglu " + which);
  }
  check({.activation = "geglu", .fusion = 1}, "geglu");
}

TEST(OnnxExperts, HaveWeightsOfFewBits) {
  for (const int bits : {2, 3, 4, 8}) {
    for (const std::size_t block : {0, 16}) {
      for (const bool has_zeros : {false, true}) {
        Mixture in{.bits = bits, .block = block, .has_zeros = has_zeros};
        const std::string what =
            std::to_string(bits) + " bits by " + std::to_string(block) + (has_zeros ? ", zeros" : "");
        check_on_host(in, what);
        in.activation = "swiglu", in.fusion = has_zeros ? 1 : 2, in.alpha = 1.702F, in.beta = 1, in.limit = 1.5F;
        const bool has_kernels = has_zeros == (block != 0);
        (has_kernels ? check_all : check_on_host)(in, what + ", swiglu");
      }
    }
  }
  check_on_host({.has_third = true, .bits = 4, .block = 16, .has_zeros = true}, "a third of few bits");
  check_on_host({.bits = 4, .second_bits = 8, .block = 16, .has_zeros = true}, "4 and 8 bits");
}

TEST(OnnxExperts, HaveSharesFromAnotherTensor) {
  for (const bool normalises : {false, true})
    check({.normalises = normalises, .has_router_weights = true, .bits = 4, .block = 16}, "router weights");
}

/// What ONNX Runtime 1.32 computes on a CPU.
TEST(OnnxExperts, AreThoseOfOnnxRuntime) {
  Mixture in{.activation = "silu", .tokens = 1};
  const auto value = [&] { return node_of(in, Data(in)).value(); };
  expect_near(value(),
              {-0.0510129, 0.217066, 0.117904, 0.88107, 2.03709, 1.8647,  1.95589, 2.89611, 3.64738, 3.50701, 3.63079,
               4.42282,    4.97669,  4.56403,  4.75052, 5.67539, 5.69667, 5.3316,  5.74239, 6.33308, 5.83145, 5.24226,
               6.10875,    6.13014,  5.13181,  5.13651, 5.88023, 5.228,   4.25205, 4.38646, 4.42177, 3.61725},
              2e-5);
  in.activation = "gelu", in.normalises = false;
  expect_near(value(),
              {-0.00907886, 0.18827, 0.136045, 0.661848, 1.46469, 1.35957, 1.43029, 2.08035, 2.60524, 2.5187,  2.60769,
               3.15611,     3.54042, 3.26696,  3.3943,   4.02691, 4.04362, 3.79736, 4.07477, 4.47564, 4.13198, 3.73174,
               4.31346,     4.32279, 3.64148,  3.63654,  4.13398, 3.67655, 3.00756, 3.08419, 3.09392, 2.53805},
              2e-5);
  in = {.activation = "swiglu", .fusion = 1, .tokens = 1, .alpha = 1.702F, .beta = 1, .limit = 1.5F};
  expect_near(value(), {-6.17154, -6.31408, -7.28083, -7.5734,  -6.98003, -7.40546, -7.9817,  -7.71937,
                        -7.17098, -7.66848, -7.91832, -7.04651, -6.66044, -7.03333, -6.78266, -5.67965,
                        -5.63561, -5.7125,  -4.98396, -3.82922, -3.76954, -3.88642, -2.61202, -1.70672,
                        -1.64943, -1.32086, 0.107925, 0.732075, 0.574525, 1.49339,  2.69633,  2.88543},
              2e-5);
  in.bits = 4, in.block = 16, in.has_zeros = true;
  expect_near(value(), {-2.64606, 4.52504,  -7.22179,  -1.76307, -2.10388, 5.8057,   1.52477,  4.69052,
                        5.72804,  -1.82114, -2.26244,  8.65184,  7.62295,  -5.28098, 2.81916,  -0.794179,
                        -8.82032, 7.44241,  -0.501739, -4.38349, 6.30025,  -8.14382, -3.68422, -11.0172,
                        5.21725,  6.64138,  -0.286768, 2.48547,  -1.17558, -1.79157, 5.57523,  2.40205},
              4e-5);
}

/// No kernel of it unpacks weights for another.
TEST(OnnxExperts, OfFewBitsTakeFewKernelsOnAGpu) {
  constexpr auto kHalf = pb::TensorProto::FLOAT16, kBytes = pb::TensorProto::UINT8;
  constexpr std::int64_t kMany = 32, kElements = 512, kHidden = 256, kBlock = 32;
  const auto kernels_of = [&](std::int64_t tokens) {
    OneNode node("QMoE");
    node.domain("com.microsoft").input({tokens, kElements}, {}, kHalf).input({tokens, kMany}, {}, kHalf);
    node.input({kMany, 2 * kHidden, kElements / 2}, {}, kBytes)
        .input({kMany, 2 * kHidden, kElements / kBlock}, {}, kHalf);
    node.input({kMany, 2 * kHidden}, {}, kHalf);
    node.input({kMany, kElements, kHidden / 2}, {}, kBytes).input({kMany, kElements, kHidden / kBlock}, {}, kHalf);
    node.input({kMany, kElements}, {}, kHalf);
    node.text("activation_type", "swiglu").integer("swiglu_fusion", 1).integer("k", 4).integer("block_size", kBlock);
    node.integer("normalize_routing_weights", 1).real("swiglu_limit", 7);
    const OnnxModel model = test::must(node.model());
    const ir::Graph graph =
        test::must(passes::run_pipeline(test::must(api::to_graph(model.outputs, model.output_names, "experts"))));
    const plan::Plan made = test::must(plan::make_plan(graph, test::discrete_gpu()));
    if (std::getenv("VKFUSE_LIST_CASES") != nullptr) {
      const plan::Plan unfused = test::must(plan::make_plan(graph, test::discrete_gpu(), {false}));
      fmt::print("{}\n", test::must(plan::to_text(made, unfused, {})));
    }
    return test::must(plan::totals(made, {})).launches;
  };
  EXPECT_LE(kernels_of(1), 5);
  EXPECT_LE(kernels_of(256), 10);
}

OneNode small_node(const std::string& op) {
  return std::move(OneNode(op).domain("com.microsoft").input({3, 2}, List(6, 1)).input({3, 4}, List(12, 1)));
}

TEST(OnnxExperts, AreRefusedWithASentence) {
  const auto node = [] {
    OneNode made = small_node("MoE");
    made.input({4, 8, 2}, List(64, 1)).absent().input({4, 2, 8}, List(64, 1));
    return made;
  };
  expect_unsupported(node().text("activation_type", "tanh").error(),
                     "Attribute 'activation_type' of operator 'MoE' is 'tanh'; supported are relu, relu2,");
  expect_invalid(node().integer("k", 5).error(), "Attribute 'k' of operator 'MoE' is 5, but there are 4 experts.");
  expect_invalid(node().text("activation_type", "swiglu").integer("swiglu_fusion", 3).error(),
                 "Attribute 'swiglu_fusion' of operator 'MoE' is 3; it must be 0, 1 or 2.");
  expect_invalid(node().text("activation_type", "swiglu").error(),
                 "swiglu_fusion 0 takes separate weights of gate and up, but operand 6 is left out.");
  expect_invalid(node().absent().input({4, 8, 2}, List(64, 1)).text("activation_type", "geglu").error(),
                 "Activation 'geglu' of operator 'MoE' needs swiglu_fusion 1 or 2, but it is 0.");
  expect_invalid(node().absent().absent().input({4, 8}, List(32, 1)).error(),
                 "Operand 7 of operator 'MoE' is the bias of weights that are left out.");
  expect_invalid(node().text("activation_type", "swiglu").integer("swiglu_fusion", 1).error(),
                 "Operand 2 of operator 'MoE' is [4, 8, 2]; it must be [4, 16, 2].");
  expect_unsupported(node().integer("use_sparse_mixer", 1).error(),
                     "Operator 'MoE' with use_sparse_mixer takes k 2 and no router_weights, but k is 1.");
}

TEST(OnnxExperts, OfFewBitsAreRefusedWithASentence) {
  constexpr auto kBytes = pb::TensorProto::UINT8;
  const auto node = [] {
    OneNode made = small_node("QMoE");
    made.input({4, 8, 1}, List(32, 1), kBytes).input({4, 8}, List(32, 1)).absent();
    made.input({4, 2, 4}, List(32, 1), kBytes).input({4, 2}, List(8, 1)).absent();
    return made;
  };
  EXPECT_EQ(node().value().size(), 6U);
  expect_unsupported(node().text("quant_type", "fp4").error(),
                     "Attribute 'quant_type' of operator 'QMoE' is 'fp4'; supported are integers ('int').");
  expect_unsupported(node().integer("weights_prepacked", 1).error(),
                     "Attribute 'weights_prepacked' of operator 'QMoE' is 1:");
  expect_unsupported(node().integer("expert_weight_bits", 5).error(),
                     "Weights of 5 bits are not supported by operator 'QMoE'; there are 2, 3, 4 and 8.");
  expect_invalid(node().integer("block_size", 16).error(),
                 "Rows of 2 weights of 4 bits are not whole blocks of 16 and whole bytes in operator 'QMoE'.");
  expect_invalid(node().integer("fc1_expert_weight_bits", 8).error(),
                 "Operand 2 of operator 'QMoE' is [4, 8, 1]; it must be [4, 8, 2].");
  OneNode floats = node();
  for (int operand = 8; operand < 15; ++operand) floats.absent();
  expect_unsupported(floats.input({4}, List(4, 1)).error(),
                     "Operand 15 of operator 'QMoE', of weights that are floats, is not supported.");
}

}  // namespace
}  // namespace vkfuse::onnx
