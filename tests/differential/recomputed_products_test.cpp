// Products that are computed where they are multiplied: what attention's gradients are made of, and chains of products
// without a softmax. No kernel stores anything of the size of the scores.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "golden/targets.hpp"
#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/gradients.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kScoreRows = 70, kScoreColumns = 101;

/// Memory that is slow enough for no kernel to store what it can compute again.
constexpr CostModel kSlowMemory{.copy_gb_per_s = 0.02, .launch_us = 5, .gflops = 500, .accesses_per_us = 50e3};

Tensor operand(const char* name, DType dtype, const Shape& shape) { return Tensor::input(name, dtype, shape); }

struct HeadsForm {
  std::int64_t d = 16, n = 16;
  std::int64_t key_heads = 4;
  AttentionOptions options = {};
};

/// The results of attention, and its gradients with respect to queries, keys and values.
std::vector<Tensor> attention_and_gradients(DType dtype, const HeadsForm& form) {
  const std::vector<Tensor> wrt = {operand("q", dtype, {2, 4, kScoreRows, form.d}),
                                   operand("k", dtype, {2, form.key_heads, kScoreColumns, form.d}),
                                   operand("v", dtype, {2, form.key_heads, kScoreColumns, form.n})};
  const Tensor y = attention(wrt[0], wrt[1], wrt[2], form.options);
  const Tensor cotangent = operand("cotangent", dtype, {2, 4, kScoreRows, form.n});
  std::vector<Tensor> all = gradients(std::span(&y, 1), wrt, std::span(&cotangent, 1));
  all.insert(all.begin(), y);
  return all;
}

AttentionOptions with_bias(DType dtype) {
  AttentionOptions options;
  options.bias = operand("bias", dtype, {4, kScoreRows, kScoreColumns});
  return options;
}

AttentionOptions with_mask() {
  AttentionOptions options;
  // Every query sees the key at 20.
  const Tensor data = operand("allowed", DType::boolean, {2, 1, kScoreRows, kScoreColumns});
  options.mask = logical_or(data, eq(Tensor::iota(DType::i32, {kScoreColumns}, 0), Tensor::scalar_int(DType::i32, 20)));
  return options;
}

/// The weight is a product of two products, as of gated networks.
Tensor two_products(DType t) {
  const Tensor x = operand("x", t, {3, kScoreRows, 24}), a = operand("a", t, {3, kScoreColumns, 24}),
               b = operand("b", t, {3, kScoreColumns, 24}), c = operand("c", t, {3, kScoreColumns, 20});
  const DotAxes rows{.contract_a = {2}, .contract_b = {2}, .batch_a = {0}, .batch_b = {0}};
  const Tensor weights = silu(dot_general(x, a, rows)) * dot_general(x, b, rows);
  return dot_general(weights, c, {.contract_a = {2}, .contract_b = {1}, .batch_a = {0}, .batch_b = {0}});
}

/// Linear attention, whose keys fade with their distance.
Tensor decaying(DType t) {
  const Tensor q = operand("q", t, {2, kScoreRows, 12}), k = operand("k", t, {2, kScoreColumns, 12}),
               v = operand("v", t, {2, kScoreColumns, 28});
  const Tensor apart = (Tensor::iota(DType::i32, {kScoreRows, 1}, 0) + Tensor::scalar_int(DType::i32, 31)) -
                       Tensor::iota(DType::i32, {1, kScoreColumns}, 1);
  const Tensor scores = dot_general(q, k, {.contract_a = {2}, .contract_b = {2}, .batch_a = {0}, .batch_b = {0}}) *
                        exp(apart.cast(t) * -0.05);
  const Tensor weights = select(ge(apart, Tensor::scalar_int(DType::i32, 0)), scores, Tensor::scalar(t, 0));
  return dot_general(weights, v, {.contract_a = {2}, .contract_b = {1}, .batch_a = {0}, .batch_b = {0}});
}

/// Sums of weights that share products, and of one weight: as many results as rows.
std::vector<Tensor> sums_of_weights(DType t) {
  const Tensor x = operand("x", t, {3, kScoreRows, 24}), a = operand("a", t, {3, kScoreColumns, 24}),
               b = operand("b", t, {3, kScoreColumns, 24});
  const DotAxes rows{.contract_a = {2}, .contract_b = {2}, .batch_a = {0}, .batch_b = {0}};
  const DotAxes columns{.contract_a = {1}, .contract_b = {1}, .batch_a = {0}, .batch_b = {0}};
  const Tensor product = dot_general(x, a, rows), other = dot_general(x, b, rows);
  const Tensor gate = silu(product.cast(DType::f32));
  return {dot_general(gate.cast(t), x, columns), dot_general((gate * other.cast(DType::f32)).cast(t), x, columns)};
}

struct ProductsCase {
  const char* name;
  std::vector<Tensor> (*outputs)(DType dtype);
  std::size_t most_kernels;
};

const ProductsCase kProductsCases[] = {
    {"plain", [](DType t) { return attention_and_gradients(t, {}); }, 6},
    {"causal", [](DType t) { return attention_and_gradients(t, {.options = {.causal = true, .first_query = 31}}); }, 6},
    {"window",
     [](DType t) {
       return attention_and_gradients(
           t, {.d = 24, .n = 8, .options = {.causal = true, .window_before = 20, .first_query = 31}});
     },
     6},
    {"grouped", [](DType t) { return attention_and_gradients(t, {.key_heads = 2, .options = {.causal = true}}); }, 6},
    {"grouped_window",
     [](DType t) {
       return attention_and_gradients(
           t, {.key_heads = 2, .options = {.causal = true, .window_before = 9, .first_query = 31}});
     },
     6},
    {"one_head_of_keys", [](DType t) { return attention_and_gradients(t, {.d = 8, .n = 24, .key_heads = 1}); }, 6},
    {"softcap", [](DType t) { return attention_and_gradients(t, {.options = {.softcap = 5}}); }, 6},
    {"bias", [](DType t) { return attention_and_gradients(t, {.options = with_bias(t)}); }, 6},
    {"mask", [](DType t) { return attention_and_gradients(t, {.options = with_mask()}); }, 6},
    {"two_products", [](DType t) { return std::vector{two_products(t)}; }, 1},
    {"decaying", [](DType t) { return std::vector{decaying(t)}; }, 1},
    {"sums_of_weights", sums_of_weights, 2},
};

/// Whether a kernel visits blocks in runs, one run for each head that shares keys.
bool walks_in_runs(const Executable& program) {
  for (const plan::ScheduledKernel& step : specialization_of(program)->steps) {
    const auto* params = step.schedule.get_if<schedule::AttentionParams>();
    if (params != nullptr && params->mask.in_runs) return true;
  }
  return false;
}

/// Elements of the largest value that a kernel stores.
std::int64_t largest_stored(const Executable& program) {
  std::int64_t most = 0;
  for (const plan::ScheduledKernel& step : specialization_of(program)->steps) {
    for (const segment::Store& store : step.loops.stores) most = std::max(most, store.buffer_elements);
  }
  return most;
}

/// Whether a kernel may read all that a gradient of attention is computed from: where devices have four buffers
/// (VKFUSE_TEST_LIMITS=least), scores are stored.
bool has_buffers() { return target(false).caps.memory.storage_buffers >= 9; }

/// In one dtype each: kernels take seconds to compile.
DType dtype_of_case(std::size_t which) {
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
  return kTypes[which % std::size(kTypes)];
}

class RecomputedProducts : public testing::TestWithParam<std::size_t> {
 protected:
  const ProductsCase& case_ = kProductsCases[GetParam()];
  const ir::Graph graph_ = graph_of(case_.outputs(dtype_of_case(GetParam())));
};

TEST_P(RecomputedProducts, AreNotStored) {
  const Executable program = compile_graph(graph_, {.tuning = {.matmul = true}, .costs = kSlowMemory});
  EXPECT_TRUE(are_kernels_at_most(program.kernel_count(), case_.most_kernels));
  EXPECT_TRUE(!has_buffers() || largest_stored(program) < 4 * kScoreRows * kScoreColumns) << largest_stored(program);
  const bool has_runs = std::string_view(case_.name).starts_with("grouped") && has_buffers();
  EXPECT_TRUE(!has_runs || walks_in_runs(program));
  compare_with_reference(program, graph_, data_for({graph_, {}, 71, false}), case_.name);
}

std::string name_of_products(const testing::TestParamInfo<std::size_t>& info) {
  return kProductsCases[info.param].name;
}

INSTANTIATE_TEST_SUITE_P(All, RecomputedProducts, testing::Range(std::size_t{0}, std::size(kProductsCases)),
                         name_of_products);

/// The largest score is then so far from 0 that the logarithm of a total is nothing beside it.
TEST(AttentionGradients, OfRowsThatANumberHidesAltogetherWeighAllKeysAlike) {
  AttentionOptions options;
  options.bias = Tensor::scalar(DType::f32, std::numeric_limits<float>::lowest()).reshape({1, 1, 1, 1});
  const std::vector<Tensor> wrt = {operand("q", DType::f32, {1, 1, kScoreRows, 8}),
                                   operand("k", DType::f32, {1, 1, kScoreColumns, 8}),
                                   operand("v", DType::f32, {1, 1, kScoreColumns, 8})};
  const Tensor y = attention(wrt[0], wrt[1], wrt[2], options);
  const ir::Graph graph = graph_of({gradients({y}, {wrt[2]})[0], y});
  const Executable program = compile_graph(graph, {.costs = kSlowMemory});
  std::vector<float> q(kScoreRows * 8), k(kScoreColumns * 8), v(kScoreColumns * 8);
  for (std::vector<float>* all : {&q, &k, &v}) {
    for (std::size_t i = 0; i < all->size(); ++i) (*all)[i] = static_cast<float>(i % 7) - 3;
  }
  const Outputs outputs = must(program.run({{"q", HostView(q)}, {"k", HostView(k)}, {"v", HostView(v)}}));
  const float expected = static_cast<float>(kScoreRows) / kScoreColumns;  // each row leaves each key its share
  for (const float gradient : outputs.at("y").as<float>()) EXPECT_NEAR(gradient, expected, 1e-5);
}

/// A softmax over two axes, of which a mask hides some positions of the inner one.
ir::Graph softmax_of_runs(DType t) {
  const Tensor q = operand("q", t, {2, kScoreRows, 64}), k = operand("k", t, {2, 2, 50, 64}),
               v = operand("v", t, {2, 2, 50, 16});
  const Tensor scores = dot_general(q, k, {.contract_a = {2}, .contract_b = {3}, .batch_a = {0}, .batch_b = {0}});
  const Tensor hidden = gt(Tensor::iota(DType::i32, {1, 1, 50}, 2), Tensor::iota(DType::i32, {kScoreRows, 1, 1}, 0));
  const Tensor masked = select(hidden, Tensor::scalar(t, -std::numeric_limits<double>::infinity()), scores * 0.125);
  const Tensor weights = softmax(masked.reshape({2, kScoreRows, 100}));
  return graph_of({dot_general(weights, v.reshape({2, 100, 16}),
                               {.contract_a = {2}, .contract_b = {1}, .batch_a = {0}, .batch_b = {0}})});
}

TEST(SoftmaxOfRuns, VisitsThemOneByOne) {
  const ir::Graph graph = softmax_of_runs(DType::f32);
  const Executable program = compile_graph(graph, {.tuning = {.matmul = true}, .costs = kSlowMemory});
  EXPECT_TRUE(!has_buffers() || walks_in_runs(program));
  compare_with_reference(program, graph, data_for({graph, {}, 74, false}), "softmax of runs");
}

/// The first slice of the next block, which may be of the next run, is in flight while the last slice of this one is
/// multiplied.
TEST(SoftmaxOfRuns, IsRightInSlices) {
  const ir::Graph graph = softmax_of_runs(DType::f16);
  const schedule::AttentionShape asked{.threads_m = 8, .threads_k = 8, .rows = 4, .keys = 4, .slices = true};
  const Executable program =
      compile_graph(graph, {.tuning = {.matmul = true, .attention = asked, .cooperative_matrix = false},
                            .costs = kSlowMemory,
                            .planned_as = kH200});
  const bool has_registers = target(false).caps.registers.per_thread > 64;  // VKFUSE_TEST_LIMITS=registers
  const bool may_be = has_registers && has_buffers();
  EXPECT_TRUE(!may_be || (has_tile_of_threads(program, asked) && walks_in_runs(program)));
  compare_with_reference(program, graph, data_for({graph, {}, 76, false}), "softmax of runs, in slices");
}

/// Tiles of threads that no CPU driver is planned with: of two products and of one, in slices and whole.
TEST(ChainsOfProducts, OfAnyTileOfThreadsAreRight) {
  const std::tuple<const char*, Tensor, schedule::AttentionShape> all[] = {
      {"f16, in slices",
       two_products(DType::f16),
       {.threads_m = 2, .threads_k = 4, .rows = 8, .keys = 8, .slices = true}},
      {"f32, few keys",
       two_products(DType::f32),
       {.threads_m = 8, .threads_k = 4, .rows = 8, .keys = 4, .slices = true}},
      {"bf16, one product",
       decaying(DType::bf16),
       {.threads_m = 4, .threads_k = 8, .rows = 4, .keys = 8, .slices = true}},
      {"f16, whole",
       two_products(DType::f16),
       {.threads_m = 2, .threads_k = 4, .rows = 8, .keys = 8, .slices = false}}};
  const bool has_registers = target(false).caps.registers.per_thread > 64;  // VKFUSE_TEST_LIMITS=registers
  for (const auto& one : all) {
    const char* const name = std::get<0>(one);
    const schedule::AttentionShape& asked = std::get<2>(one);
    const ir::Graph graph = graph_of({std::get<1>(one)});
    const Executable program = compile_graph(
        graph, {.tuning = {.matmul = true, .attention = asked, .cooperative_matrix = false}, .costs = kSlowMemory});
    // Of a GPU's thread, sums of two products that are staged whole may be more than it has.
    const bool may_be = has_registers && has_buffers() && (asked.slices || target(false).type == DeviceType::cpu);
    EXPECT_TRUE(!may_be || has_tile_of_threads(program, asked)) << name;
    compare_with_reference(program, graph, data_for({graph, {}, 72, false}), name);
  }
}

/// The attention of a program that has several sums, if there is one.
std::optional<schedule::CooperativeAttention> with_several_sums(const Executable& program) {
  for (const plan::ScheduledKernel& step : specialization_of(program)->steps) {
    const auto* params = step.schedule.get_if<schedule::AttentionParams>();
    if (params != nullptr && params->sums.size() > 1) return *params->cooperative();
  }
  return std::nullopt;
}

using schedule::ElementAccess;

/// What is added up in one kernel, how its operands are held, and how it reaches the elements of matrices.
struct SeveralSums {
  const char* name;
  std::vector<Tensor> (*outputs)(DType dtype);
  int key_fragments, reloaded;
  ElementAccess elements;
};

std::vector<Tensor> causal_gradients(DType t) { return attention_and_gradients(t, {.options = {.causal = true}}); }

const SeveralSums kSeveralSums[] = {
    {"causal", causal_gradients, 1, 0, ElementAccess::functions},
    {"causal, one operand loaded again", causal_gradients, 2, 1, ElementAccess::functions},
    {"causal, by index", causal_gradients, 2, 2, ElementAccess::shared_memory},
    {"grouped", [](DType t) { return attention_and_gradients(t, {.key_heads = 2}); }, 4, 2, ElementAccess::functions},
    {"grouped, causal",
     [](DType t) { return attention_and_gradients(t, {.key_heads = 1, .options = {.causal = true}}); }, 1, 1,
     ElementAccess::functions},
    {"bias", [](DType t) { return attention_and_gradients(t, {.options = with_bias(t)}); }, 2, 0,
     ElementAccess::shared_memory_rounded},
    {"sums of weights", sums_of_weights, 2, 0, ElementAccess::functions},
    {"sums of weights, by index", sums_of_weights, 1, 1, ElementAccess::shared_memory}};

TEST(AttentionGradients, OfKeysAndOfValuesInOneKernelAreRight) {
  const std::string missing = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix));
  if (!missing.empty()) GTEST_SKIP() << "T4 is not in use here: " << missing;
  for (const SeveralSums& form : kSeveralSums) {
    const ir::Graph graph = graph_of(form.outputs(DType::f16));
    const schedule::AttentionShape asked{
        .subgroups = 2, .key_fragments = form.key_fragments, .reloaded = form.reloaded};
    const Executable program = compile_graph(
        graph, {.tuning = {.matmul = true, .attention = asked, .elements = form.elements, .cooperative_matrix = true},
                .costs = kSlowMemory,
                .planned_as = kH200});
    const auto found = with_several_sums(program);
    EXPECT_TRUE(found && found->reloaded == form.reloaded && found->key_fragments == form.key_fragments) << form.name;
    compare_with_reference(program, graph, data_for({graph, {}, 73, false}), form.name);
  }
}

/// Products of a block are found while the block before it is worked on: the next one may be of the next run.
TEST(SoftmaxOfRuns, IsRightWhereScoresArePipelined) {
  const std::string missing = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix));
  if (!missing.empty()) GTEST_SKIP() << "T4 is not in use here: " << missing;
  const ir::Graph graph = softmax_of_runs(DType::f16);
  const schedule::AttentionShape asked{.subgroups = 2, .key_fragments = 1, .pipelined_scores = true};
  const Executable program =
      compile_graph(graph, {.tuning = {.matmul = true, .attention = asked, .cooperative_matrix = true},
                            .costs = kSlowMemory,
                            .planned_as = kH200});
  bool is_pipelined = false;
  for (const plan::ScheduledKernel& step : specialization_of(program)->steps) {
    const auto* params = step.schedule.get_if<schedule::AttentionParams>();
    if (params != nullptr && params->mask.in_runs && params->cooperative())
      is_pipelined = params->cooperative()->pipelined_scores;
  }
  EXPECT_TRUE(is_pipelined);
  compare_with_reference(program, graph, data_for({graph, {}, 75, false}), "softmax of runs, pipelined");
}

}  // namespace
}  // namespace vkfuse::test
