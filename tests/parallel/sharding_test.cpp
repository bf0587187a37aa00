// Programs that are divided over a mesh: data and tensor parallelism of layers, equal to one rank, with the collectives
// that a person would choose.
#include <gtest/gtest.h>

#include "parallel/cut.hpp"
#include "parallel/layouts.hpp"
#include "parallel/ranks.hpp"
#include "parallel/sharding.hpp"
#include "support/fuzz.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

JobResult check_divided(const ir::Graph& graph, std::vector<int> mesh, const std::string& what) {
  int ranks = 1;
  for (const int size : mesh) ranks *= size;
  return check_job({{graph}, std::move(mesh), ranks, {small_data(graph, 5, false)}, {}, true}, what);
}

/// So many of each collective in the plan.
int count_of(const JobResult& made, const std::string& collective) {
  int count = 0;
  for (std::size_t at = made.explained.find(collective + " "); at != std::string::npos;
       at = made.explained.find(collective + " ", at + 1))
    ++count;
  return count;
}

Tensor weight(const std::string& name, Shape shape) { return Tensor::input(name, DType::f32, std::move(shape)); }

/// relu(x w1 + b) w2 + x.
Tensor mlp(const Tensor& x, const Tensor& w1, const Tensor& b, const Tensor& w2) {
  return matmul(relu(matmul(x, w1) + b), w2) + x;
}

TEST(Sharding, DataParallelMlpSendsNothing) {
  const Tensor x = shard(weight("x", {8, 16}), 0, 0);
  const Tensor y = shard(mlp(x, weight("w1", {16, 32}), weight("b", {32}), weight("w2", {32, 16})), 0, 0);
  EXPECT_EQ(check_divided(graph_of({y}), {2}, "data parallel").collectives, 0);
}

TEST(Sharding, TensorParallelMlpIsOneSum) {
  const Tensor y = mlp(weight("x", {8, 16}), shard(weight("w1", {16, 32}), 1, 0), shard(weight("b", {32}), 0, 0),
                       shard(weight("w2", {32, 16}), 0, 0));
  for (const int ranks : {2, 4}) {
    const JobResult made = check_divided(graph_of({y}), {ranks}, "tensor parallel");
    EXPECT_EQ(made.collectives, 1) << made.explained;
    EXPECT_EQ(count_of(made, "all_reduce_sum"), 1) << made.explained;
  }
}

/// Where the result is divided along rows, the sum is a reduce_scatter.
TEST(Sharding, SequenceParallelMlpGathersAndScatters) {
  const Tensor x = shard(weight("x", {8, 16}), 0, 0);
  const Tensor whole = replicate(x);
  const Tensor h = relu(matmul(whole, shard(weight("w1", {16, 32}), 1, 0)));
  const Tensor y = shard(matmul(h, shard(weight("w2", {32, 16}), 0, 0)) + x, 0, 0);
  const JobResult made = check_divided(graph_of({y}), {2}, "sequence parallel");
  EXPECT_EQ(count_of(made, "all_gather"), 1) << made.explained;
  EXPECT_EQ(count_of(made, "reduce_scatter_sum"), 1) << made.explained;
  EXPECT_EQ(made.collectives, 2) << made.explained;
}

/// Rows over axis 0 of the mesh, weights over axis 1.
TEST(Sharding, DataAndTensorParallelMlp) {
  const Tensor x = shard(weight("x", {8, 16}), 0, 0);
  const Tensor y = shard(
      mlp(x, shard(weight("w1", {16, 32}), 1, 1), shard(weight("b", {32}), 0, 1), shard(weight("w2", {32, 16}), 0, 1)),
      0, 0);
  const JobResult made = check_divided(graph_of({y}), {2, 2}, "data and tensor parallel");
  EXPECT_EQ(made.collectives, 1) << made.explained;
  EXPECT_NE(made.explained.find("between 2 ranks that are 1 apart"), std::string::npos) << made.explained;
}

/// A block of a transformer whose heads are divided: norm, projections, softmax, output projection, residual.
Tensor attention_block(int heads) {
  const int rows = 8, width = 16, head = width / heads;
  const Tensor x = weight("x", {rows, width});
  const Tensor normed = rms_normalize(x, {1}, 1e-5) * weight("g", {width});
  const auto projected = [&](const char* name) {
    const Tensor w = shard(weight(name, {width, width}), 1, 0);
    return matmul(normed, w).reshape({rows, heads, head}).permute({1, 0, 2});
  };
  const Tensor scores = matmul(projected("wq"), projected("wk").permute({0, 2, 1})) * 0.25;
  const Tensor mixed = matmul(softmax(scores), projected("wv"));
  const Tensor joined = mixed.permute({1, 0, 2}).reshape({rows, width});
  return matmul(joined, shard(weight("wo", {width, width}), 0, 0)) + x;
}

TEST(Sharding, TensorParallelAttentionIsOneSum) {
  const ir::Graph graph = graph_of({attention_block(4)});
  for (const int ranks : {2, 4}) {
    const JobResult made = check_divided(graph, {ranks}, "attention");
    EXPECT_EQ(made.collectives, 1) << made.explained;
    EXPECT_EQ(count_of(made, "all_reduce_sum"), 1) << made.explained;
  }
}

/// A mask of positions that several parts read is computed in each, where the planner sees what it is: of a mask that
/// is read, attention skips no block.
TEST(Sharding, MasksOfPositionsAreOfEachPart) {
  const Tensor x = weight("x", {8, 64});
  const Tensor mask = le(Tensor::iota(DType::i32, {1, 8}, 1), Tensor::iota(DType::i32, {8, 1}, 0));
  const auto layer = [&](const Tensor& y, const char* name) {
    const Tensor h = matmul(y, shard(weight(name, {64, 64}), 0, 0));
    const Tensor scores = select(mask, matmul(h, h.permute({1, 0})) * 0.1, Tensor::scalar(DType::f32, -1e9));
    return matmul(softmax(scores), h);
  };
  const ir::Graph graph = graph_of({layer(layer(x, "w1"), "w2")});
  const parallel::Sharded sharded = must(parallel::shard_graph(graph, {2}, 0));
  const parallel::Cut cut = must(parallel::cut_at_collectives(must(parallel::lower_collectives(sharded.graph))));
  ASSERT_GE(cut.parts.size(), 3U);
  for (const ir::Graph& part : cut.parts) {
    for (const ir::NodeId id : part.inputs()) EXPECT_NE(part.node(id).type.dtype, DType::boolean) << ir::print(part);
  }
  check_divided(graph, {2}, "masked layers");
}

/// Softmax, norms and reductions along the divided axis.
TEST(Sharding, ReductionsAlongTheDividedAxisJoinParts) {
  const Tensor x = shard(weight("x", {4, 16}), 1, 0);
  const ir::Graph graph = graph_of({softmax(x), normalize(x, {1}, 1e-5), x.max({1}), x.min({0, 1}), x.mean({1}),
                                    x.sum({1}), x.prod({1}), x.argmax(1), x.cumsum(1), x.argsort(1)});
  const JobResult made = check_divided(graph, {4}, "reductions");
  EXPECT_GE(count_of(made, "all_reduce_max"), 1) << made.explained;
  EXPECT_GE(count_of(made, "all_reduce_sum"), 1) << made.explained;
}

TEST(Sharding, ViewsAndPositionsKeepWhatTheyCan) {
  const Tensor x = shard(weight("x", {8, 6, 4}), 0, 0);
  const Tensor at = Tensor::iota(DType::i32, {3}, 0);
  const ir::Graph graph =
      graph_of({shard(x.permute({2, 0, 1}), 1, 0), shard(x.reshape({2, 4, 24}), 0, 0), shard(x.slice(1, 1, 6), 0, 0),
                shard(x.gather(at, 1), 0, 0), shard(x.reverse({1}), 0, 0), shard(x.pad({0, 1, 0}, {0, 0, 2}), 0, 0),
                shard(concat({x, x * 2.0}, 2), 0, 0), shard(x.cumsum(2), 0, 0)});
  EXPECT_EQ(check_divided(graph, {2}, "views").collectives, 0);
  const ir::Graph moved = graph_of({x.gather(at, 0), x.slice(0, 1, 8), x.reverse({0}), x.reshape({6, 32}),
                                    concat({x, x}, 0), shard(x * 2.0, 1, 0).sum({1})});
  EXPECT_GE(check_divided(moved, {2}, "views of the divided axis").collectives, 1);
}

TEST(Sharding, FromOneAxisToAnotherIsAnExchange) {
  const Tensor x = shard(weight("x", {8, 8}), 0, 0) * 3.0;
  const Tensor moved = shard(x, 1, 0);
  const JobResult made = check_divided(graph_of({exp(moved * 0.1)}), {4}, "exchange");
  EXPECT_EQ(count_of(made, "all_to_all"), 1) << made.explained;
}

/// Weights of one megabyte and a few rows: the rows are what moves.
TEST(Sharding, TheCheapestInBytesIsTaken) {
  const Tensor x = shard(weight("x", {4, 64}), 0, 0);
  const Tensor w = shard(weight("w", {64, 512}), 0, 0);
  const JobResult small = check_divided(graph_of({matmul(x, w).sum({1})}), {2}, "small rows");
  EXPECT_EQ(small.explained.find("= w"), std::string::npos) << small.explained;
  const JobResult large =
      check_divided(graph_of({matmul(shard(weight("x", {512, 64}), 0, 0), shard(weight("w", {64, 8}), 0, 0)).sum({1})}),
                    {2}, "small weights");
  EXPECT_NE(large.explained.find("= w"), std::string::npos) << large.explained;
}

TEST(Sharding, GradientsOfAnnotatedPrograms) {
  const Tensor x = shard(weight("x", {8, 16}), 0, 0);
  const Tensor w1 = shard(weight("w1", {16, 8}), 1, 1), w2 = shard(weight("w2", {8, 4}), 0, 1);
  const Tensor loss = matmul(relu(matmul(x, w1)), w2).sum();
  const std::vector<Tensor> made = gradients({loss}, {w1, w2});
  check_divided(graph_of({loss, made[0], made[1]}), {2, 2}, "gradients");
}

TEST(Sharding, SentencesForWhatCannotBe) {
  const auto error = [](const Tensor& y, std::vector<int> mesh) {
    const auto made = parallel::shard_graph(graph_of({y}), mesh, 0);
    return made ? std::string() : made.error().message;
  };
  const Tensor x = weight("x", {6, 4});
  EXPECT_EQ(error(shard(x, 0, 0), {4}),
            "'shard' divides axis 0 of f32[6, 4] over 4 ranks, but 6 is not a multiple of 4.");
  EXPECT_EQ(error(shard(x, 0, 1), {2}), "'shard' names axis 1 of a mesh that has 1.");
  EXPECT_NE(error(all_reduce(x, Join::sum, {2, 1}), {2}).find("a collective of the program's own"), std::string::npos);
  EXPECT_EQ(error(x, {0}), "A mesh has one rank or more along each axis, but [0] is given.");
  const Tensor n = Tensor::input("n", DType::f32, {Dim::any("n"), 4});
  EXPECT_NE(error(shard(n, 0, 0), {2}).find("n is not a multiple"), std::string::npos);
  const auto transports = must(thread_transports(1));
  ParallelOptions options;
  options.mesh.sizes = {2};
  const auto made = compile_parallel(device(), transports[0], {x + 1.0}, options);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "A mesh of [2] has 2 ranks, but the job has 1.");
}

TEST(Sharding, StepsBetweenLayouts) {
  using Kind = parallel::Reshard::Kind;
  const auto kinds = [](parallel::Layout from, parallel::Layout to) {
    std::vector<Kind> all;
    for (const auto& step : parallel::steps_between(from, to, 2)) all.push_back(step.kind);
    return all;
  };
  EXPECT_EQ(kinds({-1, -1}, {0, 1}), (std::vector<Kind>{Kind::slice, Kind::slice}));
  EXPECT_EQ(kinds({0, -1}, {-1, 0}), (std::vector<Kind>{Kind::all_to_all}));
  EXPECT_EQ(kinds({0, -1}, {-1, 1}), (std::vector<Kind>{Kind::slice, Kind::all_gather}));
  EXPECT_EQ(kinds({0, 1}, {1, 0}), (std::vector<Kind>{Kind::all_gather, Kind::all_to_all, Kind::slice}));
}

}  // namespace
}  // namespace vkfuse::test
