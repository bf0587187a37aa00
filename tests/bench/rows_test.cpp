#include "rows.hpp"

#include <gtest/gtest.h>

#include <set>

#include "api/tensor_node.hpp"
#include "bench_row.hpp"
#include "cut.hpp"
#include "graph_analysis.hpp"
#include "timing.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {
namespace {

ir::Graph graph_of(const Row& row, const std::vector<std::int64_t>& sizes) {
  Shape shape;
  for (std::int64_t size : sizes) shape.emplace_back(size);
  auto graph = api::to_graph(row.build(row.dtype, shape).outputs, {}, row.name);
  EXPECT_TRUE(graph.ok()) << row.name;
  return std::move(*graph);
}

TEST(Cases, EveryRowIsFoundByItsOwn) {
  std::set<std::string> seen;
  for (const Row& row : rows()) {
    const std::string text = case_text(row, row.full);
    EXPECT_TRUE(seen.insert(text.substr(0, text.rfind(':'))).second) << text;
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_:"), std::string::npos) << text;
    const auto request = parse_case(text);
    ASSERT_TRUE(request.ok()) << request.error().text();
    EXPECT_EQ(request->row, &row);
    EXPECT_EQ(request->sizes, row.full);
  }
}

TEST(Cases, WhatIsNoneIsRefusedWithASentence) {
  for (const char* text : {"", "softmax", "softmax:f32", "softmax:f8:16x16", "no_such:f32:16x16"}) {
    EXPECT_EQ(parse_case(text).error().code, ErrorCode::not_found) << text;
  }
  for (const char* text : {"softmax:f32:16", "softmax:f32:16x", "softmax:f32:16x0", "softmax:f32:16x-4",
                           "softmax:f32:16y4", "softmax:f32:", "softmax:f32:99999999999999999999x1"}) {
    EXPECT_EQ(parse_case(text).error().code, ErrorCode::invalid_argument) << text;
  }
}

TEST(Law, EveryLengthIsThereTwiceForBothChainsWithAsManyOpsAndBytesAsItSays) {
  std::map<std::string, int> found;
  for (const Row& row : rows()) {
    if (row.group != "law") continue;
    const int ops = row.traits.law_ops;
    const bool unary = row.name.find("unary") != std::string::npos;
    const bool small = row.name.find("small") != std::string::npos;
    EXPECT_EQ(row.full[0], small ? 1 << 16 : 1 << 28) << row.name;
    ++found[std::string(unary ? "unary" : "binary") + (small ? " small" : " large")];
    const ir::Graph graph = graph_of(row, {4096});
    EXPECT_EQ(*arithmetic(graph), 4096.0 * ops) << row.name;
    EXPECT_EQ(*traffic(graph), 4096 * 4 * (unary ? 2 : ops + 2)) << row.name;
  }
  EXPECT_EQ(found, (std::map<std::string, int>{
                       {"unary small", 7}, {"binary small", 7}, {"unary large", 7}, {"binary large", 7}}));
}

/// Names of a graph's inputs and outputs.
std::string signature(const ir::Graph& graph) {
  std::string text;
  for (ir::NodeId id : graph.inputs()) text += std::get<ir::InputPayload>(graph.node(id).payload).name + ' ';
  text += "->";
  for (const ir::Output& output : graph.outputs()) text += ' ' + output.name;
  return text;
}

const Row& row_named(std::string_view name) {
  for (const Row& row : rows()) {
    if (row.name == name) return row;
  }
  throw std::invalid_argument("There is no row '" + std::string(name) + "'.");
}

TEST(Facts, AProductOfMatricesIsTwoOperationsPerMultiplication) {
  EXPECT_EQ(*arithmetic(graph_of(row_named("matmul 1024 f32"), {8, 16, 32})), 2.0 * 8 * 16 * 32);
  EXPECT_EQ(*arithmetic(graph_of(row_named("squares rows f32"), {8, 16})), 2.0 * 8 * 16);
}

TEST(Beside, OddSizesAreBesideTheNearestMultipleOf128) {
  const Row& row = row_named("matmul m197 f16");
  EXPECT_EQ(sizes_beside(row, {129, 64, 32}), (std::vector<std::int64_t>{128, 64, 32}));
  EXPECT_EQ(sizes_beside(row, {193, 64, 32}), (std::vector<std::int64_t>{256, 64, 32}));
  EXPECT_EQ(sizes_beside(row, {3, 64, 32}), (std::vector<std::int64_t>{128, 64, 32}));
  EXPECT_EQ(sizes_beside(row_named("matmul+bias f16"), {129, 64, 32}), (std::vector<std::int64_t>{129, 64, 32}));
}

/// The operations of its sums of products.
double products(const ir::Graph& graph) {
  double total = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op->cls != ops::OpClass::contraction) continue;
    const auto& a = graph.node(node.operands[0]).type.shape;
    double each = 2;
    for (const int axis : std::get<ir::DotPayload>(node.payload).contract_a)
      each *= static_cast<double>(a[static_cast<std::size_t>(axis)].size());
    for (const Dim& dim : node.type.shape) each *= static_cast<double>(dim.size());
    total += each;
  }
  return total;
}

TEST(Beside, WhatARowIsBesideHasItsProductsAtItsSizes) {
  int rows_beside = 0;
  for (const Row& row : rows()) {
    if (!row.beside) continue;
    ++rows_beside;
    SCOPED_TRACE(row.name);
    for (const std::size_t axis : row.beside->axes) EXPECT_NE(row.full[axis] % 128, 0) << axis;
    const std::vector<std::int64_t> sizes = sizes_beside(row, row.full);
    const Built other = row.beside->build(row.dtype, Shape(sizes.begin(), sizes.end()));
    const auto graph = api::to_graph(other.outputs, {}, row.name);
    ASSERT_TRUE(graph.ok()) << graph.error().text();
    EXPECT_GT(products(*graph), 0);
    EXPECT_EQ(products(*graph), products(graph_of(row, sizes)));
  }
  EXPECT_GT(rows_beside, 40);
}

TEST(Beside, ASpeedIsPerUsefulOperation) {
  RowResult row;
  EXPECT_FALSE(row.beside_percent());
  row.operations = 90;
  row.fused.timing.alone = summarise({12});
  row.beside.emplace();
  row.beside->timing.alone = summarise({10});
  row.operations_beside = 100;
  EXPECT_DOUBLE_EQ(*row.beside_percent(), 75);
}

TEST(Models, AFrameworkStoresValuesBetweenItsOpsAndTheRowsAreOfEverySizeAsked) {
  std::set<std::string> names;
  for (const Row& row : rows()) {
    if (row.group != "models") continue;
    names.insert(row.name);
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(row.traits.model);
    const Built built = row.build(row.dtype, Shape(row.full.begin(), row.full.end()));
    ASSERT_TRUE(built.stored);
    EXPECT_GT(built.stored->size(), 3u);
    for (const Tensor& stored : *built.stored) EXPECT_TRUE(stored.valid()) << stored.error().text();
  }
  for (const char* form : {"encoder", "decoder", "vision"}) {
    for (const int tokens : {197, 577, 1500, 4097})
      EXPECT_TRUE(names.count(fmt::format("{} {} f16", form, tokens)) > 0) << form << tokens;
  }
}

/// The causal mask of a decoder is one node however many layers add it.
TEST(Models, LayersOfADecoderShareOneMask) {
  const ir::Graph graph = graph_of(row_named("decoder 1500 f16"), {1, 8, 1});
  int masks = 0, sums = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op->name != "gt") continue;
    ++masks;
  }
  for (const ir::Node& node : graph.nodes()) sums += node.op->name == "reduce_max" ? 1 : 0;
  EXPECT_EQ(masks, 1);
  EXPECT_EQ(sums, 2);
}

TEST(Cut, StoredValuesPartTheGraph) {
  const Tensor x = Tensor::input("x", DType::f32, {8}), y = Tensor::input("y", DType::f32, {8});
  const Tensor sum = x + y;
  const Tensor root = sqrt(sum);
  const std::vector<Tensor> outputs = {relu(root) + y, sum, exp(sum)};
  const auto graph = api::to_graph(outputs, {}, "g");
  ASSERT_TRUE(graph.ok());
  const auto id_of = [&](std::string_view op) {
    for (ir::NodeId id = 0; id < graph->size(); ++id) {
      if (graph->node(id).op->name == op) return id;
    }
    return ir::NodeId{0};
  };
  const auto pieces = cut(*graph, {id_of("sqrt"), graph->outputs()[1].value});
  ASSERT_TRUE(pieces.ok()) << pieces.error().text();
  ASSERT_EQ(pieces->size(), 3u);
  EXPECT_EQ(signature((*pieces)[0]), "x y -> y1");  // the sum is the graph's second output
  const std::string stored = "stored" + std::to_string(id_of("sqrt"));
  EXPECT_EQ(signature((*pieces)[1]), "y1 -> " + stored);
  EXPECT_EQ((*pieces)[2].outputs().size(), 2u);  // the other two outputs are one op of the framework
  for (const ir::Graph& piece : *pieces) EXPECT_TRUE(ir::verify(piece).ok());
}

TEST(Cut, NothingStoredIsTheWholeGraph) {
  const ir::Graph graph = graph_of(row_named("layernorm back f16"), {16, 64});
  const auto pieces = cut(graph, {});
  ASSERT_TRUE(pieces.ok());
  ASSERT_EQ(pieces->size(), 1u);
  EXPECT_EQ(ir::print((*pieces)[0]), ir::print(graph));
}

TEST(Timing, QuantilesAreThoseOfTheSamples) {
  const Times times = summarise({5, 1, 4, 2, 3});
  EXPECT_EQ(times.median, 3);
  EXPECT_DOUBLE_EQ(times.p10, 1.4);
  EXPECT_DOUBLE_EQ(times.p90, 4.6);
  EXPECT_EQ(times.n(), 5);
  EXPECT_EQ(summarise({}).n(), 0);
}

TEST(Timing, AGainIsTheMedianOverRoundsSoThatASlowSpellCancels) {
  RowResult row;
  row.fused.timing.alone = summarise({10, 10, 100, 100, 100, 10});
  Measured unfused;
  unfused.timing.alone = summarise({30, 30, 300, 300, 300, 30, 30});
  EXPECT_DOUBLE_EQ(row.gain_over(unfused), 3);
}

TEST(Timing, VisitsTogetherTakeWhatOneWouldAndTheirSamplesAreOneSet) {
  const TimingOptions one{.budget_seconds = 2, .samples = 30, .min_samples = 9, .stream_samples = 0, .visits = 4};
  const TimingOptions part = one.of_a_visit();
  EXPECT_EQ(part.budget_seconds, 0.5);
  EXPECT_EQ(part.samples, 8);
  EXPECT_EQ(part.min_samples, 3);
  EXPECT_EQ(part.stream_samples, 0);
  Times times;
  add_samples(times, summarise({5, 3}));
  add_samples(times, summarise({1, 2, 9}), 2);
  EXPECT_EQ(times.samples, (std::vector<double>{5, 3, 1, 2}));
  EXPECT_EQ(times.median, 2.5);
}

TEST(Timing, FallingTimesAreNotSteadyAndLevelOnesAre) {
  Steadiness falling;
  for (int i = 0; i < 90; ++i) {
    falling.add(1000 - 5 * i);
    EXPECT_FALSE(falling.steady()) << i;
  }
  Steadiness level;
  for (int i = 0; i < 18; ++i) level.add(100 + 10 * (i % 3));  // noise around one median
  EXPECT_TRUE(level.steady());
}

}  // namespace
}  // namespace vkfuse::bench
