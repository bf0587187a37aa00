// Concatenations and assignments to slices whose parts begin at multiples of one step are computed part by part in
// one loop body: rotary embeddings read each element once.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/compare.hpp"
#include "support/random.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::test {
namespace {

constexpr std::uint64_t kSeeds = 60;

struct Count {
  int loads = 0, stores = 0, choices = 0, predicates = 0;
};

Count count_of(const Executable& program) {
  const auto specialization = specialization_of(program, {});
  Count count;
  for (const plan::ScheduledKernel& step : specialization->steps) {
    count.stores += static_cast<int>(step.loops.stores.size());
    for (const segment::Value& value : step.loops.values) {
      count.loads += value.kind == segment::Value::Kind::load ? 1 : 0;
      count.choices += value.kind == segment::Value::Kind::choose ? 1 : 0;
      count.predicates += static_cast<int>(value.predicates.size());
    }
  }
  return count;
}

TEST(Parts, RotaryReadsEachElementOnce) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor q = Tensor::input("q", dtype, {2, 3, 20, 64});
    const ir::Graph graph =
        graph_of({rotary(q, Tensor::input("cosine", dtype, {20, 32}), Tensor::input("sine", dtype, {20, 32}))});
    const Executable program = compile_graph(graph, Build{});
    EXPECT_TRUE(are_kernels(program.kernel_count(), 1));
    const Count count = count_of(program);
    EXPECT_EQ(count.loads, 4) << "two halves, a cosine and a sine";
    EXPECT_EQ(count.stores, 2);
    EXPECT_EQ(count.choices + count.predicates, 0);
    compare_with_reference(program, graph, data_for({graph, {}, 5, false}),
                           fmt::format("rotary of {}", name_of(dtype)));
  }
}

TEST(Parts, OfRowsThatDataPicksStayTogether) {
  const Tensor q = Tensor::input("q", DType::f32, {6, 32});
  const Tensor table = Tensor::input("table", DType::f32, {50, 16});
  const Tensor index = Tensor::input("index50", DType::i32, {6});
  const ir::Graph graph = graph_of({rotary(q, table.gather(index, 0), sin(table).gather(index, 0))});
  const Executable program = compile_graph(graph, Build{});
  EXPECT_EQ(count_of(program).choices, 0) << ir::print(graph);
  compare_with_reference(program, graph, data_for({graph, {}, 7, false}), "rotary with positions");
}

/// Positions are data, and are joined from parts themselves: two prompts of one length, looked up together.
TEST(Parts, OfPositionsAreLookedUpInEachPart) {
  const Tensor table = Tensor::input("table", DType::f16, {50, 16});
  const auto ids = [](const char* name, std::int64_t rows) { return Tensor::input(name, DType::i32, {rows, 8}); };
  const Tensor joined = concat({ids("index50a", 2), ids("index50b", 2)}, 0);
  const Tensor written = ids("index50c", 4).slice_assign(ids("index50d", 2), {2, 0});
  const Tensor padded = ids("index50e", 2).pad({2, 0}, {0, 0}, 3);
  for (const Tensor& positions : {joined, written, padded}) {
    for (const bool fusion : {true, false}) {
      const ir::Graph graph = graph_of({table.gather(positions, 0) * 2.0});
      compare_with_reference(compile_graph(graph, {.fusion = fusion}), graph, data_for({graph, {}, 11, false}),
                             "positions of parts");
    }
  }
}

/// A part that is not a whole number of vectors, and more parts than one body holds, are left as they are.
TEST(Parts, ThatWouldCostVectorsAreChosen) {
  const auto joined = [](std::int64_t a, std::int64_t b) {
    return graph_of({concat({-Tensor::input("a", DType::f32, {5, a}), Tensor::input("b", DType::f32, {5, b})}, 1)});
  };
  for (const auto& [a, b, choices] :
       {std::tuple<std::int64_t, std::int64_t, int>{32, 48, 0}, {4, 4, 1}, {16, 144, 1}}) {
    const ir::Graph graph = joined(a, b);
    const Executable program = compile_graph(graph, Build{});
    EXPECT_EQ(count_of(program).choices, choices) << a << " and " << b;
    compare_with_reference(program, graph, data_for({graph, {}, 9, false}), fmt::format("{} and {}", a, b));
  }
}

/// Random parts along a random axis, with work before and after, another user, and slices written over.
ir::Graph random_parts(std::uint64_t seed) {
  Random random(seed);
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::i8, DType::i32, DType::i64};
  const DType dtype = kTypes[random.below(std::size(kTypes))];
  const std::size_t rank = 1 + random.below(4);
  const std::size_t axis = random.below(rank);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < rank; ++i) sizes.push_back(1 + static_cast<std::int64_t>(random.below(9)));
  const std::int64_t step = axis + 1 == rank ? 8 * (1 + static_cast<std::int64_t>(random.below(4)))
                                             : 1 + static_cast<std::int64_t>(random.below(5));
  std::vector<Tensor> parts;
  std::int64_t total = 0;
  const auto shape_with = [&](std::int64_t size) {
    std::vector<Dim> dims(sizes.begin(), sizes.end());
    dims[axis] = size;
    return Shape(dims);
  };
  for (std::size_t i = 0; i < 2 + random.below(3); ++i) {
    const std::int64_t size = step * (1 + static_cast<std::int64_t>(random.below(3)));
    const Tensor part = Tensor::input("x" + std::to_string(i), dtype, shape_with(size));
    total += size;
    // A part that is a slice of something the other parts see as well.
    parts.push_back(random.chance(30) && i > 0 && parts[0].shape()[axis].size() == size ? parts[0] + part
                    : random.chance(50)                                                 ? abs(part)
                                                                                        : part);
  }
  Tensor y = concat(parts, static_cast<int>(axis));
  if (random.chance(50)) y = y * Tensor::input("scale", dtype, shape_with(1));
  if (random.chance(30) && total >= 3 * step) {
    std::vector<std::int64_t> starts(rank, 0);
    starts[axis] = step;
    y = y.slice_assign(Tensor::input("over", dtype, shape_with(step)), starts);
  }
  if (random.chance(30)) y = y.reverse({static_cast<int>(axis)});
  if (random.chance(30)) return graph_of({y, y + y});
  return graph_of({y});
}

TEST(Parts, AtRandom) {
  std::uint64_t together = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const ir::Graph graph = random_parts(seed);
    for (const bool fusion : {true, false}) {
      const Executable program = compile_graph(graph, {.fusion = fusion});
      together += fusion && count_of(program).stores > static_cast<int>(graph.outputs().size()) ? 1 : 0;
      compare_with_reference(program, graph, data_for({graph, {}, seed, false}),
                             fmt::format("seed {}{}", seed, fusion ? "" : ", unfused"));
    }
  }
  EXPECT_GE(together, kSeeds / 4) << "of the graphs that the test is about";
}

}  // namespace
}  // namespace vkfuse::test
