// Products of one value with several others as one product, on the device.
#include <gtest/gtest.h>

#include "api/tensor_node.hpp"
#include "passes/passes.hpp"
#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

/// Launches that cost more than anything else does: kernels are as few as they can be.
constexpr CostModel kFewKernels = {1000, 3e4, 1e4, 1e6};

Tensor input(const std::string& name, DType dtype, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); }

struct Form {
  const char* name;
  std::vector<Tensor> outputs;
};

std::size_t products_in(const ir::Graph& graph) {
  std::size_t count = 0;
  for (const ir::Node& node : graph.nodes()) count += node.op->name == "dot" ? 1 : 0;
  return count;
}

std::vector<Form> forms_of(DType dtype) {
  const Tensor x = input("x", dtype, {37, 48});
  const auto w = [&](const char* name, std::int64_t from, std::int64_t to) { return input(name, dtype, {from, to}); };
  const Tensor batch = input("xs", dtype, {3, 20, 24});
  std::vector<Form> forms;
  forms.push_back({"results", {matmul(x, w("a", 48, 40)), matmul(x, w("b", 48, 24)), matmul(x, w("c", 48, 24))}});
  forms.push_back({"widths that no item divides",
                   {exp(matmul(x, w("a", 48, 5)) * 0.01), matmul(x, w("b", 48, 3)) + input("bias", dtype, {3})}});
  forms.push_back({"transposed weights",
                   {matmul(x, w("a", 40, 48).transpose()) * 2.0, relu(matmul(x, w("b", 8, 48).transpose()))}});
  forms.push_back(
      {"rows of the result", {matmul(w("a", 40, 48), x.transpose()), matmul(w("b", 9, 48), x.transpose())}});
  forms.push_back({"batches", {matmul(batch, w("a", 24, 32)), matmul(batch, w("b", 24, 16)) * 0.5}});
  forms.push_back({"biases, and none",
                   {matmul(x, w("a", 48, 40)) + input("ba", dtype, {40}), matmul(x, w("b", 48, 24)),
                    relu(input("bc", dtype, {1, 8}) + matmul(x, w("c", 48, 8)))}});
  forms.push_back({"biases of batches",
                   {matmul(batch, w("a", 24, 32)) + input("ba", dtype, {1, 1, 32}),
                    (matmul(batch, w("b", 24, 16)) + input("bb", dtype, {16})) * 0.5}});
  forms.push_back({"biases of rows of the result",
                   {matmul(w("a", 40, 48), x.transpose()) + input("ba", dtype, {40, 1}),
                    matmul(w("b", 9, 48), x.transpose()) + input("bb", dtype, {9, 1})}});
  forms.push_back({"dequantised weights",
                   {matmul(x, input("qa", DType::i8, {48, 32}).cast(dtype) * 0.02),
                    matmul(x, input("qb", DType::i8, {48, 64}).cast(dtype) * 0.03)}});
  return forms;
}

/// What the pass makes of them computes the same, on tiles and without.
TEST(Joined, ProductsOfOneValueAreOne) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Form& form : forms_of(dtype)) {
      for (const Tensor& one : form.outputs) ASSERT_TRUE(one.valid()) << one.error().text();
      std::vector<std::string> names;
      for (std::size_t i = 0; i < form.outputs.size(); ++i) names.push_back("y" + std::to_string(i));
      const ir::Graph graph = must(api::to_graph(form.outputs, names, "joined"));
      const auto made = must(passes::merge_matmuls(must(passes::run_pipeline(graph))));
      const std::string what = fmt::format("{} of {}", form.name, name_of(dtype));
      ASSERT_TRUE(made) << what;
      const ir::Graph& joined = made->graph;
      EXPECT_EQ(products_in(joined), 1U) << what;
      for (const bool tiles : {true, false}) {
        Build how;
        how.tuning.matmul = tiles;
        compare_with_reference(compile_graph(joined, how), graph, data_for({graph, {}, 81, false}),
                               fmt::format("{}{}", what, tiles ? " in tiles" : ""));
      }
    }
  }
}

/// Their projections are one kernel, and the attention reads its parts.
TEST(Joined, QueriesKeysAndValuesAreOneKernel) {
  const Tensor x = input("x", DType::f32, {37, 48});
  const auto part = [&](const char* name) {
    return (matmul(x, input(name, DType::f32, {48, 64})) * 0.01).reshape({37, 4, 16}).permute({1, 0, 2}).unsqueeze(0);
  };
  const ir::Graph graph = graph_of({attention(part("q"), part("k"), part("v"))});
  Build how;
  how.costs = kFewKernels;
  const Executable program = compile_graph(graph, how);
  EXPECT_TRUE(are_kernels(program.state()->program->plan().steps.size(), 2)) << must(program.explain(Stage::plan));
  compare_with_reference(program, graph, data_for({graph, {}, 83, false}), "attention of three projections");
}

/// The halves of a gated pair meet in one tile, which is better still.
TEST(Joined, AGatedPairStaysOneKernel) {
  const Tensor x = input("x", DType::f32, {37, 48});
  const ir::Graph graph =
      graph_of({silu(matmul(x, input("gate", DType::f32, {48, 64}))) * matmul(x, input("up", DType::f32, {48, 64}))});
  Build how;
  how.costs = kFewKernels;
  const Executable program = compile_graph(graph, how);
  EXPECT_TRUE(are_kernels(program.state()->program->plan().steps.size(), 1)) << must(program.explain(Stage::plan));
  compare_with_reference(program, graph, data_for({graph, {}, 82, false}), "a gated pair");
}

}  // namespace
}  // namespace vkfuse::test
