// Products whose rows are made multiples of 16 bytes, on the device.
#include <gtest/gtest.h>

#include "passes/passes.hpp"
#include "support/compare.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

Tensor argument(const char* name, DType dtype, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); }

struct PaddedForm {
  const char* name;
  std::vector<Tensor> outputs;
};

/// Rows of 201 elements, which become 208: the softmax of a product, and what its gradient multiplies it with.
PaddedForm gradient_of_words(DType dtype) {
  const Tensor x = argument("x", dtype, {37, 48}), words = argument("words", dtype, {201, 48});
  const Tensor logits = matmul(x * 0.01, words.transpose()).cast(DType::f32);
  const Tensor found = eq(Tensor::iota(DType::i32, {1, 201}, 1), argument("index201 1", DType::i32, {37, 1}));
  const Tensor slope = (softmax(logits, 1) - found.cast(DType::f32)).cast(dtype);
  return {"words", {matmul(slope, words), matmul(slope.transpose(), x)}};
}

Tensor zeros_of(DType dtype) { return Tensor::scalar(dtype, 0).broadcast_to({37, 201}); }

std::vector<PaddedForm> padded_forms(DType dtype) {
  const Tensor x = argument("x", dtype, {37, 201}), w = argument("w", dtype, {201, 48});
  const Tensor wide = argument("wide", dtype, {48, 201}), bias = argument("bias", dtype, {201});
  const Tensor batch = argument("batch", dtype, {3, 20, 48});
  std::vector<PaddedForm> forms{gradient_of_words(dtype)};
  forms.push_back({"a sum of inputs", {matmul(x, w)}});
  forms.push_back({"two layers", {matmul(gelu(matmul(argument("y", dtype, {37, 48}), wide) + bias), w)}});
  forms.push_back({"exponentials", {matmul(exp(matmul(argument("y", dtype, {37, 48}), wide) * 0.01), w)}});
  forms.push_back({"batches", {matmul(relu(matmul(batch, wide)), w), relu(matmul(batch, wide)).sum({1})}});
  // Rows written into others, which two products read, one of them turned round: PyTorch's gradient of a shifted loss.
  const Tensor written = zeros_of(dtype).slice_assign(argument("y", dtype, {36, 201}) * 0.1, {0, 0});
  forms.push_back({"rows written", {matmul(written, w), matmul(written.transpose(), argument("z", dtype, {37, 48}))}});
  const Tensor hidden = matmul(batch, wide) * 0.1;
  forms.push_back({"a result among them", {hidden, hidden.max({2}), hidden.sum({2}), hidden.permute({0, 2, 1}) + 1.0}});
  return forms;
}

TEST(PaddedRows, ComputeTheSame) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const PaddedForm& form : padded_forms(dtype)) {
      for (const Tensor& one : form.outputs) ASSERT_TRUE(one.valid()) << form.name << ": " << one.error().text();
      const ir::Graph graph = graph_of(form.outputs);
      const auto made = must(passes::pad_chosen_rows(must(passes::run_pipeline(graph)), {0, 1.0 / 16}));
      const std::string what = fmt::format("{} of {}", form.name, name_of(dtype));
      ASSERT_TRUE(made) << what;
      for (const bool tiles : {true, false}) {
        Build how;
        how.tuning.matmul = tiles;
        compare_with_reference(compile_graph(made->graph, how), graph, data_for({graph, {}, 91, false}),
                               fmt::format("{}{}", what, tiles ? " in tiles" : ""));
      }
    }
  }
}

/// What is behind the end of a row must not reach a result, whatever it is.
TEST(PaddedRows, NothingIsSeenOfWhatIsBehindThem) {
  const Tensor y = argument("y", DType::f32, {37, 48}), wide = argument("wide", DType::f32, {48, 201});
  const Tensor positive = matmul(abs(y), abs(wide));  // 0 behind its end: -infinity is its logarithm, 0 / 0 no number
  const Tensor w = argument("w", DType::f32, {201, 8});
  std::vector<Tensor> outputs;
  for (const Tensor& one : {log(positive), positive / positive, 1.0 / positive})
    outputs.insert(outputs.end(), {matmul(one, w), one.sum({1}), one.max({1}), one.min({1}), one.mean({1})});
  const ir::Graph graph = graph_of(outputs);
  const auto made = must(passes::pad_chosen_rows(must(passes::run_pipeline(graph)), {0, 1.0 / 16}));
  ASSERT_TRUE(made);
  compare_with_reference(compile_graph(made->graph, {}), graph, data_for({graph, {}, 92, false}),
                         "zeros behind the end");
}

}  // namespace
}  // namespace vkfuse::test
