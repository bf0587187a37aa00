// Views and positions in data, against loops over coordinates.
#include <cmath>

#include "unit/reference/evaluated.hpp"

namespace vkfuse::test {
namespace {

/// The view of a counted f32 input "x" of these sizes.
Evaluated viewed(const Dense& x, const std::string& statement) {
  return evaluated({fmt::format("input \"x\" : f32[{}]", fmt::join(x.sizes, ", ")), statement},
                   Inputs().add("x", floats(x)));
}

TEST(ReferenceViews, ReshapeKeepsTheOrder) {
  const Dense x = counted({4, 6});
  std::size_t next = 0;
  expect_each(viewed(x, "reshape %0 : f32[2, 3, 4]"), {2, 3, 4},
              [&](const At&) { return static_cast<double>(next++); });
}

TEST(ReferenceViews, PermuteOfEveryOrder) {
  const Dense x = counted({2, 3, 4});
  const std::vector<std::vector<int>> orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& axes : orders) {
    Sizes sizes;
    for (int axis : axes) sizes.push_back(x.sizes[static_cast<std::size_t>(axis)]);
    const auto y =
        viewed(x, fmt::format("permute axes=[{}] %0 : f32[{}]", fmt::join(axes, ", "), fmt::join(sizes, ", ")));
    expect_each(y, sizes, [&](const At& at) {
      At from(3);
      for (std::size_t i = 0; i < 3; ++i) from[static_cast<std::size_t>(axes[i])] = at[i];
      return x.at(from);
    });
  }
}

TEST(ReferenceViews, BroadcastStretchesAndPutsInFront) {
  const Dense x = counted({3, 1, 2});
  expect_each(viewed(x, "broadcast %0 : f32[4, 3, 5, 2]"), {4, 3, 5, 2}, [&](const At& at) {
    return x.at({at[1], 0, at[3]});
  });
  expect_each(viewed(counted({}), "broadcast %0 : f32[2, 2]"), {2, 2}, [](const At&) { return 0; });
}

TEST(ReferenceViews, SlicesInStepsEitherWay) {
  const Dense x = counted({7, 9});
  expect_each(viewed(x, "slice starts=[1, 0] steps=[2, 3] %0 : f32[3, 3]"), {3, 3}, [&](const At& at) {
    return x.at({1 + 2 * at[0], 3 * at[1]});
  });
  expect_each(viewed(x, "slice starts=[6, 7] steps=[-3, -1] %0 : f32[3, 8]"), {3, 8}, [&](const At& at) {
    return x.at({6 - 3 * at[0], 7 - at[1]});
  });
  expect_each(viewed(x, "slice starts=[0, 9] steps=[1, -4] %0 : f32[7, 0]"), {7, 0}, [](const At&) { return -1; });
}

TEST(ReferenceViews, ReverseOfSeveralAxes) {
  const Dense x = counted({3, 4, 5});
  expect_each(viewed(x, "reverse axes=[2, 0] %0 : f32[3, 4, 5]"), {3, 4, 5}, [&](const At& at) {
    return x.at({2 - at[0], at[1], 4 - at[2]});
  });
}

TEST(ReferenceViews, PadIsTheScalarOutside) {
  const Dense x = counted({3, 4});
  const auto y =
      evaluated({"input \"x\" : f32[3, 4]", "input \"v\" : f32[]", "pad low=[1, 0] high=[2, 3] %0 %1 : f32[6, 7]"},
                Inputs().add("x", floats(x)).add("v", std::vector<float>{-8}));
  expect_each(y, {6, 7}, [&](const At& at) {
    return at[0] >= 1 && at[0] < 4 && at[1] < 4 ? x.at({at[0] - 1, at[1]}) : -8;
  });
}

TEST(ReferenceViews, ConcatSkipsEmptyOperands) {
  const Dense a = counted({2, 3, 2});
  const Dense b = counted({2, 4, 2});
  const auto y = evaluated({"input \"a\" : f32[2, 3, 2]", "input \"e\" : f32[2, 0, 2]", "input \"b\" : f32[2, 4, 2]",
                            "concat axis=1 %1 %0 %1 %2 %0 : f32[2, 10, 2]"},
                           Inputs().add("a", floats(a)).add("e", std::vector<float>{}).add("b", floats(b)));
  expect_each(y, {2, 10, 2}, [&](const At& at) {
    const std::int64_t i = at[1];
    return i < 3 ? a.at({at[0], i, at[2]}) : i < 7 ? b.at({at[0], i - 3, at[2]}) : a.at({at[0], i - 7, at[2]});
  });
}

TEST(ReferenceViews, UnfoldWithStridesAndDilations) {
  const Dense x = counted({2, 9, 8});
  const auto y = viewed(x, "unfold axes=[2, 1] sizes=[2, 3] strides=[3, 2] dilations=[2, 3] %0 : f32[2, 2, 2, 2, 3]");
  expect_each(y, {2, 2, 2, 2, 3}, [&](const At& at) {
    return x.at({at[0], at[1] * 2 + at[4] * 3, at[2] * 3 + at[3] * 2});
  });
}

TEST(ReferenceViews, SliceAssignWritesOverItsRun) {
  const Dense x = counted({6, 7});
  Dense wanted = x;
  Dense update = counted({2, 3});
  for (double& element : update.elements) element = -1 - element;
  each(update.sizes, [&](const At& at) { wanted.at({5 - 4 * at[0], 1 + 2 * at[1]}) = update.at(at); });
  const auto y = evaluated({"input \"x\" : f32[6, 7]", "input \"u\" : f32[2, 3]",
                            "slice_assign starts=[5, 1] steps=[-4, 2] %0 %1 : f32[6, 7]"},
                           Inputs().add("x", floats(x)).add("u", floats(update)));
  expect_each(y, {6, 7}, [&](const At& at) { return wanted.at(at); });
}

TEST(ReferenceViews, SymbolsAreRegrouped) {
  const Dense x = counted({4, 6});
  const auto y =
      evaluated({"input \"x\" : f32[n, 6]", "reshape %0 : f32[2, n, 3]", "reverse axes=[1] %1 : f32[2, n, 3]"},
                Inputs().add("x", floats(x)).size("n", 4));
  expect_each(y, {2, 4, 3}, [&](const At& at) { return static_cast<double>(at[0] * 12 + (3 - at[1]) * 3 + at[2]); });
}

TEST(ReferenceGathers, PositionsAreClamped) {
  const Dense x = counted({2, 4, 3});
  const std::vector<std::int32_t> signed_positions = {0, 3, -1, 4, 2, -2147483648};
  const auto y =
      evaluated({"input \"x\" : f32[2, 4, 3]", "input \"i\" : i32[2, 3]", "gather axis=1 %0 %1 : f32[2, 2, 3, 3]"},
                Inputs().add("x", floats(x)).add("i", signed_positions));
  expect_each(y, {2, 2, 3, 3}, [&](const At& at) {
    const std::int64_t i = signed_positions[static_cast<std::size_t>(at[1] * 3 + at[2])];
    return x.at({at[0], i < 0 ? 0 : i > 3 ? 3 : i, at[3]});
  });
  const std::vector<std::uint32_t> words = {0, 4294967295U, 1};
  expect_each(evaluated({"input \"x\" : f32[2, 4, 3]", "input \"i\" : u32[3]", "gather axis=0 %0 %1 : f32[3, 4, 3]"},
                        Inputs().add("x", floats(x)).add("i", words)),
              {3, 4, 3}, [&](const At& at) {
                return x.at({at[0] == 0 ? 0 : 1, at[1], at[2]});
              });
  const std::vector<std::int64_t> one = {std::int64_t{1} << 40};
  expect_each(evaluated({"input \"x\" : f32[2, 4, 3]", "input \"i\" : i64[]", "gather axis=2 %0 %1 : f32[2, 4]"},
                        Inputs().add("x", floats(x)).add("i", one)),
              {2, 4}, [&](const At& at) {
                return x.at({at[0], at[1], 2});
              });
}

TEST(ReferenceGathers, TakeAlongStretchesItsPositions) {
  const Dense x = counted({2, 4, 3});
  const std::vector<std::int32_t> positions = {3, 0, 9, 1, -5};
  const auto y =
      evaluated({"input \"x\" : f32[2, 4, 3]", "input \"i\" : i32[1, 5, 1]", "take_along axis=1 %0 %1 : f32[2, 5, 3]"},
                Inputs().add("x", floats(x)).add("i", positions));
  const std::int64_t clamped[] = {3, 0, 3, 1, 0};
  expect_each(y, {2, 5, 3}, [&](const At& at) { return x.at({at[0], clamped[at[1]], at[2]}); });
  const std::vector<std::int32_t> all = {0, 1, 2, 3, 3, 2, 1, 0, 1, 1, 1, 1, 2, 0, 2, 0, 0, 0, 0, 0, 3, 3, 3, 3};
  const auto z =
      evaluated({"input \"x\" : f32[2, 4, 3]", "input \"i\" : i32[2, 4, 3]", "take_along axis=1 %0 %1 : f32[2, 4, 3]"},
                Inputs().add("x", floats(x)).add("i", all));
  std::size_t next = 0;
  expect_each(z, {2, 4, 3}, [&](const At& at) { return x.at({at[0], all[next++], at[2]}); });
}

TEST(ReferenceGathers, AnUndecidedPositionDecidesNothing) {
  const auto y = evaluated({"input \"x\" : f32[4]", "exp %0 : f32[4]", "floor %1 : f32[4]", "cast %2 : i32[4]",
                            "gather axis=0 %0 %3 : f32[4]"},
                           Inputs().add("x", std::vector<float>{0, 1, 2, 3}));
  EXPECT_TRUE(std::isinf(y.column.bound[0]));  // e^0 may come out below 1
  EXPECT_EQ(y.column.value[1], 2);
  EXPECT_EQ(y.column.bound[1], 0);
}

TEST(ReferenceGathers, AnAxisThatIsEmptyInThisRunIsAnError) {
  const ir::Graph graph = graph_of({"input \"x\" : f32[n]", "input \"i\" : i32[2]", "gather axis=0 %0 %1 : f32[2]"});
  const Inputs inputs = Inputs().add("x", std::vector<float>{}).add("i", std::vector<std::int32_t>{0, 0}).size("n", 0);
  const auto result = reference::evaluate(graph, 2, inputs.input_bindings());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "'gather' reads along axis 0 of f32[n], which has no elements in this run.");
}

struct ScatterCase {
  const char* mode;
  double (*join)(double, double);
};

TEST(ReferenceScatter, JoinsDuplicatesInOrderAndDropsWhatIsOutside) {
  const Dense base = counted({4, 3});
  const std::vector<std::int32_t> rows = {2, 0, 2, -1, 4, 2, 0};
  Dense updates = counted({7, 3});
  for (std::size_t i = 0; i < updates.elements.size(); ++i) updates.elements[i] = static_cast<double>((i * 7) % 11) - 4;
  const ScatterCase cases[] = {{"set", [](double, double b) { return b; }},
                               {"add", [](double a, double b) { return a + b; }},
                               {"mul", [](double a, double b) { return a * b; }},
                               {"max", [](double a, double b) { return std::max(a, b); }},
                               {"min", [](double a, double b) { return std::min(a, b); }}};
  for (const ScatterCase& one : cases) {
    Dense wanted = base;
    for (std::int64_t k = 0; k < 7; ++k) {
      const std::int64_t row = rows[static_cast<std::size_t>(k)];
      for (std::int64_t c = 0; row >= 0 && row < 4 && c < 3; ++c)
        wanted.at({row, c}) = one.join(wanted.at({row, c}), updates.at({k, c}));
    }
    const auto y = evaluated({"input \"x\" : f32[4, 3]", "input \"i\" : i32[7]", "input \"u\" : f32[7, 3]",
                              fmt::format("scatter mode={} %0 %1 %2 : f32[4, 3]", one.mode)},
                             Inputs().add("x", floats(base)).add("i", rows).add("u", floats(updates)));
    expect_each(
        y, {4, 3}, [&](const At& at) { return wanted.at(at); }, one.mode);
    for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(y.column.bound[i], 0) << "row 1 is not written";
  }
  const auto bytes = evaluated(
      {"input \"x\" : i8[1]", "input \"i\" : i32[2]", "input \"u\" : i8[2]", "scatter mode=add %0 %1 %2 : i8[1]"},
      Inputs()
          .add("x", std::vector<std::int8_t>{100})
          .add("i", std::vector<std::int32_t>{0, 0})
          .add("u", std::vector<std::int8_t>{100, 100}));
  EXPECT_EQ(bytes.column.integer[0], 300 - 256);
}

TEST(ReferenceScatter, AnUndecidedRowDecidesNothing) {
  const auto y = evaluated({"input \"x\" : f32[2]", "exp %0 : f32[2]", "floor %1 : f32[2]", "cast %2 : i32[2]",
                            "scatter mode=set %0 %3 %0 : f32[2]"},
                           Inputs().add("x", std::vector<float>{0, 9}));
  EXPECT_TRUE(std::isinf(y.column.bound[0]));
  EXPECT_TRUE(std::isinf(y.column.bound[1]));
}

}  // namespace
}  // namespace vkfuse::test
