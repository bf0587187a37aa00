// Sequences of more steps than are planned at once, against the reference's unrolled ones.
#include "onnx/long_recurrence.hpp"

#include <gtest/gtest.h>

#include <random>

#include "api/tensor_node.hpp"
#include "onnx/onnx_program.hpp"
#include "reference/reference.hpp"
#include "support/device.hpp"
#include "unit/onnx/models.hpp"
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;

struct Sequence {
  const char* name;
  const char* op;
  std::int64_t gates, steps, directions;
  const char* direction;
  std::int64_t layout;
  bool has_lengths, has_states, has_computed_weights;
  friend std::ostream& operator<<(std::ostream& out, const Sequence& sequence) { return out << sequence.name; }
};

constexpr std::int64_t kBatch = 2, kWidth = 3, kHidden = 4;

class LongRecurrences : public testing::TestWithParam<Sequence> {
 protected:
  LongRecurrences() : random_(7) {}

  std::vector<float> numbers(const Sizes& sizes) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    std::normal_distribution<float> normal(0, 0.4F);
    std::vector<float> all(static_cast<std::size_t>(count));
    for (float& one : all) one = normal(random_);
    return all;
  }
  std::string weight(const std::string& name, const Sizes& sizes) {
    pb::TensorProto& tensor = add_initialiser(model_, name, sizes);
    for (const float one : numbers(sizes)) tensor.add_float_data(one);
    return name;
  }
  std::string input(const std::string& name, const Sizes& sizes) {
    add_input(model_, name, sizes);
    given_.emplace_back(name, numbers(sizes));
    return name;
  }

  void write() {
    const Sequence& how = GetParam();
    const auto outside_in = [&](const Sizes& sizes) {  // the batch first
      return how.layout == 0 ? sizes : Sizes{sizes[1], sizes[0], sizes[2]};
    };
    const Sizes state = outside_in({how.directions, kBatch, kHidden});
    std::vector<std::string> operands{input("x", outside_in({how.steps, kBatch, kWidth})),
                                      weight("w", {how.directions, how.gates * kHidden, kWidth}),
                                      weight("r", {how.directions, how.gates * kHidden, kHidden}),
                                      weight("b", {how.directions, 2 * how.gates * kHidden})};
    if (how.has_computed_weights) {
      add_node(model_, "Mul", {"w", input("scale", {1})}, {"scaled"});
      operands[1] = "scaled";
    }
    operands.emplace_back(how.has_lengths ? "lengths" : "");
    if (how.has_lengths) {
      pb::TensorProto& lengths = add_initialiser(model_, "lengths", {kBatch}, pb::TensorProto::INT32);
      lengths.add_int32_data(static_cast<std::int32_t>(how.steps / 2));
      lengths.add_int32_data(static_cast<std::int32_t>(how.steps));
    }
    const bool has_cell = std::string_view(how.op) == "LSTM";
    if (how.has_states) operands.push_back(input("h", state));
    if (how.has_states && has_cell) operands.push_back(input("c", state));
    std::vector<std::string> results{"y", "last_h"};
    if (has_cell) results.emplace_back("last_c");
    pb::NodeProto& node = add_node(model_, how.op, operands, results);
    add_int(node, "hidden_size", kHidden);
    add_int(node, "layout", how.layout);
    add_attribute(node, "direction", pb::AttributeProto::STRING).set_s(how.direction);
    for (const std::string& name : results) add_output(model_, name);
  }

  /// Unrolled.
  List expected(std::size_t output) {
    const Result<OnnxModel> whole = import(model_);
    EXPECT_TRUE(whole.ok()) << whole.error().text();
    const Result<ir::Graph> graph = api::to_graph(whole->outputs, whole->output_names, "test");
    EXPECT_TRUE(graph.ok()) << graph.error().text();
    reference::InputBindings bindings;
    for (const auto& [name, values] : given_) bindings.inputs.emplace(name, std::as_bytes(std::span(values)));
    const Result<reference::Column> column = reference::evaluate(*graph, graph->outputs()[output].value, bindings);
    EXPECT_TRUE(column.ok()) << column.error().text();
    return column->value;
  }

  ModelProto model_ = empty_model(14);
  std::vector<std::pair<std::string, std::vector<float>>> given_;
  std::mt19937 random_;
};

TEST_P(LongRecurrences, RunInRounds) {
  write();
  const Result<OnnxProgram> program =
      compile_model(test::device(), {std::make_unique<const ModelProto>(model_), {}}, {}, {});
  ASSERT_TRUE(program.ok()) << program.error().text();
  Inputs inputs;
  for (const auto& [name, values] : given_) inputs.emplace(name, HostView(values));
  const auto outputs = program->run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().text();
  std::size_t number = 0;
  for (const pb::ValueInfoProto& output : model_.graph().output()) {
    const std::span<const float> got = outputs->at(output.name()).as<float>();
    expect_near(List(got.begin(), got.end()), expected(number++), 2e-5);
  }
  const Result<std::string> plan = program->explain(Stage::plan, {});
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  EXPECT_NE(plan->find("kernels in rounds: 32 steps"), std::string::npos) << *plan;
}

INSTANTIATE_TEST_SUITE_P(
    Onnx, LongRecurrences,
    testing::Values(Sequence{"lstm_both_ways", "LSTM", 4, 70, 2, "bidirectional", 0, true, true, false},
                    Sequence{"gru_batch_first", "GRU", 3, 65, 2, "bidirectional", 1, false, true, false},
                    Sequence{"rnn_backwards_in_whole_rounds", "RNN", 1, 96, 1, "reverse", 0, true, false, true}),
    [](const auto& sequence) { return std::string(sequence.param.name); });

TEST(LongRecurrence, IsPlannedForFewSteps) {
  ModelProto model = empty_model(14);
  add_input(model, "x", {100'000, 1, 2});
  for (const auto& [name, sizes] : {std::pair<const char*, Sizes>{"w", {1, 4, 2}}, {"r", {1, 4, 1}}}) {
    pb::TensorProto& tensor = add_initialiser(model, name, sizes);
    for (std::int64_t i = 0; i < sizes[1] * sizes[2]; ++i) tensor.add_float_data(0.125F);
  }
  add_node(model, "LSTM", {"x", "w", "r"}, {"y"});
  add_output(model, "y");
  ASSERT_FALSE(import(model).ok());
  const Result<OnnxProgram> program =
      compile_model(test::device(), {std::make_unique<const ModelProto>(model), {}}, {}, {});
  ASSERT_TRUE(program.ok()) << program.error().text();
}

TEST(LongRecurrence, NeedsSteps) {
  ModelProto model = empty_model(14);
  add_input(model, "x", {0, 1, 2});
  add_input(model, "w", {1, 4, 2});
  add_input(model, "r", {1, 4, 1});
  add_node(model, "LSTM", {"x", "w", "r"}, {"y"});
  add_output(model, "y");
  const Result<OnnxProgram> program =
      compile_model(test::device(), {std::make_unique<const ModelProto>(model), {}}, {}, {});
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().text().find("A sequence of 0 steps is not supported"), std::string::npos)
      << program.error().text();
}

}  // namespace
}  // namespace vkfuse::onnx
