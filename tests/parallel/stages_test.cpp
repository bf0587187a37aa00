// Pipelines: programs whose values are on stages of a mesh, equal to one rank, with what each stage has and sends.
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "parallel/cut.hpp"
#include "parallel/ranks.hpp"
#include "parallel/sharding.hpp"
#include "support/fuzz.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

Job pipeline_of(const ir::Graph& graph, std::vector<int> mesh, int micro_batches = 1) {
  Job job = job_of(graph, 1, std::move(mesh));
  for (const int size : job.mesh) job.ranks *= size;
  job.micro_batches = micro_batches;
  return job;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Tensor parameter(const std::string& name, Shape shape) { return Tensor::input(name, DType::f32, std::move(shape)); }

/// relu(x w + b) + x.
Tensor layer(const Tensor& x, int number) {
  const Tensor w = parameter(fmt::format("w{}", number), {16, 16}), b = parameter(fmt::format("b{}", number), {16});
  return relu(matmul(x, w) * 0.25 + b) + x;
}

/// A layer on each stage.
Tensor layers(Tensor x, int stages, int axis = 0) {
  for (int stage = 0; stage < stages; ++stage) x = layer(at_stage(x, stage, axis), stage);
  return x;
}

TEST(Stages, AValueCrossesToTheStageThatReadsIt) {
  const ir::Graph graph = graph_of({layers(parameter("x", {8, 16}), 3)});
  const JobResult made = check_job(pipeline_of(graph, {3}), "three stages");
  ASSERT_EQ(made.plans.size(), 3U);
  // Each has its weights, and no other.
  EXPECT_NE(made.plans[0].find("stage 0 of 3 along axis 0 of the mesh, reads b0, w0, x\n"), std::string::npos);
  EXPECT_NE(made.plans[1].find("stage 1 of 3 along axis 0 of the mesh, reads b1, w1\n"), std::string::npos);
  EXPECT_NE(made.plans[2].find("stage 2 of 3 along axis 0 of the mesh, reads b2, w2\n"), std::string::npos);
  const int sends[] = {1, 2, 1};  // to the next, and from the one before
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::string& plan = made.plans[rank];
    EXPECT_EQ(count_of(plan, "send_receive %"), sends[rank]) << plan;
    EXPECT_EQ(count_of(plan, "broadcast_from %"), 1) << plan;
    EXPECT_EQ(count_of(plan, "1 kernel, "), 1) << plan;
    EXPECT_EQ(count_of(plan, "kernel"), 1) << plan;
  }
  EXPECT_NE(made.plans[0].find("512 bytes sent, from stage 0 to stage 1\n"), std::string::npos) << made.plans[0];
  EXPECT_NE(made.plans[0].find("is on stage 0, and 'at_stage' %"), std::string::npos) << made.plans[0];
  EXPECT_NE(made.plans[1].find(" 0 bytes sent, from stage 0 to stage 1\n"), std::string::npos) << made.plans[1];
  EXPECT_NE(made.plans[2].find("1024 bytes sent, from stage 2 to every stage\n"), std::string::npos) << made.plans[2];
}

/// Stages over axis 0 of the mesh, weights over axis 1: what is sent is sent by each rank of a stage to its peer.
TEST(Stages, PipelinesOfTensorParallelLayers) {
  Tensor x = parameter("x", {8, 16});
  for (int stage = 0; stage < 2; ++stage) {
    const Tensor w1 = shard(parameter(fmt::format("v{}", stage), {16, 32}), 1, 1);
    const Tensor w2 = shard(parameter(fmt::format("w{}", stage), {32, 16}), 0, 1);
    const Tensor in = at_stage(x, stage, 0);
    x = matmul(relu(matmul(in, w1)), w2) * 0.125 + in;
  }
  const JobResult made = check_job(pipeline_of(graph_of({x}), {2, 2}), "pipeline and tensor parallel");
  for (const std::string& plan : made.plans) {
    EXPECT_EQ(count_of(plan, "all_reduce_sum %"), 1) << plan;
    EXPECT_EQ(count_of(plan, "send_receive %"), 1) << plan;
  }
  // The other way round, too.
  const Tensor y = at_stage(shard(parameter("y", {8, 16}), 0, 0), 0, 1);
  const Tensor z = matmul(at_stage(y * 2.0, 1, 1), parameter("w", {16, 16})).sum({0});
  check_job(pipeline_of(graph_of({z, y * 3.0}), {2, 2}), "stages are the last axis");
}

TEST(Stages, GoBackAndForth) {
  const Tensor x = at_stage(parameter("x", {4, 6}), 1, 0);
  const Tensor a = x * 2.0, b = at_stage(a, 0, 0) + 1.0, c = at_stage(b, 2, 0) * a, d = at_stage(c + b, 1, 0);
  // On the latest stage of its operands; c is on stage 2.
  const Tensor e = d.sum({0}) + c.max({0}) + b.cumsum(1).slice(0, 0, 1).reshape({6});
  check_job(pipeline_of(graph_of({a, b, c, d, e}), {3}), "back and forth");
}

/// What follows from no annotated value is computed where it is read, and a value that several read is sent once to
/// each stage.
TEST(Stages, WhatHasNoStageIsOnEachThatReadsIt) {
  const Tensor w = parameter("w", {16, 16}), scaled = w * 0.5 + Tensor::iota(DType::f32, {16}, 0) * 0.01;
  const Tensor x = at_stage(parameter("x", {8, 16}), 0, 0);
  const Tensor h = matmul(x, scaled), g = at_stage(h, 1, 0);
  const Tensor y = matmul(g, scaled) + h;
  const JobResult made = check_job(pipeline_of(graph_of({y, scaled.sum()}), {2}), "shared weights");
  EXPECT_EQ(count_of(made.plans[0], "send_receive %"), 1) << made.plans[0];
  EXPECT_NE(made.plans[1].find("reads w\n"), std::string::npos) << made.plans[1];
}

TEST(Stages, AnnotatedOutputsStay) {
  const Tensor h = layers(parameter("x", {8, 16}), 2);
  const ir::Graph graph = graph_of({at_stage(h, 1, 0), at_stage(shard(h * 2.0, 0, 1), 0, 0), h.sum()});
  const JobResult made = check_job(pipeline_of(graph, {2, 2}), "outputs that stay");
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(made.outputs[rank].ok());
    EXPECT_EQ(made.outputs[rank]->contains("y"), rank >= 2) << rank;
    EXPECT_EQ(made.outputs[rank]->contains("y1"), rank < 2) << rank;
    EXPECT_TRUE(made.outputs[rank]->contains("y2")) << rank;
  }
  EXPECT_EQ(count_of(made.plans[0], "broadcast_from %"), 1) << made.plans[0];
}

TEST(Stages, OutputsThatNoKernelComputes) {
  const Tensor x = parameter("x", {4, 6});
  check_job(pipeline_of(graph_of({at_stage(x, 1, 0), x, at_stage(at_stage(x, 1, 0), 0, 0).reshape({24}),
                                  at_stage(Tensor::scalar(DType::f32, 3), 1, 0) * 2.0, replicate(at_stage(x, 1, 0))}),
                        {2}),
            "inputs as outputs");
}

/// The gradient of a layer is computed on its stage, and each stage has the gradients of its weights.
TEST(Stages, GradientsGoBack) {
  const Tensor x = parameter("x", {8, 16});
  std::vector<Tensor> weights;
  Tensor h = x;
  for (int stage = 0; stage < 3; ++stage) {
    weights.push_back(parameter(fmt::format("w{}", stage), {16, 16}));
    h = tanh(matmul(at_stage(h, stage, 0), weights.back()) * 0.25);
  }
  const Tensor loss = (h * h).sum();
  std::vector<Tensor> outputs = gradients(std::vector{loss}, weights);
  // Where they are.
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = at_stage(weights[i] - outputs[i] * 0.1, int(i), 0);
  outputs.push_back(loss);
  const JobResult made = check_job(pipeline_of(graph_of(outputs), {3}), "gradients");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::string& plan = made.plans[rank];
    EXPECT_NE(plan.find(rank == 0 ? "reads w0, x\n" : fmt::format("reads w{}\n", rank)), std::string::npos) << plan;
    EXPECT_EQ(count_of(plan, "send_receive %"), rank == 1 ? 4 : 2) << plan;
  }
}

/// A rank is given what it reads, and may be given all.
TEST(Stages, InputsOfOtherStagesMayBeLeftOut) {
  const ir::Graph graph = graph_of({layers(parameter("x", {8, 16}), 2)});
  const Data data = small_data(graph, 3, false);
  const auto run = [&](int left_out) {
    return on_ranks<Result<Outputs>>(2, [&](int rank, std::shared_ptr<Transport> transport) -> Result<Outputs> {
      ParallelOptions options;
      options.mesh.sizes = {2};
      auto program = compile_parallel_text(device(), std::move(transport), ir::print(graph), options);
      if (!program) return std::move(program).error();
      Inputs inputs;
      for (const auto& [name, bytes] : data.inputs) {
        const bool is_of_other = name != "x" && name.back() - '0' != rank;
        if (left_out == 2 ? name == "b1" : left_out == 1 && (is_of_other || (rank == 1 && name == "x"))) continue;
        inputs.emplace(name, HostView(bytes));
      }
      return program->run(inputs);
    });
  };
  const auto all = run(0), own = run(1), fewer = run(2);
  ASSERT_TRUE(all[0].ok() && all[1].ok() && own[0].ok() && own[1].ok()) << own[0].error().text();
  EXPECT_EQ(all[0]->at("y").bytes, own[1]->at("y").bytes);
  EXPECT_EQ(all[0]->at("y").bytes, all[1]->at("y").bytes);
  ASSERT_FALSE(fewer[1].ok());
  EXPECT_EQ(fewer[1].error().message, "Input 'b1' of type f32[16] was not given.");
  EXPECT_FALSE(fewer[0].ok());  // told by the other
}

/// A rank that is gone is an error on the stages that wait for it, and on those that wait for them.
TEST(Stages, ALostStageIsAnError) {
  const ir::Graph graph = graph_of({layers(parameter("x", {8, 16}), 3)});
  const Data data = small_data(graph, 3, false);
  const auto ended = on_ranks<std::string>(3, [&](int rank, std::shared_ptr<Transport> transport) -> std::string {
    ParallelOptions options;
    options.mesh.sizes = {3};
    options.timeout = std::chrono::milliseconds(500);
    const ParallelProgram program =
        must(compile_parallel_text(device(), std::move(transport), ir::print(graph), options));
    if (rank == 1) return {};
    Inputs inputs;
    for (const auto& [name, bytes] : data.inputs) inputs.emplace(name, HostView(bytes));
    const Result<Outputs> made = program.run(inputs);
    return made ? "it has run" : made.error().text();
  });
  EXPECT_NE(ended[0].find("rank 1"), std::string::npos) << ended[0];
  EXPECT_NE(ended[2].find("rank 1"), std::string::npos) << ended[2];
}

TEST(Stages, AnotherStageOnOneRankIsAnError) {
  const auto ended = on_ranks<std::string>(2, [&](int rank, std::shared_ptr<Transport> transport) -> std::string {
    ParallelOptions options;
    options.mesh.sizes = {2};
    const Tensor x = at_stage(parameter("x", {8, 16}), rank, 0) * 2.0;
    const auto made = compile_parallel(device(), std::move(transport), {x}, options);
    return made ? "it is compiled" : made.error().message;
  });
  EXPECT_NE(ended[0].find("from stage 0 to every stage"), std::string::npos) << ended[0];
  EXPECT_NE(ended[1].find("from stage 1 to every stage"), std::string::npos) << ended[1];
}

TEST(Stages, SymbolsCross) {
  const Tensor y = layers(Tensor::input("x", DType::f32, {Dim::any("n"), 16}), 2);
  Job job{{graph_of({y, y.sum()})}, {2}, 2, {small_data(graph_of({layers(parameter("x", {6, 16}), 2)}), 3, false)}};
  job.data.front().symbols["n"] = 6;
  check_job(job, "symbols");
}

TEST(Stages, OneDeviceTakesValuesAsTheyAre) {
  const Tensor staged = layers(micro_batch(parameter("x", {8, 16}), 0), 3);
  const Tensor plain = layer(layer(layer(parameter("x", {8, 16}), 0), 1), 2);
  const Data data = small_data(graph_of({plain}), 3, false);
  Inputs inputs;
  for (const auto& [name, bytes] : data.inputs) inputs.emplace(name, HostView(bytes));
  const Executable one = must(compile(device(), {staged}));
  EXPECT_EQ(one.kernel_count(), must(compile(device(), {plain})).kernel_count());
  EXPECT_EQ(must(one.run(inputs)).at("y").bytes, must(must(compile(device(), {plain})).run(inputs)).at("y").bytes);
  check_job(pipeline_of(graph_of({layers(parameter("x", {8, 16}), 1)}), {1}), "one stage");
}

TEST(Stages, SentencesForWhatCannotBe) {
  const auto error = [](const Tensor& y, std::vector<int> mesh, int micro_batches = 1) {
    const auto made = parallel::shard_graph(graph_of({y}), {mesh, 0, micro_batches});
    return made ? std::string() : made.error().message;
  };
  const Tensor x = parameter("x", {6, 4});
  EXPECT_EQ(error(at_stage(x, 2, 0), {2}), "'at_stage' names stage 2, but axis 0 of the mesh has 2 ranks.");
  EXPECT_EQ(error(at_stage(x, 0, 1), {2}), "'at_stage' names axis 1 of a mesh that has 1.");
  EXPECT_EQ(error(at_stage(at_stage(x, 0, 0), 1, 1), {2, 2}),
            "'at_stage' names axis 1 of the mesh, and axis 0 before; stages are along one axis.");
  EXPECT_EQ(error(at_stage(shard(x, 0, 0), 1, 0), {2}),
            "'shard' divides axis 0 of f32[6, 4] over axis 0 of the mesh, along which 'at_stage' has stages.");
  EXPECT_EQ(at_stage(x, -1, 0).error().message, "'at_stage' names the stage -1; stages count from 0.");
  EXPECT_EQ(at_stage(x, 0, -1).error().message, "'at_stage' names the axis -1 of the mesh; axes count from 0.");
  EXPECT_EQ(micro_batch(x, 2).error().message, "'micro_batch' names axis 2, but f32[6, 4] has 2 axes.");
  EXPECT_EQ(error(micro_batch(x, 0), {2}, 4),
            "'micro_batch' divides axis 0 of f32[6, 4] into 4 micro-batches, but 6 is not a multiple of 4.");
  const Tensor n = Tensor::input("n", DType::f32, {Dim::any("n"), 4});
  EXPECT_NE(error(micro_batch(n, 0), {2}, 4).find("n is not a multiple of 4"), std::string::npos);
  ParallelOptions options;
  options.micro_batches = 2;
  const auto transports = must(thread_transports(1));
  EXPECT_EQ(compile_parallel(device(), transports[0], {x + 1.0}, options).error().message,
            "2 micro-batches are asked for, but without a mesh no program is divided.");
}

// ---- micro-batches ----

TEST(MicroBatches, AreTheWhole) {
  const Tensor y = layers(micro_batch(parameter("x", {8, 16}), 0), 2);
  for (const int parts : {2, 4, 8}) {
    const JobResult made = check_job(pipeline_of(graph_of({y, y.sum()}), {2}, parts), "micro-batches");
    for (const std::string& plan : made.plans) EXPECT_EQ(count_of(plan, "send_receive %"), parts) << plan;
  }
}

/// Stage s works on micro-batch i while stage s + 1 works on i - 1: in the order of parts, each stage sends one before
/// it computes the next.
TEST(MicroBatches, AreComputedInTurn) {
  constexpr int kStages = 3, kParts = 4;
  const ir::Graph graph = graph_of({layers(micro_batch(parameter("x", {8, 16}), 0), kStages)});
  for (int rank = 0; rank < kStages; ++rank) {
    const std::vector<int> mesh = {kStages};
    const parallel::Sharded sharded = must(parallel::shard_graph(graph, {mesh, rank, kParts}));
    const parallel::Cut cut = must(parallel::cut_at_collectives(must(parallel::lower_collectives(sharded))));
    std::string order;  // of what this rank does
    for (std::size_t part = 0; part < cut.parts.size(); ++part) {
      if (!cut.parts[part].outputs().empty()) order += 'c';
      for (std::size_t k = 0; part < cut.steps.size() && k < cut.steps[part].size(); ++k) {
        const parallel::Step& step = cut.steps[part][k];
        if (step.node.op->name != "send_receive") continue;
        order += step.role.sends ? "s" : step.role.receives ? "r" : "";
      }
    }
    const char* const expected[] = {"cscscscs", "rcsrcsrcsrcs", "rcrcrcrc"};
    std::string sorted = order;
    // What comes next may be asked for before what is there is sent: both are between two parts.
    for (std::size_t at = sorted.find("crs"); at != std::string::npos; at = sorted.find("crs"))
      sorted.replace(at, 3, "csr");
    EXPECT_EQ(sorted.substr(0, std::string(expected[rank]).size()), expected[rank]) << "rank " << rank;
  }
}

TEST(MicroBatches, SumsAndReadersOfTheWholeBatch) {
  const Tensor x = micro_batch(parameter("x", {8, 16}), 0);
  const Tensor h = layers(x, 2);
  const ir::Graph graph =
      graph_of({h.mean({0}), h.max({0}), h.cumsum(0), softmax(h, 0), h.reverse({0}), matmul(h.permute({1, 0}), h),
                h.prod({0}), micro_batch(h, 1) * 2.0, shard(h, 1, 1), replicate(h).argsort(1)});
  check_job(pipeline_of(graph, {2, 2}, 4), "readers of the whole batch");
  for (const DType dtype : {DType::f16, DType::bf16, DType::i32}) {
    const Tensor one = micro_batch(Tensor::input("x", dtype, {8, 6}), 0);
    const Tensor on = at_stage(at_stage(one, 0, 0) + one, 1, 0);
    check_job(pipeline_of(graph_of({on.sum({0}), on.min({0}), on * on}), {2}, 4), std::string(name_of(dtype)));
  }
}

/// 2048 + 1 + 1 in f16: 2048 where each sum is rounded, 2050 where the last is.
TEST(MicroBatches, HalvesAreAddedUpInFloats) {
  std::vector<std::uint16_t> elements;
  for (const double value : {2048.0, 1.0, 1.0, 0.0}) elements.push_back(ops::f16_from(value));
  const Tensor sum = micro_batch(Tensor::input("x", DType::f16, {4}), 0).sum({0});
  for (const Numerics numerics : {Numerics::standard, Numerics::strict}) {
    ParallelOptions options;
    options.mesh.sizes = {1};
    options.micro_batches = 4;
    options.compile.numerics = numerics;
    const auto program = must(compile_parallel(device(), must(thread_transports(1))[0], {sum}, options));
    const Outputs made = must(program.run({{"x", HostView(std::as_bytes(std::span(elements)))}}));
    EXPECT_EQ(ops::f16_to(made.at("y").as<std::uint16_t>()[0]), 2050);
  }
}

/// Gradients of weights are sums over micro-batches.
TEST(MicroBatches, GradientsAddUp) {
  std::vector<Tensor> weights;
  Tensor h = micro_batch(parameter("x", {8, 16}), 0);
  for (int stage = 0; stage < 2; ++stage) {
    weights.push_back(parameter(fmt::format("w{}", stage), {16, 16}));
    h = tanh(matmul(at_stage(h, stage, 0), weights.back()) * 0.25);
  }
  std::vector<Tensor> outputs = gradients(std::vector{(h * h).sum()}, weights);
  outputs.push_back(h);
  const JobResult made = check_job(pipeline_of(graph_of(outputs), {2}, 4), "gradients");
  EXPECT_EQ(count_of(made.plans[0], "send_receive %"), 8) << made.plans[0];  // four there and four back
  check_job(pipeline_of(graph_of(outputs), {2, 2}, 2), "gradients of ranks that compute the same");
}

}  // namespace
}  // namespace vkfuse::test
