// Models that run on the host between compiled parts, and models that are compiled for the sizes of a run.
#include "onnx/onnx_program.hpp"

#include <gtest/gtest.h>

#include <set>

#include "api/tensor_node.hpp"
#include "onnx/program_watcher.hpp"
#include "reference/reference.hpp"
#include "support/compare_model.hpp"
#include "unit/onnx/net.hpp"
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;
using pb::TensorProto;
using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

Result<OnnxProgram> compiled(const ModelProto& model, const OnnxOptions& options = {}) {
  return compile_model(test::device(), {std::make_unique<const ModelProto>(model), {}}, options, {});
}

struct Ran {
  vkfuse::Outputs outputs;
  Watcher watcher;
  std::vector<std::set<std::string>> ops;  ///< of each part that has kernels
};

/// Every part stores what the reference makes of what it has read, and is off by a few times what one kernel per op is,
/// as in vkfuse validate.
Ran ran(const OnnxProgram& program, const Inputs& inputs) {
  Ran result;
  result.watcher.part = [&](const PartRun& part) -> Result<void> {
    reference::InputBindings input_bindings;
    test::Data data;
    test::NamedBytes stored;
    for (const auto& [name, tensor] : part.inputs) {
      data.inputs.emplace(name, tensor.bytes);
      input_bindings.inputs.emplace(name, tensor.bytes);
      for (const ir::NodeId id : part.graph.inputs()) {
        const ir::Node& node = part.graph.node(id);
        if (std::get<ir::InputPayload>(node.payload).name != name) continue;
        for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
          if (node.type.shape[i].is_symbol())
            input_bindings.symbols.emplace(node.type.shape[i].name(), tensor.sizes[i]);
        }
      }
    }
    result.ops.emplace_back();
    for (const ir::Node& node : part.graph.nodes()) result.ops.back().insert(std::string(node.op->name));
    for (const ir::Output& output : part.graph.outputs()) {
      VKF_TRY(column, reference::evaluate(part.graph, output.value, input_bindings));
      const HostTensor& got = part.outputs.at(output.name);
      const reference::Comparison found = reference::compare(got.dtype, got.bytes, column);
      EXPECT_TRUE(found.ok()) << output.name << ": " << found.first_wrong;
      stored.emplace(output.name, got.bytes);
    }
    data.symbols = input_bindings.symbols;
    test::Build one_per_op;
    one_per_op.fusion = false;
    const test::NamedBytes unfused =
        test::run_guarded(test::compile_graph(part.graph, one_per_op), part.graph, data).outputs;
    test::compare_outputs(part.graph, data, stored, unfused, fmt::format("part {}", result.ops.size()));
    return {};
  };
  auto outputs = run_program(program, inputs, result.watcher);
  EXPECT_TRUE(outputs.ok()) << outputs.error().text();
  if (!outputs) return result;
  result.outputs = *std::move(outputs);
  for (const auto& [name, bytes] : test::run_both_ways(program, inputs))
    EXPECT_EQ(bytes, result.outputs.at(name).bytes) << name;
  return result;
}

template <typename T>
std::vector<T> elements(const HostTensor& tensor) {
  const std::span<const T> all = tensor.as<T>();
  return {all.begin(), all.end()};
}

/// The elements of x above 0, as a list: NonZero, then what it found is gathered. `also` is computed before and read
/// after.
ModelProto positive_elements() {
  ModelProto model = empty_model(17);
  add_input(model, "x", {3, 4});
  add_initialiser(model, "zero", {}).add_float_data(0);
  add_node(model, "Exp", {"x"}, {"also"});
  add_node(model, "Greater", {"x", "zero"}, {"above"});
  add_node(model, "NonZero", {"above"}, {"found"});
  add_node(model, "Transpose", {"found"}, {"places"});
  add_node(model, "GatherND", {"also", "places"}, {"y"});
  add_output(model, "y");
  return model;
}

TEST(OnnxProgram, RunsOnTheHostBetweenParts) {
  const Result<OnnxProgram> program = compiled(positive_elements());
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Floats x{-1, 0, 0, -2, 0, -3, 0.5F, 0, 0, 0, 0, 1};
  const Ran once = ran(*program, {{"x", HostView(x)}});
  const HostTensor& y = once.outputs.at("y");
  EXPECT_EQ(y.sizes, (Longs{2}));
  const Floats got = elements<float>(y);
  EXPECT_NEAR(got[0], std::exp(0.5), 1e-5);
  EXPECT_NEAR(got[1], std::exp(1.0), 1e-5);
  EXPECT_EQ(once.watcher.host_steps, 1);
  // What the first part has computed is not computed again.
  ASSERT_EQ(once.ops.size(), 2U);
  EXPECT_TRUE(once.ops[0].contains("exp"));
  EXPECT_FALSE(once.ops[1].contains("exp"));
}

TEST(OnnxProgram, KeepsWhatItCompiledForEqualSizes) {
  const Result<OnnxProgram> program = compiled(positive_elements());
  ASSERT_TRUE(program.ok()) << program.error().text();
  const ProgramPart& first = *program->state()->whole;
  Floats x(12, -1);
  for (const std::size_t positive : {0U, 3U, 12U, 3U, 0U}) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i < positive ? static_cast<float>(i + 1) / 8 : -1;
    const Ran once = ran(*program, {{"x", HostView(x)}});
    EXPECT_EQ(once.outputs.at("y").sizes, (Longs{static_cast<std::int64_t>(positive)}));
  }
  EXPECT_EQ(first.next.size(), 3U);
}

/// Boxes and scores from a convolution, the best of them, and those boxes once more.
TEST(OnnxProgram, RunsADetector) {
  Net net(17);
  const std::string image = net.input("image", {1, 3, 8, 8});
  const std::string features = net.node("Relu", {net.conv(image, {.from = 3, .to = 8, .kernel = 3})});
  const std::string raw = net.transpose(net.reshape(net.conv(features, {.from = 8, .to = 4}), {1, 4, 64}), {0, 2, 1});
  const std::string scores = net.node("Sigmoid", {net.reshape(net.conv(features, {.from = 8, .to = 2}), {1, 2, 64})});
  const std::string chosen =
      net.node("NonMaxSuppression", {raw, scores, net.ints({5}), net.number(0.3), net.number(0.4)});
  const std::string rows = net.node("Gather", {chosen, net.ints({0, 2})}, {{"axis", 1}});
  net.output(net.node("GatherND", {raw, rows}));
  const Result<OnnxProgram> program = compiled(net.model());
  ASSERT_TRUE(program.ok()) << program.error().text();
  Floats pixels(3 * 64);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>((i * 37) % 101) / 50 - 1;
  const Ran once = ran(*program, {{"image", HostView(pixels)}});
  const HostTensor& boxes = once.outputs.begin()->second;
  ASSERT_EQ(boxes.sizes.size(), 2U);
  EXPECT_GT(boxes.sizes[0], 0);
  EXPECT_LE(boxes.sizes[0], 10);
  EXPECT_EQ(boxes.sizes[1], 4);
  ASSERT_EQ(once.ops.size(), 2U);
  EXPECT_FALSE(once.ops[1].contains("dot"));
}

TEST(OnnxProgram, StopsAsOftenAsItMust) {
  // What is above its mean among what is above 0.
  ModelProto model = positive_elements();
  model.mutable_graph()->clear_output();
  add_node(model, "ReduceMean", {"y"}, {"mean"});
  add_node(model, "Greater", {"y", "mean"}, {"large"});
  add_node(model, "Compress", {"y", "large"}, {"z"});
  add_node(model, "Neg", {"z"}, {"result"});
  add_output(model, "result");
  add_output(model, "also");
  const Result<OnnxProgram> program = compiled(model);
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Floats x{-1, 0, 0, -2, 0, 1, 2, 3, 0, 0, 0, 1};
  const Ran once = ran(*program, {{"x", HostView(x)}});
  EXPECT_EQ(once.watcher.host_steps, 2);
  const Floats got = elements<float>(once.outputs.at("result"));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_NEAR(got[0], -std::exp(3.0), 1e-4);
  EXPECT_EQ(once.outputs.at("also").sizes, (Longs{3, 4}));
}

TEST(OnnxProgram, HasStepsInFunctionsAndBranchesAndLoops) {
  ModelProto model = empty_model(17);
  pb::OperatorSetIdProto& own = *model.add_opset_import();
  own.set_domain("own");
  own.set_version(1);
  pb::FunctionProto& function = *model.add_functions();
  function.set_domain("own");
  function.set_name("Pick");
  function.add_opset_import()->set_version(17);
  function.add_input("a");
  function.add_output("b");
  fill_node(*function.add_node(), "NonZero", {"a"}, {"places"});
  fill_node(*function.add_node(), "Transpose", {"places"}, {"rows"});
  fill_node(*function.add_node(), "GatherND", {"a", "rows"}, {"b"});
  add_input(model, "x", {6});
  add_node(model, "Exp", {"x"}, {"e"});
  add_node(model, "Sub", {"e", "one"}, {"shifted"});
  add_initialiser(model, "one", {}).add_float_data(1);
  add_node(model, "Pick", {"shifted"}, {"picked"}).set_domain("own");
  // Of a loop: each time, what is not 0 of the state, doubled, less its first element, which makes that 0.
  add_int64s(model, "twice", {2});
  pb::NodeProto& loop = add_node(model, "Loop", {"twice", "", "picked"}, {"last", "sums"});
  pb::GraphProto& body = *add_attribute(loop, "body", pb::AttributeProto::GRAPH).mutable_g();
  for (const char* name : {"i", "go", "state"}) body.add_input()->set_name(name);
  fill_node(*body.add_node(), "Identity", {"go"}, {"goes"});
  fill_node(*body.add_node(), "Gather", {"state", "first"}, {"head"});
  fill_node(*body.add_node(), "Sub", {"state", "head"}, {"less"});
  fill_node(*body.add_node(), "NonZero", {"less"}, {"places"});
  fill_node(*body.add_node(), "Transpose", {"places"}, {"rows"});
  fill_node(*body.add_node(), "GatherND", {"less", "rows"}, {"rest"});
  fill_node(*body.add_node(), "ReduceSum", {"rest"}, {"sum"});
  for (const char* name : {"goes", "rest", "sum"}) body.add_output()->set_name(name);
  model.mutable_graph()->mutable_initializer()->Add()->CopyFrom([] {
    TensorProto zero;
    zero.set_name("first");
    zero.set_data_type(TensorProto::INT64);
    zero.add_dims(1);
    zero.add_int64_data(0);
    return zero;
  }());
  add_output(model, "last");
  add_output(model, "sums");
  const Result<OnnxProgram> program = compiled(model);
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Floats x{0, 1, 0, 2, 1, 3};
  const Ran once = ran(*program, {{"x", HostView(x)}});
  EXPECT_EQ(once.watcher.host_steps, 3);
  const double e1 = std::exp(1), e2 = std::exp(2), e3 = std::exp(3);
  // 1 2 1 3 (as powers of e, less 1), less the first: 2-1, 3-1; less the first again: 3-2.
  expect_near(List{elements<float>(once.outputs.at("last"))[0]}, {e3 - e2}, 1e-3);
  const Floats sums = elements<float>(once.outputs.at("sums"));
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_NEAR(sums[0], e2 - e1 + e3 - e1, 1e-3);
  EXPECT_NEAR(sums[1], e3 - e2, 1e-3);
}

TEST(OnnxProgram, KeepsElementsOfSequences) {
  ModelProto model = positive_elements();
  model.mutable_graph()->clear_output();
  add_int64s(model, "last", {1}).clear_dims();
  add_node(model, "Neg", {"x"}, {"negative"});
  add_node(model, "SequenceConstruct", {"also", "negative"}, {"both"});
  add_node(model, "SequenceAt", {"both", "last"}, {"second"});
  add_node(model, "GatherND", {"second", "places"}, {"z"});
  add_output(model, "z");
  const Result<OnnxProgram> program = compiled(model);
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Floats x{-1, 0, 0, -2, 0, 1, 2, 3, 0, 0, 0, 1};
  EXPECT_EQ(elements<float>(ran(*program, {{"x", HostView(x)}}).outputs.at("z")), (Floats{-1, -2, -3, -1}));
}

TEST(OnnxProgram, RunsWithoutKernels) {
  ModelProto model = empty_model(17);
  add_input(model, "x", {2, 2}, TensorProto::INT32);
  add_node(model, "NonZero", {"x"}, {"y"});
  add_output(model, "y");
  const Result<OnnxProgram> program = compiled(model);
  ASSERT_TRUE(program.ok()) << program.error().text();
  const std::vector<std::int32_t> x{0, 7, -1, 0};
  const Ran once = ran(*program, {{"x", HostView(x)}});
  EXPECT_EQ(elements<std::int64_t>(once.outputs.at("y")), (Longs{0, 1, 1, 0}));
  EXPECT_EQ(once.watcher.kernels, 0);
}

/// x [n, 3] cut into as many parts as n says: a number of the import.
ModelProto sized_model() {
  ModelProto model = empty_model(17);
  add_input(model, "x", {1, 4})
      .mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("n");
  add_node(model, "Exp", {"x"}, {"e"});
  add_int64s(model, "flat", {-1});
  add_node(model, "Reshape", {"e", "flat"}, {"y"});
  add_output(model, "y");
  return model;
}

TEST(OnnxProgram, IsCompiledForTheSizesOfARun) {
  ASSERT_FALSE(import(sized_model()).ok());
  const Result<OnnxProgram> program = compiled(sized_model());
  ASSERT_TRUE(program.ok()) << program.error().text();
  EXPECT_EQ(program->state()->whole, nullptr);
  for (const std::int64_t n : {3, 5, 3}) {
    const Floats x(static_cast<std::size_t>(4 * n), 0);
    const Ran once = ran(*program, {{"x", HostView(x, {n, 4})}});
    EXPECT_EQ(elements<float>(once.outputs.at("y")), Floats(static_cast<std::size_t>(4 * n), 1));
  }
  EXPECT_EQ(program->state()->by_sizes.size(), 2U);
}

TEST(OnnxProgram, KeepsTheLastSixteenSizes) {
  const Result<OnnxProgram> program = compiled(sized_model());
  ASSERT_TRUE(program.ok()) << program.error().text();
  for (std::int64_t n = 1; n <= 18; ++n) {
    const Floats x(static_cast<std::size_t>(4 * n), 0);
    ASSERT_TRUE(program->run({{"x", HostView(x, {n, 4})}}).ok());
  }
  ASSERT_EQ(program->state()->by_sizes.size(), 16U);
  EXPECT_EQ(program->state()->by_sizes.front().first, (Longs{3, 4}));
}

TEST(OnnxProgram, ShowsTheHostInThePlan) {
  const Result<OnnxProgram> program = compiled(positive_elements());
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Result<std::string> text = program->explain(Stage::plan);
  ASSERT_TRUE(text.ok()) << text.error().text();
  EXPECT_NE(text->find("host NonZero (the node that computes 'found'): reads bool[3, 4], makes at most i64[2, 12]; 12 "
                       "bytes read back, 192 written at most"),
            std::string::npos)
      << *text;
  const Result<std::string> json = program->explain(Stage::json);
  ASSERT_TRUE(json.ok()) << json.error().text();
  EXPECT_NE(json->find("\"bytes_written_at_most\": 192"), std::string::npos) << *json;
  const Floats x(12, 1);
  const auto times = program->profile({{"x", HostView(x)}});
  if (!times) GTEST_SKIP() << times.error().text();  // a queue without timestamps
  EXPECT_EQ(std::ranges::count(*times, "host NonZero", &KernelTime::kernel), 1);
}

TEST(OnnxProgram, RefusesWhatDoesNotFit) {
  const Result<OnnxProgram> program = compiled(positive_elements());
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Floats x(11, 1);
  const auto run = program->run({{"x", HostView(x)}});
  ASSERT_FALSE(run.ok());
  expect_invalid(run.error(), "Input 'x' is [3, 4] in 44 bytes; the model takes f32[3, 4].");
  const auto none = program->run({});
  ASSERT_FALSE(none.ok());
  expect_invalid(none.error(), "Input 'x' is not given.");
  const auto refused = import(positive_elements());
  ASSERT_FALSE(refused.ok());
  expect_unsupported(refused.error(), "so that it runs on the host between kernels, which is not allowed here");
}

// Values that kernels compute and that decide what follows: the host reads them.

/// x [4] is doubled as long as its sum is below 1000; the sums of all iterations are put together.
ModelProto doubled_until_large() {
  ModelProto model = empty_model(18);
  add_input(model, "x", {4});
  add_initialiser(model, "two", {}).add_float_data(2);
  add_initialiser(model, "limit", {}).add_float_data(1000);
  pb::NodeProto& loop = add_node(model, "Loop", {"", "", "x"}, {"y", "sums"});
  pb::GraphProto& body = *add_attribute(loop, "body", pb::AttributeProto::GRAPH).mutable_g();
  for (const char* name : {"i", "go", "state"}) body.add_input()->set_name(name);
  fill_node(*body.add_node(), "Mul", {"state", "two"}, {"doubled"});
  add_int(fill_node(*body.add_node(), "ReduceSum", {"doubled"}, {"sum"}), "keepdims", 0);
  fill_node(*body.add_node(), "Less", {"sum", "limit"}, {"goes"});
  for (const char* name : {"goes", "doubled", "sum"}) body.add_output()->set_name(name);
  add_output(model, "y");
  add_output(model, "sums");
  return model;
}

TEST(OnnxProgram, LoopsAsLongAsAConditionOfDataHolds) {
  ASSERT_FALSE(import(doubled_until_large()).ok());
  const Result<OnnxProgram> program = compiled(doubled_until_large());
  ASSERT_TRUE(program.ok()) << program.error().text();
  for (const float scale : {100.0F, 1.0F, 10.0F, 1.0F}) {
    const Floats x{scale, 2 * scale, 3 * scale, 4 * scale};
    Floats sums;
    for (float sum = 10 * scale; sums.empty() || sums.back() < 1000; sums.push_back(sum)) sum *= 2;
    const Ran once = ran(*program, {{"x", HostView(x)}});
    EXPECT_EQ(elements<float>(once.outputs.at("sums")), sums);
    EXPECT_EQ(elements<float>(once.outputs.at("y"))[0], sums.back() / 10);
    EXPECT_EQ(once.watcher.host_steps, static_cast<int>(sums.size()));
  }
}

TEST(OnnxProgram, LoopsThatDoNotEndAreRefused) {
  const Result<OnnxProgram> program = compiled(doubled_until_large());
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Floats x(4, 0);
  const auto outputs = program->run({{"x", HostView(x)}});
  ASSERT_FALSE(outputs.ok());
  EXPECT_NE(outputs.error().text().find("more than 1024 iterations"), std::string::npos) << outputs.error().text();
}

TEST(OnnxProgram, CountsAndBoundsMayBeData) {
  // x from its largest element on, and as many numbers as that element's position says.
  ModelProto model = empty_model(18);
  add_input(model, "x", {4});
  add_int64s(model, "end", {99});
  add_int64s(model, "none", {});
  for (const char* name : {"zero", "one"}) add_int64s(model, name, {name[0] == 'o'}).clear_dims();
  add_int(add_node(model, "ArgMax", {"x"}, {"at"}), "axis", 0);
  add_node(model, "Slice", {"x", "at", "end"}, {"rest"});
  add_node(model, "Reshape", {"at", "none"}, {"count"});
  add_node(model, "Range", {"zero", "count", "one"}, {"numbers"});
  add_output(model, "rest");
  add_output(model, "numbers");
  const Result<OnnxProgram> program = compiled(model);
  ASSERT_TRUE(program.ok()) << program.error().text();
  for (const std::int64_t largest : {3, 0, 2, 3}) {
    Floats x{1, 2, 3, 4};
    x[static_cast<std::size_t>(largest)] = 9;
    const Ran once = ran(*program, {{"x", HostView(x)}});
    EXPECT_EQ(elements<float>(once.outputs.at("rest")), Floats(x.begin() + largest, x.end()));
    Longs numbers(static_cast<std::size_t>(largest));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
    EXPECT_EQ(elements<std::int64_t>(once.outputs.at("numbers")), numbers);
  }
}

TEST(OnnxProgram, SequencesThatAModelGivesAreRefusedBeforeARun) {
  for (const bool is_optional : {false, true}) {
    ModelProto model = empty_model(18);
    add_input(model, "x", {-1});
    add_node(model, "SequenceConstruct", {"x", "x"}, {"y"});
    pb::TypeProto* type = add_output(model, "y").mutable_type();
    if (is_optional) type = type->mutable_optional_type()->mutable_elem_type();
    type->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
    const Result<OnnxProgram> program = compiled(model);
    ASSERT_FALSE(program.ok());
    EXPECT_EQ(program.error().text(), "Output 'y' is a sequence, which is not supported.");
  }
}

TEST(OnnxProgram, BranchesOfOtherShapesAreChosenByTheHost) {
  ModelProto model = empty_model(18);
  add_input(model, "x", {3});
  add_initialiser(model, "zero", {}).add_float_data(0);
  add_int(add_node(model, "ReduceSum", {"x"}, {"sum"}), "keepdims", 0);
  add_node(model, "Greater", {"sum", "zero"}, {"is_positive"});
  pb::NodeProto& branch = add_node(model, "If", {"is_positive"}, {"y"});
  const auto graph = [&](const char* name, const std::string& op, const std::vector<std::string>& operands) {
    pb::GraphProto& made = *add_attribute(branch, name, pb::AttributeProto::GRAPH).mutable_g();
    pb::NodeProto& node = fill_node(*made.add_node(), op, operands, {"result"});
    if (op == "Concat") add_int(node, "axis", 0);
    made.add_output()->set_name("result");
  };
  graph("then_branch", "Concat", {"x", "x"});
  graph("else_branch", "Neg", {"x"});
  add_node(model, "Abs", {"y"}, {"z"});
  add_output(model, "z");
  const Result<OnnxProgram> program = compiled(model);
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Floats up{1, -2, 3}, down{-1, -2, 1};
  EXPECT_EQ(elements<float>(ran(*program, {{"x", HostView(up)}}).outputs.at("z")), (Floats{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(elements<float>(ran(*program, {{"x", HostView(down)}}).outputs.at("z")), (Floats{1, 2, 1}));
}

}  // namespace
}  // namespace vkfuse::onnx
