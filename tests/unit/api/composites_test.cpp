// The table of composites: its documentation, and what it refuses.
#include "api/composite_table.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/folder.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {
namespace {

using Integers = std::vector<std::int64_t>;

Tensor f32(const char* name, Shape shape) { return Tensor::input(name, DType::f32, std::move(shape)); }

TEST(CompositeDocument, IsTheTable) {
  const std::filesystem::path path = test::tests_folder() / "../docs/composites.md";
  if (std::getenv("VKFUSE_UPDATE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << composites_markdown();
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), composites_markdown()) << "VKFUSE_UPDATE_DOCS=1 writes it.";
}

TEST(Composites, HaveOneNameEachThatNoOpHas) {
  const auto all = api::composites();
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(ops::find(all[i].name), nullptr) << all[i].name;
    EXPECT_EQ(api::find_composite(all[i].name), &all[i]);
    if (i > 0) {
      EXPECT_LT(all[i - 1].name, all[i].name);
    }
  }
}

struct Refused {
  Tensor made;
  const char* words;
};

TEST(Composites, RefuseWithOneSentence) {
  const Tensor x = f32("x", {2, 6, 4}), image = f32("i", {1, 3, 8, 8}), narrow = f32("n", {5});
  const Tensor whole = Tensor::input("w", DType::i32, {2, 6, 4}), any = f32("s", {2, 3, Dim::any("n")});
  const Tensor number = Tensor::input("seed", DType::i32, {2}), one = Tensor::scalar(DType::f32, 1);
  const Refused all[] = {
      {apply_composite("gelus", {x}), "'gelus' is not the name of a composite."},
      {apply_composite("gelu", {x, x}), "'gelu' takes the operands x, but 2 are given."},
      {apply_composite("linear", {x}), "'linear' takes the operands x w bias?, but 1 is given."},
      {apply_composite("gelu", {x}, {{"shape", 1.0}}), "'gelu' has no attribute 'shape'."},
      {apply_composite("elu", {x}, {{"alpha", std::int64_t{1}}}),
       "The attribute 'alpha' of 'elu' is an integer, but it must be a real number."},
      {apply_composite("gelu", {x}, {{"form", std::string("sine")}}),
       "The attribute 'form' of 'gelu' is 'sine'; it must be one of: erf, tanh."},
      {layer_norm(x, 3), "'layer_norm' normalises from axis 3 on, which f32[2, 6, 4] does not have."},
      {rms_norm(whole), "'rms_norm' takes floats and has statistics of floats, but they are i32 and f32."},
      {group_norm(x, 4), "'group_norm' has 4 groups of 6 channels, which they must divide."},
      {group_norm(x, 0), "'group_norm' has 0 groups of 6 channels"},
      {instance_norm(x, {.scale = narrow}),
       "'instance_norm' of f32[2, 6, 4] takes a number for each of 6 channels, but it was given f32[5]."},
      {instance_norm(f32("m", {2, 3})), "'instance_norm' takes a tensor of 3 axes at least, but it is f32[2, 3]."},
      {batch_norm(x, narrow, narrow), "a number for each of 6 channels, but it was given f32[5]."},
      {linear(x, x), "'linear' takes a matrix of weights, but they are f32[2, 6, 4]."},
      {embedding(one, whole), "'embedding' takes rows of a table, but it is f32[]."},
      {rotary(x, one, one, {.size = 3}), "A rotary embedding of 3 of 4 elements is not possible."},
      {rotary(any, one, one), "'rotary' turns elements of a last axis whose size is a number, which f32[2, 3, n]"},
      {log_sum_exp(whole), "'log_sum_exp' takes floats, but it is given i32[2, 6, 4]."},
      {max_pool(image, {.sizes = {2}}), "but it is given f32[1, 3, 8, 8] and 1 sizes."},
      {max_pool(image, {.sizes = {2, 9}}),
       "A window over 9 elements does not fit axis 3 of 8 elements and 0 of padding."},
      {max_pool(image, {.sizes = {2, 2}, .strides = {1, 0}}), "A pool has 0 in its strides, where entries are 1 to"},
      {max_pool(image, {.sizes = {2, 2}, .low = {1}}), "A pool over 2 spatial axes has 1 elements of padding before"},
      {max_pool(any, {.sizes = {2}}), "for axis 2 of f32[2, 3, n]."},
      {average_pool(whole, {.sizes = {2}}), "'average_pool' takes floats, but it is given i32[2, 6, 4]."},
      {interpolate(x, {1, -2}, {3, 3}), "but axis -2 is not one."},
      {interpolate(x, {7}, {3}), "but axis 7 is not one."},
      {interpolate(x, {1}, {3, 4}), "there are 1 axes and 2 sizes."},
      {interpolate(x, {1}, {-3}), "but -3 are asked for."},
      {interpolate(whole, {1}, {3}, {.mode = Interpolation::linear}), "'interpolate' weighs floats"},
      {one_hot(x, 3, one, one), "but they are f32[2, 6, 4], 3 and -1."},
      {one_hot(whole, -1, one, one), "but they are i32[2, 6, 4], -1 and -1."},
      {scatter_along(x, whole, narrow, 1), "but they are i32[2, 6, 4] and f32[5] along axis 1."},
      {scatter_along(x, whole, x, 3), "but they are i32[2, 6, 4] and f32[2, 6, 4] along axis 3."},
      {scatter_along(x, x, x, 0), "'scatter_along' of f32[2, 6, 4] takes integers"},
      {scatter_along(x, whole, x, 0, "sub"), "sub"},
      {random_uniform({3}, number), "A seed is one integer, but it is i32[2]."},
      {random_normal({3}, one), "A seed is one integer, but it is f32[]."},
      {dropout(x, 1.5, Tensor::scalar(DType::i32, 1)), "a probability above 0 and up to 1, but it is 1.5."},
      {attention_and_log_sum_exp(image, image, image, {.sink = narrow}).result,
       "'attention_and_log_sum_exp' takes no attention sinks, but they are f32[5]."},
  };
  for (const Refused& one_case : all) {
    ASSERT_FALSE(one_case.made.valid()) << one_case.words;
    const std::string& said = one_case.made.error().message;
    EXPECT_NE(said.find(one_case.words), std::string::npos) << said;
    EXPECT_EQ(said.back(), '.') << said;
  }
}

/// One update a line is a choice for each element, of any mode and of positions that are no element's, too.
TEST(Composites, ScatterOfOneUpdateALineSearchesForNone) {
  const std::vector<float> data{1, 2, 3, 4, 5, 6, 7, 8}, given{10, -20};
  const auto f32s = [](const std::vector<float>& values) { return std::as_bytes(std::span(values)); };
  const auto made = [&](const std::vector<std::int32_t>& positions, std::string_view mode) {
    const Tensor x = Tensor::constant(DType::f32, {2, 4}, f32s(data));
    const Tensor at = Tensor::constant(DType::i32, {2, 1}, std::as_bytes(std::span(positions)));
    return test::graph_of({scatter_along(x, at, Tensor::constant(DType::f32, {2, 1}, f32s(given)), 1, mode)});
  };
  const auto values = [&](const std::vector<std::int32_t>& positions, std::string_view mode) {
    const ir::Graph graph = made(positions, mode);
    for (const ir::Node& node : graph.nodes()) EXPECT_NE(node.op->cls, ops::OpClass::scatter) << mode;
    const std::vector<reference::Request> requests{{graph.outputs()[0].value, {}}};
    return test::must(reference::evaluate_each(graph, requests, {}))[0].value;
  };
  using Values = std::vector<double>;
  EXPECT_EQ(values({1, -1}, "set"), (Values{1, 10, 3, 4, 5, 6, 7, -20}));
  EXPECT_EQ(values({0, 3}, "add"), (Values{11, 2, 3, 4, 5, 6, 7, -12}));
  EXPECT_EQ(values({3, 0}, "mul"), (Values{1, 2, 3, 40, -100, 6, 7, 8}));
  EXPECT_EQ(values({-4, 2}, "max"), (Values{10, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(values({2, 1}, "min"), (Values{1, 2, 3, 4, 5, -20, 7, 8}));
  EXPECT_EQ(values({4, -5}, "set"), (Values{1, 2, 3, 4, 5, 6, 7, 8})) << "there are no such positions";
}

/// An invalid operand's own error comes out, and nothing is looked at that is not there.
TEST(Composites, HandOnInvalidOperands) {
  const Tensor bad = Tensor::failed(Error{ErrorCode::invalid_argument, "This is the one.", {}});
  const Tensor x = f32("x", {2, 4, 4});
  for (const Tensor& made : {gelu(bad),
                             layer_norm(bad),
                             layer_norm(x, -1, {.scale = bad}),
                             group_norm(x, 2, {.bias = bad}),
                             instance_norm(bad),
                             batch_norm(x, bad, bad),
                             linear(x, bad),
                             embedding(bad, x),
                             rotary(x, bad, x),
                             log_sum_exp(bad),
                             attention_and_log_sum_exp(bad, x, x).log_sum_exp,
                             max_pool(bad, {.sizes = {2}}),
                             average_pool(bad, {.sizes = {2}}),
                             interpolate(bad, {0}, {2}),
                             one_hot(bad, 2, x, x),
                             scatter_along(x, bad, x, 0),
                             random_uniform({2}, bad),
                             random_normal({2}, bad),
                             dropout(x, 0.5, bad),
                             apply_composite("gelu", {bad})}) {
    ASSERT_FALSE(made.valid());
    EXPECT_EQ(made.error().message, "This is the one.");
  }
}

}  // namespace
}  // namespace vkfuse
