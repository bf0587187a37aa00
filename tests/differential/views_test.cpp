// Views cost nothing wherever they stand: one kernel, the widest accesses that the shape allows, and no byte
// more than what is looked at.
#include <gtest/gtest.h>

#include "support/compare.hpp"

namespace vkfuse::test {
namespace {

/// Widths of the accesses of one dtype.
struct Widths {
  std::vector<int> load;             ///< of x, with the view between x and the result
  std::vector<int> store;            ///< of the result
  std::vector<int> row_load;         ///< of x, where rows of the view are added up
  std::vector<int> row_store = {4};  ///< of the sums: 16 where lanes own neighbouring rows
};

struct View {
  const char* name;
  Shape shape;  ///< of x
  Tensor (*build)(const Tensor& x);
  std::int64_t touched;  ///< elements of x and of what else the view reads that some result looks at
  Widths f32;
  Widths f16;
  /// Bytes of positions, whatever the dtype of x.
  std::int64_t position_bytes = 0;
  friend std::ostream& operator<<(std::ostream& out, const View& view) { return out << view.name; }
};

Tensor other(const Tensor& x, Shape shape) { return Tensor::input("z", x.dtype(), std::move(shape)); }
Tensor positions(std::int64_t below, Shape shape) {
  return Tensor::input(fmt::format("index{}", below), DType::i32, std::move(shape));
}

constexpr std::int64_t kAll = 24 * 64;
const Widths kWhole = {{16}, {16}, {16}};

// x is [24, 64], or the same elements with more axes. 16 bytes are 4 elements of f32 and 8 of f16. A width is
// less only where elements that the result has side by side are not side by side in x, or begin off a
// multiple of 16 bytes.
const View kViews[] = {
    {"reshape",
     {24, 64},
     [](const Tensor& x) {
       return x.reshape({6, 256});
     },
     kAll,
     kWhole,
     kWhole},
    {"reshape_to_more_axes",
     {24, 64},
     [](const Tensor& x) {
       return x.reshape({3, 8, 2, 32});
     },
     kAll,
     kWhole,
     kWhole},
    {"flatten", {3, 8, 64}, [](const Tensor& x) { return x.reshape({-1}); }, kAll, kWhole, kWhole},
    {"unsqueeze", {24, 64}, [](const Tensor& x) { return x.unsqueeze(1); }, kAll, kWhole, kWhole},
    {"swap_dims", {4, 6, 64}, [](const Tensor& x) { return x.swap_dims(0, 1); }, kAll, kWhole, kWhole},
    {"permute",
     {4, 6, 8, 8},
     [](const Tensor& x) {
       return x.permute({2, 0, 1, 3});
     },
     kAll,
     kWhole,
     kWhole},
    {"transpose",
     {24, 64},
     [](const Tensor& x) { return x.transpose(); },
     kAll,
     {{4}, {16}, {16}, {16}},
     {{4}, {16}, {16}, {16}}},
    {"slice_of_rows", {24, 64}, [](const Tensor& x) { return x.slice(0, 3, 20); }, 17 * 64, kWhole, kWhole},
    {"slice_at_a_vector", {24, 64}, [](const Tensor& x) { return x.slice(1, 8, 40); }, 24 * 32, kWhole, kWhole},
    {"slice_beside_a_vector",
     {24, 64},
     [](const Tensor& x) { return x.slice(1, 3, 35); },
     24 * 32,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}}},
    {"slice_every_other_row", {24, 64}, [](const Tensor& x) { return x.slice(0, 1, 24, 2); }, 12 * 64, kWhole, kWhole},
    {"slice_every_other_column",
     {24, 64},
     [](const Tensor& x) { return x.slice(1, 0, 64, 2); },
     24 * 32,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}}},
    {"slice_backwards", {24, 64}, [](const Tensor& x) { return x.slice(0, -1, 2, -3); }, 7 * 64, kWhole, kWhole},
    {"select_a_row", {24, 64}, [](const Tensor& x) { return x.select(0, 5); }, 64, kWhole, kWhole},
    {"select_a_column",
     {24, 64},
     [](const Tensor& x) { return x.select(1, 5); },
     24,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}}},
    {"reverse_rows", {24, 64}, [](const Tensor& x) { return x.reverse({0}); }, kAll, kWhole, kWhole},
    {"reverse_columns",
     {24, 64},
     [](const Tensor& x) { return x.reverse({1}); },
     kAll,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}}},
    {"broadcast",
     {1, 64},
     [](const Tensor& x) {
       return x.broadcast_to({24, 64});
     },
     64,
     kWhole,
     kWhole},
    {"repeat_rows",
     {24, 64},
     [](const Tensor& x) {
       return x.repeat({3, 1});
     },
     kAll,
     kWhole,
     kWhole},
    {"repeat_columns",
     {24, 64},
     [](const Tensor& x) {
       return x.repeat({1, 2});
     },
     kAll,
     kWhole,
     kWhole},
    {"pad_rows",
     {24, 64},
     [](const Tensor& x) {
       return x.pad({2, 0}, {3, 0}, 1.5);
     },
     kAll,
     kWhole,
     kWhole},
    {"pad_by_a_vector",
     {24, 64},
     [](const Tensor& x) {
       return x.pad({0, 8}, {0, 16}, 1.5);
     },
     kAll,
     kWhole,
     kWhole},
    {"pad_by_one",
     {24, 62},
     [](const Tensor& x) {
       return x.pad({1, 1}, {1, 1}, 1.5);
     },
     24 * 62,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}}},
    {"concat_of_rows",
     {24, 64},
     [](const Tensor& x) {
       return concat({x, other(x, {5, 64})}, 0);
     },
     kAll + 5 * 64,
     kWhole,
     kWhole},
    {"concat_of_columns",
     {24, 64},
     [](const Tensor& x) {
       return concat({other(x, {24, 32}), x}, 1);
     },
     kAll + 24 * 32,
     kWhole,
     kWhole},
    {"slice_assign_of_rows",
     {24, 64},
     [](const Tensor& x) {
       return x.slice_assign(other(x, {8, 64}), {3, 0});
     },
     kAll,
     kWhole,
     kWhole},
    {"slice_assign_at_a_vector",
     {24, 64},
     [](const Tensor& x) {
       return x.slice_assign(other(x, {24, 32}), {0, 16});
     },
     kAll,
     kWhole,
     kWhole},
    {"slice_assign_beside_a_vector",
     {24, 64},
     [](const Tensor& x) {
       return x.slice_assign(other(x, {24, 10}), {0, 3});
     },
     kAll,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}}},
    {"unfold_side_by_side", {24, 64}, [](const Tensor& x) { return x.unfold(1, 8, 8); }, kAll, kWhole, kWhole},
    {"unfold_overlapping",
     {24, 66},
     [](const Tensor& x) { return x.unfold(1, 3).swap_dims(1, 2); },
     24 * 66,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}}},
    {"gather_of_rows",
     {24, 64},
     [](const Tensor& x) { return x.gather(positions(24, {10}), 0); },
     10 * 64,
     kWhole,
     kWhole,
     40},
    {"gather_of_columns",
     {24, 64},
     [](const Tensor& x) { return x.gather(positions(64, {32}), 1); },
     24 * 32,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}},
     128},
    {"embedding",
     {24, 64},
     [](const Tensor& x) {
       return x.gather(positions(24, {4, 8}), 0);
     },
     kAll,
     kWhole,
     kWhole,
     128},
    {"take_along",
     {24, 64},
     [](const Tensor& x) {
       return x.take_along(positions(64, {24, 16}), 1);
     },
     24 * 16,
     {{4}, {16}, {4}},
     {{4}, {16}, {4}},
     24 * 16 * 4},
};

class Views : public testing::TestWithParam<View> {
 protected:
  static Tensor viewed(const Tensor& x) { return GetParam().build(x); }

  static std::int64_t elements(const Tensor& tensor) { return must(element_count(must(resolve(tensor.shape(), {})))); }

  /// One kernel, and not a byte more than what is looked at.
  static void check(const Tensor& y, const std::vector<int>& loads, const std::vector<int>& stores, const char* where) {
    const std::string what = fmt::format("{} of {}, {}", GetParam().name, name_of(y.dtype()), where);
    const ir::Graph graph = graph_of({y});
    const Data data = data_for({graph, {}, 17, false});
    // A GPU takes smaller chunks of few elements, lest it be idle, unless it is told.
    Build how;
    if (target().type != DeviceType::cpu) how.tuning.vector_bytes = 16;
    const Executable fused = compile_graph(graph, how);
    EXPECT_TRUE(are_kernels(fused.kernel_count(), 1)) << what << "\n" << ir::print(graph);
    // A tile that is turned in shared memory, as on GPUs, is read in vectors however it lies.
    const bool turned = target().type != DeviceType::cpu &&
                        specialization_of(fused)->steps[0].schedule.kind() == schedule::Template::transpose;
    EXPECT_EQ(load_widths(fused, "x"), turned ? std::vector<int>{16} : loads) << what;
    EXPECT_EQ(store_widths(fused, "y"), stores) << what;
    const std::int64_t ideal = (GetParam().touched + elements(y)) * size_of(y.dtype()) + GetParam().position_bytes;
    EXPECT_EQ(bytes_moved(fused), ideal) << what << "\n" << ir::print(graph);
    compare_with_reference(fused, graph, data, what);
  }

  static void check_all(DType dtype, const Widths& widths) {
    const Tensor x = Tensor::input("x", dtype, GetParam().shape);
    check(viewed(x) * 3.0, widths.load, widths.store, "of an input");
    check(-viewed(abs(x)), widths.load, widths.store, "between two ops");
    const Tensor rows = viewed(abs(x)) * 0.25;
    check(rows.sum({-1}), widths.row_load, widths.row_store, "before a row reduction");
    // The view as a kernel of its own.
    const ir::Graph graph = graph_of({viewed(x)});
    compare_with_reference(compile_graph(graph, {.fusion = false}), graph, data_for({graph, {}, 18, false}),
                           fmt::format("{} alone", GetParam().name));
  }
};

TEST_P(Views, AreOneKernelOfF32) { check_all(DType::f32, GetParam().f32); }
TEST_P(Views, AreOneKernelOfF16) { check_all(DType::f16, GetParam().f16); }

INSTANTIATE_TEST_SUITE_P(Differential, Views, testing::ValuesIn(kViews),
                         [](const auto& view) { return std::string(view.param.name); });

// --- several together ----------------------------------------------------------------------------------

void expect_one_kernel(const ir::Graph& graph, const std::string& what) {
  const Executable fused = compile_graph(graph, Build{});
  EXPECT_TRUE(are_kernels(fused.kernel_count(), 1)) << what << "\n" << ir::print(graph);
  compare_with_reference(fused, graph, data_for({graph, {}, 19, false}), what);
}

TEST(ViewChains, ReshapesAndPermutesAroundASoftmax) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    // The heads of attention: [batch, length, heads x size] seen as [heads, batch x length, size] and back.
    const Tensor x = Tensor::input("x", dtype, {4, 12, 6 * 64});
    const Tensor heads = x.reshape({48, 6, 64}).permute({1, 0, 2});
    const Tensor scaled = softmax(heads * 0.125).permute({1, 0, 2}).reshape({4, 12, 6 * 64});
    const ir::Graph graph = graph_of({scaled});
    expect_one_kernel(graph, "softmax of heads");
    const Executable fused = compile_graph(graph, Build{});
    EXPECT_EQ(load_widths(fused, "x"), std::vector<int>{16});
    EXPECT_EQ(store_widths(fused, "y"), std::vector<int>{16});
    EXPECT_EQ(bytes_moved(fused), 2 * 4 * 12 * 6 * 64 * size_of(dtype));
  }
}

TEST(ViewChains, ViewsOfViewsOfComputedValues) {
  const Tensor x = Tensor::input("x", DType::f32, {6, 10, 16});
  const Tensor table = Tensor::input("table", DType::f32, {40, 16});
  expect_one_kernel(
      graph_of({exp(relu(x).permute({1, 2, 0}).slice(0, 2, 9).reshape({7, 96}).reverse({0}) * 0.5).transpose()}),
      "permute, slice, reshape, reverse, transpose");
  expect_one_kernel(graph_of({(x.slice(2, 0, 8) * x.slice(2, 8, 16)).unsqueeze(0)}), "two halves of one input");
  expect_one_kernel(graph_of({concat({-x.slice(2, 8, 16), x.slice(2, 0, 8)}, 2) + x}), "rotated halves");
  expect_one_kernel(graph_of({(table.gather(positions(40, {6, 10}), 0) + x).mean({2})}), "embedding, add, mean");
  expect_one_kernel(graph_of({x.pad({0, 1, 1}, {0, 1, 1}).unfold(1, 3, 1).unfold(2, 3, 1).max({3, 4})}), "pooling");
  expect_one_kernel(graph_of({concat({x * 2.0, x.reverse({1}), sqrt(abs(x))}, 0).slice(0, 3, 15).sum({1, 2})}),
                    "concat, slice, sum");
}

/// What has no elements stands nowhere, and none of its operand's are read in its place.
TEST(ViewChains, NothingIsPaddedAndAssigned) {
  const Tensor x = Tensor::input("x", DType::f32, {4, 3});
  const Tensor nothing = x.slice(1, 3, 3);
  expect_one_kernel(graph_of({nothing.pad({0, 1}, {0, 2}, 7.0) * 2.0}), "a pad of nothing");
  expect_one_kernel(graph_of({relu(concat({nothing, x}, 1))}), "a concatenation with nothing");
  expect_one_kernel(graph_of({relu(x.slice_assign(Tensor::input("u", DType::f32, {4, 0}), {0, 1}))}),
                    "an assignment of nothing");
}

TEST(ViewChains, PositionsOutOfRangeAreTheNearestElement) {
  for (const DType dtype : {DType::i32, DType::i64, DType::u32}) {
    const Tensor x = Tensor::input("x", DType::f32, {24, 5});
    const Tensor anywhere = Tensor::input("anywhere", dtype, {50});  // from far below 0 to far above 24
    expect_one_kernel(graph_of({x.gather(anywhere, 0) + 1.0}), fmt::format("gather at {}", name_of(dtype)));
    expect_one_kernel(graph_of({x.take_along(anywhere.reshape({50, 1}), 0) + 1.0}),
                      fmt::format("take_along at {}", name_of(dtype)));
  }
}

TEST(ViewChains, ScattersAreTwoKernelsAtMost) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i32}) {
    for (const char* mode : {"set", "add", "mul", "max", "min"}) {
      const Tensor x = Tensor::input("x", dtype, {24, 64});
      const Tensor updates = Tensor::input("updates", dtype, {10, 64});
      const Tensor rows = positions(24, {10});  // ten of 24: some twice
      const Tensor graphs[] = {x.scatter(rows, updates, mode) * 3.0, -abs(x).scatter(rows, updates, mode),
                               abs(x).scatter(rows, updates, mode).max({1})};
      for (const Tensor& y : graphs) {
        const ir::Graph graph = graph_of({y});
        const Executable fused = compile_graph(graph, Build{});
        EXPECT_TRUE(are_kernels_at_most(fused.kernel_count(), 2)) << mode << "\n" << ir::print(graph);
        compare_with_reference(fused, graph, data_for({graph, {}, 20, false}), mode);
      }
    }
  }
}

}  // namespace
}  // namespace vkfuse::test
