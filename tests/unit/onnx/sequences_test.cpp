// Sequences of tensors: what of them is left in the graph is their elements.
#include <gtest/gtest.h>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;

/// a, b and c of f32[2] as the sequence "s"; then these nodes, of which "y" is the output.
ModelProto with_sequence(const std::function<void(ModelProto&)>& fill) {
  ModelProto model = empty_model();
  for (const char* name : {"a", "b", "c"}) add_input(model, name, {2});
  add_node(model, "SequenceConstruct", {"a", "b", "c"}, {"s"});
  fill(model);
  add_output(model, "y");
  return model;
}

void add_position(ModelProto& model, const std::string& name, std::int64_t position) {
  add_initialiser(model, name, {}, pb::TensorProto::INT64).add_int64_data(position);
}

/// With a = {1, 2}, b = {3, 4}, c = {5, 6}.
List value_of(const ModelProto& model) {
  const Result<OnnxModel> imported = import(model);
  EXPECT_TRUE(imported.ok()) << imported.error().text();
  if (!imported) return {};
  const Result<ir::Graph> graph = api::to_graph(imported->outputs, imported->output_names, "test");
  EXPECT_TRUE(graph.ok()) << graph.error().text();
  if (!graph) return {};
  const std::vector<float> a{1, 2}, b{3, 4}, c{5, 6};
  reference::InputBindings input_bindings;
  input_bindings.inputs = {
      {"a", std::as_bytes(std::span(a))}, {"b", std::as_bytes(std::span(b))}, {"c", std::as_bytes(std::span(c))}};
  const Result<reference::Column> column = reference::evaluate(*graph, graph->outputs()[0].value, input_bindings);
  EXPECT_TRUE(column.ok()) << column.error().text();
  if (!column) return {};
  return is_float(imported->outputs[0].dtype()) ? column->value : List(column->integer.begin(), column->integer.end());
}

TEST(OnnxSequences, HaveTheirElementsInOrder) {
  for (const auto& [position, first] : std::vector<std::pair<std::int64_t, double>>{{0, 1}, {2, 5}, {-1, 5}, {-3, 1}}) {
    const List got = value_of(with_sequence([at = position](ModelProto& model) {
      add_position(model, "at", at);
      add_node(model, "SequenceAt", {"s", "at"}, {"y"});
    }));
    EXPECT_EQ(got, (List{first, first + 1})) << position;
  }
}

TEST(OnnxSequences, InsertAndErase) {
  const auto joined = [](std::int64_t insert, std::int64_t erase) {
    return value_of(with_sequence([&](ModelProto& model) {
      add_position(model, "i", insert);
      add_position(model, "e", erase);
      add_node(model, "SequenceErase", {"s", "e"}, {"t"});
      add_node(model, "SequenceInsert", {"t", "c", "i"}, {"u"});
      add_int(add_node(model, "ConcatFromSequence", {"u"}, {"y"}), "axis", 0);
    }));
  };
  EXPECT_EQ(joined(0, 0), (List{5, 6, 3, 4, 5, 6}));
  EXPECT_EQ(joined(2, 1), (List{1, 2, 5, 6, 5, 6}));
  EXPECT_EQ(joined(-1, -1), (List{1, 2, 5, 6, 3, 4}));
  EXPECT_EQ(value_of(with_sequence([](ModelProto& model) {
              add_node(model, "SequenceErase", {"s"}, {"t"});
              add_node(model, "SequenceInsert", {"t", "a"}, {"u"});
              pb::NodeProto& node = add_node(model, "ConcatFromSequence", {"u"}, {"y"});
              add_int(node, "axis", -1);
              add_int(node, "new_axis", 1);
            })),
            (List{1, 3, 1, 2, 4, 2}));
}

TEST(OnnxSequences, ComeFromSplits) {
  const auto split = [](const std::vector<std::int64_t>& sizes, bool scalar, std::int64_t at, std::int64_t keep) {
    return value_of(with_sequence([&](ModelProto& model) {
      pb::NodeProto& all = add_node(model, "Concat", {"a", "b", "c"}, {"x"});
      add_int(all, "axis", 0);
      if (scalar) add_position(model, "sizes", sizes[0]);
      if (!scalar && !sizes.empty()) add_int64s(model, "sizes", sizes);
      pb::NodeProto& node = add_node(model, "SplitToSequence", {"x", sizes.empty() ? "" : "sizes"}, {"t"});
      add_int(node, "keepdims", keep);
      add_position(model, "at", at);
      add_node(model, "SequenceAt", {"t", "at"}, {"y"});
    }));
  };
  EXPECT_EQ(split({}, false, 3, 1), (List{4}));
  EXPECT_EQ(split({}, false, 3, 0), (List{4}));
  EXPECT_EQ(split({1, 0, 5}, false, 2, 0), (List{2, 3, 4, 5, 6}));
  EXPECT_EQ(split({4}, true, 0, 1), (List{1, 2, 3, 4}));
  EXPECT_EQ(split({4}, true, 1, 1), (List{5, 6}));
}

TEST(OnnxSequences, KnowTheirLength) {
  EXPECT_EQ(value_of(with_sequence([](ModelProto& model) { add_node(model, "SequenceLength", {"s"}, {"y"}); })),
            (List{3}));
  EXPECT_EQ(value_of(with_sequence([](ModelProto& model) {
              add_node(model, "SequenceEmpty", {}, {"t"});
              add_node(model, "SequenceLength", {"t"}, {"y"});
            })),
            (List{0}));
}

Error refused(const std::function<void(ModelProto&)>& fill) {
  const Result<OnnxModel> imported = import(with_sequence(fill));
  EXPECT_FALSE(imported.ok());
  return imported ? Error{} : imported.error();
}

TEST(OnnxSequences, SayWhatTheyCannotDo) {
  expect_invalid(refused([](ModelProto& model) { add_node(model, "Neg", {"s"}, {"y"}); }),
                 "Operand 0 of operator 'Neg' is a sequence; it must be a tensor.");
  expect_invalid(refused([](ModelProto& model) { add_node(model, "SequenceLength", {"a"}, {"y"}); }),
                 "Operand 0 of operator 'SequenceLength' is a tensor; it must be a sequence.");
  expect_unsupported(refused([](ModelProto& model) {
                       add_node(model, "SequenceInsert", {"s", "a"}, {"y"});
                     }),
                     "Output 'y' is a sequence, which is not supported.");
  expect_invalid(refused([](ModelProto& model) {
                   add_position(model, "at", 3);
                   add_node(model, "SequenceAt", {"s", "at"}, {"y"});
                 }),
                 "The position (operand 1) is 3; the sequence has 3 elements.");
  expect_unsupported(refused([](ModelProto& model) {
                       add_input(model, "at", {}, pb::TensorProto::INT64);
                       add_node(model, "SequenceAt", {"s", "at"}, {"y"});
                     }),
                     "only known when the program runs");
  expect_invalid(refused([](ModelProto& model) {
                   add_node(model, "SequenceEmpty", {}, {"t"});
                   add_node(model, "SequenceErase", {"t"}, {"y"});
                 }),
                 "takes from an empty sequence");
  expect_invalid(refused([](ModelProto& model) {
                   add_node(model, "SequenceEmpty", {}, {"t"});
                   add_int(add_node(model, "ConcatFromSequence", {"t"}, {"y"}), "axis", 0);
                 }),
                 "joins an empty sequence");
  expect_invalid(refused([](ModelProto& model) {
                   add_int64s(model, "sizes", {1, 2});
                   add_node(model, "SplitToSequence", {"a", "sizes"}, {"y"});
                 }),
                 "The parts are [1, 2]; they must add up to the 2 elements");
}

/// A short file must not become gigabytes of lists.
TEST(OnnxSequences, AreBounded) {
  expect_unsupported(refused([](ModelProto& model) {
                       add_input(model, "x", {1 << 20});
                       add_node(model, "SplitToSequence", {"x"}, {"t"});
                       add_node(model, "SequenceLength", {"t"}, {"y"});
                     }),
                     "A sequence has 1048576 elements, more than the 1024 that are supported.");
  expect_unsupported(
      refused([](ModelProto& model) {
        add_input(model, "x", {1000});
        add_node(model, "SplitToSequence", {"x"}, {"t0"});
        for (int i = 0; i < 300; ++i) {
          add_node(model, "SequenceInsert", {"t" + std::to_string(i), "a"}, {"t" + std::to_string(i + 1)});
          add_node(model, "SequenceErase", {"t" + std::to_string(i + 1)}, {"u" + std::to_string(i)});
          model.mutable_graph()->mutable_node(model.graph().node_size() - 2)->set_input(0, "t0");
        }
        add_node(model, "SequenceLength", {"t0"}, {"y"});
      }),
      "The sequences of the model have more than 262144 elements together.");
}

}  // namespace
}  // namespace vkfuse::onnx
