// Sums along axes whose length only a run tells: as near as those of the same length that is stated.
#include <gtest/gtest.h>

#include <cmath>

#include "api/tensor_node.hpp"
#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

struct Form {
  const char* name;
  Tensor (*make)(const Dim& n);
};

void PrintTo(const Form& one, std::ostream* out) { *out << one.name; }

Tensor x_of(Shape shape) { return Tensor::input("x", DType::f32, std::move(shape)); }

const Form kForms[] = {
    {"rows",
     [](const Dim& n) {
       return x_of({3, n}).sum({1});
     }},
    {"columns",
     [](const Dim& n) {
       return x_of({n, 6}).sum({0});
     }},
    {"a_middle_axis",
     [](const Dim& n) {
       return x_of({2, n, 5}).sum({1});
     }},
    {"all",
     [](const Dim& n) {
       return x_of({n, 3}).sum();
     }},
    {"a_mean",
     [](const Dim& n) {
       return x_of({3, n}).mean({1});
     }},
    {"squares",
     [](const Dim& n) {
       const Tensor x = x_of({3, n});
       return (x * x).sum({1});
     }},
    {"deviations",
     [](const Dim& n) {
       const Tensor x = x_of({3, n}) + 2.0;
       return (x - x.mean({1}, true)).sum({1});
     }},
    {"a_softmax",
     [](const Dim& n) {
       return softmax(x_of({3, n}));
     }},
    {"a_running_sum",
     [](const Dim& n) {
       return x_of({3, n}).cumsum(1);
     }},
    {"a_running_sum_of_columns",
     [](const Dim& n) {
       return x_of({n, 4}).cumsum(0);
     }},
    {"a_dot",
     [](const Dim& n) {
       return matmul(x_of({1, n}), Tensor::input("w", DType::f32, {n, 1}));
     }},
    {"a_vector_times_a_matrix",
     [](const Dim& n) {
       return matmul(x_of({1, n}), Tensor::input("w", DType::f32, {n, 16}));
     }},
    {"a_product",
     [](const Dim& n) {
       return matmul(x_of({24, n}), Tensor::input("w", DType::f32, {n, 16}));
     }},
};

/// Numbers that are nearly alike: what additions lose of them has one sign, and adds up.
Data alike(const ir::Graph& graph) {
  Data data;
  for (const ir::NodeId id : graph.inputs()) {
    std::vector<std::byte>& bytes = data.inputs[std::get<ir::InputPayload>(graph.node(id).payload).name];
    const std::size_t count = bytes_of(graph, id, {}) / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) ir::encode(DType::f32, 0.1 + static_cast<double>(i % 31) * 1e-5, bytes);
  }
  return data;
}

class SymbolicSums : public testing::TestWithParam<Form> {};

TEST_P(SymbolicSums, AreWithinTheBoundOfTheLengthOfTheRun) {
  const Executable program = must(compile(device(), {GetParam().make(Dim::any("n"))}));
  for (const std::int64_t n : {std::int64_t{40}, std::int64_t{3000}, std::int64_t{20'011}, std::int64_t{77}}) {
    const ir::Graph graph = must(api::to_graph(std::vector<Tensor>{GetParam().make(Dim(n))}, {}, "sized"));
    const Data data = alike(graph);
    Inputs inputs;
    for (const ir::NodeId id : graph.inputs()) {
      const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
      std::vector<std::int64_t> sizes;
      for (const Dim& dim : graph.node(id).type.shape) sizes.push_back(dim.size());
      inputs.emplace(name, HostView(std::span<const std::byte>(data.inputs.at(name)), sizes));
    }
    const Verdict symbolic = check_outputs(graph, data, {{"y", must(program.run(inputs)).at("y").bytes}});
    EXPECT_EQ(symbolic.wrong, "") << n;
    const Executable fixed = must(compile(device(), {GetParam().make(Dim(n))}));
    const Verdict stated = check_outputs(graph, data, {{"y", must(fixed.run(inputs)).at("y").bytes}});
    EXPECT_EQ(stated.wrong, "") << n;
    RecordProperty(fmt::format("n{}", n), fmt::format("{:.3g} of the bound, {:.3g} where the length is stated",
                                                      symbolic.max_ratio, stated.max_ratio));
  }
}

INSTANTIATE_TEST_SUITE_P(, SymbolicSums, testing::ValuesIn(kForms),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace vkfuse::test
