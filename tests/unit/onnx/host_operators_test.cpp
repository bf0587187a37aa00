// What the host computes, on operands that are known at import.
#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

using pb::TensorProto;

TEST(OnnxHostOperators, NonZeroListsPositionsByAxis) {
  const Computed found = OneNode("NonZero").known({2, 3}, {0, 5, 0, 1, 0, -2}).output();
  EXPECT_EQ(found.sizes, (Sizes{2, 3}));
  EXPECT_EQ(found.values, (List{0, 1, 1, 1, 0, 2}));
  EXPECT_EQ(OneNode("NonZero").known({2}, {0, 0}).output().sizes, (Sizes{1, 0}));
  EXPECT_EQ(OneNode("NonZero").known({}, {3}).output().sizes, (Sizes{0, 1}));
  EXPECT_EQ(OneNode("NonZero").known({3}, {NAN, -0.0, 1e-30}, TensorProto::FLOAT).value(), (List{0, 2}));
  EXPECT_EQ(OneNode("NonZero").known({0, 4}, {}).output().sizes, (Sizes{2, 0}));
}

TEST(OnnxHostOperators, UniqueSortsAndCounts) {
  const auto sorted = OneNode("Unique").known({6}, {2, 1, 1, 3, 4, 3}).outputs(4);
  EXPECT_EQ(sorted[0].values, (List{1, 2, 3, 4}));
  EXPECT_EQ(sorted[1].values, (List{1, 0, 3, 4}));
  EXPECT_EQ(sorted[2].values, (List{1, 0, 0, 2, 3, 2}));
  EXPECT_EQ(sorted[3].values, (List{2, 1, 2, 1}));
  const auto seen = OneNode("Unique").known({6}, {2, 1, 1, 3, 4, 3}).integer("sorted", 0).outputs(4);
  EXPECT_EQ(seen[0].values, (List{2, 1, 3, 4}));
  EXPECT_EQ(seen[1].values, (List{0, 1, 3, 4}));
  EXPECT_EQ(seen[2].values, (List{0, 1, 1, 2, 3, 2}));
  EXPECT_EQ(seen[3].values, (List{1, 2, 2, 1}));
}

TEST(OnnxHostOperators, UniqueOrdersByValue) {
  const List floats = OneNode("Unique").known({6}, {1, -1, -0.0, 0, -2, 1}, TensorProto::FLOAT).value();
  EXPECT_EQ(floats, (List{-2, -1, 0, 1}));
  // NaNs are one, and last.
  const List with_nan = OneNode("Unique").known({4}, {NAN, 3, NAN, INFINITY}, TensorProto::FLOAT).value();
  ASSERT_EQ(with_nan.size(), 3U);
  EXPECT_TRUE(std::isnan(with_nan[2]));
  EXPECT_EQ(OneNode("Unique").known({3}, {200, 1, 100}, TensorProto::UINT8).value(), (List{1, 100, 200}));
}

TEST(OnnxHostOperators, UniqueTakesSlices) {
  // Columns (1 3), (0 2), (1 3).
  const auto columns = OneNode("Unique").known({2, 3}, {1, 0, 1, 3, 2, 3}).integer("axis", -1).outputs(3);
  EXPECT_EQ(columns[0].sizes, (Sizes{2, 2}));
  EXPECT_EQ(columns[0].values, (List{0, 1, 2, 3}));
  EXPECT_EQ(columns[1].values, (List{1, 0}));
  EXPECT_EQ(columns[2].values, (List{1, 0, 1}));
}

TEST(OnnxHostOperators, CompressTakesWhatTheConditionSays) {
  EXPECT_EQ(OneNode("Compress").known({4}, {1, 2, 3, 4}).known({3}, {0, 1, 1}, TensorProto::BOOL).value(),
            (List{2, 3}));
  expect_invalid(OneNode("Compress").known({2}, {1, 2}).known({3}, {0, 1, 1}, TensorProto::BOOL).error(),
                 "The condition has 3 elements; the axis has 2.");
}

OneNode boxes() {
  // The second box covers most of the first, the third none of them.
  OneNode node("NonMaxSuppression");
  node.known({1, 3, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11}, TensorProto::FLOAT);
  node.known({1, 1, 3}, {0.9, 0.75, 0.6}, TensorProto::FLOAT);
  return node;
}

TEST(OnnxHostOperators, NonMaxSuppressionKeepsTheBest) {
  EXPECT_EQ(boxes().known({1}, {3}).known({1}, {0.5}, TensorProto::FLOAT).value(), (List{0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(boxes().known({1}, {3}).known({1}, {0.9}, TensorProto::FLOAT).value(), (List{0, 0, 0, 0, 0, 1, 0, 0, 2}));
  EXPECT_EQ(boxes().known({1}, {1}).known({1}, {0.5}, TensorProto::FLOAT).value(), (List{0, 0, 0}));
  EXPECT_EQ(boxes().known({1}, {3}).known({1}, {0.5}, TensorProto::FLOAT).known({1}, {0.7}, TensorProto::FLOAT).value(),
            (List{0, 0, 0}));
  // Without a number of boxes there are none.
  EXPECT_EQ(boxes().output().sizes, (Sizes{0, 3}));
  OneNode wrong("NonMaxSuppression");
  wrong.known({1, 3, 4}, List(12, 1), TensorProto::FLOAT).known({1, 1, 2}, {1, 2}, TensorProto::FLOAT);
  expect_invalid(wrong.error(), "Boxes [1, 3, 4] and scores [1, 1, 2] do not go together");
}

OneNode grams(const std::string& mode) {
  OneNode node("TfIdfVectorizer");
  node.known({8}, {1, 5, 2, 5, 2, 5, 9, 7});
  node.text("mode", mode).integer("min_gram_length", 1).integer("max_gram_length", 2).integer("max_skip_count", 1);
  return node.integers("pool_int64s", {5, 9, 5, 2, 2, 9})
      .integers("ngram_counts", {0, 2})
      .integers("ngram_indexes", {3, 0, 1, 2})
      .reals("weights", {0.5F, 1, 2, 4});
}

TEST(OnnxHostOperators, TfIdfCountsAndWeighs) {
  // 5: three times; 9: once; 5 2: next to each other twice, not with a word between; 2 9: once, with one word between.
  EXPECT_EQ(grams("TF").value(), (List{1, 2, 1, 3}));
  EXPECT_EQ(grams("IDF").value(), (List{1, 2, 4, 0.5}));
  EXPECT_EQ(grams("TFIDF").value(), (List{1, 4, 4, 1.5}));
  expect_invalid(grams("DF").error(), "Attribute 'mode' is 'DF'");
  expect_invalid(OneNode("TfIdfVectorizer").known({2}, {1, 2}).error(), "is missing");
}

}  // namespace
}  // namespace vkfuse::onnx
