// Norms and softmaxes between products, on the device: as statistics that come in parts, and as folds of what a tile
// has whole rows of.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "support/fuzz.hpp"
#include "support/random.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

/// Launches that cost more than anything else does: kernels are as few as they can be.
constexpr CostModel kFewKernels = {1000, 3e4, 1e4, 1e6};
/// Bytes that do.
constexpr CostModel kFewBytes = {0.001, 1, 1e6, 1e9};

Tensor input(const std::string& name, DType dtype, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); }

Tensor linear(const Tensor& x, const std::string& name, std::int64_t to) {
  return matmul(x, input("w" + name, x.dtype(), {x.shape().back(), to})) + input("b" + name, x.dtype(), {to});
}

Tensor norm(const Tensor& x, const std::string& name) {
  const std::vector<int> last{static_cast<int>(x.shape().size()) - 1};
  return normalize(x, last, 1e-5) * input("scale" + name, x.dtype(), {x.shape().back()}) +
         input("shift" + name, x.dtype(), {x.shape().back()});
}

struct Sizes4 {
  Shape rows;
  std::int64_t from, width, hidden;
};

/// A norm that only products read: of a transformer with norms before.
Tensor pre_norm(DType dtype, const Sizes4& sizes) {
  Shape outer = sizes.rows;
  outer.emplace_back(sizes.from);
  Shape residual = sizes.rows;
  residual.emplace_back(sizes.width);
  const Tensor y = linear(input("x", dtype, outer), "1", sizes.width) + input("residual", dtype, residual);
  return linear(silu(linear(norm(y, "1"), "2", sizes.hidden)), "3", sizes.width) + y;
}

/// One whose results are the next residual too, after which another one comes: of one with norms after.
Tensor post_norm(DType dtype, const Sizes4& sizes) {
  Shape outer = sizes.rows;
  outer.emplace_back(sizes.from);
  const Tensor first = norm(linear(input("x", dtype, outer), "1", sizes.width), "1");
  const Tensor second = norm(linear(silu(linear(first, "2", sizes.hidden)), "3", sizes.width) + first, "2");
  return linear(second, "4", sizes.hidden) * linear(second, "5", sizes.hidden);
}

/// A norm that the next product reads and is added to.
Tensor joined_norm(DType dtype, const Sizes4& sizes) {
  Shape outer = sizes.rows;
  outer.emplace_back(sizes.from);
  const Tensor first = norm(linear(input("x", dtype, outer), "1", sizes.width), "1");
  return linear(first, "2", sizes.width) + first;
}

/// As few kernels as products, however the rows lie: the parts are left by the products before, and joined by those
/// after.
TEST(Norms, BetweenProductsHaveNoKernelOfTheirOwn) {
  const Sizes4 all[] = {{{70}, 40, 64, 48}, {{2, 19}, 33, 192, 100}, {{5}, 64, 96, 130}, {{129}, 17, 256, 33}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Sizes4& sizes : std::span(all).first(dtype == DType::f32 ? 4 : dtype == DType::f16 ? 2 : 1)) {
      // One form of each size: compiling them takes most of the time. Of a chain of 16-bit floats as long as the third
      // nothing is known for certain.
      const bool second = &sizes != all && (&sizes - all) % 2 == 1;
      const std::pair<Tensor, std::size_t> forms[] = {!second ? std::pair(pre_norm(dtype, sizes), std::size_t{3})
                                                      : dtype == DType::f32
                                                          ? std::pair(post_norm(dtype, sizes), std::size_t{4})
                                                          : std::pair(joined_norm(dtype, sizes), std::size_t{2})};
      for (const auto& [tensor, products] : forms) {
        ASSERT_TRUE(tensor.valid()) << tensor.error().text();
        const ir::Graph graph = graph_of({tensor});
        Build how;
        how.costs = kFewKernels;
        how.tuning.matmul = true;
        const Executable program = compile_graph(graph, how);
        EXPECT_TRUE(are_kernels_at_most(program.state()->program->plan().steps.size(), products))
            << name_of(dtype) << " of " << sizes.width << "\n"
            << must(program.explain(Stage::plan));
        compare_with_reference(program, graph, data_for({graph, {}, 71, false}),
                               fmt::format("{} products of {} with rows of {}", products, name_of(dtype), sizes.width));
      }
    }
  }
}

/// Rows that one tile has whole.
TEST(Norms, OfWhatATileHasWhole) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const std::int64_t width : {32, 64}) {
      const Tensor sums = linear(input("x", dtype, {50, 40}), "1", width);
      const std::pair<const char*, Tensor> forms[] = {{"norm", norm(sums, "1")},
                                                      {"softmax", softmax(sums * 0.02)},
                                                      {"rows", sums.mean({1})},
                                                      {"scaled", sums * rsqrt((sums * sums).mean({1}, true) + 1e-5)}};
      for (const auto& [name, tensor] : forms) {
        const ir::Graph graph = graph_of({tensor});
        Build how;
        how.costs = kFewKernels;
        how.tuning.matmul = true;
        if (dtype == DType::f32)
          how.tuning.tile = width == 32 ? schedule::TileShape{32, 32, 32, 4, 4} : schedule::TileShape{16, 64, 32, 4, 4};
        const Executable program = compile_graph(graph, how);
        EXPECT_TRUE(are_kernels(program.state()->program->plan().steps.size(), 1))
            << name << " of " << name_of(dtype) << "\n"
            << must(program.explain(Stage::plan));
        compare_with_reference(program, graph, data_for({graph, {}, 72, false}),
                               fmt::format("{} of {} in tiles of {}", name, name_of(dtype), width));
      }
    }
  }
}

/// Runs that would take too long for one submission are cut, within kernels too: every workgroup knows where its part
/// begins.
TEST(Norms, InSeveralSubmissions) {
  const ir::Graph graph = graph_of({linear(norm(linear(input("x", DType::f32, {200, 40}), "1", 64), "1"), "2", 96)});
  Build how;
  how.costs = kFewKernels;
  how.tuning.matmul = true;
  how.longest_submission_us = kFewKernels.launch_us / 3;
  const Executable program = compile_graph(graph, how);
  EXPECT_GT(program.state()->program->parts(*specialization_of(program)).size(), 4U);
  compare_with_reference(program, graph, data_for({graph, {}, 73, false}), "two products in several submissions");
}

/// A cross-entropy behind a product: the logits are folded where they are computed, in parts, and never stored. Labels
/// are positions anywhere, and beyond either end; a block of some rows has nothing above -infinity.
TEST(Norms, CrossEntropyOfAProductStoresNoLogits) {
  struct {
    std::int64_t rows, from, classes;
    DType dtype, labels;
  } const all[] = {{70, 40, 192, DType::f32, DType::i32},
                   {33, 64, 1056, DType::f16, DType::i32},
                   {129, 17, 352, DType::f32, DType::i64}};
  for (const auto& [rows, from, classes, dtype, label] : all) {
    const Tensor logits = linear(input("x", dtype, {rows, from}), "", classes);
    const Tensor labels = input("labels", label, {rows});
    const std::pair<const char*, Tensor> forms[] = {
        {"loss", cross_entropy(logits, labels)},
        {"log softmax", -log_softmax(logits).take_along(labels.unsqueeze(1), 1)},
        {"taken first", logits.take_along(labels.unsqueeze(1), 1) -
                            (logits.max({1}, true) + log(exp(logits - logits.max({1}, true)).sum({1}, true)))}};
    for (const auto& [name, tensor] : forms) {
      ASSERT_TRUE(tensor.valid()) << tensor.error().text();
      const ir::Graph graph = graph_of({tensor});
      Data data = data_for({graph, {}, 74, false});
      data.inputs["labels"].clear();
      for (std::int64_t row = 0; row < rows; ++row)
        ir::encode(label, static_cast<double>(row * 37 % (classes + 9) - 4), data.inputs["labels"]);
      for (std::int64_t i = 32; i < 96; ++i) {
        std::vector<std::byte> lowest;
        ir::encode(dtype, -std::numeric_limits<double>::infinity(), lowest);
        std::copy(lowest.begin(), lowest.end(), data.inputs["b"].begin() + i * size_of(dtype));
      }
      Build how;
      how.costs = kFewBytes;
      how.tuning.matmul = true;
      const Executable program = compile_graph(graph, how);
      const auto& steps = program.state()->program->plan().steps;
      EXPECT_TRUE(are_kernels(steps.size(), 2)) << name << " of " << name_of(dtype) << "\n"
                                                << must(program.explain(Stage::plan));
      for (const auto& step : steps) {
        for (const ir::NodeId id : step.segment.stores)
          EXPECT_NE(program.state()->program->plan().graph.node(id).type.shape, (Shape{rows, classes})) << name;
      }
      compare_with_reference(program, graph, data,
                             fmt::format("{} of {} x {} x {} in {}", name, rows, from, classes, name_of(dtype)));
    }
  }
}

/// What is far from zero in some block and near it in another, and rows that have an infinity or are no numbers at all.
TEST(Norms, InPartsOfDifferentSizes) {
  constexpr std::int64_t kRows = 20, kWidth = 192;
  const DType dtype = DType::f32;
  const Tensor y = matmul(input("x", dtype, {kRows, kWidth}), input("w", dtype, {kWidth, kWidth}));
  const ir::Graph graph = graph_of({matmul(normalize(y, {1}, 1e-5), input("v", dtype, {kWidth, 24}))});
  Data data;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < kWidth; ++i) {
      const double base = i / 64 == row % 3 ? 1e4 : row % 2 == 0 ? -3.0 : 0.0;
      double value = base + static_cast<double>((i * 37 + row * 11) % 64) / 64;
      if (row == 7 && i == 5) value = std::numeric_limits<double>::infinity();
      if (row == 8 && i == 190) value = std::nan("");
      ir::encode(dtype, value, data.inputs["x"]);
      for (std::int64_t j = row == 0 ? 0 : kWidth; j < kWidth; ++j)
        ir::encode(dtype, i == j ? 1.0 : 0.0, data.inputs["w"]);
      for (std::int64_t j = row == 0 ? 0 : 24; j < 24; ++j)
        ir::encode(dtype, static_cast<double>((i + j) % 7) - 3.0, data.inputs["v"]);
    }
  }
  Build how;
  how.costs = kFewKernels;
  how.tuning.matmul = true;
  const Executable program = compile_graph(graph, how);
  EXPECT_TRUE(are_kernels(program.kernel_count(), 2));
  const NamedBytes outputs = compare_with_reference(program, graph, data, "parts far apart");
  for (std::int64_t i = 0; i < kRows * 24 && !outputs.empty(); ++i) {
    const double value = ir::decode(dtype, outputs.at("y").data() + i * size_of(dtype));
    ASSERT_EQ(std::isnan(value), i / 24 == 7 || i / 24 == 8) << "element " << i;
  }
}

}  // namespace
}  // namespace vkfuse::test
