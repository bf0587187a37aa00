// Runs whose results go into memory of the caller.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

using Floats = std::vector<float>;

/// Memory by the names of outputs; none for others.
OutputMemory memory_of(std::map<std::string, Floats>& memory) {
  return [&](std::string_view name, DType, std::span<const std::int64_t>) -> Result<std::span<std::byte>> {
    const auto found = memory.find(std::string(name));
    if (found == memory.end()) return std::span<std::byte>();
    return std::as_writable_bytes(std::span(found->second));
  };
}

TEST(HostMemory, TakesEveryKindOfResult) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 6});
  const Tensor power = exp(x);
  const Tensor bytes = Tensor::input("b", DType::u8, {Dim::any("n"), 3});
  const Floats table{1, 2, 3, 4};
  const ir::Graph graph = graph_of({power, power.unsqueeze(0), power, x.slice(1, 0, 6), x.sum({1}),
                                    relu(bytes.cast(DType::i32)).cast(DType::u8),
                                    Tensor::constant(DType::f32, {4}, std::as_bytes(std::span(table)))});
  const Executable program = compile_graph(graph, Build{});
  for (const std::int64_t n : {0, 1, 5, 3}) {
    const Data data = data_for({graph, {{"n", n}}, 5, false});
    EXPECT_EQ(check_outputs(graph, data, run_on_host(program, graph, data)).wrong, "") << n;
  }
}

TEST(HostMemory, IsLeftOutWhereNoneIsGiven) {
  const Tensor x = Tensor::input("x", DType::f32, {4});
  const Executable program = must(compile(device(), {x + x, x.reshape({2, 2}), -x}));
  const Floats given{1, 2, 3, 4};
  std::map<std::string, Floats> memory{{"y2", Floats(4)}};
  must(program.run({{"x", HostView(given)}}, memory_of(memory)));
  EXPECT_EQ(memory.at("y2"), (Floats{-1, -2, -3, -4}));
}

TEST(HostMemory, OfAnotherSizeIsRefusedBeforeAnythingRuns) {
  const Tensor x = Tensor::input("x", DType::f32, {4});
  const Executable program = must(compile(device(), {-x}));
  const Floats given{1, 2, 3, 4};
  for (const std::size_t elements : {3U, 5U}) {
    std::map<std::string, Floats> memory{{"y", Floats(elements, 7)}};
    const auto run = program.run({{"x", HostView(given)}}, memory_of(memory));
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(run.error().message,
              fmt::format("Output 'y' takes 16 bytes, and memory of {} is given for it.", 4 * elements));
    EXPECT_EQ(memory.at("y"), Floats(elements, 7));
  }
}

TEST(HostMemory, IsTakenAfterTheDevices) {
  // A result that the device refuses is refused for that, and the host is not filled with it first.
  const Tensor rows = Tensor::input("x", DType::f32, {Dim::any("n"), 0}).sum({1});
  const Executable program = must(compile(device(), {rows}));
  const auto run = program.run({{"x", HostView({}, {std::int64_t{1} << 42, 0})}});
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.error().message.find("17592186044416 bytes"), std::string::npos) << run.error().message;
  EXPECT_EQ(must(program.run({{"x", HostView({}, {3, 0})}})).at("y").as<float>().size(), 3U);
}

TEST(HostMemory, SizesOfWhatHasNoElementsAreAskedFor) {
  const Executable program = must(compile(device(), {Tensor::input("x", DType::f32, {Dim::any("n"), 0}).sum({1})}));
  EXPECT_EQ(program.run({{"x", HostView({})}}).error().message,
            "Input 'x' of type f32[n, 0] needs its sizes: it has no elements, whatever its symbol is.");
}

TEST(HostMemory, MayBeThatOfAnInput) {
  const Tensor x = Tensor::input("x", DType::f32, {4});
  const Executable program = must(compile(device(), {-x, x.reshape({2, 2})}));
  Floats given{1, 2, 3, 4}, view(4);
  must(program.run({{"x", HostView(given)}},
                   [&](std::string_view name, DType, std::span<const std::int64_t>) -> Result<std::span<std::byte>> {
                     return std::as_writable_bytes(std::span(name == "y" ? given : view));
                   }));
  EXPECT_EQ(given, (Floats{-1, -2, -3, -4}));
  EXPECT_EQ(view, (Floats{1, 2, 3, 4}));
}

TEST(HostMemory, ErrorsOfTheCallerAreReturned) {
  const Executable program = must(compile(device(), {-Tensor::input("x", DType::f32, {4})}));
  const Floats given{1, 2, 3, 4};
  const auto run = program.run({{"x", HostView(given)}},
                               [](auto...) -> Result<std::span<std::byte>> { return invalid("There is no room."); });
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().message, "There is no room.");
}

}  // namespace
}  // namespace vkfuse::test
