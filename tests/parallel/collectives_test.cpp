// Every collective on the device, between every kind of group, against the reference over ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "parallel/exchange.hpp"
#include "parallel/ranks.hpp"
#include "support/fuzz.hpp"

namespace vkfuse::test {
namespace {

/// Maths before and after, so that kernels write what is sent and read what has arrived.
Tensor between(const Tensor& x, const std::function<Tensor(const Tensor&)>& collective) {
  const Tensor scale = Tensor::scalar(x.dtype(), 2);
  return collective(x * scale + x) * scale;
}

void check_collective(const std::string& what, DType dtype, int ranks,
                      const std::function<Tensor(const Tensor&)>& collective) {
  const Tensor x = Tensor::input("x", dtype, {8, 12});
  const ir::Graph graph = graph_of({between(x, collective)});
  const JobResult made = check_job(job_of(graph, ranks), what);
  EXPECT_EQ(made.collectives, 1) << what;
}

constexpr Ranks kGroups[] = {{2, 1}, {2, 2}, {4, 1}};

TEST(Collectives, OfEveryKindBetweenEveryGroup) {
  for (const Ranks group : kGroups) {
    const std::string of = fmt::format("{} ranks, {} apart", group.count, group.stride);
    for (const Join join : {Join::sum, Join::max, Join::min}) {
      check_collective("all_reduce, " + of, DType::f32, 4, [&](const Tensor& x) { return all_reduce(x, join, group); });
      for (const int axis : {0, 1}) {
        check_collective("reduce_scatter, " + of, DType::f32, 4,
                         [&](const Tensor& x) { return reduce_scatter(x, join, axis, group); });
      }
    }
    for (const int axis : {0, 1}) {
      check_collective("all_gather, " + of, DType::f32, 4, [&](const Tensor& x) { return all_gather(x, axis, group); });
      check_collective("all_to_all, " + of, DType::f32, 4,
                       [&](const Tensor& x) { return all_to_all(x, axis, 1 - axis, group); });
      check_collective("all_to_all of one axis, " + of, DType::f32, 4,
                       [&](const Tensor& x) { return all_to_all(x, axis, axis, group); });
    }
    check_collective("broadcast, " + of, DType::f32, 4, [&](const Tensor& x) { return broadcast_from(x, 1, group); });
    std::vector<int> from(static_cast<std::size_t>(group.count), -1);
    for (int i = 1; i < group.count; ++i) from[static_cast<std::size_t>(i)] = i - 1;
    check_collective("send_receive, " + of, DType::f32, 4,
                     [&](const Tensor& x) { return send_receive(x, from, group); });
    check_collective("mean, " + of, DType::f32, 4, [&](const Tensor& x) { return all_reduce_mean(x, group); });
  }
}

/// The reference over ranks takes its groups from the same function: here they are written down.
TEST(Collectives, GroupsAreThoseOfTheDocument) {
  const auto ranks = [](ir::RankGroup group, int rank, int job) {
    return must(parallel::members_of(group, rank, job)).ranks;
  };
  EXPECT_EQ(ranks({2, 4}, 0, 8), (std::vector<int>{0, 4}));
  EXPECT_EQ(ranks({2, 4}, 7, 8), (std::vector<int>{3, 7}));
  EXPECT_EQ(ranks({2, 1}, 3, 4), (std::vector<int>{2, 3}));
  EXPECT_EQ(ranks({2, 2}, 3, 4), (std::vector<int>{1, 3}));
  EXPECT_EQ(ranks({2, 2}, 5, 8), (std::vector<int>{5, 7}));
  EXPECT_EQ(ranks({3, 2}, 9, 12), (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(must(parallel::members_of({3, 2}, 9, 12)).self, 1);
  EXPECT_FALSE(parallel::members_of({2, 2}, 0, 6).ok());
}

TEST(Collectives, OfEveryDtype) {
  std::vector<DType> dtypes = {DType::f16, DType::bf16, DType::i8,  DType::i16, DType::i32,
                               DType::i64, DType::u8,   DType::u16, DType::u32, DType::u64};
  if (target().caps.arithmetic.float64) dtypes.push_back(DType::f64);
  for (const DType dtype : dtypes) {
    for (const Join join : {Join::sum, Join::max, Join::min}) {
      check_collective(std::string(name_of(dtype)), dtype, 2, [&](const Tensor& x) {
        return all_reduce(x, join, {2, 1});
      });
    }
  }
}

/// Values above the size at which parts are joined by one member each, with elements that no number of ranks divides.
TEST(Collectives, LargeSumsOfPartsThatAreNotEqual) {
  for (const int ranks : {2, 3, 4}) {
    const Tensor x = Tensor::input("x", DType::f32, {10'007});
    const ir::Graph graph = graph_of({all_reduce(x * 2.0, Join::sum, {ranks, 1}) + 1.0});
    check_job(job_of(graph, ranks), fmt::format("{} ranks", ranks));
  }
}

/// Ranks whose graphs have one order of collectives and not one order of dependences.
TEST(Collectives, FollowEachOtherInTheOrderOfTheirNodes) {
  const Tensor x = Tensor::input("x", DType::f32, {3, 3000});
  const Ranks three{3, 1};
  const auto graph = [&](bool depends) {
    const Tensor sum = all_reduce(x * 2.0, Join::sum, three);
    const Tensor part = (depends ? sum : x).slice(1, 0, 1000);
    return graph_of({sum, all_gather(part * 3.0, 0, three)});
  };
  Job job{{graph(true), graph(false), graph(false)}, {}, 3, {}, {}, true, {}};
  for (std::uint64_t rank = 0; rank < 3; ++rank) job.data.push_back(small_data(job.graphs[rank], 7 + rank, false));
  check_job(job, "dependences");
}

/// More than are added up one by one.
TEST(Collectives, OfNineRanks) {
  const Ranks nine{9, 1};
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor x = Tensor::input("x", dtype, {4, 6}), y = Tensor::input("y", dtype, {9, 2});
    const ir::Graph graph = graph_of({all_reduce(x * 2.0, Join::sum, nine), all_reduce(x.max(), Join::max, nine),
                                      reduce_scatter(y, Join::sum, 0, nine)});
    check_job(job_of(graph, 9), std::string(name_of(dtype)));
  }
}

/// Values of several rounds: the device copies one while another is exchanged.
TEST(Collectives, ValuesOfSeveralRounds) {
  constexpr int kRows = 5, kColumns = 2'000'003;
  const auto results =
      on_ranks<std::map<std::string, std::vector<float>>>(2, [&](int rank, std::shared_ptr<Transport> transport) {
        const Tensor x = Tensor::input("x", DType::f32, {kRows, kColumns});
        ParallelOptions options;
        options.compile.output_names = {"sum", "all"};
        const auto program = must(compile_parallel(
            device(), transport, {all_reduce(x, Join::sum, {2, 1}), all_gather(x, 0, {2, 1})}, options));
        std::vector<float> elements(kRows * kColumns);
        for (std::size_t i = 0; i < elements.size(); ++i)
          elements[i] = static_cast<float>(static_cast<int>(i % 1000) * (rank + 1));
        const Outputs outputs = must(program.run({{"x", HostView(elements)}}));
        std::map<std::string, std::vector<float>> made;
        for (const auto& [name, tensor] : outputs) {
          const auto values = tensor.as<float>();
          made[name].assign(values.begin(), values.end());
        }
        return made;
      });
  for (const auto& made : results) {
    const std::vector<float>&sum = made.at("sum"), &all = made.at("all");
    ASSERT_EQ(sum.size(), kRows * kColumns);
    ASSERT_EQ(all.size(), 2 * sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const auto one = static_cast<float>(i % 1000);
      const bool is_right = sum[i] == 3 * one && all[i] == one && all[sum.size() + i] == 2 * one;
      ASSERT_TRUE(is_right) << i;
    }
  }
}

TEST(Collectives, OfOneRankAreNothing) {
  const Tensor x = Tensor::input("x", DType::f32, {6, 4});
  const Ranks one;
  const Tensor y =
      all_to_all(all_gather(reduce_scatter(all_reduce(x + 1.0, Join::sum, one), Join::max, 0, one), 1, one), 0, 1, one);
  const Tensor z = shard(send_receive(broadcast_from(y, 0, one), {0}, one) * 2.0, 0, 0) + send_receive(x, {-1}, one);
  const ir::Graph graph = graph_of({z});
  const Executable program = compile_graph(graph, Build{});
  EXPECT_TRUE(are_kernels(static_cast<std::size_t>(program.kernel_count()), 1));
  EXPECT_EQ(check_job(job_of(graph, 2), "ranks by themselves").collectives, 0);
  const ir::Graph plain = graph_of({(x + 1.0) * 2.0});
  compare_with_reference(program, plain, small_data(plain, 3, false), "one rank");
}

TEST(Collectives, ChainsOfPartsWithValuesThatCrossThem) {
  const Tensor x = Tensor::input("x", DType::f32, {8, 12});
  const Tensor kept = exp(x * 0.1);
  const Tensor sum = all_reduce(kept.sum({1}), Join::sum, {2, 1});
  const Tensor normed = kept / sum.reshape({8, 1});
  const Tensor all = all_gather(normed, 0, {2, 1});
  const Tensor y = all + Tensor::iota(DType::f32, {16, 12}, 0);
  const ir::Graph graph = graph_of({y, kept, sum, x});
  const JobResult made = check_job(job_of(graph, 2), "a chain");
  EXPECT_EQ(made.collectives, 2);
  // exp and the sum; the division; the sum with positions.
  EXPECT_TRUE(are_kernels_at_most(static_cast<std::size_t>(made.kernels), 4));
}

TEST(Collectives, OfSymbolicSizes) {
  const Dim n = Dim::any("n");
  const Tensor x = Tensor::input("x", DType::f32, {n, 4});
  const ir::Graph graph = graph_of({all_gather(all_reduce(x + 1.0, Join::max, {2, 1}), 1, {2, 1}) * x.sum({1}, true)});
  for (const std::int64_t size : {0, 1, 7, 300}) {
    Job job{{graph}, {}, 2, {}, {}, true};
    for (std::uint64_t rank = 0; rank < 2; ++rank) {
      Data data;
      data.symbols["n"] = size;
      data.inputs["x"].resize(static_cast<std::size_t>(size) * 16);
      for (std::size_t i = 0; i < data.inputs["x"].size() / 4; ++i) {
        const float value = static_cast<float>(i % 17) - static_cast<float>(rank);
        std::memcpy(data.inputs["x"].data() + 4 * i, &value, 4);
      }
      job.data.push_back(std::move(data));
    }
    check_job(job, fmt::format("n = {}", size));
  }
}

/// all_reduce of elements that ranks give, on rank 0.
template <typename T>
std::vector<T> joined_elements(Join join, DType dtype, const std::vector<std::vector<T>>& given,
                               const ParallelOptions& options = {}) {
  const int ranks = static_cast<int>(given.size());
  return on_ranks<std::vector<T>>(ranks, [&](int rank, std::shared_ptr<Transport> transport) {
    const auto& own = given[static_cast<std::size_t>(rank)];
    const Tensor x = Tensor::input("x", dtype, {static_cast<std::int64_t>(own.size())});
    const auto program = must(compile_parallel(device(), transport, {all_reduce(x, join, {ranks, 1})}, options));
    const Outputs outputs = must(program.run({{"x", HostView(own)}}));
    const auto values = outputs.at("y").as<T>();
    return std::vector<T>(values.begin(), values.end());
  })[0];
}

TEST(Collectives, JoinsKeepNaNAndWrapIntegers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y = joined_elements<float>(Join::max, DType::f32, {{1, nan, 3, -5}, {2, 1, nan, -7}});
  EXPECT_EQ(y[0], 2);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], -5);
  const auto z = joined_elements<std::uint8_t>(Join::sum, DType::u8, {{200, 255}, {100, 1}});
  EXPECT_EQ(z, (std::vector<std::uint8_t>{44, 0}));
}

/// Inputs that stay, results that stay.
TEST(Collectives, PlacedInputsAndResultsStayOnTheDevice) {
  on_ranks<int>(2, [](int rank, std::shared_ptr<Transport> transport) {
    const Dim n = Dim::any("n");
    const Tensor x = Tensor::input("x", DType::f32, {n, 4}), w = Tensor::input("w", DType::f32, {4});
    const auto program = must(compile_parallel(device(), transport, {all_reduce(x * w, Join::sum, {2, 1})}));
    const auto filled = [&](float value, std::size_t count) { return std::vector<float>(count, value); };
    EXPECT_NE(program.download().error().message.find("0 runs"), std::string::npos);
    const std::vector<float> twos = filled(2, 4), ones = filled(1, 4), eight = filled(static_cast<float>(rank + 1), 8);
    EXPECT_NE(program.upload({{"z", HostView(twos)}}).error().message.find("no input 'z'"), std::string::npos);
    must(program.upload({{"w", HostView(twos)}}));
    const auto first = [&] { return must(program.download()).at("y").as<float>()[0]; };
    EXPECT_EQ(must(program.run({{"x", HostView(eight)}})).at("y").as<float>()[7], 6);
    must(program.upload({{"x", HostView(eight)}}));
    must(program.execute());
    EXPECT_EQ(first(), 6);
    must(program.upload({{"w", HostView(ones)}}));
    must(program.execute());
    EXPECT_EQ(first(), 3);
    EXPECT_EQ(must(program.download()).at("y").sizes, (std::vector<std::int64_t>{2, 4}));
    // What a run is given takes the place of what was placed, for this run.
    EXPECT_EQ(must(program.run({{"w", HostView(twos)}})).at("y").as<float>()[0], 6);
    const Result<Outputs> lacks = program.run({});
    EXPECT_FALSE(lacks.ok());
    return 0;
  });
}

constexpr const char* kEveryCollective = R"(graph "collectives" {
  %0 = input "x" : f32[4, 6]
  %1 = all_reduce_sum ranks=2 stride=1 %0 : f32[4, 6]
  %2 = all_reduce_max ranks=2 stride=2 %1 : f32[4, 6]
  %3 = all_reduce_min ranks=4 stride=1 %2 : f32[4, 6]
  %4 = reduce_scatter_sum ranks=2 stride=1 axis=0 %3 : f32[2, 6]
  %5 = reduce_scatter_max ranks=2 stride=1 axis=1 %4 : f32[2, 3]
  %6 = reduce_scatter_min ranks=2 stride=1 axis=0 %5 : f32[1, 3]
  %7 = all_gather ranks=4 stride=1 axis=0 %6 : f32[4, 3]
  %8 = all_to_all ranks=2 stride=2 split=0 concat=1 %7 : f32[2, 6]
  %9 = broadcast_from ranks=4 stride=1 root=3 %8 : f32[2, 6]
  %10 = send_receive ranks=4 stride=1 from=[-1, 0, 1, 2] %9 : f32[2, 6]
  %11 = shard mesh_axes=[-1, 0] %10 : f32[2, 6]
  %12 = at_stage stage=1 mesh_axis=0 %11 : f32[2, 6]
  %13 = micro_batch axis=1 %12 : f32[2, 6]
  output "y" = %13
}
)";

TEST(Collectives, AreReadAsTheyArePrintedAndRun) {
  const ir::Graph graph = must(ir::parse(kEveryCollective));
  EXPECT_EQ(ir::print(graph), kEveryCollective);
  must(ir::verify(graph));
  std::set<std::string_view> seen;
  for (const ir::Node& node : graph.nodes()) seen.insert(node.op->name);
  for (const ops::OpRow& op : ops::collective_rows()) EXPECT_EQ(seen.count(op.name), 1U) << op.name;
  EXPECT_EQ(check_job(job_of(graph, 4), "every collective").collectives, 10);
}

/// 2048 + 1 + 1 in f16: 2048 where each sum is rounded, 2050 where the last is.
TEST(Collectives, HalvesAreAddedUpInFloats) {
  const std::vector<std::vector<std::uint16_t>> given = {{ops::f16_from(2048)}, {ops::f16_from(1)}, {ops::f16_from(1)}};
  // Where every op rounds, too: else sums of one kernel go on unrounded, however they are written.
  for (const Numerics numerics : {Numerics::standard, Numerics::strict}) {
    const auto sum = joined_elements<std::uint16_t>(Join::sum, DType::f16, given, {.compile = {.numerics = numerics}});
    EXPECT_EQ(ops::f16_to(sum[0]), 2050);
  }
}

}  // namespace
}  // namespace vkfuse::test
