// Every template at sizes that are known only when it runs: one program, few texts, right results.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <set>

#include "api/tensor_node.hpp"
#include "support/compare.hpp"
#include "unit/runtime/watched_device.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

struct Case {
  std::string name;
  std::function<Tensor(const Dim& n)> make;
  std::size_t most_texts = 3;   ///< of a segment, at all lengths from 1 to 512
  std::int64_t longest = 1030;  ///< in the second class of sizes; the reference takes long for more
  schedule::Tuning tuning = {};
  std::optional<schedule::Template> kind = std::nullopt;  ///< that a kernel at 300 has

  [[nodiscard]] Executable compiled() const {
    return compile_graph(graph_of({make(Dim::any("n"))}), {.tuning = tuning});
  }
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

Tensor x_of(DType dtype, Shape shape) { return Tensor::input("x", dtype, std::move(shape)); }

const schedule::Tuning kInTiles{.tiled = true};
const schedule::Tuning kInBlocks{.stencil = schedule::StencilShape{4, 1, 1}};

std::vector<Case> cases() {
  return {
      {"rows_and_a_bias",
       [](const Dim& n) {
         return relu(x_of(DType::f32, {3, n}) + Tensor::input("b", DType::f32, {n}));
       }},
      {"rows_and_a_bias_f16",
       [](const Dim& n) {
         return relu(x_of(DType::f16, {3, n}) + Tensor::input("b", DType::f16, {n}));
       }},
      {"bytes",
       [](const Dim& n) {
         return x_of(DType::i8, {3, n}) + Tensor::input("b", DType::i8, {n});
       }},
      {"softmax_of_rows",
       [](const Dim& n) {
         return softmax(x_of(DType::f32, {5, n}));
       }},
      {"softmax_of_rows_f16",
       [](const Dim& n) {
         return softmax(x_of(DType::f16, {5, n}));
       }},
      {"mean_of_columns",
       [](const Dim& n) {
         return x_of(DType::f32, {n, 6}).mean({0});
       }},
      {"norm_of_rows",
       [](const Dim& n) {
         return normalize(x_of(DType::f32, {7, n}), {1}, 1e-5) * Tensor::input("b", DType::f32, {n});
       }},
      {"norm_of_many_rows",
       [](const Dim& n) {
         return rms_normalize(x_of(DType::f32, {n, 24}), {1}, 1e-5);
       }},
      {"sum_of_all",
       [](const Dim& n) {
         return (x_of(DType::f32, {n, 24}) * 2.0).sum();
       }},
      {"transposed",
       [](const Dim& n) {
         return x_of(DType::f32, {n, 5}).transpose() + 1.0;
       },
       4},  // where a number is the same as one of a tile's, it is another text
      {"transposed_in_tiles",
       [](const Dim& n) {
         return x_of(DType::f32, {n, 5}).transpose() + 1.0;
       },
       6, 1030, kInTiles, schedule::Template::transpose},
      {"transposed_from_n",
       [](const Dim& n) {
         return x_of(DType::f16, {48, n}).transpose() + 1.0;
       },
       6, 1030, kInTiles, schedule::Template::transpose},
      {"keys_of_heads",
       [](const Dim& n) {
         return x_of(DType::f16, {n, 4, 24}).permute({1, 2, 0}) + 1.0;
       },
       6, 1030, kInTiles, schedule::Template::transpose},
      {"symbols_in_the_middle",
       [](const Dim& n) {
         return x_of(DType::i8, {3, n, 40}).permute({2, 1, 0}) + Tensor::input("b", DType::i8, {n, 1});
       },
       6, 1030, kInTiles, schedule::Template::transpose},
      {"pool_of_a_batch",
       [](const Dim& n) {
         return x_of(DType::f32, {n, 2, 8, 8}).unfold(2, 2, 2).unfold(3, 2, 2).max({4, 5});
       },
       3, 1030, kInBlocks, schedule::Template::stencil},
      {"depthwise_of_a_batch",
       [](const Dim& n) {
         return conv(x_of(DType::f32, {n, 2, 7, 7}), Tensor::input("w", DType::f32, {2, 1, 3, 3}),
                     {.low = {1, 1}, .high = {1, 1}, .groups = 2});
       },
       3, 1030, kInBlocks, schedule::Template::stencil},
      {"sorted_rows",
       [](const Dim& n) {
         return x_of(DType::f32, {n, 12}).argsort(1);
       }},
      {"sorted_in_blocks",
       [](const Dim& n) {
         return x_of(DType::f32, {3, n}).argsort(1);
       },
       80,  // a row that fits a block of such a class has one for each length, others one for each number of merges
       1030,
       {.block = 64},
       schedule::Template::sort},
      {"first_of_a_row",
       [](const Dim& n) {
         return x_of(DType::f32, {3, n}).argsort(1).gather(Tensor::iota(DType::i32, {1}, 0), 1);
       },
       80,
       1030,
       {.block = 64},
       schedule::Template::sort},
      {"reversed",
       [](const Dim& n) {
         return x_of(DType::f32, {3, n}).reverse({1}) * 2.0;
       }},
      {"repeated",
       [](const Dim& n) {
         return x_of(DType::f32, {3, n}).repeat({2, 1}) + 1.0;
       }},
      {"running_sum",
       [](const Dim& n) {
         return x_of(DType::f32, {4, n}).cumsum(1);
       }},
      {"sorted",
       [](const Dim& n) {
         return x_of(DType::f32, {4, n}).argsort(1);
       }},
      {"product_along",
       [](const Dim& n) {
         return matmul(x_of(DType::f32, {24, n}), Tensor::input("b", DType::f32, {n, 32}));
       }},
      {"product_across",
       [](const Dim& n) {
         return matmul(x_of(DType::f32, {24, 16}), Tensor::input("b", DType::f32, {16, n}));
       }},
      {"product_of_rows",
       [](const Dim& n) {
         return relu(matmul(x_of(DType::f16, {n, 32}), Tensor::input("b", DType::f16, {32, 24})));
       }},
      {"attention",
       [](const Dim& n) {
         const auto input = [&](const char* name) { return Tensor::input(name, DType::f32, {1, 2, n, 16}); };
         return attention(input("x"), input("k"), input("v"));
       },
       3, 255},
      {"causal_attention",
       [](const Dim& n) {
         const auto input = [&](const char* name) { return Tensor::input(name, DType::f32, {1, 2, n, 16}); };
         AttentionOptions options;
         options.causal = true;
         return attention(input("x"), input("k"), input("v"), options);
       },
       3, 255},
  };
}

class DynamicShapesOf : public testing::TestWithParam<Case> {};

TEST_P(DynamicShapesOf, FewTextsServeEveryLength) {
  const Executable program = GetParam().compiled();
  runtime::ShapeBuckets shape_buckets(program.state()->program->plan(), GetParam().tuning, {});
  std::vector<std::set<std::string>> texts(program.state()->program->plan().steps.size());
  for (std::int64_t n = 1; n <= 512; ++n) {
    const runtime::ShapeBuckets::Written written = must(shape_buckets.write({{"n", n}}));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string all;
      for (const runtime::Launch& launch : written.kernels[i]) all += launch.kernel->key;
      const bool is_new = texts[i].insert(all).second;
      if (is_new && std::getenv("VKFUSE_TEST_TEXTS") != nullptr)
        fmt::print("---- segment {} at {}: text {}\n{}\n", i, n, texts[i].size(), all);
    }
  }
  if (GetParam().kind) {
    const auto steps = specialization_of(program, {{"n", 300}})->steps;
    EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [&](const plan::ScheduledKernel& step) {
      return step.schedule.kind() == *GetParam().kind;
    }));
  }
  std::size_t most = 0;
  for (const auto& one : texts) most = std::max(most, one.size());
  fmt::print("{}: at most {} texts of a segment\n", GetParam().name, most);
  EXPECT_LE(most, GetParam().most_texts);
}

TEST(DynamicShapes, PickingOutOfNothingIsRefusedFirst) {
  // Layers whose fused kernels cannot be made at n = 0 either, for a reason that says nothing to a user.
  Tensor carried = Tensor::input("carried", DType::bf16, {4, 4, 11, Dim::any("n"), 2, 2});
  const Tensor index = Tensor::input("index", DType::i64, {3});
  std::vector<Tensor> results;
  Inputs inputs = {{"carried", HostView({}, {4, 4, 11, 0, 2, 2})}};
  const std::vector<std::int64_t> positions = {0, 0, 0};
  inputs.emplace("index", HostView(std::as_bytes(std::span(positions)), {3}));
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = fmt::format("x{}", layer);
    const Tensor x = Tensor::input(name, DType::bf16, {4, 8, 33, Dim::any("n")});
    inputs.emplace(name, HostView({}, {4, 8, 33, 0}));
    const Tensor windows = x.unfold(1, 2, 2).unfold(2, 2, 3, 2);
    const Tensor rest = Tensor::apply("mod", {windows, carried});
    results.insert(results.end(), {expm1(carried.gather(index, 3)), rest.prod({1}), windows});
    carried = sin(rest);
    if (layer >= 2) results.push_back(rest);
  }
  const auto outputs = must(compile(device(), results)).run(inputs);
  ASSERT_FALSE(outputs);
  EXPECT_NE(outputs.error().text().find("'gather'"), std::string::npos) << outputs.error().text();
  EXPECT_NE(outputs.error().text().find("which is empty."), std::string::npos) << outputs.error().text();
}

TEST_P(DynamicShapesOf, ResultsAreRight) {
  const Executable program = GetParam().compiled();
  std::vector<std::int64_t> lengths = {512, 1, 17, 2, 3, 4, 16, 31, 48, 100, 255, 1030};
  const bool all = std::getenv("VKFUSE_TEST_LENGTHS") != nullptr;
  for (std::int64_t n = 1; all && n <= 512; ++n) lengths.push_back(n);
  for (const std::int64_t n : lengths) {
    if (n > GetParam().longest) continue;
    const ir::Graph graph = must(api::to_graph(std::vector<Tensor>{GetParam().make(Dim(n))}, {}, "sized"));
    const Data data = data_for({graph, {}, static_cast<std::uint64_t>(n), false});
    Inputs inputs;
    for (ir::NodeId id : graph.inputs()) {
      const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
      std::vector<std::int64_t> sizes;
      for (const Dim& dim : graph.node(id).type.shape) sizes.push_back(dim.size());
      inputs.emplace(name, HostView(std::span<const std::byte>(data.inputs.at(name)), sizes));
    }
    const Outputs outputs = must(program.run(inputs));
    EXPECT_EQ(check_outputs(graph, data, {{"y", outputs.at("y").bytes}}).wrong, "") << n;
  }
}

INSTANTIATE_TEST_SUITE_P(, DynamicShapesOf, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace vkfuse::test
