// What programs of several ranks meet at their edges: values that cross no kernel, sizes of 0 and odd ones, symbols
// that a later part alone has, dtypes that move and are not joined, gradients through every collective.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "parallel/ranks.hpp"
#include "parallel/sharding.hpp"
#include "support/fuzz.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

constexpr Ranks kTwo{2, 1};

TEST(Edges, OutputsThatNoKernelComputes) {
  const Tensor x = Tensor::input("x", DType::f32, {4, 6}), unread = Tensor::input("z", DType::f32, {2});
  const Tensor sum = all_reduce(x, Join::sum, kTwo);
  const ir::Graph graph =
      graph_of({x, sum, sum, all_gather(Tensor::scalar(DType::f32, 3).broadcast_to({2, 2}), 0, kTwo),
                Tensor::scalar(DType::f32, 5), unread, sum + 1.0});
  EXPECT_EQ(check_job(job_of(graph, 2), "outputs").collectives, 2);
}

TEST(Edges, ResultsAreThoseOfTheLastRunWhateverIsPlacedThen) {
  on_ranks<int>(2, [](int, const std::shared_ptr<Transport>& transport) {
    const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n")});
    const auto program = must(compile_parallel(device(), transport, {all_reduce(x, Join::sum, kTwo), x}));
    const std::vector<float> first(3, 1), second(3, 7), longer(5, 9);
    const auto result = [&] {
      const Outputs all = must(program.download());
      const auto elements = all.at("y1").as<float>();
      return std::vector<float>(elements.begin(), elements.end());
    };
    must(program.upload({{"x", HostView(first)}}));
    must(program.execute());
    for (const std::vector<float>& next : {second, longer, first, second}) {
      must(program.upload({{"x", HostView(next)}}));
      EXPECT_EQ(result(), first);
      const auto times = program.profile();
      EXPECT_FALSE(times.ok()) << "its inputs are another run's";
      const std::string sentence = times.ok() ? "" : times.error().text();
      EXPECT_NE(sentence.find("were placed after its last run"), std::string::npos) << sentence;
    }
    must(program.execute());
    EXPECT_EQ(result(), second);
    EXPECT_TRUE(program.profile().ok());
    EXPECT_EQ(result(), second);
    EXPECT_EQ(must(program.run({{"x", HostView(longer)}})).at("y1").as<float>()[4], 9);
    return 0;
  });
}

TEST(Edges, ACollectiveThatNothingReadsIsOfNoRank) {
  const std::string head = "graph \"dead\" {\n  %0 = input \"x\" : f32[4]\n";
  const std::string dead = "  %1 = all_reduce_sum ranks=2 stride=1 %0 : f32[4]\n";
  const ir::Graph with = must(ir::parse(head + dead + "  output \"y\" = %0\n}\n"));
  const ir::Graph without = must(ir::parse(head + "  output \"y\" = %0\n}\n"));
  Job job{{with, without}, {}, 2, {small_data(with, 1, false), small_data(with, 2, false)}, {}, true};
  const JobResult made = run_job(job);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(made.outputs[rank].ok()) << made.outputs[rank].error().text();
    EXPECT_EQ(made.outputs[rank]->at("y").bytes, job.data[rank].inputs.at("x"));
  }
  EXPECT_EQ(made.collectives, 0);
}

/// The part after the collective has no input of that symbol.
TEST(Edges, SymbolsOfALaterPartAlone) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 4});
  const Tensor positions = Tensor::iota(DType::f32, {Dim::any("n")}, 0);
  const ir::Graph graph = graph_of({all_reduce(x.sum(), Join::sum, kTwo) + positions.sum(), positions * 2.0});
  Job job{{graph}, {}, 2, {}, {}, true};
  for (const float value : {1.0F, 2.0F}) {
    Data data;
    data.symbols["n"] = 7;
    const std::vector<float> elements(28, value);
    const auto bytes = std::as_bytes(std::span(elements));
    data.inputs["x"].assign(bytes.begin(), bytes.end());
    job.data.push_back(std::move(data));
  }
  check_job(job, "symbols");
}

TEST(Edges, WhatMovesIsOfAnyDtype) {
  for (const DType dtype : {DType::boolean, DType::i64, DType::u64, DType::f16, DType::bf16, DType::u8, DType::i16}) {
    const Tensor x = Tensor::input("x", dtype, {4, 6});
    const ir::Graph graph =
        graph_of({all_gather(x, 1, kTwo), all_to_all(x, 0, 1, kTwo), broadcast_from(x, 1, kTwo),
                  send_receive(x, {1, -1}, kTwo), send_receive(x, {0, 1}, kTwo), send_receive(x, {-1, -1}, kTwo)});
    check_job(job_of(graph, 2), std::string(name_of(dtype)));
  }
  for (const DType dtype : {DType::i64, DType::u64}) {
    const Tensor x = Tensor::input("x", dtype, {4, 6});
    check_job(job_of(graph_of({all_reduce(x, Join::sum, kTwo), reduce_scatter(x, Join::max, 1, kTwo)}), 2), "64 bits");
  }
  const Tensor flags = all_reduce(Tensor::input("x", DType::boolean, {4}), Join::max, kTwo);
  ASSERT_FALSE(flags.valid());
  EXPECT_NE(flags.error().message.find("bool"), std::string::npos) << flags.error().message;
}

/// 2048 + 1 + 1 in f16, from kernel to kernel.
TEST(Edges, HalvesAreRoundedOnce) {
  const Tensor x = Tensor::input("x", DType::f16, {64});
  const ir::Graph graph = graph_of({all_reduce(x, Join::sum, {3, 1})});
  Job job{{graph}, {}, 3, {}, {}, true};
  for (const double value : {2048.0, 1.0, 1.0}) {
    Data data;
    const std::vector<std::uint16_t> elements(64, ops::f16_from(value));
    const auto bytes = std::as_bytes(std::span(elements));
    data.inputs["x"].assign(bytes.begin(), bytes.end());
    job.data.push_back(std::move(data));
  }
  for (const Result<Outputs>& one : check_job(job, "halves").outputs) {
    ASSERT_TRUE(one.ok()) << one.error().text();
    for (const std::uint16_t sum : one->at("y").as<std::uint16_t>()) ASSERT_EQ(ops::f16_to(sum), 2050);
  }
}

TEST(Edges, PartsWithoutElements) {
  const Tensor x = shard(Tensor::input("x", DType::f32, {0, 4}), 0, 0);
  const Tensor y = shard(Tensor::input("y", DType::f32, {4, 0}), 0, 0);
  const ir::Graph graph = graph_of({x * 2.0, x.sum({0}), matmul(y, x.reshape({0, 4})), y.sum({1}),
                                    concat({x, Tensor::input("w", DType::f32, {2, 4})}, 0)});
  check_job(job_of(graph, 2, {2}), "no elements");
  const Tensor z = Tensor::input("z", DType::f32, {0, 6});
  check_job(job_of(graph_of({all_reduce(z, Join::sum, kTwo), all_gather(z, 1, kTwo),
                             reduce_scatter(z, Join::min, 1, kTwo), all_to_all(z, 0, 1, kTwo)}),
                   2),
            "collectives of no elements");
}

/// Three ranks divide 6 and 9; what they do not divide stays whole.
TEST(Edges, ThreeRanksAndSizesThatTheyDoNotDivide) {
  const Tensor x = shard(Tensor::input("x", DType::f32, {6, 10}), 0, 0);
  const Tensor w = shard(Tensor::input("w", DType::f32, {10, 9}), 1, 0);
  const Tensor h = matmul(x, w);
  const ir::Graph graph =
      graph_of({softmax(h), h.mean({0}), h.mean(), h.reshape({54}), h.reshape({2, 27}), h.slice(0, 0, 5), h.max({0}),
                concat({h, h}, 0), h.gather(Tensor::iota(DType::i32, {4}, 0), 0), shard(h, 1, 0).cumsum(0)});
  check_job(job_of(graph, 3, {3}), "three ranks");
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor half = shard(Tensor::input("x", dtype, {9, 10}), 0, 0);
    check_job(job_of(graph_of({half.mean({0}), half.sum({0}), half.mean()}), 3, {3}), std::string(name_of(dtype)));
  }
}

TEST(Edges, RandomNumbersAreThoseOfOneRank) {
  const Tensor x = shard(Tensor::input("x", DType::f32, {8, 6}), 0, 0);
  const Tensor bits = shard(Tensor::random({8, 6}, 42), 0, 0);
  check_job(job_of(graph_of({dropout(x, 0.5, 7), bits, x + bits.cast(DType::f32)}), 2, {2}), "random numbers");
}

/// A cache whose heads are divided is written in parts.
TEST(Edges, RowsOfADividedCache) {
  const Tensor cache = shard(Tensor::input("cache", DType::f32, {2, 4, 8, 6}), 1, 0);
  const Tensor rows = Tensor::input("rows", DType::f32, {2, 4, 2, 6}) * 2.0;
  const Tensor starts = Tensor::iota(DType::i32, {2}, 0);
  const Tensor written = shard(cache.update_rows(starts, rows, 2), 1, 0);
  EXPECT_EQ(check_job(job_of(graph_of({written}), 2, {2}), "heads").collectives, 0);
  const Tensor along = shard(Tensor::input("cache", DType::f32, {8, 6}), 0, 0);
  const Tensor one = along.update_rows(Tensor::scalar_int(DType::i32, 3), Tensor::input("rows", DType::f32, {2, 6}), 0);
  EXPECT_GE(check_job(job_of(graph_of({one}), 2, {2}), "rows").collectives, 1);
}

TEST(Edges, SizesOfOneSymbolFollowFromTheBytes) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n", {.min = 2}), 4});
  const std::vector<float> twelve(12, 1.0F), four(4, 1.0F), odd(5, 1.0F);
  const auto run = [&](const HostView& view) {
    return on_ranks<Result<Outputs>>(1, [&](int, std::shared_ptr<Transport> transport) {
      return must(compile_parallel(device(), std::move(transport), {x.sum({0})})).run({{"x", view}});
    })[0];
  };
  const Result<Outputs> made = run(HostView(twelve));
  ASSERT_TRUE(made.ok()) << made.error().text();
  for (const float sum : made->at("y").as<float>()) EXPECT_EQ(sum, 3);
  EXPECT_NE(run(HostView(odd)).error().message.find("no whole number of rows"), std::string::npos);
  EXPECT_NE(run(HostView(four)).error().message.find("declared as min 2"), std::string::npos);
  EXPECT_FALSE(run(HostView(twelve, {-3, -4})).ok());
  EXPECT_FALSE(run(HostView(twelve, {12})).ok());
}

/// Elements that are small whole numbers: sums of their products are exact.
std::vector<float> whole_numbers(std::int64_t count, int seed) {
  std::vector<float> made;
  for (std::int64_t i = 0; i < count; ++i) made.push_back(static_cast<float>((i * 7 + seed * 5 + i * i) % 9 - 4));
  return made;
}

/// The gradient of a linear function C is its transpose: the sum over ranks of <g, C x> is that of <gradient, x>.
void expect_transpose(const std::string& what, const Shape& result, const std::function<Tensor(const Tensor&)>& call) {
  constexpr int kRanks = 4;
  const Tensor x = Tensor::input("x", DType::f32, {8, 12}), g = Tensor::input("g", DType::f32, result);
  const Tensor y = call(x);
  const ir::Graph graph = graph_of({y, gradients({y}, {x}, {g})[0]});
  Job job{{graph}, {}, kRanks, {}, {}, true};
  for (int rank = 0; rank < kRanks; ++rank) {
    Data data;
    for (const auto& [name, shape] : {std::pair{"x", x.shape()}, std::pair{"g", result}}) {
      std::int64_t count = 1;
      for (const Dim& dim : shape) count *= dim.size();
      const std::vector<float> elements = whole_numbers(count, rank * 2 + (*name == 'g' ? 1 : 0));
      const auto bytes = std::as_bytes(std::span(elements));
      data.inputs[name].assign(bytes.begin(), bytes.end());
    }
    job.data.push_back(std::move(data));
  }
  const JobResult made = check_job(job, what);
  const auto dot = [](std::span<const float> a, std::span<const std::byte> bytes) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      float b = 0;
      std::memcpy(&b, bytes.data() + 4 * i, 4);
      sum += static_cast<double>(a[i]) * static_cast<double>(b);
    }
    return sum;
  };
  double forward = 0, backward = 0, size = 0;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(made.outputs[rank].ok()) << made.outputs[rank].error().text();
    forward += dot(made.outputs[rank]->at("y").as<float>(), job.data[rank].inputs.at("g"));
    backward += dot(made.outputs[rank]->at("y1").as<float>(), job.data[rank].inputs.at("x"));
    for (const float element : made.outputs[rank]->at("y").as<float>()) size += std::abs(element);
  }
  EXPECT_EQ(forward, backward) << what;
  EXPECT_GT(size, 0) << what;
}

TEST(Edges, GradientsAreTheTransposesOfCollectives) {
  for (const Ranks group : {Ranks{2, 1}, Ranks{2, 2}, Ranks{4, 1}}) {
    const int n = group.count;
    const std::string of = fmt::format(" of {} ranks, {} apart", n, group.stride);
    expect_transpose("all_reduce" + of, {8, 12}, [&](const Tensor& x) { return all_reduce(x, Join::sum, group); });
    expect_transpose("all_gather" + of, {8, 12 * n}, [&](const Tensor& x) { return all_gather(x, 1, group); });
    expect_transpose("reduce_scatter" + of, {8, 12 / n},
                     [&](const Tensor& x) { return reduce_scatter(x, Join::sum, 1, group); });
    expect_transpose("all_to_all" + of, {8 / n, 12 * n}, [&](const Tensor& x) { return all_to_all(x, 0, 1, group); });
    std::vector<int> from(static_cast<std::size_t>(n), -1);
    for (int i = 1; i < n; ++i) from[static_cast<std::size_t>(i)] = i - 1;
    expect_transpose("send_receive" + of, {8, 12}, [&](const Tensor& x) { return send_receive(x, from, group); });
  }
}

}  // namespace
}  // namespace vkfuse::test
