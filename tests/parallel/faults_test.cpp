// Ranks that are gone, hang or have another program: an error on each of the others, in time, with the rank and the
// collective in the sentence.
#include <gtest/gtest.h>

#include <atomic>

#include "parallel/exchange.hpp"
#include "parallel/ranks.hpp"
#include "support/fuzz.hpp"

namespace vkfuse::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTimeout{300};
/// Beyond the timeout: threads wait for cores.
constexpr std::chrono::seconds kLate{5};

ParallelOptions short_options() {
  ParallelOptions options;
  options.timeout = kTimeout;
  options.compile_timeout = std::chrono::seconds(60);
  return options;
}

Tensor program() {
  const Tensor x = Tensor::input("x", DType::f32, {4, 6});
  return all_gather(all_reduce(x * 2.0, Join::sum, {3, 1}), 0, {3, 1}) + 1.0;
}

const std::vector<float>& elements() {
  static const std::vector<float> all(24, 1.5F);
  return all;
}

Inputs inputs() { return {{"x", HostView(elements())}}; }

/// How a run of one rank ended.
struct Ended {
  std::string error;  ///< empty: it did not fail
  Clock::duration took{};
  bool fails_again = false;  ///< and at once
};

Ended end_of(const ParallelProgram& made) {
  const auto begin = Clock::now();
  const Result<Outputs> result = made.run(inputs());
  Ended ended{result ? "" : result.error().text(), Clock::now() - begin, false};
  const auto again = Clock::now();
  ended.fails_again = !made.run(inputs()).ok() && Clock::now() - again < kTimeout;
  return ended;
}

void expect_error(const Ended& ended, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(ended.error.find(word), std::string::npos) << word << ": " << ended.error;
  EXPECT_LT(ended.took, kTimeout + kLate);
  EXPECT_TRUE(ended.fails_again) << "a job that has lost a rank goes on";
}

TEST(Faults, ARankThatIsGoneIsAnErrorOnTheOthers) {
  const auto all = on_ranks<Ended>(3, [](int rank, std::shared_ptr<Transport> transport) {
    const ParallelProgram made = must(compile_parallel(device(), transport, {program()}, short_options()));
    must(made.run(inputs()));
    return rank == 1 ? Ended{} : end_of(made);  // without a word
  });
  for (const std::size_t rank : {0, 2}) expect_error(all[rank], {"rank 1", "all_reduce_sum", "300 ms"});
}

TEST(Faults, EachOfSeveralRanksThatAreGoneIsNamed) {
  const auto all = on_ranks<Ended>(3, [](int rank, std::shared_ptr<Transport> transport) {
    const ParallelProgram made = must(compile_parallel(device(), transport, {program()}, short_options()));
    must(made.run(inputs()));
    return rank == 0 ? end_of(made) : Ended{};
  });
  expect_error(all[0], {"Rank 0 heard nothing from rank 1 and rank 2 until the timeout"});
}

TEST(Faults, ARankThatFailsIsKnownBeforeTheTimeout) {
  const auto all = on_ranks<Ended>(3, [](int rank, std::shared_ptr<Transport> transport) {
    ParallelOptions options = short_options();
    options.timeout = std::chrono::seconds(60);
    const ParallelProgram made = must(compile_parallel(device(), transport, {program()}, options));
    must(made.run(inputs()));
    if (rank != 2) return end_of(made);
    EXPECT_FALSE(made.run({}).ok());  // lacks its input
    return Ended{};
  });
  for (const std::size_t rank : {0, 1}) {
    expect_error(all[rank], {"Rank 2 has failed", "Input 'x'", "all_reduce_sum"});
    EXPECT_LT(all[rank].took, std::chrono::seconds(30));
  }
}

TEST(Faults, ARankThatHangsIsTheSameAsOneThatIsGone) {
  const auto all = on_ranks<Ended>(2, [](int rank, std::shared_ptr<Transport> transport) {
    const Tensor x = Tensor::input("x", DType::f32, {4, 6});
    const ParallelProgram made =
        must(compile_parallel(device(), transport, {all_reduce(x, Join::max, {2, 1})}, short_options()));
    if (rank == 1) std::this_thread::sleep_for(3 * kTimeout);
    return end_of(made);
  });
  expect_error(all[0], {"rank 1", "all_reduce_max"});
  EXPECT_NE(all[1].error, "") << "the rank that was late goes on";
}

std::vector<std::string> errors_of(int ranks, const std::function<Tensor(int rank)>& of_rank, ParallelOptions options) {
  return on_ranks<std::string>(ranks, [&](int rank, std::shared_ptr<Transport> transport) {
    const auto made = compile_parallel(device(), transport, {of_rank(rank)}, options);
    return made ? std::string() : made.error().text();
  });
}

/// Carries `count` exchanges, and none after them.
class ShortTransport final : public Transport {
 public:
  ShortTransport(std::shared_ptr<Transport> inner, int count) : inner_(std::move(inner)), left_(count) {}
  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  Result<void> exchange(const Exchange& exchange) override {
    if (left_-- > 0) return inner_->exchange(exchange);
    return make_error(ErrorCode::io, "Rank {} heard nothing.", rank());
  }
  void fail(std::string_view sentence) override { inner_->fail(sentence); }

 private:
  std::shared_ptr<Transport> inner_;
  int left_;
};

TEST(Faults, AnotherProgramIsInvalidWhereItsLinesDoNotArrive) {
  on_ranks<int>(2, [](int rank, std::shared_ptr<Transport> transport) {
    const Tensor x = all_reduce(Tensor::input("x", DType::f32, {6}), Join::sum, {2, 1});
    const Tensor y = rank == 1 ? all_reduce(x, Join::min, {2, 1}) : x;
    const auto made = compile_parallel(device(), std::make_shared<ShortTransport>(transport, 1), {y}, short_options());
    EXPECT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument) << made.error().text();
    EXPECT_NE(made.error().text().find("has another program than"), std::string::npos) << made.error().text();
    return 0;
  });
}

TEST(Faults, AnotherProgramIsAnErrorOnEveryRank) {
  const Tensor x = Tensor::input("x", DType::f32, {6, 6});
  const auto errors = errors_of(
      3,
      [&](int rank) {
        const Tensor y = all_reduce(x, Join::sum, {3, 1});
        return rank == 2 ? all_reduce(y, Join::min, {3, 1}) : all_reduce(y, Join::max, {3, 1});
      },
      short_options());
  EXPECT_NE(errors[0].find("Rank 2 has another program than rank 0"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("Rank 2 has another program than rank 1"), std::string::npos) << errors[1];
  EXPECT_NE(errors[2].find("Rank 0 has another program than rank 2"), std::string::npos) << errors[2];
  for (const std::string& error : errors) EXPECT_NE(error.find("number 1 differs"), std::string::npos) << error;
  EXPECT_NE(errors[0].find("'all_reduce_max ranks=3 stride=1 of f32[6, 6]'"), std::string::npos) << errors[0];
}

/// Programs with equal collectives: values of one would be taken for those of the other.
TEST(Faults, RunsOfOtherProgramsAreAnErrorOnEveryRank) {
  const auto all = on_ranks<std::string>(2, [](int rank, std::shared_ptr<Transport> transport) {
    const Tensor x = Tensor::input("x", DType::f32, {4, 6});
    const auto made = [&](double factor) {
      return must(compile_parallel(device(), transport, {all_reduce(x * factor, Join::sum, {2, 1})}, short_options()));
    };
    const ParallelProgram one = made(2), two = made(3);
    for (const ParallelProgram* program : {&one, &two, &one}) must(program->run(inputs()));
    const Result<Outputs> result = (rank == 0 ? one : two).run(inputs());
    return result ? std::string() : result.error().text();
  });
  EXPECT_NE(all[0].find("Rank 1 runs program"), std::string::npos) << all[0];
  EXPECT_NE(all[1].find("Rank 0 runs program"), std::string::npos) << all[1];
  for (const std::string& error : all) EXPECT_NE(error.find("'all_reduce_sum'"), std::string::npos) << error;
}

TEST(Faults, RunsOfOtherSizesAreAnErrorOnEveryRank) {
  for (const std::int64_t other : {0, 3, 5}) {
    const auto all = on_ranks<std::string>(2, [&](int rank, std::shared_ptr<Transport> transport) {
      const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 6});
      const auto made =
          must(compile_parallel(device(), transport, {all_reduce(x, Join::sum, {2, 1})}, short_options()));
      const std::int64_t rows = rank == 0 ? 4 : other;
      const std::vector<float> elements(static_cast<std::size_t>(rows) * 6, 1.0F);
      const Result<Outputs> result = made.run({{"x", HostView(elements, {rows, 6})}});
      return result ? std::string() : result.error().text();
    });
    EXPECT_NE(all[0].find("Rank 1 runs with other sizes than rank 0, which has n = 4."), std::string::npos) << all[0];
    EXPECT_NE(all[1].find(fmt::format("which has n = {}.", other)), std::string::npos) << all[1];
  }
}

/// Threads of a rank take turns: every run is a run of one of them.
TEST(Faults, ThreadsOfARankTakeTurns) {
  const auto wrong = on_ranks<int>(2, [](int, std::shared_ptr<Transport> transport) {
    const Tensor x = Tensor::input("x", DType::f32, {4, 6});
    const ParallelProgram made = must(compile_parallel(device(), transport, {all_reduce(x * 2.0, Join::sum, {2, 1})}));
    std::atomic<int> failed = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int run = 0; run < 10; ++run) {
          const Result<Outputs> outputs = made.run(inputs());
          const bool right = outputs && outputs->at("y").as<float>()[23] == 6.0F;
          if (!right) ++failed;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failed.load();
  });
  EXPECT_EQ(wrong, (std::vector<int>{0, 0}));
}

TEST(Faults, OfOtherShapesOrNumbersOfCollectives) {
  const auto shapes = errors_of(
      2,
      [](int rank) {
        return all_reduce(Tensor::input("x", DType::f32, {4 + rank}), Join::sum, {2, 1});
      },
      short_options());
  for (const std::string& error : shapes) EXPECT_NE(error.find("another program"), std::string::npos) << error;
  const auto counts = errors_of(
      2,
      [](int rank) {
        const Tensor x = all_reduce(Tensor::input("x", DType::f32, {4}), Join::sum, {2, 1});
        return rank == 0 ? x : all_gather(x, 0, {2, 1});
      },
      short_options());
  for (const std::string& error : counts) EXPECT_NE(error.find("number 1 differs"), std::string::npos) << error;
}

/// The collectives are equal, the meshes are not.
TEST(Faults, OfOtherMeshes) {
  const auto errors = on_ranks<std::string>(4, [](int rank, std::shared_ptr<Transport> transport) {
    ParallelOptions options = short_options();
    options.mesh.sizes = rank == 3 ? std::vector<int>{1, 4} : std::vector<int>{4, 1};
    const Tensor x = Tensor::input("x", DType::f32, {4, 8});
    const auto made = compile_parallel(device(), transport, {shard(x, 0, rank == 3 ? 1 : 0).sum({0})}, options);
    return made ? std::string() : made.error().text();
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("another program"), std::string::npos) << error;
  EXPECT_NE(errors[3].find("over a mesh of [1, 4]"), std::string::npos) << errors[3];
}

TEST(Faults, ARankThatDoesNotCompileTellsTheOthers) {
  const auto errors = errors_of(
      2,
      [](int rank) {
        const Tensor x = all_reduce(Tensor::input("x", DType::f32, {4}), Join::sum, {2, 1});
        return rank == 0 ? x : x + Tensor::input("z", DType::f16, {4});
      },
      short_options());
  EXPECT_NE(errors[0].find("Rank 1 has failed"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("one dtype"), std::string::npos) << errors[1];
}

TEST(Faults, SentencesForWhatCannotBe) {
  const auto one = must(thread_transports(3));
  const Tensor x = Tensor::input("x", DType::f32, {4, 6});
  const auto error = [&](const Tensor& y, ParallelOptions options = {},
                         std::shared_ptr<Transport> transport = nullptr) {
    const auto made = compile_parallel(device(), std::move(transport), {y}, options);
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(error(x + 1.0), "A program of several ranks needs a transport, but none is given.");
  ParallelOptions none;
  none.timeout = std::chrono::milliseconds(0);
  EXPECT_NE(error(x, none, one[0]).find("0 ms"), std::string::npos);
  EXPECT_EQ(error(all_reduce(x, Join::sum, {2, 1}), {}, one[0]),
            "Groups of 2 ranks that are 1 apart do not divide a job of 3 ranks.");
  ParallelOptions planned;
  planned.compile.plan = "{}";
  EXPECT_EQ(error(x, planned, must(thread_transports(1))[0]),
            "A saved plan of 2 bytes is given, but a program of several ranks is compiled in parts.");
  ParallelOptions vast;
  vast.mesh.sizes = {1 << 30, 1 << 30, 1 << 30};
  EXPECT_NE(error(x, vast, must(thread_transports(1))[0]).find("but the job has 1."), std::string::npos);
  EXPECT_FALSE(thread_transports(0).ok());
  EXPECT_FALSE(thread_transports(1 << 20).ok());
  const auto alone = compile(device(), {all_gather(x, 0, {2, 1})});
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.error().message.find("'all_gather' %1 is between 2 ranks"), std::string::npos)
      << alone.error().message;
}

TEST(Faults, ShapesThatAreNoMultiples) {
  const Tensor x = Tensor::input("x", DType::f32, {5, 6});
  const auto error = [](const Tensor& y) { return y.error().message; };
  EXPECT_NE(error(reduce_scatter(x, Join::sum, 0, {2, 1})).find("5 is not a multiple of 2"), std::string::npos);
  EXPECT_NE(error(all_to_all(x, 0, 1, {2, 1})).find("5 is not a multiple of 2"), std::string::npos);
  EXPECT_NE(error(all_gather(x, 2, {2, 1})).find("names axis 2"), std::string::npos);
  EXPECT_NE(error(broadcast_from(x, 2, {2, 1})).find("root 2"), std::string::npos);
  EXPECT_NE(error(send_receive(x, {0, 0}, {2, 1})).find("member 0 send twice"), std::string::npos);
  EXPECT_NE(error(send_receive(x, {0}, {2, 1})).find("1 are given"), std::string::npos);
  EXPECT_NE(error(all_reduce(x, Join::sum, {0, 1})).find("between 0 ranks"), std::string::npos);
  EXPECT_NE(error(all_reduce(x, static_cast<Join>(9), {2, 1})).find("9 is not a way"), std::string::npos);
  EXPECT_NE(error(shard(shard(x, 0, 1), 1, 1)).find("two axes"), std::string::npos);
  EXPECT_NE(error(shard(x, 3, 0)).find("axis 3"), std::string::npos);
}

}  // namespace
}  // namespace vkfuse::test
