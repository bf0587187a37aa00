// Models that compute shapes from the sizes of their inputs, as exporters with dynamic axes write them: they stay
// symbolic, and one program serves all sizes.
#include "onnx/symbolic_sizes.hpp"

#include "api/program.hpp"
#include "api/tensor_node.hpp"
#include "support/compare.hpp"
#include "unit/onnx/net.hpp"
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;
using pb::TensorProto;

TEST(OnnxSymbolicSizes, FollowWhatAModelComputes) {
  const Dim n = Dim::any("n"), m = Dim::any("m");
  const auto list = [](std::initializer_list<Tensor> parts) {
    std::vector<Tensor> all;
    for (const Tensor& part : parts) all.push_back(part.unsqueeze(0));
    return concat(all, 0);
  };
  const auto number = [](std::int64_t value) { return Tensor::scalar_int(DType::i64, value); };
  const Tensor a = size_tensor(n), b = size_tensor(m);
  using Dims = std::vector<std::optional<Dim>>;
  EXPECT_EQ(symbolic_elements(list({a, number(-1), b})), (Dims{n, Dim(-1), m}));
  EXPECT_EQ(symbolic_elements(list({a * number(12) / number(12), a * b / b, a - a, a + number(0), a + b - b})),
            (Dims{n, n, Dim(0), n, std::nullopt}));
  EXPECT_EQ(symbolic_elements(list({a * b, a * number(2), a / number(2), a + number(1)})),
            (Dims{std::nullopt, std::nullopt, std::nullopt, std::nullopt}));
  EXPECT_EQ(symbolic_elements(a.cast(DType::i32).cast(DType::i64)), (Dims{n}));
  // Through what is narrower, or a float, it may be another number.
  EXPECT_EQ(symbolic_elements(a.cast(DType::i8).cast(DType::i64)), (Dims{std::nullopt}));
  EXPECT_EQ(symbolic_elements(a.cast(DType::f32).cast(DType::i64)), (Dims{std::nullopt}));
  // Whether a size is -1 is known, whether it is 1 is not.
  const auto chosen = [&](std::int64_t than) {
    return Tensor::apply("select", {Tensor::apply("eq", {a, number(than)}), number(7), a});
  };
  EXPECT_EQ(symbolic_elements(chosen(-1)), (Dims{n}));
  EXPECT_EQ(symbolic_elements(chosen(1)), (Dims{std::nullopt}));
  EXPECT_EQ(symbolic_elements(list({a, b}).slice(0, 1, 2)), (Dims{m}));
  EXPECT_EQ(symbolic_elements(list({a, b, number(3)}).gather(list({number(2), number(0)}), 0)), (Dims{Dim(3), n}));
  // What is data has no sizes.
  EXPECT_EQ(symbolic_elements(Tensor::input("x", DType::i64, {1})), (Dims{std::nullopt}));
}

TEST(OnnxSymbolicSizes, ArePricedByNobodyWhoDoesNotReadThem) {
  // A sum of ones that is read counts them.
  const Tensor count = size_tensor(Dim::any("n"));
  const auto graph = api::to_graph({&count, 1}, {}, "count");
  ASSERT_TRUE(graph.ok());
  const auto column = reference::evaluate(*graph, graph->outputs()[0].value, {{}, {{"n", 37}}});
  ASSERT_TRUE(column.ok()) << column.error().text();
  EXPECT_EQ(column->integer, (std::vector<std::int64_t>{37}));
}

/// Attention with heads as torch.onnx.export writes it where batch and length are dynamic.
class Exported {
 public:
  explicit Exported(std::int64_t opset = 18) : net(opset) {}

  Net net;
  const std::int64_t heads = 2, size = 4, width = 8;

  std::string entry(const std::string& shape, std::int64_t axis) {
    const std::string index = net.node("Constant", {}, {{"value_int", axis}});
    return net.node("Unsqueeze", {net.node("Gather", {shape, index}, {{"axis", std::int64_t{0}}}), net.ints({0})});
  }
  std::string split(const std::string& x, const std::string& shape) {
    const std::string wanted = net.node(
        "Concat", {entry(shape, 0), net.ints({-1}), net.ints({heads}), net.ints({size})}, {{"axis", std::int64_t{0}}});
    return net.transpose(net.node("Reshape", {x, wanted}), {0, 2, 1, 3});
  }
  /// Expand to [batch, 1, length, length] by way of Where and Equal, as exporters do.
  std::string expanded(const std::string& mask, const std::string& shape) {
    const std::string wanted = net.node("Concat", {entry(shape, 0), net.ints({1}), entry(shape, 1), entry(shape, 1)},
                                        {{"axis", std::int64_t{0}}});
    const std::string ones = net.node("ConstantOfShape", {net.ints({4})});
    static_cast<void>(ones);
    const std::string asked = net.node("Equal", {wanted, net.ints({-1, -1, -1, -1})});
    return net.node("Expand", {mask, net.node("Where", {asked, net.ints({1, 1, 1, 1}), wanted})});
  }

  /// x [batch, length] of token ids to scores.
  ModelProto model() {
    const std::string ids = net.input("ids", {1, 1}, TensorProto::INT64);
    const std::string shape = net.node("Shape", {ids});
    const std::string words = net.node("Gather", {net.weight({50, width}, 1), ids});
    // The first `length` of 32 positions.
    const std::string positions =
        net.node("Slice", {net.weight({1, 32, width}, 1), net.ints({0}), entry(shape, 1), net.ints({1})});
    std::string x = net.node("Add", {words, positions});
    // Keys behind the query are masked: positions of the run compared with each other.
    const std::string zero = net.node("Constant", {}, {{"value_int", std::int64_t{0}}}),
                      one = net.node("Constant", {}, {{"value_int", std::int64_t{1}}});
    const std::string length = net.node("Squeeze", {entry(shape, 1), net.ints({0})});
    const std::string range = net.node("Range", {zero, length, one});
    const std::string behind = net.node(
        "Less", {net.node("Unsqueeze", {range, net.ints({1})}), net.node("Unsqueeze", {range, net.ints({0})})});
    const std::string mask = expanded(
        net.node("Unsqueeze", {net.node("Where", {behind, net.number(-1e9), net.number(0)}), net.ints({0, 1})}), shape);
    const std::string normal = net.written_layer_norm(x, width);
    const std::string q = split(net.linear(normal, width, width), shape),
                      k = split(net.linear(normal, width, width), shape),
                      v = split(net.linear(normal, width, width), shape);
    const std::string scores =
        net.node("Mul", {net.node("MatMul", {q, net.transpose(k, {0, 1, 3, 2})}), net.number(0.5)});
    const std::string weights = net.node("Softmax", {net.node("Add", {scores, mask})}, {{"axis", std::int64_t{-1}}});
    const std::string back = net.transpose(net.node("MatMul", {weights, v}), {0, 2, 1, 3});
    const std::string joined =
        net.node("Concat", {entry(shape, 0), entry(shape, 1), net.ints({width})}, {{"axis", std::int64_t{0}}});
    x = net.node("Add", {x, net.linear(net.node("Reshape", {back, joined}), width, width)});
    // Scores of the last token.
    const std::string last = net.node("Gather", {x, net.node("Constant", {}, {{"value_int", std::int64_t{-1}}})},
                                      {{"axis", std::int64_t{1}}});
    net.output(net.linear(last, width, 5));
    net.output(x);
    ModelProto made = net.model();
    auto* dims = made.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    dims->mutable_dim(0)->set_dim_param("batch");
    dims->mutable_dim(1)->set_dim_param("length");
    return made;
  }
};

TEST(OnnxSymbolicSizes, OneProgramServesEverySize) {
  const ModelProto model = Exported().model();
  const Result<OnnxModel> imported = import(model);
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  EXPECT_EQ(imported->outputs[1].shape(), (Shape{Dim::any("batch"), Dim::any("length"), 8}));
  // The table of positions has 32 rows.
  EXPECT_EQ(imported->inputs[0].shape()[1].facts().max, 32);
  const auto graph = api::to_graph(imported->outputs, imported->output_names, "exported");
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  const Executable program = test::compile_graph(*graph, {});
  for (const auto& [batch, length] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {2, 7}, {3, 32}}) {
    test::Data data;
    data.symbols = {{"batch", batch}, {"length", length}};
    for (std::int64_t i = 0; i < batch * length; ++i) ir::encode_int(DType::i64, (i * 7) % 50, data.inputs["ids"]);
    const test::GuardedRun run = test::run_guarded(program, *graph, data);
    EXPECT_EQ(run.broken, "");
    for (const auto& [name, column] : test::expected(*graph, data)) {
      const auto& got = run.outputs.at(name);
      const reference::Comparison found = reference::compare(DType::f32, got, column);
      EXPECT_EQ(found.wrong, 0) << batch << " x " << length << ": " << found.first_wrong;
      EXPECT_EQ(found.undecided, 0);
    }
  }
  std::vector<std::int64_t> ids(33, 1);
  const auto refused = program.run({{"ids", HostView(ids, {1, 33})}});
  ASSERT_FALSE(refused.ok());
  expect_invalid(refused.error(), "The dimension 'length' is 33, but it was declared as min 0, max 32");
}

TEST(OnnxSymbolicSizes, AreTheNumbersOfTheRunWhereTheyAreRead) {
  // The size as a value: x * length.
  ModelProto model = empty_model(17);
  add_input(model, "x", {1}).mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("n");
  add_node(model, "Shape", {"x"}, {"shape"});
  add_int(add_node(model, "Cast", {"shape"}, {"count"}), "to", TensorProto::FLOAT);
  add_node(model, "Mul", {"x", "count"}, {"y"});
  add_node(model, "Size", {"x"}, {"z"});
  add_output(model, "y");
  add_output(model, "z");
  const Result<OnnxModel> imported = import(model);
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  const auto program = compile(test::device(), imported->outputs, {.output_names = imported->output_names});
  ASSERT_TRUE(program.ok()) << program.error().text();
  const std::vector<float> x{1, 2, 3};
  const auto outputs = program->run({{"x", HostView(x, {3})}});
  ASSERT_TRUE(outputs.ok()) << outputs.error().text();
  EXPECT_EQ(outputs->at("y").as<float>()[2], 9);
  EXPECT_EQ(outputs->at("z").as<std::int64_t>()[0], 3);
}

}  // namespace
}  // namespace vkfuse::onnx
