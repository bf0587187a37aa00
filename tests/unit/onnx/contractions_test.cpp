// Products, convolutions, attention and recurrent operators, beyond what ONNX 1.12's node tests try.
#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kInt8 = pb::TensorProto::INT8;
const auto kUint8 = pb::TensorProto::UINT8;
const auto kInt32 = pb::TensorProto::INT32;
const auto kFloat = pb::TensorProto::FLOAT;
const auto kBool = pb::TensorProto::BOOL;
const List kFour{1, 2, 3, 4};

// --- products --------------------------------------------------------------------------------------------------------

TEST(OnnxProducts, MatMulOfVectorsAndBatches) {
  EXPECT_EQ(OneNode("MatMul").input({2}, {1, 2}).input({2}, {3, 4}).value(), (List{11}));
  EXPECT_EQ(OneNode("MatMul").input({2}, {1, 2}).input({2, 2}, kFour).value(), (List{7, 10}));
  EXPECT_EQ(OneNode("MatMul").input({2, 1, 2}, kFour).input({2, 1}, {1, 10}).value(), (List{21, 43}));
  EXPECT_EQ(OneNode("MatMul").input({2, 2}, kFour, kInt32).input({2, 2}, kFour, kInt32).value(), (List{7, 10, 15, 22}));
}

TEST(OnnxProducts, GemmScalesAndTransposes) {
  const auto gemm = [] { return OneNode("Gemm").input({2, 2}, kFour).input({2, 2}, {1, 10, 100, 1000}); };
  EXPECT_EQ(gemm().value(), (List{201, 2010, 403, 4030}));
  EXPECT_EQ(gemm().integer("transA", 1).integer("transB", 1).value(), (List{31, 3100, 42, 4200}));
  EXPECT_EQ(gemm().input({2}, {1, 2}).real("alpha", 2).real("beta", -1).value(), (List{401, 4018, 805, 8058}));
  const auto whole = OneNode("Gemm").input({1, 1}, {3}, kInt32).input({1, 1}, {4}, kInt32).real("alpha", 0.5F);
  expect_unsupported(OneNode(whole).error(), "Attribute 'alpha' is 0.5; on i32 it must be a whole number.");
  expect_invalid(OneNode("Gemm").input({2}, {1, 2}).input({2, 2}, kFour).error(),
                 "Operand 0 of operator 'Gemm' is [2]; it must be a matrix.");
}

TEST(OnnxProducts, IntegersLessTheirZeroPoints) {
  const auto product = [] {
    return OneNode("MatMulInteger").input({2, 2}, {1, 2, 253, 254}, kUint8).input({2, 2}, {-1, 2, 3, -4}, kInt8);
  };
  EXPECT_EQ(product().value(), (List{5, -6, 509, -510}));
  EXPECT_EQ(product().input({}, {1}, kUint8).value(), (List{3, -4, 507, -508}));
  EXPECT_EQ(product().input({2}, {1, 250}, kUint8).input({2}, {1, 2}, kInt8).value(), (List{2, -6, 2, -24}));
  EXPECT_EQ(product().input({2, 1}, {1, 250}, kUint8).input({1, 2}, {1, 2}, kInt8).value(), (List{2, -6, 2, -24}));
  expect_unsupported(OneNode("MatMulInteger").input({1, 1}, {1}, kInt32).input({1, 1}, {1}, kInt32).error(),
                     "Operand 0 is i32; quantised integers have 8 or 16 bits.");
}

TEST(OnnxProducts, QuantisedProductsSaturate) {
  const auto product = [](float scale, const List& zero) {
    return OneNode("QLinearMatMul")
        .input({1, 2}, {10, 20}, kInt8)
        .input({}, {0.5})
        .input({}, {0}, kInt8)
        .input({2, 2}, {1, 2, 3, -4}, kInt8)
        .input({2}, {1, 2})
        .input({}, {0}, kInt8)
        .input({}, {static_cast<double>(scale)})
        .input({}, zero, kInt8);
  };
  EXPECT_EQ(product(1, {0}).value(), (List{35, -60}));
  EXPECT_EQ(product(0.25F, {-10}).value(), (List{127, -128}));
}

TEST(OnnxProducts, EinsumContracts) {
  const auto einsum = [](const std::string& equation) { return OneNode("Einsum").text("equation", equation); };
  const List six{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(einsum("ij,jk->ik").input({2, 3}, six).input({3, 2}, six).value(), (List{22, 28, 49, 64}));
  EXPECT_EQ(einsum("ij,jk->ki").input({2, 3}, six).input({3, 2}, six).value(), (List{22, 49, 28, 64}));
  EXPECT_EQ(einsum("ij,ij->").input({2, 3}, six).input({2, 3}, six).value(), (List{91}));
  EXPECT_EQ(einsum("bij,bjk->bik").input({2, 1, 2}, kFour).input({2, 2, 1}, kFour).value(), (List{5, 25}));
  EXPECT_EQ(einsum("...ij,...jk->...ik").input({1, 1, 2}, {1, 2}).input({2, 2, 1}, kFour).value(), (List{5, 11}));
  EXPECT_EQ(einsum("ij,jk,kl->il").input({1, 2}, {1, 2}).input({2, 2}, kFour).input({2, 1}, {1, 10}).value(),
            (List{107}));
  EXPECT_EQ(einsum("ij,kj->ijk").input({1, 2}, {1, 2}).input({2, 2}, kFour).value(), (List{1, 3, 4, 8}));
  EXPECT_EQ(einsum("ij,k->k").input({2, 2}, kFour).input({2}, {1, 2}).value(), (List{10, 20}));
  EXPECT_EQ(einsum("ij,ij->i").input({2, 1}, {1, 2}).input({2, 2}, kFour).value(), (List{3, 14}));
}

// --- convolutions
// ------------------------------------------------------------------------------------------------------

TEST(OnnxConvolutions, PadAndShareAsStated) {
  const auto conv = [](const std::string& op) { return OneNode(op).input({1, 1, 4}, kFour).input({1, 1, 2}, {1, 10}); };
  EXPECT_EQ(conv("Conv").value(), (List{21, 32, 43}));
  EXPECT_EQ(conv("Conv").input({1}, {0.5}).integers("pads", {1, 0}).value(), (List{10.5, 21.5, 32.5, 43.5}));
  EXPECT_EQ(conv("Conv").text("auto_pad", "SAME_UPPER").value(), (List{21, 32, 43, 4}));
  EXPECT_EQ(conv("Conv").text("auto_pad", "SAME_LOWER").integers("strides", {2}).value(), (List{21, 43}));
  EXPECT_EQ(conv("ConvTranspose").value(), (List{1, 12, 23, 34, 40}));
  EXPECT_EQ(conv("ConvTranspose").integers("strides", {2}).integers("output_padding", {1}).value(),
            (List{1, 10, 2, 20, 3, 30, 4, 40, 0}));
  EXPECT_EQ(conv("ConvTranspose").integers("strides", {2}).integers("output_shape", {7}).value(),
            (List{10, 2, 20, 3, 30, 4, 40}));
  EXPECT_EQ(conv("ConvTranspose")
                .integers("strides", {2})
                .integers("output_shape", {7})
                .text("auto_pad", "SAME_UPPER")
                .value(),
            (List{1, 10, 2, 20, 3, 30, 4}));
  EXPECT_EQ(conv("ConvTranspose").integers("strides", {2}).integers("output_shape", {9}).value(),
            (List{1, 10, 2, 20, 3, 30, 4, 40, 0}));
  EXPECT_EQ(conv("ConvTranspose").text("auto_pad", "VALID").integers("pads", {1, 1}).value(),
            (List{1, 12, 23, 34, 40}));
}

TEST(OnnxConvolutions, RefuseWhatDoesNotFit) {
  const auto conv = [](const Sizes& w, const List& values) {
    return OneNode("Conv").input({1, 1, 4}, kFour).input(w, values);
  };
  expect_invalid(conv({1, 1, 2}, {1, 2}).integers("kernel_shape", {3}).error(),
                 "Attribute 'kernel_shape' is [3]; the kernel is [2].");
  expect_invalid(conv({1, 1, 5}, {1, 2, 3, 4, 5}).error(), "A window over 5 elements does not fit");
  expect_invalid(conv({1, 2}, {1, 2}).error(), "both must have as many axes, and at least 3");
  expect_invalid(conv({1, 1, 2}, {1, 2}).integer("group", 3).error(), "in 3 groups does not fit");
  expect_invalid(conv({1, 1, 2}, {1, 2}).input({2}, {1, 2}).error(),
                 "Operand 2 has the shape [2], but axis 1 of [1, 1, 3] asks for [1].");
}

TEST(OnnxConvolutions, OfIntegersPadWithTheirZeroPoint) {
  const auto conv = [] {
    return OneNode("ConvInteger")
        .input({1, 1, 3}, {10, 11, 12}, kUint8)
        .input({2, 1, 2}, kFour, kUint8)
        .integers("pads", {1, 0});
  };
  EXPECT_EQ(conv().value(), (List{20, 32, 35, 40, 74, 81}));
  EXPECT_EQ(conv().input({}, {10}, kUint8).value(), (List{0, 2, 5, 0, 4, 11}));
  EXPECT_EQ(conv().input({}, {10}, kUint8).input({2}, {1, 3}, kUint8).value(), (List{0, 1, 2, 0, 1, 2}));
}

// --- attention
// -------------------------------------------------------------------------------------------------------------

OneNode attention(std::int64_t opset = 24) {
  // One head of size 1: scores are products of numbers.
  return OneNode("Attention", opset)
      .input({1, 1, 2, 1}, {0, 2})
      .input({1, 1, 2, 1}, {0, 1})
      .input({1, 1, 2, 1}, {10, 20});
}
double mixed(double score) { return (10 + 20 * std::exp(score)) / (1 + std::exp(score)); }

TEST(OnnxAttention, MasksAndCaps) {
  expect_near(attention().value(), {15, mixed(2)});
  expect_near(attention().integer("is_causal", 1).value(), {10, mixed(2)});
  expect_near(attention().real("scale", 0.5F).real("softcap", 2).value(), {15, mixed(2 * std::tanh(0.5))});
  // The cap comes before the mask: what is masked has no weight at all.
  expect_near(attention().input({2, 2}, {0, -INFINITY, 0, 0}).real("softcap", 2).value(),
              {10, mixed(2 * std::tanh(1))});
  expect_near(attention().input({2, 2}, {0, 1, 1, 0}, kBool).value(), {20, 10});
  // A mask that ends early leaves out the keys behind it; a query without any key gets zeros.
  expect_near(attention().input({2, 1}, {1, 0}, kBool).value(), {10, 0});
  expect_near(attention().input({1, 1, 2, 2}, {1, 0, 0, 0}, kBool).value(), {10, 0});
}

TEST(OnnxAttention, CountsKeysAndKeepsThePast) {
  const auto counted = [](double count) {
    return attention().absent().absent().absent().input({1}, {count}, pb::TensorProto::INT64);
  };
  expect_near(counted(2).value(), {15, mixed(2)});
  expect_near(counted(1).value(), {10, 10});
  // Two queries that end with the first key: one of them looks at nothing.
  expect_near(counted(1).integer("is_causal", 1).value(), {0, 10});
  auto past = attention().absent().input({1, 1, 1, 1}, {1}).input({1, 1, 1, 1}, {40}).integer("is_causal", 1);
  const std::vector<Computed> outputs = past.outputs(3);
  expect_near(outputs[0].values, {25, (40 * std::exp(2) + 10 + 20 * std::exp(2)) / (1 + 2 * std::exp(2))});
  EXPECT_EQ(outputs[1].values, (List{1, 0, 1}));
  EXPECT_EQ(outputs[2].values, (List{40, 10, 20}));
}

TEST(OnnxAttention, ShowsItsScores) {
  const auto scores = [](std::int64_t mode) {
    return attention()
        .input({2, 2}, {0, 1, 0, 1})
        .real("softcap", 4)
        .integer("qk_matmul_output_mode", mode)
        .outputs(4)[3]
        .values;
  };
  expect_near(scores(0), {0, 0, 0, 2});
  expect_near(scores(1), {0, 0, 0, 4 * std::tanh(0.5)});
  expect_near(scores(2), {0, 1, 0, 4 * std::tanh(0.5) + 1});
  expect_near(scores(3), {1 / (1 + std::exp(1)), 1 - 1 / (1 + std::exp(1)), 1 / (1 + std::exp(4 * std::tanh(0.5) + 1)),
                          1 - 1 / (1 + std::exp(4 * std::tanh(0.5) + 1))});
  expect_invalid(attention().integer("qk_matmul_output_mode", 4).error(4),
                 "Attribute 'qk_matmul_output_mode' is 4; it must be 0 to 3.");
}

TEST(OnnxAttention, TakesHeadsSideBySide) {
  auto flat = OneNode("Attention", 23)
                  .input({1, 1, 4}, {0, 0, 1, 0})
                  .input({1, 2, 2}, {0, 0, 2, 0})
                  .input({1, 2, 1}, {10, 20})
                  .integer("q_num_heads", 2)
                  .integer("kv_num_heads", 1);
  const Computed output = flat.real("scale", 1).output();
  EXPECT_EQ(output.sizes, (Sizes{1, 1, 2}));
  expect_near(output.values, {15, mixed(2)});
  expect_invalid(OneNode("Attention", 23)
                     .input({1, 1, 4}, kFour)
                     .input({1, 1, 4}, kFour)
                     .input({1, 1, 4}, kFour)
                     .integer("q_num_heads", 3)
                     .integer("kv_num_heads", 1)
                     .error(),
                 "Attribute 'q_num_heads' is 3; it must divide the 4 elements of the last axis of operand 0.");
}

// --- one step after the other
// ------------------------------------------------------------------------------------------------

/// One unit: h' = f(x + h / 2).
OneNode rnn(const std::string& direction, std::int64_t directions) {
  const auto n = static_cast<std::size_t>(directions);
  return OneNode("RNN")
      .input({3, 1, 1}, {1, 2, 3})
      .input({directions, 1, 1}, List(n, 1))
      .input({directions, 1, 1}, List(n, 0.5))
      .text("direction", direction);
}
OneNode affine(OneNode node, std::int64_t directions) {
  return node.texts("activations", std::vector<std::string>(static_cast<std::size_t>(directions), "Affine"));
}

TEST(OnnxRecurrent, RunsBothWays) {
  EXPECT_EQ(affine(rnn("forward", 1), 1).value(), (List{1, 2.5, 4.25}));
  EXPECT_EQ(affine(rnn("reverse", 1), 1).value(), (List{2.75, 3.5, 3}));
  const std::vector<Computed> both = affine(rnn("bidirectional", 2), 2).outputs(2);
  EXPECT_EQ(both[0].sizes, (Sizes{3, 2, 1, 1}));
  EXPECT_EQ(both[0].values, (List{1, 2.75, 2.5, 3.5, 4.25, 3}));
  EXPECT_EQ(both[1].values, (List{4.25, 2.75}));
  expect_near(rnn("forward", 1).value(),
              {std::tanh(1), std::tanh(2 + std::tanh(1) / 2), std::tanh(3 + std::tanh(2 + std::tanh(1) / 2) / 2)});
}

TEST(OnnxRecurrent, ShorterSequencesStopAndBeginAtTheirEnd) {
  const auto lengths = [](const std::string& direction) {
    return OneNode("RNN")
        .input({3, 2, 1}, {1, 1, 2, 2, 3, 3})
        .input({1, 1, 1}, {1})
        .input({1, 1, 1}, {0.5})
        .absent()
        .input({2}, {3, 2}, kInt32)
        .texts("activations", {"Affine"})
        .text("direction", direction);
  };
  const std::vector<Computed> forward = lengths("forward").outputs(2);
  EXPECT_EQ(forward[0].values, (List{1, 1, 2.5, 2.5, 4.25, 0}));
  EXPECT_EQ(forward[1].values, (List{4.25, 2.5}));
  const std::vector<Computed> reverse = lengths("reverse").outputs(2);
  EXPECT_EQ(reverse[0].values, (List{2.75, 2, 3.5, 2, 3, 0}));
  EXPECT_EQ(reverse[1].values, (List{2.75, 2}));
}

TEST(OnnxRecurrent, TakesItsActivationsNumbers) {
  const auto one = [](const std::string& name) {
    return OneNode("RNN")
        .input({1, 2, 1}, {-3, 0.75})
        .input({1, 1, 1}, {1})
        .input({1, 1, 1}, {0})
        .texts("activations", {name});
  };
  EXPECT_EQ(one("Affine").reals("activation_alpha", {2}).reals("activation_beta", {1}).value(), (List{-5, 2.5}));
  EXPECT_EQ(one("leakyrelu").reals("activation_alpha", {0.5}).value(), (List{-1.5, 0.75}));
  EXPECT_EQ(one("ThresholdedRelu").value(), (List{0, 0}));
  EXPECT_EQ(one("HardSigmoid").reals("activation_alpha", {0.5}).value(), (List{0, 0.875}));
  expect_near(one("ScaledTanh").reals("activation_alpha", {2}).reals("activation_beta", {0.5}).value(),
              {2 * std::tanh(-1.5), 2 * std::tanh(0.375)});
  expect_near(one("Elu").value(), {std::expm1(-3), 0.75});
  expect_near(one("Softplus").value(), {std::log1p(std::exp(-3)), std::log1p(std::exp(0.75))});
  EXPECT_EQ(one("Relu").real("clip", 0.5F).value(), (List{0, 0.5}));
  expect_invalid(one("Swish").error(), "Attribute 'activations' names 'Swish', which is none of ONNX's.");
  expect_invalid(one("Relu").texts("activations", {"Relu", "Relu"}).error(),
                 "Attribute 'activations' names 2 functions; 1 are needed.");
  // What ONNX states as the default, for one direction as for two.
  EXPECT_EQ(one("Tanh").texts("activations", {"Tanh", "Tanh"}).value(), one("Tanh").value());
}

TEST(OnnxRecurrent, RefusesWhatItCannot) {
  expect_invalid(rnn("backward", 1).error(),
                 "Attribute 'direction' is 'backward'; it must be 'forward', 'reverse' or 'bidirectional'.");
  expect_invalid(rnn("bidirectional", 1).error(),
                 "Operand 1 of operator 'RNN' has the shape [1, 1, 1]; it must have [2, 1, 1].");
  expect_unsupported(
      OneNode("RNN").input({513, 1, 1}, List(513, 1)).input({1, 1, 1}, {1}).input({1, 1, 1}, {1}).error(),
      "A sequence of 513 steps is not supported; it may have 1 to 512.");
}

// --- quantisation in blocks
// ------------------------------------------------------------------------------------------------

TEST(OnnxBlocks, ShareOneScale) {
  const List eight{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(OneNode("DequantizeLinear", 21)
                .input({2, 4}, eight, kUint8)
                .input({2, 2}, {1, 10, 100, 1000})
                .input({2, 2}, {0, 1, 2, 3}, kUint8)
                .integer("block_size", 2)
                .value(),
            (List{0, 1, 10, 20, 200, 300, 3000, 4000}));
  EXPECT_EQ(OneNode("QuantizeLinear", 21)
                .input({4, 1}, {2, 4, 6, 300})
                .input({2, 1}, {2, 1})
                .input({2, 1}, {1, 0}, kUint8)
                .integer("block_size", 2)
                .integer("axis", 0)
                .value(),
            (List{2, 3, 6, 255}));
  expect_invalid(OneNode("DequantizeLinear", 21)
                     .input({2, 4}, eight, kUint8)
                     .input({2, 3}, {1, 1, 1, 1, 1, 1})
                     .integer("block_size", 2)
                     .error(),
                 "blocks of 2 along axis 1 of [2, 4] ask for [2, 2].");
  expect_invalid(
      OneNode("DequantizeLinear", 21).input({2, 4}, eight, kUint8).input({}, {1}).integer("block_size", -2).error(),
      "Attribute 'block_size' is -2");
}

/// Weights of 4 bits stay packed on the device.
TEST(OnnxBlocks, OfFourBits) {
  const auto kInt4 = static_cast<OneNode::Type>(22), kUint4 = static_cast<OneNode::Type>(21);
  const auto node = [](OneNode::Type type, const std::vector<int>& bytes) {
    return OneNode("DequantizeLinear", 21).packed({5}, bytes, type).known({}, {0.5}, kFloat);
  };
  EXPECT_EQ(node(kUint4, {0x21, 0xf3, 0x08}).value(), (List{0.5, 1, 1.5, 7.5, 4}));
  EXPECT_EQ(node(kInt4, {0x21, 0xf3, 0x08}).value(), (List{0.5, 1, 1.5, -0.5, -4}));
  EXPECT_EQ(node(kInt4, {0x21, 0xf3, 0x08}).packed({}, {0x0e}, kInt4).value(), (List{1.5, 2, 2.5, 0.5, -3}));
  expect_invalid(node(kInt4, {0x21, 0xf3}).error(), "3 bytes are needed, but 2 bytes are stored.");
  EXPECT_EQ(OneNode("QuantizeLinear", 21).input({2}, {5, 9}).known({}, {1}, kFloat).packed({}, {1}, kInt4).value(),
            (List{6, 7}));
}

}  // namespace
}  // namespace vkfuse::onnx
