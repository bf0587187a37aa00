// Softmax and its kin over an axis of 0: nothing is divided, and what chooses an element refuses.
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kInt64 = pb::TensorProto::INT64;

TEST(OnnxSoftmax, OverAnAxisOfNothingIsEmpty) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    for (const std::int64_t opset : {11, 13}) {
      const Computed last = OneNode(op, opset).input({3, 0}, {}).integer("axis", -1).output();
      EXPECT_EQ(last.sizes, (Sizes{3, 0})) << op << " of opset " << opset;
      const Computed middle = OneNode(op, opset).input({2, 0, 4}, {}).integer("axis", 1).output();
      EXPECT_EQ(middle.sizes, (Sizes{2, 0, 4})) << op << " of opset " << opset;
    }
  }
}

TEST(OnnxSoftmax, AnElementOfNothingIsNone) {
  OneNode loss = OneNode("SoftmaxCrossEntropyLoss", 13).input({3, 0}, {}).input({3}, {0, 0, 0}, kInt64);
  expect_invalid(loss.error(), "which has no elements");
  expect_invalid(OneNode("ArgMax", 13).input({3, 0}, {}).integer("axis", 1).error(), "has no elements to choose from");
}

TEST(OnnxSoftmax, AttentionWithoutKeysIsZero) {
  OneNode node("Attention", 23);
  node.input({1, 1, 2, 4}, List(8, 1)).input({1, 1, 0, 4}, {}).input({1, 1, 0, 3}, {});
  EXPECT_EQ(node.output().sizes, (Sizes{1, 1, 2, 3}));
  EXPECT_EQ(node.value(), List(6, 0));
}

}  // namespace
}  // namespace vkfuse::onnx
